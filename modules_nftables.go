// Module nftables: tables, chains and rules of the packet filter, through nft(8).
//
// The law of this room: a rule is a text in nft's own words; it is handed over as
// one argument and never goes through a shell. What is looked for is looked for in
// nft's listing, where a set of one element may have lost its braces.
package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

func nftablesModule() Module {
	return Module{
		Doc: "Manage the rules of nftables. family is ipv4, ipv6, inet, arp, bridge or netdev.",
		Virtual: func(context.Context, *Call) (bool, string) {
			return which("nft") != "", "The nftables execution module failed to load: nftables is not installed."
		},
		Funcs: Funcs{
			"version":         {run: nftVersion, doc: "Return the version of nft."},
			"build_rule":      {run: nftBuild, doc: "Make the text of a rule from arguments: if, of, proto, connstate, icmp-type, pkttype, counter,\nsource, destination, dport, sport, dports, sports, jump and what follows it. With full=True\nthe whole command, which needs table, chain and command.\n\nCLI Example:\n\n    salt '*' nftables.build_rule filter input command=insert position=3 full=True proto=tcp dport=22 jump=accept"},
			"get_saved_rules": {run: nftGetSaved, doc: "Return the lines of the saved rules that are no comments."},
			"list_tables":     {run: nftListTables, doc: "List the tables in force, with their names and handles."},
			"get_rules":       {run: nftGetRules, doc: "Return the rules in force, one text for each table."},
			"get_rules_json":  {run: nftGetRulesJSON, doc: "Return the rules in force as data."},
			"save":            {run: nftSaveRules, doc: "Write the rules in force of all families to a file; in a directory to salt-all-in-one.nft."},
			"get_rule_handle": {run: nftGetHandle, doc: "Return the handle of a rule.\n\nCLI Example:\n\n    salt '*' nftables.get_rule_handle filter input rule='tcp dport 22 accept'"},
			"check":           {run: nftCheck, doc: "Say whether there is a rule."},
			"check_chain":     {run: nftCheckChain, doc: "Say whether there is a chain."},
			"check_table":     {run: nftCheckTable, doc: "Say whether there is a table."},
			"new_table":       {run: nftNewTable, doc: "Make a table."},
			"delete_table":    {run: nftDeleteTable, doc: "Remove a table."},
			"new_chain":       {run: nftNewChain, doc: "Make a chain; a base chain with table_type, hook and priority.\n\nCLI Example:\n\n    salt '*' nftables.new_chain filter input table_type=filter hook=input priority=0"},
			"delete_chain":    {run: nftDeleteChain, doc: "Remove a chain."},
			"append":          {run: nftAppend, doc: "Add a rule at the end of a chain, if it is not there."},
			"insert":          {run: nftInsert, doc: "Insert a rule at the start of a chain, or at a position, if it is not there."},
			"delete":          {run: nftDelete, doc: "Remove a rule, by its handle (position) or its text."},
			"flush":           {run: nftFlush, doc: "Remove all rules of a chain, or of a table."},
			"get_policy":      {run: nftGetPolicy, doc: "Return the policy of a base chain."},
			"set_policy":      {run: nftSetPolicy, doc: "Set the policy of a base chain.\n\nCLI Example:\n\n    salt '*' nftables.set_policy filter input accept"},
		},
	}
}

// nftFamilies are nft's names of families, by Salt's.
func nftFamilies() map[string]string {
	return map[string]string{"ipv4": "ip", "ip4": "ip", "ip": "ip", "ipv6": "ip6", "ip6": "ip6", "inet": "inet", "arp": "arp", "bridge": "bridge", "netdev": "netdev"}
}

func nftFamily(family string) (string, error) {
	if name, ok := nftFamilies()[family]; ok {
		return name, nil
	}
	return "", OtherErrorf("KeyError", "%s", Repr(family))
}

// nftFile is where a box keeps its rules.
func nftFile(c *Call) string {
	if hasString([]string{"RedHat", "Arch", "Debian"}, grain(c, "os_family")) || grain(c, "os") == "Gentoo" {
		return "/etc/nftables"
	}
	return ""
}

