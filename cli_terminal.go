// The terminal: whether there is one, how wide it is, and questions to its user.
package main

import (
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

// isTerminal says whether w (or a reader) is a terminal.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	var t syscall.Termios
	return ioctl(f, syscall.TCGETS, unsafe.Pointer(&t)) == nil
}

func ioctl(f *os.File, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// terminalWidth is the width of the terminal w, of COLUMNS, or 80.
func terminalWidth(w any) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if f, ok := w.(*os.File); ok {
		var size struct{ rows, cols, x, y uint16 }
		if ioctl(f, syscall.TIOCGWINSZ, unsafe.Pointer(&size)) == nil && size.cols > 0 {
			return int(size.cols)
		}
	}
	return 80
}

// withoutEcho runs f while the terminal in does not show what is typed.
func withoutEcho(in any, f func() error) error {
	tty, ok := in.(*os.File)
	if !ok {
		return f()
	}
	var before syscall.Termios
	if ioctl(tty, syscall.TCGETS, unsafe.Pointer(&before)) != nil {
		return f()
	}
	silent := before
	silent.Lflag &^= syscall.ECHO
	if err := ioctl(tty, syscall.TCSETS, unsafe.Pointer(&silent)); err != nil {
		return f()
	}
	defer ioctl(tty, syscall.TCSETS, unsafe.Pointer(&before))
	return f()
}
