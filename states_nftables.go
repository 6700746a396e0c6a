// State module nftables: tables, chains and rules of nft.
package main

import (
	"context"
	"strings"
)

func nftablesStates() Module {
	return Module{
		Doc:     "Tables, chains and rules of nftables.",
		Virtual: needsFunction("nftables.version", "nftables module could not be loaded"),
		Funcs: Funcs{
			"table_present": {run: nftStateTablePresent, doc: "The table exists."},
			"table_absent":  {run: nftStateTableAbsent, doc: "The table does not exist."},
			"chain_present": {run: nftStateChainPresent, doc: "The chain exists."},
			"chain_absent":  {run: nftStateChainAbsent, doc: "The chain does not exist."},
			"append":        {run: nftStateAppend, doc: "The rule is in the chain, put at its end if it is missing."},
			"insert":        {run: nftStateInsert, doc: "The rule is in the chain, put at position if it is missing."},
			"delete":        {run: nftStateDelete, doc: "The rule, or the one at position, is not in the chain."},
			"flush":         {run: nftStateFlush, doc: "The chain, or the table, has no rules."},
			"set_policy":    {run: nftStatePolicy, doc: "The chain has the policy."},
		},
	}
}

// nft calls a function of nftables, which return result and comment.
func nft(ctx context.Context, c *Call, fun string, args []any, kw *Map) (ok bool, m *Map, err error) {
	v, err := c.RunKw(ctx, "nftables."+fun, args, kw)
	if err != nil {
		return false, nil, err
	}
	if m, ok := v.(*Map); ok {
		return Truth(m.Value("result")), m, nil
	}
	return Truth(v), NewMap("result", v, "comment", ""), nil
}

type nftTableArgs struct {
	Name   string
	Family string `def:"ipv4"`
	Kwargs *Map   `arg:"**kwargs"`
}

func nftStateTablePresent(ctx context.Context, c *Call, a nftTableArgs) (any, error) {
	return nftTable(ctx, c, a, true, "new_table", nftTableWords{
		already: "nftables table %s already exists in family %s",
		would:   "nftables table %s would be created in family %s",
		failed:  "Failed to create table %s for family %s",
		done:    "nftables table %s successfully created in family %s",
	})
}

func nftStateTableAbsent(ctx context.Context, c *Call, a nftTableArgs) (any, error) {
	return nftTable(ctx, c, a, false, "delete_table", nftTableWords{
		already: "nftables table %s is already absent from family %s",
		would:   "nftables table %s would be deleted from family %s",
		failed:  "Failed to delete table %s from family %s",
		done:    "nftables table %s successfully deleted from family %s",
	})
}

// nftTableWords are the comments of a state, on a table and its family.
type nftTableWords struct{ already, would, failed, done string }

// nftTable sees to it that a table is there, or not, by calling fun.
func nftTable(ctx context.Context, c *Call, a nftTableArgs, want bool, fun string, w nftTableWords) (any, error) {
	ret := stateReturn(a.Name, nil, "")
	fam := NewMap("family", a.Family)
	have, _, err := nft(ctx, c, "check_table", []any{a.Name}, fam.Clone())
	if err != nil {
		return nil, err
	}
	if have == want {
		return stateSay(ret, true, w.already, a.Name, a.Family)
	}
	if c.Testing() {
		return stateSay(ret, nil, w.would, a.Name, a.Family)
	}
	done, _, err := nft(ctx, c, fun, []any{a.Name}, fam)
	if err != nil {
		return nil, err
	}
	if !done {
		return stateSay(ret, false, w.failed, a.Name, a.Family)
	}
	ret.Set("changes", NewMap("locale", a.Name))
	return stateSay(ret, true, w.done, a.Name, a.Family)
}

