// The list of built-in runners: one line each.
package main

func builtinRunners() []moduleEntry {
	return []moduleEntry{
		{name: "auth", load: authRunner},
		{name: "cache", load: cacheRunner},
		{name: "config", load: configRunner},
		{name: "doc", load: docRunner},
		{name: "error", load: errorRunner},
		{name: "event", load: eventRunner},
		{name: "fileserver", load: fileserverRunner},
		{name: "http", load: httpRunner},
		{name: "jobs", load: jobsRunner},
		{name: "manage", load: manageRunner},
		{name: "mine", load: mineRunner},
		{name: "network", load: networkRunner},
		{name: "pillar", load: pillarRunner},
		{name: "reactor", load: reactorRunner},
		{name: "salt", load: saltRunner},
		{name: "saltutil", load: saltutilRunner},
		{name: "sdb", load: sdbRunner},
		{name: "state", load: stateRunner},
		{name: "survey", load: surveyRunner},
		{name: "test", load: testRunner},
	}
}
