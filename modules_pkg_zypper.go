// Provider zypper of module pkg: SUSE. What zypper tells is read from its XML
// wherever it has some.
package main

import (
	"context"
	"encoding/xml"
	"strings"
	"time"
)

func zypperModule() Module {
	p := zypperManager{}
	m := pkgCommon{p}
	return Module{
		Doc: "Manage packages with zypper.",
		Virtual: func(_ context.Context, c *Call) (bool, string) {
			return boxHas(c, "Suse") && which("zypper") != "" && which("rpm") != "", "Module zypper: non SUSE OS not supported by zypper package manager"
		},
		Funcs: pkgFuncs(p).with(rpmLowFuncs()).with(p.repoFuncs()).with(p.searchFuncs()).with(Funcs{
			"list_pkgs":         {run: p.listPkgs(m), doc: pkgListDoc + " attr (a list\nof epoch, version, release, arch, install_date and install_date_time_t, or all) tells more of\neach package."},
			"upgrade":           {run: p.upgrade, doc: pkgUpgradeNamedDoc + "\n\ndist_upgrade moves to what the repositories have, dryrun only says what would happen."},
			"list_updates":      {run: m.listUpgrades, pyname: "list_upgrades", doc: "The same as pkg.list_upgrades."},
			"refresh_db":        {run: p.refreshDB, doc: "Bring the lists of packages up to date; force=False fetches only what is old."},
			"latest_version":    {run: p.latestVersion, doc: "Return the version that an installation or an upgrade of a package would bring, an empty text\nif there is none or the newest is installed. Several names give a mapping."},
			"available_version": {run: p.latestVersion, pyname: "latest_version", doc: "The same as pkg.latest_version."},
			"upgrade_available": {run: p.upgradeAvailable, doc: "Say whether there is a newer version of a package."},
			"info_installed":    {run: rpmInfoInstalled, doc: pkgInfoInstalledDoc},
			"parse_arch":        {run: rpmParseArch, doc: "Split a name into name and architecture."},
			"hold":              {run: p.hold, doc: "Keep packages at their versions."},
			"unhold":            {run: p.unhold, doc: "Let packages be upgraded again."},
			"list_holds":        {run: p.listHolds, doc: "List the versions that packages are kept at; with full=False their names."},
			"list_locks":        {run: p.listLocks, doc: "List the locks of zypper."},
			"clean_locks":       {run: p.cleanLocks, doc: "Remove locks that lock nothing."},
		}),
	}
}

type zypperManager struct{ rpmDatabase }

// zypperCall is how zypper is called. A call waits while another zypper works.
type zypperCall struct {
	root     any
	refresh  bool // repositories may be fetched
	readOnly bool // the lock of other zyppers does not matter
	noneOK   bool // nothing found is no failure of the job
	scope    bool // in a scope of its own where systemd runs
	isXML    bool
}

// zypperLocked is the exit code of a zypper that finds another one.
const zypperLocked = 7

func (z zypperCall) run(ctx context.Context, c *Call, args ...string) (cmdResult, error) {
	cmd := []string{"zypper", "--non-interactive"}
	if z.isXML {
		cmd = append(cmd, "--xmlout")
	}
	if !z.refresh && !hasString(args, "--no-refresh") {
		cmd = append(cmd, "--no-refresh")
	}
	if Truth(z.root) {
		cmd = append(cmd, "--root", Str(z.root))
	}
	cmd = append(cmd, args...)
	if z.scope {
		cmd = inScope(c, cmd)
	}
	var o toolOptions
	if z.readOnly && !z.refresh {
		o.env = NewMap("ZYPP_READONLY_HACK", "1")
	}
	if z.noneOK {
		o.codes = []int{104}
	}
	for {
		r, err := runSaltTool(ctx, c, o, cmd...)
		if err != nil {
			return r, err
		}
		if n, _ := toInt(r.retcode); n != zypperLocked || !sleepContext(ctx, 5*time.Second) {
			return r, ctx.Err()
		}
	}
}

// zypperFailure says why a call did not work, "" if it did: 100 to 103, 106 and 107
// tell of things to do, 6 of no repositories.
func zypperFailure(r cmdResult) string {
	switch n, _ := toInt(r.retcode); n {
	case 0, 6, 100, 101, 102, 103, 106, 107:
		return ""
	}
	text := strings.TrimSpace(r.stderr) + strings.TrimSpace(r.stdout)
	if doc, err := parseZypperXML(r.stdout); err == nil {
		text = ""
		for _, m := range doc.all("message") {
			if m.attr("type") == "error" {
				text = strings.TrimPrefix(text+"\n"+m.Text, "\n")
			}
		}
	}
	if text == "" {
		text = "Check Zypper's logs."
	}
	return "Zypper command failure: " + text
}

