// The list of built-in execution modules: one line each. Where several lines
// have one virtual name, the first whose module fits the box is used.
package main

func builtinModules() []moduleEntry {
	list := []moduleEntry{
		{name: "archive", load: archiveModule},
		{name: "config", load: configModule},
		{name: "data", load: dataModule},
		{name: "defaults", load: defaultsModule},
		{name: "dig", load: digModule},
		{name: "disk", load: diskModule},
		{name: "dnsutil", load: dnsutilModule},
		{name: "environ", load: environModule},
		{name: "file", load: fileModule},
		{name: "grains", load: grainsModule},
		{name: "hashutil", load: hashutilModule},
		{name: "http", load: httpModule},
		{name: "ini_manage", virtual: "ini", load: iniModule},
		{name: "logmod", virtual: "log", load: logModule},
		{name: "match", load: matchModule},
		{name: "mount", load: mountModule},
		{name: "network", load: networkModule},
		{name: "out", load: outModule},
		{name: "pillar", load: pillarModule},
		{name: "ps", load: psModule},
		{name: "mod_random", virtual: "random", load: randomModule},
		{name: "cmdmod", virtual: "cmd", load: cmdModule},
		{name: "status", load: statusModule},
		{name: "sysmod", virtual: "sys", load: sysModule},
		{name: "cp", load: cpModule},
		{name: "event", load: eventModule},
		{name: "saltutil", load: saltutilModule},
		{name: "state", load: stateModule},
		{name: "slsutil", load: slsutilModule},
		{name: "jinja", load: jinjaModule},
		{name: "test", load: testModule},
	}
	return append(list, dailyModules()...)
}
