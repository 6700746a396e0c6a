// The value model: the data that travels between the wire, YAML, templates,
// modules and outputters.
//
// The law of this room: a value is one of nil, bool, int64, *big.Int (only
// outside int64), float64, string, []byte, *List, Tuple, *Map, or a type that
// implements Object (the template engine's undefined, macros and the like).
// Order is part of Salt's behaviour, so a Map keeps insertion order; List and
// Map are pointers, so that what a template or a module changes stays changed.
// Everything else that Go code returns (int, []string, map[string]any, …) is
// brought into the model once, by FromGo, where it enters.
//
// Small functions of this room that hundreds of places call are kept out of
// line (go:noinline), like the constructors of errors: for a box with little
// flash a megabyte of copies costs more than the call does.
package main

import (
	"fmt"
	"iter"
	"math"
	"math/big"
	"reflect"
	"sort"
	"strings"
)

// List is a mutable sequence, Python's list.
type List struct{ Items []any }

// Tuple is an immutable sequence. On the wire and in JSON it is a list; only
// formatting, comparison and hashing tell it apart.
type Tuple []any

// Object is a value of a kind the model itself does not know (undefined, macro,
// lazy mapping). Its methods answer what formatting and truth need.
type Object interface {
	TypeName() string // Python's name of the type
	Repr() string
	Truth() bool
}

// Plainer is an Object that stands for a value of the model: it equals that
// value, hashes like it, and is written as it. Text that a template marked as
// safe is one.
type Plainer interface {
	Object
	PlainValue() any
}

// NewList makes a list of the given values, unchanged.
//
//go:noinline
func NewList(items ...any) *List { return &List{Items: items} }

// Strings makes a list of texts.
//
//go:noinline
func Strings(items []string) *List {
	l := &List{Items: make([]any, len(items))}
	for i, s := range items {
		l.Items[i] = s
	}
	return l
}

// Append adds values at the end.
//
//go:noinline
func (l *List) Append(items ...any) { l.Items = append(l.Items, items...) }

// Len is the number of items; a nil list is empty.
func (l *List) Len() int {
	if l == nil {
		return 0
	}
	return len(l.Items)
}

// mapIndexFrom is the size from which a Map keeps a hash index: most maps of
// an installation are small, and a scan of a few keys costs less than a table.
const mapIndexFrom = 9

// Map is a mutable mapping that keeps insertion order, Python's dict. Keys may
// be any hashable value; 1, 1.0 and true are one key, as in Python.
type Map struct {
	keys  []any
	vals  []any
	index map[any]int // hashed key → position; nil while the map is small
	class string      // Python's class where it is another than dict
}

// Class is Python's name of the mapping's class if it is one that keeps and
// shows an order of its own (OrderedDict), "" for a dict.
func (m *Map) Class() string {
	if m == nil {
		return ""
	}
	return m.class
}

// SetClass makes the mapping print as one of that class.
func (m *Map) SetClass(class string) *Map {
	m.class = class
	return m
}

// NewMap makes a map of alternating keys and values.
//
//go:noinline
func NewMap(kv ...any) *Map {
	m := &Map{}
	for i := 0; i+1 < len(kv); i += 2 {
		m.Set(kv[i], kv[i+1])
	}
	return m
}

type (
	bytesKey string
	tupleKey string
	bigKey   string
)

// hashKey brings a key to a comparable form in which equal keys are equal.
// The second result is false for values that cannot be keys.
func hashKey(k any) (any, bool) {
	switch k := k.(type) {
	case nil, string, int64:
		return k, true
	case bool:
		if k {
			return int64(1), true
		}
		return int64(0), true
	case float64:
		if k == math.Trunc(k) && math.Abs(k) < 1<<62 {
			return int64(k), true
		}
		return k, true
	case *big.Int:
		return bigKey(k.String()), true
	case []byte:
		return bytesKey(k), true
	case Tuple:
		var b strings.Builder
		for _, item := range k {
			h, ok := hashKey(item)
			if !ok {
				return nil, false
			}
			text := fmt.Sprint(h)
			fmt.Fprintf(&b, "%T%d:%s", h, len(text), text)
		}
		return tupleKey(b.String()), true
	case *List, *Map, *Set:
		return nil, false
	case Plainer:
		return hashKey(k.PlainValue())
	}
	if reflect.TypeOf(k).Comparable() {
		return k, true
	}
	return nil, false
}

// Hashable says whether v can be the key of a Map.
func Hashable(v any) bool { _, ok := hashKey(v); return ok }

