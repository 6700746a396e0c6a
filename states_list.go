// The list of built-in state modules: one line each.
package main

func builtinStates() []moduleEntry {
	list := []moduleEntry{
		{name: "cmd", load: cmdStates},
		{name: "file", load: fileStates},
		{name: "saltmod", virtual: "salt", load: saltStates},
		{name: "test", load: testStates},
	}
	return append(append(list, dailyStates()...), absentStates()...)
}
