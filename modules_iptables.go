// Module iptables: rules of the packet filter, through iptables(8).
//
// The law of this room: rules are texts, as users write them; they are split into
// words as a shell splits them, and never go through one.
package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

func netfilterModule() Module {
	return Module{
		Doc: "Manage the rules of iptables. family=ipv6 is for ip6tables.",
		Virtual: func(context.Context, *Call) (bool, string) {
			return which("iptables") != "", "The iptables execution module cannot be loaded: iptables not installed."
		},
		Funcs: Funcs{
			"version":          {run: netfilterVersion, doc: "Return the version of iptables."},
			"build_rule":       {run: netfilterBuild, doc: "Make the text of a rule from arguments: proto, dport, connstate, jump and all options of\niptables; a value may begin with ! or not.\n\nCLI Example:\n\n    salt '*' iptables.build_rule match=state connstate=RELATED,ESTABLISHED jump=ACCEPT"},
			"get_rules":        {run: netfilterGetRules, doc: "Return the rules in force, by table and chain."},
			"get_saved_rules":  {run: netfilterGetSaved, doc: "Return the rules of the file that is loaded at the start."},
			"get_policy":       {run: netfilterGetPolicy, doc: "Return the policy of a chain."},
			"get_saved_policy": {run: netfilterGetSavedPolicy, doc: "Return the policy of a chain in the file."},
			"set_policy":       {run: netfilterSetPolicy, doc: "Set the policy of a chain."},
			"save":             {run: netfilterSave, doc: "Write the rules in force to the file that is loaded at the start."},
			"check":            {run: netfilterCheck, doc: "Say whether there is a rule."},
			"check_chain":      {run: netfilterCheckChain, doc: "Say whether there is a chain."},
			"new_chain":        {run: netfilterChain("-N"), pyname: "new_chain", doc: "Make a chain."},
			"delete_chain":     {run: netfilterChain("-X"), pyname: "delete_chain", doc: "Remove a chain."},
			"append":           {run: netfilterAppend, doc: "Add a rule at the end of a chain, if it is not there."},
			"insert":           {run: netfilterInsert, doc: "Insert a rule at a position."},
			"delete":           {run: netfilterDelete, doc: "Remove a rule, by its position or its text."},
			"flush":            {run: netfilterFlush, doc: "Remove all rules of a chain, or of a table."},
		},
	}
}

func netfilterTool(family string) string {
	name := "iptables"
	if family == "ipv6" {
		name = "ip6tables"
	}
	if path := which(name); path != "" {
		return path
	}
	return name
}

// netfilterFile is where a box keeps its rules.
func netfilterFile(c *Call, family string) string {
	v6 := family == "ipv6"
	pick := func(four, six string) string {
		if v6 {
			return six
		}
		return four
	}
	switch grain(c, "os_family") {
	case "RedHat":
		return pick("/etc/sysconfig/iptables", "/etc/sysconfig/ip6tables")
	case "Arch":
		return pick("/etc/iptables/iptables.rules", "/etc/iptables/ip6tables.rules")
	case "Debian":
		return pick("/etc/iptables/rules.v4", "/etc/iptables/rules.v6")
	case "Gentoo":
		return pick("/var/lib/iptables/rules-save", "/var/lib/ip6tables/rules-save")
	case "Suse":
		return pick("/etc/sysconfig/scripts/SuSEfirewall2-custom", "/etc/sysconfig/scripts/SuSEfirewall2-custom")
	}
	return pick("/etc/iptables/rules-save", "/etc/iptables/rules6-save")
}

type netfilterFamilyArgs struct {
	Family string `def:"'ipv4'"`
}

func netfilterVersion(ctx context.Context, c *Call, a netfilterFamilyArgs) (any, error) {
	text, err := runText(ctx, c, netfilterTool(a.Family), "--version")
	if f := strings.Fields(text); err == nil && len(f) > 1 {
		return f[1], nil
	}
	return "", err
}

