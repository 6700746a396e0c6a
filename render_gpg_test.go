// Encrypted texts: decrypted where the key is there, kept as they are or refused
// where it is not.
package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// gpgBox makes a key in a directory and encrypts for it.
func gpgBox(t *testing.T) (keys string, encrypt func(text string) string) {
	t.Helper()
	if which("gpg") == "" {
		t.Skip("no gpg on this box")
	}
	keys = filepath.Join(shortTempDir(t), "k")
	if err := os.Mkdir(keys, 0o700); err != nil {
		t.Fatal(err)
	}
	run := func(in string, args ...string) string {
		t.Helper()
		cmd := exec.Command("gpg", append([]string{"--homedir", keys, "--batch", "--quiet", "--trust-model", "always"}, args...)...)
		cmd.Stdin = strings.NewReader(in)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("gpg %v: %v", args, err)
		}
		return string(out)
	}
	run("", "--passphrase", "", "--quick-gen-key", "box@example.com", "default", "default", "never")
	t.Cleanup(func() { _ = exec.Command("gpgconf", "--homedir", keys, "--kill", "gpg-agent").Run() })
	return keys, func(text string) string { return run(text, "--armor", "--encrypt", "-r", "box@example.com") }
}

// indented is a text as a block of YAML.
func indented(text string) string {
	return "|\n    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ")
}

func TestGPGRenderer(t *testing.T) {
	keys, encrypt := gpgBox(t)
	secret := encrypt("s3cret")
	rd := NewRenderer(RenderConfig{})
	render := func(source string, opts *Map) (any, error) {
		return rd.Render(context.Background(), RenderRequest{Source: source, Path: "/x", Opts: opts, Log: discardLog()})
	}
	opts := NewMap("gpg_keydir", keys)
	data := "#!yaml|gpg\na:\n  b: " + indented(secret) + "\n  c: [1, plain]\n"
	v, err := render(data, opts)
	if want := NewMap("a", NewMap("b", "s3cret", "c", NewList(int64(1), "plain"))); err != nil || !Equal(v, want) {
		t.Errorf("data: %s, %v", Repr(v), err)
	}
	whole := "#!gpg|yaml\n" + encrypt("x: 1\n")
	if v, err := render(whole, opts); err != nil || !Equal(v, NewMap("x", int64(1))) {
		t.Errorf("a whole file: %s, %v", Repr(v), err)
	}

	empty := t.TempDir()
	v, err = render(data, NewMap("gpg_keydir", empty))
	if err != nil || !strings.HasPrefix(v.(*Map).Map("a").Str("b"), "-----BEGIN PGP MESSAGE-----\n") {
		t.Errorf("without the key: %s, %v", Repr(v), err)
	}
	_, err = render(data, NewMap("gpg_keydir", empty, "gpg_decrypt_must_succeed", true))
	if err == nil || !strings.HasPrefix(err.Error(), "Could not decrypt a text with the keys of "+empty) {
		t.Errorf("gpg_decrypt_must_succeed: %v", err)
	}
}

func TestPillarOfTheCommandLineIsDecrypted(t *testing.T) {
	keys, encrypt := gpgBox(t)
	o := DefaultMinionOptions()
	o.Set("gpg_keydir", keys)
	c := NewCall(&Env{Opts: o, Log: discardLog()}, "state.apply", "", nil)
	want := NewMap("user", "ann")
	for _, given := range []any{
		strings.ReplaceAll(encrypt("{user: ann}"), "\n", `\n`), // as a shell has it
		NewMap("user", encrypt("ann")),
	} {
		got, err := pillarOverride(t.Context(), c, NewMap("pillar", given, "pillar_enc", "GPG"))
		if err != nil || !Equal(got, want) {
			t.Errorf("got %s, %v", Repr(got), err)
		}
	}
	for given, text := range map[string]string{
		"nacl": "Failed to decrypt pillar override: 'nacl' is not a valid decryption renderer. Valid choices are: gpg",
		"gpg":  "Pillar override was not passed as a dictionary: check that its key is in " + keys,
	} {
		if _, err := pillarOverride(t.Context(), c, NewMap("pillar", "plain", "pillar_enc", given)); err == nil || err.Error() != text {
			t.Errorf("pillar_enc=%s: %v", given, err)
		}
	}
}

func TestDecryptPillar(t *testing.T) {
	keys, encrypt := gpgBox(t)
	roots := t.TempDir()
	cipher := indented(encrypt("s3cret"))
	writeTestFile(t, filepath.Join(roots, "top.sls"), "base:\n  '*':\n    - p\n")
	writeTestFile(t, filepath.Join(roots, "p.sls"), "db:\n  pass: "+strings.ReplaceAll(cipher, "\n", "\n  ")+"\nall:\n  x: "+cipher+"\nother: "+cipher+"\n")
	o := masterTestOptions(t.TempDir(), "pillar_roots", NewMap("base", NewList(roots)), "gpg_keydir", keys,
		"decrypt_pillar", NewList("db:pass", NewMap("all", "gpg"), "missing", NewMap("other", "nacl")))
	p, err := NewPillarCompiler(o, discardLog(), nil, nil).Pillar(t.Context(), PillarRequest{ID: "m"})
	if err != nil {
		t.Fatal(err)
	}
	if p.Map("db").Str("pass") != "s3cret" || p.Map("all").Str("x") != "s3cret" || !strings.Contains(p.Str("other"), "BEGIN PGP MESSAGE") {
		t.Errorf("pillar is %s", Repr(p))
	}
	if got := toStrings(p.Value("_errors")); len(got) != 1 || got[0] != "Failed to decrypt pillar key 'other': 'nacl' is not a valid decryption renderer. Valid choices are: gpg" {
		t.Errorf("errors %q", got)
	}
}
