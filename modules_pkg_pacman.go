// Provider pacman of module pkg: Arch. The database is a directory for each
// installed package.
package main

import (
	"context"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

const pacmanLocal = "/var/lib/pacman/local"

func pacmanModule() Module {
	return Module{
		Doc: "Manage packages with pacman.",
		Virtual: func(_ context.Context, c *Call) (bool, string) {
			return boxHas(c, "Arch") && which("pacman") != "" && isDir(pacmanLocal), "The pacman module could not be loaded: unsupported OS family."
		},
		Funcs: pkgFuncs(pacmanManager{}).with(Funcs{
			"group_list": {run: pacmanGroupList, doc: "List the groups of packages: installed, partially installed, available."},
			"group_info": {run: pacmanGroupInfo, doc: "Return the packages of a group."},
			"group_diff": {run: pacmanGroupDiff, doc: "Say which packages of a group are installed and which are not."},
		}),
	}
}

type pacmanManager struct{}

func (pacmanManager) compare(a, b string) int               { return rpmCompare(a, b) }
func (pacmanManager) normalize(_ *Call, name string) string { return name }

// pacmanFields reads a file of fields: %NAME%, then its lines.
func pacmanFields(text string) map[string][]string {
	out := map[string][]string{}
	key := ""
	for _, line := range strings.Split(text, "\n") {
		switch {
		case line == "":
			key = ""
		case key == "" && strings.HasPrefix(line, "%") && strings.HasSuffix(line, "%"):
			key = strings.Trim(line, "%")
			out[key] = nil
		case key != "":
			out[key] = append(out[key], line)
		}
	}
	return out
}

// pacmanEach calls f for each installed package; dir has its files.
func pacmanEach(root string, f func(name, version, dir string)) error {
	entries, err := os.ReadDir(root)
	if err != nil {
		return ExecErrorf("cannot read the list of installed packages: %s", osErrorText(err))
	}
	for _, e := range entries {
		p, err := os.ReadFile(filepath.Join(root, e.Name(), "desc"))
		if err != nil {
			continue
		}
		fields := pacmanFields(string(p))
		if len(fields["NAME"]) == 1 && len(fields["VERSION"]) == 1 {
			f(fields["NAME"][0], fields["VERSION"][0], filepath.Join(root, e.Name()))
		}
	}
	return nil
}

func pacmanFiles(dir string) []string {
	p, err := os.ReadFile(filepath.Join(dir, "files"))
	if err != nil {
		return nil
	}
	var out []string
	for _, f := range pacmanFields(string(p))["FILES"] {
		if !strings.HasSuffix(f, "/") {
			out = append(out, "/"+f)
		}
	}
	return out
}

func (pacmanManager) installed(context.Context, *Call) (have, removed *pkgVersions, err error) {
	have = &pkgVersions{}
	err = pacmanEach(pacmanLocal, func(name, version, _ string) { have.add(name, version) })
	return have, nil, err
}

func (pacmanManager) candidates(ctx context.Context, c *Call, names []string, from string, _ *Map) (map[string]string, error) {
	args := []string{"pacman", "-Si"}
	for _, n := range names {
		if from != "" {
			n = from + "/" + n
		}
		args = append(args, n)
	}
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, args...)
	if err != nil {
		return nil, err
	}
	return parseInfoBlocks(r.stdout), nil
}

// parseInfoBlocks reads Name and Version out of blocks of `Key : value`, as pacman
// -Si and zypper info print them. The first of a name counts.
func parseInfoBlocks(out string) map[string]string {
	found := map[string]string{}
	name := ""
	for _, line := range strings.Split(out, "\n") {
		key, value, ok := strings.Cut(line, ":")
		if !ok || strings.HasPrefix(line, " ") {
			continue
		}
		switch strings.TrimSpace(key) {
		case "Name":
			name = strings.TrimSpace(value)
		case "Version":
			if v := strings.TrimSpace(value); name != "" && found[name] == "" {
				found[name] = v
			}
		}
	}
	return found
}

func (pacmanManager) upgrades(ctx context.Context, c *Call, _ *Map) (*Map, error) {
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, "pacman", "-Qu")
	if err != nil {
		return nil, err
	}
	return parsePacmanUpgrades(r.stdout), nil
}

// parsePacmanUpgrades reads lines like linux 6.1.1-1 -> 6.1.2-1.
func parsePacmanUpgrades(out string) *Map {
	found := &Map{}
	for _, line := range strings.Split(out, "\n") {
		if f := strings.Fields(line); len(f) >= 4 && f[2] == "->" && !strings.Contains(line, "[ignored]") {
			found.Set(f[0], f[3])
		}
	}
	return found
}

func (pacmanManager) refresh(ctx context.Context, c *Call, _ *Map) (any, error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, "pacman", "-Sy")
	if err != nil {
		return nil, err
	}
	if r.failed() {
		return nil, ExecErrorf("Error refreshing package databases: %s", r.stderr)
	}
	return parsePacmanSync(r.stdout), nil
}

// parsePacmanSync reads which databases were fetched (True) or up to date (False).
func parsePacmanSync(out string) *Map {
	ret := &Map{}
	for _, line := range strings.Split(out, "\n") {
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(f[0], "::") {
			continue
		}
		key, _, _ := strings.Cut(f[0], ".")
		switch {
		case strings.Contains(line, "is up to date"):
			ret.Set(key, false)
		case strings.Contains(line, "downloading"), strings.Contains(line, "KiB"), strings.Contains(line, "MiB"):
			ret.Set(key, true)
		}
	}
	return ret
}

