// The wheel functions `key.*`: managing keys through a running master.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// keyWheelCall is a call by name: positional arguments, and others by name.
type keyWheelCall struct {
	args   []any
	kwargs *Map
}

// arg is an argument by position or name.
func (c keyWheelCall) arg(i int, name string) any {
	if i < len(c.args) {
		return c.args[i]
	}
	return c.kwargs.Value(name)
}

func (c keyWheelCall) text(i int, name string) (string, error) {
	switch v := c.arg(i, name).(type) {
	case string:
		return v, nil
	case nil:
		return "", fmt.Errorf("argument %s is missing", name)
	default:
		return "", fmt.Errorf("argument %s is a %s", name, TypeName(v))
	}
}

// keyWheelFunctions are the functions by name, without the prefix `key.`.
func keyWheelFunctions() map[string]func(*KeyManager, keyWheelCall) (any, error) {
	type (
		manager = *KeyManager
		call    = keyWheelCall
	)
	// on runs f on the keys that a pattern, or a map from states to names, means.
	on := func(f func(m manager, c call, matches *Map) error, asMap bool) func(manager, call) (any, error) {
		return func(m manager, c call) (any, error) {
			matches, ok := c.arg(0, "match").(*Map)
			if !asMap {
				pattern, err := c.text(0, "match")
				if err != nil {
					return nil, err
				}
				if matches, err = m.Match(pattern, false); err != nil {
					return nil, err
				}
			} else if !ok {
				return nil, fmt.Errorf("argument match is a %s", TypeName(c.arg(0, "match")))
			}
			if err := f(m, c, matches); err != nil {
				return nil, err
			}
			return m.whereNow(matches)
		}
	}
	accept := func(m manager, c call, matches *Map) error {
		_, _, err := m.Accept(matches, KeyInclude{Rejected: Truth(c.arg(1, "include_rejected")), Denied: Truth(c.arg(2, "include_denied"))})
		return err
	}
	reject := func(m manager, c call, matches *Map) error {
		_, err := m.Reject(matches, KeyInclude{Accepted: Truth(c.arg(1, "include_accepted")), Denied: Truth(c.arg(2, "include_denied"))})
		return err
	}
	remove := func(m manager, _ call, matches *Map) error { _, err := m.Delete(matches); return err }
	matching := func(f func(m manager, match string, c call) (*Map, error)) func(manager, call) (any, error) {
		return func(m manager, c call) (any, error) {
			match, err := c.text(0, "match")
			if err != nil {
				return nil, err
			}
			return f(m, match, c)
		}
	}
	return map[string]func(*KeyManager, keyWheelCall) (any, error){
		"list":       matching(func(m manager, match string, _ call) (*Map, error) { return m.ListState(match) }),
		"list_all":   func(m manager, _ call) (any, error) { return m.listWithLocal() },
		"name_match": matching(func(m manager, match string, _ call) (*Map, error) { return m.Match(match, false) }),
		"key_str":    matching(func(m manager, match string, _ call) (*Map, error) { return m.Print(match) }),
		"finger": matching(func(m manager, match string, c call) (*Map, error) {
			hashType, _ := c.arg(1, "hash_type").(string)
			return m.Fingers(match, hashType)
		}),
		"accept": on(accept, false), "accept_dict": on(accept, true),
		"reject": on(reject, false), "reject_dict": on(reject, true),
		"delete": on(remove, false), "delete_dict": on(remove, true),
		"finger_master": func(m manager, c call) (any, error) {
			hashType, _ := c.arg(0, "hash_type").(string)
			return m.masterText(func(text []byte) string { return Fingerprint(text, hashType) })
		},
		"master_key_str": func(m manager, _ call) (any, error) {
			return m.masterText(func(text []byte) string { return string(text) })
		},
		"gen_accept": func(m manager, c call) (any, error) {
			id, err := c.text(0, "id_")
			if err != nil {
				return nil, err
			}
			bits, _ := c.arg(1, "keysize").(int64)
			return m.generateAccepted(id, int(bits), Truth(c.arg(2, "force")))
		},
	}
}

// Wheel calls a wheel function `key.*` by its whole name; known is false if
// there is none of that name.
func (m *KeyManager) Wheel(fun string, args []any, kwargs *Map) (result any, known bool, err error) {
	name, ok := cutKeyPrefix(fun)
	if !ok {
		return nil, false, nil
	}
	f, ok := keyWheelFunctions()[name]
	if !ok {
		return nil, false, nil
	}
	result, err = f(m, keyWheelCall{args, kwargs})
	return result, true, err
}

func cutKeyPrefix(fun string) (string, bool) {
	const prefix = "key."
	if len(fun) > len(prefix) && fun[:len(prefix)] == prefix {
		return fun[len(prefix):], true
	}
	return "", false
}

// whereNow is where the keys of a match are after an action.
func (m *KeyManager) whereNow(matches *Map) (*Map, error) {
	now := NewMap()
	for _, names := range matches.All() {
		for _, name := range listItems(names) {
			for _, state := range KeyStates() {
				if !m.dir.Has(state, Str(name)) {
					continue
				}
				l := now.List(state)
				if l == nil {
					l = NewList()
					now.Set(state, l)
				}
				l.Append(name)
			}
		}
	}
	return now, nil
}

func (m *KeyManager) listWithLocal() (*Map, error) {
	all, err := m.List()
	if err != nil {
		return nil, err
	}
	names, err := m.localKeys()
	if err != nil {
		return nil, err
	}
	all.Set(keyLocal, Strings(names))
	return all, nil
}

func (m *KeyManager) masterText(f func([]byte) string) (*Map, error) {
	text, err := os.ReadFile(filepath.Join(m.dir.Dir(), "master.pub"))
	if err != nil {
		return nil, err
	}
	return NewMap(keyLocal, NewMap("master.pub", f(text))), nil
}

// generateAccepted makes a key pair for a minion to come and accepts its public
// half. The private half leaves with the answer and is kept nowhere.
func (m *KeyManager) generateAccepted(id string, bits int, force bool) (*Map, error) {
	if bits == 0 {
		bits = defaultKeyBits
	}
	if m.dir.Has(KeyAccepted, id) && !force {
		return NewMap(), nil
	}
	k, err := GenerateKey(bits)
	if err != nil {
		return nil, err
	}
	if err := m.dir.Put(KeyAccepted, id, []byte(k.PublicPEM())); err != nil {
		return nil, err
	}
	return NewMap("pub", k.PublicPEM()+"\n", "priv", string(k.PrivatePEM())), nil
}
