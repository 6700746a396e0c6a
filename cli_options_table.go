// The options of every program, in the order in which help shows them.
package main

// programs are the command lines with options, sorted by name.
func programs() []cliProgram {
	return []cliProgram{
		programSalt(), programSaltCall(), programSaltCp(), programSaltKey(),
		programSaltMaster(), programSaltMinion(), programSaltRun(), programSaltSwarm(),
	}
}

func cliProgramNamed(name string) (cliProgram, bool) {
	for _, p := range programs() {
		if p.name == name {
			return p, true
		}
	}
	return cliProgram{}, false
}

// commonOptions stand first for every program; more follow in the same group.
func commonOptions(more ...cliOption) cliGroup {
	return cliGroup{options: append([]cliOption{
		{long: "--version", help: "Print the version and leave."},
		{short: "-V", long: "--versions-report", help: "Print the versions of the program and of what it is made of, and leave."},
		{short: "-h", long: "--help", help: "Print this help and leave."},
		{long: "--saltfile", kind: optText, help: "Read options from this Saltfile; else from ./Saltfile or ~/.salt/Saltfile."},
		{short: "-c", long: "--config-dir", kind: optText, help: "Read the configuration in this directory and not in /etc/salt."},
	}, more...)}
}

func optHardCrash() cliOption {
	return cliOption{long: "--hard-crash", help: "Accepted for old scripts; errors are always told in one line."}
}

func optArgsStdin() cliOption {
	return cliOption{long: "--args-stdin", help: "Read further arguments from the standard input, one a line."}
}

func optNoParse() cliOption {
	return cliOption{long: "--no-parse", kind: optText, def: "", meta: "NAME,...", help: "Leave the values of these keyword arguments as the text that was typed."}
}

func optDoc() cliOption {
	return cliOption{short: "-d", long: "--doc --documentation", help: "Print the documentation of the function, module or all modules."}
}

func optOutputDiff() cliOption {
	return cliOption{long: "--output-diff", dest: "state_output_diff", help: "Show of state runs only what changed."}
}

func optExecutors() []cliOption {
	return []cliOption{
		{long: "--module-executors", kind: optText, meta: "LIST", help: "Executors to use, a YAML list."},
		{long: "--executor-opts", kind: optText, meta: "DICT", help: "Options for executors, a YAML mapping."},
	}
}

// targetOptions choose what kind of target the first argument is.
func targetOptions(more ...cliOption) []cliGroup {
	return []cliGroup{
		{title: "Target Options", about: "How to read the target; without one of these it is a shell pattern for ids.", exclusive: true, options: append([]cliOption{
			{short: "-H", long: "--hosts", dest: "list_hosts", help: "List the hosts of the roster."},
			{short: "-E", long: "--pcre", help: "A regular expression for ids, from their start."},
			{short: "-L", long: "--list", help: "A list of ids with commas or blanks between them."},
			{short: "-G", long: "--grain", help: "A grain and a shell pattern: os:Deb*."},
			{short: "-P", long: "--grain-pcre", help: "A grain and a regular expression: os:Deb.*."},
			{short: "-N", long: "--nodegroup", help: "The name of a node group of the master's configuration."},
			{short: "-R", long: "--range", help: "A range expression; no range server is asked here, use -C or -N."},
		}, more...)},
		{title: "Additional Target Options", options: []cliOption{
			{long: "--delimiter", kind: optText, def: ":", help: "What stands between the parts of a grain or pillar target."},
		}},
	}
}

// authOptions are for external authentication; short is "-a" where it is free.
func authOptions(short string) cliGroup {
	return cliGroup{title: "External Authentication", options: []cliOption{
		{short: short, long: "--auth --eauth --external-auth", dest: "eauth", kind: optText, def: "", help: "The external system that knows the user."},
		{short: "-T", long: "--make-token", dest: "mktoken", help: "Keep a token, so that the next commands need no password."},
		{long: "--username", kind: optText, help: "The user of the external system."},
		{long: "--password", kind: optText, help: "The password; without it the terminal is asked."},
	}}
}

