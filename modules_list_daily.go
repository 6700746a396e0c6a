// The list of the modules for the everyday management of a box: accounts,
// packages, services and the rest of its configuration.
package main

func dailyModules() []moduleEntry {
	return []moduleEntry{
		{name: "useradd", virtual: "user", load: userModule},
		{name: "groupadd", virtual: "group", load: groupModule},
		{name: "linux_shadow", virtual: "shadow", load: shadowModule},
		{name: "aptpkg", virtual: "pkg", load: aptModule},
	}
}
