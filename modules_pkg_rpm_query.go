// What the providers of module pkg over rpm ask rpm: details of packages, files
// that differ from what was installed.
package main

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"
)

// rpmFuncs are the functions of pkg that rpm itself answers; cache is where the
// manager keeps the packages it has fetched.
func rpmFuncs(cache string) Funcs {
	return Funcs{
		"parse_arch":      {run: rpmParseArch, doc: "Split the name of a package from its architecture."},
		"info_installed":  {run: rpmInfo, pyname: "info_installed", doc: "Return details of installed packages; attr: only these, all_versions: of each version that is\ninstalled.\n\nCLI Example:\n\n    salt '*' pkg.info_installed bash attr=version,vendor"},
		"verify":          {run: rpmVerify, doc: "Return the files that are not as they were installed, with what is different.\n\nCLI Example:\n\n    salt '*' pkg.verify httpd ignore_types=[config,doc]"},
		"modified":        {run: rpmModified, doc: "Return the files that were changed since they were installed: size=True and the like choose.\n\nCLI Example:\n\n    salt '*' pkg.modified httpd size=True mode=False"},
		"diff":            {run: rpmDiff, doc: "Return how files differ from those of their packages, which are downloaded."},
		"list_downloaded": {run: rpmDownloaded(cache), pyname: "list_downloaded", doc: "List the packages that are in the cache of the package manager."},
	}
}

func rpmParseArch(_ context.Context, _ *Call, a nameArgs) (any, error) {
	base, arch, ok := rsplit(a.Name, ".")
	if ok && (hasString([]string{"x86_64", "amd64", "ia32e", "noarch", "aarch64", "armv5tel", "armv7hl", "ppc64le", "ppc64", "s390x", "riscv64", "src"}, arch) ||
		len(arch) == 4 && arch[0] == 'i' && arch[2:] == "86") {
		return NewMap("name", base, "arch", arch), nil
	}
	return NewMap("name", a.Name, "arch", nil), nil
}

// rpmCommand is rpm, within another root if one is given.
func rpmCommand(kw *Map, words ...string) []string {
	if root := kw.Value("root"); Truth(root) {
		return append([]string{"rpm", "--root", Str(root)}, words...)
	}
	return append([]string{"rpm"}, words...)
}

// rpmInfoTag is one attribute of rpmInfo with rpm's format for it.
type rpmInfoTag struct{ name, format string }

func rpmInfoTags() []rpmInfoTag {
	return []rpmInfoTag{
		{"name", "%{NAME}"}, {"relocations", "%|PREFIXES?{[%{PREFIXES} ]}:{(not relocatable)}|"}, {"version", "%{VERSION}"}, {"vendor", "%{VENDOR}"},
		{"release", "%{RELEASE}"}, {"epoch", "%|EPOCH?{%{EPOCH}}|"}, {"build_date_time_t", "%{BUILDTIME}"}, {"build_date", "%{BUILDTIME}"},
		{"install_date_time_t", "%|INSTALLTIME?{%{INSTALLTIME}}|"}, {"install_date", "%|INSTALLTIME?{%{INSTALLTIME}}|"}, {"build_host", "%{BUILDHOST}"},
		{"group", "%{GROUP}"}, {"source_rpm", "%{SOURCERPM}"}, {"size", "%{LONGSIZE}"}, {"arch", "%{ARCH}"}, {"license", "%|LICENSE?{%{LICENSE}}|"},
		{"signature", "%|DSAHEADER?{%{DSAHEADER:pgpsig}}:{%|RSAHEADER?{%{RSAHEADER:pgpsig}}:{(none)}|}|"}, {"packager", "%|PACKAGER?{%{PACKAGER}}|"},
		{"url", "%|URL?{%{URL}}|"}, {"summary", "%{SUMMARY}"}, {"edition", "%|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}"}, {"description", "%{DESCRIPTION}"},
	}
}

// Fields and packages of rpmInfo end with bytes that are in no description.
const (
	rpmFieldEnd   = "\x1f"
	rpmPackageEnd = "\x1e"
)