func nftStateChainPresent(ctx context.Context, c *Call, a struct {
	Name      string
	Table     string `def:"filter"`
	TableType any    `def:"None"`
	Hook      any    `def:"None"`
	Priority  any    `def:"None"`
	Family    string `def:"ipv4"`
}) (any, error) {
	ret := stateReturn(a.Name, nil, "")
	have, _, err := nft(ctx, c, "check_chain", []any{a.Table, a.Name}, NewMap("family", a.Family))
	if err != nil {
		return nil, err
	}
	if have {
		return stateSay(ret, true, "nftables %s chain is already exist in %s table for %s", a.Name, a.Table, a.Family)
	}
	if c.Testing() {
		return stateSay(ret, nil, "nftables chain %s would be created in table %s for family %s", a.Name, a.Table, a.Family)
	}
	done, m, err := nft(ctx, c, "new_chain", []any{a.Table, a.Name}, NewMap("table_type", a.TableType, "hook", a.Hook, "priority", a.Priority, "family", a.Family))
	if err != nil {
		return nil, err
	}
	if !done {
		return stateSay(ret, false, "Failed to create %s chain in %s table: %s for %s", a.Name, a.Table, strings.TrimSpace(Str(m.Value("comment"))), a.Family)
	}
	ret.Set("changes", NewMap("locale", a.Name))
	return stateSay(ret, true, "nftables %s chain in %s table create success for %s", a.Name, a.Table, a.Family)
}

func nftStateChainAbsent(ctx context.Context, c *Call, a iptablesChainArgs) (any, error) {
	ret := stateReturn(a.Name, nil, "")
	fam := NewMap("family", a.Family)
	have, _, err := nft(ctx, c, "check_chain", []any{a.Table, a.Name}, fam.Clone())
	if err != nil {
		return nil, err
	}
	if !have {
		return stateSay(ret, true, "nftables %s chain is already absent in %s table for %s", a.Name, a.Table, a.Family)
	}
	if c.Testing() { // Python Salt deletes it even so
		return stateSay(ret, nil, "nftables %s chain in %s table needs to be removed %s", a.Name, a.Table, a.Family)
	}
	done, m, err := nft(ctx, c, "flush", []any{a.Table, a.Name}, fam.Clone())
	if err != nil {
		return nil, err
	}
	if !done {
		return stateSay(ret, false, "Failed to flush %s chain in %s table: %s for %s", a.Name, a.Table, strings.TrimSpace(Str(m.Value("comment"))), a.Family)
	}
	if done, m, err = nft(ctx, c, "delete_chain", []any{a.Table, a.Name}, fam); err != nil {
		return nil, err
	}
	if !done {
		return stateSay(ret, false, "Failed to delete %s chain in %s table: %s for %s", a.Name, a.Table, strings.TrimSpace(Str(m.Value("comment"))), a.Family)
	}
	ret.Set("changes", NewMap("locale", a.Name))
	return stateSay(ret, true, "nftables %s chain in %s table delete success for %s", a.Name, a.Table, a.Family)
}

// nftRule builds a rule and its command, and looks whether it is there. A
// mapping instead says why it could not be built.
func nftRule(ctx context.Context, c *Call, a nftTableArgs, verb string) (rule, command string, there bool, bad *Map, err error) {
	kw := NewMap("family", a.Family)
	for k, v := range a.Kwargs.All() {
		if !hidden(k) {
			kw.Set(k, v)
		}
	}
	ok, m, err := nft(ctx, c, "build_rule", nil, kw.Clone())
	if err != nil || !ok {
		return "", "", false, m, err
	}
	rule = Str(m.Value("rule"))
	kw.Merge(NewMap("full", true, "command", verb))
	if ok, m, err = nft(ctx, c, "build_rule", nil, kw); err != nil || !ok {
		return "", "", false, m, err
	}
	command = strings.TrimSpace(Str(m.Value("rule")))
	there, _, err = nft(ctx, c, "check", []any{a.Kwargs.Value("table"), a.Kwargs.Value("chain"), rule, a.Family}, nil)
	return rule, command, there, nil, err
}

