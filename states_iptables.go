// State module iptables: rules and chains of the packet filter.
// states_nftables.go has the same for nft.
package main

import (
	"context"
	"fmt"
	"strings"
)

func iptablesStates() Module {
	return Module{
		Doc:     "Rules and chains of iptables.",
		Virtual: needsFunction("iptables.version", "iptables module could not be loaded"),
		Funcs: Funcs{
			"chain_present": {run: iptablesStateChainPresent, doc: "The chain exists."},
			"chain_absent":  {run: iptablesStateChainAbsent, doc: "The chain does not exist."},
			"append":        {run: iptablesStateAppend, doc: "The rule is in the chain, put at its end if it is missing. save writes the rules for the next boot."},
			"insert":        {run: iptablesStateInsert, doc: "The rule is in the chain, put at position if it is missing."},
			"delete":        {run: iptablesStateDelete, doc: "The rule, or the one at position, is not in the chain."},
			"set_policy":    {run: iptablesStatePolicy, doc: "The chain has the policy."},
			"flush":         {run: iptablesStateFlush, doc: "The chain, or the table, has no rules."},
			"mod_aggregate": {run: iptablesStateAggregate, doc: "Join later states of the same kind to one."},
		},
	}
}

type iptablesChainArgs struct {
	Name   string
	Table  string `def:"filter"`
	Family string `def:"ipv4"`
}

func iptablesStateChainPresent(ctx context.Context, c *Call, a iptablesChainArgs) (any, error) {
	ret := stateReturn(a.Name, nil, "")
	have, err := c.Run(ctx, "iptables.check_chain", a.Table, a.Name, a.Family)
	if err != nil {
		return nil, err
	}
	if have == true {
		return stateSay(ret, true, "iptables %s chain is already exist in %s table for %s", a.Name, a.Table, a.Family)
	}
	if c.Testing() {
		return stateSay(ret, nil, "iptables %s chain in %s table needs to be set for %s", a.Name, a.Table, a.Family)
	}
	done, err := c.Run(ctx, "iptables.new_chain", a.Table, a.Name, a.Family)
	if err != nil {
		return nil, err
	}
	if done != true {
		return stateSay(ret, false, "Failed to create %s chain in %s table: %s for %s", a.Name, a.Table, strings.TrimSpace(Str(done)), a.Family)
	}
	ret.Set("changes", NewMap("locale", a.Name))
	return stateSay(ret, true, "iptables %s chain in %s table create success for %s", a.Name, a.Table, a.Family)
}

func iptablesStateChainAbsent(ctx context.Context, c *Call, a iptablesChainArgs) (any, error) {
	ret := stateReturn(a.Name, nil, "")
	have, err := runTruth(ctx, c, "iptables.check_chain", a.Table, a.Name, a.Family)
	if err != nil {
		return nil, err
	}
	if !have {
		return stateSay(ret, true, "iptables %s chain is already absent in %s table for %s", a.Name, a.Table, a.Family)
	}
	if c.Testing() {
		return stateSay(ret, nil, "iptables %s chain in %s table needs to be removed %s", a.Name, a.Table, a.Family)
	}
	failed, err := runString(ctx, c, "iptables.flush", a.Table, a.Name, a.Family)
	if err != nil {
		return nil, err
	}
	if failed != "" {
		return stateSay(ret, false, "Failed to flush %s chain in %s table: %s for %s", a.Name, a.Table, strings.TrimSpace(failed), a.Family)
	}
	done, err := c.Run(ctx, "iptables.delete_chain", a.Table, a.Name, a.Family)
	if err != nil {
		return nil, err
	}
	if done != true {
		return stateSay(ret, false, "Failed to delete %s chain in %s table: %s for %s", a.Name, a.Table, strings.TrimSpace(Str(done)), a.Family)
	}
	ret.Set("changes", NewMap("locale", a.Name))
	return stateSay(ret, true, "iptables %s chain in %s table delete success for %s", a.Name, a.Table, a.Family)
}

type iptablesRuleArgs struct {
	Name   string
	Table  string `def:"filter"`
	Family string `def:"ipv4"`
	Kwargs *Map   `arg:"**kwargs"`
}