func (pacmanManager) installCommands(_ context.Context, _ *Call, req *pkgInstall) ([][]string, error) {
	base := []string{"pacman", "-S", "--noprogressbar", "--noconfirm"}
	if req.files {
		base[1] = "-U"
	}
	if req.args.Downloadonly {
		base = append(base, "-w")
	}
	var cmds [][]string
	if names := append(append([]string{}, req.targets...), req.downgrade...); len(names) > 0 {
		cmd := append(append([]string{}, base...), "--needed")
		for _, n := range names {
			if req.from != "" && !req.files {
				n = req.from + "/" + n
			}
			cmd = append(cmd, n)
		}
		cmds = append(cmds, cmd)
	}
	if len(req.reinstall) > 0 {
		cmds = append(cmds, append(append([]string{}, base...), req.reinstall...))
	}
	return cmds, nil
}

func (pacmanManager) removeCommand(names []string, purge bool, _ *Map) []string {
	cmd := []string{"pacman", "-R"}
	if purge {
		cmd = append(cmd, "-s", "-n")
	}
	return append(append(cmd, "--noprogressbar", "--noconfirm"), names...)
}

func (pacmanManager) upgradeCommand(*Map) []string {
	return []string{"pacman", "-Su", "--noprogressbar", "--noconfirm"}
}

func (pacmanManager) run(ctx context.Context, c *Call, args []string, _ *Map) (cmdResult, error) {
	return runSaltTool(ctx, c, toolOptions{}, inScope(c, args)...)
}

func (pacmanManager) failed(r cmdResult) string { return apkManager{}.failed(r) }

func (pacmanManager) fileInfo(ctx context.Context, c *Call, path string) (name, version string, err error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, "pacman", "-Qp", path)
	if err != nil {
		return "", "", err
	}
	f := strings.Fields(r.stdout)
	if r.failed() || len(f) != 2 {
		return "", "", ExecErrorf("Unable to get info for %s: %s", path, r.stderr)
	}
	return f[0], f[1], nil
}

func (pacmanManager) owner(_ context.Context, _ *Call, path string) (string, error) {
	owner := ""
	err := pacmanEach(pacmanLocal, func(name, _, dir string) {
		if owner == "" && hasString(pacmanFiles(dir), path) {
			owner = name
		}
	})
	return owner, err
}

func (pacmanManager) files(_ context.Context, _ *Call, names []string) (*Map, error) {
	out := &Map{}
	err := pacmanEach(pacmanLocal, func(name, _, dir string) {
		if len(names) == 0 || hasString(names, name) {
			out.Set(name, Strings(pacmanFiles(dir)))
		}
	})
	return out, err
}

func (p pacmanManager) available(ctx context.Context, c *Call, names []string, _ *Map) (*Map, error) {
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, "pacman", "-Sl")
	if err != nil {
		return nil, err
	}
	out := &Map{}
	for _, line := range strings.Split(r.stdout, "\n") {
		f := strings.Fields(line)
		if len(f) < 3 || len(names) > 0 && !hasString(names, f[1]) {
			continue
		}
		l, _ := out.Value(f[1]).(*List)
		if l == nil {
			l = &List{}
			out.Set(f[1], l)
		}
		l.Append(f[2])
	}
	return out, nil
}

// pacmanGroups reads lines of a group and a package.
func pacmanGroups(text string) (groups map[string][]string, names []string) {
	groups = map[string][]string{}
	for _, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		if groups[f[0]] == nil {
			names = append(names, f[0])
		}
		groups[f[0]] = append(groups[f[0]], f[1])
	}
	sort.Strings(names)
	return groups, names
}

func pacmanGroupList(ctx context.Context, c *Call, _ noArgs) (any, error) {
	all, err := runText(ctx, c, "pacman", "-Sgg")
	if err != nil {
		return nil, err
	}
	have, err := runText(ctx, c, "pacman", "-Qg")
	return sortPacmanGroups(all, have), err
}

func sortPacmanGroups(all, have string) *Map {
	available, names := pacmanGroups(all)
	installed, _ := pacmanGroups(have)
	full, part, none := &List{}, &List{}, &List{}
	for _, name := range names {
		switch len(installed[name]) {
		case 0:
			none.Append(name)
		case len(available[name]):
			full.Append(name)
		default:
			part.Append(name)
		}
	}
	return NewMap("installed", full, "partially_installed", part, "available", none)
}

func pacmanGroup(ctx context.Context, c *Call, name string) (*Map, error) {
	text, err := runText(ctx, c, "pacman", "-Sgg", name)
	groups, _ := pacmanGroups(text)
	members := append([]string{}, groups[name]...)
	sort.Strings(members)
	return NewMap("mandatory", &List{}, "optional", &List{}, "default", Strings(members), "conditional", &List{}), err
}

func pacmanGroupInfo(ctx context.Context, c *Call, a nameArgs) (any, error) {
	return pacmanGroup(ctx, c, a.Name)
}

func pacmanGroupDiff(ctx context.Context, c *Call, a nameArgs) (any, error) {
	group, err := pacmanGroup(ctx, c, a.Name)
	if err != nil {
		return nil, err
	}
	return splitByInstalled(ctx, c, group)
}
