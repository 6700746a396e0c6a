// Modules hosts, aliases and alternatives: small files of the system's
// configuration, changed line by line.
package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

func hostsModule() Module {
	return Module{
		Doc: "Manage /etc/hosts.",
		Funcs: Funcs{
			"list_hosts":  {run: hostsList, doc: "Return all addresses with their names."},
			"get_ip":      {run: hostsGetIP, doc: "Return the address of a name."},
			"get_alias":   {run: hostsGetAlias, doc: "List the names of an address."},
			"has_pair":    {run: hostsHasPair, doc: "Say whether an address has a name, or all of a list."},
			"set_host":    {run: hostsSet, doc: "Give an address a name in place of those it has. An empty name removes the address.\n\nCLI Example:\n\n    salt '*' hosts.set_host <ip> <alias>"},
			"rm_host":     {run: hostsRm, doc: "Take a name from an address."},
			"add_host":    {run: hostsAdd, doc: "Give an address one more name."},
			"set_comment": {run: hostsSetComment, doc: "Set the comment of an address."},
		},
	}
}

func optionText(c *Call, name, def string) string {
	if v, ok := configLookup(c, name); ok && v != nil {
		return Str(v)
	}
	return def
}

func hostsPath(c *Call) string { return optionText(c, "hosts.file", "/etc/hosts") }

// readHosts maps addresses to {aliases, comment}, and comment-N to lines.
func readHosts(c *Call) (*Map, error) {
	out := &Map{}
	lines, err := fileLines(hostsPath(c))
	if os.IsNotExist(err) {
		return out, nil
	}
	if err != nil {
		return nil, osError(err)
	}
	count := 0
	for _, line := range lines {
		line = pyStrip(line)
		if line == "" {
			continue
		}
		if strings.HasPrefix(line, "#") {
			out.Set("comment-"+Str(int64(count)), NewList(line))
			count++
			continue
		}
		comment := ""
		if before, after, ok := strings.Cut(line, "#"); ok {
			comment, line = strings.TrimLeftFunc(after, pySpace), pyStrip(before)
		}
		f := pyFields(line)
		if len(f) == 0 {
			continue
		}
		host := out.Map(f[0])
		if host == nil {
			host = NewMap("aliases", &List{})
			out.Set(f[0], host)
		}
		names := host.List("aliases")
		for _, n := range f[1:] {
			names.Append(n)
		}
		if comment != "" {
			host.Set("comment", comment)
		}
	}
	return out, nil
}

func writeHosts(c *Call, hosts *Map) error {
	var b strings.Builder
	for ip, v := range hosts.All() {
		switch v := v.(type) {
		case *List:
			for _, line := range v.Items {
				b.WriteString(Str(line) + "\n")
			}
		case *Map:
			line := Str(ip) + "\t\t" + strings.Join(namesOf(toItems(v.Value("aliases"))), " ")
			if comment := v.Value("comment"); comment != nil {
				line += "\t\t# " + Str(comment)
			}
			b.WriteString(strings.TrimSpace(line) + "\n")
		}
	}
	if err := replaceSystemFile(hostsPath(c), []byte(b.String()), 0o644); err != nil {
		return osError(err)
	}
	return nil
}

func hostsList(_ context.Context, c *Call, _ noArgs) (any, error) { return readHosts(c) }

type hostsHostArgs struct{ Host any }

func hostsGetIP(_ context.Context, c *Call, a hostsHostArgs) (any, error) {
	hosts, err := readHosts(c)
	if err != nil {
		return nil, err
	}
	for ip, v := range hosts.All() {
		if m, ok := v.(*Map); ok && containsItem(toItems(m.Value("aliases")), a.Host) {
			return ip, nil
		}
	}
	return "", nil
}

type hostsIPArgs struct{ IP any }

func hostsGetAlias(_ context.Context, c *Call, a hostsIPArgs) (any, error) {
	hosts, err := readHosts(c)
	if err != nil {
		return nil, err
	}
	if m := hosts.Map(a.IP); m != nil {
		return m.Value("aliases"), nil
	}
	return &List{}, nil
}

type hostsPairArgs struct{ IP, Alias any }

func hostsPair(c *Call, ip, alias any) (bool, error) {
	hosts, err := readHosts(c)
	if err != nil {
		return false, err
	}
	m := hosts.Map(ip)
	if m == nil {
		return false, nil
	}
	for _, name := range toItems(alias) {
		if !containsItem(toItems(m.Value("aliases")), name) {
			return false, nil
		}
	}
	return true, nil
}

