// Salt's filters give what Salt gave; testdata has the records.
package main

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestSaltFiltersRecorded compares with what Salt's own filters, tags and tests
// gave; of errors only the first line.
func TestSaltFiltersRecorded(t *testing.T) {
	t.Setenv("TZ", "UTC")
	file := "testdata/render/salt_filters.json"
	if more := os.Getenv("HALITE_SALT_FILTERS"); more != "" {
		file = more
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		T   string
		Out *string
		Err string
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	addresses := regexp.MustCompile(` at 0x[0-9a-f]+`)
	rd := NewRenderer(RenderConfig{})
	failed := 0
	for _, c := range cases {
		pillar := NewMap("users", NewMap("bob", NewMap("uid", int64(1001)), "alice", NewMap("uid", int64(1000), "groups", Strings([]string{"wheel", "dev"}))),
			"l", NewList(NewMap("a", int64(1)), NewMap("b", NewList(int64(1), int64(2)))), "5", "FIVE", int64(5), "FIVE")
		grains := NewMap("id", "m1", "ipv4", Strings([]string{"127.0.0.1", "10.1.2.3"}))
		got, err := rd.Render(context.Background(), RenderRequest{Source: c.T, Renderers: "jinja", Saltenv: "base", SLS: "t", Path: ":string:",
			Pillar: pillar, Grains: grains, Opts: NewMap("file_client", "local", "id", ""), Functions: recordedFunctions{pillar, grains}, Files: recordedTree{}})
		problem := ""
		switch {
		case c.Out != nil && err != nil:
			problem = "got error " + strings.SplitN(err.Error(), "\n", 2)[0]
		case c.Out != nil && addresses.ReplaceAllString(Str(got), "") != addresses.ReplaceAllString(*c.Out, ""):
			problem = "got  " + Repr(got)
		case c.Out == nil && err == nil:
			problem = "got no error but " + Repr(got)
		case c.Out == nil:
			if first, _, _ := strings.Cut(strings.SplitN(err.Error(), "\n", 2)[0], "; line "); first != c.Err {
				problem = "got error " + first
			}
		}
		if problem == "" {
			continue
		}
		if failed++; failed <= 200 {
			want := "error " + c.Err
			if c.Out != nil {
				want = Repr(*c.Out)
			}
			t.Errorf("%s\n %s\nwant %s", Repr(c.T), problem, want)
		}
	}
	if failed > 0 {
		t.Errorf("%d of %d differ", failed, len(cases))
	}
}
