// Provider apk of module pkg: Alpine, and OpenWrt since it has apk. The database
// of installed packages is one text file that knows their files too.
package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"regexp"
	"strings"
)

func apkModule() Module {
	p := apkManager{}
	return Module{
		Doc: "Manage packages with apk.",
		Virtual: func(_ context.Context, c *Call) (bool, string) {
			return boxHas(c, "Alpine", "OpenWrt") && which("apk") != "" && apkDatabase() != "", "the apk provider needs apk and its database"
		},
		Funcs: pkgFuncs(p).with(Funcs{"upgrade": {run: pkgCommon{p}.upgradeNamed, doc: pkgUpgradeNamedDoc}}),
	}
}

type apkManager struct{}

func (apkManager) compare(a, b string) int               { return apkCompare(a, b) }
func (apkManager) normalize(_ *Call, name string) string { return name }

func apkDatabase() string {
	for _, path := range []string{"/lib/apk/db/installed", "/usr/lib/apk/db/installed"} {
		if isFile(path) {
			return path
		}
	}
	return ""
}

// readApkDatabase calls f for each package with its files, if they are wanted.
func readApkDatabase(r io.Reader, files bool, f func(name, version string, files []string)) error {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), 1<<20)
	var name, version, dir string
	var list []string
	flush := func() {
		if name != "" {
			f(name, version, list)
		}
		name, version, dir, list = "", "", "", nil
	}
	for s.Scan() {
		line := s.Text()
		if line == "" {
			flush()
			continue
		}
		if len(line) < 2 || line[1] != ':' {
			continue
		}
		switch line[0] {
		case 'P':
			name = line[2:]
		case 'V':
			version = line[2:]
		case 'F':
			dir = line[2:]
		case 'R':
			if files {
				list = append(list, "/"+strings.TrimPrefix(dir+"/"+line[2:], "/"))
			}
		}
	}
	flush()
	return s.Err()
}

func apkEach(files bool, f func(name, version string, files []string)) error {
	file, err := os.Open(apkDatabase())
	if err != nil {
		return ExecErrorf("cannot read the list of installed packages: %s", osErrorText(err))
	}
	defer file.Close()
	return readApkDatabase(file, files, f)
}

func (apkManager) installed(context.Context, *Call) (have, removed *pkgVersions, err error) {
	have = &pkgVersions{}
	err = apkEach(false, func(name, version string, _ []string) { have.add(name, version) })
	return have, nil, err
}

func (apkManager) candidates(ctx context.Context, c *Call, names []string, _ string, _ *Map) (map[string]string, error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, append([]string{"apk", "policy"}, names...)...)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for name, versions := range parseApkPolicy(r.stdout) {
		for _, v := range versions {
			if found[name] == "" || apkCompare(v, found[name]) > 0 {
				found[name] = v
			}
		}
	}
	return found, nil
}

// parseApkPolicy reads the versions that apk policy prints for each package, with
// the places that have it. What stands only in a repository with a tag is not
// installed unless the tag is asked for.
func parseApkPolicy(out string) map[string][]string {
	found := map[string][]string{}
	name, version := "", ""
	for _, line := range strings.Split(out, "\n") {
		text := strings.TrimSpace(line)
		switch {
		case strings.HasSuffix(line, " policy:"):
			name, version = strings.TrimSuffix(line, " policy:"), ""
		case strings.HasPrefix(line, "    "):
			if version != "" && !strings.HasPrefix(text, "@") {
				found[name] = append(found[name], version)
				version = ""
			}
		case strings.HasPrefix(line, "  ") && strings.HasSuffix(line, ":"):
			version = strings.TrimSuffix(text, ":")
		}
	}
	return found
}

func (apkManager) upgrades(ctx context.Context, c *Call, _ *Map) (*Map, error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, "apk", "upgrade", "-s")
	if err != nil {
		return nil, err
	}
	if r.failed() {
		return nil, ExecErrorf("%s", strings.TrimSpace(r.stderr+"\n"+r.stdout))
	}
	return parseApkUpgrade(r.stdout), nil
}

// parseApkUpgrade reads lines like (1/2) Upgrading musl (1.2.3-r0 -> 1.2.3-r4).
func parseApkUpgrade(out string) *Map {
	found := &Map{}
	for _, m := range regexp.MustCompile(`(?m)^\(\d+/\d+\) Upgrading (\S+) \(\S+ -> ([^)\s]+)\)`).FindAllStringSubmatch(out, -1) {
		found.Set(m[1], m[2])
	}
	return found
}

