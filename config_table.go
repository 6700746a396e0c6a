// The options of master and minion: the one table that loading, checking and
// the documentation read. First part; config_table_more.go has the rest.
//
// The law of this table: sorted by name; the defaults are Salt's; an option
// that is not here is kept as the user wrote it, unchecked.
package main

// optionKind says what types a value may have; several may be allowed.
type optionKind uint8

const (
	kBool optionKind = 1 << iota
	kInt
	kFloat
	kStr
	kList
	kMap
	kAny optionKind = 1<<iota - 1
)

// optionSpec describes one option: its name, what its value may be, its
// defaults on the master and on the minion (none: it has no default there) and
// what it does.
type optionSpec struct {
	name   string
	kind   optionKind
	master any
	minion any
	doc    string
}

// Defaults that are no plain values; defaultValue makes fresh ones of them.
type (
	absent   struct{}
	emptyMap struct{}
	strs     []string
	ints     []int
	roots    []string // directories of the environment base
)

// optionSpecs returns the table.
func optionSpecs() []optionSpec { return append(optionSpecsAtoK(), optionSpecsLtoZ()...) }

func optionSpecsAtoK() []optionSpec {
	none := absent{}
	return []optionSpec{
		{"acceptance_wait_time", kFloat, none, 10, "Seconds between two logins while the master has not accepted the key."},
		{"acceptance_wait_time_max", kFloat, none, 0, "Upper bound of that wait, which then doubles each time; 0 keeps it constant."},
		{"add_proxymodule_to_opts", kBool, none, none, "Hand the proxy module to modules through the options."},
		{"allow_minion_key_revoke", kBool, true, none, "Let a minion ask for the removal of its own key."},
		{"always_verify_signature", kBool, none, false, "Refuse publications without a signature of the master."},
		{"append_domain", kStr, none, none, "Domain to append to an id without one."},
		{"append_minionid_config_dirs", kList, none, strs{}, "Directory options that get the id appended."},
		{"archive_jobs", kBool, false, none, "Keep a copy of each return in the job archive."},
		{"auth_events", kBool, true, none, "Put events about logins on the bus."},
		{"auth_mode", kInt, 1, none, "Kind of authentication, kept for old configurations."},
		{"auth_retries", kInt, none, 0, "Logins that may fail before the minion gives up."},
		{"auth_safemode", kBool, none, false, "Go on after a refused login instead of leaving the process."},
		{"auth_timeout", kInt | kFloat, none, 5, "Seconds to wait for the answer to a login."},
		{"auth_tries", kInt, none, 7, "Logins that may time out before the minion gives up."},
		{"auto_accept", kBool, false, true, "Accept every new key without asking."},
		{"autoload_dynamic_modules", kBool, none, true, "Load custom modules before states run."},
		{"autoreject_file", kStr, none, none, "File of ids and patterns whose keys are rejected."},
		{"autosign_file", kStr, none, none, "File of ids and patterns whose keys are accepted."},
		{"autosign_grains", kList, none, none, "Grains that a minion sends along with its login for autosign_grains_dir."},
		{"autosign_grains_dir", kStr, none, none, "Directory of files, one a grain, with values that accept a key."},
		{"autosign_timeout", kInt, none, 120, "Minutes for which a file in the autosign directory counts."},
		{"azurefs_update_interval", kInt, 60, 60, "Seconds between updates of the azure file server."},
		{"backup_mode", kStr, none, "", "Where replaced files are kept: minion, master, both or nothing."},
		{"beacons", kMap | kList, none, none, "Watchers that turn what happens on the box into events."},
		{"beacons_before_connect", kBool, none, false, "Start beacons before the master is reached."},
		{"bootstrap_delay", kInt, none, none, "Seconds to wait before a bootstrap script starts."},
		{"cache", kStr, "localfs", "localfs", "Driver of the master's data cache."},
		{"cache_jobs", kBool, none, false, "Keep the jobs that ran in the minion's cache."},
		{"cache_sreqs", kBool, true, true, "Keep request sockets for reuse."},
		{"cachedir", kStr, "/var/cache/salt/master", "/var/cache/salt/minion", "Directory for everything that can be made again."},
		{"clean_dynamic_modules", kBool, true, true, "Remove custom modules that the master no longer has."},
		{"cli_summary", kBool, false, none, "Print a summary after the results of `salt`."},
		{"client_acl_verify", kBool, true, none, "Refuse wrong publisher_acl entries at start."},
		{"cluster_mode", kBool, false, false, "Share keys and cache with other masters."},
		{"cmd_blacklist_glob", kList, none, none, "Shell commands matching one of these patterns are refused."},
		{"cmd_safe", kBool, none, true, "Refuse arguments that would make cmd functions unsafe."},
		{"cmd_whitelist_glob", kList, none, none, "Only shell commands matching one of these patterns are run."},
		{"color", kBool, none, none, "Colour the output on a terminal."},
		{"con_cache", kBool, false, none, "Keep a cache of the connected minions."},
		{"conf_file", kStr, "/etc/salt/master", "/etc/salt/minion", "The main configuration file, as it was read."},
		{"cython_enable", kBool, false, false, "Compile Cython modules at load."},
		{"decrypt_pillar", kList, strs{}, strs{}, "Pillar keys whose values are encrypted."},
		{"decrypt_pillar_default", kStr, "gpg", "gpg", "Renderer that decrypts pillar values."},
		{"decrypt_pillar_delimiter", kStr, ":", ":", "Delimiter of nested keys in decrypt_pillar."},
		{"decrypt_pillar_renderers", kList, strs{"gpg"}, strs{"gpg"}, "Renderers that may decrypt pillar values."},
		{"default_include", kStr, "master.d/*.conf", "minion.d/*.conf", "Further configuration files, a pattern relative to the configuration directory."},
		{"default_top", kStr, "base", "base", "Environment whose top file wins under the merging strategy same."},
		{"detect_remote_minions", kBool, false, none, "Also count minions on other ports as connected."},
		{"disable_modules", kList, none, strs{}, "Execution modules that are not loaded."},
		{"disable_returners", kList, none, strs{}, "Returners that are not loaded."},
		{"disabled_requisites", kStr | kList, none, strs{}, "Requisites that states ignore."},
		{"discovery", kMap | kBool, false, false, "Let minions find the master on the local network."},
		{"django_auth_path", kStr, "", none, "Directory of the Django project for external authentication."},
		{"django_auth_settings", kStr, "", none, "Settings module of that project."},
		{"drop_messages_signature_fail", kBool, false, none, "Drop messages of minions whose signature is wrong."},
		{"dummy_pub", kBool, false, none, "Publish nothing; for tests."},
		{"eauth_acl_module", kStr, "", none, "External authentication module that also knows the access lists."},
		{"eauth_tokens", kStr, "localfs", none, "Store for external authentication tokens."},
		{"enable_fqdns_grains", kBool, none, false, "Look up all names of the box for the fqdns grain."},
		{"enable_gpu_grains", kBool, false, true, "List graphics cards in the grains."},
		{"enable_legacy_startup_events", kBool, none, true, "Also fire the old minion_start event."},
		{"enable_lspci", kBool, none, none, "Read PCI devices for grains."},
		{"enable_ssh_minions", kBool, false, none, "Let `salt` reach hosts by ssh from the roster."},
		{"enable_zip_modules", kBool, none, false, "Load modules out of zip files."},
		{"encryption_algorithm", kStr, none, "OAEP-SHA1", "Padding and hash of RSA encryption."},
		{"enforce_mine_cache", kBool, false, none, "Keep mine data without the data cache."},
		{"engines", kList, strs{}, strs{}, "Services that run beside the daemon."},
		{"env_order", kList, strs{}, strs{}, "Order in which environments are merged."},
		{"environment", kStr, none, none, "Old name of saltenv."},
		{"event_match_type", kStr, "startswith", "startswith", "How event tags are compared by default."},
		{"event_publisher_niceness", kInt, nil, none, "Niceness of the event publisher."},
		{"event_return", kList | kStr, "", none, "Returners that get every event."},
		{"event_return_blacklist", kList, strs{}, none, "Tags of events that returners do not get."},
		{"event_return_niceness", kInt, nil, none, "Niceness of the event return process."},
		{"event_return_queue", kInt, 0, none, "Events collected before they are returned."},
		{"event_return_queue_max_seconds", kInt, none, none, "Longest time that events are collected."},
		{"event_return_whitelist", kList, strs{}, none, "Tags of the only events that returners get."},
		{"ext_job_cache", kStr, "", "", "Returner that minions use as the job cache."},
		{"ext_pillar", kList, strs{}, none, "Sources of pillar data outside pillar_roots."},
		{"extension_modules", kStr, "/var/cache/salt/master/extmods", "/var/cache/salt/minion/extmods", "Directory of custom modules."},
		{"external_auth", kMap, emptyMap{}, none, "Users of external systems and what they may do."},
		{"extmod_blacklist", kMap, emptyMap{}, emptyMap{}, "Custom modules that are not synced, by kind."},
		{"extmod_whitelist", kMap, emptyMap{}, emptyMap{}, "The only custom modules that are synced, by kind."},
		{"failhard", kBool, false, false, "Stop a state run at the first failure."},
		{"features", kMap, emptyMap{}, emptyMap{}, "Switches for changed behaviour."},
		{"file_buffer_size", kInt, 1048576, 262144, "Bytes of one chunk of a file."},
		{"file_client", kStr, "local", "remote", "Where files come from: remote (the master) or local."},
		{"file_ignore_glob", kList | kStr, strs{}, strs{}, "Patterns of files that are not served."},
		{"file_ignore_regex", kList | kStr, strs{}, strs{}, "Regular expressions of files that are not served."},
		{"file_recv", kBool, false, false, "Let minions push files to the master."},
		{"file_recv_max_size", kInt, 100, 100, "Largest pushed file, in MB."},
		{"file_roots", kMap, roots{"/srv/salt", "/srv/spm/salt"}, roots{"/srv/salt", "/srv/spm/salt"}, "Directories of states and files, by environment."},
		{"fileserver_backend", kList, strs{"roots"}, strs{"roots"}, "Sources of files, in order."},
		{"fileserver_followsymlinks", kBool, true, true, "Serve what symbolic links point to."},
		{"fileserver_ignoresymlinks", kBool, false, false, "Do not serve symbolic links."},
		{"fileserver_interval", kInt, 3600, none, "Seconds between updates of the file server."},
		{"fileserver_update_niceness", kInt, nil, none, "Niceness of the file server update."},
		{"fileserver_verify_config", kBool, true, none, "Check the file server's settings at start."},
		{"fips_mode", kBool, false, false, "Use only algorithms that FIPS allows."},
		{"gather_job_timeout", kInt | kFloat, 10, none, "Seconds to wait for answers to find_job."},
		{"git_pillar_base", kStr, "master", "master", "Branch for the base pillar environment."},
		{"git_pillar_branch", kStr, "master", "master", "Branch to use when none is named."},
		{"git_pillar_env", kStr, "", "", "Environment for a repository without one."},
		{"git_pillar_fallback", kStr, "", "", "Branch for environments that have none."},
		{"git_pillar_global_lock", kBool, true, true, "One lock for all pillar repositories."},
		{"git_pillar_includes", kBool, true, true, "Let pillar files include those of other repositories."},
		{"git_pillar_insecure_auth", kBool, false, false, "Allow credentials over plain HTTP."},
		{"git_pillar_passphrase", kStr, "", "", "Passphrase of the private key."},
		{"git_pillar_password", kStr, "", "", "Password for HTTP."},
		{"git_pillar_privkey", kStr, "", "", "Private key for ssh."},
		{"git_pillar_pubkey", kStr, "", "", "Public key for ssh."},
		{"git_pillar_refspecs", kList, strs{"+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"}, strs{"+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"}, "References to fetch."},
		{"git_pillar_root", kStr, "", "", "Directory inside the repository."},
		{"git_pillar_ssl_verify", kBool, true, true, "Check certificates."},
		{"git_pillar_update_interval", kInt, 60, 60, "Seconds between fetches."},
		{"git_pillar_user", kStr, "", "", "User for HTTP or ssh."},
		{"git_pillar_verify_config", kBool, true, none, "Check the settings at start."},
		{"gitfs_base", kStr, "master", "master", "Branch for the base environment."},
		{"gitfs_disable_saltenv_mapping", kBool, false, false, "Do not make environments of branches and tags."},
		{"gitfs_fallback", kStr, "", "", "Branch for environments that have none."},
		{"gitfs_global_lock", kBool, true, true, "One lock for all repositories."},
		{"gitfs_insecure_auth", kBool, false, false, "Allow credentials over plain HTTP."},
		{"gitfs_mountpoint", kStr, "", "", "Path under which files are served."},
		{"gitfs_passphrase", kStr, "", "", "Passphrase of the private key."},
		{"gitfs_password", kStr, "", "", "Password for HTTP."},
		{"gitfs_privkey", kStr, "", "", "Private key for ssh."},
		{"gitfs_pubkey", kStr, "", "", "Public key for ssh."},
		{"gitfs_ref_types", kList, strs{"branch", "tag", "sha"}, strs{"branch", "tag", "sha"}, "Kinds of references that become environments."},
		{"gitfs_refspecs", kList, strs{"+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"}, strs{"+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"}, "References to fetch."},
		{"gitfs_remotes", kList, strs{}, strs{}, "Repositories to serve files from."},
		{"gitfs_root", kStr, "", "", "Directory inside the repository."},
		{"gitfs_saltenv", kList, strs{}, strs{}, "Settings of single environments."},
		{"gitfs_saltenv_blacklist", kList, strs{}, strs{}, "Environments that are not served."},
		{"gitfs_saltenv_whitelist", kList, strs{}, strs{}, "The only environments that are served."},
		{"gitfs_ssl_verify", kBool, true, true, "Check certificates."},
		{"gitfs_update_interval", kInt, 60, 60, "Seconds between fetches."},
		{"gitfs_user", kStr, "", "", "User for HTTP."},
		{"global_state_conditions", kMap, none, nil, "Conditions on grains for state functions."},
		{"gpg_cache", kBool, false, false, "Keep decrypted texts."},
		{"gpg_cache_backend", kStr, "disk", "disk", "Where decrypted texts are kept."},
		{"gpg_cache_ttl", kInt, 86400, 86400, "Seconds for which decrypted texts are kept."},
		{"gpg_decrypt_must_succeed", kBool, false, false, "Fail rendering when a text cannot be decrypted."},
		{"gpg_keydir", kStr, none, none, "Directory of the keys of gpg; gpgkeys beside the configuration unless set."},
		{"grains", kMap, none, emptyMap{}, "Static grains of this minion."},
		{"grains_blacklist", kList, none, strs{}, "Patterns of grains that are left out."},
		{"grains_cache", kBool, none, false, "Keep grains in a file between starts."},
		{"grains_cache_expiration", kInt, none, 300, "Seconds for which that file counts."},
		{"grains_deep_merge", kBool, none, false, "Merge nested custom grains."},
		{"grains_dirs", kList, none, strs{}, "Further directories of custom grains."},
		{"grains_refresh_every", kInt, none, 0, "Minutes between refreshes of the grains; 0 = never."},
		{"grains_refresh_pre_exec", kBool, none, none, "Refresh grains before each job."},
		{"hash_type", kStr, "sha256", "sha256", "Hash for files and fingerprints."},
		{"hgfs_base", kStr, "default", none, "Branch for the base environment."},
		{"hgfs_branch_method", kStr, "branches", none, "What becomes an environment: branches, bookmarks or both."},
		{"hgfs_mountpoint", kStr, "", none, "Path under which files are served."},
		{"hgfs_remotes", kList, strs{}, none, "Repositories to serve files from."},
		{"hgfs_root", kStr, "", none, "Directory inside the repository."},
		{"hgfs_saltenv_blacklist", kList, strs{}, none, "Environments that are not served."},
		{"hgfs_saltenv_whitelist", kList, strs{}, none, "The only environments that are served."},
		{"hgfs_update_interval", kInt, 60, 60, "Seconds between pulls."},
		{"http_connect_timeout", kFloat, 20.0, 20.0, "Seconds to wait for an HTTP connection."},
		{"http_max_body", kInt, int64(107374182400), int64(107374182400), "Largest HTTP answer in bytes."},
		{"http_request_timeout", kFloat, 3600.0, 3600.0, "Seconds that an HTTP request may take."},
		{"id", kStr, none, "", "Name of this minion."},
		{"id_function", kMap | kStr, none, emptyMap{}, "Function that finds the id."},
		{"include", kStr | kList, none, none, "Further configuration files, patterns relative to this file."},
		{"interface", kStr, "0.0.0.0", "0.0.0.0", "Address to listen at."},
		{"ipc_mode", kStr, "ipc", "ipc", "Kind of local sockets: ipc or tcp."},
		{"ipc_write_buffer", kInt, 0, 0, "Bytes that may wait in a local socket; 0 = no limit."},
		{"ipv6", kBool, nil, nil, "Use IPv6."},
		{"jinja_env", kMap, emptyMap{}, none, "Options of the template engine outside states."},
		{"jinja_lstrip_blocks", kBool, false, none, "Strip blanks before blocks in templates."},
		{"jinja_sls_env", kMap, emptyMap{}, none, "Options of the template engine in states."},
		{"jinja_trim_blocks", kBool, false, none, "Remove the line break after blocks in templates."},
		{"job_cache", kBool, true, none, "Keep jobs and their returns on the master."},
		{"job_cache_max_bytes", kInt, 1073741824, none, "Most bytes of the job cache; the oldest jobs go first. 0 = no limit."},
		{"job_cache_max_jobs", kInt, 200000, none, "Most jobs in the job cache; the oldest go first. 0 = no limit."},
		{"job_cache_salt_view", kInt, 200, none, "Newest jobs that Salt's own programs find in the job cache, too."},
		{"job_cache_store_endtime", kBool, false, none, "Keep the time of the last return too."},
		{"keep_acl_in_token", kBool, false, none, "Keep the access list inside the token."},
		{"keep_jobs", kInt, 24, none, "Hours for which jobs are kept; old form of keep_jobs_seconds."},
		{"keep_jobs_seconds", kInt, 86400, none, "Seconds for which jobs are kept."},
		{"key_cache", kStr, "", none, "How the list of keys is cached."},
		{"key_logfile", kStr, "/var/log/salt/key", none, "Log file of salt-key."},
		{"key_pass", kStr, nil, none, "Passphrase of the private key."},
		{"keysize", kInt, 2048, 2048, "Bits of new RSA keys."},
	}
}
