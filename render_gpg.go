// The renderer gpg: encrypted texts within files, pillars and arguments, read by
// the program gpg with the keys of gpg_keydir.
//
// The law of this file: what cannot be decrypted stays as it is and is told to
// the log, unless gpg_decrypt_must_succeed; nothing decrypted is ever logged or
// written to disk.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

var pgpMessage = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?s)-----BEGIN PGP MESSAGE-----.*?-----END PGP MESSAGE-----`)
})

// gpgKeyDir is where gpg has its keys.
func gpgKeyDir(opts *Map) string {
	if dir := opts.Str("gpg_keydir"); dir != "" {
		return dir
	}
	dir := opts.Str("config_dir")
	if dir == "" {
		dir = filepath.Dir(opts.Str("conf_file"))
	}
	return filepath.Join(dir, "gpgkeys")
}

// gpgDecrypter decrypts for one file or pillar.
type gpgDecrypter struct {
	tool, keys string
	must       bool // what cannot be decrypted is an error
	log        *slog.Logger
}

func newGPGDecrypter(opts *Map, log *slog.Logger) (*gpgDecrypter, error) {
	tool := which("gpg")
	if tool == "" {
		return nil, &RenderError{Text: "GPG unavailable"}
	}
	return &gpgDecrypter{tool: tool, keys: gpgKeyDir(opts), must: Truth(opts.Value("gpg_decrypt_must_succeed")), log: log}, nil
}

// value decrypts every message within texts at any depth, into a copy.
func (g *gpgDecrypter) value(ctx context.Context, v any) (any, error) {
	switch v := v.(type) {
	case string:
		return g.text(ctx, v)
	case *Map:
		out := v.Clone()
		for k, item := range v.All() {
			plain, err := g.value(ctx, item)
			if err != nil {
				return nil, err
			}
			out.Set(k, plain)
		}
		return out, nil
	case *List:
		out := NewList()
		for _, item := range v.Items {
			plain, err := g.value(ctx, item)
			if err != nil {
				return nil, err
			}
			out.Append(plain)
		}
		return out, nil
	}
	return v, nil
}

// text decrypts the messages of a text. Behind a message there are no line ends.
func (g *gpgDecrypter) text(ctx context.Context, s string) (string, error) {
	var failed error
	found := false
	s = pgpMessage().ReplaceAllStringFunc(s, func(cipher string) string {
		found = true
		plain, err := g.message(ctx, strings.ReplaceAll(cipher, `\n`, "\n"))
		if err != nil && failed == nil {
			failed = err
		}
		return plain
	})
	if found {
		s = strings.TrimRight(s, "\n")
	}
	return s, failed
}

// message decrypts one message.
func (g *gpgDecrypter) message(ctx context.Context, cipher string) (string, error) {
	cmd := exec.CommandContext(ctx, g.tool, "--homedir", g.keys, "--batch", "--status-fd", "2", "--no-tty", "-d")
	cmd.WaitDelay = 5 * time.Second
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(cipher), &out, &said
	err := cmd.Run()
	if out.Len() > 0 {
		return out.String(), nil
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	why := strings.TrimSpace(said.String())
	if why == "" && err != nil {
		why = err.Error()
	}
	text := fmt.Sprintf("Could not decrypt a text with the keys of %s, received: %s", g.keys, why)
	g.log.Warn(text)
	if g.must {
		return "", &RenderError{Text: text}
	}
	return cipher, nil
}

// renderGPG is the stage of the pipe.
func renderGPG(ctx context.Context, req *RenderRequest, input any) (any, error) {
	g, err := newGPGDecrypter(req.Opts, req.Log)
	if err != nil {
		return nil, err
	}
	return g.value(ctx, input)
}

// decryptWith decrypts a value by a renderer that the configuration allows.
func decryptWith(ctx context.Context, o *Options, log *slog.Logger, renderer string, v any) (any, error) {
	if allowed := o.List("decrypt_pillar_renderers"); !containsText(allowed, renderer) {
		return nil, InvocationErrorf("'%s' is not a valid decryption renderer. Valid choices are: %s", renderer, strings.Join(allowed, ", "))
	}
	if renderer != "gpg" {
		return nil, InvocationErrorf("Decryption renderer '%s' is not available", renderer)
	}
	g, err := newGPGDecrypter(o.All(), log)
	if err != nil {
		return nil, err
	}
	return g.value(ctx, v)
}

// decryptOverride is the pillar of a command line, of which pillar_enc says that
// its values, or all of it, are encrypted.
func decryptOverride(ctx context.Context, c *Call, v, enc any) (*Map, error) {
	if s, ok := v.(string); ok {
		v = strings.ReplaceAll(s, `\n`, "\n") // as a command line has it
	}
	plain, err := decryptWith(ctx, c.Opts, c.Log, strings.ToLower(Str(enc)), v)
	if err != nil {
		return nil, ExecErrorf("Failed to decrypt pillar override: %s", errText(err))
	}
	if s, ok := plain.(string); ok {
		if plain, err = ParseYAML([]byte(s)); err != nil {
			return nil, ExecErrorf("Failed to load the pillar override: what was decrypted is no YAML")
		}
	}
	m, ok := plain.(*Map)
	if !ok {
		return nil, ExecErrorf("Pillar override was not passed as a dictionary: check that its key is in %s", gpgKeyDir(c.Opts.All()))
	}
	return m, nil
}

// decrypt decrypts the keys of a pillar that decrypt_pillar lists.
func (s *pillarRunState) decrypt(pillar *Map) (errs []string) {
	for _, entry := range toItems(s.opts.Value("decrypt_pillar")) {
		key, renderer := entry, any(nil)
		if m, ok := entry.(*Map); ok && m.Len() == 1 {
			key, renderer = m.At(0)
		}
		if !Truth(renderer) {
			renderer = s.opts.Str("decrypt_pillar_default")
		}
		path := strings.Split(Str(key), s.opts.Str("decrypt_pillar_delimiter"))
		last := len(path) - 1
		parents := make([]any, last)
		for i, p := range path[:last] {
			parents[i] = p
		}
		parent, ok := Traverse(pillar, parents, nil).(*Map)
		if !ok || parent.Value(path[last]) == nil {
			continue
		}
		plain, err := decryptWith(s.ctx, s.opts, s.log, Str(renderer), parent.Value(path[last]))
		if err != nil {
			errs = append(errs, fmt.Sprintf("Failed to decrypt pillar key '%s': %s", Str(key), errText(err)))
			continue
		}
		parent.Set(path[last], plain)
	}
	return errs
}
