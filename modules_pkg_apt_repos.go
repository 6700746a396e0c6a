// Provider apt of module pkg: the entries of sources.list and of the .list files
// beside it, and the keys of repositories.
package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

const aptModRepoDoc = `Add an entry to the sources or change one, and return it.

repo      the line as it stands in the sources
file      file for a new entry
comps     components with commas between
disabled  comment the entry out
architectures  architectures with commas between
key_url   file or URL of the repository's key
keyid, keyserver  key to fetch from a key server
refresh   False: do not bring the lists up to date

CLI Example:

    salt '*' pkg.mod_repo 'deb [signed-by=/etc/apt/keyrings/foo.gpg] https://example.org/debian stable main' file=/etc/apt/sources.list.d/foo.list`

// aptSource is one line of a sources file.
type aptSource struct {
	invalid, disabled bool
	kind, uri, dist   string
	comps             []string
	options           [][2]string // key and whole option, in order
	archs             []string
	signedBy          string
	comment           string
	line, file        string
}

func (s *aptSource) option(key string) int {
	for i, o := range s.options {
		if o[0] == key {
			return i
		}
	}
	return -1
}

// parseAptSource reads one line; what is no entry is invalid and kept as it is.
func parseAptSource(line, file string) *aptSource {
	s := &aptSource{line: line, file: file}
	text := strings.TrimSpace(line)
	if text == "" {
		s.invalid = true
		return s
	}
	if strings.HasPrefix(text, "#") {
		s.disabled = true
		text = text[1:]
	}
	if i := strings.IndexByte(text, '#'); i > 0 {
		s.comment, text = text[i+1:], text[:i]
	}
	f := strings.Fields(text)
	if len(f) < 3 || !hasString([]string{"deb", "deb-src", "rpm", "rpm-src"}, f[0]) {
		s.invalid = true
		return s
	}
	s.kind = f[0]
	rest := f[1:]
	if strings.HasPrefix(rest[0], "[") {
		end := -1
		for i, w := range rest {
			if strings.HasSuffix(w, "]") {
				end = i
				break
			}
		}
		if end < 0 || len(rest) < end+3 {
			s.invalid = true
			return s
		}
		for _, opt := range strings.Fields(strings.Trim(strings.Join(rest[:end+1], " "), "[] ")) {
			key, value, _ := strings.Cut(opt, "=")
			switch {
			case strings.HasPrefix(opt, "arch"):
				key = "arch"
				s.archs = append(s.archs, strings.Split(value, ",")...)
			case strings.HasPrefix(opt, "signed-by"):
				key, s.signedBy = "signedby", value
			}
			s.options = append(s.options, [2]string{key, opt})
		}
		rest = rest[end+1:]
	}
	s.uri, s.dist, s.comps = rest[0], rest[1], rest[2:]
	return s
}

// text is the entry as a line of its file.
func (s *aptSource) text() string {
	if s.invalid {
		return s.line
	}
	var b []string
	if s.disabled {
		b = append(b, "#")
	}
	b = append(b, s.kind)
	set := func(key, value string) {
		if i := s.option(key); i >= 0 {
			s.options[i][1] = value
		} else {
			s.options = append(s.options, [2]string{key, value})
		}
	}
	if len(s.archs) > 0 {
		set("arch", "arch="+strings.Join(s.archs, ","))
	}
	if s.signedBy != "" {
		set("signedby", "signed-by="+s.signedBy)
	}
	var opts []string
	for _, o := range s.options {
		opts = append(opts, o[1])
	}
	if len(opts) > 0 {
		b = append(b, "["+strings.Join(opts, " ")+"]")
	}
	b = append(b, s.uri, s.dist, strings.Join(s.comps, " "))
	if s.comment != "" {
		b = append(b, "#"+s.comment)
	}
	return strings.Join(b, " ") + "\n"
}

