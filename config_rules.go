// Rules: options that follow from others, paths under root_dir, and values
// that must be one of a few.
package main

import (
	"fmt"
	"net/url"
	"path/filepath"
	"sort"
	"strings"
)

// adjustLogFile applies log_dir.
func adjustLogFile(own *Map, defaultFile string) {
	dir := own.Str("log_dir")
	if dir == "" {
		return
	}
	file := own.Str("log_file")
	switch {
	case file == "":
		own.Set("log_file", filepath.Join(dir, filepath.Base(defaultFile)))
	case !filepath.IsAbs(file):
		own.Set("log_file", filepath.Join(dir, file))
	}
}

func applyMasterRules(o *Options, f ConfigFlags) error {
	if err := applyCommonRules(o, f); err != nil {
		return err
	}
	o.Set("token_dir", filepath.Join(o.Str("cachedir"), "tokens"))
	o.Set("syndic_dir", filepath.Join(o.Str("cachedir"), "syndics"))
	if o.Map("external_auth").Has("rest") {
		o.Set("keep_acl_in_token", true)
	}
	if o.Str("id") == "" {
		id, _ := guessMinionID(o, idSources{})
		if id == "" {
			id = "localhost"
		}
		o.Set("id", appendDomain(o, id)+"_master")
	}
	paths := []string{"pki_dir", "cachedir", "pidfile", "sock_dir", "extension_modules", "autosign_file",
		"autoreject_file", "token_dir", "syndic_dir", "sqlite_queue_dir", "autosign_grains_dir"}
	prependRoot(o, paths, []string{"log_file", "key_logfile", "ssh_log_file"})
	// Taking every key must not happen by a value that is merely true.
	o.Set("auto_accept", o.Value("auto_accept") == true)
	for _, name := range []string{"file_ignore_glob", "file_ignore_regex"} {
		o.Set(name, Strings(o.List(name)))
	}
	if o.Int("worker_threads") < 3 && o.Map("peer").Len() > 0 {
		f.log().Warn(fmt.Sprintf("The 'worker_threads' setting in '%s' cannot be lower than 3. Resetting it to the default value of 3.", o.Str("conf_file")))
		o.Set("worker_threads", int64(3))
	}
	if groups, ok := o.Value("nodegroups").(*List); ok {
		o.Set("nodegroups", repackDictList(groups))
	}
	if _, set := o.m.Get("keep_jobs_seconds"); set && o.Has("keep_jobs") {
		// The old option counts only if the new one was left alone.
		if o.Int("keep_jobs_seconds") == 86400 && o.Int("keep_jobs") != 24 {
			o.Set("keep_jobs_seconds", int64(o.Int("keep_jobs"))*3600)
		}
	}
	return oneOf(o, "publish_signing_algorithm", "PKCS1v15-SHA1", "PKCS1v15-SHA224")
}

func applyMinionRules(o *Options, f ConfigFlags) error {
	if err := applyCommonRules(o, f); err != nil {
		return err
	}
	if o.Map("grains") == nil {
		o.Set("grains", NewMap())
	}
	if !o.Has("beacons") {
		o.Set("beacons", NewMap())
	}
	if o.Str("id") == "" {
		id, isAddress, err := findMinionID(o, f)
		if err != nil {
			return err
		}
		if !isAddress {
			id = appendDomain(o, id)
		}
		o.Set("id", id)
	} else {
		o.Set("id", appendDomain(o, o.Str("id")))
	}
	id := o.Str("id")
	if err := usableID(id); err != nil {
		return configErrorf("Error in configuration: id: %v", err)
	}
	for _, name := range o.List("append_minionid_config_dirs") {
		switch name {
		case "pki_dir", "cachedir", "extension_modules":
			o.Set(name, filepath.Join(o.Str(name), id))
		case "default_include":
			dir, file := filepath.Split(o.Str(name))
			o.Set(name, filepath.Join(dir, id, file))
		case "pidfile":
			dir, file := filepath.Split(o.Str(name))
			o.Set(name, filepath.Join(dir, "salt", id, file))
		}
	}
	prependRoot(o, []string{"pki_dir", "cachedir", "sock_dir", "extension_modules", "pidfile"}, []string{"log_file", "key_logfile"})
	if err := oneOf(o, "encryption_algorithm", "OAEP-SHA1", "OAEP-SHA224"); err != nil {
		return err
	}
	if err := oneOf(o, "signing_algorithm", "PKCS1v15-SHA1", "PKCS1v15-SHA224"); err != nil {
		return err
	}
	return oneOf(o, "master_type", "str", "failover", "func", "distributed", "disable")
}