// nftData lists with nft --json: the objects, without the one about nft itself.
func nftData(ctx context.Context, c *Call, args ...string) ([]*Map, error) {
	text, err := runText(ctx, c, append([]string{"nft", "--json", "--numeric", "--numeric", "--numeric"}, args...)...)
	if err != nil {
		return nil, err
	}
	v, err := DecodeJSON([]byte(text))
	m, ok := v.(*Map)
	if err != nil || !ok {
		return nil, nil
	}
	var out []*Map
	for _, item := range toItems(m.Value("nftables")) {
		if one, ok := item.(*Map); ok && !one.Has("metainfo") {
			out = append(out, one)
		}
	}
	return out, nil
}

func nftVersion(ctx context.Context, c *Call, _ noArgs) (any, error) {
	text, err := runText(ctx, c, "nft", "--version")
	if f := strings.Fields(text); err == nil && len(f) > 1 {
		return f[1], nil
	}
	return "", err
}

type nftFamilyArgs struct {
	Family string `def:"'ipv4'"`
}

func nftListTables(ctx context.Context, c *Call, a nftFamilyArgs) (any, error) {
	family, err := nftFamily(a.Family)
	if err != nil {
		return nil, err
	}
	items, err := nftData(ctx, c, "list", "tables", family)
	tables := &List{}
	for _, m := range items {
		tables.Append(m.Value("table"))
	}
	return tables, err
}

func nftGetRules(ctx context.Context, c *Call, a nftFamilyArgs) (any, error) {
	tables, err := nftListTables(ctx, c, a)
	if err != nil {
		return nil, err
	}
	family, rules := nftFamilies()[a.Family], &List{}
	for _, t := range toItems(tables) {
		m, _ := t.(*Map)
		text, err := runText(ctx, c, "nft", "--numeric", "--numeric", "--numeric", "list", "table", family, m.Str("name"))
		if err != nil {
			return nil, err
		}
		rules.Append(text)
	}
	return rules, nil
}

func nftGetRulesJSON(ctx context.Context, c *Call, a nftFamilyArgs) (any, error) {
	family, err := nftFamily(a.Family)
	if err != nil {
		return nil, err
	}
	text, err := runText(ctx, c, "nft", "--numeric", "--numeric", "--numeric", "--json", "list", "ruleset", family)
	if err != nil {
		return nil, err
	}
	v, err := DecodeJSON([]byte(text))
	m, ok := v.(*Map)
	if err != nil || !ok || !m.Has("nftables") {
		return &List{}, nil
	}
	return m.Value("nftables"), nil
}

func nftGetSaved(_ context.Context, c *Call, a struct {
	ConfFile any `def:"None"`
}) (any, error) {
	path := nftFile(c)
	if Truth(a.ConfFile) {
		path = Str(a.ConfFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, pyOSError(err)
	}
	rules := &List{}
	for _, line := range pyLines(string(text), true) {
		if s := strings.TrimSpace(line); s != "" && !strings.HasPrefix(s, "#") {
			rules.Append(line)
		}
	}
	return rules, nil
}

func nftSaveRules(ctx context.Context, c *Call, a struct {
	Filename any    `def:"None"`
	Family   string `def:"'ipv4'"`
}) (any, error) {
	path := nftFile(c)
	if Truth(a.Filename) {
		path = Str(a.Filename)
	}
	var b strings.Builder
	b.WriteString("#! nft -f\n")
	for _, family := range []string{"ip", "ip6", "inet", "arp", "bridge", "netdev"} {
		rules, err := nftGetRules(ctx, c, nftFamilyArgs{Family: family})
		if err != nil {
			return nil, err
		}
		if tables := namesOf(toItems(rules)); len(tables) > 0 {
			b.WriteString("\n" + strings.Join(tables, "\n"))
		}
	}
	b.WriteString("\n")
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		path = filepath.Join(path, "salt-all-in-one.nft")
	}
	if err := replaceText(path, b.String(), 0o644); err != nil {
		return nil, ExecErrorf("Problem writing to configuration file: %s", err)
	}
	return b.String(), nil
}

type nftBuildArgs struct {
	Table    any    `def:"None"`
	Chain    any    `def:"None"`
	Command  any    `def:"None"`
	Position any    `def:"''"`
	Full     any    `def:"None"`
	Family   string `def:"'ipv4'"`
	Kwargs   *Map   `arg:"**kwargs"`
}