func (s *aptSource) asMap() *Map {
	return NewMap("file", s.file, "comps", Strings(s.comps), "disabled", s.disabled, "dist", s.dist, "type", s.kind, "uri", s.uri,
		"line", strings.TrimSpace(s.line), "architectures", Strings(s.archs), "signedby", s.signedBy)
}

// readAptSources reads all entries.
func readAptSources() []*aptSource {
	files := []string{"/etc/apt/sources.list"}
	more, _ := filepath.Glob("/etc/apt/sources.list.d/*.list")
	sort.Strings(more)
	var out []*aptSource
	for _, file := range append(files, more...) {
		p, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for _, line := range pyLines(string(p), true) {
			out = append(out, parseAptSource(line, file))
		}
	}
	return out
}

// writeAptSources writes the files that have entries.
func writeAptSources(all []*aptSource) error {
	texts := map[string]*strings.Builder{}
	var files []string
	for _, s := range all {
		b := texts[s.file]
		if b == nil {
			b = &strings.Builder{}
			texts[s.file] = b
			files = append(files, s.file)
		}
		line := s.text()
		if !strings.HasSuffix(line, "\n") {
			line += "\n"
		}
		b.WriteString(line)
	}
	for _, file := range files {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return osError(err)
		}
		if err := replaceSystemFile(file, []byte(texts[file].String()), 0o644); err != nil {
			return osError(err)
		}
	}
	return nil
}

func aptListRepos(context.Context, *Call, kwargsOnly) (any, error) {
	out := &Map{}
	for _, s := range readAptSources() {
		if s.invalid {
			continue
		}
		l, _ := out.Value(s.uri).(*List)
		if l == nil {
			l = &List{}
			out.Set(s.uri, l)
		}
		l.Append(s.asMap())
	}
	return out, nil
}

type aptRepoArgs struct {
	Repo   string
	Kwargs *Map `arg:"**kwargs"`
}

// ppaLine is the line that a short name like ppa:owner/name stands for.
func ppaLine(c *Call, repo string, kwargs *Map) (string, error) {
	rest, ok := strings.CutPrefix(repo, "ppa:")
	if !ok {
		return repo, nil
	}
	switch grain(c, "os") {
	case "Ubuntu", "Mint", "neon":
	default:
		return "", ExecErrorf("cannot parse \"ppa:\" style repo definitions: %s", repo)
	}
	owner, name, ok := strings.Cut(rest, "/")
	if !ok {
		return "", ExecErrorf("Unable to get PPA info from argument. Expected format \"<PPA_OWNER>/<PPA_NAME>\" (e.g. saltstack/salt) not found.  Received '%s' instead.", rest)
	}
	host := "http://ppa.launchpad.net"
	if auth := kwargs.Value("ppa_auth"); Truth(auth) {
		host = "https://" + Str(auth) + "@private-ppa.launchpad.net"
	}
	return "deb " + host + "/" + owner + "/" + name + "/ubuntu " + grain(c, "oscodename") + " main", nil
}

func sameSource(a, b *aptSource) bool {
	return a.kind == b.kind && strings.TrimRight(a.uri, "/") == strings.TrimRight(b.uri, "/") && a.dist == b.dist
}

func sharesComps(a, b []string) bool {
	for _, comp := range a {
		if hasString(b, comp) {
			return true
		}
	}
	return false
}

func aptGetRepo(_ context.Context, c *Call, a aptRepoArgs) (any, error) {
	line, err := ppaLine(c, a.Repo, a.Kwargs)
	if err != nil {
		line = a.Repo
	}
	want := parseAptSource(line, "")
	for _, s := range readAptSources() {
		if !s.invalid && sameSource(s, want) && (len(want.comps) == 0 || sharesComps(want.comps, s.comps)) {
			return s.asMap(), nil
		}
	}
	return &Map{}, nil
}

