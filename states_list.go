// The list of built-in state modules: one line each.
package main

func builtinStates() []moduleEntry {
	return []moduleEntry{
		{name: "cmd", load: cmdStates},
		{name: "test", load: testStates},
	}
}