func outputOptions() cliGroup {
	return cliGroup{title: "Output Options", options: []cliOption{
		{long: "--out --output", dest: "output", kind: optText, help: "The outputter: nested, json, yaml, raw, pprint, txt, quiet, key, newline_values_only, table, highstate."},
		{long: "--out-indent --output-indent", dest: "output_indent", kind: optInt, help: "The indent of json and yaml; a negative one puts all on a line."},
		{long: "--out-file --output-file", dest: "output_file", kind: optText, help: "Write the output to this file."},
		{long: "--out-file-append --output-file-append", dest: "output_file_append", help: "Append to that file."},
		{long: "--no-color --no-colour", help: "Print without colours."},
		{long: "--force-color --force-colour", help: "Print with colours also where no terminal is."},
		{long: "--state-output --state_output", kind: optText, help: "The form of state results: full, terse, mixed, changes, filter, or one of these with _id."},
		{long: "--state-verbose --state_verbose", kind: optText, help: "Whether states without changes are shown: true or false."},
	}}
}

// logOptions set the logs; salt-key uses -l for something else and has a log
// file of its own.
func logOptions(short, fileDest, file string) cliGroup {
	return cliGroup{title: "Logging Options", about: "These win over the configuration. Levels below info can show secrets of modules.", options: []cliOption{
		{short: short, long: "--log-level", kind: optChoice, choices: logLevels(), help: "How much is logged on the terminal; warning if not configured."},
		{long: "--log-file", dest: fileDest, kind: optText, meta: "FILE", help: "The log file, " + file + " if not configured."},
		{long: "--log-file-level", dest: "log_level_logfile", kind: optChoice, choices: []string{"all", "garbage", "trace", "debug", "profile", "info", "warning", "error", "critical", "quiet"}, help: "How much is logged in the file."},
	}}
}

func profilingOptions() cliGroup {
	return cliGroup{title: "Profiling support", options: []cliOption{
		{long: "--profiling-path", kind: optText, def: "/tmp/stats", help: "Directory for profiles."},
		{long: "--enable-profiling", dest: "profiling_enabled", help: "Write a profile."},
	}}
}

func programSalt() cliProgram {
	options := commonOptions(optExecutors()...)
	options.options = append(options.options,
		cliOption{short: "-t", long: "--timeout", kind: optInt, def: 5, help: "Seconds to wait for answers before asking the minions whether they still work on the job."},
		optArgsStdin(), optHardCrash(), optNoParse(),
		cliOption{short: "-s", long: "--static", help: "Collect all answers and print them at once."},
		cliOption{short: "-p", long: "--progress", help: "Show a bar of the answers that came."},
		cliOption{long: "--failhard", help: "With batches: stop at the first minion that failed."},
		cliOption{long: "--async", help: "Print the job id and do not wait for answers."},
		cliOption{long: "--subset", kind: optInt, def: 0, help: "Send to so many of the matching minions that have the function, chosen by chance."},
		cliOption{short: "-v", long: "--verbose", help: "Print the job id first, and what is asked meanwhile."},
		cliOption{long: "--hide-timeout", dest: "show_timeout", kind: optUnset, help: "Do not list minions that did not answer."},
		cliOption{long: "--show-jid", help: "Print the job id first."},
		cliOption{short: "-b", long: "--batch --batch-size", kind: optText, def: "", help: "Send to so many minions at a time, a number or a percentage."},
		cliOption{long: "--batch-wait", kind: optFloat, def: 0, help: "Seconds to wait after an answer before the next minion gets its turn."},
		cliOption{long: "--batch-safe-limit", kind: optInt, def: 0, help: "Use batches when at least so many minions match."},
		cliOption{long: "--batch-safe-size", kind: optText, def: 8, help: "The size of batches that begin by that limit."},
		cliOption{long: "--return", kind: optText, def: "", meta: "RETURNER", help: "Returners that the minions use besides, with commas between them."},
		cliOption{long: "--return_config", kind: optText, def: "", meta: "NAME", help: "The configuration of the returner to use."},
		cliOption{long: "--return_kwargs", kind: optText, meta: "DICT", help: "Arguments for the returner, a YAML mapping."},
		optDoc(),
		cliOption{long: "--args-separator", kind: optText, def: ",", help: "What stands between the arguments of several functions."},
		cliOption{long: "--summary", dest: "cli_summary", help: "Print at the end how many answered."},
		cliOption{long: "--metadata", kind: optText, def: "", help: "Data to keep with the job, a YAML mapping."},
		cliOption{long: "--on-connect", help: "Also hand the job to matching minions that are down, at their next connection (Halite masters only)."},
		optOutputDiff(),
		cliOption{long: "--config-dump", help: "Print the configuration and leave."},
		cliOption{long: "--preview-target", help: "Print the ids that the target matches and leave."},
	)
	groups := append([]cliGroup{options}, targetOptions(
		cliOption{short: "-C", long: "--compound", help: "Several kinds with and, or, not and brackets: G@os:Debian and not web*."},
		cliOption{short: "-I", long: "--pillar", dest: "pillar_target", help: "A pillar key and a shell pattern: role:prod*."},
		cliOption{short: "-J", long: "--pillar-pcre", help: "A pillar key and a regular expression: role:prod.*."},
		cliOption{short: "-S", long: "--ipcidr", help: "An address or a network: 10.0.0.0/8."},
	)...)
	return cliProgram{name: "salt", usage: "'<target>' <function> [arguments]", config: "master",
		about:  "Runs a function on all minions that match the target, at the same time, and prints what they answer.",
		groups: append(groups, authOptions("-a"), outputOptions(), logOptions("-l", "", "/var/log/salt/master"))}
}

