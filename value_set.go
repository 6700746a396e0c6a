// Sets: Python's set in the value model. YAML's !!set, templates and a few
// modules make them. Python's order of a set is chance; ours is the order of
// insertion, so that output is the same on every run.
package main

import "strings"

// Set is a mutable collection without duplicates. It is an Object of the value
// model; on the wire and in JSON it goes as a list.
type Set struct{ m Map }

// NewSet makes a set of hashable items.
func NewSet(items ...any) *Set {
	s := &Set{}
	for _, item := range items {
		s.Add(item)
	}
	return s
}

// Add puts an item in; like Map.Set it panics on what cannot be hashed.
func (s *Set) Add(item any) { s.m.Set(item, nil) }

// Has says whether the item is in the set.
func (s *Set) Has(item any) bool { return s.m.Has(item) }

// Remove takes an item out and says whether it was in.
func (s *Set) Remove(item any) bool { return s.m.Delete(item) }

// Len is the number of items.
func (s *Set) Len() int { return s.m.Len() }

// Items returns the items in order, as a fresh slice.
func (s *Set) Items() []any { return s.m.Keys() }

// EqualTo compares without regard to order.
func (s *Set) EqualTo(other *Set) bool { return Equal(&s.m, &other.m) }

// TypeName is Python's name of the type.
func (s *Set) TypeName() string { return "set" }

// Truth is false for the empty set.
func (s *Set) Truth() bool { return s.m.Len() > 0 }

// Repr prints {1, 2}, and set() for the empty set.
func (s *Set) Repr() string {
	if s.m.Len() == 0 {
		return "set()"
	}
	var b strings.Builder
	b.WriteByte('{')
	for i, item := range s.m.keys {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(Repr(item))
	}
	b.WriteByte('}')
	return b.String()
}
