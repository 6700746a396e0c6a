// Halite: Salt in one static binary. The name the program is called by, or its
// first argument, decides which command line it is.
//
// The law of this room: nothing but finding the applet happens here. Every
// applet takes its arguments and its three streams and returns its exit code;
// only main ends the process, so that everything else can be tested.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Stdio is what a command line reads from and writes to.
type Stdio struct {
	In       io.Reader
	Out, Err io.Writer
}

// applet is one command line of the binary.
type applet struct {
	name    string
	summary string
	link    bool // a program of its own, which `halite install` makes a link for
	run     func(args []string, std Stdio) int
}

// exitUnknownApplet is the exit code for a name that no applet has.
const exitUnknownApplet = 2

// applets is the one table of command lines, sorted by name.
func applets() []applet {
	return []applet{
		{"completion", "print the completion script of a shell", false, appletCompletion},
		{"demo", "show a master and three minions on this machine", false, appletDemo},
		{"install", "make a link for every program in a directory", false, appletInstall},
		{"man", "print the manual page of a program", false, appletMan},
		{"salt", "run functions on minions and print what they answer", true, appletSalt},
		{"salt-call", "run a function on this machine", true, appletCall},
		{"salt-cp", "copy files to minions", true, appletCp},
		{"salt-key", "show, accept, reject and delete the keys of minions", true, appletSaltKey},
		{"salt-master", "the master daemon", true, appletMaster},
		{"salt-minion", "the minion daemon", true, appletMinion},
		{"salt-run", "run functions on the master", true, appletRun},
		{"salt-swarm", "many minions in one process, to measure a master with", true, appletSwarm},
	}
}

func main() {
	os.Exit(run(os.Args, Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}

// run dispatches args, of which the first is the name the program was called
// by: an applet's name there decides, else the next argument does.
func run(args []string, std Stdio) int {
	if len(args) == 0 {
		return listApplets(std.Err, exitUnknownApplet)
	}
	called, args := filepath.Base(args[0]), args[1:]
	if a, ok := findApplet(called); ok && a.link {
		return a.run(args, std)
	}
	if len(args) == 0 {
		return listApplets(std.Err, exitUnknownApplet)
	}
	switch args[0] {
	case "--version":
		fmt.Fprintf(std.Out, "halite %s (speaks Salt %s)\n", version, saltVersion)
		return 0
	case "-V", "--versions-report":
		io.WriteString(std.Out, versionsReport())
		return 0
	case "-h", "--help":
		return listApplets(std.Out, 0)
	}
	if a, ok := findApplet(args[0]); ok {
		return a.run(args[1:], std)
	}
	fmt.Fprintf(std.Err, "halite: unknown program %q\n", args[0])
	return listApplets(std.Err, exitUnknownApplet)
}

func findApplet(name string) (applet, bool) {
	for _, a := range applets() {
		if a.name == name {
			return a, true
		}
	}
	return applet{}, false
}

// listApplets writes what the binary can be called as and returns code.
func listApplets(w io.Writer, code int) int {
	var b strings.Builder
	b.WriteString("Usage: halite PROGRAM [arguments], or a link to halite named as the program\n\nPrograms:\n")
	for _, a := range applets() {
		fmt.Fprintf(&b, "  %-14s %s\n", a.name, a.summary)
	}
	io.WriteString(w, b.String())
	return code
}