func (m *Map) find(k any) int {
	if m == nil {
		return -1
	}
	if m.index == nil {
		if s, ok := k.(string); ok { // the common case, without hashing
			for i, have := range m.keys {
				if t, ok := have.(string); ok && t == s {
					return i
				}
			}
			return -1
		}
	}
	h, ok := hashKey(k)
	if !ok {
		return -1
	}
	if m.index != nil {
		if i, ok := m.index[h]; ok {
			return i
		}
		return -1
	}
	for i, have := range m.keys {
		if hh, _ := hashKey(have); hh == h {
			return i
		}
	}
	return -1
}

// Len is the number of keys; a nil map is empty.
func (m *Map) Len() int {
	if m == nil {
		return 0
	}
	return len(m.keys)
}

// Get returns the value under k and whether there is one.
func (m *Map) Get(k any) (any, bool) {
	if i := m.find(k); i >= 0 {
		return m.vals[i], true
	}
	return nil, false
}

// GetText is Get for a text, without the cost of making an interface of it.
func (m *Map) GetText(k string) (any, bool) {
	if m == nil {
		return nil, false
	}
	if m.index != nil {
		if i, ok := m.index[k]; ok {
			return m.vals[i], true
		}
		return nil, false
	}
	for i, have := range m.keys {
		if t, ok := have.(string); ok && t == k {
			return m.vals[i], true
		}
	}
	return nil, false
}

// Value returns the value under k, or nil.
func (m *Map) Value(k any) any { v, _ := m.Get(k); return v }

// Has says whether k is a key.
func (m *Map) Has(k any) bool { return m.find(k) >= 0 }

// Str returns the text under k, or "" if there is none or it is no text.
//
//go:noinline
func (m *Map) Str(k any) string { s, _ := m.Value(k).(string); return s }

// Map returns the mapping under k, or nil.
//
//go:noinline
func (m *Map) Map(k any) *Map { s, _ := m.Value(k).(*Map); return s }

// List returns the list under k, or nil.
//
//go:noinline
func (m *Map) List(k any) *List { s, _ := m.Value(k).(*List); return s }

// Set puts v under k; an existing key keeps its place. An unhashable key is a
// programming error of the caller (decoders check with Hashable) and panics.
func (m *Map) Set(k, v any) {
	if i := m.find(k); i >= 0 {
		m.vals[i] = v
		return
	}
	h, ok := hashKey(k)
	if !ok {
		panic(fmt.Sprintf("unhashable key of type %s", TypeName(k)))
	}
	m.keys = append(m.keys, k)
	m.vals = append(m.vals, v)
	if m.index != nil {
		m.index[h] = len(m.keys) - 1
	} else if len(m.keys) >= mapIndexFrom {
		m.reindex()
	}
}

func (m *Map) reindex() {
	m.index = make(map[any]int, len(m.keys)+4)
	for i, k := range m.keys {
		h, _ := hashKey(k)
		m.index[h] = i
	}
}

// Delete removes k and says whether it was there. It costs time in proportion
// to the keys behind it.
func (m *Map) Delete(k any) bool {
	i := m.find(k)
	if i < 0 {
		return false
	}
	last := i == len(m.keys)-1
	if m.index != nil {
		h, _ := hashKey(m.keys[i])
		delete(m.index, h)
	}
	m.keys = append(m.keys[:i], m.keys[i+1:]...)
	m.vals = append(m.vals[:i], m.vals[i+1:]...)
	if m.index != nil && !last {
		m.reindex()
	}
	return true
}

// Keys returns the keys in order, as a fresh slice.
func (m *Map) Keys() []any {
	if m == nil {
		return nil
	}
	return append([]any(nil), m.keys...)
}

// At returns the key and value at position i.
func (m *Map) At(i int) (k, v any) { return m.keys[i], m.vals[i] }

// All ranges over keys and values in order. The map may be changed under keys
// that exist while ranging; adding or deleting needs Keys.
func (m *Map) All() iter.Seq2[any, any] {
	return func(yield func(any, any) bool) {
		if m == nil {
			return
		}
		for i := 0; i < len(m.keys); i++ {
			if !yield(m.keys[i], m.vals[i]) {
				return
			}
		}
	}
}

// Merge sets every pair of other in m: dict.update.
func (m *Map) Merge(other *Map) {
	for k, v := range other.All() {
		m.Set(k, v)
	}
}

// Clone is a shallow copy.
func (m *Map) Clone() *Map {
	if m == nil {
		return &Map{}
	}
	c := &Map{keys: append([]any(nil), m.keys...), vals: append([]any(nil), m.vals...), class: m.class}
	if len(c.keys) >= mapIndexFrom {
		c.reindex()
	}
	return c
}

// SortedKeys returns the keys ordered as outputters order them: by value where
// all are of one kind, by text else.
func (m *Map) SortedKeys() []any {
	keys := m.Keys()
	mixed := false
	sort.SliceStable(keys, func(i, j int) bool {
		c, err := Compare(keys[i], keys[j])
		mixed = mixed || err != nil
		return c < 0
	})
	if mixed {
		sort.SliceStable(keys, func(i, j int) bool { return Str(keys[i]) < Str(keys[j]) })
	}
	return keys
}

