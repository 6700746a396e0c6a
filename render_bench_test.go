// Templates and YAML as they are in real trees, and what they cost.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The benchmarks of this file have their like in testdata/bench/render.py. With
// HALITE_SALT_PYTHON set to the python of a Salt installation, BenchmarkRenderRatio
// runs both in one go and reports how many times faster Halite is.

const benchLoop = "{% set ns = namespace(sum=0) %}{% for i in range(100000) %}{% if i is even %}{% set ns.sum = ns.sum + i %}{% endif %}{{ i }}\n{% endfor %}{{ ns.sum }}"

func benchDocument() []byte {
	var b strings.Builder
	for n := range 5400 {
		fmt.Fprintf(&b, "site-%d:\n  file.managed:\n    - name: /etc/sites/%d.conf\n    - user: root\n    - mode: 0644\n    - context: {port: %d, tls: yes, names: [a%d, b%d]}\n    - require:\n      - pkg: nginx\n", n, n, n, n, n)
	}
	return []byte(b.String())
}

func benchRender(t testing.TB) func(source string) string {
	raw, err := os.ReadFile("testdata/bench/vars.json")
	if err != nil {
		t.Fatal(err)
	}
	v, err := DecodeJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	rd := NewRenderer(RenderConfig{})
	return func(source string) string {
		vars := DeepCopy(v).(*Map)
		out, err := rd.Render(context.Background(), RenderRequest{Source: source, Renderers: "jinja", SLS: "bench",
			Grains: vars.Map("grains"), Pillar: vars.Map("pillar"), Opts: NewMap()})
		if err != nil {
			t.Fatal(err)
		}
		return out.(string)
	}
}

func benchMapFile(t testing.TB) string {
	raw, err := os.ReadFile("testdata/bench/map.jinja")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestBenchTemplatesRender(t *testing.T) {
	out := benchRender(t)(benchMapFile(t))
	for _, want := range []string{"site-site0-example-com:", "nginx-full", "task-20:", "  tls: [\"site0.example.com\""} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in the rendered map file", want)
		}
	}
	if _, err := ParseYAML(benchDocument()); err != nil {
		t.Error(err)
	}
}

func BenchmarkRenderMapFile(b *testing.B) {
	render, source := benchRender(b), benchMapFile(b)
	for b.Loop() {
		render(source)
	}
}

func BenchmarkRenderMapFileParse(b *testing.B) {
	env := NewRenderer(RenderConfig{}).env(&RenderRequest{}, nil)
	source := benchMapFile(b)
	for b.Loop() {
		if _, err := parseJinja(env, source, ""); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRenderLoop100000(b *testing.B) {
	render := benchRender(b)
	for b.Loop() {
		render(benchLoop)
	}
}

func BenchmarkParseYAML1MB(b *testing.B) {
	doc := benchDocument()
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		if _, err := ParseYAML(doc); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDumpYAML(b *testing.B) {
	v, err := ParseYAML(benchDocument())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		DumpYAML(v, YAMLOptions{SortKeys: true})
	}
}

// BenchmarkRenderRatio reports how many times faster than Python Salt we are.
func BenchmarkRenderRatio(b *testing.B) {
	python := os.Getenv("HALITE_SALT_PYTHON")
	if python == "" {
		b.Skip("HALITE_SALT_PYTHON names no python of a Salt installation")
	}
	out, err := exec.Command(python, "testdata/bench/render.py", "testdata/bench").Output()
	if err != nil {
		b.Fatalf("the Python side: %v", err)
	}
	render, source, doc := benchRender(b), benchMapFile(b), benchDocument()
	ours := map[string]func(){
		"map": func() { render(source) }, "loop": func() { render(benchLoop) },
		"yaml_pure": func() { _, _ = ParseYAML(doc) }, "yaml_salt": func() { _, _ = ParseYAML(doc) },
	}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		name, number, _ := strings.Cut(line, " ")
		theirs, err := strconv.ParseFloat(number, 64)
		if err != nil || ours[name] == nil {
			b.Fatalf("the Python side said %q", line)
		}
		mine := meanTime(ours[name])
		b.ReportMetric(theirs/mine, name+"_times_faster")
		b.Logf("%s: Python %.2f ms, Halite %.3f ms", name, theirs/1e6, mine/1e6)
	}
}

// meanTime is the mean time in nanoseconds of the calls of two seconds, the
// first not counted: as the Python side measures. (testing.Benchmark inside a
// benchmark waits for itself.)
func meanTime(f func()) float64 {
	f()
	n, start := 0, time.Now()
	for time.Since(start) < 2*time.Second {
		f()
		n++
	}
	return float64(time.Since(start)) / float64(n)
}