func nftBuild(_ context.Context, _ *Call, a nftBuildArgs) (any, error) {
	family, err := nftFamily(a.Family)
	if err != nil {
		return nil, err
	}
	rule := nftRuleText(family, a.Kwargs)
	say := func(rule, comment string, ok bool) (any, error) {
		return NewMap("comment", comment, "rule", rule, "result", ok), nil
	}
	if Truth(a.Full) {
		for _, need := range []struct {
			v    any
			name string
		}{{a.Table, "Table"}, {a.Chain, "Chain"}, {a.Command, "Command"}} {
			if !Truth(need.v) {
				return say(rule, need.name+" needs to be specified", false)
			}
		}
		command := Str(a.Command)
		insert := strings.EqualFold(command, "insert")
		if insert {
			command = "insert"
		}
		words := []string{"nft", command, "rule", family, Str(a.Table), Str(a.Chain)}
		if insert && Truth(a.Position) {
			words = append(words, "position", Str(a.Position))
		}
		rule = strings.Join(append(words, rule), " ")
	}
	if rule == "" {
		return say(rule, "", true)
	}
	return say(rule, "Successfully built rule", true)
}

// nftRuleText makes the text of a rule.
func nftRuleText(family string, kw *Map) string {
	var words []string
	first := func(keys ...string) string {
		for _, k := range keys {
			if Truth(kw.Value(k)) {
				return Str(kw.Value(k))
			}
		}
		return ""
	}
	add := func(format string, keys ...string) {
		for _, k := range keys {
			if kw.Has(k) {
				words = append(words, strings.ReplaceAll(format, "%", first(keys...)))
				return
			}
		}
	}
	proto := first("proto")
	ports := func(key string) {
		if v, ok := kw.Get(key); ok {
			words = append(words, proto+" "+key+" { "+strings.ReplaceAll(Str(v), ":", "-")+" }")
		}
		if v, ok := kw.Get(key + "s"); ok {
			words = append(words, proto+" "+key+" { "+portsDown(v)+" }")
		}
	}
	add("meta iifname %", "if")
	add("meta oifname %", "of")
	add("ct state { % }", "connstate")
	add("icmp type { % }", "icmp-type")
	add("meta pkttype { % }", "pkttype")
	add("counter", "counter")
	add(family+" saddr %", "saddr", "source")
	add(family+" daddr %", "daddr", "destination")
	ports("dport")
	ports("sport")
	add("%", "target", "jump")
	add("%", "j")
	add("redirect to %", "redirect-to", "to-port")
	add("--to-ports %", "to-ports")
	add("%", "to-source")
	add("%", "to-destination")
	add("reject with %", "reject-with")
	return strings.TrimSpace(strings.Join(words, " "))
}

// portsDown lists ports from the highest on, which is how nft shows them.
func portsDown(v any) string {
	var ports []int
	for _, s := range toStrings(v) {
		if n, err := strconv.Atoi(strings.TrimSpace(s)); err == nil {
			ports = append(ports, n)
		}
	}
	sort.Sort(sort.Reverse(sort.IntSlice(ports)))
	var words []string
	for _, n := range ports {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ", ")
}

func nftAnswer(ok bool, words ...string) *Map {
	return NewMap("comment", strings.Join(words, ""), "result", ok)
}

type nftOneTableArgs struct {
	Table  any
	Family string `def:"'ipv4'"`
}

func nftCheckTable(ctx context.Context, c *Call, a struct {
	Table  any    `def:"None"`
	Family string `def:"'ipv4'"`
}) (any, error) {
	return nftHasTable(ctx, c, a.Table, a.Family)
}

func nftHasTable(ctx context.Context, c *Call, table any, family string) (*Map, error) {
	if !Truth(table) {
		return nftAnswer(false, "Table needs to be specified"), nil
	}
	name, err := nftFamily(family)
	if err != nil {
		return nil, err
	}
	text, err := runText(ctx, c, "nft", "list", "tables", name)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(text+"\n", "table "+name+" "+Str(table)+"\n") {
		return nftAnswer(false, "Table ", Str(table), " in family ", family, " does not exist"), nil
	}
	return nftAnswer(true, "Table ", Str(table), " in family ", family, " exists"), nil
}

// nftChange runs a command that is silent when it works.
func nftChange(ctx context.Context, c *Call, done, failed string, args ...string) (*Map, error) {
	text, err := runText(ctx, c, append([]string{"nft", "--"}, args...)...)
	if err != nil {
		return nil, err
	}
	if text != "" {
		return nftAnswer(false, failed), nil
	}
	return nftAnswer(true, done), nil
}