// DeepCopy copies lists and maps all the way down; other values are shared. A
// container that is in v twice (or in itself) is one container in the copy too.
//
//go:noinline
func DeepCopy(v any) any { return deepCopy(v, nil) }

func deepCopy(v any, made map[any]any) any {
	switch v := v.(type) {
	case *List:
		if c, ok := made[v]; ok {
			return c
		}
		if made == nil {
			made = map[any]any{}
		}
		c := &List{Items: make([]any, len(v.Items))}
		made[v] = c
		for i, item := range v.Items {
			c.Items[i] = deepCopy(item, made)
		}
		return c
	case Tuple:
		if made == nil {
			made = map[any]any{}
		}
		c := make(Tuple, len(v))
		for i, item := range v {
			c[i] = deepCopy(item, made)
		}
		return c
	case *Map:
		if v == nil {
			return v
		}
		if c, ok := made[v]; ok {
			return c
		}
		if made == nil {
			made = map[any]any{}
		}
		c := v.Clone()
		made[v] = c
		for i := range c.vals {
			c.vals[i] = deepCopy(c.vals[i], made)
		}
		return c
	case *Set:
		return NewSet(v.Items()...)
	}
	return v
}

// Truth is Python's bool(v).
func Truth(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case *big.Int:
		return v.Sign() != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case []byte:
		return len(v) > 0
	case *List:
		return v.Len() > 0
	case Tuple:
		return len(v) > 0
	case *Map:
		return v.Len() > 0
	case Object:
		return v.Truth()
	}
	return true
}

// number brings bool, int64, *big.Int and float64 to (int, float, kind).
func number(v any) (i *big.Int, f float64, isInt, ok bool) {
	switch v := v.(type) {
	case bool:
		n := int64(0)
		if v {
			n = 1
		}
		return big.NewInt(n), float64(n), true, true
	case int64:
		return big.NewInt(v), float64(v), true, true
	case *big.Int:
		f, _ := new(big.Float).SetInt(v).Float64()
		return v, f, true, true
	case float64:
		return nil, v, false, true
	}
	return nil, 0, false, false
}

// compareNumbers orders two numbers exactly, also an integer beyond 2^53
// against a float. The last result is false if one is NaN.
func compareNumbers(a, b any) (int, bool) {
	if x, ok := a.(int64); ok {
		if y, ok := b.(int64); ok {
			switch {
			case x < y:
				return -1, true
			case x > y:
				return 1, true
			}
			return 0, true
		}
	}
	ai, af, aint, _ := number(a)
	bi, bf, bint, _ := number(b)
	if aint && bint {
		return ai.Cmp(bi), true
	}
	if math.IsNaN(af) || math.IsNaN(bf) {
		return 0, false
	}
	exact := func(i *big.Int, f float64, isInt bool) *big.Float {
		if isInt {
			return new(big.Float).SetInt(i)
		}
		return big.NewFloat(f)
	}
	return exact(ai, af, aint).Cmp(exact(bi, bf, bint)), true
}

func isNumber(v any) bool {
	switch v.(type) {
	case bool, int64, *big.Int, float64:
		return true
	}
	return false
}

// Equal is Python's ==: 1 == 1.0 == True, a list never equals a tuple, maps
// compare without regard to order.
func Equal(a, b any) bool { return equalValues(a, b, 0) }

// maxValueDepth bounds the comparison and copying of nested values, since a
// list can contain itself.
const maxValueDepth = 1000

func equalValues(a, b any, depth int) bool {
	if depth > maxValueDepth {
		return false
	}
	if isNumber(a) && isNumber(b) {
		c, ok := compareNumbers(a, b)
		return ok && c == 0
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case string:
		if s, ok := b.(string); ok {
			return a == s
		}
		p, ok := b.(Plainer)
		return ok && equalValues(a, p.PlainValue(), depth+1)
	case []byte:
		s, ok := b.([]byte)
		return ok && string(a) == string(s)
	case *List:
		l, ok := b.(*List)
		return ok && (a == l || equalItems(a.Items, l.Items, depth+1))
	case Tuple:
		t, ok := b.(Tuple)
		return ok && equalItems(a, t, depth+1)
	case *Map:
		m, ok := b.(*Map)
		if !ok || a.Len() != m.Len() {
			return false
		}
		if a == m {
			return true
		}
		for k, v := range a.All() {
			w, ok := m.Get(k)
			if !ok || !equalValues(v, w, depth+1) {
				return false
			}
		}
		return true
	case *Set:
		s, ok := b.(*Set)
		return ok && a.EqualTo(s)
	case Plainer:
		return equalValues(a.PlainValue(), b, depth+1)
	}
	if b == nil || !reflect.TypeOf(a).Comparable() || !reflect.TypeOf(b).Comparable() {
		return false
	}
	return a == b
}

