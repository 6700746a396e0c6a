// The list of the modules for the everyday management of a box: accounts,
// packages, services and the rest of its configuration.
package main

func dailyModules() []moduleEntry {
	return []moduleEntry{
		{name: "useradd", virtual: "user", load: userModule},
		{name: "groupadd", virtual: "group", load: groupModule},
		{name: "linux_shadow", virtual: "shadow", load: shadowModule},
		{name: "aptpkg", virtual: "pkg", load: aptModule},
		{name: "systemd_service", virtual: "service", load: systemdServiceModule},
		{name: "procd_service", virtual: "service", load: procdServiceModule},
		{name: "gentoo_service", virtual: "service", load: openrcServiceModule},
		{name: "runit", virtual: "service", load: runitServiceModule},
		{name: "debian_service", virtual: "service", load: debianServiceModule},
		{name: "rh_service", virtual: "service", load: rhServiceModule},
		{name: "sysv_service", virtual: "service", load: plainServiceModule},
		{name: "cron", load: cronModule},
		{name: "schedule", load: scheduleModule},
		{name: "mine", load: mineModule},
		{name: "publish", load: publishModule},
		{name: "beacons", load: beaconsModule},
		{name: "at", load: atModule},
		{name: "linux_sysctl", virtual: "sysctl", load: sysctlModule},
		{name: "kmod", load: kmodModule},
		{name: "hosts", load: hostsModule},
		{name: "aliases", load: aliasesModule},
		{name: "alternatives", load: alternativesModule},
		{name: "timezone", load: timezoneModule},
		{name: "localemod", virtual: "locale", load: localeModule},
		{name: "system", load: systemModule},
		{name: "ssh", load: sshModule},
		{name: "key", load: keyModule},
		{name: "minion", load: minionModule},
		{name: "sdb", load: sdbModule},
	}
}