func nftSave(ctx context.Context, c *Call, a nftTableArgs) (bool, error) {
	if !Truth(a.Kwargs.Value("save")) {
		return false, nil
	}
	_, err := c.RunKw(ctx, "nftables.save", nil, NewMap("filename", a.Kwargs.Value("save_filename"), "family", a.Family))
	return true, err
}

func nftStateAppend(ctx context.Context, c *Call, a nftTableArgs) (any, error) {
	ret := stateReturn(a.Name, nil, "")
	rule, command, there, bad, err := nftRule(ctx, c, a, "add")
	switch {
	case err != nil:
		return nil, err
	case bad != nil:
		return stateSay(ret, false, "%s", Str(bad.Value("comment")))
	case there:
		return stateSay(ret, true, "nftables rule for %s already set (%s) for %s", a.Name, command, a.Family)
	case c.Testing():
		return stateSay(ret, nil, "nftables rule for %s needs to be set (%s) for %s", a.Name, command, a.Family)
	}
	done, m, err := nft(ctx, c, "append", []any{a.Kwargs.Value("table"), a.Kwargs.Value("chain"), rule, a.Family}, nil)
	if err != nil {
		return nil, err
	}
	if !done {
		return stateSay(ret, false, "Failed to set nftables rule for %s.\nAttempted rule was %s for %s.\n%s", a.Name, command, a.Family, Str(m.Value("comment")))
	}
	return nftSet(ctx, c, ret, a, command)
}

func nftSet(ctx context.Context, c *Call, ret *Map, a nftTableArgs, command string) (any, error) {
	ret.Set("changes", NewMap("locale", a.Name))
	saved, err := nftSave(ctx, c, a)
	if err != nil {
		return nil, err
	}
	word := "Set"
	if saved {
		word = "Set and Saved"
	}
	return stateSay(ret, true, "%s nftables rule for %s to: %s for %s", word, a.Name, command, a.Family)
}

func nftStateInsert(ctx context.Context, c *Call, a nftTableArgs) (any, error) {
	ret := stateReturn(a.Name, nil, "")
	rule, command, there, bad, err := nftRule(ctx, c, a, "insert")
	switch {
	case err != nil:
		return nil, err
	case bad != nil:
		return stateSay(ret, false, "%s", Str(bad.Value("comment")))
	case there:
		return stateSay(ret, true, "nftables rule for %s already set for %s (%s)", a.Name, a.Family, command)
	case c.Testing():
		return stateSay(ret, nil, "nftables rule for %s needs to be set for %s (%s)", a.Name, a.Family, command)
	}
	done, _, err := nft(ctx, c, "insert", []any{a.Kwargs.Value("table"), a.Kwargs.Value("chain"), a.Kwargs.Value("position"), rule, a.Family}, nil)
	if err != nil {
		return nil, err
	}
	if !done {
		return stateSay(ret, false, "Failed to set nftables rule for %s.\nAttempted rule was %s", a.Name, command)
	}
	return nftSet(ctx, c, ret, a, command)
}

func nftStateDelete(ctx context.Context, c *Call, a nftTableArgs) (any, error) {
	ret := stateReturn(a.Name, nil, "")
	rule, command, there, bad, err := nftRule(ctx, c, a, "D")
	switch {
	case err != nil:
		return nil, err
	case bad != nil:
		return stateSay(ret, false, "%s", Str(bad.Value("comment")))
	case !there:
		return stateSay(ret, true, "nftables rule for %s already absent for %s (%s)", a.Name, a.Family, command)
	case c.Testing():
		return stateSay(ret, nil, "nftables rule for %s needs to be deleted for %s (%s)", a.Name, a.Family, command)
	}
	kw := NewMap("family", a.Family, "rule", rule)
	if v, ok := a.Kwargs.Get("position"); ok {
		kw = NewMap("family", a.Family, "position", v)
	}
	done, _, err := nft(ctx, c, "delete", []any{a.Kwargs.Value("table"), a.Kwargs.Value("chain")}, kw)
	if err != nil {
		return nil, err
	}
	if !done {
		return stateSay(ret, false, "Failed to delete nftables rule for %s.\nAttempted rule was %s", a.Name, command)
	}
	ret.Set("changes", NewMap("locale", a.Name))
	saved, err := nftSave(ctx, c, a)
	if err != nil {
		return nil, err
	}
	if saved {
		return stateSay(ret, true, "Deleted and Saved nftables rule for %s for %s%s", a.Name, command, a.Family)
	}
	return stateSay(ret, true, "Delete nftables rule for %s %s", a.Name, command)
}