// checked is run with a failure as an error.
func (z zypperCall) checked(ctx context.Context, c *Call, args ...string) (cmdResult, error) {
	r, err := z.run(ctx, c, args...)
	if err == nil {
		if why := zypperFailure(r); why != "" && !(z.noneOK && Equal(r.retcode, int64(0))) {
			err = ExecErrorf("%s", why)
		}
	}
	return r, err
}

// xml is checked with XML as the answer.
func (z zypperCall) xml(ctx context.Context, c *Call, args ...string) (zypperNode, error) {
	z.isXML = true
	r, err := z.checked(ctx, c, args...)
	if err != nil {
		return zypperNode{}, err
	}
	return parseZypperXML(r.stdout)
}

// zypperNode is an element of the answer.
type zypperNode struct {
	XMLName xml.Name
	Attrs   []xml.Attr   `xml:",any,attr"`
	Text    string       `xml:",chardata"`
	Nodes   []zypperNode `xml:",any"`
}

func parseZypperXML(out string) (zypperNode, error) {
	var n zypperNode
	if err := xml.Unmarshal([]byte(out), &n); err != nil {
		return n, ExecErrorf("cannot read what zypper says: %s", err)
	}
	return n, nil
}

// all lists the elements of a name below a node.
func (n zypperNode) all(name string) []zypperNode {
	var found []zypperNode
	for _, child := range n.Nodes {
		if child.XMLName.Local == name {
			found = append(found, child)
		}
		found = append(found, child.all(name)...)
	}
	return found
}

// text is the text of the first element of a name.
func (n zypperNode) text(name string) string {
	if l := n.all(name); len(l) > 0 {
		return l[0].Text
	}
	return ""
}