func hostsHasPair(_ context.Context, c *Call, a hostsPairArgs) (any, error) {
	return hostsPair(c, a.IP, a.Alias)
}

type hostsSetArgs struct {
	IP      string
	Alias   any
	Comment any `def:"None"`
}

// hostsFileLines reads the file's lines with their ends, making it if need be. ok is
// false if it is no file.
func hostsFileLines(c *Call) ([]string, bool, error) {
	path := hostsPath(c)
	p, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			return nil, false, osError(err)
		}
		return nil, true, nil
	}
	if err != nil {
		return nil, false, nil
	}
	return pyLines(string(p), true), true, nil
}

func hostsSet(_ context.Context, c *Call, a hostsSetArgs) (any, error) {
	lines, ok, err := hostsFileLines(c)
	if err != nil || !ok {
		return false, err
	}
	alias := strings.Join(namesOf(toItems(a.Alias)), " ")
	line := a.IP + "\t\t" + alias + "\n"
	if Truth(a.Comment) {
		line = a.IP + "\t\t" + alias + "\t\t# " + Str(a.Comment) + "\n"
	}
	if strings.TrimSpace(alias) == "" {
		line = ""
	}
	done := false
	for i, have := range lines {
		f := pyFields(have)
		if len(f) == 0 || strings.HasPrefix(f[0], "#") || f[0] != a.IP {
			continue
		}
		if lines[i] = ""; !done {
			lines[i], done = line, true
		}
	}
	if !done {
		if n := len(lines); n > 0 && !strings.HasSuffix(lines[n-1], "\n") {
			lines[n-1] += "\n"
		}
		lines = append(lines, line)
	}
	if err := replaceSystemFile(hostsPath(c), []byte(strings.Join(lines, "")), 0o644); err != nil {
		return nil, osError(err)
	}
	return true, nil
}

type hostsRmArgs struct{ IP, Alias string }

func hostsRm(_ context.Context, c *Call, a hostsRmArgs) (any, error) {
	if there, err := hostsPair(c, a.IP, a.Alias); err != nil || !there {
		return true, err
	}
	lines, _, err := hostsFileLines(c)
	if err != nil {
		return nil, err
	}
	for i, have := range lines {
		text := pyStrip(have)
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		info, comment, _ := strings.Cut(text, "#")
		f := pyFields(info)
		if len(f) == 0 || f[0] != a.IP {
			continue
		}
		names := without(f[1:], a.Alias)
		line := f[0] + "\t\t"
		for _, n := range names {
			line += n + " "
		}
		switch comment = strings.TrimLeftFunc(comment, pySpace); {
		case len(names) == 0:
			line = ""
		case comment != "":
			line += "# " + comment + "\n"
		default:
			line += "\n"
		}
		lines[i] = line
	}
	if err := replaceSystemFile(hostsPath(c), []byte(strings.Join(lines, "")), 0o644); err != nil {
		return nil, osError(err)
	}
	return true, nil
}

func hostsAdd(_ context.Context, c *Call, a hostsPairArgs) (any, error) {
	if _, ok, err := hostsFileLines(c); err != nil || !ok {
		return false, err
	}
	if there, err := hostsPair(c, a.IP, a.Alias); err != nil || there {
		return true, err
	}
	hosts, err := readHosts(c)
	if err != nil {
		return nil, err
	}
	host := hosts.Map(a.IP)
	if host == nil {
		host = NewMap("aliases", &List{})
		hosts.Set(a.IP, host)
	}
	host.List("aliases").Append(toItems(a.Alias)...)
	return true, writeHosts(c, hosts)
}

type hostsCommentArgs struct{ IP, Comment any }

func hostsSetComment(_ context.Context, c *Call, a hostsCommentArgs) (any, error) {
	if _, ok, err := hostsFileLines(c); err != nil || !ok {
		return false, err
	}
	hosts, err := readHosts(c)
	if err != nil {
		return nil, err
	}
	host := hosts.Map(a.IP)
	if host == nil {
		return false, nil
	}
	if Equal(host.Value("comment"), a.Comment) {
		return true, nil
	}
	host.Set("comment", a.Comment)
	return true, writeHosts(c, hosts)
}

