// External pillars: data from programs, from directories and from files in
// _pillar that the users wrote (ext_pillar).
//
// The law of this room: one literal table; an entry takes the minion's id, the
// pillar so far, and its configuration. A failing source costs its own data and
// is named under _errors. A minion chooses its id, so an id with letters that
// mean something to a shell never reaches one.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// extPillar computes the data of one external source.
type extPillar func(s *pillarRunState, pillar *Map, conf any) (*Map, error)

func extPillars() map[string]extPillar {
	return map[string]extPillar{
		"cmd_json":  extCommand(func(text string) (any, error) { return DecodeJSON([]byte(text)) }),
		"cmd_yaml":  extCommand(func(text string) (any, error) { return ParseYAML([]byte(text)) }),
		"file_tree": extFileTree,
	}
}

// external merges the sources of ext_pillar over pillar, in order.
func (s *pillarRunState) external(pillar *Map) *Map {
	for _, run := range toItems(s.opts.Value("ext_pillar")) {
		m, ok := run.(*Map)
		if !ok {
			s.log.Error("ext_pillar: an entry is no mapping of a source to its configuration")
			continue
		}
		for name, conf := range m.All() {
			data, err := s.source(Str(name), pillar, conf)
			if errors.Is(err, errNoExtPillar) { // no error of the pillar, as in Salt
				s.log.Log(s.ctx, LevelCritical, fmt.Sprintf("ext_pillar %s is not available: cmd_json, cmd_yaml and file_tree are, and files in %s",
					Str(name), filepath.Join(extmodsDir(s.opts), "pillar")))
				continue
			}
			if err != nil {
				s.log.Log(s.ctx, LevelCritical, fmt.Sprintf("ext_pillar %s for %s: %v", Str(name), s.req.ID, err))
				s.errs = append(s.errs, fmt.Sprintf("Failed to load ext_pillar %s: the log of the master has the reason", Str(name)))
				continue
			}
			if data.Len() > 0 {
				pillar = s.merge(pillar, data)
			}
		}
	}
	return pillar
}

// errNoExtPillar says that there is no such source.
var errNoExtPillar = errors.New("there is no such external pillar")

// source computes the data of one source: of the user's files, or built in.
func (s *pillarRunState) source(name string, pillar *Map, conf any) (*Map, error) {
	f, err := s.own.Function(s.ctx, s.call, "pillar", name, "ext_pillar")
	if err != nil {
		return nil, err
	}
	if f != nil {
		return s.ownSource(f, pillar, conf)
	}
	if source, ok := extPillars()[name]; ok {
		return source(s, pillar, conf)
	}
	return nil, errNoExtPillar
}

// ownSource calls ext_pillar(minion_id, pillar, …): the configuration is its
// further arguments.
func (s *pillarRunState) ownSource(f Function, pillar *Map, conf any) (*Map, error) {
	args, kwargs := []any{s.req.ID, pillar}, &Map{}
	switch conf := conf.(type) {
	case *Map:
		kwargs.Merge(conf)
	case *List:
		args = append(args, conf.Items...)
	default:
		args = append(args, conf)
	}
	if s.req.Extra.Len() > 0 {
		for _, p := range f.Signature().Params {
			if p.Name == "extra_minion_data" {
				kwargs.Set(p.Name, s.req.Extra)
			}
		}
	}
	v, err := f.Invoke(s.ctx, s.call, args, kwargs)
	if err != nil {
		return nil, err
	}
	m, ok := v.(*Map)
	if !ok && Truth(v) {
		return nil, fmt.Errorf("it returned %s, not a mapping", TypeName(v))
	}
	return m, nil
}

// extCommand runs a command whose output is the data; %s in it is the id.
func extCommand(parse func(string) (any, error)) extPillar {
	return func(s *pillarRunState, _ *Map, conf any) (*Map, error) {
		command, ok := conf.(string)
		if !ok {
			return nil, fmt.Errorf("the configuration is %s, not a command", TypeName(conf))
		}
		if strings.Contains(command, "%s") {
			for _, r := range s.req.ID {
				if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@:", r) {
					return nil, fmt.Errorf("the id %q may not be put into a command", s.req.ID)
				}
			}
			command = strings.ReplaceAll(command, "%s", s.req.ID)
		}
		v, err := s.call.RunKw(s.ctx, "cmd.run_stdout", []any{command}, NewMap("python_shell", true, "raise_err", true, "output_loglevel", "quiet"))
		if err != nil {
			return nil, err
		}
		data, err := parse(Str(v))
		if err != nil {
			return nil, err
		}
		m, ok := data.(*Map)
		if !ok {
			return nil, fmt.Errorf("the output is %s, not a mapping", TypeName(data))
		}
		return m, nil
	}
}

// extFileTree turns directories into data: root_dir/nodegroups/NAME for the
// groups that the minion is in, then root_dir/hosts/ID.
func extFileTree(s *pillarRunState, _ *Map, conf any) (*Map, error) {
	m, ok := conf.(*Map)
	if !ok || m.Str("root_dir") == "" {
		return nil, fmt.Errorf("root_dir is needed")
	}
	root := m.Str("root_dir")
	if !filepath.IsAbs(root) {
		return nil, fmt.Errorf("root_dir %q is no absolute path", root)
	}
	keep := Truth(m.Value("keep_newline"))
	follow := Truth(m.Value("follow_dir_links"))
	out := &Map{}
	subject := Subject{ID: s.req.ID, Grains: s.req.Grains, Pillar: s.call.Pillar, Nodegroups: s.opts.Map("nodegroups")}
	for _, e := range readDirNames(filepath.Join(root, "nodegroups")) {
		if MatchTarget("compound", "N@"+e.Name(), "", subject) {
			out = UpdateMap(out, treeData(filepath.Join(root, "nodegroups", e.Name()), keep, follow, 0), false)
		}
	}
	host, err := SafeJoin(filepath.Join(root, "hosts"), s.req.ID)
	if err != nil {
		return nil, err
	}
	return UpdateMap(out, treeData(host, keep, follow, 0), false), nil
}

// maxTreeDepth ends what links could make endless.
const maxTreeDepth = 64

// treeData is a directory as a mapping of names to contents.
func treeData(dir string, keepNewline, follow bool, depth int) *Map {
	out := &Map{}
	if depth > maxTreeDepth {
		return out
	}
	for _, e := range readDirNames(dir) {
		full := filepath.Join(dir, e.Name())
		info, err := os.Stat(full)
		if err != nil || info.IsDir() && e.Type()&os.ModeSymlink != 0 && !follow {
			continue
		}
		if info.IsDir() {
			out.Set(e.Name(), treeData(full, keepNewline, follow, depth+1))
			continue
		}
		if !info.Mode().IsRegular() {
			continue
		}
		data, err := os.ReadFile(full)
		if err != nil {
			continue
		}
		text := string(data)
		if !keepNewline {
			text = strings.TrimSuffix(text, "\n")
		}
		out.Set(e.Name(), text)
	}
	return out
}

// readDirNames lists a directory, nothing if it cannot be read.
func readDirNames(dir string) []os.DirEntry {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	return entries
}