type netfilterBuildArgs struct {
	Table    any    `def:"'filter'"`
	Chain    any    `def:"None"`
	Command  any    `def:"None"`
	Position any    `def:"''"`
	Full     any    `def:"None"`
	Family   string `def:"'ipv4'"`
	Kwargs   *Map   `arg:"**kwargs"`
}

// negated takes ! or not off a value.
func negated(v any) (mark, text string) {
	text = Str(v)
	if strings.HasPrefix(text, "!") || strings.HasPrefix(text, "not") {
		return "! ", regexp.MustCompile(`(!|not)\s?`).ReplaceAllString(text, "")
	}
	return "", text
}

// afterJump are the options that belong to the target.
func afterJump() []string {
	return strings.Fields("j jump add-set and-mark and-tos checksum-fill clamp-mss-to-pmtu clustermac ctevents ctmask del-set ecn-tcp-remove exist " +
		"expevents gateway hash-init hashmode helper label local-node log-ip-options log-level log-prefix log-tcp-options log-tcp-sequence log-uid " +
		"mask new nfmask nflog-group nflog-prefix nflog-range nflog-threshold nodst notrack on-ip on-port or-mark or-tos persistent physdev-out " +
		"queue-balance queue-bypass queue-num random rateest-ewmalog rateest-interval rateest-name reject-with restore restore-mark save " +
		"save-mark selctx set-class set-dscp set-dscp-class set-mark set-mss set-tos set-xmark strip-options timeout to to-destination to-ports " +
		"to-source total-nodes tproxy-mark ttl-dec ttl-inc ttl-set type ulog-cprange ulog-nlgroup ulog-prefix ulog-qthreshold xor-mark xor-tos zone")
}

func netfilterBuild(_ context.Context, _ *Call, a netfilterBuildArgs) (any, error) {
	kw := &Map{}
	for k, v := range a.Kwargs.All() {
		switch key := Str(k); {
		case strings.HasPrefix(key, "__"):
		case key == "target":
			kw.Set("jump", v)
		case hasString([]string{"name", "state", "chain", "save", "table", "fun", "order", "env", "saltenv", "require", "watch", "onchanges", "onfail", "prereq", "unless", "onlyif", "reload_modules"}, key):
		default:
			kw.Set(key, v)
		}
	}
	var rule []string
	take := func(key string) (any, bool) {
		v, ok := kw.Get(key)
		kw.Delete(key)
		return v, ok
	}
	simple := func(key, option string) bool {
		v, ok := take(key)
		if ok {
			mark, text := negated(v)
			rule = append(rule, mark+option+" "+text)
		}
		return ok
	}
	simple("if", "-i")
	simple("of", "-o")
	policy := Equal(kw.Value("match"), "policy")
	if v, ok := kw.Get("proto"); ok && !policy {
		kw.Delete("proto")
		kw.Set("protocol", v)
	}
	protocol := simple("protocol", "-p")
	if v, ok := take("match"); ok {
		for _, m := range groupList(v) {
			rule = append(rule, "-m "+m)
			if n, ok := kw.Get("name_"); ok && hasString([]string{"pknock", "quota2", "recent"}, strings.TrimSpace(m)) {
				rule = append(rule, "--name "+Str(n))
				kw.Delete("name_")
			}
		}
		if policy {
			simple("proto", "--proto")
		}
	}
	if v, ok := take("match-set"); ok {
		for _, item := range toItems(v) {
			mark, text := negated(item)
			rule = append(rule, "-m set "+mark+"--match-set "+text)
		}
	}
	if kw.Has("connstate") {
		if !hasString(rule, "-m state") {
			rule = append(rule, "-m state")
		}
		simple("connstate", "--state")
	}
	simple("dport", "--dport")
	simple("sport", "--sport")
	for _, key := range []string{"dports", "sports"} {
		v, ok := take(key)
		if !ok {
			continue
		}
		if !hasString(rule, "-m multiport") {
			rule = append(rule, "-m multiport")
			if !protocol {
				return "Error: protocol must be specified", nil
			}
		}
		var ports []string
		not := false
		for _, item := range toItems(v) {
			mark, text := negated(item)
			not = not || mark != ""
			ports = append(ports, text)
		}
		if not {
			rule = append(rule, "!")
		}
		rule = append(rule, "--"+key+" "+strings.Join(ports, ","))
	}
	if v, ok := take("comment"); ok {
		if !hasString(rule, "-m comment") {
			rule = append(rule, "-m comment")
		}
		rule = append(rule, "--comment \""+Str(v)+"\"")
	}
	if Truth(kw.Value("set")) {
		simple("set", "--match-set")
	}
	var after []string
	for _, key := range afterJump() {
		v, ok := take(key)
		if !ok {
			continue
		}
		switch text := Str(v); {
		case v == nil || v == "":
			after = append(after, "--"+key)
		case strings.ContainsAny(text, " \t\n"):
			after = append(after, "--"+key+" \""+text+"\"")
		default:
			after = append(after, "--"+key+" "+text)
		}
	}
	for k, v := range kw.All() {
		key := Str(k)
		mark, text := negated(v)
		flag := "--"
		if len(key) == 1 {
			flag = "-"
		}
		if v == nil || v == "" {
			rule = append(rule, mark+flag+key)
		} else {
			rule = append(rule, mark+flag+key+" "+text)
		}
	}
	text := strings.Join(append(rule, after...), " ")
	if !Truth(a.Full) {
		return text, nil
	}
	for _, need := range []struct {
		v    any
		name string
	}{{a.Table, "Table"}, {a.Chain, "Chain"}, {a.Command, "Command"}} {
		if !Truth(need.v) {
			return "Error: " + need.name + " needs to be specified", nil
		}
	}
	flag := "--"
	if strings.Contains("ACDIRLSFZNXPE", Str(a.Command)) {
		flag = "-"
	}
	return which(netfilterTool(a.Family)) + " --wait -t " + Str(a.Table) + " " + flag + Str(a.Command) + " " + Str(a.Chain) + " " + Str(a.Position) + " " + text, nil
}