func aptDelRepo(ctx context.Context, c *Call, a aptRepoArgs) (any, error) {
	line, err := ppaLine(c, a.Repo, a.Kwargs)
	if err != nil {
		line = a.Repo
	}
	want := parseAptSource(line, "")
	all := readAptSources()
	touched := map[string]bool{}
	var order []string
	var kept []*aptSource
	for _, s := range all {
		hit := !s.invalid && sameSource(s, want) && strings.Join(s.archs, ",") == strings.Join(want.archs, ",") &&
			(sharesComps(s.comps, want.comps) || len(s.comps) == 0 && len(want.comps) == 0)
		if hit {
			if !touched[s.file] {
				touched[s.file] = true
				order = append(order, s.file)
			}
			var rest []string
			for _, comp := range s.comps {
				if !hasString(want.comps, comp) {
					rest = append(rest, comp)
				}
			}
			if len(rest) == 0 {
				continue
			}
			s.comps = rest
		}
		kept = append(kept, s)
	}
	if len(order) == 0 {
		return nil, ExecErrorf("Repo %s doesn't exist in the sources.list(s)", a.Repo)
	}
	left := map[string]int{}
	for _, s := range kept {
		left[s.file]++
	}
	ret := ""
	for _, file := range order {
		if left[file] == 0 && strings.Contains(file, "sources.list.d/") {
			if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
				return nil, osError(err)
			}
			ret += "File " + file + " containing repo '" + a.Repo + "' has been removed."
			continue
		}
		if left[file] == 0 {
			if err := replaceSystemFile(file, nil, 0o644); err != nil {
				return nil, osError(err)
			}
		}
		ret += "Repo '" + a.Repo + "' has been removed from " + file + ".\n"
	}
	if err := writeAptSources(kept); err != nil {
		return nil, err
	}
	if _, err := (aptManager{}).refresh(ctx, c, &Map{}); err != nil {
		return nil, err
	}
	return ret, nil
}

type aptModRepoArgs struct {
	Repo    string
	Saltenv string `def:"'base'"`
	Aptkey  bool   `def:"True"`
	Kwargs  *Map   `arg:"**kwargs"`
}

func commaList(v any) []string {
	var out []string
	for _, item := range groupList(v) {
		out = append(out, strings.TrimSpace(item))
	}
	return out
}

func aptModRepo(ctx context.Context, c *Call, a aptModRepoArgs) (any, error) {
	kw := a.Kwargs
	line, err := ppaLine(c, a.Repo, kw)
	if err != nil {
		return nil, err
	}
	want := parseAptSource(line, "/etc/apt/sources.list")
	if want.invalid {
		return nil, InvocationErrorf("Name %s is not valid. This must be the complete repo entry as seen in the sources file", a.Repo)
	}
	aptkey := a.Aptkey && which("apt-key") != ""
	if !aptkey && want.signedBy == "" {
		return nil, InvocationErrorf("missing 'signedby' option when apt-key is missing")
	}
	if err := aptRepoKey(ctx, c, a, want, aptkey); err != nil {
		return nil, err
	}
	if v, ok := kw.Get("comps"); ok {
		want.comps = commaList(v)
	}
	if v, ok := kw.Get("architectures"); ok {
		want.archs = commaList(v)
	}
	all := readAptSources()
	var found *aptSource
	for _, s := range all {
		if s.invalid || !sameSource(s, want) && !(kw.Has("dist") && s.dist == Str(kw.Value("dist")) && s.kind == Str(kw.Value("type"))) {
			continue
		}
		if len(s.comps) == 0 || sharesComps(want.comps, s.comps) || strings.Join(s.archs, ",") != strings.Join(want.archs, ",") {
			found = s
			break
		}
	}
	if found == nil {
		found = parseAptSource(line, "/etc/apt/sources.list")
		all = append(all, found)
	}
	if v := kw.Value("comments"); v != nil {
		var words []string
		for _, item := range toItems(v) {
			words = append(words, strings.TrimSpace(strings.TrimLeft(Str(item), "# ")))
		}
		found.comment = strings.Join(words, " ")
	}
	if v, ok := kw.Get("disabled"); ok {
		found.disabled = pyIsTrue(v)
	} else if v, ok := kw.Get("enabled"); ok {
		found.disabled = !pyIsTrue(v)
	}
	if v := kw.Value("file"); Truth(v) {
		found.file = Str(v)
	}
	if v := kw.Value("dist"); Truth(v) {
		found.dist = Str(v)
	}
	if v := kw.Value("uri"); Truth(v) {
		found.uri = Str(v)
	}
	found.comps, found.archs, found.options, found.signedBy = want.comps, want.archs, want.options, want.signedBy
	found.uri = want.uri
	found.line = found.text()
	if err := writeAptSources(all); err != nil {
		return nil, err
	}
	if Truth(kwargOf(kw, "refresh_db", kwargOf(kw, "refresh", true))) {
		if _, err := (aptManager{}).refresh(ctx, c, &Map{}); err != nil {
			return nil, err
		}
	}
	m := found.asMap()
	m.Delete("dist")
	m.Set("line", line+"\n")
	return NewMap(a.Repo, m), nil
}

