// The reactions of a running master: where they are read from, and the events by
// which salt-run reactor.* lists and changes them.
//
// The law of this room: a request counts only with the key of the master's user,
// for minions may put events of any tag on the bus. Changes last until the master
// stops or reads its configuration anew.
package main

import (
	"crypto/subtle"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// reactorManageTag begins what follows the run's tag in a request, and answers.
const reactorManageTag = "salt/reactors/manage/"

// reactionTable is what a reactor reacts to. One goroutine reads and changes it.
type reactionTable struct {
	leader  bool     // false: this master only watches
	from    *Options // the configuration that entries were read from
	read    time.Time
	entries []any
}

// reactions are the entries as they are now: those of the option reactor, or of
// the file that it names, with what was added and deleted since.
func (r *reactor) reactions() []any {
	o, t := r.m.o(), &r.table
	path, inFile := o.Value("reactor").(string)
	if !inFile {
		if t.from != o {
			t.from, t.entries = o, slices.Clone(toItems(o.Value("reactor")))
		}
		return t.entries
	}
	info, err := os.Stat(path)
	switch {
	case err != nil && t.from == o && t.read.IsZero(): // told already
	case err != nil:
		r.log.Error(fmt.Sprintf("read the reactions of %s: %v", path, err))
		t.entries, t.read = nil, time.Time{}
	case t.from != o || !info.ModTime().Equal(t.read):
		t.entries, err = readReactions(path)
		if err != nil {
			r.log.Error(fmt.Sprintf("read the reactions of %s: %v", path, err))
		}
		t.read = info.ModTime()
	}
	t.from = o
	return t.entries
}

// readReactions reads a file that holds what the option reactor would.
func readReactions(path string) ([]any, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	v, err := ParseYAML(text)
	if err != nil {
		return nil, err
	}
	return toItems(v), nil
}

// manage answers a request of salt-run reactor.* and says whether e was one.
func (r *reactor) manage(e Event) bool {
	_, what, ok := strings.Cut(e.Tag, reactorManageTag)
	if !ok {
		return false
	}
	if !slices.Contains([]string{"list", "add", "delete", "is_leader", "set_leader"}, what) {
		return true // an answer
	}
	key := readPublishKey(r.m.o(), "root")
	if key == "" || subtle.ConstantTimeCompare([]byte(key), []byte(e.Data.Str("key"))) != 1 {
		r.log.Error(fmt.Sprintf("%s came without the key of the master's user and is left out", e.Tag))
		return true
	}
	answer := func(tag string, kv ...any) { r.m.bus.Fire(reactorManageTag+tag, NewMap(kv...)) }
	switch what {
	case "list":
		answer("list-results", "reactors", NewList(slices.Clone(r.reactions())...))
	case "add":
		res := r.addReaction(e.Data.Str("event"), e.Data.Value("reactors"))
		answer("add-complete", "reactors", NewList(slices.Clone(r.reactions())...), "result", res)
	case "delete":
		res := r.deleteReaction(e.Data.Str("event"))
		answer("delete-complete", "reactors", NewList(slices.Clone(r.reactions())...), "result", res)
	case "set_leader":
		r.table.leader = Truth(e.Data.Value("value"))
		answer("leader/value", "result", r.table.leader)
	case "is_leader":
		answer("leader/value", "result", r.table.leader)
	}
	return true
}

// findReaction is the index of the entry for a tag, -1 if there is none.
func (r *reactor) findReaction(tag string) int {
	return slices.IndexFunc(r.reactions(), func(entry any) bool {
		m, ok := entry.(*Map)
		return ok && m.Has(tag)
	})
}

func (r *reactor) addReaction(tag string, files any) *Map {
	if r.findReaction(tag) >= 0 {
		return NewMap("status", false, "comment", "Reactor already exists.")
	}
	r.table.entries = append(r.table.entries, NewMap(tag, files))
	return NewMap("status", true, "comment", "Reactor added.")
}

func (r *reactor) deleteReaction(tag string) *Map {
	i := r.findReaction(tag)
	if i < 0 {
		return NewMap("status", false, "comment", "Reactor does not exists.")
	}
	r.table.entries = slices.Delete(r.table.entries, i, i+1)
	return NewMap("status", true, "comment", "Reactor deleted.")
}
