// Memory of a daemon that has nothing to do: what only its start or a storm
// needed is given back to the system.
//
// The law of this file: giving back is always safe and never needed. Most of
// what an idle daemon occupies is the part of its own program that the start
// has touched; it is in the file and can be read again. Pages of the heap that
// hold nothing go with it.
package main

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	trimFirst  = 4 * time.Second  // after the start
	trimEvery  = 10 * time.Second // between looks
	trimFaults = 40               // page faults since the last time that make it worth while
	trimBusy   = 0.02             // share of a processor above which a daemon is not idle
)

// trimWhenIdle gives memory back whenever the process is idle and has touched
// something since the last time, until ctx ends.
func trimWhenIdle(ctx context.Context) {
	pause, trimmed := trimFirst, int64(0)
	_, cpu := usage()
	for sleepContext(ctx, pause) {
		faults, now := usage()
		busy := (now-cpu).Seconds()/pause.Seconds() > trimBusy && pause != trimFirst
		pause, cpu = trimEvery, now
		if busy || faults-trimmed < trimFaults {
			continue
		}
		releaseMemory()
		trimmed, cpu = usage()
	}
}

// usage is the number of page faults so far and the processor time used.
func usage() (faults int64, cpu time.Duration) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, 0
	}
	return int64(u.Minflt), time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// releaseMemory gives back what can be given back.
func releaseMemory() {
	debug.FreeOSMemory()
	releaseProgram()
}

// releaseProgram tells the system that the program's code and constants are
// not needed now. They stay in the page cache and come back by themselves.
func releaseProgram() {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	for lines := bufio.NewScanner(bytes.NewReader(maps)); lines.Scan(); {
		// start-end perms offset device inode path
		f := strings.Fields(lines.Text())
		if len(f) < 6 || f[5] != exe || strings.Contains(f[1], "w") || !strings.HasSuffix(f[1], "p") {
			continue // what was written to would be lost
		}
		from, to, _ := strings.Cut(f[0], "-")
		start, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err1 == nil && err2 == nil && end > start {
			// A refusal leaves everything as it was.
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, uintptr(start), uintptr(end-start), syscall.MADV_DONTNEED)
		}
	}
}
