// salt-key with external authentication: every action is a wheel function of
// the master, which decides what the user may.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// keyRemoteTimeout is how long a master may take for one action.
const keyRemoteTimeout = 60 * time.Second

// keyRemote does the actions of salt-key through a master.
type keyRemote struct {
	addr string
	auth *Map
}

// newKeyRemote finds out who the user is: by the token that -T kept, or by name
// and password, which are asked for if they are not given.
func newKeyRemote(k *keyCLI) (*keyRemote, error) {
	host := strings.Trim(k.opts.Str("interface"), "[]")
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	r := &keyRemote{addr: net.JoinHostPort(host, k.opts.Str("ret_port"))}
	tokenFile := k.opts.Str("token_file")
	if tokenFile == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, fmt.Errorf("find the file of the token: %w", err)
		}
		tokenFile = filepath.Join(home, "salt_token")
	}
	if !k.p.Given("username") && !k.p.Bool("mktoken") {
		if token, err := os.ReadFile(tokenFile); err == nil {
			r.auth = NewMap("token", strings.TrimSpace(string(token)))
			return r, nil
		}
	}
	name, password := k.p.Str("username"), k.p.Str("password")
	in := bufio.NewReader(k.std.In)
	prompt := func(what string) (string, error) {
		io.WriteString(k.std.Err, what+": ")
		line, err := in.ReadString('\n')
		if line == "" && err != nil {
			return "", errors.New("EOF when reading a line")
		}
		return strings.TrimRight(line, "\r\n"), nil
	}
	var err error
	if name == "" {
		if name, err = prompt("username"); err != nil {
			return nil, err
		}
	}
	if !k.p.Given("password") {
		err = withoutEcho(k.std.In, func() (err error) { password, err = prompt("password"); return err })
		if err != nil {
			return nil, err
		}
	}
	r.auth = NewMap("eauth", k.opts.Str("eauth"), "username", name, "password", password)
	if !k.p.Bool("mktoken") {
		return r, nil
	}
	load := NewMap("cmd", "mk_token")
	load.Merge(r.auth)
	answer, err := r.ask(load)
	if err != nil {
		return nil, err
	}
	m, _ := answer.(*Map)
	token := m.Str("token")
	if token == "" {
		return nil, errors.New("authentication failed: the master gave no token")
	}
	if err := writeFileAtomic(tokenFile, []byte(token), 0o600); err != nil {
		return nil, err
	}
	r.auth = NewMap("token", token)
	return r, nil
}

// ask sends one request in clear and returns the answer.
func (r *keyRemote) ask(load *Map) (any, error) {
	body, err := ClearRequest(load)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), keyRemoteTimeout)
	defer cancel()
	conn, err := DialRequester(ctx, r.addr, TransportOptions{})
	if err != nil {
		return nil, fmt.Errorf("the master at %s could not be contacted, is it running? %w", r.addr, err)
	}
	defer conn.Close()
	answer, err := conn.Request(ctx, body)
	if err != nil {
		return nil, fmt.Errorf("ask the master at %s: %w", r.addr, err)
	}
	return DecodeWire(answer)
}

// wheel calls a wheel function and returns its result.
func (r *keyRemote) wheel(fun string, args ...any) (*Map, error) {
	load := NewMap("cmd", "wheel", "fun", "key."+fun, "arg", NewList(args...), "kwarg", NewMap())
	load.Merge(r.auth)
	answer, err := r.ask(load)
	if err != nil {
		return nil, err
	}
	m, ok := answer.(*Map)
	if !ok {
		return nil, fmt.Errorf("the master answered %s", shortRepr(answer))
	}
	if failed := m.Map("error"); failed != nil {
		return nil, errors.New(failed.Str("message"))
	}
	data := m.Map("data")
	result, ok := data.Value("return").(*Map)
	if !ok {
		return nil, fmt.Errorf("%s: %s", fun, shortText(Str(data.Value("return"))))
	}
	return result, nil
}

// shortText is a text of a peer for one line of output.
func shortText(s string) string {
	s = oneLine(s)
	if len(s) > 400 {
		s = s[:400] + "…"
	}
	return s
}

func (r *keyRemote) ListState(word string) (*Map, error) {
	found, err := r.wheel("list", word)
	if err == nil {
		found.Delete(keyLocal)
	}
	return found, err
}

func (r *keyRemote) Match(pattern string, _ bool) (*Map, error) {
	return r.wheel("name_match", pattern)
}

func (r *keyRemote) Print(pattern string) (*Map, error) { return r.wheel("print", pattern) }

func (r *keyRemote) Fingers(pattern, hashType string) (*Map, error) {
	return r.wheel("finger", pattern, hashType)
}

// wanted are the ids of a match in the states of an action, in their order.
func wanted(matches *Map, states []string) []string {
	var ids []string
	for _, state := range states {
		for _, id := range listItems(matches.Value(state)) {
			ids = append(ids, Str(id))
		}
	}
	return ids
}

// reached splits the wanted ids by whether they are now in a state.
func reached(now *Map, state string, ids []string) (done, not []string) {
	in := map[string]bool{}
	for _, id := range listItems(now.Value(state)) {
		in[Str(id)] = true
	}
	for _, id := range ids {
		if in[id] {
			done = append(done, id)
		} else {
			not = append(not, id)
		}
	}
	return done, not
}

func (r *keyRemote) Accept(matches *Map, include KeyInclude) (done, bad []string, err error) {
	now, err := r.wheel("accept_dict", matches, include.Rejected, include.Denied)
	if err != nil {
		return nil, nil, err
	}
	done, bad = reached(now, KeyAccepted, wanted(matches, include.states()))
	return done, bad, nil
}

func (r *keyRemote) Reject(matches *Map, include KeyInclude) ([]string, error) {
	now, err := r.wheel("reject_dict", matches, include.Accepted, include.Denied)
	if err != nil {
		return nil, err
	}
	done, _ := reached(now, KeyRejected, wanted(matches, include.states()))
	return done, nil
}

func (r *keyRemote) Delete(matches *Map) ([]string, error) {
	if _, err := r.wheel("delete_dict", matches); err != nil {
		return nil, err
	}
	return wanted(matches, KeyStates()), nil
}