func nftNewTable(ctx context.Context, c *Call, a nftOneTableArgs) (any, error) {
	if have, err := nftHasTable(ctx, c, a.Table, a.Family); err != nil || !Truth(a.Table) || Truth(have.Value("result")) {
		return have, err
	}
	where := "Table " + Str(a.Table) + " in family " + a.Family
	return nftChange(ctx, c, where+" created", where+" could not be created", "add", "table", nftFamilies()[a.Family], Str(a.Table))
}

func nftDeleteTable(ctx context.Context, c *Call, a nftOneTableArgs) (any, error) {
	if have, err := nftHasTable(ctx, c, a.Table, a.Family); err != nil || !Truth(have.Value("result")) {
		return have, err
	}
	where := "Table " + Str(a.Table) + " in family " + a.Family
	return nftChange(ctx, c, where+" deleted", where+" could not be deleted", "delete", "table", nftFamilies()[a.Family], Str(a.Table))
}

// nftChainArgs name a chain of a table.
type nftChainArgs struct {
	Table  any    `def:"'filter'"`
	Chain  any    `def:"None"`
	Family string `def:"'ipv4'"`
}

// where is the place as answers name it.
func (a nftChainArgs) where() string {
	return "in table " + Str(a.Table) + " in family " + a.Family
}

// missing is the answer if the chain is not named, or its table is not there;
// with chain also if the chain is not there. nil: all is there.
func (a nftChainArgs) missing(ctx context.Context, c *Call, chain bool) (*Map, error) {
	if !Truth(a.Chain) {
		return nftAnswer(false, "Chain needs to be specified"), nil
	}
	have, err := nftHasTable(ctx, c, a.Table, a.Family)
	if err == nil && chain && Truth(have.Value("result")) {
		have, err = a.check(ctx, c)
	}
	if err != nil || !Truth(have.Value("result")) {
		return have, err
	}
	return nil, nil
}

func (a nftChainArgs) check(ctx context.Context, c *Call) (*Map, error) {
	if !Truth(a.Chain) {
		return nftAnswer(false, "Chain needs to be specified"), nil
	}
	family, err := nftFamily(a.Family)
	if err != nil {
		return nil, err
	}
	text, err := runText(ctx, c, "nft", "list", "table", family, Str(a.Table))
	if err != nil {
		return nil, err
	}
	if !strings.Contains(text, "chain "+Str(a.Chain)+" {") {
		return nftAnswer(false, "Chain ", Str(a.Chain), " ", a.where(), " does not exist"), nil
	}
	return nftAnswer(true, "Chain ", Str(a.Chain), " ", a.where(), " exists"), nil
}

func nftCheckChain(ctx context.Context, c *Call, a nftChainArgs) (any, error) { return a.check(ctx, c) }

func nftNewChain(ctx context.Context, c *Call, a struct {
	Table     any    `def:"'filter'"`
	Chain     any    `def:"None"`
	TableType any    `def:"None"`
	Hook      any    `def:"None"`
	Priority  any    `def:"None"`
	Family    string `def:"'ipv4'"`
}) (any, error) {
	at := nftChainArgs{a.Table, a.Chain, a.Family}
	if bad, err := at.missing(ctx, c, false); bad != nil || err != nil {
		return bad, err
	}
	have, err := at.check(ctx, c)
	if err != nil {
		return nil, err
	}
	what := "Chain " + Str(a.Chain) + " " + at.where()
	if Truth(have.Value("result")) {
		return nftAnswer(false, what, " already exists"), nil
	}
	args := []string{"add", "chain", nftFamilies()[a.Family], Str(a.Table), Str(a.Chain)}
	if Truth(a.TableType) || Truth(a.Hook) || Truth(a.Priority) {
		if !Truth(a.TableType) || !Truth(a.Hook) || a.Priority == nil {
			return nftAnswer(false, "Table_type, hook, and priority required."), nil
		}
		args = append(args, "{ type "+Str(a.TableType)+" hook "+Str(a.Hook)+" priority "+Str(a.Priority)+"; }")
	}
	return nftChange(ctx, c, what+" created", what+" could not be created", args...)
}

func nftDeleteChain(ctx context.Context, c *Call, a nftChainArgs) (any, error) {
	if bad, err := a.missing(ctx, c, true); bad != nil || err != nil {
		return bad, err
	}
	what := "Chain " + Str(a.Chain) + " " + a.where()
	return nftChange(ctx, c, what+" deleted", what+" could not be deleted", "delete", "chain", nftFamilies()[a.Family], Str(a.Table), Str(a.Chain))
}

