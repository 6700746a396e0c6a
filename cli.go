// What all command lines share.
//
// The law of this room: one file for each program; options come in through the
// table in cli_options.go, an exit code goes out, and no other room writes to
// the terminal.
package main

// Exit codes that Salt's programs share.
const (
	exitUsage      = 64 // a wrong option
	exitIncomplete = 42 // no target, or no function
)
