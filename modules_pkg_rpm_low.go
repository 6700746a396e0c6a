// Module lowpkg over rpm: the database of packages and package files, asked by rpm
// itself. What module pkg has of it (verify, modified, file_list …) runs the same.
package main

import (
	"context"
	"sort"
	"strconv"
	"strings"
)

func rpmLowModule() Module {
	return Module{
		Doc: "Ask the database of rpm and package files.",
		Virtual: func(_ context.Context, c *Call) (bool, string) {
			return boxHas(c, "RedHat", "Suse") && which("rpm") != "", "The rpm execution module failed to load: only available on redhat/suse type systems or amazon, xcp, xenserver, virtuozzolinux, virtuozzo, issabel pbx or openeuler."
		},
		Funcs: rpmLowFuncs().with(Funcs{
			"bin_pkg_info": {run: lowpkgFile(rpmBinPkgInfo), pyname: "bin_pkg_info", doc: "Return name, version and architecture of a package file, which may be a salt:// URL."},
			"list_pkgs":    {run: rpmLowListPkgs, doc: "List the installed packages with their versions, without epoch and release."},
			"diff":         {run: rpmLowDiff, doc: "Compare a file of this box with that in a package file.\n\nCLI Example:\n\n    salt '*' lowpkg.diff /root/apache2.rpm /etc/apache2/httpd.conf"},
			"info":         {run: rpmInfo, doc: "Return details of installed packages, of all if none is named. attr chooses which, with\ncommas between; all_versions returns a list for each package."},
			"version_cmp":  {run: pkgCommon{dnfManager{}}.versionCmp, doc: "Compare two versions: -1, 0 or 1."},
			"checksum":     {run: rpmChecksum, doc: "Say of each package file whether its digests and signatures are right."},
		}),
	}
}

// rpmLowFuncs are the functions that pkg and lowpkg have both.
func rpmLowFuncs() Funcs {
	return Funcs{
		"verify":    {run: rpmVerify, doc: "Compare the files of packages with the database and return those that differ. ignore_types\nleaves out config, doc, ghost, license or readme; verify_options are given to rpm."},
		"modified":  {run: rpmModified, doc: "List changed files of packages with what changed. Flags like mode=True or time=False choose by\nthat: size, mode, checksum, device, symlink, owner, group, time, capabilities."},
		"file_list": {run: rpmFileList, doc: "List the files of packages, of all if no name is given."},
		"file_dict": {run: rpmFileDict, doc: "List the files of packages by package."},
		"owner":     {run: pkgCommon{dnfManager{}}.owner, doc: "Return the package that a file belongs to; of several files a mapping."},
	}
}

// rpmArgs is a command line of rpm, for another root if that is wanted.
func rpmArgs(kw *Map, args ...string) []string {
	if root := kw.Value("root"); Truth(root) {
		args = append([]string{"--root", Str(root)}, args...)
	}
	return append([]string{"rpm"}, args...)
}

// rpmVerifyTypes are the letters between the flags and the name of a file.
func rpmVerifyTypes() map[byte]string {
	return map[byte]string{'c': "config", 'd': "doc", 'g': "ghost", 'l': "license", 'r': "readme"}
}

// parseRpmVerify reads lines like S.5....T.  c /etc/x and missing   c /etc/x.
func parseRpmVerify(out string, ignore []string) *Map {
	tests := []string{"size", "mode", "md5sum", "device major/minor number", "readlink path", "user", "group", "mtime", "capabilities"}
	const letters = "SM5DLUGTP"
	ret := &Map{}
	for _, line := range strings.Split(out, "\n") {
		one := NewMap("mismatch", &List{})
		if strings.Contains(line, "missing") {
			line = " " + line
			one = NewMap("missing", true)
		}
		if len(line) < 14 {
			continue
		}
		kind := rpmVerifyTypes()[line[11]]
		if kind != "" {
			one.Set("type", kind)
			if hasString(ignore, kind) {
				continue
			}
		}
		if l := one.List("mismatch"); l != nil {
			for i, test := range tests {
				if line[i] == letters[i] {
					l.Append(test)
				}
			}
		}
		ret.Set(line[13:], one)
	}
	return ret
}

// textList is an option that is a list, or a text with commas between.
func textOptions(kw *Map, name string) ([]string, error) {
	switch v := kw.Value(name).(type) {
	case nil:
		return nil, nil
	case string:
		var out []string
		for _, s := range strings.Split(v, ",") {
			out = append(out, strings.TrimSpace(s))
		}
		return out, nil
	case *List:
		return namesOf(v.Items), nil
	}
	return nil, InvocationErrorf("%s must be a list or a comma-separated string", name)
}

