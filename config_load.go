// Loading: files, includes, environment variables and the rules by which one
// option makes another.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

const defaultConfigDir = "/etc/salt"

// exitConfig is the exit code for a configuration that cannot be used.
const exitConfig = 1

// ConfigFlags are what the caller knows before the files are read.
type ConfigFlags struct {
	Dir     string       // the directory given by -c; "" is the default one
	Set     *Map         // options of the command line, which win
	CacheID bool         // write a found id to the file minion_id
	Log     *slog.Logger // where warnings go; nil: nowhere
}

func (f ConfigFlags) log() *slog.Logger {
	if f.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return f.Log
}

// ConfigDirFromEnv is the configuration directory that holds without -c.
func ConfigDirFromEnv() string {
	if dir := os.Getenv("SALT_CONFIG_DIR"); dir != "" {
		return dir
	}
	return defaultConfigDir
}

// LoadMasterConfig reads the configuration of a master.
func LoadMasterConfig(f ConfigFlags) (*Options, error) {
	o, err := loadConfig(f, DefaultMasterOptions(), "master", "SALT_MASTER_CONFIG")
	if err != nil {
		return nil, err
	}
	return o, applyMasterRules(o, f)
}

// LoadMinionConfig reads the configuration of a minion.
func LoadMinionConfig(f ConfigFlags) (*Options, error) {
	o, err := loadConfig(f, DefaultMinionOptions(), "minion", "SALT_MINION_CONFIG")
	if err != nil {
		return nil, err
	}
	return o, applyMinionRules(o, f)
}

// LoadClientConfig reads the configuration of a program that talks to the
// master of the same machine: the master's, then the user's own file.
func LoadClientConfig(f ConfigFlags) (*Options, error) {
	o, err := LoadMasterConfig(f)
	if err != nil {
		return nil, err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/root"
	}
	dir, rc := home, ".saltrc"
	xdg := os.Getenv("XDG_CONFIG_HOME")
	if xdg == "" {
		xdg = filepath.Join(home, ".config")
	}
	if st, err := os.Stat(filepath.Join(xdg, "salt")); err == nil && st.IsDir() {
		dir, rc = filepath.Join(xdg, "salt"), "saltrc"
	}
	rcPath := filepath.Join(dir, rc)
	if p := os.Getenv("SALT_CLIENT_CONFIG"); p != "" {
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() {
			rcPath = p
		}
	}
	own, err := readConfigFile(rcPath, optionKinds())
	switch {
	case err == nil:
		o.m.Merge(own)
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission):
		return nil, err
	}
	if !o.Has("token_file") {
		o.Set("token_file", filepath.Join(dir, "salt_token"))
	}
	o.Set("token_file", expandHome(o.Str("token_file")))
	expire := o.Duration("token_expire")
	if st, err := os.Stat(o.Str("token_file")); err == nil && st.Mode().IsRegular() && st.ModTime().Add(expire).After(time.Now()) {
		if token, err := os.ReadFile(o.Str("token_file")); err == nil {
			o.Set("token", strings.TrimSpace(string(token)))
		}
	}
	switch o.Str("interface") {
	case "0.0.0.0":
		o.Set("interface", "127.0.0.1")
	case "::":
		o.Set("interface", "::1")
	}
	if !o.Has("master_uri") {
		o.Set("master_uri", "tcp://"+net.JoinHostPort(o.Str("interface"), o.Str("ret_port")))
	}
	mergeFlags(o, f)
	return o, nil
}

func mergeFlags(o *Options, f ConfigFlags) {
	if f.Set != nil {
		o.m.Merge(f.Set)
	}
}

// loadConfig reads the main file, what default_include names and what include
// names, in this order; later ones win.
func loadConfig(f ConfigFlags, o *Options, file, envVar string) (*Options, error) {
	o.configDir = f.Dir
	if o.configDir == "" {
		o.configDir = ConfigDirFromEnv()
	}
	if abs, err := filepath.Abs(expandHome(o.configDir)); err == nil {
		o.configDir = abs
	}
	path := filepath.Join(o.configDir, file)
	if o.configDir == defaultConfigDir {
		if p := os.Getenv(envVar); p != "" {
			if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() {
				path = p
			}
		}
	}
	kinds := optionKinds()
	own, err := readConfigFile(path, kinds)
	switch {
	case err == nil:
		own.Set("conf_file", path)
	case errors.Is(err, fs.ErrNotExist):
		own = NewMap()
	case errors.Is(err, fs.ErrPermission):
		// A user who may not read the configuration can still ask for help, or
		// use what external authentication allows.
		f.log().Warn("cannot read the configuration: " + err.Error())
		own = NewMap()
	default:
		return nil, err
	}
	r := configReader{kinds: kinds, log: f.log()}
	defaultInclude := own.Value("default_include")
	if defaultInclude == nil {
		defaultInclude = o.Value("default_include")
	}
	for _, step := range []struct {
		what   any
		quiet  bool
		nested bool
	}{{what: defaultInclude, quiet: true}, {what: own.Value("include")}} {
		more, err := r.include(step.what, path, step.quiet, 0)
		if err != nil {
			return nil, err
		}
		own.Merge(more)
	}
	adjustLogFile(own, o.Str("log_file"))
	if !own.Has("ipc_write_buffer") {
		own.Set("ipc_write_buffer", int64(0))
	}
	o.m.Merge(own)
	mergeFlags(o, f)
	o.Set("config_dir", o.configDir)
	return o, nil
}