func equalItems(a, b []any, depth int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !equalValues(a[i], b[i], depth) {
			return false
		}
	}
	return true
}

// Compare orders a and b as Python's < does. Values without an order between
// them are an error with Python's wording, for the operator "<".
func Compare(a, b any) (int, error) { return compareValues(a, b, 0) }

func compareValues(a, b any, depth int) (int, error) {
	if depth > maxValueDepth {
		return 0, fmt.Errorf("maximum recursion depth exceeded in comparison")
	}
	if isNumber(a) && isNumber(b) {
		c, _ := compareNumbers(a, b)
		return c, nil
	}
	switch x := a.(type) {
	case string:
		if y, ok := b.(string); ok {
			return strings.Compare(x, y), nil
		}
		if p, ok := b.(Plainer); ok {
			return compareValues(a, p.PlainValue(), depth+1)
		}
	case Plainer:
		return compareValues(x.PlainValue(), b, depth+1)
	case []byte:
		if y, ok := b.([]byte); ok {
			return strings.Compare(string(x), string(y)), nil
		}
	case *List:
		if y, ok := b.(*List); ok {
			return compareItems(x.Items, y.Items, depth+1)
		}
	case Tuple:
		if y, ok := b.(Tuple); ok {
			return compareItems(x, y, depth+1)
		}
	}
	return 0, fmt.Errorf("'<' not supported between instances of '%s' and '%s'", TypeName(a), TypeName(b))
}

func compareItems(a, b []any, depth int) (int, error) {
	for i := 0; i < len(a) && i < len(b); i++ {
		if Equal(a[i], b[i]) {
			continue
		}
		return compareValues(a[i], b[i], depth)
	}
	return len(a) - len(b), nil
}

// TypeName is the name Python gives the type of v.
func TypeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case []byte:
		return "bytes"
	case *List:
		return "list"
	case Tuple:
		return "tuple"
	case *Map:
		return "dict"
	case Object:
		return v.TypeName()
	}
	return fmt.Sprintf("%T", v)
}

// FromGo brings what ordinary Go code returns into the model: every width of
// integer, slices, maps with text keys (sorted, since a Go map has no order),
// errors and Stringers as text. Values of the model are returned as they are.
func FromGo(v any) any {
	switch v := v.(type) {
	case nil, bool, int64, float64, string, []byte:
		return v
	case *big.Int:
		return normalInt(v)
	case *List:
		if v == nil {
			return &List{}
		}
		return v
	case *Map:
		if v == nil {
			return &Map{}
		}
		return v
	case Tuple, Object:
		return v
	case int:
		return int64(v)
	case uint64:
		if v > math.MaxInt64 {
			return new(big.Int).SetUint64(v)
		}
		return int64(v)
	case []string:
		return Strings(v)
	case []any:
		l := &List{Items: make([]any, len(v))}
		for i := range v {
			l.Items[i] = FromGo(v[i])
		}
		return l
	case map[string]any:
		m := &Map{}
		names := make([]string, 0, len(v))
		for k := range v {
			names = append(names, k)
		}
		sort.Strings(names)
		for _, k := range names {
			m.Set(k, FromGo(v[k]))
		}
		return m
	case error:
		return v.Error()
	}
	return fromReflect(reflect.ValueOf(v))
}

func fromReflect(r reflect.Value) any {
	switch r.Kind() {
	case reflect.Bool:
		return r.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return r.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return FromGo(r.Uint())
	case reflect.Float32, reflect.Float64:
		return r.Float()
	case reflect.String:
		return r.String()
	case reflect.Slice, reflect.Array:
		l := &List{Items: make([]any, r.Len())}
		for i := range l.Items {
			l.Items[i] = FromGo(r.Index(i).Interface())
		}
		return l
	case reflect.Map:
		m := &Map{}
		keys := r.MapKeys()
		sort.Slice(keys, func(i, j int) bool { return fmt.Sprint(keys[i]) < fmt.Sprint(keys[j]) })
		for _, k := range keys {
			m.Set(FromGo(k.Interface()), FromGo(r.MapIndex(k).Interface()))
		}
		return m
	case reflect.Pointer, reflect.Interface:
		if r.IsNil() {
			return nil
		}
		return FromGo(r.Elem().Interface())
	}
	return fmt.Sprint(r.Interface())
}

// normalInt brings an integer that fits into int64 to that form, so that a
// number has one representation.
func normalInt(i *big.Int) any {
	if i.IsInt64() {
		return i.Int64()
	}
	return i
}