func rpmVerify(ctx context.Context, c *Call, a pkgPackagesArgs) (any, error) {
	ignore, err := textOptions(a.Kwargs, "ignore_types")
	if err != nil {
		return nil, err
	}
	options, err := textOptions(a.Kwargs, "verify_options")
	if err != nil {
		return nil, err
	}
	cmd := rpmArgs(a.Kwargs)
	for _, o := range options {
		cmd = append(cmd, "--"+o)
	}
	if len(a.Packages) > 0 {
		cmd = append(append(cmd, "-V"), namesOf(a.Packages)...)
	} else {
		cmd = append(cmd, "-Va")
	}
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, cmd...)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(r.stdout) == "" && r.failed() {
		why := "Failed to verify package(s)"
		if r.stderr != "" {
			why += ": " + r.stderr
		}
		return nil, ExecErrorf("%s", why)
	}
	return parseRpmVerify(r.stdout, ignore), nil
}

// parseRpmModified reads the same lines: the names of what changed by file.
func parseRpmModified(out string) *Map {
	keys := []string{"size", "mode", "checksum", "device", "symlink", "owner", "group", "time", "capabilities"}
	ret := &Map{}
	for _, line := range strings.Split(out, "\n") {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		stats := &List{}
		for i, k := range keys {
			if i < len(f[0]) && f[0][i] != '.' {
				stats.Append(k)
			}
		}
		if len(f) == 3 {
			stats.Append("config")
		}
		ret.Set(f[len(f)-1], stats)
	}
	return ret
}

func rpmModified(ctx context.Context, c *Call, a pkgPackagesArgs) (any, error) {
	// -Va with names asks for these alone.
	r, err := runSaltTool(ctx, c, toolOptions{}, append(rpmArgs(a.Kwargs, "-Va"), namesOf(a.Packages)...)...)
	if err != nil {
		return nil, err
	}
	if n, _ := toInt(r.retcode); n > 1 {
		m := r.asMap()
		m.Delete("stdout")
		return m, nil
	}
	all := &Map{}
	if r.failed() {
		all = parseRpmModified(r.stdout)
	}
	out := &Map{}
	for file, stats := range all.All() {
		fits := true
		for flag, want := range a.Kwargs.All() {
			if name := Str(flag); name != "root" && !strings.HasPrefix(name, "_") {
				fits = fits && containsItem(toItems(stats), name) == Truth(want)
			}
		}
		if fits {
			out.Set(file, stats)
		}
	}
	return out, nil
}

func rpmFileList(ctx context.Context, c *Call, a pkgPackagesArgs) (any, error) {
	option := "-ql"
	if len(a.Packages) == 0 {
		option = "-qla"
	}
	r, err := runSaltTool(ctx, c, toolOptions{merge: true}, append(rpmArgs(a.Kwargs, option), namesOf(a.Packages)...)...)
	return NewMap("errors", &List{}, "files", Strings(pyLines(r.stdout, false))), err
}

// rpmNames lists names and versions of the installed packages that are asked for,
// and what rpm says of those that are not there.
func rpmNames(ctx context.Context, c *Call, a pkgPackagesArgs) (have *Map, problems *List, err error) {
	option := "-q"
	if len(a.Packages) == 0 {
		option = "-qa"
	}
	args := append(rpmArgs(a.Kwargs, option, "--queryformat", "%{NAME} %{VERSION}\n"), namesOf(a.Packages)...)
	r, err := runSaltTool(ctx, c, toolOptions{merge: true}, args...)
	have, problems = &Map{}, &List{}
	for _, line := range pyLines(r.stdout, false) {
		if strings.Contains(line, "is not installed") {
			problems.Append(line)
		} else if f := strings.Fields(line); len(f) > 1 {
			have.Set(f[0], f[1])
		}
	}
	return have, problems, err
}

func rpmLowListPkgs(ctx context.Context, c *Call, a pkgPackagesArgs) (any, error) {
	have, _, err := rpmNames(ctx, c, a)
	return have, err
}

func rpmFileDict(ctx context.Context, c *Call, a pkgPackagesArgs) (any, error) {
	have, problems, err := rpmNames(ctx, c, a)
	if err != nil {
		return nil, err
	}
	files := &Map{}
	for _, name := range namesOf(have.Keys()) {
		out, err := runText(ctx, c, rpmArgs(a.Kwargs, "-ql", name)...)
		if err != nil {
			return nil, err
		}
		files.Set(name, Strings(pyLines(out, false)))
	}
	return NewMap("errors", problems, "packages", files), nil
}

