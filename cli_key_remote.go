// salt-key with external authentication: every action is a wheel function of
// the master, which decides what the user may.
package main

import (
	"context"
	"errors"
	"fmt"
)

// keyRemote does the actions of salt-key through a master.
type keyRemote struct {
	client *LocalClient
	auth   *Map
}

// newKeyRemote finds out who the user is: by the token that -T kept, or by name
// and password, which are asked for if they are not given.
func newKeyRemote(k *keyCLI) (*keyRemote, error) {
	r := &keyRemote{client: NewLocalClient(k.opts, PublishAuth{}, nil), auth: NewMap()}
	name := k.opts.Str("eauth")
	if token := k.opts.Str("token"); token != "" && !k.p.Bool("mktoken") && !k.p.Given("username") {
		r.auth.Set("token", token)
		return r, nil
	}
	fields, ok := eauthFields(k.p, k.std, name)
	if !ok {
		return nil, errors.New("authentication failed")
	}
	cred := PublishAuth{Eauth: name, Fields: fields}
	if k.p.Bool("mktoken") {
		token := makeToken(context.Background(), k.opts, cred)
		if token == "" {
			return nil, errors.New("authentication failed: the master gave no token")
		}
		cred = PublishAuth{Token: token}
	}
	cred.addTo(r.auth)
	return r, nil
}

// Close ends the connection to the master.
func (r *keyRemote) Close() { r.client.Close() }

// wheel calls a wheel function and returns its result.
func (r *keyRemote) wheel(fun string, args ...any) (*Map, error) {
	load := NewMap("cmd", "wheel", "fun", "key."+fun, "arg", NewList(args...), "kwarg", NewMap())
	load.Merge(r.auth)
	answer, err := r.client.ask(context.Background(), load)
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
