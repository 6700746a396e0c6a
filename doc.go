// Halite is Salt in one static binary: master, minion and all command lines,
// on Salt's wire, with Salt's configuration, keys and output.
//
// # The map
//
// The package is flat; the first word of a file's name is its room, and the
// file without a second word says what the room is about.
//
//	main, version     the applet table: which name starts what
//	memory            what an idle daemon gives back to the system
//	pause             how a function waits
//	cli*              one file for each program: options in, exit code out
//	config*, log*     options with their defaults and checks; log lines
//	args              words of a command line as values
//	value*            the data that travels: ordered maps, JSON, msgpack, regexps, Python's formatting
//	proto*            messages of the wire, no I/O
//	pillar*           the compiler of pillars, external pillars
//	keys*             RSA keys, session keys, the directory of accepted and pending keys
//	transport*        publish/subscribe and request/reply; the only room that knows ZeroMQ
//	master*, wheel*   the master daemon: logins, jobs, job cache, events, files, access lists
//	swarm*            thousands of minions in one process, to measure a master with
//	minion*           the minion daemon: login, links, running jobs, kept returns
//	target*           who is meant: globs, grains, pillar, addresses, compound expressions
//	modules*          execution modules: modules.go is the registry, one file for each module
//	custom*           modules that users write, in Python, Starlark or as programs
//	grains*           what a minion knows of its box
//	jinja*, render*   templates, YAML, and the pipeline of renderers
//	states*           the state compiler and runner, one file for each state module
//	runners*          functions of salt-run
//	output*           outputters: from a value to text
//
// Arrows run one way: cli → daemons → modules, states, render → proto, keys,
// transport → value. A room that must call upward does it through a value that
// it was handed. There is no package-level state; two masters and ten minions
// run in one process, as the tests do.
//
// # The life of a job
//
// `salt '*' test.ping` (cli_salt.go) sends a publish request to the master's
// port 4506 (master_clear.go), which checks who asks, makes the job id, writes
// load and expected minions to the job's file (master_jobs.go), encrypts and
// signs once and publishes once (master_publish.go). Every minion decrypts it,
// asks target.go whether it is meant, runs the function in a goroutine with a
// context of its own (minion_jobs.go, modules.go), keeps the return on disk
// (minion_returns.go) and sends it until the master has acknowledged it. The
// master appends it to the job's file and puts an event on the bus
// (master_events.go), where `salt` has been reading all along; output.go prints
// it. What is late is asked for with saltutil.find_job.
//
// # Adding something
//
// A function: a struct of arguments, a Go function, a line in its module's
// table. An option of a program: a line in cli_options_table.go, which help,
// completion and man page read. An option of the configuration: a line in
// config_table.go. A program: a line in main.go. A promise to users: a script
// under testdata/script, named by what it promises.
package main