func rpmBinPkgInfo(ctx context.Context, c *Call, path string) (any, error) {
	p, err := rpmFile(ctx, c, path)
	if isExecError(err) {
		return nil, nil // not a package
	}
	return NewMap("name", p.name, "version", p.full(), "arch", p.arch, "repoid", "none", "install_date", nil, "install_date_time_t", nil), err
}

type lowDiffArgs struct {
	PackagePath string
	Path        string
}

func rpmLowDiff(ctx context.Context, c *Call, a lowDiffArgs) (any, error) {
	for _, tool := range []string{"diff", "cpio", "rpm2cpio"} {
		if which(tool) == "" {
			return nil, NotFoundErrorf("The '%s' binary was not found in $PATH.", tool)
		}
	}
	file, path := quoteShell(a.PackagePath), quoteShell(a.Path)
	line := "rpm2cpio " + file + " | cpio -i --quiet --to-stdout " + quoteShell("."+a.Path) +
		" | diff -u --label " + quoteShell("A "+a.Path) + " --from-file=- --label " + quoteShell("B "+a.Path) + " " + path
	r, err := runSaltTool(ctx, c, toolOptions{shell: true, merge: true}, line)
	if strings.HasPrefix(r.stdout, "Binary file") {
		return "File '" + a.Path + "' is binary and its content has been modified.", err
	}
	return r.stdout, err
}

func rpmChecksum(ctx context.Context, c *Call, a pkgPathsArgs) (any, error) {
	if len(a.Paths) == 0 {
		return nil, ExecErrorf("No package files has been specified.")
	}
	out := &Map{}
	for _, path := range namesOf(a.Paths) {
		r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, rpmArgs(a.Kwargs, "-K", "--quiet", path)...)
		if err != nil {
			return nil, err
		}
		out.Set(path, isFile(path) && !r.failed())
	}
	return out, nil
}

// rpmInfoTags are the parts of an answer in their order, each with its tag.
func rpmInfoTags() [][2]string {
	return [][2]string{
		{"name", "name: %{NAME}\\n"},
		{"relocations", "relocations: %|PREFIXES?{[%{PREFIXES} ]}:{(not relocatable)}|\\n"},
		{"version", "version: %{VERSION}\\n"},
		{"vendor", "vendor: %{VENDOR}\\n"},
		{"release", "release: %{RELEASE}\\n"},
		{"epoch", "%|EPOCH?{epoch: %{EPOCH}\\n}|"},
		{"build_date_time_t", "build_date_time_t: %{BUILDTIME}\\n"},
		{"build_date", "build_date: %{BUILDTIME}\\n"},
		{"install_date_time_t", "install_date_time_t: %|INSTALLTIME?{%{INSTALLTIME}}:{(not installed)}|\\n"},
		{"install_date", "install_date: %|INSTALLTIME?{%{INSTALLTIME}}:{(not installed)}|\\n"},
		{"build_host", "build_host: %{BUILDHOST}\\n"},
		{"group", "group: %{GROUP}\\n"},
		{"source_rpm", "source_rpm: %{SOURCERPM}\\n"},
		{"size", "size: %{LONGSIZE}\\n"},
		{"arch", "arch: %{ARCH}\\n"},
		{"license", "%|LICENSE?{license: %{LICENSE}\\n}|"},
		{"signature", "signature: %|DSAHEADER?{%{DSAHEADER:pgpsig}}:{%|RSAHEADER?{%{RSAHEADER:pgpsig}}:{%|SIGGPG?{%{SIGGPG:pgpsig}}:{%|SIGPGP?{%{SIGPGP:pgpsig}}:{(none)}|}|}|}|\\n"},
		{"packager", "%|PACKAGER?{packager: %{PACKAGER}\\n}|"},
		{"url", "%|URL?{url: %{URL}\\n}|"},
		{"summary", "summary: %{SUMMARY}\\n"},
		{"edition", "edition: %|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}\\n"},
		{"description", "description:\\n%{DESCRIPTION}\\n"},
	}
}

// rpmInfoEnd closes the block of a package: a character that no text has.
const rpmInfoEnd = "\x1e"

