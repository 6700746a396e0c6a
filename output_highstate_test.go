// The highstate outputter prints what Salt printed; testdata has the records.
package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestHighstateAsRecorded compares reports of state runs with recordings. The
// recorded data has no times; what is printed of them is taken out.
func TestHighstateAsRecorded(t *testing.T) {
	path := "testdata/output/states.json"
	if p := os.Getenv("HALITE_STATE_REPORTS"); p != "" {
		path = p // more recordings of the same form
	}
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := DecodeJSON(src)
	if err != nil {
		t.Fatal(err)
	}
	times := regexp.MustCompile(`(?m)^(?:\x1b\[[\d;]*m)?(?:    )?(?:\x1b\[[\d;]*m)?(?:     Started: |    Duration: | Started: |Duration: )<.*\n| - Started: <T> - Duration: <D> ms|^Total run time:.*\n|\x1b\[0;36mTotal run time:.*\n|<T> \[<D> ms\] `)
	tidy := func(s string) string { return times.ReplaceAllString(s, "") }
	for _, item := range cases.(*List).Items {
		c := item.(*Map)
		name := c.Str("name")
		p, err := mustProgram("salt-call").parse(texts(c.List("opts")))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		conf := NewMap("state_output", "full", "state_verbose", true, "state_output_profile", true)
		for k, v := range c.Map("config").All() {
			value, err := ParseYAML([]byte(v.(string)))
			if err != nil {
				t.Fatal(err)
			}
			conf.Set(k, value)
		}
		o := NewOptions(conf)
		p.MergeInto(o)
		text, err := Output("highstate", c.Value("data"), newOutputOptions(o, false))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, want := tidy(text+"\n"), tidy(c.Str("text")); got != want {
			t.Errorf("%s:\n--- got\n%s\n--- want\n%s", name, strings.ReplaceAll(got, "\x1b", "^"), strings.ReplaceAll(want, "\x1b", "^"))
		}
	}
}

// TestHighstateModes compares generated reports, times included, with what Salt
// prints of them in every mode and with every switch.
func TestHighstateModes(t *testing.T) {
	src, err := os.ReadFile("testdata/output/reports.json")
	if err != nil {
		t.Fatal(err)
	}
	cases, err := DecodeJSON(src)
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range toItems(cases) {
		c := item.(*Map)
		o := newOutputOptions(NewOptions(c.Map("config").Clone()), false)
		o.Color = c.Value("color") == true
		text, err := Output("highstate", c.Value("data"), o)
		if err != nil || text != c.Str("text") {
			t.Errorf("%s with %s: %v\n%s", c.Str("name"), Str(c.Value("config")), err,
				unifiedDiff(keepEnds(c.Str("text")+"\n"), keepEnds(text+"\n"), "want", "got"))
		}
	}
}