// parseIptables reads what iptables-save writes: tables, chains, policies, rules.
func parseIptables(text string) *Map {
	out := &Map{}
	var table *Map
	for _, line := range pyLines(text, false) {
		switch {
		case strings.HasPrefix(line, "*"):
			table = &Map{}
			out.Set(line[1:], table)
		case strings.HasPrefix(line, ":") && table != nil:
			f := strings.Fields(line[1:])
			if len(f) < 2 {
				continue
			}
			chain := NewMap("policy", f[1], "packet count", "0", "byte count", "0", "rules", &List{}, "rules_comment", &Map{})
			if len(f) > 2 {
				packets, bytes, _ := strings.Cut(strings.Trim(f[2], "[]"), ":")
				chain.Set("packet count", packets)
				chain.Set("byte count", bytes)
			}
			table.Set(f[0], chain)
		case strings.HasPrefix(line, "-A ") && table != nil:
			words, err := splitShell(line)
			if err != nil || len(words) < 2 {
				continue
			}
			chain := table.Map(words[1])
			if chain == nil {
				continue
			}
			rule := strings.TrimPrefix(line, "-A "+words[1]+" ")
			chain.List("rules").Append(rule)
			for i, w := range words {
				if w == "--comment" && i+1 < len(words) {
					chain.Map("rules_comment").Set(words[i+1], rule)
				}
			}
		}
	}
	return out
}

func netfilterInForce(ctx context.Context, c *Call, family string) (*Map, error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, netfilterTool(family)+"-save")
	if err != nil {
		return nil, err
	}
	if r.failed() {
		return nil, ExecErrorf("cannot read the rules: %s", r.stderr)
	}
	return parseIptables(r.stdout), nil
}

func netfilterGetRules(ctx context.Context, c *Call, a netfilterFamilyArgs) (any, error) {
	return netfilterInForce(ctx, c, a.Family)
}

type netfilterConfArgs struct {
	ConfFile any    `def:"None"`
	Family   string `def:"'ipv4'"`
}

func netfilterSaved(c *Call, file any, family string) (*Map, error) {
	path := netfilterFile(c, family)
	if Truth(file) {
		path = Str(file)
	}
	p, err := os.ReadFile(path)
	if err != nil {
		return nil, osError(err)
	}
	return parseIptables(string(p)), nil
}

