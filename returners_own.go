// Returners that users wrote: files in _returners with the functions that Salt
// names for them, each of which may be missing.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// ownReturner is a file in _returners as a returner. The file is loaded with the
// first call; what it refuses or lacks is the error of the call that needs it.
func ownReturner(name string) Returner {
	call := func(ctx context.Context, env *Env, fun, jid string, args ...any) (v any, found bool, err error) {
		u := env.Loader.customs()
		c := NewCall(env, name+"."+fun, jid, nil)
		f, err := u.Function(ctx, c, "returners", name, fun)
		if f == nil || err != nil {
			return nil, false, err
		}
		if s := f.Signature(); s.Varargs == "" && len(args) > len(s.Params) {
			args = args[:len(s.Params)] // save_load without minions
		}
		v, err = f.Invoke(ctx, c, args, nil)
		return v, true, err
	}
	need := func(found bool, err error, fun string) error {
		if err == nil && !found {
			return fmt.Errorf("it has no function %s", fun)
		}
		return err
	}
	return Returner{
		doc: "A returner of the user.",
		Return: func(ctx context.Context, env *Env, ret *Map, _ io.Writer) error {
			_, found, err := call(ctx, env, "returner", ret.Str("jid"), ret)
			if err == nil && !found {
				return errNoReturner
			}
			return err
		},
		SaveLoad: func(ctx context.Context, env *Env, jid string, load *Map) error {
			_, found, err := call(ctx, env, "save_load", jid, jid, load, load.Value("minions"))
			return need(found, err, "save_load")
		},
		Events: func(ctx context.Context, env *Env, events []*Map, _ io.Writer) error {
			list := &List{}
			for _, e := range events {
				list.Append(e)
			}
			_, found, err := call(ctx, env, "event_return", "", list)
			return need(found, err, "event_return")
		},
		Job: func(ctx context.Context, env *Env, jid string) (load, returns *Map, err error) {
			l, found, lerr := call(ctx, env, "get_load", jid, jid)
			r, rfound, rerr := call(ctx, env, "get_jid", jid, jid)
			load, _ = l.(*Map)
			returns, _ = r.(*Map)
			return load, orEmptyMap(returns), errors.Join(need(found, lerr, "get_load"), need(rfound, rerr, "get_jid"))
		},
	}
}
