// Options, usage errors and configuration reach a program as they do in Salt.
package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestUsageErrorsAreSalts(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args string
		want string
	}{
		{"salt --skip-perm-errors db1 test.ping", "no such option: --skip-perm-errors"},
		{"salt --gather-job-timeout=5 db1 test.ping", "no such option: --gather-job-timeout"},
		{"salt -l nosuch db1 test.ping", "option -l: invalid choice: 'nosuch' (choose from 'all', 'debug', 'error', 'critical', 'garbage', 'info', 'profile', 'quiet', 'trace', 'warning')"},
		{"salt db1 test.ping --state-output", "--state-output option requires 1 argument"},
		{"salt db1 test.ping -t", "-t option requires 1 argument"},
		{"salt db1 test.ping -t abc", "option -t: invalid integer value: 'abc'"},
		{"salt db1 test.ping --timeout=x", "option --timeout: invalid integer value: 'x'"},
		{"salt db1 test.ping --batch-wait x", "option --batch-wait: invalid floating-point value: 'x'"},
		{"salt db1 test.echo -1", "no such option: -1"},
		{"salt db1 test.ping --no", "ambiguous option: --no (--no-color, --no-colour, --no-parse, --nodegroup?)"},
		{"salt -G -E db1 test.ping", "The options --pcre/--grain are mutually exclusive. Please only choose one of them"},
		{"salt --static=1 db1 test.ping", "--static option does not take a value"},
		{"salt --saltfile nowhere db1 test.ping", "'nowhere' file does not exist.\n"},
		{"salt-key -f", "-f option requires 1 argument"},
		{"salt-key --bogus", "no such option: --bogus"},
		{"salt-run --skip-perm-errors test.arg", "no such option: --skip-perm-errors"},
	} {
		words := strings.Fields(c.args)
		var out, errText bytes.Buffer
		_, code, done := parseCLI(words[0], words[1:], Stdio{Out: &out, Err: &errText})
		if !done || code != exitUsage || out.Len() > 0 {
			t.Errorf("%s: done %v, exit %d, stdout %q", c.args, done, code, out.String())
		}
		prog, _ := cliProgramNamed(words[0])
		want := prog.usageLine() + "\n" + words[0] + ": error: " + c.want + "\n"
		if errText.String() != want {
			t.Errorf("%s:\n got %q\nwant %q", c.args, errText.String(), want)
		}
	}
}

func TestOptionsAreUnderstoodAsSaltDoes(t *testing.T) {
	prog, _ := cliProgramNamed("salt")
	for _, c := range []struct {
		args []string
		dest string
		want any
		rest string
	}{
		{[]string{"db1", "-t5", "test.ping"}, "timeout", int64(5), "db1 test.ping"},
		{[]string{"-t", "0x10", "db1"}, "timeout", int64(16), "db1"},
		{[]string{"-t", "-1", "db1"}, "timeout", int64(-1), "db1"},
		{[]string{"-vs", "db1"}, "static", true, "db1"},
		{[]string{"-vst7", "db1"}, "timeout", int64(7), "db1"},
		{[]string{"db1", "--", "-1", "--out"}, "output", nil, "db1 -1 --out"},
		{[]string{"db1", "-", "x"}, "output", nil, "db1 - x"},
		{[]string{"--timeo", "4", "db1"}, "timeout", int64(4), "db1"},
		{[]string{"--output=a=b", "db1"}, "output", "a=b", "db1"},
		{[]string{"--output=", "db1"}, "output", "", "db1"},
		{[]string{"--hide-timeout", "db1"}, "show_timeout", false, "db1"},
		{[]string{"db1"}, "show_timeout", true, "db1"},
		{[]string{"--batch-w", "1.5", "db1"}, "batch_wait", 1.5, "db1"},
		{[]string{"-l", "debug", "db1"}, "log_level", "debug", "db1"},
	} {
		p, err := prog.parse(c.args)
		if err != nil {
			t.Errorf("%q: %v", c.args, err)
			continue
		}
		if got := p.Value(c.dest); !Equal(got, c.want) || strings.Join(p.Args, " ") != c.rest {
			t.Errorf("%q: %s is %s, rest %q", c.args, c.dest, Repr(got), p.Args)
		}
	}
	call, _ := cliProgramNamed("salt-call")
	p, err := call.parse([]string{"-m", "a", "--module-dirs=b", "-mc"})
	if err != nil || strings.Join(p.List("module_dirs"), " ") != "a b c" {
		t.Errorf("module_dirs: %q, %v", p.List("module_dirs"), err)
	}
}

func TestSaltfileGivesDefaults(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("HOME", dir)
	writeFiles(t, dir, map[string]string{
		"Saltfile":       "salt:\n  output: json\n  timeout: 9\n  own: 1\nsalt-key: {yes: true}\n",
		"other/Saltfile": "salt: {output: yaml}\n",
		"bad":            "salt: {output: [\n",
	})
	p, _, done := parseCLI("salt", []string{"-t", "3", "x"}, Stdio{})
	if done || p.Str("output") != "json" || p.Int("timeout") != 3 || p.Int("own") != 1 || !p.Given("output") {
		t.Errorf("output %q, timeout %d", p.Str("output"), p.Int("timeout"))
	}
	if p, _, _ := parseCLI("salt", []string{"--saltfile=other/Saltfile", "x"}, Stdio{}); p.Str("output") != "yaml" {
		t.Errorf("named file: output %q", p.Str("output"))
	}
	t.Setenv("SALT_SALTFILE", dir+"/bad")
	var errText bytes.Buffer
	if _, code, done := parseCLI("salt", []string{"x"}, Stdio{Err: &errText}); !done || code != exitUsage {
		t.Errorf("bad file: exit %d, %q", code, errText.String())
	}
}