// applyCommonRules is what master and minion have in common.
func applyCommonRules(o *Options, f ConfigFlags) error {
	if env, ok := o.m.Get("environment"); ok {
		if o.Value("saltenv") != nil {
			f.log().Warn("The 'saltenv' and 'environment' config options cannot both be used. Ignoring 'environment' in favor of 'saltenv'.")
			o.Set("environment", o.Value("saltenv"))
		} else {
			f.log().Warn(fmt.Sprintf("The 'environment' config option has been renamed to 'saltenv'. Using %s as the 'saltenv' config value.", Str(env)))
			o.Set("saltenv", env)
		}
	}
	backends := o.List("fileserver_backend")
	for i, b := range backends {
		switch b {
		case "git", "hg", "svn", "minion":
			backends[i] = b + "fs"
		}
	}
	o.Set("fileserver_backend", Strings(backends))
	// A unix socket's path is at most about a hundred bytes long.
	if len(o.Str("sock_dir")) > len(o.Str("cachedir"))+10 {
		o.Set("sock_dir", filepath.Join(o.Str("cachedir"), ".salt-unix"))
	}
	if o.Str("extension_modules") == "" {
		o.Set("extension_modules", filepath.Join(o.Str("cachedir"), "extmods"))
	}
	if len(o.List("utils_dirs")) == 0 {
		o.Set("utils_dirs", NewList(filepath.Join(o.Str("extension_modules"), "utils")))
	}
	o.Set("open_mode", o.Value("open_mode") == true)
	for _, name := range []string{"file_roots", "pillar_roots"} {
		o.Set(name, normalizeRoots(o.Map(name)))
	}
	o.Set("hash_type", strings.ToLower(o.Str("hash_type")))
	if v := o.Value("ssl"); v == false {
		o.Set("ssl", nil)
	} else if v == true {
		o.Set("ssl", NewMap())
	}
	if r, ok := o.Value("return").(*List); ok {
		o.Set("return", strings.Join(texts(r), ","))
	}
	if !hashKnown(o.Str("hash_type")) {
		return configErrorf("Error in configuration: hash_type is %s and must be one of md5, sha1, sha224, sha256, sha384, sha512", Repr(o.Str("hash_type")))
	}
	if t := o.Str("transport"); t != "zeromq" {
		return configErrorf("Error in configuration: transport is %s; this program speaks zeromq only: remove the line", Repr(t))
	}
	return nil
}

func hashKnown(name string) bool {
	switch name {
	case "md5", "sha1", "sha224", "sha256", "sha384", "sha512":
		return true
	}
	return false
}

func oneOf(o *Options, name string, allowed ...string) error {
	v := o.Str(name)
	for _, a := range allowed {
		if v == a {
			return nil
		}
	}
	return configErrorf("Error in configuration: %s is %s and must be one of %s", name, Repr(v), strings.Join(allowed, ", "))
}

func texts(l *List) []string {
	out := make([]string, l.Len())
	for i, item := range l.Items {
		out[i] = Str(item)
	}
	return out
}

// normalizeRoots makes environment names texts, drops what is no list of
// directories and expands patterns.
func normalizeRoots(m *Map) *Map {
	out := NewMap()
	for env, dirs := range m.All() {
		var items []any
		switch d := dirs.(type) {
		case *List:
			items = d.Items
		case Tuple:
			items = d
		}
		l := NewList()
		for _, item := range items {
			dir := Str(item)
			if !strings.ContainsAny(dir, "*?[") {
				l.Append(dir)
				continue
			}
			found, _ := filepath.Glob(dir)
			sort.Strings(found)
			for _, d := range found {
				l.Append(d)
			}
		}
		out.Set(Str(env), l)
	}
	return out
}

// repackDictList makes one mapping of a list of mappings with one key each.
func repackDictList(l *List) *Map {
	out := NewMap()
	for _, item := range l.Items {
		if m, ok := item.(*Map); ok {
			out.Merge(m)
		}
	}
	return out
}

// prependRoot puts root_dir in front of paths that are not under it already.
// The options in maybe can also be addresses of a syslog, which stay.
func prependRoot(o *Options, names, maybe []string) {
	root, err := filepath.Abs(o.Str("root_dir"))
	if err != nil {
		return
	}
	for _, name := range maybe {
		if u, err := url.Parse(o.Str(name)); err == nil && u.Scheme == "" && o.Value(name) != nil {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if v, ok := o.m.Get(name); !ok || v == nil {
			continue
		}
		path := o.Str(name)
		if rest, ok := strings.CutPrefix(path, strings.TrimSuffix(root, "/")+"/"); ok || path == root {
			path = rest
		}
		o.Set(name, filepath.Join(root, path))
	}
}

// appendDomain applies append_domain to an id.
func appendDomain(o *Options, id string) string {
	domain := o.Str("append_domain")
	if domain == "" || strings.HasSuffix(id, domain) || strings.HasSuffix(id, ".") {
		return id
	}
	return id + "." + domain
}
