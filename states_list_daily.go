// The list of the state modules for the everyday management of a box: accounts,
// packages, services and the rest of its configuration.
package main

func dailyStates() []moduleEntry {
	return []moduleEntry{
		{name: "alternatives", load: alternativesStates},
		{name: "alias", load: aliasStates},
		{name: "archive", load: archiveStates},
		{name: "at", load: atStates},
		{name: "beacon", load: beaconStates},
		{name: "cron", load: cronStates},
		{name: "environ", load: environStates},
		{name: "event", load: eventStates},
		{name: "git", load: gitStates},
		{name: "grains", load: grainsStates},
		{name: "group", load: groupStates},
		{name: "host", load: hostStates},
		{name: "http", load: httpStates},
		{name: "ini_manage", virtual: "ini", load: iniStates},
		{name: "iptables", load: iptablesStates},
		{name: "kmod", load: kmodStates},
		{name: "locale", load: localeStates},
		{name: "lvm", load: lvmStates},
		{name: "module", load: moduleStates},
		{name: "mount", load: mountStates},
		{name: "nftables", load: nftablesStates},
		{name: "pkg", load: pkgStates},
		{name: "pkgrepo", load: pkgrepoStates},
		{name: "schedule", load: scheduleStates},
		{name: "service", load: serviceStates},
		{name: "ssh_auth", load: sshAuthStates},
		{name: "ssh_known_hosts", load: sshKnownHostsStates},
		{name: "sysctl", load: sysctlStates},
		{name: "timezone", load: timezoneStates},
		{name: "user", load: userStates},
	}
}
