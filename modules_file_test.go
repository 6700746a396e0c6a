// Tests of module file.
package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fileTree makes a directory with a few files and returns a function that puts
// their paths into texts.
func fileTree(t *testing.T) (dir string, in func(string) string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{"a": "alpha\nbeta\ngamma\n", "b": "one two\nthree four\n# comment\nkey=val\n", "nonl": "nonl", "bin": "a\x00b", "empty": "", "crlf": "x\r\ny\r\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "a"), filepath.Join(dir, "ln")); err != nil {
		t.Fatal(err)
	}
	return dir, func(s string) string { return strings.ReplaceAll(s, "DIR", dir) }
}

// checkFile compares the contents of a file.
func checkFile(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s: %q, %v; want %q", path, got, err, want)
	}
}

func TestFileEdits(t *testing.T) {
	c := moduleTestCall(t)
	dir, in := fileTree(t)
	a, b := dir+"/a", dir+"/b"
	checkCalls(t, c, []moduleCall{
		{"file.replace", []any{a, "beta", "BETA"}, nil, `'--- \n+++ \n@@ -1,3 +1,3 @@\n alpha\n-beta\n+BETA\n gamma\n'`},
		{"file.replace", []any{a, "zzz", "added"}, []any{"append_if_not_found", true, "backup", false}, `'--- \n+++ \n@@ -1,3 +1,4 @@\n alpha\n BETA\n gamma\n+added\n'`},
		{"file.replace", []any{a, "zzz", "added"}, []any{"append_if_not_found", true}, `''`},
		{"file.replace", []any{b, "^(key)=(.*)$", `\1 = \2`}, nil, `'--- \n+++ \n@@ -1,4 +1,4 @@\n one two\n three four\n # comment\n-key=val\n+key = val\n'`},
		{"file.replace", []any{b, "ONE", "x"}, []any{"flags", NewList("IGNORECASE"), "dry_run", true, "show_changes", false}, "True"},
		{"file.replace", []any{dir + "/bin", "a", "b"}, nil, in("ERROR executing 'file.replace': Cannot perform string replacements on a binary file: DIR/bin")},
		{"file.search", []any{a, "alpha.*gamma"}, []any{"flags", "DOTALL"}, "True"},
		{"file.comment", []any{b, "^key"}, nil, `'--- \n+++ \n@@ -1 +1 @@\n-key = val\n+#key = val\n'`},
		{"file.uncomment", []any{b, "key"}, nil, `'--- \n+++ \n@@ -1 +1 @@\n-#key = val\n+key = val\n'`},
		{"file.comment", []any{b, "^zzz"}, nil, "False"},
		{"file.line", []any{b}, []any{"content", "new", "mode", "ensure", "after", "one"}, `'--- \n+++ \n@@ -1,4 +1,5 @@\n one two\n+new\n three four\n # comment\n key = val\n'`},
		{"file.line", []any{b}, []any{"content", "new", "mode", "ensure", "after", "one"}, "False"},
		{"file.line", []any{b}, []any{"content", "new", "mode", "delete"}, `'--- \n+++ \n@@ -1,5 +1,4 @@\n one two\n-new\n three four\n # comment\n key = val\n'`},
		{"file.line", []any{b}, []any{"content", "x", "mode", "insert"}, `ERROR: On insert either "location" or "before/after" conditions are required.`},
		{"file.line", []any{b}, []any{"content", "x", "mode", "ensure", "after", "o"}, `ERROR: Found more than expected occurrences in "after" expression`},
		{"file.blockreplace", []any{a, "#S", "#E"}, []any{"content", "line", "append_if_not_found", true, "append_newline", true}, `'--- \n+++ \n@@ -2,3 +2,6 @@\n BETA\n gamma\n added\n+#S\n+line\n+#E\n'`},
		{"file.blockreplace", []any{a, "#S", "#E"}, []any{"content", "other\n"}, `'--- \n+++ \n@@ -3,5 +3,5 @@\n gamma\n added\n #S\n-line\n+other\n #E\n'`},
		{"file.blockreplace", []any{a, "#X", "#Y"}, nil, "ERROR: Cannot edit marked block. Markers were not found in file."},
		{"file.append", []any{dir + "/nonl", "d1", int64(2)}, nil, in(`'Wrote 2 lines to "DIR/nonl"'`)},
		{"file.prepend", []any{dir + "/nonl", "z"}, nil, in(`'Prepended 1 lines to "DIR/nonl"'`)},
		{"file.append", []any{dir + "/nosuch", "x"}, nil, in("The minion function caused an exception: Traceback (most recent call last):\nFileNotFoundError: [Errno 2] No such file or directory: 'DIR/nosuch'\n")},
		{"file.line", []any{dir + "/crlf"}, []any{"content", "m", "mode", "insert", "after", "x", "show_changes", false}, "True"},
	})
	checkFile(t, a, "alpha\nBETA\ngamma\nadded\n#S\nother\n#E\n")
	checkFile(t, a+".bak", "alpha\nBETA\ngamma\nadded\n#S\nline\n#E\n")
	checkFile(t, dir+"/nonl", "z\nnonl\nd1\n2\n")
	checkFile(t, dir+"/crlf", "x\r\nm\ny\r\n")
}

