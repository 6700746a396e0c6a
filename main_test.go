// The test binary acts as every program of the product: scripts under
// testdata/script call salt, salt-master, … by name and promise what they print.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	programs := map[string]func(){"halite": main}
	for _, a := range applets() {
		if a.link {
			programs[a.name] = main
		}
	}
	testscript.Main(m, programs)
}

// scriptDeadline bounds every wait of a script for a fact (a port, a file).
const scriptDeadline = 30 * time.Second

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			// No script meets the configuration of the machine it runs on.
			env.Setenv("SALT_CONFIG_DIR", filepath.Join(env.WorkDir, "etc"))
			env.Setenv("HOME", env.WorkDir)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"waitfile":  scriptWaitFile,
			"waitport":  scriptWaitPort,
			"freeports": scriptFreePorts,
		},
	})
}

// scriptWaitFile waits until all files of its arguments exist.
func scriptWaitFile(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		scriptWait(ts, "file "+name, func() error {
			_, err := os.Stat(ts.MkAbs(name))
			if neg && err == nil {
				return errors.New("it is still there")
			}
			if neg {
				return nil
			}
			return err
		})
	}
}

// scriptWaitPort waits until something listens at all addresses.
func scriptWaitPort(ts *testscript.TestScript, neg bool, args []string) {
	for _, addr := range args {
		scriptWait(ts, "port "+addr, func() error {
			c, err := net.DialTimeout("tcp", addr, time.Second)
			if err == nil {
				c.Close()
			}
			return err
		})
	}
}

func scriptWait(ts *testscript.TestScript, what string, fact func() error) {
	var err error
	for end := time.Now().Add(scriptDeadline); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = fact(); err == nil {
			return
		}
	}
	ts.Fatalf("waited %s for %s: %v", scriptDeadline, what, err)
}

// scriptFreePorts sets each variable of its arguments to a port that was free.
func scriptFreePorts(ts *testscript.TestScript, neg bool, args []string) {
	var held []net.Listener
	for _, name := range args {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		ts.Check(err)
		held = append(held, l)
		ts.Setenv(name, fmt.Sprint(l.Addr().(*net.TCPAddr).Port))
	}
	for _, l := range held {
		l.Close()
	}
}

// runFor calls the binary in this process and returns what it printed.
func runFor(args ...string) (stdout, stderr string, code int) {
	var out, err bytes.Buffer
	code = run(args, Stdio{In: strings.NewReader(""), Out: &out, Err: &err})
	return out.String(), err.String(), code
}

func TestUnknownProgramListsAll(t *testing.T) {
	for _, args := range [][]string{{"halite"}, {"halite", "salt-nosuch"}, {"salt-nosuch", "x"}} {
		out, errText, code := runFor(args...)
		if code != exitUnknownApplet || out != "" {
			t.Errorf("%q: exit %d, stdout %q", args, code, out)
		}
		for _, a := range applets() {
			if !strings.Contains(errText, "  "+a.name+" ") {
				t.Errorf("%q: %s is not listed", args, a.name)
			}
		}
	}
}

func TestAppletTable(t *testing.T) {
	last := ""
	for _, a := range applets() {
		if a.name <= last {
			t.Errorf("%s is out of order after %s, or double", a.name, last)
		}
		last = a.name
		if a.summary == "" || a.run == nil {
			t.Errorf("%s lacks a summary or an entry point", a.name)
		}
	}
}

func TestInstallMakesLinks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bin")
	binary := filepath.Join(t.TempDir(), "halite")
	if err := os.WriteFile(binary, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time over its own links
		if err := installLinks(binary, dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range applets() {
		to, err := os.Readlink(filepath.Join(dir, a.name))
		if a.link && (err != nil || to != binary) {
			t.Errorf("link %s: %q, %v", a.name, to, err)
		}
		if !a.link && err == nil {
			t.Errorf("%s must not be a program of its own", a.name)
		}
	}
}

// TestLinksOfTheRealBinary builds the product and calls it as users do: through
// the links that it made, and by its own name.
func TestLinksOfTheRealBinary(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binary")
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "halite")
	build := exec.Command("go", "build", "-ldflags", "-X main.version=v9.9-test", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	output := func(name string, args ...string) string {
		t.Helper()
		out, err := exec.Command(name, args...).Output()
		if err != nil {
			t.Fatalf("%s %q: %v", name, args, err)
		}
		return string(out)
	}
	output(binary, "install", filepath.Join(dir, "bin"))
	for _, a := range applets() {
		if !a.link {
			continue
		}
		link := filepath.Join(dir, "bin", a.name)
		byLink, byName := output(link, "--help"), output(binary, a.name, "--help")
		if !strings.Contains(byLink, a.name) || byLink != byName {
			t.Errorf("%s --help by its link:\n%s", a.name, byLink)
		}
	}
	if v := output(binary, "--version"); !strings.Contains(v, "v9.9-test") {
		t.Errorf("version %q is not the stamped one", v)
	}
}