func nftStateFlush(ctx context.Context, c *Call, a struct {
	Name          string
	Family        string `def:"ipv4"`
	IgnoreAbsence any    `def:"False"`
	Kwargs        *Map   `arg:"**kwargs"`
}) (any, error) {
	ret := stateReturn(a.Name, nil, "")
	if c.Testing() {
		return stateSay(ret, nil, "nftables flush not performed in test mode.")
	}
	table, chain := Str(kwargOf(a.Kwargs, "table", "filter")), Str(kwargOf(a.Kwargs, "chain", ""))
	fam := NewMap("family", a.Family)
	have, _, err := nft(ctx, c, "check_table", []any{table}, fam.Clone())
	if err != nil {
		return nil, err
	}
	if !have && !Truth(a.IgnoreAbsence) {
		return stateSay(ret, false, "Failed to flush table %s in family %s, table does not exist.", table, a.Family)
	}
	if chain != "" {
		there, _, err := nft(ctx, c, "check_chain", []any{table, chain}, fam.Clone())
		if err != nil {
			return nil, err
		}
		if !there && !Truth(a.IgnoreAbsence) {
			return stateSay(ret, false, "Failed to flush chain %s in table %s in family %s, chain does not exist.", chain, table, a.Family)
		}
		have = have && there
	}
	done, _, err := nft(ctx, c, "flush", []any{table, chain, a.Family}, nil)
	if err != nil {
		return nil, err
	}
	if !done && have {
		return stateSay(ret, false, "Failed to flush nftables rules")
	}
	ret.Set("changes", NewMap("locale", a.Name))
	return stateSay(ret, true, "Flush nftables rules in %s table %s chain %s family", table, chain, a.Family)
}

func nftStatePolicy(ctx context.Context, c *Call, a iptablesRuleArgs) (any, error) {
	ret := stateReturn(a.Name, nil, "")
	chain, policy := Str(a.Kwargs.Value("chain")), Str(a.Kwargs.Value("policy"))
	have, err := runString(ctx, c, "nftables.get_policy", a.Table, chain, a.Family)
	if err != nil {
		return nil, err
	}
	if strings.EqualFold(have, policy) {
		return stateSay(ret, true, "nftables default policy for chain %s on table %s for %s already set to %s", chain, a.Table, a.Family, policy)
	}
	if c.Testing() {
		return stateSay(ret, nil, "nftables default policy for chain %s on table %s for %s needs to be set to %s", chain, a.Table, a.Family, policy)
	}
	done, _, err := nft(ctx, c, "set_policy", []any{a.Table, chain, strings.ToLower(policy), a.Family}, nil)
	if err != nil {
		return nil, err
	}
	if !done {
		return stateSay(ret, false, "Failed to set nftables default policy")
	}
	ret.Set("changes", NewMap("locale", a.Name))
	saved, err := nftSave(ctx, c, nftTableArgs{Family: a.Family, Kwargs: a.Kwargs})
	if err != nil {
		return nil, err
	}
	if saved {
		return stateSay(ret, true, "Set and saved default policy for %s to %s family %s", chain, policy, a.Family)
	}
	return stateSay(ret, true, "Set default policy for %s to %s family %s", chain, policy, a.Family)
}
