// Versions of packages, compared as their package managers do: dpkg (also opkg),
// rpm, pacman and apk; and tables of versions. Pure functions.
package main

import (
	"sort"
	"strings"
)

// versionTable is what repositories have: versions by package by repository.
type versionTable struct{ repos Map }

func (t *versionTable) add(repo, name, version string) {
	in := t.repos.Map(repo)
	if in == nil {
		in = &Map{}
		t.repos.Set(repo, in)
	}
	if !containsItem(toItems(in.Value(name)), version) {
		appendTo(in, name, version)
	}
}

// versions are all, the newest first, by repository or together.
func (t *versionTable) versions(byRepo bool) *Map {
	together := &Map{}
	for _, v := range t.repos.All() {
		for name, l := range v.(*Map).All() {
			for _, version := range toItems(l) {
				appendTo(together, Str(name), version)
			}
			sortVersions(l.(*List))
		}
	}
	if byRepo {
		return &t.repos
	}
	for _, l := range together.All() {
		sortVersions(l.(*List))
	}
	return together
}

func sortVersions(l *List) {
	sort.SliceStable(l.Items, func(i, j int) bool { return rpmCompare(Str(l.Items[i]), Str(l.Items[j])) > 0 })
}

// nameMatches says whether a name is one of those or fits a pattern, or none is asked.
func nameMatches(patterns []string, name string) bool {
	for _, p := range patterns {
		if GlobMatch(p, name) {
			return true
		}
	}
	return len(patterns) == 0
}

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isAlpha(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// compareNumberTexts compares digits of any length as numbers.
func compareNumberTexts(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		return sign(len(a) - len(b))
	}
	return strings.Compare(a, b)
}

// splitEpoch splits epoch:rest; no epoch is 0.
func splitEpoch(v string) (epoch, rest string) {
	if i := strings.IndexByte(v, ':'); i > 0 && strings.Trim(v[:i], "0123456789") == "" {
		return v[:i], v[i+1:]
	}
	return "0", v
}

// splitRelease splits version-release at the last dash.
func splitRelease(v string) (version, release string) {
	if i := strings.LastIndexByte(v, '-'); i >= 0 {
		return v[:i], v[i+1:]
	}
	return v, ""
}

// dpkgCompare orders versions as deb-version(7) says.
func dpkgCompare(a, b string) int {
	ea, a := splitEpoch(strings.TrimSpace(a))
	eb, b := splitEpoch(strings.TrimSpace(b))
	if n := compareNumberTexts(ea, eb); n != 0 {
		return n
	}
	ua, ra := splitRelease(a)
	ub, rb := splitRelease(b)
	if n := dpkgPart(ua, ub); n != 0 {
		return n
	}
	return dpkgPart(ra, rb)
}

// dpkgOrder is the place of a character: ~ before the end, letters before all else.
func dpkgOrder(s string) int {
	if s == "" || isDigit(s[0]) {
		return 0
	}
	switch c := s[0]; {
	case c == '~':
		return -1
	case isAlpha(c):
		return int(c)
	default:
		return int(c) + 256
	}
}

func dpkgPart(a, b string) int {
	for a != "" || b != "" {
		for a != "" && !isDigit(a[0]) || b != "" && !isDigit(b[0]) {
			if n := dpkgOrder(a) - dpkgOrder(b); n != 0 {
				return sign(n)
			}
			if a != "" {
				a = a[1:]
			}
			if b != "" {
				b = b[1:]
			}
		}
		i, j := 0, 0
		for i < len(a) && isDigit(a[i]) {
			i++
		}
		for j < len(b) && isDigit(b[j]) {
			j++
		}
		if n := compareNumberTexts(a[:i], b[:j]); n != 0 {
			return n
		}
		a, b = a[i:], b[j:]
	}
	return 0
}

// rpmCompare orders epoch:version-release. A release counts only if both have one.
func rpmCompare(a, b string) int {
	ea, a := splitEpoch(strings.TrimSpace(a))
	eb, b := splitEpoch(strings.TrimSpace(b))
	if n := compareNumberTexts(ea, eb); n != 0 {
		return n
	}
	va, ra := splitRelease(a)
	vb, rb := splitRelease(b)
	if n := rpmPart(va, vb); n != 0 {
		return n
	}
	if ra == "" || rb == "" {
		return 0
	}
	return rpmPart(ra, rb)
}

// pacmanCompare orders as rpmCompare did before it knew ~ and ^: letters that are
// left over make a version older, and the number of separators counts.
func pacmanCompare(a, b string) int {
	ea, a := splitEpoch(strings.TrimSpace(a))
	eb, b := splitEpoch(strings.TrimSpace(b))
	if n := compareNumberTexts(ea, eb); n != 0 {
		return n
	}
	va, ra := splitRelease(a)
	vb, rb := splitRelease(b)
	if n := pacmanPart(va, vb); n != 0 || ra == "" || rb == "" {
		return n
	}
	return pacmanPart(ra, rb)
}