// nftRuleArgs name a rule of a chain.
type nftRuleArgs struct {
	Table  any    `def:"'filter'"`
	Chain  any    `def:"None"`
	Rule   any    `def:"None"`
	Family string `def:"'ipv4'"`
}

func (a nftRuleArgs) chain() nftChainArgs { return nftChainArgs{a.Table, a.Chain, a.Family} }

// find is the handle of the rule, "" if it is not there. bad is the answer when
// it cannot be looked for.
func (a nftRuleArgs) find(ctx context.Context, c *Call) (handle string, bad *Map, err error) {
	if Truth(a.Chain) && !Truth(a.Rule) {
		return "", nftAnswer(false, "Rule needs to be specified"), nil
	}
	if bad, err := a.chain().missing(ctx, c, true); bad != nil || err != nil {
		return "", bad, err
	}
	text, err := runText(ctx, c, "nft", "--numeric", "--numeric", "--numeric", "--handle", "list", "chain", nftFamilies()[a.Family], Str(a.Table), Str(a.Chain))
	if err != nil {
		return "", nil, err
	}
	return nftHandle(text, Str(a.Rule)), nil, nil
}

// nftHandle finds a rule in a listing with handles.
func nftHandle(listing, rule string) string {
	loose := func(s string) string {
		return strings.Join(strings.Fields(strings.NewReplacer("{", " ", "}", " ", ",", " ", `"`, "").Replace(s)), " ")
	}
	counted := regexp.MustCompile(`\bcounter packets \d+ bytes \d+`)
	for _, line := range strings.Split(listing, "\n") {
		text, handle, ok := strings.Cut(line, " # handle ")
		if !ok || strings.HasSuffix(text, "{") {
			continue
		}
		if loose(text) == loose(rule) || loose(counted.ReplaceAllString(text, "counter")) == loose(rule) {
			return strings.TrimSpace(handle)
		}
	}
	return ""
}

func nftCheck(ctx context.Context, c *Call, a nftRuleArgs) (any, error) {
	handle, bad, err := a.find(ctx, c)
	if bad != nil || err != nil {
		return bad, err
	}
	what := "Rule " + Str(a.Rule) + " in chain " + Str(a.Chain) + " " + a.chain().where()
	if handle == "" {
		return nftAnswer(false, what, " does not exist"), nil
	}
	return nftAnswer(true, what, " exists"), nil
}

func nftGetHandle(ctx context.Context, c *Call, a nftRuleArgs) (any, error) {
	handle, bad, err := a.find(ctx, c)
	if bad != nil || err != nil {
		return bad, err
	}
	if handle == "" {
		return nftAnswer(false, "Rule ", Str(a.Rule), " in chain ", Str(a.Chain), " ", a.chain().where(), " does not exist"), nil
	}
	return NewMap("result", true, "handle", handle), nil
}

// nftAdd puts a rule in if it is not there.
func nftAdd(ctx context.Context, c *Call, a nftRuleArgs, words ...string) (any, error) {
	handle, bad, err := a.find(ctx, c)
	if bad != nil || err != nil {
		return bad, err
	}
	if handle != "" {
		return nftAnswer(false, "Rule ", Str(a.Rule), " chain ", Str(a.Chain), " ", a.chain().where(), " already exists"), nil
	}
	what := `rule "` + Str(a.Rule) + `" chain ` + Str(a.Chain) + " " + a.chain().where() + "."
	args := append([]string{words[0], "rule", nftFamilies()[a.Family], Str(a.Table), Str(a.Chain)}, words[1:]...)
	return nftChange(ctx, c, "Added "+what, "Failed to add "+what, append(args, Str(a.Rule))...)
}

func nftAppend(ctx context.Context, c *Call, a nftRuleArgs) (any, error) {
	return nftAdd(ctx, c, a, "add")
}

type nftPlaceArgs struct {
	Table    any    `def:"'filter'"`
	Chain    any    `def:"None"`
	Position any    `def:"None"`
	Rule     any    `def:"None"`
	Family   string `def:"'ipv4'"`
}

func (a nftPlaceArgs) rule() nftRuleArgs { return nftRuleArgs{a.Table, a.Chain, a.Rule, a.Family} }

