// Configuration: files in their order, errors that name their place, ids that
// stay.
package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeFiles makes the files of a map of relative names to contents.
func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOptionTableIsSortedAndItsDefaultsFit(t *testing.T) {
	last := ""
	for _, s := range optionSpecs() {
		if s.name <= last {
			t.Errorf("%s is out of order after %s, or double", s.name, last)
		}
		last = s.name
		if s.doc == "" || !strings.HasSuffix(s.doc, ".") {
			t.Errorf("%s: doc %q is no sentence", s.name, s.doc)
		}
		for _, def := range []any{s.master, s.minion} {
			v, ok := defaultValue(def)
			if !ok || v == nil {
				continue
			}
			if got, ok := s.kind.convert(v); !ok || !Equal(got, v) {
				t.Errorf("%s: the default %s is not %s", s.name, Repr(v), s.kind)
			}
		}
	}
}

func TestMasterConfigMergesFilesInOrder(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{
		"master":              "root_dir: " + dir + "\ntimeout: 7\nkeysize: 3072\nown_key: [1, {a: b}]\ninclude:\n  - extra/*.conf\nnodegroups:\n  - g1: web*\n  - g2: [a, b]\npublish_port: \"44505\"\npki_dir: pki/m\n",
		"master.d/10-a.conf":  "timeout: 8\nfile_roots: {base: [/one]}\npillar_roots:\n",
		"master.d/20-b.conf":  "timeout: 9\nfile_roots: {base: [/two], dev: [/d]}\n",
		"master.d/ignored.cf": "timeout: 10\n",
		"extra/x.conf":        "keysize: 4096\n",
	})
	o, err := LoadMasterConfig(ConfigFlags{Dir: dir, Set: NewMap("log_level", "debug")})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"timeout":      int64(9),
		"keysize":      int64(4096),
		"publish_port": int64(44505),
		"log_level":    "debug",
		"pki_dir":      dir + "/pki/m",
		"cachedir":     dir + "/var/cache/salt/master",
		"log_file":     dir + "/var/log/salt/master",
		"conf_file":    dir + "/master",
		"file_roots":   NewMap("base", NewList("/one", "/two"), "dev", NewList("/d")),
		"pillar_roots": NewMap("base", NewList("/srv/pillar", "/srv/spm/pillar")),
		"nodegroups":   NewMap("g1", "web*", "g2", NewList("a", "b")),
		"own_key":      NewList(int64(1), NewMap("a", "b")),
		"utils_dirs":   NewList("/var/cache/salt/master/extmods/utils"),
	} {
		if got := o.Value(name); !Equal(got, want) {
			t.Errorf("%s: %s, want %s", name, Repr(got), Repr(want))
		}
	}
	if id := o.Str("id"); !strings.HasSuffix(id, "_master") {
		t.Errorf("id of the master: %q", id)
	}
}

func TestConfigErrorsNameFileLineAndKey(t *testing.T) {
	for _, c := range []struct {
		files map[string]string
		want  []string
	}{
		{map[string]string{"minion": "id: a\n\nmaster_port: abc\n"}, []string{"/minion, line 3: master_port is 'abc'", "must be a whole number"}},
		{map[string]string{"minion": "id: a\ndisable_modules: cmd\n"}, []string{"line 2: disable_modules", "must be a list"}},
		{map[string]string{"minion": "id: a\n", "minion.d/x.conf": "\n\n'open_mode': perhaps\n"}, []string{"/minion.d/x.conf, line 3: open_mode", "true or false"}},
		{map[string]string{"minion": "id: a\n b: [\n"}, []string{"Error parsing configuration file: ", "/minion, line 2, column 3 - "}},
		{map[string]string{"minion": "- a\n"}, []string{"conf should be a document, not list"}},
		{map[string]string{"minion": "id: a\nmaster: x\nmaster: y\n"}, []string{"/minion, line 3", "conflicting ID"}},
		{map[string]string{"minion": "id: ../x\n"}, []string{"id: "}},
		{map[string]string{"minion": "id: x\nsigning_algorithm: MD5\n"}, []string{"signing_algorithm", "PKCS1v15-SHA224"}},
		{map[string]string{"minion": "id: x\ninclude: [loop.conf]\n", "loop.conf": "include: loop.conf\n"}, []string{"include itself"}},
	} {
		dir := t.TempDir()
		writeFiles(t, dir, c.files)
		_, err := LoadMinionConfig(ConfigFlags{Dir: dir})
		if err == nil {
			t.Errorf("%v: no error", c.files)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %q lacks %q", c.files, err, want)
			}
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q is more than one line", err)
		}
	}
}

func TestConfigDirOfTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"minion": "id: from-env\nroot_dir: " + dir + "\n"})
	t.Setenv("SALT_CONFIG_DIR", dir)
	o, err := LoadMinionConfig(ConfigFlags{})
	if err != nil || o.Str("id") != "from-env" {
		t.Fatalf("id %q, %v", o.Str("id"), err)
	}
}

func TestMinionIDFoundAndKept(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{
		"hosts":     "127.0.0.1 localhost\n127.0.1.1 box.example.org box # here\n10.0.0.1 plain other.example.org\n",
		"bad-hosts": "127.0.0.1 localhost\n127.0.0.1 localhost.localdomain box\n127.0.0.1 realname\n",
		"name":      "from-file\n",
	})
	o := DefaultMinionOptions()
	host := func(h string) func() (string, error) { return func() (string, error) { return h, nil } }
	address := func() []string { return []string{"10.9.8.7"} }
	for _, c := range []struct {
		src  idSources
		want string
		addr bool
	}{
		{idSources{hostname: host("box"), hosts: dir + "/hosts"}, "box.example.org", false},
		{idSources{hostname: host("plain"), hosts: dir + "/hosts"}, "other.example.org", false},
		{idSources{hostname: host("unknown"), hosts: dir + "/hosts"}, "unknown", false},
		{idSources{hostname: host("unknown"), hosts: dir + "/hosts", lookup: func(string) string { return "unknown.dns" }}, "unknown.dns", false},
		{idSources{hostname: host("localhost"), hosts: dir + "/bad-hosts", nameFiles: []string{dir + "/name"}}, "from-file", false},
		{idSources{hostname: host("localhost"), hosts: dir + "/bad-hosts", nameFiles: []string{}}, "box", false},
		{idSources{hostname: host("(none)"), hosts: dir + "/none", nameFiles: []string{}, addresses: address}, "10.9.8.7", true},
	} {
		if id, addr := guessMinionID(o, c.src); id != c.want || addr != c.addr {
			t.Errorf("got %q %v, want %q %v", id, addr, c.want, c.addr)
		}
	}

	root := t.TempDir()
	flags := ConfigFlags{Dir: root + "/conf", CacheID: true}
	writeFiles(t, root, map[string]string{"conf/minion": "root_dir: " + root + "\n", "etc/salt/minion_id": "localhost\n"})
	first, err := LoadMinionConfig(flags)
	if err != nil || isLocalName(first.Str("id")) {
		t.Fatalf("id %q, %v", first.Str("id"), err)
	}
	kept, err := os.ReadFile(root + "/conf/minion_id")
	if err != nil || string(kept) != first.Str("id") {
		t.Fatalf("kept %q, %v", kept, err)
	}
	writeFiles(t, root, map[string]string{"conf/minion_id": "kept-name\n"})
	if o, _ := LoadMinionConfig(flags); o.Str("id") != "kept-name" {
		t.Errorf("id %q, not the kept one", o.Str("id"))
	}
}

func BenchmarkLoadMinionConfig(b *testing.B) {
	dir := b.TempDir()
	if err := os.WriteFile(dir+"/minion", []byte("id: bench\nmaster: 127.0.0.1\nroot_dir: "+dir+"\n"), 0o644); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := LoadMinionConfig(ConfigFlags{Dir: dir}); err != nil {
			b.Fatal(err)
		}
	}
}
