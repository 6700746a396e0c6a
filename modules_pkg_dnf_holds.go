// Provider dnf of module pkg: versions that packages are kept at by the plugin
// versionlock, and downloaded packages.
package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// dnfLockPattern is a name in a lock.
const dnfLockPattern = `\w+(?:[.-][^-]+)*`

const dnf5LockFile = "/etc/dnf/versionlock.toml"

// versionlockPackage is the package of the plugin.
func versionlockPackage(c *Call) (string, error) {
	major, _ := toInt(c.Grains.Value("osmajorrelease"))
	switch dnfTool() {
	case "dnf", "dnf5":
		if grain(c, "os") != "Fedora" && major < 8 {
			return "python2-dnf-plugin-versionlock", nil
		}
		if grain(c, "os") == "Fedora" && major < 26 {
			return "python3-dnf-plugins-extras-versionlock", nil
		}
		return "python3-dnf-plugin-versionlock", nil
	case "tdnf":
		return "", InvocationErrorf("Cannot proceed, no versionlock for tdnf")
	}
	if major == 5 {
		return "yum-versionlock", nil
	}
	return "yum-plugin-versionlock", nil
}

func (d dnfManager) needVersionlock(ctx context.Context, c *Call) error {
	plugin, err := versionlockPackage(c)
	if err != nil {
		return err
	}
	s, err := pkgCommon{d}.state(ctx, c, false)
	if err == nil && s.have.by[plugin] == nil {
		err = InvocationErrorf("Cannot proceed, %s is not installed.", plugin)
	}
	return err
}

// parseDnfLocks reads what versionlock list prints: pa-0:1.0-1.* with dnf,
// 0:pa-1.0-1.* with yum.
func parseDnfLocks(out, pattern string, yum, full bool) ([]string, error) {
	expr := "(" + pattern + `-\S+)`
	switch {
	case yum && full:
		expr = `(\d+:` + pattern + `-\S+)`
	case yum:
		expr = `\d+:` + expr
	}
	re, err := CompilePython(expr, 0)
	if err != nil {
		return nil, InvocationErrorf("%s is no pattern: %s", Repr(pattern), err)
	}
	var locks []string
	for _, line := range strings.Split(out, "\n") {
		m, err := re.Search(line)
		if err != nil {
			return nil, ExecErrorf("%s: %s", pattern, err)
		}
		if m == nil {
			continue
		}
		lock := Str(m.Group(1))
		if !full {
			lock = lockedName(lock)
		}
		locks = append(locks, lock)
	}
	return locks, nil
}

// lockedName is the name in a lock: what is before version, release and what may
// be any architecture.
func lockedName(lock string) string {
	for _, sep := range []string{".", "-", "-"} {
		lock, _, _ = rsplit(lock, sep)
	}
	return lock
}

