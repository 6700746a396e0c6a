// Modules timezone and locale. Zones are read from the files of /etc; locales
// from the C library's list.
package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func timezoneModule() Module {
	return Module{
		Doc: "Manage the time zone of this box and of its hardware clock.",
		Funcs: Funcs{
			"get_zone":     {run: timezoneGetZone, doc: "Return the name of the time zone."},
			"get_zonecode": {run: timezoneGetCode, doc: "Return the abbreviation of the time zone in force, like CET."},
			"get_offset":   {run: timezoneGetOffset, doc: "Return the distance from UTC, like +0100."},
			"set_zone":     {run: timezoneSetZone, doc: "Set the time zone.\n\nCLI Example:\n\n    salt '*' timezone.set_zone 'America/Denver'"},
			"zone_compare": {run: timezoneCompare, doc: "Say whether the rules of a zone are those in force here."},
			"get_hwclock":  {run: timezoneGetHwclock, doc: "Say whether the hardware clock keeps UTC or localtime."},
			"set_hwclock":  {run: timezoneSetHwclock, doc: "Let the hardware clock keep UTC or localtime."},
		},
	}
}

// localNow is the time in the zone that is set now: this process may have started
// under another one.
func localNow() time.Time {
	if os.Getenv("TZ") != "" {
		return time.Now()
	}
	p, err := os.ReadFile("/etc/localtime")
	if err != nil {
		return time.Now().UTC()
	}
	loc, err := time.LoadLocationFromTZData("local", p)
	if err != nil {
		return time.Now()
	}
	return time.Now().In(loc)
}

func timezoneGetCode(context.Context, *Call, noArgs) (any, error) {
	name, _ := localNow().Zone()
	return name, nil
}

func timezoneGetOffset(context.Context, *Call, noArgs) (any, error) {
	return localNow().Format("-0700"), nil
}

func timedatectl(ctx context.Context, c *Call) (string, error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, "timedatectl")
	if err != nil {
		return "", err
	}
	if r.failed() {
		return "", ExecErrorf("timedatectl failed: %s", r.stderr)
	}
	return r.stdout, nil
}

func timezoneGetZone(ctx context.Context, c *Call, _ noArgs) (any, error) {
	if which("timedatectl") != "" {
		text, err := timedatectl(ctx, c)
		if err != nil {
			return nil, err
		}
		for _, line := range strings.Split(text, "\n") {
			if m := regexp.MustCompile(`^\s*Time ?zone:\s+(\S+)`).FindStringSubmatch(line); m != nil {
				return m[1], nil
			}
		}
		return nil, ExecErrorf("Failed to parse timedatectl output: %s", text)
	}
	for _, family := range []string{"Debian", "Gentoo"} {
		if grain(c, "os_family") == family {
			p, err := os.ReadFile("/etc/timezone")
			if err == nil {
				return strings.TrimSpace(string(p)), nil
			}
			if zone, zerr := zoneOfLink(); zerr == nil {
				return zone, nil
			}
			return nil, ExecErrorf("Problem reading timezone file /etc/timezone: %s", strerrorOf(err))
		}
	}
	if zone := uciZone(); zone != "" {
		return zone, nil
	}
	return zoneOfLink()
}

// uciZone is the zone of OpenWrt's configuration.
func uciZone() string {
	if !isFile("/etc/config/system") {
		return ""
	}
	zone := ""
	_ = scanLines("/etc/config/system", func(line string) bool {
		f := strings.Fields(line)
		if len(f) >= 3 && f[0] == "option" && f[1] == "zonename" {
			zone = strings.Trim(strings.Join(f[2:], " "), `'"`)
		}
		return zone == ""
	})
	return zone
}

const zoneDir = "/usr/share/zoneinfo/"

