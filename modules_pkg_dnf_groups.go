// Provider dnf of module pkg: groups of packages, advisories, and services that
// still run what was replaced.
package main

import (
	"context"
	"os"
	"regexp"
	"sort"
	"strings"
)

func dnfGroupFuncs(m pkgCommon) Funcs {
	g := dnfGroups{m}
	return Funcs{
		"group_list":             {run: g.list, doc: "List the groups of packages: installed and available, environments apart."},
		"group_info":             {run: g.info, doc: "Return what belongs to a group. With expand an environment shows the packages of its groups."},
		"group_diff":             {run: g.diff, doc: "Say which packages of a group are installed and which are not."},
		"group_install":          {run: g.install, doc: "Install the mandatory and default packages of groups, without those in skip and with those in\ninclude. All other arguments are those of pkg.install."},
		"groupinstall":           {run: g.install, pyname: "group_install", doc: "The same as pkg.group_install."},
		"list_patches":           {run: g.patches(false), doc: "List the advisories of the repositories."},
		"list_installed_patches": {run: g.patches(true), doc: "List the advisories whose packages are all installed."},
		"services_need_restart":  {run: g.needRestart, doc: "List services that use files which an upgrade has replaced."},
	}
}

type dnfGroups struct{ pkgCommon }

func (dnfGroups) list(ctx context.Context, c *Call, _ struct{}) (any, error) {
	args := []string{dnfTool(), "grouplist", "hidden"}
	if dnfTool() == "dnf5" {
		args = []string{"dnf5", "group", "list", "--hidden"}
	}
	r, err := runSaltTool(ctx, c, toolOptions{}, args...)
	if dnfTool() == "dnf5" {
		return parseDnf5Groups(r.stdout), err
	}
	return parseDnfGroups(r.stdout), err
}

func noGroups() *Map {
	return NewMap("installed", &List{}, "available", &List{}, "installed environments", &List{}, "available environments", &List{}, "available languages", &Map{})
}

// parseDnfGroups reads the sections of a list of groups.
func parseDnfGroups(out string) *Map {
	sections := map[string]string{"installed groups:": "installed", "available groups:": "available", "installed environment groups:": "installed environments",
		"available environment groups:": "available environments", "available language groups:": "available languages"}
	language := regexp.MustCompile(`(.+) \[(.+)\]`)
	ret := noGroups()
	key := ""
	for _, line := range pyLines(out, false) {
		lower := strings.ToLower(line)
		if lower == "done" {
			break
		}
		if next := sections[lower]; next != "" {
			key = next
			continue
		}
		name := strings.TrimSpace(line)
		switch {
		case key == "" || name == "":
		case key != "available languages":
			ret.List(key).Append(name)
		default:
			if m := language.FindStringSubmatch(name); m != nil {
				ret.Map(key).Set(name, NewMap("name", m[1], "language", m[2]))
			}
		}
	}
	return ret
}

// parseDnf5Groups reads the table of dnf5: id, name, yes or no.
func parseDnf5Groups(out string) *Map {
	ret := noGroups()
	for _, line := range pyLines(out, false) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		switch strings.ToLower(f[len(f)-1]) {
		case "yes":
			ret.List("installed").Append(f[0])
		case "no":
			ret.List("available").Append(f[0])
		}
	}
	return ret
}

func groupKinds() []string { return []string{"mandatory", "optional", "default", "conditional"} }

type groupInfoArgs struct {
	Name         string
	Expand       bool `def:"False"`
	IgnoreGroups any  `def:"None"`
	Kwargs       *Map `arg:"**kwargs"`
}

func (g dnfGroups) info(ctx context.Context, c *Call, a groupInfoArgs) (any, error) {
	done := namesOf(toItems(a.IgnoreGroups))
	return g.infoOf(ctx, c, a.Name, a.Expand, &done, dnfOptions(a.Kwargs.Value("fromrepo"), onlyKeys(a.Kwargs, "enablerepo", "disablerepo")))
}

