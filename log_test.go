// Log lines are Salt's, go where they should, and cost nothing when nobody
// reads them.
package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestConsoleLinesAreSalts(t *testing.T) {
	var b bytes.Buffer
	log := NewLogger(&b, "trace")
	log.Info("hello")
	log.Warn("who", "id", "web 1", "err", errors.New("it's late"), "password", "hunter2", "k", Secret("x"))
	log.With(LogName, "salt.minion").WithGroup("g").Error("text", "a", 1)
	log.Log(context.Background(), LevelCritical, "end")
	log.Log(context.Background(), LevelTrace, "t")
	log.Log(context.Background(), LevelGarbage, "not shown")
	want := `[INFO    ] hello
[WARNING ] who id="web 1" err="it's late" password=******** k=********
[ERROR   ] text g.a=1
[CRITICAL] end
[TRACE   ] t
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestLogLevelsOfConsoleAndFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "sub", "log")
	o := NewOptions(NewMap("log_level", "error", "log_level_logfile", "info", "log_file", file))
	var console bytes.Buffer
	log, closeLog := OpenLog(o, &console, "log_file")
	log.Debug("unseen")
	if _, err := os.Stat(file); err == nil {
		t.Error("a file was made before there was a line for it")
	}
	log.Info("in the file", LogName, "salt.x")
	log.Error("in both")
	os.Rename(file, file+".moved")
	if err := closeLog(); err != nil {
		t.Fatal(err)
	}
	log.Error("after the rotation")
	closeLog()
	if console.String() != "[ERROR   ] in both\n[ERROR   ] after the rotation\n" {
		t.Errorf("console: %q", console.String())
	}
	moved, _ := os.ReadFile(file + ".moved")
	line := regexp.MustCompile(`^20\d\d-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} \[salt\.x           :\d+ *\]\[INFO    \]\[\d+\] in the file\n`)
	if !line.Match(moved) {
		t.Errorf("file: %q", moved)
	}
	if now, _ := os.ReadFile(file); !strings.HasSuffix(string(now), "after the rotation\n") {
		t.Errorf("file after it was moved: %q", now)
	}
}

func TestLogFileRotatesBySize(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	l := &logFile{path: file, maxBytes: 20, keep: 2, complain: func(err error) { t.Error(err) }}
	for _, text := range []string{"first line\n", "second line\n", "third line\n", "fourth line\n"} {
		l.Write([]byte(text))
	}
	l.Close()
	for name, want := range map[string]string{file: "fourth line\n", file + ".1": "third line\n", file + ".2": "second line\n"} {
		if got, _ := os.ReadFile(name); string(got) != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestLogFileThatCannotBeOpenedIsSaidOnce(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"plain": ""})
	var console bytes.Buffer
	log, _ := OpenLog(NewOptions(NewMap("log_level", "warning", "log_file", dir+"/plain/log")), &console, "log_file")
	log.Warn("one")
	log.Warn("two")
	if n := strings.Count(console.String(), "Failed to open log file"); n != 1 {
		t.Errorf("said %d times: %q", n, console.String())
	}
}

func TestLogToSyslog(t *testing.T) {
	sock := filepath.Join(t.TempDir(), "s")
	pc, err := net.ListenPacket("unixgram", sock)
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	o := NewOptions(NewMap("log_level", "quiet", "log_level_logfile", "info", "log_file", "file://"+sock+"/LOG_DAEMON", "log_fmt_logfile", "%(levelname)s %(message)s"))
	log, closeLog := OpenLog(o, os.Stderr, "log_file")
	defer closeLog()
	log.Info("text")
	buf := make([]byte, 200)
	n, _, err := pc.ReadFrom(buf)
	if err != nil || string(buf[:n]) != "<30>halite: INFO text" {
		t.Errorf("%q, %v", buf[:n], err)
	}
}

func TestLogHandlerCostsNothingWhenDisabled(t *testing.T) {
	log := NewLogger(&bytes.Buffer{}, "warning")
	if log.Enabled(context.Background(), slog.LevelInfo) {
		t.Error("info is enabled at warning")
	}
	if n := testing.AllocsPerRun(100, func() { log.Info("x") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
