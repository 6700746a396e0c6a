// The list of built-in execution modules: one line each. Where several lines
// have one virtual name, the first whose module fits the box is used.
package main

func builtinModules() []moduleEntry {
	return []moduleEntry{
		{name: "cmdmod", virtual: "cmd", load: cmdModule},
		{name: "sysmod", virtual: "sys", load: sysModule},
		{name: "cp", load: cpModule},
		{name: "event", load: eventModule},
		{name: "saltutil", load: saltutilModule},
		{name: "test", load: testModule},
	}
}
