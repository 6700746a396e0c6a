// Outputters that users wrote: files in _output (_outputters) with a function
// output(data, **kwargs), whose text the programs show.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
)

// errNoOutputter says that the users wrote no such outputter.
var errNoOutputter = errors.New("there is no such outputter")

// outputter makes the text of data with the outputter of that name. An error is
// errNoOutputter, or what became of the call. Nothing is loaded, and no Python
// started, for names that no file has.
func (u *Customs) outputter(log *slog.Logger, name string, data any, o OutputOptions) (string, error) {
	if !u.Has("output", name) {
		return "", errNoOutputter
	}
	ctx := context.Background()
	c := NewCall(&Env{Opts: u.opts, Grains: NewMap(), Pillar: NewMap(), Log: log, Loader: NewLoader(u.opts, u)}, name+".output", "", nil)
	f, err := u.Function(ctx, c, "output", name, "output")
	if err != nil {
		return "", err
	}
	if f == nil {
		return "", errNoOutputter
	}
	v, err := f.Invoke(ctx, c, []any{data}, acceptedBy(f.Signature(), NewMap("_retcode", int64(o.Retcode))))
	if err != nil {
		return "", fmt.Errorf("its function output failed: %w", err)
	}
	if v == nil {
		return "", nil
	}
	return Str(v), nil
}