// aptRepoKey brings the key of a repository to where its entry names it.
func aptRepoKey(ctx context.Context, c *Call, a aptModRepoArgs, want *aptSource, aptkey bool) error {
	kw := a.Kwargs
	key := aptAddKeyArgs{Saltenv: a.Saltenv, Aptkey: aptkey}
	if want.signedBy != "" {
		key.Keydir, key.Keyfile = filepath.Dir(want.signedBy), filepath.Base(want.signedBy)
	}
	switch {
	case kw.Has("keyid"):
		if !Truth(kw.Value("keyid")) || !Truth(kw.Value("keyserver")) {
			return OtherErrorf("NameError", "both keyserver and keyid options required.")
		}
		key.Keyserver = kw.Value("keyserver")
		for _, id := range toItems(kw.Value("keyid")) {
			key.Keyid = Str(id)
			if ok, err := aptAddRepoKey(ctx, c, key); err != nil || ok != true {
				if err == nil {
					err = ExecErrorf("Error: Could not add key: %s", Str(id))
				}
				return err
			}
		}
	case kw.Has("key_url"):
		key.Path = kw.Value("key_url")
		if ok, err := aptAddRepoKey(ctx, c, key); err != nil || ok != true {
			if err == nil {
				err = ExecErrorf("Error: Could not add key: %s", Str(key.Path))
			}
			return err
		}
	case kw.Has("key_text"):
		key.Text = kw.Value("key_text")
		if ok, err := aptAddRepoKey(ctx, c, key); err != nil || ok != true {
			if err == nil {
				err = ExecErrorf("Error: failed to add key:\n%s", Str(key.Text))
			}
			return err
		}
	}
	return nil
}

func aptExpandRepo(_ context.Context, c *Call, a kwargsOnly) (any, error) {
	if !a.Kwargs.Has("repo") {
		return nil, InvocationErrorf("missing 'repo' argument")
	}
	line, err := ppaLine(c, Str(a.Kwargs.Value("repo")), a.Kwargs)
	if err != nil {
		return nil, err
	}
	s := parseAptSource(line, "/etc/apt/sources.list")
	if v, ok := a.Kwargs.Get("comps"); ok {
		s.comps = commaList(v)
	}
	if v, ok := a.Kwargs.Get("architectures"); ok {
		s.archs = commaList(v)
	}
	if v, ok := a.Kwargs.Get("disabled"); ok {
		s.disabled = pyIsTrue(v)
	}
	s.line = s.text()
	return s.asMap(), nil
}

type aptKeysArgs struct {
	Aptkey bool `def:"True"`
	Keydir any  `def:"None"`
}

func keyringDir(v any) string {
	if Truth(v) {
		return Str(v)
	}
	return "/etc/apt/keyrings"
}