func netfilterGetSaved(_ context.Context, c *Call, a netfilterConfArgs) (any, error) {
	return netfilterSaved(c, a.ConfFile, a.Family)
}

type netfilterChainArgs struct {
	Table  string `def:"'filter'"`
	Chain  any    `def:"None"`
	Family string `def:"'ipv4'"`
}

const needsChain = "Error: Chain needs to be specified"

func netfilterGetPolicy(ctx context.Context, c *Call, a netfilterChainArgs) (any, error) {
	if !Truth(a.Chain) {
		return needsChain, nil
	}
	all, err := netfilterInForce(ctx, c, a.Family)
	return all.Map(a.Table).Map(a.Chain).Value("policy"), err
}

type netfilterSavedPolicyArgs struct {
	Table    string `def:"'filter'"`
	Chain    any    `def:"None"`
	ConfFile any    `def:"None"`
	Family   string `def:"'ipv4'"`
}

func netfilterGetSavedPolicy(_ context.Context, c *Call, a netfilterSavedPolicyArgs) (any, error) {
	if !Truth(a.Chain) {
		return needsChain, nil
	}
	all, err := netfilterSaved(c, a.ConfFile, a.Family)
	return all.Map(a.Table).Map(a.Chain).Value("policy"), err
}

// netfilterDo runs iptables and returns its complaint, "" if there is none.
func netfilterDo(ctx context.Context, c *Call, family, table string, args ...string) (string, error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, append([]string{netfilterTool(family), "--wait", "-t", table}, args...)...)
	if err != nil {
		return "", err
	}
	if r.failed() && r.stderr == "" {
		return "iptables failed with exit code " + Str(r.retcode), nil
	}
	return r.stderr, nil
}

type netfilterPolicyArgs struct {
	Table  string `def:"'filter'"`
	Chain  any    `def:"None"`
	Policy any    `def:"None"`
	Family string `def:"'ipv4'"`
}

func netfilterSetPolicy(ctx context.Context, c *Call, a netfilterPolicyArgs) (any, error) {
	if !Truth(a.Chain) {
		return needsChain, nil
	}
	if !Truth(a.Policy) {
		return "Error: Policy needs to be specified", nil
	}
	return netfilterDo(ctx, c, a.Family, a.Table, "-P", Str(a.Chain), Str(a.Policy))
}

type netfilterSaveArgs struct {
	Filename any    `def:"None"`
	Family   string `def:"'ipv4'"`
}

func netfilterSave(ctx context.Context, c *Call, a netfilterSaveArgs) (any, error) {
	path := netfilterFile(c, a.Family)
	if Truth(a.Filename) {
		path = Str(a.Filename)
	}
	r, err := runSaltTool(ctx, c, toolOptions{}, netfilterTool(a.Family)+"-save")
	if err != nil {
		return nil, err
	}
	if r.failed() {
		return nil, ExecErrorf("cannot read the rules: %s", r.stderr)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, osError(err)
	}
	if err := replaceSystemFile(path, []byte(r.stdout+"\n"), 0o600); err != nil {
		return nil, osError(err)
	}
	return "Wrote " + Str(int64(len(pyLines(r.stdout, false)))) + " lines to \"" + path + "\"", nil
}

type netfilterRuleArgs struct {
	Table  string `def:"'filter'"`
	Chain  any    `def:"None"`
	Rule   any    `def:"None"`
	Family string `def:"'ipv4'"`
}

// ruleWords splits a rule; "" if it or the chain is missing.
func ruleWords(chain, rule any) ([]string, string, error) {
	if !Truth(chain) {
		return nil, needsChain, nil
	}
	if !Truth(rule) {
		return nil, "Error: Rule needs to be specified", nil
	}
	words, err := splitShell(Str(rule))
	if err != nil {
		return nil, "", InvocationErrorf("%s is no rule: %s", Repr(rule), err)
	}
	return words, "", nil
}