func TestArgumentsFromStandardInput(t *testing.T) {
	t.Chdir(t.TempDir())
	p, _, done := parseCLI("salt", []string{"--args-stdin", "db1", "test.arg"}, Stdio{In: strings.NewReader("one two\n--out=json\nlast")})
	if done || strings.Join(p.Args, "|") != "db1|test.arg|one two|last" || p.Str("output") != "json" {
		t.Errorf("%q, output %q", p.Args, p.Str("output"))
	}
}

func TestGivenOptionsWinOverConfiguration(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	writeFiles(t, dir, map[string]string{"master": "root_dir: " + dir + "\ntimeout: 8\noutput: yaml\nshow_jid: true\nstate_verbose: false\n"})
	p, _, _ := parseCLI("salt", []string{"-c", dir, "--out=json", "--state-verbose=True", "x"}, Stdio{})
	o, _, done := p.LoadConfig(Stdio{Err: os.Stderr})
	if done {
		t.Fatal("not loaded")
	}
	if o.Str("output") != "json" || p.Str("output") != "json" || p.Int("timeout") != 8 || !p.Bool("show_jid") || o.Value("state_verbose") != true {
		t.Errorf("output %q %q, timeout %d, show_jid %v", o.Str("output"), p.Str("output"), p.Int("timeout"), p.Bool("show_jid"))
	}
	if o.Str("interface") != "127.0.0.1" || o.Str("master_uri") != "tcp://127.0.0.1:4506" {
		t.Errorf("interface %q, master_uri %q", o.Str("interface"), o.Str("master_uri"))
	}
}

func TestConfigErrorsEndThePrograms(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	writeFiles(t, dir, map[string]string{"master": "timeout: [1]\n"})
	p, _, _ := parseCLI("salt", []string{"-c", dir, "x"}, Stdio{})
	var errText bytes.Buffer
	_, code, done := p.LoadConfig(Stdio{Err: &errText})
	if !done || code != exitConfig || !strings.HasPrefix(errText.String(), "[ERROR   ] Error in configuration file: "+dir+"/master, line 1: timeout is [1]") {
		t.Errorf("exit %d, %q", code, errText.String())
	}
	errText.Reset()
	p, _, _ = parseCLI("salt", []string{"-c", dir + "/none", "x"}, Stdio{})
	if _, _, done := p.LoadConfig(Stdio{Err: &errText}); done || errText.String() != "WARNING: CONFIG '"+dir+"/none' directory does not exist.\n" {
		t.Errorf("done %v, %q", done, errText.String())
	}
}

// TestHelpManAndCompletionNameEveryOption holds the three to one table.
func TestHelpManAndCompletionNameEveryOption(t *testing.T) {
	bash, zsh, fish := bashCompletion(), zshCompletion(), fishCompletion()
	for _, p := range programs() {
		help, man := p.help(80), p.manPage()
		if !strings.HasPrefix(help, p.usageLine()+"\n") {
			t.Errorf("%s: help begins %q", p.name, help[:60])
		}
		seen := map[string]bool{}
		for _, o := range p.allOptions() {
			if o.help == "" {
				t.Errorf("%s %s: no help", p.name, o.long)
			}
			for _, form := range append(strings.Fields(o.short), o.longs()...) {
				if seen[form] {
					t.Errorf("%s: %s twice", p.name, form)
				}
				seen[form] = true
				for what, text := range map[string]string{"help": help, "bash": bash, "zsh": zsh, "man": strings.ReplaceAll(man, `\`, "")} {
					if !strings.Contains(text, form) {
						t.Errorf("%s: %s is missing in %s", p.name, form, what)
					}
				}
			}
			if !strings.Contains(fish, " -l "+strings.TrimPrefix(o.longs()[0], "--")+" ") {
				t.Errorf("%s: %s is missing in fish", p.name, o.long)
			}
		}
		for _, line := range strings.Split(help, "\n") {
			if len(line) > 80 {
				t.Errorf("%s: a line of %d columns: %q", p.name, len(line), line)
			}
		}
		if bad := regexp.MustCompile(`(?m)^'`).FindString(man); bad != "" {
			t.Errorf("%s: man page has a line that begins with a quote", p.name)
		}
	}
}

func TestVersionAndHelpOfEveryProgram(t *testing.T) {
	for _, p := range programs() {
		for arg, want := range map[string]string{
			"--version":         p.name + " " + saltVersion + " (" + saltCodename + ")\n",
			"--versions-report": "Salt Version:\n",
			"--help":            p.usageLine(),
		} {
			var out bytes.Buffer
			_, code, done := parseCLI(p.name, []string{"x", arg}, Stdio{Out: &out})
			if !done || code != 0 || !strings.HasPrefix(out.String(), want) {
				t.Errorf("%s %s: exit %d, %q", p.name, arg, code, out.String())
			}
		}
	}
}