func aptGetRepoKeys(ctx context.Context, c *Call, a aptKeysArgs) (any, error) {
	if a.Aptkey && which("apt-key") != "" {
		r, err := runApt(ctx, c, toolOptions{}, "apt-key", "adv", "--batch", "--list-public-keys", "--with-fingerprint", "--with-fingerprint", "--with-colons", "--fixed-list-mode")
		if err != nil {
			return nil, err
		}
		return parseKeyList(r.stdout), nil
	}
	dir := keyringDir(a.Keydir)
	files, err := os.ReadDir(dir)
	if err != nil {
		c.Log.Error("The directory " + dir + " does not exist. Please create this directory only writable by root")
		return false, nil
	}
	text := ""
	for _, f := range files {
		r, err := runSaltTool(ctx, c, toolOptions{}, "gpg", "--no-default-keyring", "--keyring", filepath.Join(dir, f.Name()), "--list-keys", "--with-colons")
		if err != nil {
			return nil, err
		}
		text += r.stdout + "\n"
	}
	return parseKeyList(text), nil
}

// parseKeyList reads what gpg --with-colons prints.
func parseKeyList(text string) *Map {
	out := &Map{}
	var key, part *Map
	value := func(f []string, i int) any {
		if i >= len(f) || f[i] == "" {
			return nil
		}
		if n, ok := intText(f[i]); ok {
			return n
		}
		return f[i]
	}
	for _, line := range strings.Split(text, "\n") {
		f := strings.Split(strings.TrimSpace(line), ":")
		switch f[0] {
		case "pub", "sub":
			if len(f) < 12 {
				continue
			}
			m := NewMap("algorithm", value(f, 3), "bits", value(f, 2), "capability", value(f, 11), "date_creation", value(f, 5),
				"date_expiration", value(f, 6), "keyid", f[4], "validity", value(f, 1))
			if part = m; f[0] == "pub" {
				key = m
				out.Set(f[4], m)
			} else if key != nil {
				key.Set("subkey", m)
			}
		case "fpr":
			if part != nil {
				part.Set("fingerprint", value(f, 9))
			}
		case "uid":
			if key != nil {
				key.Set("uid", value(f, 9))
				key.Set("uid_hash", value(f, 7))
			}
		}
	}
	return out
}

type aptAddKeyArgs struct {
	Path      any    `def:"None"`
	Text      any    `def:"None"`
	Keyserver any    `def:"None"`
	Keyid     any    `def:"None"`
	Saltenv   string `def:"'base'"`
	Aptkey    bool   `def:"True"`
	Keydir    any    `def:"None"`
	Keyfile   any    `def:"None"`
}

func aptAddRepoKey(ctx context.Context, c *Call, a aptAddKeyArgs) (any, error) {
	dir := keyringDir(a.Keydir)
	aptkey := a.Aptkey && which("apt-key") != ""
	if !aptkey && !isDir(dir) {
		c.Log.Error("The directory " + dir + " does not exist. Please create this directory only writable by root")
		return false, nil
	}
	if Truth(a.Keyid) {
		if have, err := aptGetRepoKeys(ctx, c, aptKeysArgs{Aptkey: aptkey, Keydir: dir}); err == nil {
			if m, ok := have.(*Map); ok {
				for id := range m.All() {
					if strings.HasSuffix(Str(id), Str(a.Keyid)) {
						return true, nil
					}
				}
			}
		}
	}
	cmd, stdin, written := []string{"apt-key"}, any(nil), ""
	switch {
	case Truth(a.Path):
		cached, err := c.Run(ctx, "cp.cache_file", a.Path, a.Saltenv)
		if err != nil {
			return nil, err
		}
		if !Truth(cached) {
			c.Log.Error("Unable to get cached copy of file: " + Str(a.Path))
			return false, nil
		}
		if !aptkey {
			return aptStoreKey(ctx, c, Str(cached), dir, a.Keyfile)
		}
		cmd = append(cmd, "add", Str(cached))
	case Truth(a.Text):
		cmd, stdin = append(cmd, "add", "-"), Str(a.Text)
	case Truth(a.Keyserver):
		if !Truth(a.Keyid) {
			return nil, InvocationErrorf("No keyid or keyid too short for keyserver: %s", Str(a.Keyserver))
		}
		if aptkey {
			cmd = append(cmd, "adv", "--batch", "--keyserver", Str(a.Keyserver), "--recv", Str(a.Keyid))
			break
		}
		if !Truth(a.Keyfile) {
			c.Log.Error("You must define the name of the key file to save the key. See keyfile argument")
			return false, nil
		}
		written = filepath.Join(dir, Str(a.Keyfile))
		cmd = []string{"gpg", "--no-default-keyring", "--keyring", written, "--keyserver", Str(a.Keyserver), "--recv-keys", Str(a.Keyid)}
	case Truth(a.Keyid):
		return nil, InvocationErrorf("No keyserver specified for keyid: %s", Str(a.Keyid))
	default:
		return nil, TypeErrorf("add_repo_key() takes at least 1 argument (0 given)")
	}
	r, err := runApt(ctx, c, toolOptions{stdin: stdin}, cmd...)
	if err != nil {
		return nil, err
	}
	if r.failed() {
		c.Log.Error("Unable to add repo key: " + r.stderr)
		return false, nil
	}
	if written != "" {
		return true, os.Chmod(written, 0o644)
	}
	return true, nil
}