// saveFile is the file that save names, nil for the usual one.
func saveFile(save any) any {
	if save == true {
		return nil
	}
	return save
}

// iptablesWork is one rule on its way.
type iptablesWork struct {
	a       iptablesRuleArgs
	ret     *Map
	rule    string
	command string
	there   bool
}

func (w *iptablesWork) save(ctx context.Context, c *Call) (string, error) {
	v, err := c.RunKw(ctx, "iptables.save", nil, NewMap("filename", saveFile(w.a.Kwargs.Value("save")), "family", w.a.Family))
	if err != nil {
		return "", err
	}
	return Str(v), nil
}

func (w *iptablesWork) say(result any, format string, a ...any) (any, error) {
	return stateSay(w.ret, result, format, a...)
}

// read builds the rule and looks whether it is there.
func (w *iptablesWork) read(ctx context.Context, c *Call, letter string) error {
	kw := NewMap("family", w.a.Family)
	for k, v := range w.a.Kwargs.All() {
		if !hidden(k) && k != "rules" {
			kw.Set(k, v)
		}
	}
	kw.Merge(NewMap("name", w.a.Name, "table", w.a.Table))
	v, err := c.RunKw(ctx, "iptables.build_rule", nil, kw.Clone())
	if err != nil {
		return err
	}
	w.rule = Str(v)
	kw.Merge(NewMap("full", true, "command", letter))
	if v, err = c.RunKw(ctx, "iptables.build_rule", nil, kw); err != nil {
		return err
	}
	w.command = strings.TrimSpace(Str(v))
	have, err := c.Run(ctx, "iptables.check", w.a.Table, w.a.Kwargs.Value("chain"), w.rule, w.a.Family)
	w.there = have == true
	return err
}

// savedAsRunning writes the rules if what is kept for boot differs.
func (w *iptablesWork) savedAsRunning(ctx context.Context, c *Call) error {
	if !Truth(w.a.Kwargs.Value("save")) {
		return nil
	}
	rules := func(fun string, kw *Map) (*List, error) {
		v, err := c.RunKw(ctx, fun, nil, kw)
		if err != nil {
			return nil, err
		}
		out := NewList()
		m, _ := v.(*Map)
		for _, table := range m.All() {
			chains, _ := table.(*Map)
			for _, chain := range chains.All() {
				one, _ := chain.(*Map)
				out.Append(one.Value("rules"))
			}
		}
		return out, nil
	}
	kept, err := rules("iptables.get_saved_rules", NewMap("conf_file", saveFile(w.a.Kwargs.Value("save")), "family", w.a.Family))
	if err != nil {
		return err
	}
	now, err := rules("iptables.get_rules", NewMap("family", w.a.Family))
	if err != nil || Equal(now, kept) {
		return err
	}
	out, err := w.save(ctx, c)
	w.ret.Set("comment", fmt.Sprintf("%s\nSaved iptables rule %s for %s\n%s\n%s", w.ret.Str("comment"), w.a.Name, w.a.Family, w.command, out))
	return err
}

// several runs the rules of joined states one after the other.
func iptablesSeveral(ctx context.Context, c *Call, a iptablesRuleArgs, one func(context.Context, *Call, iptablesRuleArgs) (any, error)) (any, error) {
	ret := stateReturn(a.Name, nil, "")
	made := NewList()
	var comments []string
	var save any
	for _, item := range toItems(a.Kwargs.Value("rules")) {
		m, ok := item.(*Map)
		if !ok {
			continue
		}
		kw := m.Clone()
		for _, k := range []string{"rules", "__agg__", "name", "table", "family"} {
			kw.Delete(k)
		}
		for _, k := range kw.Keys() {
			if internalKeyword(Str(k)) {
				kw.Delete(k)
			}
		}
		if v := kw.Value("save"); Truth(v) {
			save = v
			kw.Set("save", false)
		}
		rule := iptablesRuleArgs{Name: Str(m.Value("name")), Table: Str(kwargOf(m, "table", "filter")), Family: Str(kwargOf(m, "family", "ipv4")), Kwargs: kw}
		v, err := one(ctx, c, rule)
		if err != nil {
			return nil, err
		}
		r := v.(*Map)
		if l, ok := r.Map("changes").Get("locale"); ok {
			made.Append(l)
		}
		comments = append(comments, Str(r.Value("comment")))
		ret.Set("result", r.Value("result"))
	}
	if Truth(save) {
		if _, err := c.RunKw(ctx, "iptables.save", nil, NewMap("filename", saveFile(save), "family", a.Family)); err != nil {
			return nil, err
		}
	}
	if made.Len() > 0 {
		ret.Map("changes").Set("locale", made)
	}
	ret.Set("comment", strings.Join(comments, "\n"))
	return ret, nil
}