func rpmInfo(ctx context.Context, c *Call, a pkgNamesArgs) (any, error) {
	var wanted []string
	if v := a.Kwargs.Value("attr"); Truth(v) {
		wanted = strings.Split(Str(v), ",")
	}
	format, known := "", false
	for _, t := range rpmInfoTags() {
		chosen := hasString(wanted, t[0])
		known = known || chosen && t[0] != "description"
		if chosen || wanted == nil || t[0] == "name" || t[0] == "edition" {
			format += t[1]
		}
	}
	if wanted != nil && !known {
		return nil, ExecErrorf("No valid attributes found.")
	}
	args := rpmArgs(a.Kwargs, "-qa")
	if len(a.Names) > 0 {
		args = append(rpmArgs(a.Kwargs, "-q"), namesOf(a.Names)...)
	}
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true, env: NewMap("TZ", "UTC")}, append(args, "--queryformat", format+rpmInfoEnd)...)
	if err != nil {
		return nil, err
	}
	return rpmInfoByName(parseRpmInfo(r.stdout), Truth(a.Kwargs.Value("all_versions"))), nil
}

// parseRpmInfo reads the blocks of a query: name and edition stay for sorting.
func parseRpmInfo(out string) []*Map {
	var list []*Map
	for _, block := range strings.Split(out, rpmInfoEnd) {
		one := &Map{}
		head, description, found := strings.Cut(strings.TrimSpace(block), "\ndescription:\n")
		if !found {
			head, found = strings.CutSuffix(head, "\ndescription:")
		}
		for _, line := range strings.Split(head, "\n") {
			key, value, ok := strings.Cut(line, ":")
			key, value = strings.TrimSpace(key), strings.TrimSpace(value)
			if !ok || value == "" {
				continue
			}
			unix, isTime := strconv.ParseInt(value, 10, 64)
			switch key {
			case "build_date", "install_date":
				if isTime == nil {
					one.Set(key, rpmTime(unix))
				}
			case "build_date_time_t", "install_date_time_t":
				if isTime == nil {
					one.Set(key, unix)
				}
			default:
				one.Set(key, value)
			}
		}
		if name := one.Str("name"); name == "" || strings.HasPrefix(name, "gpg-pubkey") {
			continue
		}
		if found {
			one.Set("description", description)
		}
		list = append(list, one)
	}
	return list
}

// rpmInfoByName keeps the newest of each name, or all with the newest first.
func rpmInfoByName(list []*Map, all bool) *Map {
	sort.SliceStable(list, func(i, j int) bool { return rpmCompare(list[i].Str("edition"), list[j].Str("edition")) > 0 })
	out := &Map{}
	for _, one := range list {
		name := one.Str("name")
		one.Delete("name")
		if all {
			appendTo(out, name, one)
		} else if !out.Has(name) {
			one.Delete("edition")
			out.Set(name, one)
		}
	}
	return out
}

// rpmInfoInstalled is lowpkg.info with one key renamed.
func rpmInfoInstalled(ctx context.Context, c *Call, a pkgNamesArgs) (any, error) {
	v, err := rpmInfo(ctx, c, a)
	if err != nil {
		return nil, err
	}
	for _, one := range v.(*Map).All() {
		details := []any{one}
		if l, ok := one.(*List); ok {
			details = l.Items
		}
		for _, d := range details {
			if m := d.(*Map); m.Has("source_rpm") {
				m.Set("source", m.Value("source_rpm"))
				m.Delete("source_rpm")
			}
		}
	}
	return v, nil
}

type parseArchArgs struct{ Name string }

// rpmParseArch splits a name into what comes before its architecture and that.
func rpmParseArch(_ context.Context, _ *Call, a parseArchArgs) (any, error) {
	if base, arch, ok := rsplit(a.Name, "."); ok && isRpmArch(arch) {
		return NewMap("name", base, "arch", arch), nil
	}
	return NewMap("name", a.Name, "arch", nil), nil
}

// isRpmArch says whether what stands behind the last point is an architecture.
func isRpmArch(s string) bool {
	known := "noarch i386 i486 i586 i686 athlon x86_64 amd64 ia32e ia64 geode ppc ppciseries ppcpseries ppc64 ppc64iseries ppc64pseries ppc64le " +
		"s390 s390x sparc sparcv8 sparcv9 sparcv9v sparc64 sparc64v alpha armv5tel armv5tejl armv6l armv6hl armv7l armv7hl armv7hnl aarch64 riscv64 sh3 sh4 sh4a"
	return hasString(strings.Fields(known), s)
}
