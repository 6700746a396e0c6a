// Job returns: the load of `_return`, as the minion builds it and the master
// takes it.
package main

import "fmt"

// JIDRequest is the jid of a return that asks the master for one (salt-call).
const JIDRequest = "req"

// JIDNoCache is the jid of a return that is told and not kept (a scheduled job with
// return_job: nocache).
const JIDNoCache = "nocache"

// ReturnLoad is what a minion returns. Map is the load with every field.
type ReturnLoad struct {
	JID     string
	ID      string
	Fun     any // text, or list of texts
	Return  any
	Retcode any // integer; map or list of integers for several functions
	Success any // nil when not sent
	Map     *Map
}

// DecodeReturn checks the load of a `_return` of the minion id.
func DecodeReturn(m *Map, id string) (*ReturnLoad, error) {
	r := &ReturnLoad{Map: m, JID: m.Str("jid"), ID: m.Str("id")}
	if r.ID != id {
		return nil, fmt.Errorf("return of %q carries the id %s", id, shortRepr(m.Value("id")))
	}
	if r.JID != JIDRequest && r.JID != JIDNoCache {
		if err := ValidJID(r.JID); err != nil {
			return nil, fmt.Errorf("return of %q: %w", id, err)
		}
	}
	var ok bool
	if r.Return, ok = m.Get("return"); !ok {
		return nil, fmt.Errorf("return of %q for job %s without a return", id, r.JID)
	}
	r.Fun, r.Success = m.Value("fun"), m.Value("success")
	switch fun := r.Fun.(type) {
	case nil, string:
	case *List:
		for _, f := range fun.Items {
			if _, ok := f.(string); !ok {
				return nil, fmt.Errorf("return of %q: fun holds a %s", id, TypeName(f))
			}
		}
	default:
		return nil, fmt.Errorf("return of %q: fun is a %s", id, TypeName(fun))
	}
	r.Retcode = m.Value("retcode")
	return r, nil
}

// Retcodes are the exit codes in a return, one for each function.
func (r *ReturnLoad) Retcodes() []int64 {
	var codes []int64
	add := func(v any) {
		switch v := v.(type) {
		case int64:
			codes = append(codes, v)
		case bool:
			if v {
				codes = append(codes, 1)
			} else {
				codes = append(codes, 0)
			}
		}
	}
	switch v := r.Retcode.(type) {
	case *Map:
		for _, code := range v.All() {
			add(code)
		}
	case *List:
		for _, code := range v.Items {
			add(code)
		}
	default:
		add(v)
	}
	return codes
}
