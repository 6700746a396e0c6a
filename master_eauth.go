// Users of external systems (external_auth) and their tokens. Who is behind a
// name is found out by an Authenticator; here are the rules for him and the
// tokens that stand for him: files in token_dir, as Salt keeps them.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// validToken checks the form of a token: the name of its file.
func validToken(tok string) bool {
	if len(tok) < 32 || len(tok) > 128 {
		return false
	}
	_, err := hex.DecodeString(tok)
	return err == nil
}

func (m *Master) tokenDir() string {
	if d := m.o().Path("token_dir"); d != "" {
		return d
	}
	return filepath.Join(m.cachedir, "tokens")
}

// loadToken reads a token that has not expired.
func (m *Master) loadToken(tok string) (*Map, error) {
	if !validToken(tok) {
		return nil, errors.New("not a token")
	}
	path := filepath.Join(m.tokenDir(), tok)
	p, err := readRegular(path, 1<<20)
	if err != nil {
		return nil, errors.New("no such token")
	}
	v, err := DecodeWire(p)
	data, ok := v.(*Map)
	if err != nil || !ok {
		return nil, errors.New("the token's file is damaged")
	}
	expire, ok := toFloat(data.Value("expire"))
	if !ok || expire < unixFloat(time.Now()) {
		os.Remove(path)
		return nil, errors.New("the token has expired")
	}
	return data, nil
}

// clearGetToken answers what a token stands for.
func (m *Master) clearGetToken(_ context.Context, _ *Peer, load *Map) any {
	tok, ok := load.Value("token").(string)
	if !ok {
		return false
	}
	data, err := m.loadToken(tok)
	if err != nil {
		return NewMap()
	}
	return data
}

// clearMakeToken logs a user in and answers a token, "" if he is not let in.
func (m *Master) clearMakeToken(ctx context.Context, p *Peer, load *Map) any {
	data, err := m.makeToken(ctx, load)
	if err != nil {
		m.log.Warn(fmt.Sprintf("Authentication failure of type \"eauth\" occurred (%s, user %s): %v", p.RemoteAddr, shortRepr(load.Value("username")), err))
		return ""
	}
	return data
}

func (m *Master) makeToken(ctx context.Context, load *Map) (*Map, error) {
	if !load.Has("eauth") {
		return nil, errors.New("no eauth")
	}
	id, err := m.eauthIdentity(ctx, load)
	if err != nil {
		return nil, err
	}
	life := m.o().Duration("token_expire")
	if life <= 0 {
		life = 12 * time.Hour
	}
	if asked, ok := toFloat(load.Value("token_expire")); ok && m.mayChooseExpiry(load.Str("eauth"), id.name) {
		life = time.Duration(asked * float64(time.Second))
	}
	var raw [32]byte
	rand.Read(raw[:])
	now := time.Now()
	tok := hex.EncodeToString(raw[:])
	data := NewMap("start", unixFloat(now), "expire", unixFloat(now.Add(life)), "name", id.name, "eauth", load.Str("eauth"), "token", tok)
	if m.o().Bool("keep_acl_in_token") {
		data.Set("auth_list", NewList(id.rules...))
	}
	if len(id.groups) > 0 {
		data.Set("groups", Strings(id.groups))
	}
	p, err := EncodeWire(data)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(m.tokenDir(), 0o700); err != nil {
		return nil, err
	}
	return data, writeFileAtomic(filepath.Join(m.tokenDir(), tok), p, 0o600)
}

// mayChooseExpiry is the option token_expire_user_override: true, or eauth →
// list of users.
func (m *Master) mayChooseExpiry(eauth, name string) bool {
	switch v := m.o().Value("token_expire_user_override").(type) {
	case bool:
		return v
	case *Map:
		for _, u := range toItems(v.Value(eauth)) {
			if u == name {
				return true
			}
		}
	}
	return false
}

// tokenIdentity is who a token stands for.
func (m *Master) tokenIdentity(_ context.Context, tok string) (identity, error) {
	data, err := m.loadToken(tok)
	if err != nil {
		return identity{}, errors.New(`Authentication failure of type "token" occurred.`)
	}
	id := identity{name: data.Str("name"), groups: toStrings(data.Value("groups")), limited: true}
	if list, ok := data.Get("auth_list"); ok && m.o().Bool("keep_acl_in_token") {
		id.rules = toItems(list)
	} else {
		id.rules = m.eauthRules(data.Str("eauth"), id.name, id.groups)
	}
	return id, nil
}

// eauthIdentity is who the credentials of an external system stand for.
func (m *Master) eauthIdentity(ctx context.Context, credentials *Map) (identity, error) {
	name := credentials.Str("username")
	bad := fmt.Errorf("Authentication failure of type \"eauth\" occurred for user %s.", firstOf(name, "UNKNOWN"))
	eauth := credentials.Str("eauth")
	if m.Eauth == nil || m.o().Map("external_auth").Map(eauth) == nil {
		return identity{}, bad
	}
	name, groups, err := m.Eauth.Login(ctx, credentials)
	if err != nil {
		m.log.Info(fmt.Sprintf("external_auth %s: %v", shortRepr(eauth), err))
		return identity{}, bad
	}
	// Without a rule he is known, and may do nothing.
	return identity{name: name, groups: groups, limited: true, rules: m.eauthRules(eauth, name, groups)}, nil
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// eauthRules collects what external_auth grants to a user and his groups. The
// entry * is for those who have no entry of their own, or for all with
// permissive_acl.
func (m *Master) eauthRules(eauth, name string, groups []string) []any {
	entries := m.o().Map("external_auth").Map(eauth)
	permissive := m.o().Bool("permissive_acl")
	var rules []any
	matched := false
	for k, v := range entries.All() {
		key := Str(k)
		switch {
		case key == "*" && !permissive, strings.HasPrefix(key, "^"):
		case strings.HasSuffix(key, "%"):
			for _, g := range groups {
				if g == strings.TrimRight(key, "%") {
					rules = append(rules, toItems(v)...)
				}
			}
		case exprMatch(key, name):
			matched = true
			rules = append(rules, toItems(v)...)
		}
	}
	if all, ok := entries.Get("*"); ok && !permissive && !matched {
		rules = append(rules, toItems(all)...)
	}
	return rules
}

// cleanTokens removes expired tokens.
func (m *Master) cleanTokens() {
	entries, err := os.ReadDir(m.tokenDir())
	if err != nil {
		return
	}
	for _, e := range entries {
		if validToken(e.Name()) {
			m.loadToken(e.Name()) // takes an expired one away
		}
	}
}