// zoneOfLink finds the zone that /etc/localtime leads to, or has the rules of.
func zoneOfLink() (string, error) {
	target, err := os.Readlink("/etc/localtime")
	if err == nil {
		if !filepath.IsAbs(target) {
			target = filepath.Join("/etc", target)
		}
		if name, ok := strings.CutPrefix(filepath.Clean(target), zoneDir); ok {
			return name, nil
		}
		return "", ExecErrorf("Unable to determine timezone")
	}
	if os.IsNotExist(err) {
		return "", ExecErrorf("/etc/localtime does not exist")
	}
	have, err := os.ReadFile("/etc/localtime")
	if err != nil {
		return "", osError(err)
	}
	found := ""
	_ = filepath.WalkDir(zoneDir, func(path string, d os.DirEntry, err error) error {
		name := strings.TrimPrefix(path, zoneDir)
		if err != nil || d.IsDir() || name == "" || name[0] >= 'a' && name[0] <= 'z' {
			return nil
		}
		if p, err := os.ReadFile(path); err == nil && bytes.Equal(p, have) {
			found = name
			return filepath.SkipAll
		}
		return nil
	})
	if found == "" {
		return "", ExecErrorf("Unable to determine timezone")
	}
	return found, nil
}

type timezoneArgs struct{ Timezone string }

func zoneFile(name string) (string, error) {
	if name == "" || strings.HasPrefix(name, "/") || strings.Contains(name, "..") {
		return "", InvocationErrorf("%s is no name of a time zone", Repr(name))
	}
	return zoneDir + name, nil
}

func timezoneSetZone(ctx context.Context, c *Call, a timezoneArgs) (any, error) {
	path, err := zoneFile(a.Timezone)
	if err != nil {
		return nil, err
	}
	if which("timedatectl") != "" {
		if _, err := runText(ctx, c, "timedatectl", "set-timezone", a.Timezone); err != nil {
			return nil, err
		}
	}
	if _, err := os.Stat(path); err != nil {
		return "Zone does not exist: " + path, nil
	}
	tmp := "/etc/.localtime.salt"
	_ = os.Remove(tmp)
	if err := os.Symlink(path, tmp); err != nil {
		return nil, osError(err)
	}
	if err := os.Rename(tmp, "/etc/localtime"); err != nil {
		return nil, osError(err)
	}
	set := func(file, key string) error {
		lines, err := fileLines(file)
		if err != nil {
			return nil // not there: nothing reads it
		}
		for i, line := range lines {
			if strings.HasPrefix(line, key+"=") {
				lines[i] = key + `="` + a.Timezone + `"`
			}
		}
		return replaceSystemFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
	}
	switch grain(c, "os_family") {
	case "RedHat":
		err = set("/etc/sysconfig/clock", "ZONE")
	case "Suse":
		err = set("/etc/sysconfig/clock", "TIMEZONE")
	case "Debian", "Gentoo":
		err = replaceSystemFile("/etc/timezone", []byte(strings.TrimSpace(a.Timezone)+"\n"), 0o644)
	}
	if err != nil {
		return nil, osError(err)
	}
	return true, nil
}

func timezoneCompare(_ context.Context, _ *Call, a timezoneArgs) (any, error) {
	path, err := zoneFile(a.Timezone)
	if err != nil {
		return nil, err
	}
	want, err := os.ReadFile(path)
	if err != nil {
		return nil, InvocationErrorf("Can't find a local timezone \"%s\"", a.Timezone)
	}
	have, err := os.ReadFile("/etc/localtime")
	if err != nil {
		return nil, ExecErrorf("Failed to read /etc/localtime to determine current timezone: %s", strerrorOf(err))
	}
	return bytes.Equal(have, want), nil
}

func timezoneGetHwclock(ctx context.Context, c *Call, _ noArgs) (any, error) {
	if which("timedatectl") != "" {
		text, err := timedatectl(ctx, c)
		if err != nil {
			return nil, err
		}
		for _, line := range strings.Split(text, "\n") {
			if low := strings.ToLower(line); strings.Contains(low, "rtc in local tz") {
				if strings.HasSuffix(strings.TrimSpace(low), "yes") {
					return "localtime", nil
				}
				return "UTC", nil
			}
		}
		return nil, ExecErrorf("Failed to parse timedatectl output: %s", text)
	}
	if lines, err := fileLines("/etc/default/rcS"); err == nil {
		for _, line := range lines {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), "UTC="); ok {
				if strings.ToLower(v) == "yes" {
					return "UTC", nil
				}
				return "localtime", nil
			}
		}
	}
	lines, err := fileLines("/etc/adjtime")
	if err == nil && len(lines) > 0 {
		return lines[len(lines)-1], nil
	}
	if _, err := os.Stat("/dev/rtc"); err == nil {
		return nil, ExecErrorf("Unable to get hwclock timezone from /etc/adjtime")
	}
	return nil, nil
}