func programSaltKey() cliProgram {
	return cliProgram{name: "salt-key", config: "master",
		about: "Shows the keys of minions and accepts, rejects and deletes them. Works on the master's key directory; the master need not run.",
		groups: []cliGroup{
			commonOptions(
				cliOption{short: "-u", long: "--user", kind: optText, help: "The user whose files the keys are."},
				optHardCrash(),
				cliOption{short: "-q", long: "--quiet", help: "Print less."},
				cliOption{short: "-y", long: "--yes", help: "Do not ask."},
				cliOption{long: "--rotate-aes-key", kind: optText, def: true, help: "Change the session key of all minions when keys are deleted or rejected."},
				cliOption{long: "--preserve-minions", kind: optText, def: false, help: "Keep what is known of a minion when its key is deleted."},
			),
			authOptions(""),
			outputOptions(),
			{title: "Actions", options: []cliOption{
				{short: "-l", long: "--list", kind: optText, def: "", meta: "STATE", help: "List keys by state: acc or accepted, pre, un or unaccepted, rej or rejected, den or denied, all."},
				{short: "-L", long: "--list-all", help: "List all keys."},
				{short: "-a", long: "--accept", kind: optText, def: "", meta: "PATTERN", help: "Accept the pending keys that match."},
				{short: "-A", long: "--accept-all", help: "Accept all pending keys."},
				{short: "-r", long: "--reject", kind: optText, def: "", meta: "PATTERN", help: "Reject the pending keys that match."},
				{short: "-R", long: "--reject-all", help: "Reject all pending keys."},
				{long: "--include-all", help: "Accept or reject keys of all other states too."},
				{long: "--include-accepted", help: "Reject accepted keys too."},
				{long: "--include-rejected", help: "Accept rejected keys too."},
				{long: "--include-denied", help: "Accept or reject denied keys too."},
				{short: "-p", long: "--print", kind: optText, def: "", meta: "PATTERN", help: "Print the keys that match."},
				{short: "-P", long: "--print-all", help: "Print all keys."},
				{short: "-d", long: "--delete", kind: optText, def: "", meta: "PATTERN", help: "Delete the keys that match."},
				{short: "-D", long: "--delete-all", help: "Delete all keys."},
				{short: "-f", long: "--finger", kind: optText, def: "", meta: "PATTERN", help: "Print the fingerprints of the keys that match."},
				{short: "-F", long: "--finger-all", help: "Print all fingerprints."},
			}},
			{title: "Key Generation Options", options: []cliOption{
				{long: "--gen-keys", kind: optText, def: "", meta: "NAME", help: "Make a key pair NAME.pem and NAME.pub."},
				{long: "--gen-keys-dir", kind: optText, def: ".", meta: "DIR", help: "Where to put it."},
				{long: "--keysize", kind: optInt, def: 2048, help: "Its bits, at least 2048."},
				{long: "--gen-signature", help: "Sign the master's public key, so that minions can verify it."},
				{long: "--priv", kind: optText, def: "", meta: "FILE", help: "The private key to sign with."},
				{long: "--signature-path", kind: optText, def: "", meta: "DIR", help: "Where to put the signature."},
				{long: "--pub", kind: optText, def: "", meta: "FILE", help: "The public key to sign."},
				{long: "--auto-create", help: "Make the key to sign with if there is none."},
			}},
			logOptions("", "key_logfile", "/var/log/salt/key"),
		}}
}