func rpmInfo(ctx context.Context, c *Call, a pkgNamesArgs) (any, error) {
	var wanted []string
	if v := a.Kwargs.Value("attr"); Truth(v) {
		wanted = append(toStrings(v), "name", "edition")
	}
	var tags []rpmInfoTag
	for _, t := range rpmInfoTags() {
		if wanted == nil || hasString(wanted, t.name) {
			tags = append(tags, t)
		}
	}
	if wanted != nil && len(tags) <= 2 {
		return nil, ExecErrorf("No valid attributes found.")
	}
	format := ""
	for _, t := range tags {
		format += t.format + rpmFieldEnd
	}
	cmd := rpmCommand(a.Kwargs, "-q")
	if len(a.Names) == 0 {
		cmd = append(cmd, "-a")
	}
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, append(append(cmd, "--queryformat", format+rpmPackageEnd), namesOf(a.Names)...)...)
	if err != nil {
		return nil, err
	}
	return parseRpmInfo(r.stdout, tags, Truth(a.Kwargs.Value("all_versions"))), nil
}

// parseRpmInfo reads the packages, of each the newest version or all.
func parseRpmInfo(text string, tags []rpmInfoTag, allVersions bool) *Map {
	var found []*Map
	for _, block := range strings.Split(text, rpmPackageEnd) {
		fields := strings.Split(block, rpmFieldEnd)
		if len(fields) < len(tags) {
			continue // "package x is not installed"
		}
		one := &Map{}
		for i, t := range tags {
			value := fields[i]
			if t.name == "name" {
				value = strings.TrimLeft(value[strings.LastIndexByte(value, '\n')+1:], " ")
			}
			n, err := strconv.ParseInt(value, 10, 64)
			switch {
			case strings.HasSuffix(t.name, "_date") && err == nil:
				one.Set(t.name, time.Unix(n, 0).UTC().Format("2006-01-02T15:04:05Z"))
			case strings.HasSuffix(t.name, "_time_t") && err == nil:
				one.Set(t.name, n)
			case strings.Contains(t.name, "_date"), value == "" && t.name != "description":
			default:
				one.Set(t.name, value)
			}
		}
		if !strings.HasPrefix(one.Str("name"), "gpg-pubkey") {
			found = append(found, one)
		}
	}
	sort.SliceStable(found, func(i, j int) bool { return rpmCompare(found[i].Str("edition"), found[j].Str("edition")) > 0 })
	ret := &Map{}
	for _, one := range found {
		name := one.Str("name")
		one.Delete("name")
		have, _ := ret.Value(name).(*List)
		switch {
		case allVersions && have != nil:
			have.Append(one)
		case allVersions:
			ret.Set(name, NewList(one))
		case !ret.Has(name):
			one.Delete("edition")
			ret.Set(name, one)
		}
	}
	return ret
}

func rpmVerify(ctx context.Context, c *Call, a pkgPackagesArgs) (any, error) {
	cmd := rpmCommand(a.Kwargs)
	for _, o := range toStrings(a.Kwargs.Value("verify_options")) {
		cmd = append(cmd, "--"+o)
	}
	if len(a.Packages) == 0 {
		cmd = append(cmd, "-Va")
	} else {
		cmd = append(append(cmd, "-V"), namesOf(a.Packages)...)
	}
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, cmd...)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(r.stdout) == "" && r.failed() {
		return nil, ExecErrorf("Failed to verify package(s): %s", r.stderr)
	}
	return parseRpmVerify(r.stdout, toStrings(a.Kwargs.Value("ignore_types"))), nil
}

// rpmFlaws names the marks of rpm -V, by their places in a line.
func rpmFlaws(forVerify bool) []string {
	if forVerify {
		return []string{"size", "mode", "md5sum", "device major/minor number", "readlink path", "user", "group", "mtime", "capabilities"}
	}
	return []string{"size", "mode", "checksum", "device", "symlink", "owner", "group", "time", "capabilities"}
}