func netfilterHas(ctx context.Context, c *Call, a netfilterRuleArgs, words []string) (bool, error) {
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, append([]string{netfilterTool(a.Family), "--wait", "-t", a.Table, "-C", Str(a.Chain)}, words...)...)
	return err == nil && !r.failed(), err
}

func netfilterCheck(ctx context.Context, c *Call, a netfilterRuleArgs) (any, error) {
	words, problem, err := ruleWords(a.Chain, a.Rule)
	if err != nil || problem != "" {
		return problem, err
	}
	return netfilterHas(ctx, c, a, words)
}

func netfilterCheckChain(ctx context.Context, c *Call, a netfilterChainArgs) (any, error) {
	if !Truth(a.Chain) {
		return needsChain, nil
	}
	all, err := netfilterInForce(ctx, c, a.Family)
	return all.Map(a.Table).Has(a.Chain), err
}

// okOr is True, or the complaint.
func okOr(complaint string, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	if complaint == "" {
		return true, nil
	}
	return complaint, nil
}

func netfilterChain(option string) func(context.Context, *Call, netfilterChainArgs) (any, error) {
	return func(ctx context.Context, c *Call, a netfilterChainArgs) (any, error) {
		if !Truth(a.Chain) {
			return needsChain, nil
		}
		return okOr(netfilterDo(ctx, c, a.Family, a.Table, option, Str(a.Chain)))
	}
}

func netfilterAppend(ctx context.Context, c *Call, a netfilterRuleArgs) (any, error) {
	words, problem, err := ruleWords(a.Chain, a.Rule)
	if err != nil || problem != "" {
		return problem, err
	}
	if there, err := netfilterHas(ctx, c, a, words); err != nil || there {
		return false, err
	}
	text, err := netfilterDo(ctx, c, a.Family, a.Table, append([]string{"-A", Str(a.Chain)}, words...)...)
	return text == "", err
}

type netfilterInsertArgs struct {
	Table    string `def:"'filter'"`
	Chain    any    `def:"None"`
	Position any    `def:"None"`
	Rule     any    `def:"None"`
	Family   string `def:"'ipv4'"`
}

func netfilterInsert(ctx context.Context, c *Call, a netfilterInsertArgs) (any, error) {
	if !Truth(a.Chain) {
		return needsChain, nil
	}
	if !Truth(a.Position) {
		return "Error: Position needs to be specified or use append (-A)", nil
	}
	words, problem, err := ruleWords(a.Chain, a.Rule)
	if err != nil || problem != "" {
		return problem, err
	}
	if there, err := netfilterHas(ctx, c, netfilterRuleArgs{a.Table, a.Chain, a.Rule, a.Family}, words); err != nil || there {
		return there, err
	}
	return netfilterDo(ctx, c, a.Family, a.Table, append([]string{"-I", Str(a.Chain), Str(a.Position)}, words...)...)
}

type netfilterDeleteArgs struct {
	Table    string
	Chain    any    `def:"None"`
	Position any    `def:"None"`
	Rule     any    `def:"None"`
	Family   string `def:"'ipv4'"`
}

func netfilterDelete(ctx context.Context, c *Call, a netfilterDeleteArgs) (any, error) {
	if Truth(a.Position) && Truth(a.Rule) {
		return "Error: Only specify a position or a rule, not both", nil
	}
	if Truth(a.Position) {
		return netfilterDo(ctx, c, a.Family, a.Table, "-D", Str(a.Chain), Str(a.Position))
	}
	words, problem, err := ruleWords(a.Chain, a.Rule)
	if err != nil || problem != "" {
		return problem, err
	}
	return netfilterDo(ctx, c, a.Family, a.Table, append([]string{"-D", Str(a.Chain)}, words...)...)
}

type netfilterFlushArgs struct {
	Table  string `def:"'filter'"`
	Chain  string `def:"''"`
	Family string `def:"'ipv4'"`
}

func netfilterFlush(ctx context.Context, c *Call, a netfilterFlushArgs) (any, error) {
	args := []string{"-F"}
	if a.Chain != "" {
		args = append(args, a.Chain)
	}
	return netfilterDo(ctx, c, a.Family, a.Table, args...)
}