func programSaltCall() cliProgram {
	options := commonOptions(append([]cliOption{
		{long: "--proxyid", kind: optText, help: "The id of a proxy."}},
		optExecutors()...)...)
	options.options = append(options.options,
		cliOption{long: "--cachedir", kind: optText, meta: "DIR", help: "The cache directory."},
		optArgsStdin(), optHardCrash(), optNoParse(),
		cliOption{short: "-g", long: "--grains", dest: "grains_run", help: "Print the grains."},
		cliOption{short: "-m", long: "--module-dirs", kind: optMany, meta: "DIR", help: "Look for modules here too; may be given several times."},
		optDoc(),
		cliOption{long: "--master", kind: optText, def: "", help: "The master to use."},
		cliOption{long: "--return", kind: optText, def: "", meta: "RETURNER", help: "Returners that get the result, with commas between them."},
		cliOption{long: "--local", help: "Do without a master."},
		cliOption{long: "--file-root", kind: optText, meta: "DIR", help: "The directory of states and files."},
		cliOption{long: "--pillar-root", kind: optText, meta: "DIR", help: "The directory of pillar files."},
		cliOption{long: "--states-dir", kind: optText, meta: "DIR", help: "Look for state modules here too."},
		cliOption{long: "--retcode-passthrough", help: "Leave with the function's own exit code."},
		cliOption{long: "--metadata", dest: "print_metadata", help: "Print the job's data with the result."},
		cliOption{long: "--set-metadata", dest: "metadata", kind: optText, meta: "DICT", help: "Data to keep with the job, a YAML mapping."},
		cliOption{long: "--id", kind: optText, def: "", help: "The id of the minion."},
		cliOption{long: "--skip-grains", help: "Do not gather grains."},
		cliOption{long: "--refresh-grains-cache", help: "Gather grains anew."},
		cliOption{long: "--no-return-event", help: "Do not send the result to the master."},
		cliOption{short: "-t", long: "--timeout", dest: "auth_timeout", kind: optInt, def: 60, help: "Seconds to wait for the master."},
		optOutputDiff(),
		cliOption{long: "--priv", dest: "user", kind: optText, help: "The user to run as."},
	)
	return cliProgram{name: "salt-call", usage: "<function> [arguments]", config: "minion",
		about:  "Runs a function on this machine, with its master or (--local) without one.",
		groups: []cliGroup{options, outputOptions(), profilingOptions(), logOptions("-l", "", "/var/log/salt/minion")}}
}

func programSaltRun() cliProgram {
	return cliProgram{name: "salt-run", usage: "<function> [arguments]", config: "master",
		about: "Runs a runner: a function on the master.",
		groups: []cliGroup{
			commonOptions(
				cliOption{short: "-t", long: "--timeout", kind: optInt, def: 1, help: "Seconds to wait for answers."},
				optArgsStdin(),
				cliOption{long: "--jid", kind: optText, help: "The job id to use."},
				optHardCrash(), optNoParse(), optDoc(),
				cliOption{long: "--async", help: "Print the job id and do not wait."},
				cliOption{long: "--skip-grains", help: "Do not gather grains."},
			),
			authOptions("-a"),
			outputOptions(),
			profilingOptions(),
			{title: "Result Options", options: []cliOption{{long: "--quiet", help: "Do not print the result."}}},
			logOptions("-l", "", "/var/log/salt/master"),
		}}
}