func (apkManager) refresh(ctx context.Context, c *Call, _ *Map) (any, error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, "apk", "update")
	if err != nil {
		return nil, err
	}
	if r.failed() {
		return nil, ExecErrorInfo("Problem encountered refreshing repositories", NewMap("errors", NewList(strings.TrimSpace(r.stdout+"\n"+r.stderr)), "changes", false))
	}
	return true, nil
}

func (apkManager) installCommands(_ context.Context, _ *Call, req *pkgInstall) ([][]string, error) {
	cmd := []string{"apk", "add"}
	if req.files {
		cmd = append(cmd, "--allow-untrusted")
	}
	if req.from != "" {
		cmd = append(cmd, "--repository", req.from)
	}
	var cmds [][]string
	if names := append(append([]string{}, req.targets...), req.downgrade...); len(names) > 0 {
		if !req.files && apkAnyInstalled(names) {
			cmd = append(cmd, "-u") // otherwise what is installed stays as it is
		}
		cmds = append(cmds, append(append([]string{}, cmd...), names...))
	}
	if len(req.reinstall) > 0 {
		cmds = append(cmds, append([]string{"apk", "fix", "--reinstall"}, req.reinstall...))
	}
	return cmds, nil
}

// apkAnyInstalled says whether one of some packages is installed.
func apkAnyInstalled(names []string) bool {
	found := false
	err := apkEach(false, func(name, _ string, _ []string) { found = found || hasString(names, name) })
	return err == nil && found
}

func (apkManager) removeCommand(names []string, purge bool, _ *Map) []string {
	cmd := []string{"apk", "del"}
	if purge {
		cmd = append(cmd, "--purge")
	}
	return append(cmd, names...)
}

func (apkManager) upgradeCommand(kw *Map) []string {
	if names := pkgUpgradeNames(kw); len(names) > 0 {
		return append([]string{"apk", "add", "-u"}, names...)
	}
	if Truth(kw.Value("dist_upgrade")) {
		return []string{"apk", "upgrade", "--available"}
	}
	return []string{"apk", "upgrade"}
}

func (apkManager) run(ctx context.Context, c *Call, args []string, _ *Map) (cmdResult, error) {
	return runSaltTool(ctx, c, toolOptions{}, args...)
}

func (apkManager) failed(r cmdResult) string {
	if !r.failed() {
		return ""
	}
	if r.stderr != "" {
		return r.stderr
	}
	return r.stdout
}

// fileInfo reads a package file: tar archives one after the other, each compressed,
// with .PKGINFO in one of the first. The format of apk 3 is another; apk tells of it.
func (apkManager) fileInfo(ctx context.Context, c *Call, path string) (name, version string, err error) {
	p, err := archiveMember(path, ".PKGINFO")
	if err != nil {
		r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, "apk", "adbdump", path)
		if err != nil || r.failed() {
			return "", "", ExecErrorf("Unable to get info for %s", path)
		}
		return controlField(r.stdout, "  name:"), controlField(r.stdout, "  version:"), nil
	}
	return controlField(string(p), "pkgname ="), controlField(string(p), "pkgver ="), nil
}

func (apkManager) owner(_ context.Context, _ *Call, path string) (string, error) {
	owner := ""
	err := apkEach(true, func(name, _ string, files []string) {
		if hasString(files, path) {
			owner = name
		}
	})
	return owner, err
}

func (apkManager) files(_ context.Context, _ *Call, names []string) (*Map, error) {
	out := &Map{}
	err := apkEach(true, func(name, _ string, files []string) {
		if len(names) == 0 || hasString(names, name) {
			out.Set(name, Strings(files))
		}
	})
	return out, err
}

func (apkManager) available(ctx context.Context, c *Call, names []string, _ *Map) (*Map, error) {
	if len(names) == 0 {
		return nil, InvocationErrorf("name the packages whose versions are to be listed")
	}
	r, err := runSaltTool(ctx, c, toolOptions{}, append([]string{"apk", "policy"}, names...)...)
	if err != nil {
		return nil, err
	}
	out := &Map{}
	found := parseApkPolicy(r.stdout)
	for _, n := range names {
		if len(found[n]) > 0 {
			out.Set(n, Strings(found[n]))
		}
	}
	return out, nil
}