// infoOf reads a group; done are the groups that were looked into already.
func (g dnfGroups) infoOf(ctx context.Context, c *Call, name string, expand bool, done *[]string, options []string) (*Map, error) {
	words := []string{"groupinfo", name}
	if dnfTool() == "dnf5" {
		words = []string{"group", "info", name}
	}
	r, err := runSaltTool(ctx, c, toolOptions{}, append(append([]string{dnfTool(), "--quiet"}, options...), words...)...)
	if err != nil {
		return nil, err
	}
	ret, members := parseDnfGroup(r.stdout)
	if !Truth(ret.Value("group")) && !Truth(ret.Value("id")) {
		return nil, ExecErrorf("Group '%s' not found", name)
	}
	for _, kind := range groupKinds() {
		for _, member := range members[kind] {
			if !expand || ret.Value("type") != "environment group" {
				appendTo(ret, kind, member)
				continue
			}
			if hasString(*done, member) {
				continue
			}
			*done = append(*done, member)
			// The @ keeps a short name from meaning several groups, but a name with
			// blanks is only found without.
			sub, err := g.infoOf(ctx, c, "@"+member, true, done, options)
			if isExecError(err) {
				sub, err = g.infoOf(ctx, c, member, true, done, options)
			}
			if err != nil {
				return nil, err
			}
			for _, k := range groupKinds() {
				for _, p := range toItems(sub.Value(k)) {
					appendTo(ret, k, p)
				}
			}
		}
	}
	for _, kind := range groupKinds() {
		ret.Set(kind, Strings(sortedSet(namesOf(toItems(ret.Value(kind))))))
	}
	return ret, nil
}

// parseDnfGroup reads what is told of one group: its names, and members by kind.
func parseDnfGroup(out string) (*Map, map[string][]string) {
	info := map[string]string{}
	members := map[string][]string{}
	head := regexp.MustCompile(`(?i)^(mandatory|optional|default|conditional) (?:groups|packages)\s*:\s*(.*?)\s*$`)
	kind := ""
	for _, line := range pyLines(out, false) {
		if key, value, ok := strings.Cut(line, ":"); ok && !strings.Contains(value, ":") {
			info[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
		}
		member := strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(line), "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"))
		if m := head.FindStringSubmatch(member); m != nil {
			kind, member = strings.ToLower(m[1]), m[2]
		}
		if kind != "" && member != "" {
			members[kind] = append(members[kind], strings.TrimLeft(member, ": "))
		}
	}
	first := func(keys ...string) any {
		for _, k := range keys {
			if info[k] != "" {
				return info[k]
			}
		}
		return nil
	}
	kindOf := "package group"
	if info["environment group"] != "" {
		kindOf = "environment group"
	}
	ret := &Map{}
	for _, k := range groupKinds() {
		ret.Set(k, &List{})
	}
	ret.Set("type", kindOf)
	ret.Set("group", first("environment group", "group", "name"))
	ret.Set("id", first("environment-id", "group-id", "id"))
	ret.Set("description", info["description"])
	return ret, members
}

type groupNameArgs struct {
	Name   string
	Kwargs *Map `arg:"**kwargs"`
}

func (g dnfGroups) diff(ctx context.Context, c *Call, a groupNameArgs) (any, error) {
	info, err := g.info(ctx, c, groupInfoArgs{Name: a.Name, Expand: true, Kwargs: a.Kwargs})
	if err != nil {
		return nil, err
	}
	return g.groupDiff(ctx, c, info.(*Map))
}

// groupDiff splits the members of a group by what is installed.
func (m pkgCommon) groupDiff(ctx context.Context, c *Call, info *Map) (any, error) {
	s, err := m.state(ctx, c, false)
	if err != nil {
		return nil, err
	}
	ret := &Map{}
	for _, kind := range groupKinds() {
		one := NewMap("installed", &List{}, "not installed", &List{})
		for _, member := range toItems(info.Value(kind)) {
			if s.have.by[Str(member)] != nil {
				one.List("installed").Append(member)
			} else {
				one.List("not installed").Append(member)
			}
		}
		ret.Set(kind, one)
	}
	return ret, nil
}