// parseRpmVerify reads lines such as `S.5....T.  c /etc/x` and `missing   /etc/y`.
func parseRpmVerify(text string, ignore []string) *Map {
	types := map[string]string{"c": "config", "d": "doc", "g": "ghost", "l": "license", "r": "readme"}
	ret := &Map{}
	for _, line := range strings.Split(text, "\n") {
		marks, rest, ok := strings.Cut(line, " ")
		if !ok {
			continue
		}
		one := &Map{}
		if marks == "missing" {
			one.Set("missing", true)
		} else {
			one.Set("mismatch", rpmMarks(marks, rpmFlaws(true)))
		}
		rest = strings.TrimLeft(rest, " ")
		if len(rest) > 2 && rest[1] == ' ' && types[rest[:1]] != "" {
			one.Set("type", types[rest[:1]])
			rest = strings.TrimLeft(rest[2:], " ")
		}
		if !hasString(ignore, one.Str("type")) || !one.Has("type") {
			ret.Set(rest, one)
		}
	}
	return ret
}

func rpmMarks(marks string, names []string) *List {
	out := &List{}
	for i, name := range names {
		if i < len(marks) && marks[i] != '.' {
			out.Append(name)
		}
	}
	return out
}

func rpmModified(ctx context.Context, c *Call, a struct {
	Packages []any `arg:"*packages"`
	Flags    *Map  `arg:"**flags"`
}) (any, error) {
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, append(rpmCommand(a.Flags, "-Va"), namesOf(a.Packages)...)...)
	if err != nil {
		return nil, err
	}
	if n, _ := toInt(r.retcode); n > 1 {
		m := r.asMap()
		m.Delete("stdout")
		return m, nil
	}
	return parseRpmModified(r.stdout, a.Flags), nil
}

func parseRpmModified(text string, flags *Map) *Map {
	ret := &Map{}
next:
	for _, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] == "missing" {
			continue
		}
		stats := rpmMarks(f[0], rpmFlaws(false))
		if len(f) == 3 {
			stats.Append("config")
		}
		for k, v := range flags.All() {
			name := Str(k)
			if name != "root" && !strings.HasPrefix(name, "_") && Truth(v) != containsItem(stats.Items, name) {
				continue next
			}
		}
		ret.Set(f[len(f)-1], stats)
	}
	return ret
}

func rpmDiff(ctx context.Context, c *Call, a pkgPathsArgs) (any, error) {
	ret := &Map{}
	byPackage := map[string][]string{}
	var names []any
	for _, path := range namesOf(a.Paths) {
		name, err := rpmDatabase{}.owner(ctx, c, path)
		if err != nil {
			return nil, err
		}
		switch _, err := os.Lstat(path); {
		case name == "" && err == nil:
			ret.Set(path, "Not managed")
		case name == "":
			ret.Set(path, "N/A")
		default:
			if byPackage[name] == nil {
				names = append(names, name)
			}
			byPackage[name] = append(byPackage[name], path)
		}
	}
	if len(names) == 0 {
		return ret, nil
	}
	got, err := runMap(ctx, c, "pkg.download", names...)
	if err != nil {
		return nil, err
	}
	for _, name := range namesOf(names) {
		file := Str(got.Value(name))
		if m := got.Map(name); m != nil {
			file = m.Str("path")
		}
		for _, path := range byPackage[name] {
			text, err := lowpkgDiff(ctx, c, lowpkgDiffArgs{PackagePath: file, Path: path})
			if err != nil {
				return nil, err
			}
			if text == "" {
				text = "Unchanged"
			}
			ret.Set(path, text)
		}
	}
	return ret, nil
}

func rpmDownloaded(cache string) func(context.Context, *Call, rootKwArgs) (any, error) {
	return func(ctx context.Context, c *Call, a rootKwArgs) (any, error) {
		return downloadedPackages(ctx, c, rpmDatabase{}, rootOf(a.Root)+cache, ".rpm")
	}
}

// downloadedPackages describes the package files below a directory, by name and
// version.
func downloadedPackages(ctx context.Context, c *Call, files interface {
	fileInfo(ctx context.Context, c *Call, path string) (name, version string, err error)
}, dir, ext string) (*Map, error) {
	ret := &Map{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ext) {
			return nil
		}
		name, version, err := files.fileInfo(ctx, c, path)
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
