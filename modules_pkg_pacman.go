// Provider pacman of module pkg: Arch. The database is a directory for each
// installed package.
package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

const pacmanLocal = "/var/lib/pacman/local"

func pacmanModule() Module {
	p := pacmanManager{}
	return Module{
		Doc: "Manage packages with pacman.",
		Virtual: func(_ context.Context, c *Call) (bool, string) {
			return boxHas(c, "Arch") && which("pacman") != "" && isDir(pacmanLocal), "The pacman module could not be loaded: unsupported OS family."
		},
		Funcs: pkgFuncs(p).with(Funcs{
			"file_list":  {run: p.fileList, doc: "List the files and directories of packages, of all if no name is given."},
			"file_dict":  {run: p.fileDict, doc: "List the files and directories of packages by package."},
			"group_list": {run: p.groupList, doc: "List the groups of packages: installed, installed in part, and available."},
			"group_info": {run: p.groupInfo, doc: "List the packages of a group."},
			"group_diff": {run: p.groupDiff, doc: "Say which packages of a group are installed and which are not."},
		}),
	}
}

type pacmanManager struct{}

func (pacmanManager) compare(a, b string) int               { return pacmanCompare(a, b) }
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
		out = append(out, "/"+f)
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

// foundFiles lists what packages have, and those that are not installed.
func (p pacmanManager) foundFiles(ctx context.Context, c *Call, names []string) (found *Map, problems *List, err error) {
	found, err = p.files(ctx, c, names)
	problems = &List{}
	for _, name := range names {
		if !found.Has(name) {
			problems.Append("error: package '" + name + "' was not found")
		}
	}
	return found, problems, err
}

func (p pacmanManager) fileDict(ctx context.Context, c *Call, a pkgPackagesArgs) (any, error) {
	found, problems, err := p.foundFiles(ctx, c, namesOf(a.Packages))
	return NewMap("errors", problems, "packages", found), err
}

func (p pacmanManager) fileList(ctx context.Context, c *Call, a pkgPackagesArgs) (any, error) {
	found, problems, err := p.foundFiles(ctx, c, namesOf(a.Packages))
	files := &List{}
	for _, l := range found.All() {
		files.Append(toItems(l)...)
	}
	return NewMap("errors", problems, "files", files), err
}

// pacmanGroups reads lines like `group package`.
func pacmanGroups(ctx context.Context, c *Call, args ...string) (*Map, error) {
	out, err := runText(ctx, c, append([]string{"pacman"}, args...)...)
	groups := &Map{}
	for _, line := range pyLines(out, false) {
		if f := strings.Fields(line); len(f) == 2 {
			appendTo(groups, f[0], f[1])
		}
	}
	return groups, err
}

func (pacmanManager) groupList(ctx context.Context, c *Call, _ struct{}) (any, error) {
	available, err := pacmanGroups(ctx, c, "-Sgg")
	if err != nil {
		return nil, err
	}
	installed, err := pacmanGroups(ctx, c, "-Qg")
	var all, part, none []string
	for name, members := range available.All() {
		switch have := toItems(installed.Value(name)); {
		case len(have) == 0:
			none = append(none, Str(name))
		case len(have) == len(toItems(members)):
			all = append(all, Str(name))
		default:
			part = append(part, Str(name))
		}
	}
	return NewMap("installed", Strings(sortedSet(all)), "partially_installed", Strings(sortedSet(part)), "available", Strings(sortedSet(none))), err
}

// groupInfo has the kinds of dnf's groups; pacman knows only one.
func (pacmanManager) groupInfo(ctx context.Context, c *Call, a nameArgs) (any, error) {
	members, err := pacmanGroups(ctx, c, "-Sgg", a.Name)
	ret := &Map{}
	for _, kind := range groupKinds() {
		ret.Set(kind, &List{})
	}
	ret.Set("default", Strings(sortedSet(namesOf(toItems(members.Value(a.Name))))))
	return ret, err
}

func (p pacmanManager) groupDiff(ctx context.Context, c *Call, a nameArgs) (any, error) {
	info, err := p.groupInfo(ctx, c, a)
	if err != nil {
		return nil, err
	}
	return pkgCommon{p}.groupDiff(ctx, c, info.(*Map))
}

func (pacmanManager) available(ctx context.Context, c *Call, names []string, kw *Map) (*Map, error) {
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, "pacman", "-Sl")
	if err != nil {
		return nil, err
	}
	repos, err := textOptions(kw, "fromrepo")
	if err != nil {
		return nil, err
	}
	byRepo := versionTable{}
	for _, line := range strings.Split(r.stdout, "\n") {
		if f := strings.Fields(line); len(f) >= 3 && (len(repos) == 0 || hasString(repos, f[0])) && nameMatches(names, f[1]) {
			byRepo.add(f[0], f[1], f[2])
		}
	}
	return byRepo.versions(Truth(kw.Value("byrepo"))), nil
}