func programSaltCp() cliProgram {
	groups := append([]cliGroup{commonOptions(
		cliOption{short: "-t", long: "--timeout", kind: optInt, def: 5, help: "Seconds to wait for answers."},
		optHardCrash(),
	)}, targetOptions()...)
	return cliProgram{name: "salt-cp", usage: "'<target>' SOURCE DEST", config: "master",
		about: "Copies files of the master to all minions that match the target.",
		groups: append(groups, outputOptions(),
			cliGroup{title: "File Options", options: []cliOption{
				{short: "-C", long: "--chunked", help: "Send in pieces: for large files and for directories."},
				{short: "-n", long: "--no-compression", dest: "gzip", kind: optUnset, help: "Send without compression."},
			}},
			logOptions("-l", "", "/var/log/salt/master"))}
}

func daemonOptions(pidfile string) cliGroup {
	return commonOptions(
		cliOption{short: "-u", long: "--user", kind: optText, help: "The user to run as."},
		cliOption{short: "-d", long: "--daemon", help: "Run in the background."},
		cliOption{long: "--pid-file", dest: "pidfile", kind: optText, meta: "FILE", help: "Write the process id here, " + pidfile + " if not configured."},
		cliOption{long: "--disable-keepalive", help: "Accepted for old units: there is no second process that restarts the daemon."},
	)
}

func programSaltMaster() cliProgram {
	return cliProgram{name: "salt-master", config: "master",
		about:  "The master: minions log in to it, and it sends them jobs.",
		groups: []cliGroup{daemonOptions("/var/run/salt-master.pid"), logOptions("-l", "", "/var/log/salt/master")}}
}

func programSaltMinion() cliProgram {
	return cliProgram{name: "salt-minion", config: "minion",
		about:  "The minion: it connects to its master and runs the jobs that it gets.",
		groups: []cliGroup{daemonOptions("/var/run/salt-minion.pid"), logOptions("-l", "", "/var/log/salt/minion")}}
}

func programSaltSwarm() cliProgram {
	return cliProgram{name: "salt-swarm",
		about: "Many minions in one process, to measure a master with: they log in, subscribe, answer test.ping and a few other functions, " +
			"and report at the end what they saw. Their keys are made for measuring only and protect nothing.",
		groups: []cliGroup{
			{options: []cliOption{
				{long: "--version", help: "Print the version and leave."},
				{short: "-V", long: "--versions-report", help: "Print the versions of the program and of what it is made of, and leave."},
				{short: "-h", long: "--help", help: "Print this help and leave."},
				{short: "-n", long: "--minions", kind: optInt, def: 100, help: "How many minions."},
				{long: "--master", kind: optText, def: "127.0.0.1:4506", meta: "HOST[:PORT]", help: "The master and its request port."},
				{long: "--publish-port", kind: optInt, def: 0, help: "The publish port, if not the one that the master tells."},
				{long: "--prefix", kind: optText, def: "swarm-", help: "What the ids begin with; a number of five digits follows."},
				{long: "--rate", kind: optFloat, def: 0, help: "Logins a second; 0 is all at once."},
				{long: "--duration", kind: optFloat, def: 0, help: "Seconds until the report; 0 is until Ctrl-C or SIGTERM."},
				{long: "--request-timeout", kind: optFloat, def: 60, help: "Seconds to wait for an answer of the master."},
				{long: "--zmq-filtering", help: "Subscribe as minions of a master with zmq_filtering do."},
				{long: "--pillar", help: "Fetch the pillar after the login, as real minions do."},
				{long: "--start-event", help: "Send the start event after the login, as real minions do."},
			}},
			{title: "Keys", options: []cliOption{
				{long: "--keys", kind: optText, def: "", meta: "DIR", help: "Where the keys are kept; those that are missing are made. ~/.cache/salt-swarm if not given."},
				{long: "--preseed", kind: optText, def: "", meta: "PKIDIR", help: "Put the public keys among the accepted ones of a master on this machine. Without --master that is all that is done."},
			}},
			{title: "Output Options", options: []cliOption{
				{long: "--out --output", dest: "output", kind: optChoice, def: "text", choices: []string{"text", "json"}, help: "The form of the report."},
				{short: "-l", long: "--log-level", kind: optChoice, def: "warning", choices: logLevels(), help: "How much is logged on the terminal."},
			}},
		}}
}