// parseDnf5Locks reads the file of dnf5's locks: sections packages with a name and
// conditions.
func parseDnf5Locks(text string, full bool) []string {
	var locks []string
	name := ""
	condition := map[string]string{}
	flush := func() {
		if full && name != "" && condition["key"] == "evr" && condition["comparator"] == "=" {
			evr := condition["value"]
			if !strings.Contains(evr, ":") {
				evr = "0:" + evr
			}
			locks = append(locks, name+"-"+evr+".*")
		}
		condition = map[string]string{}
	}
	for _, line := range pyLines(text, false) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[[") {
			flush()
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		key, value = strings.TrimSpace(key), strings.Trim(strings.TrimSpace(value), `"'`)
		if key != "name" {
			condition[key] = value
		} else if name = value; !full && !hasString(locks, name) {
			locks = append(locks, name)
		}
	}
	flush()
	return locks
}

func (d dnfManager) locks(ctx context.Context, c *Call, pattern string, full bool) ([]string, error) {
	if err := d.needVersionlock(ctx, c); err != nil {
		return nil, err
	}
	if dnfTool() == "dnf5" {
		p, err := os.ReadFile(dnf5LockFile)
		if err != nil && !os.IsNotExist(err) {
			return nil, osError(err)
		}
		return parseDnf5Locks(string(p), full), nil
	}
	out, err := runText(ctx, c, dnfTool(), "versionlock", "list")
	if err != nil {
		return nil, err
	}
	return parseDnfLocks(out, pattern, dnfTool() == "yum", full)
}

type patternArgs struct {
	Pattern string `def:"\\w+(?:[.-][^-]+)*"`
	Full    bool   `def:"True"`
}

func (d dnfManager) listHolds(ctx context.Context, c *Call, a patternArgs) (any, error) {
	locks, err := d.locks(ctx, c, a.Pattern, a.Full)
	return Strings(locks), err
}

// lockWords are the words for one direction.
type lockWords struct {
	command            string
	old, new           string
	done, already      string
	would, couldNot    string
	wholeLocks, onlyIf bool // what the command takes, and whether it acts on locked ones
}

func (d dnfManager) hold(ctx context.Context, c *Call, a pkgHoldArgs) (any, error) {
	return d.lock(ctx, c, a, lockWords{command: "add", new: "hold", done: "is now being held.", already: "is already set to be held.",
		would: "is set to be held.", couldNot: "was unable to be held."})
}

func (d dnfManager) unhold(ctx context.Context, c *Call, a pkgHoldArgs) (any, error) {
	return d.lock(ctx, c, a, lockWords{command: "delete", old: "hold", done: "is no longer held.", already: "is not being held.",
		would: "is set to be unheld.", couldNot: "was unable to be unheld.", wholeLocks: dnfTool() == "yum", onlyIf: true})
}

func (d dnfManager) lock(ctx context.Context, c *Call, a pkgHoldArgs, w lockWords) (any, error) {
	if err := d.needVersionlock(ctx, c); err != nil {
		return nil, err
	}
	names, err := holdTargets(a)
	if err != nil {
		return nil, err
	}
	locks, err := d.locks(ctx, c, dnfLockPattern, w.wholeLocks)
	if err != nil {
		return nil, err
	}
	ret := &Map{}
	for _, name := range names {
		var mine []string
		for _, l := range locks {
			if l == name || w.wholeLocks && lockedName(withoutEpoch(l)) == name {
				mine = append(mine, l)
			}
		}
		one := NewMap("name", name, "changes", &Map{}, "result", true, "comment", "Package "+name+" "+w.already)
		ret.Set(name, one)
		if (len(mine) > 0) != w.onlyIf {
			continue
		}
		if c.Opts.Bool("test") {
			one.Set("result", nil)
			one.Set("comment", "Package "+name+" "+w.would)
			continue
		}
		if !w.onlyIf {
			mine = []string{name}
		}
		ok, err := runOK(ctx, c, append([]string{dnfTool(), "versionlock", w.command}, mine...)...)
		if err != nil {
			return nil, err
		}
		if one.Set("result", ok); !ok {
			one.Set("comment", "Package "+name+" "+w.couldNot)
			continue
		}
		one.Set("changes", NewMap("new", w.new, "old", w.old))
		one.Set("comment", "Package "+name+" "+w.done)
	}
	return ret, nil
}

// held, setHeld and movesHeld are those of an installation (pkgHolder).
func (d dnfManager) held(ctx context.Context, c *Call) ([]string, error) {
	locks, err := d.locks(ctx, c, dnfLockPattern, false)
	if err != nil && asModuleError(err).Kind == ErrInvocation {
		return nil, nil // the plugin is not installed
	}
	return locks, err
}

func (d dnfManager) setHeld(ctx context.Context, c *Call, names []string, on bool) error {
	f := d.unhold
	if on {
		f = d.hold
	}
	_, err := f(ctx, c, pkgHoldArgs{Pkgs: Strings(names)})
	return err
}

func (dnfManager) movesHeld(kwargs *Map) bool { return Truth(kwargs.Value("update_holds")) }

func (dnfManager) listDownloaded(ctx context.Context, c *Call, _ kwargsOnly) (any, error) {
	return rpmListDownloaded(ctx, c, "/var/cache/"+dnfTool())
}

// rpmListDownloaded lists the package files below a directory by name and version.
func rpmListDownloaded(ctx context.Context, c *Call, dir string) (*Map, error) {
	return listDownloadedFiles(dir, ".rpm", func(path string) (name, version string, err error) { return rpmDatabase{}.fileInfo(ctx, c, path) })
}

// listDownloadedFiles lists package files below a directory by name and version.
func listDownloadedFiles(dir, suffix string, info func(path string) (name, version string, err error)) (*Map, error) {
	ret := &Map{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, suffix) {
			return nil
		}
		name, version, err := info(path)
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		byVersion := ret.Map(name)
		if byVersion == nil {
			byVersion = &Map{}
			ret.Set(name, byVersion)
		}
		made := st.ModTime().Unix()
		byVersion.Set(version, NewMap("path", path, "size", st.Size(), "creation_date_time_t", made,
			"creation_date_time", time.Unix(made, 0).UTC().Format("2006-01-02T15:04:05")))
		return nil
	})
	return ret, err
}