// maxIncludeDepth bounds files that include each other.
const maxIncludeDepth = 16

type configReader struct {
	kinds map[string]optionKind
	log   *slog.Logger
}

// include reads the files of patterns, which are relative to the directory of
// the including file, and merges them in the order of their names.
func (r configReader) include(what any, from string, quiet bool, depth int) (*Map, error) {
	merged := NewMap()
	var patterns []string
	switch w := what.(type) {
	case string:
		if w != "" {
			patterns = []string{w}
		}
	case *List:
		for _, p := range w.Items {
			patterns = append(patterns, Str(p))
		}
	}
	for _, pattern := range patterns {
		pattern = expandHome(pattern)
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(filepath.Dir(from), pattern)
		}
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			if !quiet {
				r.log.Warn(fmt.Sprintf("Warning parsing configuration file: \"include\" path/glob '%s' matches no files", pattern))
			}
			continue
		}
		sort.Strings(names)
		for _, name := range names {
			if depth >= maxIncludeDepth {
				return nil, configErrorf("%s: includes are nested more than %d deep: does a file include itself?", name, maxIncludeDepth)
			}
			own, err := readConfigFile(name, r.kinds)
			if err != nil {
				if strings.HasSuffix(name, "_schedule.conf") {
					// The minion wrote this one itself; a torn file after a
					// power cut must not keep it from starting.
					r.log.Error("leaving out an unreadable schedule: " + err.Error())
					continue
				}
				return nil, err
			}
			more, err := r.include(own.Value("include"), name, quiet, depth+1)
			if err != nil {
				return nil, err
			}
			own.Merge(more)
			mergeDeep(merged, own)
		}
	}
	return merged, nil
}

// mergeDeep merges mappings all the way down and joins lists, as several
// included files do.
func mergeDeep(into, from *Map) {
	for k, v := range from.All() {
		have, ok := into.Get(k)
		if !ok {
			into.Set(k, v)
			continue
		}
		switch v := v.(type) {
		case *Map:
			if h, ok := have.(*Map); ok {
				mergeDeep(h, v)
				continue
			}
		case *List:
			if h, ok := have.(*List); ok {
				joined := NewList(h.Items...)
				for _, item := range v.Items {
					if !contains(h.Items, item) {
						joined.Append(item)
					}
				}
				into.Set(k, joined)
				continue
			}
		}
		into.Set(k, v)
	}
}

func contains(items []any, v any) bool {
	for _, item := range items {
		if Equal(item, v) {
			return true
		}
	}
	return false
}

// configError is what a user gets for a configuration that cannot be used.
type configError struct{ text string }

func (e *configError) Error() string { return e.text }

func configErrorf(format string, args ...any) error {
	return &configError{fmt.Sprintf(format, args...)}
}

// readConfigFile reads one file and checks the types of the options that the
// table knows. A file without a document is an empty one.
func readConfigFile(path string, kinds map[string]optionKind) (*Map, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	v, err := ParseYAML(src)
	if err != nil {
		return nil, configErrorf("Error parsing configuration file: %s", yamlErrorIn(path, err))
	}
	if !Truth(v) {
		return NewMap(), nil
	}
	m, ok := v.(*Map)
	if !ok {
		return nil, configErrorf("Error parsing configuration file: %s - conf should be a document, not %s.", path, TypeName(v))
	}
	for _, key := range m.Keys() {
		name, ok := key.(string)
		if !ok {
			continue
		}
		kind, known := kinds[name]
		if !known {
			continue
		}
		value := m.Value(name)
		if value == nil {
			m.Delete(name) // written without a value: the default holds
			continue
		}
		converted, ok := kind.convert(value)
		if !ok {
			return nil, configErrorf("Error in configuration file: %s, line %d: %s is %s and must be %s", path, lineOfKey(src, name), name, describeValue(value), kind)
		}
		m.Set(name, converted)
	}
	return m, nil
}

// yamlErrorIn says in one line what is wrong with the document in a file.
func yamlErrorIn(path string, err error) string {
	var y *YAMLError
	if !errors.As(err, &y) || y.Mark.Line == 0 {
		return path + " - " + oneLine(err.Error())
	}
	text := y.Problem
	if y.Context != "" {
		text = y.Context + ": " + text
	}
	return fmt.Sprintf("%s, line %d, column %d - %s", path, y.Mark.Line, y.Mark.Column, oneLine(text))
}

func describeValue(v any) string {
	text := Repr(v)
	if len(text) > 60 {
		text = text[:57] + "…"
	}
	return oneLine(text)
}

// lineOfKey finds the line of a key at the top level of a document.
func lineOfKey(src []byte, key string) int {
	for i, line := range bytes.Split(src, []byte("\n")) {
		for _, form := range []string{key, "'" + key + "'", "\"" + key + "\""} {
			rest, ok := bytes.CutPrefix(line, []byte(form))
			if ok && bytes.HasPrefix(bytes.TrimLeft(rest, " \t"), []byte(":")) {
				return i + 1
			}
		}
	}
	return 1
}

// oneLine joins the lines of a message, so that it is one line of the log.
func oneLine(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, ", ")
}

func expandHome(path string) string {
	if path == "~" || strings.HasPrefix(path, "~/") {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, path[1:])
		}
	}
	return path
}