func nftInsert(ctx context.Context, c *Call, a nftPlaceArgs) (any, error) {
	if Truth(a.Position) {
		return nftAdd(ctx, c, a.rule(), "insert", "position", Str(a.Position))
	}
	return nftAdd(ctx, c, a.rule(), "insert")
}

func nftDelete(ctx context.Context, c *Call, a struct {
	Table    any
	Chain    any    `def:"None"`
	Position any    `def:"None"`
	Rule     any    `def:"None"`
	Family   string `def:"'ipv4'"`
}) (any, error) {
	if Truth(a.Position) && Truth(a.Rule) {
		return nftAnswer(false, "Only specify a position or a rule, not both"), nil
	}
	at := nftRuleArgs{a.Table, a.Chain, a.Rule, a.Family}
	handle := ""
	if Truth(a.Position) {
		if bad, err := at.chain().missing(ctx, c, true); bad != nil || err != nil {
			return bad, err
		}
		handle = Str(a.Position)
	} else {
		found, bad, err := at.find(ctx, c)
		if bad != nil || err != nil {
			return bad, err
		}
		if found == "" {
			return nftAnswer(false, "Rule ", Str(a.Rule), " chain ", Str(a.Chain), " ", at.chain().where(), " does not exist"), nil
		}
		handle = found
	}
	what := `rule "` + Str(a.Rule) + `" in chain ` + Str(a.Chain)
	return nftChange(ctx, c, "Deleted "+what+" "+at.chain().where()+".", "Failed to delete "+what+"  table "+Str(a.Table)+" in family "+a.Family,
		"delete", "rule", nftFamilies()[a.Family], Str(a.Table), Str(a.Chain), "handle", handle)
}

func nftFlush(ctx context.Context, c *Call, a struct {
	Table  any    `def:"'filter'"`
	Chain  any    `def:"''"`
	Family string `def:"'ipv4'"`
}) (any, error) {
	at := nftChainArgs{a.Table, a.Chain, a.Family}
	args := []string{"flush", "table", nftFamilies()[a.Family], Str(a.Table)}
	from := "rules from table " + Str(a.Table) + " in family " + a.Family + "."
	if Truth(a.Chain) {
		if bad, err := at.missing(ctx, c, true); bad != nil || err != nil {
			return bad, err
		}
		args[1] = "chain"
		args = append(args, Str(a.Chain))
		from = "rules from chain " + Str(a.Chain) + " " + at.where() + "."
	} else if have, err := nftHasTable(ctx, c, a.Table, a.Family); err != nil || !Truth(have.Value("result")) {
		return have, err
	}
	return nftChange(ctx, c, "Flushed "+from, "Failed to flush "+from, args...)
}

// nftBaseChain is what nft says about a chain, nil if it is not there.
func nftBaseChain(ctx context.Context, c *Call, a nftChainArgs) (*Map, error) {
	family, err := nftFamily(a.Family)
	if err != nil {
		return nil, err
	}
	items, err := nftData(ctx, c, "list", "ruleset", family)
	for _, m := range items {
		if ch := m.Map("chain"); ch != nil && ch.Str("table") == Str(a.Table) && ch.Str("name") == Str(a.Chain) {
			return ch, err
		}
	}
	return nil, err
}

func nftGetPolicy(ctx context.Context, c *Call, a nftChainArgs) (any, error) {
	if !Truth(a.Chain) {
		return "Error: Chain needs to be specified", nil
	}
	chain, err := nftBaseChain(ctx, c, a)
	return chain.Value("policy"), err
}

func nftSetPolicy(ctx context.Context, c *Call, a struct {
	Table  any    `def:"'filter'"`
	Chain  any    `def:"None"`
	Policy any    `def:"None"`
	Family string `def:"'ipv4'"`
}) (any, error) {
	if !Truth(a.Chain) {
		return "Error: Chain needs to be specified", nil
	}
	if !Truth(a.Policy) {
		return "Error: Policy needs to be specified", nil
	}
	chain, err := nftBaseChain(ctx, c, nftChainArgs{a.Table, a.Chain, a.Family})
	if err != nil || !chain.Has("type") || !chain.Has("hook") || !chain.Has("prio") {
		return false, err
	}
	return runOK(ctx, c, "nft", "--", "add", "chain", nftFamilies()[a.Family], Str(a.Table), Str(a.Chain),
		"{ type "+chain.Str("type")+" hook "+chain.Str("hook")+" priority "+Str(chain.Value("prio"))+"; policy "+Str(a.Policy)+"; }")
}