type hwclockArgs struct{ Clock string }

func timezoneSetHwclock(ctx context.Context, c *Call, a hwclockArgs) (any, error) {
	local := a.Clock == "localtime"
	if which("timedatectl") != "" {
		word := "false"
		if local {
			word = "true"
		}
		return runOK(ctx, c, "timedatectl", "set-local-rtc", word)
	}
	if !local && strings.ToUpper(a.Clock) != "UTC" {
		return nil, InvocationErrorf("localtime and UTC are the only permitted values")
	}
	mode := "--utc"
	if local {
		mode = "--localtime"
	}
	return runOK(ctx, c, "hwclock", mode, "--systohc")
}

func localeModule() Module {
	return Module{
		Doc: "Manage the locale of this box.",
		Funcs: Funcs{
			"list_avail": {run: localeListAvail, doc: "List the locales that programs can use."},
			"get_locale": {run: localeGet, doc: "Return the locale of this box."},
			"set_locale": {run: localeSet, doc: "Set the locale of this box.\n\nCLI Example:\n\n    salt '*' locale.set_locale 'en_US.UTF-8'"},
			"avail":      {run: localeAvail, doc: "Say whether a locale can be used; en_US.utf8 and en_US.UTF-8 are the same."},
			"gen_locale": {run: localeGen, doc: "Make a locale usable.\n\nCLI Example:\n\n    salt '*' locale.gen_locale 'en_IE.UTF-8 UTF-8'"},
		},
	}
}

// localeParts splits language_TERRITORY.codeset@modifier charmap.
type localeParts struct{ language, territory, codeset, modifier, charmap string }

func splitLocale(s string) (p localeParts) {
	s, p.charmap, _ = strings.Cut(s, " ")
	s, p.modifier, _ = strings.Cut(s, "@")
	s, p.codeset, _ = strings.Cut(s, ".")
	p.language, p.territory, _ = strings.Cut(s, "_")
	p.charmap = strings.TrimSpace(p.charmap)
	return p
}

func (p localeParts) String() string {
	s := p.language
	if p.territory != "" {
		s += "_" + p.territory
	}
	if p.codeset != "" {
		s += "." + p.codeset
	}
	if p.modifier != "" {
		s += "@" + p.modifier
	}
	if p.charmap != "" {
		s += " " + p.charmap
	}
	return s
}

// normalLocale is the form in which locales are compared.
func normalLocale(s string) string {
	p := splitLocale(strings.TrimSpace(s))
	p.codeset = strings.ToLower(strings.ReplaceAll(p.codeset, "-", ""))
	p.charmap = ""
	return p.String()
}

func availableLocales(ctx context.Context, c *Call) ([]string, error) {
	text, err := runText(ctx, c, "locale", "-a")
	return strings.Split(text, "\n"), err
}

func localeListAvail(ctx context.Context, c *Call, _ noArgs) (any, error) {
	all, err := availableLocales(ctx, c)
	return Strings(all), err
}

type localeArgs struct{ Locale string }