// aptStoreKey puts a key file into the directory of keyrings, without its ASCII
// armour unless its name says that it has one.
func aptStoreKey(ctx context.Context, c *Call, from, dir string, keyfile any) (any, error) {
	name := filepath.Base(from)
	if Truth(keyfile) {
		name = Str(keyfile)
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return nil, osError(err)
	}
	dest := filepath.Join(dir, filepath.Base(name))
	armoured := strings.HasPrefix(strings.TrimLeft(string(text), "-"), "BEGIN PGP")
	if armoured && !strings.HasSuffix(name, ".asc") {
		if which("gpg") == "" {
			c.Log.Error("Detected an ASCII armored key " + from + " and the gpg binary is not available. Not decrypting the key.")
			return false, nil
		}
		if ok, err := runOK(ctx, c, "gpg", "--yes", "--output", dest, "--dearmor", from); !ok {
			return false, err
		}
		return true, os.Chmod(dest, 0o644)
	}
	if err := writeFileAtomic(dest, text, 0o644); err != nil {
		return nil, err
	}
	return true, nil
}

type aptDelKeyArgs struct {
	Name   any  `def:"None"`
	Aptkey bool `def:"True"`
	Keydir any  `def:"None"`
	Kwargs *Map `arg:"**kwargs"`
}

func aptDelRepoKey(ctx context.Context, c *Call, a aptDelKeyArgs) (any, error) {
	v := a.Kwargs.Value("keyid")
	if !Truth(v) {
		return nil, InvocationErrorf("keyid or keyid_ppa and PPA name must be passed")
	}
	id := Str(v)
	if a.Aptkey && which("apt-key") != "" {
		r, err := runApt(ctx, c, toolOptions{}, "apt-key", "del", id)
		if err != nil {
			return nil, err
		}
		if r.failed() {
			return nil, ExecErrorf("Failed to remove keyid %s: %s", id, r.stderr)
		}
		return v, nil
	}
	if !regexp.MustCompile(`^(.{8}|.{16})$`).MatchString(id) {
		c.Log.Error("The keyid needs to be either 8 or 16 characters")
		return false, nil
	}
	dir := keyringDir(a.Keydir)
	files, err := os.ReadDir(dir)
	if err != nil {
		c.Log.Error("The directory " + dir + " does not exist. Please create this directory only writable by root")
		return false, nil
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		r, err := runSaltTool(ctx, c, toolOptions{}, "gpg", "--no-default-keyring", "--keyring", path, "--list-keys", "--with-colons")
		if err != nil {
			return nil, err
		}
		for key := range parseKeyList(r.stdout).All() {
			if strings.HasSuffix(Str(key), id) {
				if err := os.Remove(path); err != nil {
					return nil, osError(err)
				}
				return v, nil
			}
		}
	}
	c.Log.Error("Could not find the key file for keyid: " + id)
	return false, nil
}