func pacmanPart(a, b string) int {
	if a == b {
		return 0
	}
	isOther := func(r rune) bool { return r > 127 || !isDigit(byte(r)) && !isAlpha(byte(r)) }
	for a != "" && b != "" {
		x, y := strings.TrimLeftFunc(a, isOther), strings.TrimLeftFunc(b, isOther)
		skipped := sign((len(a) - len(x)) - (len(b) - len(y)))
		a, b = x, y
		if a == "" || b == "" {
			break
		}
		if skipped != 0 {
			return skipped
		}
		digits := isDigit(a[0])
		take := func(s string) int {
			i := 0
			for i < len(s) && (digits && isDigit(s[i]) || !digits && isAlpha(s[i])) {
				i++
			}
			return i
		}
		i, j := take(a), take(b)
		if j == 0 { // a number is newer than letters
			if digits {
				return 1
			}
			return -1
		}
		n := strings.Compare(a[:i], b[:j])
		if digits {
			n = compareNumberTexts(a[:i], b[:j])
		}
		if n != 0 {
			return n
		}
		a, b = a[i:], b[j:]
	}
	switch {
	case a == "" && b == "":
		return 0
	case a != "" && isAlpha(a[0]), a == "" && !isAlpha(b[0]):
		return -1
	}
	return 1
}

// rpmPart compares segments of digits or letters; ~ comes before the end, ^ after
// it but before anything else.
func rpmPart(a, b string) int {
	if a == b {
		return 0
	}
	for a != "" || b != "" {
		skip := func(s string) string {
			for s != "" && !isDigit(s[0]) && !isAlpha(s[0]) && s[0] != '~' && s[0] != '^' {
				s = s[1:]
			}
			return s
		}
		a, b = skip(a), skip(b)
		at, bt := strings.HasPrefix(a, "~"), strings.HasPrefix(b, "~")
		if at || bt {
			if !at {
				return 1
			}
			if !bt {
				return -1
			}
			a, b = a[1:], b[1:]
			continue
		}
		ac, bc := strings.HasPrefix(a, "^"), strings.HasPrefix(b, "^")
		if ac || bc {
			switch {
			case a == "":
				return -1
			case b == "":
				return 1
			case !ac:
				return 1
			case !bc:
				return -1
			}
			a, b = a[1:], b[1:]
			continue
		}
		if a == "" || b == "" {
			break
		}
		kind := isAlpha
		if isDigit(a[0]) {
			kind = isDigit
		}
		take := func(s string) int {
			i := 0
			for i < len(s) && kind(s[i]) {
				i++
			}
			return i
		}
		i, j := take(a), take(b)
		if j == 0 {
			// Numbers are newer than letters.
			if isDigit(a[0]) {
				return 1
			}
			return -1
		}
		n := strings.Compare(a[:i], b[:j])
		if isDigit(a[0]) {
			n = compareNumberTexts(a[:i], b[:j])
		}
		if n != 0 {
			return n
		}
		a, b = a[i:], b[j:]
	}
	return sign(len(a) - len(b))
}

// apkSuffix is the rank of _alpha and the like; before 0 is before the release.
func apkSuffix(name string) (int, bool) {
	for i, s := range []string{"alpha", "beta", "pre", "rc"} {
		if s == name {
			return i - 4, true
		}
	}
	for i, s := range []string{"cvs", "svn", "git", "hg", "p"} {
		if s == name {
			return i + 1, true
		}
	}
	return 0, false
}

// apkParts splits a version into numbers, letter, suffixes and revision.
type apkParts struct {
	numbers  []string
	letter   byte
	suffixes [][2]string
	revision string
}

func parseApkVersion(v string) (p apkParts) {
	v, p.revision, _ = strings.Cut(v, "-r")
	fields := strings.Split(v, "_")
	base := fields[0]
	if base != "" && isAlpha(base[len(base)-1]) {
		p.letter = base[len(base)-1]
		base = base[:len(base)-1]
	}
	p.numbers = strings.Split(base, ".")
	for _, s := range fields[1:] {
		i := 0
		for i < len(s) && isAlpha(s[i]) {
			i++
		}
		p.suffixes = append(p.suffixes, [2]string{s[:i], s[i:]})
	}
	return p
}

// apkCompare orders versions as apk does.
func apkCompare(a, b string) int {
	x, y := parseApkVersion(strings.TrimSpace(a)), parseApkVersion(strings.TrimSpace(b))
	for i := 0; i < len(x.numbers) && i < len(y.numbers); i++ {
		p, q := x.numbers[i], y.numbers[i]
		n := 0
		if i > 0 && (strings.HasPrefix(p, "0") || strings.HasPrefix(q, "0")) {
			n = strings.Compare(p, q) // a part with a leading zero is a fraction
		} else {
			n = compareNumberTexts(p, q)
		}
		if n != 0 {
			return n
		}
	}
	if n := sign(len(x.numbers) - len(y.numbers)); n != 0 {
		return n
	}
	if x.letter != y.letter {
		return sign(int(x.letter) - int(y.letter))
	}
	for i := 0; i < len(x.suffixes) || i < len(y.suffixes); i++ {
		rank := func(s [][2]string) (int, string) {
			if i >= len(s) {
				return 0, ""
			}
			n, _ := apkSuffix(s[i][0])
			return n, s[i][1]
		}
		rx, nx := rank(x.suffixes)
		ry, ny := rank(y.suffixes)
		if rx != ry {
			return sign(rx - ry)
		}
		if n := compareNumberTexts(nx, ny); n != 0 {
			return n
		}
	}
	return compareNumberTexts(x.revision, y.revision)
}