func (n zypperNode) attr(name string) string {
	for _, a := range n.Attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// asMap is the attributes of an element.
func (n zypperNode) asMap() *Map {
	m := &Map{}
	for _, a := range n.Attrs {
		m.Set(a.Name.Local, a.Value)
	}
	return m
}

func (z zypperManager) candidates(ctx context.Context, c *Call, names []string, _ string, kw *Map) (map[string]string, error) {
	info, err := z.infoOf(ctx, c, names, kw.Value("root"))
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for name, one := range info.All() {
		found[Str(name)] = one.(*Map).Str("version")
	}
	return found, nil
}

func (zypperManager) upgrades(ctx context.Context, c *Call, kw *Map) (*Map, error) {
	args := []string{"list-updates"}
	if v := kw.Value("fromrepo"); v != nil {
		repos := []any{v}
		if l, ok := v.(*List); ok {
			repos = l.Items
		}
		for _, repo := range namesOf(repos) {
			args = append(args, "--repo", repo)
		}
	}
	doc, err := zypperCall{root: kw.Value("root"), readOnly: true}.xml(ctx, c, args...)
	if err != nil {
		return nil, err
	}
	out := &Map{}
	for _, n := range doc.all("update") {
		if n.attr("kind") == "package" {
			out.Set(n.attr("name"), n.attr("edition"))
		}
	}
	return out, nil
}

type zypperRefreshArgs struct {
	Force  any  `def:"None"`
	Root   any  `def:"None"`
	Kwargs *Map `arg:"**kwargs"`
}

func (z zypperManager) refreshDB(ctx context.Context, c *Call, a zypperRefreshArgs) (any, error) {
	kw := a.Kwargs.Clone()
	kw.Set("root", a.Root)
	if a.Force != nil {
		kw.Set("force", a.Force)
	}
	return pkgCommon{z}.refreshDB(ctx, c, pkgRefreshArgs{Kwargs: kw})
}

func (zypperManager) refresh(ctx context.Context, c *Call, kw *Map) (any, error) {
	force, ok := kw.Get("force")
	if !ok {
		force = kwargOf(c.Pillar.Map("zypper"), "refreshdb_force", true)
	}
	args := []string{"refresh"}
	if Truth(force) {
		args = append(args, "--force")
	}
	r, err := zypperCall{root: kw.Value("root"), refresh: true}.checked(ctx, c, args...)
	return parseZypperRefresh(r.stdout), err
}

// parseZypperRefresh reads which repositories were fetched (True) or not (False).
func parseZypperRefresh(out string) *Map {
	ret := &Map{}
	for _, line := range strings.Split(out, "\n") {
		f := strings.Split(strings.TrimSpace(line), "'")
		if len(f) < 3 {
			continue
		}
		switch {
		case strings.HasPrefix(f[0], "Repository") && strings.Contains(line, "is up to date"):
			ret.Set(f[1], false)
		case strings.HasPrefix(f[0], "Building") && strings.Contains(line, "done"):
			ret.Set(f[1], true)
		}
	}
	return ret
}

func (z zypperManager) installCommands(_ context.Context, _ *Call, req *pkgInstall) ([][]string, error) {
	kw := req.args.Kwargs
	var cmd []string
	if !pyIsTrue(req.args.Refresh) {
		cmd = append(cmd, "--no-refresh")
	}
	if req.args.SkipVerify {
		cmd = append(cmd, "--no-gpg-checks")
	}
	cmd = append(cmd, "install", "--auto-agree-with-licenses")
	if Truth(kw.Value("resolve_capabilities")) {
		cmd = append(cmd, "--capability")
	} else {
		cmd = append(cmd, "--name")
	}
	if req.args.Downloadonly {
		cmd = append(cmd, "--download-only")
	}
	if req.from != "" {
		cmd = append(cmd, "--force", "--force-resolution", "--from", req.from)
	}
	if Truth(kw.Value("no_recommends")) {
		cmd = append(cmd, "--no-recommends")
	}
	// Zypper does not go back by itself, and installs again only what it must.
	var cmds [][]string
	add := func(names []string, more ...string) {
		if len(names) > 0 {
			cmds = append(cmds, append(append(append([]string{}, cmd...), more...), names...))
		}
	}
	add(req.targets)
	add(req.downgrade, "--oldpackage")
	add(req.reinstall, "--force")
	return cmds, nil
}

// run calls zypper for the commands of an installation.
func (zypperManager) run(ctx context.Context, c *Call, args []string, kw *Map) (cmdResult, error) {
	return zypperCall{root: kw.Value("root"), scope: true}.run(ctx, c, args...)
}

func (zypperManager) failed(r cmdResult) string { return zypperFailure(r) }

// plainFailure says that what zypper says is the whole error.
func (zypperManager) plainFailure() bool { return true }

func (zypperManager) removeCommand(names []string, _ bool, _ *Map) []string {
	return append([]string{"remove"}, names...)
}

func (zypperManager) upgradeCommand(kw *Map) []string {
	var cmd []string
	if Truth(kw.Value("skip_verify")) {
		cmd = append(cmd, "--no-gpg-checks")
	}
	action, from := "update", "--repo"
	dist := Truth(kw.Value("dist_upgrade"))
	if dist {
		action, from = "dist-upgrade", "--from"
	}
	cmd = append(cmd, action, "--auto-agree-with-licenses")
	if Truth(kw.Value("dryrun")) {
		cmd = append(cmd, "--dry-run")
	}
	if v := kw.Value("fromrepo"); Truth(v) {
		repos := []any{v}
		if l, ok := v.(*List); ok {
			repos = l.Items
		}
		for _, repo := range namesOf(repos) {
			cmd = append(cmd, from, repo)
		}
	}
	if !dist {
		return append(cmd, pkgUpgradeNames(kw)...)
	}
	if Truth(kw.Value("novendorchange")) {
		cmd = append(cmd, "--no-allow-vendor-change")
	}
	if Truth(kw.Value("no_recommends")) {
		cmd = append(cmd, "--no-recommends")
	}
	return cmd
}

// upgrade is upgradeNamed; a dry run returns what zypper says.
func (z zypperManager) upgrade(ctx context.Context, c *Call, a pkgUpgradeNamedArgs) (any, error) {
	if !Truth(a.Kwargs.Value("dryrun")) {
		return pkgCommon{z}.upgradeNamed(ctx, c, a)
	}
	if pyIsTrue(a.Refresh) {
		if _, err := z.refresh(ctx, c, &Map{}); err != nil {
			return nil, err
		}
	}
	cmd := z.upgradeCommand(a.Kwargs)
	if Truth(a.Kwargs.Value("dist_upgrade")) { // leaves a test case of the solver behind
		if _, err := z.run(ctx, c, append(cmd, "--debug-solver"), a.Kwargs); err != nil {
			return nil, err
		}
	}
	r, err := z.run(ctx, c, cmd, a.Kwargs)
	return strings.TrimSpace(r.stdout + "\n" + r.stderr), err
}

// advisoryCommands install patches.
func (z zypperManager) advisoryCommands(ctx context.Context, c *Call, req *pkgInstall, ids []string) ([][]string, error) {
	known, err := z.patchesOf(ctx, c, false, nil)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if !known.Has(id) {
			return nil, ExecErrorf(`Advisory id "%s" not found`, id)
		}
		req.targets = append(req.targets, "patch:"+id)
	}
	return z.installCommands(ctx, c, req)
}

func (zypperManager) available(ctx context.Context, c *Call, names []string, kw *Map) (*Map, error) {
	doc, err := zypperCall{root: kw.Value("root")}.xml(ctx, c, append([]string{"se", "-s"}, names...)...)
	if err != nil {
		return nil, err
	}
	byRepo := versionTable{}
	for _, n := range doc.all("solvable") {
		repo, name := n.attr("repository"), n.attr("name")
		if n.attr("kind") != "package" || repo == "" {
			continue
		}
		if from := kw.Value("fromrepo"); Truth(from) && Str(from) != repo {
			continue
		}
		if nameMatches(names, name) {
			byRepo.add(repo, name, n.attr("edition"))
		}
	}
	return byRepo.versions(Truth(kw.Value("byrepo"))), nil
}