func iptablesStateAppend(ctx context.Context, c *Call, a iptablesRuleArgs) (any, error) {
	if a.Kwargs.Has("rules") {
		return iptablesSeveral(ctx, c, a, iptablesStateAppend)
	}
	w := &iptablesWork{a: a, ret: stateReturn(a.Name, nil, "")}
	if err := w.read(ctx, c, "A"); err != nil {
		return nil, err
	}
	if w.there {
		w.ret.Set("result", true)
		w.ret.Set("comment", fmt.Sprintf("iptables rule for %s already set (%s) for %s", a.Name, w.command, a.Family))
		return w.ret, w.savedAsRunning(ctx, c)
	}
	if c.Testing() {
		return w.say(nil, "iptables rule for %s needs to be set (%s) for %s", a.Name, w.command, a.Family)
	}
	done, err := runTruth(ctx, c, "iptables.append", a.Table, a.Kwargs.Value("chain"), w.rule, a.Family)
	if err != nil {
		return nil, err
	}
	if !done {
		return w.say(false, "Failed to set iptables rule for %s.\nAttempted rule was %s for %s", a.Name, w.command, a.Family)
	}
	return w.set(ctx, c)
}

// set reports a new rule, and saves.
func (w *iptablesWork) set(ctx context.Context, c *Call) (any, error) {
	w.ret.Set("changes", NewMap("locale", w.a.Name))
	if !Truth(w.a.Kwargs.Value("save")) {
		return w.say(true, "Set iptables rule for %s to: %s for %s", w.a.Name, w.command, w.a.Family)
	}
	out, err := w.save(ctx, c)
	if err != nil {
		return nil, err
	}
	return w.say(true, "Set and saved iptables rule %s for %s\n%s\n%s", w.a.Name, w.a.Family, w.command, out)
}

func iptablesStateInsert(ctx context.Context, c *Call, a iptablesRuleArgs) (any, error) {
	if a.Kwargs.Has("rules") {
		return iptablesSeveral(ctx, c, a, iptablesStateInsert)
	}
	w := &iptablesWork{a: a, ret: stateReturn(a.Name, nil, "")}
	if err := w.read(ctx, c, "I"); err != nil {
		return nil, err
	}
	if w.there {
		w.ret.Set("result", true)
		w.ret.Set("comment", fmt.Sprintf("iptables rule for %s already set for %s (%s)", a.Name, a.Family, w.command))
		return w.ret, w.savedAsRunning(ctx, c)
	}
	if c.Testing() {
		return w.say(nil, "iptables rule for %s needs to be set for %s (%s)", a.Name, a.Family, w.command)
	}
	failed, err := runTruth(ctx, c, "iptables.insert", a.Table, a.Kwargs.Value("chain"), a.Kwargs.Value("position"), w.rule, a.Family)
	if err != nil {
		return nil, err
	}
	if failed {
		return w.say(false, "Failed to set iptables rule for %s.\nAttempted rule was %s", a.Name, w.command)
	}
	return w.set(ctx, c)
}

