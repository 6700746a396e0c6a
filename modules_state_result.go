// Module state: the exit code of a run, and failures that other states handle.
package main

import (
	"strings"
)

// setStateRetcode sets the job's return code from the result of a run.
func setStateRetcode(c *Call, ret any, high *Map) {
	switch ret := ret.(type) {
	case *List:
		c.SetRetcode(exitStateCompile)
	case *Map:
		c.SetRetcode(0)
		if !stateResultGood(ret, high, false) {
			c.SetRetcode(exitStateFailure)
		}
	default:
		c.SetRetcode(exitStateFailure)
	}
}

// stateResultGood says whether all states of a run are good, or were handled by
// states that name them in onfail with onfail_stop: False.
func stateResultGood(running, high *Map, nested bool) bool {
	if running.Len() == 0 {
		return false
	}
	good := true
	for tag, v := range running.All() {
		ret, ok := v.(*Map)
		if !ok && !nested {
			_, isList := v.(*List)
			good = tag == "__extend__" && isList
		}
		if good && ok {
			res, has := ret.Get("result")
			switch {
			case has:
				good = res != false
			default:
				good = stateResultGood(ret, high, true)
			}
		}
		if !good {
			good = handledByOnfail(Str(tag), ret, running, high)
		}
		if !good {
			return false
		}
	}
	return good
}

// handledByOnfail says whether every state that handles this failure is good.
func handledByOnfail(tag string, ret, running, high *Map) bool {
	parts := strings.Split(tag, "_|-")
	if ret.Len() == 0 || high.Len() == 0 || len(parts) != 4 {
		return false
	}
	id, name := parts[1], parts[2]
	handled := false
	for hid, b := range high.All() {
		body, ok := b.(*Map)
		if !ok {
			continue
		}
		for st, run := range body.All() {
			if hidden(st) {
				continue
			}
			stop, meant := true, false
			for _, arg := range toItems(run) {
				m, ok := arg.(*Map)
				if !ok {
					continue
				}
				if v, ok := m.Get("onfail_stop"); ok {
					stop = Truth(v)
				}
				for k, v := range m.All() {
					if k != "onfail" && k != "onfail_any" && k != "onfail_all" {
						continue
					}
					for _, req := range toItems(v) {
						r := readRequisite(req)
						if (r.key == parts[0] || r.key == "id") && (Equal(r.val, id) || Equal(r.val, name)) {
							meant = true
						}
					}
				}
			}
			if !meant || stop {
				continue
			}
			result := any(nil)
			for t, v := range running.All() {
				p := strings.Split(Str(t), "_|-")
				m, _ := v.(*Map)
				if len(p) != 4 || p[0] != Str(st) || p[1] != Str(hid) {
					continue
				}
				if b, ok := m.Value("result").(bool); ok {
					result = b
					if !b {
						break
					}
				}
			}
			if result != true {
				return false
			}
			handled = true
		}
	}
	return handled
}