func aliasesModule() Module {
	return Module{
		Doc: "Manage the aliases of the mail system.",
		Funcs: Funcs{
			"list_aliases": {run: aliasesList, doc: "Return all aliases with their targets."},
			"get_target":   {run: aliasesGet, doc: "Return the target of an alias."},
			"has_target":   {run: aliasesHas, doc: "Say whether an alias has a target."},
			"set_target":   {run: aliasesSet, doc: "Set the target of an alias."},
			"rm_alias":     {run: aliasesRm, doc: "Remove an alias."},
		},
	}
}

// mailAlias is one line: an alias with its target, or only a comment.
type mailAlias struct{ name, target, rest string }

func aliasesPath(c *Call) string {
	path := optionText(c, "aliases.file", "/etc/aliases")
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

func readAliases(c *Call) []mailAlias {
	lines, err := fileLines(aliasesPath(c))
	if err != nil {
		return nil
	}
	var out []mailAlias
	for _, line := range lines {
		body, rest := line, ""
		if i := strings.Index(line, "#"); i >= 0 {
			for i > 0 && (line[i-1] == ' ' || line[i-1] == '\t') {
				i--
			}
			body, rest = line[:i], line[i:]
		}
		name, target, ok := strings.Cut(body, ":")
		if !ok {
			out = append(out, mailAlias{rest: line})
			continue
		}
		out = append(out, mailAlias{strings.TrimSpace(name), strings.TrimSpace(target), rest})
	}
	return out
}

func writeAliases(ctx context.Context, c *Call, all []mailAlias) error {
	var b strings.Builder
	for _, a := range all {
		if a.name != "" && a.target != "" {
			b.WriteString(a.name + ": " + a.target)
		}
		b.WriteString(a.rest + "\n")
	}
	if err := replaceSystemFile(aliasesPath(c), []byte(b.String()), 0o644); err != nil {
		return osError(err)
	}
	if path := which("newaliases"); path != "" {
		_, err := runText(ctx, c, path)
		return err
	}
	return nil
}

func aliasesList(_ context.Context, c *Call, _ noArgs) (any, error) {
	out := &Map{}
	for _, a := range readAliases(c) {
		if a.name != "" {
			out.Set(a.name, a.target)
		}
	}
	return out, nil
}

type aliasArgs struct{ Alias string }

func aliasTarget(c *Call, name string) string {
	target := ""
	for _, a := range readAliases(c) {
		if a.name == name && name != "" {
			target = a.target
		}
	}
	return target
}

func aliasesGet(_ context.Context, c *Call, a aliasArgs) (any, error) {
	return aliasTarget(c, a.Alias), nil
}

type aliasTargetArgs struct {
	Alias  string
	Target any
}

func (a aliasTargetArgs) target() string { return strings.Join(namesOf(toItems(a.Target)), ", ") }

func aliasesHas(_ context.Context, c *Call, a aliasTargetArgs) (any, error) {
	if a.Target == "" {
		return nil, InvocationErrorf("target can not be an empty string")
	}
	return aliasTarget(c, a.Alias) == a.target(), nil
}

func aliasesSet(ctx context.Context, c *Call, a aliasTargetArgs) (any, error) {
	if a.Alias == "" {
		return nil, InvocationErrorf("alias can not be an empty string")
	}
	if a.Target == "" {
		return nil, InvocationErrorf("target can not be an empty string")
	}
	if aliasTarget(c, a.Alias) == a.target() {
		return true, nil
	}
	var out []mailAlias
	done := false
	for _, have := range readAliases(c) {
		if have.name == a.Alias {
			if done {
				continue
			}
			have.target, done = a.target(), true
		}
		out = append(out, have)
	}
	if !done {
		out = append(out, mailAlias{name: a.Alias, target: a.target()})
	}
	return true, writeAliases(ctx, c, out)
}

func aliasesRm(ctx context.Context, c *Call, a aliasArgs) (any, error) {
	if aliasTarget(c, a.Alias) == "" {
		return true, nil
	}
	var out []mailAlias
	for _, have := range readAliases(c) {
		if have.name != a.Alias {
			out = append(out, have)
		}
	}
	return true, writeAliases(ctx, c, out)
}

func alternativesModule() Module {
	return Module{
		Doc: "Manage the links of the alternatives system.",
		Virtual: func(context.Context, *Call) (bool, string) {
			return isDir("/etc/alternatives"), "Cannot load alternatives module: /etc/alternatives dir not found"
		},
		Funcs: Funcs{
			"display":         {run: alternativesDisplay, doc: "Return what is known about a link group."},
			"show_link":       {run: alternativesShowLink, doc: "Return the generic name of a link group."},
			"show_current":    {run: alternativesShowCurrent, doc: "Return what a link leads to."},
			"check_exists":    {run: alternativesCheckExists, doc: "Say whether a path is one of the alternatives."},
			"check_installed": {run: alternativesCheckInstalled, doc: "Say whether a path is the alternative in use."},
			"install":         {run: alternativesInstall, doc: "Add an alternative to a link group.\n\nCLI Example:\n\n    salt '*' alternatives.install editor /usr/bin/editor /usr/bin/emacs23 50"},
			"remove":          {run: alternativesRemove, doc: "Remove an alternative."},
			"auto":            {run: alternativesAuto, doc: "Let the alternative with the highest priority be used."},
			"set":             {run: alternativesSet, pyname: "set_", doc: "Use an alternative."},
		},
	}
}

func alternativesTool(c *Call) string {
	if grain(c, "os_family") == "RedHat" {
		return "alternatives"
	}
	return "update-alternatives"
}

// alternativesRun returns what the tool wrote: on failure its complaint.
func alternativesRun(ctx context.Context, c *Call, ignore bool, args ...string) (string, bool, error) {
	r, err := runSaltTool(ctx, c, toolOptions{ignore: ignore}, append([]string{alternativesTool(c)}, args...)...)
	if err != nil {
		return "", false, err
	}
	if r.failed() && r.stderr != "" {
		return r.stderr, false, nil
	}
	return r.stdout, true, nil
}

func alternativesDisplay(ctx context.Context, c *Call, a nameArgs) (any, error) {
	text, _, err := alternativesRun(ctx, c, true, "--display", a.Name)
	return text, err
}

func alternativesShowLink(ctx context.Context, c *Call, a nameArgs) (any, error) {
	dir := ""
	switch grain(c, "os_family") {
	case "RedHat":
		dir = "/var/lib/alternatives"
	case "Suse":
		dir = "/var/lib/rpm/alternatives"
	}
	if dir != "" {
		lines, err := fileLines(filepath.Join(dir, filepath.Base(a.Name)))
		if err != nil || len(lines) < 2 {
			c.Log.Error("alternatives: " + a.Name + " does not exist")
			return false, nil
		}
		return lines[1], nil
	}
	text, ok, err := alternativesRun(ctx, c, true, "--query", a.Name)
	if err != nil || !ok {
		return false, err
	}
	block, _, _ := strings.Cut(text, "\n\n")
	for _, line := range strings.Split(block, "\n") {
		if v, ok := strings.CutPrefix(line, "Link:"); ok {
			return strings.TrimSpace(v), nil
		}
	}
	return false, nil
}

func alternativesShowCurrent(_ context.Context, c *Call, a nameArgs) (any, error) {
	target, err := os.Readlink("/etc/alternatives/" + a.Name)
	if err != nil {
		c.Log.Error("alternative: " + a.Name + " does not exist")
		return false, nil
	}
	return target, nil
}

type namePathArgs struct{ Name, Path string }

func alternativesCheckExists(ctx context.Context, c *Call, a namePathArgs) (any, error) {
	text, ok, err := alternativesRun(ctx, c, true, "--display", a.Name)
	if err != nil || !ok {
		return false, err
	}
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, a.Path) {
			return true, nil
		}
	}
	return false, nil
}

func alternativesCheckInstalled(_ context.Context, _ *Call, a namePathArgs) (any, error) {
	target, err := os.Readlink("/etc/alternatives/" + a.Name)
	return err == nil && target == a.Path, nil
}

type alternativesInstallArgs struct {
	Name, Link, Path string
	Priority         any
}

func alternativesInstall(ctx context.Context, c *Call, a alternativesInstallArgs) (any, error) {
	text, _, err := alternativesRun(ctx, c, false, "--install", a.Link, a.Name, a.Path, Str(a.Priority))
	return text, err
}

func alternativesRemove(ctx context.Context, c *Call, a namePathArgs) (any, error) {
	text, _, err := alternativesRun(ctx, c, false, "--remove", a.Name, a.Path)
	return text, err
}

func alternativesAuto(ctx context.Context, c *Call, a nameArgs) (any, error) {
	text, _, err := alternativesRun(ctx, c, false, "--auto", a.Name)
	return text, err
}

func alternativesSet(ctx context.Context, c *Call, a namePathArgs) (any, error) {
	text, _, err := alternativesRun(ctx, c, false, "--set", a.Name, a.Path)
	return text, err
}