func localeAvail(ctx context.Context, c *Call, a localeArgs) (any, error) {
	all, err := availableLocales(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, l := range all {
		if normalLocale(l) == normalLocale(a.Locale) {
			return true, nil
		}
	}
	return false, nil
}

// localeFile is where this family keeps its locale, and under which key.
func localeFile(c *Call) (path, key string) {
	switch grain(c, "os_family") {
	case "Suse":
		if isFile("/etc/sysconfig/language") {
			return "/etc/sysconfig/language", "RC_LANG"
		}
	case "RedHat":
		if !systemdRuns() {
			return "/etc/sysconfig/i18n", "LANG"
		}
	case "Debian":
		return "/etc/default/locale", "LANG"
	}
	return "/etc/locale.conf", "LANG"
}

func localeGet(_ context.Context, c *Call, _ noArgs) (any, error) {
	path, key := localeFile(c)
	lines, err := fileLines(path)
	if err != nil {
		c.SetRetcode(2)
		c.Log.Error("locale.get_locale: " + osErrorText(err))
		return "", nil
	}
	for _, line := range lines {
		if v, ok := strings.CutPrefix(line, key+"="); ok {
			return strings.ReplaceAll(v, `"`, ""), nil
		}
	}
	c.SetRetcode(1)
	return "", nil
}

func localeSet(ctx context.Context, c *Call, a localeArgs) (any, error) {
	if strings.ContainsAny(a.Locale, "\n\"") {
		return nil, InvocationErrorf("%s is no locale", Repr(a.Locale))
	}
	path, key := localeFile(c)
	if systemdRuns() && which("localectl") != "" && path != "/etc/default/locale" {
		if ok, err := runOK(ctx, c, "localectl", "set-locale", "LANG="+a.Locale); err == nil && ok {
			return true, nil
		}
	}
	if path == "/etc/default/locale" && which("update-locale") == "" {
		return nil, ExecErrorf("Cannot set locale: \"update-locale\" was not found.")
	}
	if path == "/etc/default/locale" {
		if _, err := runOK(ctx, c, "update-locale"); err != nil { // makes the file
			return nil, err
		}
	}
	line := key + `="` + a.Locale + `"`
	if path == "/etc/locale.conf" {
		line = key + "=" + a.Locale
	}
	return true, replaceLine(ctx, c, path, "^"+key+"=.*", line)
}

// replaceLine sets a line of a file as file.replace does, backup included.
func replaceLine(ctx context.Context, c *Call, path, pattern, line string) error {
	if !isFile(path) {
		if _, err := c.Run(ctx, "file.touch", path); err != nil {
			return err
		}
	}
	_, err := c.RunKw(ctx, "file.replace", []any{path, pattern, line}, NewMap("append_if_not_found", true))
	return err
}

type localeGenArgs struct {
	Locale string
	Kwargs *Map `arg:"**kwargs"`
}

func localeGen(ctx context.Context, c *Call, a localeGenArgs) (any, error) {
	p := splitLocale(a.Locale)
	name := p.language + "_" + p.territory
	ubuntu := grain(c, "os") == "Ubuntu"
	if p.charmap == "" && !ubuntu {
		p.charmap = p.codeset
	}
	locale := p.String()
	search, valid := "", false
	switch {
	case grain(c, "os") == "Debian" || grain(c, "os_family") == "Gentoo":
		search = "/usr/share/i18n/SUPPORTED"
		lines, err := fileLines(search)
		if err != nil && which("locale-gen") == "" && which("localedef") == "" {
			return nil, InvocationErrorf("File not found: %s", search)
		}
		valid = hasString(lines, locale)
	default:
		search = "/usr/share/i18n/locales"
		if grain(c, "os_family") == "Suse" {
			search = "/usr/share/locale"
		}
		files, err := os.ReadDir(search)
		if err != nil {
			return nil, ExecErrorf("Locale \"%s\" is not available.", locale)
		}
		for _, f := range files {
			valid = valid || f.Name() == name
		}
	}
	if !valid {
		c.Log.Error("The provided locale \"" + locale + "\" is not found in " + search)
		return false, nil
	}
	if isFile("/etc/locale.gen") {
		if err := replaceLine(ctx, c, "/etc/locale.gen", `^\s*#\s*`+regexp.QuoteMeta(locale)+`\s*$`, locale+"\n"); err != nil {
			return nil, err
		}
	}
	verbose := Truth(a.Kwargs.Value("verbose"))
	var cmd []string
	switch {
	case which("locale-gen") != "":
		cmd = []string{"locale-gen"}
		if grain(c, "os_family") == "Gentoo" {
			cmd = append(cmd, "--generate")
		}
		cmd = append(cmd, locale)
	case which("localedef") != "":
		cmd = []string{"localedef", "--force", "-i", name, "-f", p.codeset, name + "." + p.codeset, "--quiet"}
		if verbose {
			cmd[len(cmd)-1] = "--verbose"
		}
	default:
		return nil, ExecErrorf("Command \"locale-gen\" or \"localedef\" was not found on this system.")
	}
	r, err := runSaltTool(ctx, c, toolOptions{}, cmd...)
	if err != nil {
		return nil, err
	}
	if verbose {
		return r.asMap(), nil
	}
	return !r.failed(), nil
}