func TestFileTrees(t *testing.T) {
	c := moduleTestCall(t)
	dir, in := fileTree(t)
	checkCalls(t, c, []moduleCall{
		{"file.mkdir", []any{dir + "/m/n"}, []any{"mode", "0750"}, "True"},
		{"file.get_mode", []any{dir + "/m"}, nil, "'0750'"},
		{"file.makedirs", []any{dir + "/m/n/x"}, nil, in(`"Directory 'DIR/m/n' already exists"`)},
		{"file.symlink", []any{dir + "/b", dir + "/ln"}, nil, in("ERROR: Found existing symlink: DIR/ln")},
		{"file.symlink", []any{dir + "/b", dir + "/ln"}, []any{"force", true}, "True"},
		{"file.readlink", []any{dir + "/ln"}, nil, in("'DIR/b'")},
		{"file.copy", []any{dir + "/m", dir + "/m2"}, nil, "ERROR executing 'file.copy': Cannot copy overwriting a directory without recurse flag set to true!"},
		{"file.copy", []any{dir + "/m", dir + "/m2"}, []any{"recurse", true}, "True"},
		{"file.find", []any{dir}, []any{"type", "d", "maxdepth", int64(1), "name", "m*"}, in("['DIR/m', 'DIR/m2']")},
		{"file.find", []any{dir}, []any{"name", "a", "print", "name,size,mode"}, "[['a', 17, 420]]"},
		{"file.remove", []any{dir + "/m2"}, nil, "True"},
		{"file.remove", []any{"m2"}, nil, "ERROR executing 'file.remove': File path must be absolute: m2"},
		{"file.rmdir", []any{dir + "/m"}, []any{"recurse", true}, "True"},
		{"file.touch", []any{dir + "/t", int64(5), int64(6)}, nil, "True"},
		{"file.set_mode", []any{dir + "/t", "4755"}, nil, "'4755'"},
		{"file.join", []any{"/", "usr", "local"}, nil, "'/usr/local'"},
		{"file.get_hash", []any{dir + "/a", "md5"}, nil, "'6c7831c26f0d0a5f807006854aa682f4'"},
		{"file.get_source_sum", []any{"x", "y", "0123456789abcdef0123456789abcdef"}, nil, "{'hash_type': 'md5', 'hsum': '0123456789abcdef0123456789abcdef'}"},
	})
}

func TestFileManaged(t *testing.T) {
	c := moduleTestCall(t)
	dir, in := fileTree(t)
	args := func(name string, more ...any) []any {
		return append([]any{dir + "/" + name, "", &Map{}, "", &Map{}, nil, nil, "0640", nil, "base", "minion"}, more...)
	}
	checkCalls(t, c, []moduleCall{
		{"file.manage_file", args("new"), []any{"contents", "one\n"}, in("{'name': 'DIR/new', 'changes': {'diff': 'New file', 'mode': '0640'}, 'comment': 'File DIR/new updated', 'result': True}")},
		{"file.manage_file", args("new"), []any{"contents", "one\n"}, in("{'name': 'DIR/new', 'changes': {}, 'comment': 'File DIR/new is in the correct state', 'result': True}")},
		{"file.manage_file", args("new"), []any{"contents", "two\n"}, in(`{'name': 'DIR/new', 'changes': {'diff': '--- \n+++ \n@@ -1 +1 @@\n-one\n+two\n'}, 'comment': 'File DIR/new updated', 'result': True}`)},
		{"file.manage_file", args("no/such"), []any{"contents", "x"}, in("{'name': 'DIR/no/such', 'changes': {}, 'comment': 'Parent directory not present', 'result': False}")},
		{"file.source_list", []any{NewList("/nosuch", dir+"/a"), "h", "base"}, nil, in("['DIR/a', 'h']")},
		{"file.get_managed", []any{dir + "/x", nil, "/nosuch", nil, nil, nil, nil, nil, nil, "base", nil, nil}, nil, "['', {}, 'Local file source /nosuch does not exist']"},
	})
	got, err := direct(t, c, "file.list_backups", []any{dir + "/new"})
	m, _ := got.(*Map)
	if err != nil || m.Len() != 1 {
		t.Fatalf("backups: %s, %v", Repr(got), err)
	}
	one, _ := m.Get(int64(0))
	checkFile(t, one.(*Map).Str("Location"), "one\n")
	checkCalls(t, c, []moduleCall{
		{"file.restore_backup", []any{dir + "/new", int64(0)}, nil, "{'result': True, 'comment': 'Successfully restored " + one.(*Map).Str("Location") + in(" to DIR/new'}")},
		{"file.restore_backup", []any{dir + "/new", "05"}, nil, "{'result': False, 'comment': \"Invalid backup_id '05'\"}"},
	})
	checkFile(t, dir+"/new", "one\n")
}

func TestUnifiedDiff(t *testing.T) {
	if got := unifiedDiff([]string{"a\n"}, []string{"a\n"}, "", ""); got != "" {
		t.Errorf("equal texts differ: %q", got)
	}
	var a, b []string
	for i := range 40 {
		line := string(rune('a'+i%26)) + "\n"
		a = append(a, line)
		if i != 5 && i != 30 {
			b = append(b, line)
		}
	}
	want := "--- x\n+++ y\n@@ -3,7 +3,6 @@\n c\n d\n e\n-f\n g\n h\n i\n@@ -28,7 +27,6 @@\n b\n c\n d\n-e\n f\n g\n h\n"
	if got := unifiedDiff(a, b, "x", "y"); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
