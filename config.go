// Options: the configuration of one program, as every room reads it.
//
// The law of this room: an Options holds every option there is, known or not,
// in one ordered map (config.get shows them all); what is known was checked
// when it was loaded, so a getter never fails, it falls back to the zero value.
// Options are read by many goroutines and are not changed once a daemon runs;
// who needs a variation makes a Clone.
package main

import (
	"path/filepath"
	"time"
)

// Options is a loaded configuration.
type Options struct{ all *Map }

// NewOptions wraps a map of options.
func NewOptions(m *Map) *Options { return &Options{all: m} }

// All is the whole configuration; callers must not change it.
func (o *Options) All() *Map { return o.all }

// Clone copies the options, deeply enough to set others.
func (o *Options) Clone() *Options { return &Options{all: o.all.Clone()} }

// Has says whether an option is set at all, default or not.
func (o *Options) Has(name string) bool { return o.all.Has(name) }

// Set changes one option; only before the daemon runs.
func (o *Options) Set(name string, v any) { o.all.Set(name, v) }

// Value returns an option as it is, nil if it is not set.
func (o *Options) Value(name string) any { return o.all.Value(name) }

// Str returns a text option; numbers as their text, None as "".
func (o *Options) Str(name string) string {
	v := o.all.Value(name)
	if v == nil {
		return ""
	}
	return Str(v)
}

// Int returns a whole number.
func (o *Options) Int(name string) int {
	n, _ := toInt(o.all.Value(name))
	return int(n)
}

// Float returns a number.
func (o *Options) Float(name string) float64 {
	n, _ := toFloat(o.all.Value(name))
	return n
}

// Bool returns Python's truth of an option.
func (o *Options) Bool(name string) bool { return Truth(o.all.Value(name)) }

// Duration returns an option given in seconds.
func (o *Options) Duration(name string) time.Duration {
	return time.Duration(o.Float(name) * float64(time.Second))
}

// Map returns a mapping, nil if the option is none.
func (o *Options) Map(name string) *Map { return o.all.Map(name) }

// List returns a list of texts; a single text is a list of one.
func (o *Options) List(name string) []string {
	var out []string
	for _, v := range toItems(o.all.Value(name)) {
		out = append(out, Str(v))
	}
	return out
}

// Path returns a file name; a relative one lies under root_dir.
func (o *Options) Path(name string) string {
	p := o.Str(name)
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(o.Str("root_dir"), p)
}
