// Memory of a daemon that has nothing to do: what only its start or a storm
// needed is given back to the system.
//
// The law of this file: giving back is always safe and never needed. Pages of
// the heap that hold nothing are released; pages of the program itself, which
// were read for code that ran once, are unmapped and come back from the file
// system's cache when they are touched again.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
)

// releaseMemory gives back what can be given back.
func releaseMemory() {
	debug.FreeOSMemory()
	releaseProgram()
}

// releaseProgram unmaps the read-only pages of the executable.
func releaseProgram() {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		var from, to uintptr
		var perm string
		line := in.Text()
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &from, &to, &perm); n != 3 || !strings.HasSuffix(line, " "+exe) {
			continue
		}
		if strings.HasPrefix(perm, "r") && !strings.Contains(perm, "w") {
			// A refusal leaves everything as it was.
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_DONTNEED)
		}
	}
}
