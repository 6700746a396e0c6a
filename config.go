// Configuration: what master, minion and the command lines are told by files,
// environment and options.
//
// The law of this room: everything is loaded once, checked at the place where
// it is read (file, line, key), and never changed afterwards: a reload makes
// new Options. Options that the table does not know are kept as they are, for
// config.get and templates.
package main

import (
	"math"
	"math/big"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Options are the merged and checked options of one program. They are safe for
// concurrent reading.
type Options struct {
	m         *Map
	configDir string
}

// NewOptions wraps a map of options, unchecked: for tests and for options that
// came over the wire.
func NewOptions(m *Map) *Options { return &Options{m: m, configDir: defaultConfigDir} }

// All is the map of all options; it must not be changed.
func (o *Options) All() *Map { return o.m }

// ConfigDir is the directory that the configuration was read from.
func (o *Options) ConfigDir() string { return o.configDir }

// Clone is a copy whose options can be set without touching o.
func (o *Options) Clone() *Options { return &Options{m: o.m.Clone(), configDir: o.configDir} }

// Has says whether there is an option of that name.
func (o *Options) Has(name string) bool { return o.m.Has(name) }

// Value is the option as it is, or nil.
func (o *Options) Value(name string) any { return o.m.Value(name) }

// Set puts a value. Only whoever made the Options may call it.
func (o *Options) Set(name string, v any) { o.m.Set(name, v) }

// Str is the option as text; a missing one and nil are "".
func (o *Options) Str(name string) string {
	switch v := o.m.Value(name).(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		return Str(v)
	}
}

// Int is the option as a whole number, 0 if it is none.
func (o *Options) Int(name string) int {
	switch v := o.m.Value(name).(type) {
	case int64:
		return int(v)
	case float64:
		return int(v)
	case bool:
		if v {
			return 1
		}
	case string:
		n, _ := strconv.Atoi(strings.TrimSpace(v))
		return n
	}
	return 0
}

// Float is the option as a number, 0 if it is none.
func (o *Options) Float(name string) float64 {
	switch v := o.m.Value(name).(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	case string:
		f, _ := strconv.ParseFloat(strings.TrimSpace(v), 64)
		return f
	}
	return 0
}

// Bool is the truth of the option, in Python's sense.
func (o *Options) Bool(name string) bool { return Truth(o.m.Value(name)) }

// Duration is the option in seconds; what is beyond the range of a duration is
// the longest one.
func (o *Options) Duration(name string) time.Duration {
	f := o.Float(name) * float64(time.Second)
	if f >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(f)
}

// List is the option as texts: a single text is a list of one.
func (o *Options) List(name string) []string {
	var items []any
	switch v := o.m.Value(name).(type) {
	case nil:
		return nil
	case string:
		if v == "" {
			return nil
		}
		return []string{v}
	case *List:
		items = v.Items
	case Tuple:
		items = v
	default:
		return nil
	}
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = Str(item)
	}
	return texts
}

// Map is the option as a mapping, or nil.
func (o *Options) Map(name string) *Map { return o.m.Map(name) }

// Path is the option as a path; a relative one is under root_dir.
func (o *Options) Path(name string) string {
	p := o.Str(name)
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(o.Str("root_dir"), p)
}

// DefaultMasterOptions are the defaults of a master, paths not yet under a root.
func DefaultMasterOptions() *Options {
	return defaultOptions("master", func(s optionSpec) any { return s.master })
}

// DefaultMinionOptions are the defaults of a minion.
func DefaultMinionOptions() *Options {
	return defaultOptions("minion", func(s optionSpec) any { return s.minion })
}

func defaultOptions(role string, pick func(optionSpec) any) *Options {
	m := NewMap("__role", role)
	for _, s := range optionSpecs() {
		if v, ok := defaultValue(pick(s)); ok {
			m.Set(s.name, v)
		}
	}
	return NewOptions(m)
}

// defaultValue makes a fresh value of a default in the table.
func defaultValue(v any) (any, bool) {
	switch v := v.(type) {
	case absent:
		return nil, false
	case emptyMap:
		return NewMap(), true
	case strs:
		return Strings(v), true
	case ints:
		l := NewList()
		for _, n := range v {
			l.Append(int64(n))
		}
		return l, true
	case roots:
		return NewMap("base", Strings(v)), true
	}
	return FromGo(v), true
}

// optionKinds is the table as a lookup.
func optionKinds() map[string]optionKind {
	kinds := map[string]optionKind{}
	for _, s := range optionSpecs() {
		kinds[s.name] = s.kind
	}
	return kinds
}

// kindNames are the words for kinds, in the order in which a message names them.
func (k optionKind) String() string {
	if k == kAny {
		return "any value"
	}
	var names []string
	for _, n := range []struct {
		kind optionKind
		name string
	}{{kBool, "true or false"}, {kInt, "a whole number"}, {kFloat, "a number"}, {kStr, "a text"}, {kList, "a list"}, {kMap, "a mapping"}} {
		if k&n.kind != 0 {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, " or ")
}

// convert brings a value that a user wrote to the kind, as far as there is no
// doubt what was meant: 1 for "1", "4" for 4.
func (k optionKind) convert(v any) (any, bool) {
	if s, ok := v.(string); ok && strings.HasPrefix(s, "sdb://") {
		return v, true // known only when it is looked up
	}
	switch v := v.(type) {
	case bool:
		if k&kBool != 0 {
			return v, true
		}
		if k&kStr != 0 {
			if !v {
				return "", true
			}
			return Str(v), true
		}
		return v, k == kAny
	case int64, *big.Int:
		if k&kInt != 0 {
			return v, true
		}
		if k&kFloat != 0 {
			_, f, _, _ := number(v)
			return f, true
		}
		return Str(v), k&kStr != 0
	case float64:
		if k&kFloat != 0 {
			return v, true
		}
		if k&kInt != 0 && v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v), true
		}
		return Str(v), k&kStr != 0
	case string:
		if k&kStr != 0 {
			return v, true
		}
		if k&kInt != 0 {
			if n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64); err == nil {
				return n, true
			}
		}
		if k&kFloat != 0 {
			if f, err := strconv.ParseFloat(strings.TrimSpace(v), 64); err == nil {
				return f, true
			}
		}
		return v, false
	case *List, Tuple:
		return v, k&kList != 0
	case *Map:
		return v, k&kMap != 0
	}
	return v, k == kAny
}