func (dnfManager) download(ctx context.Context, c *Call, a pkgPackagesArgs) (any, error) {
	if which("yumdownloader") == "" {
		return nil, ExecErrorf("'yumdownloader' command not available")
	}
	if len(a.Packages) == 0 {
		return nil, InvocationErrorf("No packages were specified")
	}
	names := namesOf(a.Packages)
	dir := "/var/cache/" + dnfTool() + "/packages"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, osError(err)
	}
	files := func() map[string]string {
		found := map[string]string{}
		paths, _ := filepath.Glob(dir + "/*.rpm")
		for _, path := range paths {
			for _, name := range names {
				if strings.HasPrefix(filepath.Base(path), name+"-") {
					found[name] = path
				}
			}
		}
		return found
	}
	for _, old := range files() {
		os.Remove(old)
	}
	if _, err := runText(ctx, c, append([]string{"yumdownloader", "-q", "--destdir=" + dir}, names...)...); err != nil {
		return nil, err
	}
	return downloadResult(names, files())
}

// downloadResult is what download returns: the files, and what is missing.
func downloadResult(names []string, files map[string]string) (any, error) {
	ret := &Map{}
	var missing []string
	for _, name := range names {
		if files[name] == "" {
			missing = append(missing, name)
		} else {
			ret.Set(name, files[name])
		}
	}
	if ret.Len() == 0 {
		return nil, ExecErrorf("Unable to download any of the following packages: %s", strings.Join(names, ", "))
	}
	if missing != nil {
		ret.Set("_error", "The following package(s) failed to download: "+strings.Join(missing, ", "))
	}
	return ret, nil
}

// rpmDiff compares files with those of their packages, which pkg.download brings.
func rpmDiff(ctx context.Context, c *Call, a pkgPathsArgs) (any, error) {
	out := &Map{}
	owners := &Map{}
	for _, path := range namesOf(a.Paths) {
		owner, err := rpmDatabase{}.owner(ctx, c, path)
		switch {
		case err != nil:
			return nil, err
		case owner != "":
			appendTo(owners, owner, path)
		case pathExists(path):
			out.Set(path, "Not managed")
		default:
			out.Set(path, "N/A")
		}
	}
	if owners.Len() == 0 {
		return out, nil
	}
	v, err := c.Run(ctx, "pkg.download", owners.Keys()...)
	if err != nil {
		return nil, err
	}
	for name, paths := range owners.All() {
		file := v.(*Map).Value(name)
		if m, ok := file.(*Map); ok {
			file = m.Value("path")
		}
		for _, path := range toItems(paths) {
			diff, err := rpmLowDiff(ctx, c, lowDiffArgs{PackagePath: Str(file), Path: Str(path)})
			if err != nil {
				return nil, err
			}
			if diff == "" {
				diff = "Unchanged"
			}
			out.Set(path, diff)
		}
	}
	return out, nil
}

// Advisories that repositories tell of.

// parseDnfAdvisories reads lines like `i EX-2024-1 Important/Sec. pa-2.0-1.noarch`; an
// advisory is installed if all its packages are.
func parseDnfAdvisories(out string, installedOnly bool) *Map {
	all := &Map{}
	re := regexp.MustCompile(`^([i|\s])? ?(\S+) +(\S+) +(\S+)`)
	for _, line := range pyLines(out, false) {
		m := re.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		one := all.Map(m[2])
		if one == nil {
			one = NewMap("installed", true, "summary", &List{})
			all.Set(m[2], one)
		}
		one.List("summary").Append(m[4])
		if m[1] != "i" {
			one.Set("installed", false)
		}
	}
	if installedOnly {
		return onlyInstalled(all)
	}
	return all
}