func iptablesStateDelete(ctx context.Context, c *Call, a iptablesRuleArgs) (any, error) {
	if a.Kwargs.Has("rules") {
		return iptablesSeveral(ctx, c, a, iptablesStateDelete)
	}
	w := &iptablesWork{a: a, ret: stateReturn(a.Name, nil, "")}
	if err := w.read(ctx, c, "D"); err != nil {
		return nil, err
	}
	position, at := a.Kwargs.Get("position")
	if !w.there && !at {
		return w.say(true, "iptables rule for %s already absent for %s (%s)", a.Name, a.Family, w.command)
	}
	if c.Testing() {
		return w.say(nil, "iptables rule for %s needs to be deleted for %s (%s)", a.Name, a.Family, w.command)
	}
	kw := NewMap("family", a.Family, "rule", w.rule)
	if at {
		kw = NewMap("family", a.Family, "position", position)
	}
	failed, err := c.RunKw(ctx, "iptables.delete", []any{a.Table, a.Kwargs.Value("chain")}, kw)
	if err != nil {
		return nil, err
	}
	if Truth(failed) {
		return w.say(false, "Failed to delete iptables rule for %s.\nAttempted rule was %s", a.Name, w.command)
	}
	w.ret.Set("changes", NewMap("locale", a.Name))
	if !Truth(a.Kwargs.Value("save")) {
		return w.say(true, "Delete iptables rule for %s %s", a.Name, w.command)
	}
	out, err := w.save(ctx, c)
	if err != nil {
		return nil, err
	}
	return w.say(true, "Deleted and saved iptables rule %s for %s\n%s\n%s", a.Name, a.Family, w.command, out)
}

func iptablesStatePolicy(ctx context.Context, c *Call, a iptablesRuleArgs) (any, error) {
	ret := stateReturn(a.Name, nil, "")
	chain, policy := a.Kwargs.Value("chain"), a.Kwargs.Value("policy")
	have, err := c.Run(ctx, "iptables.get_policy", a.Table, chain, a.Family)
	if err != nil {
		return nil, err
	}
	if Equal(have, policy) {
		return stateSay(ret, true, "iptables default policy for chain %s on table %s for %s already set to %s", Str(chain), a.Table, a.Family, Str(policy))
	}
	if c.Testing() {
		return stateSay(ret, nil, "iptables default policy for chain %s on table %s for %s needs to be set to %s", Str(chain), a.Table, a.Family, Str(policy))
	}
	failed, err := runTruth(ctx, c, "iptables.set_policy", a.Table, chain, policy, a.Family)
	if err != nil {
		return nil, err
	}
	if failed {
		return stateSay(ret, false, "Failed to set iptables default policy")
	}
	ret.Set("changes", NewMap("locale", a.Name))
	if !Truth(a.Kwargs.Value("save")) {
		return stateSay(ret, true, "Set default policy for %s to %s family %s", Str(chain), Str(policy), a.Family)
	}
	w := &iptablesWork{a: a, ret: ret}
	if _, err := w.save(ctx, c); err != nil {
		return nil, err
	}
	return stateSay(ret, true, "Set and saved default policy for %s to %s family %s", Str(chain), Str(policy), a.Family)
}

func iptablesStateFlush(ctx context.Context, c *Call, a iptablesRuleArgs) (any, error) {
	ret := stateReturn(a.Name, nil, "")
	chain := kwargOf(a.Kwargs, "chain", "")
	if c.Testing() {
		return stateSay(ret, nil, "iptables rules in %s table %s chain %s family needs to be flushed", a.Name, a.Table, a.Family)
	}
	failed, err := runTruth(ctx, c, "iptables.flush", a.Table, chain, a.Family)
	if err != nil {
		return nil, err
	}
	if failed {
		return stateSay(ret, false, "Failed to flush iptables rules")
	}
	ret.Set("changes", NewMap("locale", a.Name))
	return stateSay(ret, true, "Flush iptables rules in %s table %s chain %s family", a.Table, Str(chain), a.Family)
}

func iptablesStateAggregate(_ context.Context, _ *Call, a struct {
	Low     *Map
	Chunks  *List
	Running *Map
}) (any, error) {
	low := a.Low
	if fun := low.Value("fun"); fun != "append" && fun != "insert" {
		return low, nil
	}
	rules := NewList(toItems(low.Value("rules"))...)
	for _, item := range a.Chunks.Items {
		chunk, ok := item.(*Map)
		if !ok || a.Running.Has(lowTag(chunk)) || chunk.Value("state") != "iptables" || chunk.Has("__agg__") || chunk.Value("fun") != low.Value("fun") {
			continue
		}
		rules.Append(DeepCopy(chunk))
		chunk.Set("__agg__", true)
	}
	if rules.Len() > 0 {
		low.Set("rules", rules)
	}
	return low, nil
}
