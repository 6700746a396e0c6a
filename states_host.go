// State module host: lines of /etc/hosts.
package main

import (
	"context"
	"net"
	"strings"
)

func hostStates() Module {
	return Module{
		Doc: "Names and addresses in the hosts file.",
		Funcs: Funcs{
			"present": {run: hostStatePresent, doc: "The name belongs to each of the addresses; clean takes it from all others."},
			"absent":  {run: hostStateAbsent, doc: "The name does not belong to the addresses."},
			"only":    {run: hostStateOnly, doc: "The address has these names and no others."},
		},
	}
}

// addedTo appends to a list in a mapping in a return's changes.
func addedTo(changes *Map, kind string, key, item any) {
	m := changes.Map(kind)
	if m == nil {
		m = NewMap()
		changes.Set(kind, m)
	}
	if l := m.List(key); l != nil {
		l.Append(item)
		return
	}
	m.Set(key, NewList(item))
}

func listOf(v any) []any {
	if l, ok := v.(*List); ok {
		return l.Items
	}
	return []any{v}
}

func hostStatePresent(ctx context.Context, c *Call, a struct {
	Name    string
	IP      any    `arg:"ip"`
	Comment string `def:"''"`
	Clean   any    `def:"False"`
}) (any, error) {
	ret := stateReturn(a.Name, true, "")
	ips := uniqueItems(listOf(a.IP)...)
	hosts, err := runMap(ctx, c, "hosts.list_hosts")
	if err != nil {
		return nil, err
	}
	var add, remove, note []any
	var comments []string
	for _, ip := range ips {
		if !hosts.Has(ip) {
			add = append(add, ip)
			if a.Comment != "" {
				note = append(note, ip)
			}
		}
	}
	for addr, v := range hosts.All() {
		info, _ := v.(*Map)
		named := hasItem(toItems(info.Value("aliases")), a.Name)
		switch {
		case !hasItem(ips, addr):
			if !named {
				break
			}
			if Truth(a.Clean) {
				remove = append(remove, addr)
				break
			}
			warnings := ret.List("warnings")
			if warnings == nil {
				warnings = NewList()
				ret.Set("warnings", warnings)
			}
			warnings.Append("Host " + a.Name + " present for IP address " + Str(addr) +
				". To get rid of this warning, either run this state with 'clean' set to True to remove " + a.Name + " from " + Str(addr) +
				", or add " + Str(addr) + " to the 'ip' argument.")
		case named:
			if have, ok := info.Get("comment"); a.Comment != "" && (!ok || have != a.Comment) {
				note = append(note, addr)
			} else {
				comments = append(comments, "Host "+a.Name+" ("+Str(addr)+") already present")
			}
		case net.ParseIP(Str(addr)) != nil:
			add = append(add, addr)
			if a.Comment != "" {
				note = append(note, addr)
			}
		default:
			ret.Set("result", false)
			comments = append(comments, "Invalid IP Address for "+a.Name+" ("+Str(addr)+")")
		}
	}
	for _, step := range []struct {
		addrs                 []any
		fun, arg, kind        string
		would, did, fail      string
		keepsResultInDryState bool
	}{
		{add, "hosts.add_host", a.Name, "added", "Host %n (%a) would be added", "Added host %n (%a)", "Failed to add host %n (%a)", false},
		{note, "hosts.set_comment", a.Comment, "comment_added", "Comment for %a (%n) would be added", "Set comment for host %a (%n)", "Failed to add comment for host %a (%n)", true},
		{remove, "hosts.rm_host", a.Name, "removed", "Host %n (%a) would be removed", "Removed host %n (%a)", "Failed to remove host %n (%a)", false},
	} {
		for _, addr := range step.addrs {
			words := strings.NewReplacer("%n", step.arg, "%a", Str(addr))
			if c.Testing() {
				if !step.keepsResultInDryState {
					ret.Set("result", nil)
				}
				comments = append(comments, words.Replace(step.would))
			} else {
				ok, err := runTruth(ctx, c, step.fun, addr, step.arg)
				if err != nil {
					return nil, err
				}
				if !ok {
					ret.Set("result", false)
					comments = append(comments, words.Replace(step.fail))
					continue
				}
				comments = append(comments, words.Replace(step.did))
			}
			addedTo(ret.Map("changes"), step.kind, addr, step.arg)
		}
	}
	ret.Set("comment", strings.Join(comments, "\n"))
	return ret, nil
}

func hostStateAbsent(ctx context.Context, c *Call, a struct {
	Name string
	IP   any `arg:"ip"`
}) (any, error) {
	ret := stateReturn(a.Name, nil, "")
	var comments []string
	for _, ip := range listOf(a.IP) {
		there, err := runTruth(ctx, c, "hosts.has_pair", ip, a.Name)
		if err != nil {
			return nil, err
		}
		if !there {
			ret.Set("result", true)
			comments = append(comments, "Host "+a.Name+" ("+Str(ip)+") already absent")
			continue
		}
		if c.Testing() {
			comments = append(comments, "Host "+a.Name+" ("+Str(ip)+") needs to be removed")
			continue
		}
		ok, err := runTruth(ctx, c, "hosts.rm_host", ip, a.Name)
		if err != nil {
			return nil, err
		}
		ret.Set("result", ok)
		if ok {
			ret.Set("changes", NewMap("host", a.Name))
			comments = append(comments, "Removed host "+a.Name+" ("+Str(ip)+")")
		} else {
			comments = append(comments, "Failed to remove host")
		}
	}
	ret.Set("comment", strings.Join(comments, "\n"))
	return ret, nil
}

func hostStateOnly(ctx context.Context, c *Call, a struct {
	Name      string
	Hostnames any
}) (any, error) {
	ret := stateReturn(a.Name, nil, "")
	names, err := runItems(ctx, c, "hosts.get_alias", a.Name)
	if err != nil {
		return nil, err
	}
	old := joinTexts(names, " ")
	var wanted []string
	for _, n := range toItems(a.Hostnames) {
		wanted = append(wanted, pyStrip(Str(n)))
	}
	names1 := strings.Join(wanted, " ")
	if old == names1 {
		return stateSay(ret, true, "IP address %s already set to \"%s\"", a.Name, names1)
	}
	if c.Testing() {
		return stateSay(ret, nil, "Would change %s from \"%s\" to \"%s\"", a.Name, old, names1)
	}
	done, err := c.Run(ctx, "hosts.set_host", a.Name, names1)
	if err != nil {
		return nil, err
	}
	if !Truth(done) {
		return stateSay(ret, done, "hosts.set_host failed to change %s from \"%s\" to \"%s\"", a.Name, old, names1)
	}
	ret.Set("changes", NewMap(a.Name, oldNew(old, names1)))
	return stateSay(ret, done, "successfully changed %s from \"%s\" to \"%s\"", a.Name, old, names1)
}
