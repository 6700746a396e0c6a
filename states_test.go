// Recorded state runs: the same trees through salt-call, in this process, with
// the data and the exit code that Salt gave.
package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"
)

// recordedRun is one case of testdata/states/recorded.json, which people chose,
// or of generated.json: trees of random states, requisites, mistakes in their
// shape, top files and pillars.
type recordedRun struct {
	name  string
	files *Map
	modes *Map
	steps []*Map
	loose bool // the order of lines and of removed files is free
}

func loadRecordedRuns(t *testing.T, file string) []recordedRun {
	t.Helper()
	p, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	v, err := DecodeJSON(p)
	if err != nil {
		t.Fatal(err)
	}
	var out []recordedRun
	for _, item := range toItems(v) {
		m := item.(*Map)
		r := recordedRun{name: m.Str("name"), files: m.Map("files"), modes: m.Map("modes"), loose: Truth(m.Value("unordered"))}
		for _, s := range toItems(m.Value("steps")) {
			r.steps = append(r.steps, s.(*Map))
		}
		out = append(out, r)
	}
	return out
}

// comparableReturn takes out of a result what differs from run to run.
func comparableReturn(v any, loose bool) any {
	switch v := v.(type) {
	case *Map:
		out := NewMap()
		isReturn := v.Has("__run_num__") || v.Has("__sls__") || v.Has("result")
		for _, k := range v.SortedKeys() {
			item := v.Value(k)
			switch {
			case isReturn && (k == "duration" || k == "start_time"):
				continue
			case k == "pid" || k == "__pub_pid":
				item = "<PID>"
			}
			c := comparableReturn(item, loose)
			if l, ok := c.(*List); ok && k == "removed" {
				sort.Slice(l.Items, func(i, j int) bool { return Str(l.Items[i]) < Str(l.Items[j]) })
			}
			out.Set(k, c)
		}
		return out
	case *List:
		out := NewList()
		for _, item := range v.Items {
			out.Append(comparableReturn(item, loose))
		}
		return out
	case string:
		v = regexp.MustCompile(`Traceback \(most recent call last\):\n( *File "[^\n]*\n)*`).ReplaceAllString(v, "")
		v = regexp.MustCompile(`<TRACEBACK>(\n|$)`).ReplaceAllString(v, "")
		v = regexp.MustCompile(`\b20\d{18}\b`).ReplaceAllString(v, "<JID>")
		v = regexp.MustCompile(`__salt\.tmp\.\w+`).ReplaceAllString(v, "__salt.tmp.XXXX")
		if failed, ok := strings.CutPrefix(v, "One or more requisite failed: "); ok { // a set of Python's
			names := strings.Split(failed, ", ")
			sort.Strings(names)
			return strings.Join(names, ", ")
		}
		if loose && strings.Contains(v, "\n") {
			lines := strings.Split(v, "\n")
			sort.Strings(lines)
			return strings.Join(lines, "\n")
		}
		return v
	}
	return v
}

func TestRecordedStateRuns(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the recorded runs were made as root")
	}
	runs := append(loadRecordedRuns(t, "testdata/states/recorded.json"), loadRecordedRuns(t, "testdata/states/generated.json")...)
	for _, r := range runs {
		t.Run(r.name, func(t *testing.T) {
			work := t.TempDir()
			here := func(s string) string { return strings.ReplaceAll(s, "@W@", work) }
			for _, d := range []string{"out", "tmp", "srv/salt", "srv/pillar"} {
				if err := os.MkdirAll(filepath.Join(work, d), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for rel, text := range r.files.All() {
				p := filepath.Join(work, Str(rel))
				if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
					t.Fatal(err)
				}
				mode := os.FileMode(0o644)
				if r.modes.Has(rel) {
					mode = 0o755
				}
				if err := os.WriteFile(p, []byte(here(Str(text))), mode); err != nil {
					t.Fatal(err)
				}
			}
			for i, s := range r.steps {
				if pre := toItems(s.Value("pre")); len(pre) > 0 {
					cmd := exec.Command("sh", "-c", here(strings.Join(texts(NewList(pre...)), "\n")))
					cmd.Dir = work
					if out, err := cmd.CombinedOutput(); err != nil {
						t.Fatalf("step %d: prepare: %v\n%s", i, err, out)
					}
				}
				var args []string
				for _, a := range toItems(s.Value("argv")) {
					args = append(args, here(Str(a)))
				}
				var out, errs bytes.Buffer
				code := appletCall(append(args, "--out", "json"), Stdio{In: strings.NewReader(""), Out: &out, Err: &errs})
				if want, _ := toInt(s.Value("rc")); int64(code) != want {
					t.Errorf("step %d, %v: exit code %d, want %d\n%s%s", i, args, code, want, out.String(), errs.String())
					continue
				}
				if !s.Has("data") {
					continue
				}
				got, err := DecodeJSON([]byte(strings.ReplaceAll(out.String(), work, "@W@")))
				if err != nil {
					t.Errorf("step %d, %v: %v in %s%s", i, args, err, out.String(), errs.String())
					continue
				}
				have, want := comparableReturn(got, r.loose), comparableReturn(s.Value("data"), r.loose)
				if !Equal(have, want) {
					layout := JSONOptions{Indent: 1, SortKeys: true}
					a, b := keepEnds(EncodeJSON(want, layout)), keepEnds(EncodeJSON(have, layout))
					t.Errorf("step %d, %v:\n%s", i, args, unifiedDiff(a, b, "want", "got"))
				}
			}
		})
	}
}