type groupInstallArgs struct {
	Name    any
	Skip    any  `def:"()"`
	Include any  `def:"()"`
	Kwargs  *Map `arg:"**kwargs"`
}

func (g dnfGroups) install(ctx context.Context, c *Call, a groupInstallArgs) (any, error) {
	lists := map[string][]string{}
	for what, v := range map[string]any{"groups": a.Name, "skip": a.Skip, "include": a.Include} {
		switch v := v.(type) {
		case string:
			lists[what] = strings.Split(v, ",")
		case *List, Tuple:
			lists[what] = namesOf(toItems(v))
		default:
			return nil, InvocationErrorf("'%s' must be a list", what)
		}
	}
	var wanted []string
	for _, group := range lists["groups"] {
		v, err := g.info(ctx, c, groupInfoArgs{Name: group, Kwargs: &Map{}})
		if err != nil {
			return nil, err
		}
		info := v.(*Map)
		wanted = append(wanted, namesOf(toItems(info.Value("mandatory")))...)
		for _, p := range namesOf(toItems(info.Value("default"))) {
			if !hasString(lists["skip"], p) {
				wanted = append(wanted, p)
			}
		}
	}
	s, err := g.state(ctx, c, false)
	if err != nil {
		return nil, err
	}
	missing := &List{}
	for _, name := range append(wanted, lists["include"]...) {
		if s.have.by[name] == nil && !containsItem(missing.Items, name) {
			missing.Append(name)
		}
	}
	if missing.Len() == 0 {
		return &Map{}, nil
	}
	kw := a.Kwargs.Clone()
	kw.Set("pkgs", missing)
	return c.RunKw(ctx, "pkg.install", nil, kw)
}

type refreshKwArgs struct {
	Refresh any  `def:"False"`
	Kwargs  *Map `arg:"**kwargs"`
}

func (g dnfGroups) patches(onlyInstalled bool) func(context.Context, *Call, refreshKwArgs) (any, error) {
	return func(ctx context.Context, c *Call, a refreshKwArgs) (any, error) {
		if Truth(a.Refresh) {
			if _, err := g.p.refresh(ctx, c, &Map{}); err != nil {
				return nil, err
			}
		}
		r, err := runSaltTool(ctx, c, toolOptions{}, dnfTool(), "--quiet", "updateinfo", "list", "all")
		return parseDnfAdvisories(r.stdout, onlyInstalled), err
	}
}

func (dnfGroups) needRestart(ctx context.Context, c *Call, _ kwargsOnly) (any, error) {
	tool := dnfTool()
	if tool != "dnf" && tool != "dnf5" {
		return nil, ExecErrorf("dnf or dnf5 is required to list outdated services.")
	}
	if !isDir("/run/systemd/system") {
		return nil, ExecErrorf("systemd is required to list outdated services.")
	}
	r, err := runSaltTool(ctx, c, toolOptions{}, tool, "--quiet", "needs-restarting")
	if err != nil {
		return nil, err
	}
	var services []string
	for _, line := range pyLines(r.stdout, false) {
		if pid, _, ok := strings.Cut(line, ":"); ok {
			if unit := serviceOfPid(strings.TrimSpace(pid)); unit != "" {
				services = append(services, unit)
			}
		}
	}
	services = sortedSet(services)
	sort.Strings(services)
	return Strings(services), nil
}

// serviceOfPid is the unit of a process by its control group.
func serviceOfPid(pid string) string {
	p, err := os.ReadFile("/proc/" + pid + "/cgroup")
	if err != nil {
		return ""
	}
	if m := regexp.MustCompile(`/([^/\n]+)\.service(?:/|\n|$)`).FindSubmatch(p); m != nil {
		return string(m[1])
	}
	return ""
}
