// Users and groups of this box: /etc/passwd and /etc/group first, getent for
// those that a directory service knows.
package main

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// passwdEntry is one user.
type passwdEntry struct {
	name, passwd string
	uid, gid     int
	gecos        string
	home, shell  string
}

// groupEntry is one group.
type groupEntry struct {
	name, passwd string
	gid          int
	members      []string
}

func parsePasswdLine(line string) (passwdEntry, bool) {
	f := strings.Split(strings.TrimRight(line, "\r\n"), ":")
	if len(f) < 7 || f[0] == "" {
		return passwdEntry{}, false
	}
	uid, err := strconv.Atoi(f[2])
	gid, err2 := strconv.Atoi(f[3])
	if err != nil || err2 != nil {
		return passwdEntry{}, false
	}
	return passwdEntry{f[0], f[1], uid, gid, f[4], f[5], f[6]}, true
}

func parseGroupLine(line string) (groupEntry, bool) {
	f := strings.Split(strings.TrimRight(line, "\r\n"), ":")
	if len(f) < 4 || f[0] == "" {
		return groupEntry{}, false
	}
	gid, err := strconv.Atoi(f[2])
	if err != nil {
		return groupEntry{}, false
	}
	g := groupEntry{name: f[0], passwd: f[1], gid: gid}
	for _, m := range strings.Split(f[3], ",") {
		if m = strings.TrimSpace(m); m != "" {
			g.members = append(g.members, m)
		}
	}
	return g, true
}

// scanLines calls f for each line until it returns false.
func scanLines(path string, f func(line string) bool) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	s := bufio.NewScanner(file)
	s.Buffer(make([]byte, 0, 4096), 1<<20)
	for s.Scan() {
		if !f(s.Text()) {
			return nil
		}
	}
	return s.Err()
}

// allUsers lists the users of the passwd file under root ("/" or "").
func allUsers(root string) []passwdEntry {
	var out []passwdEntry
	_ = scanLines(root+"/etc/passwd", func(line string) bool {
		if e, ok := parsePasswdLine(line); ok {
			out = append(out, e)
		}
		return true
	})
	return out
}

// allGroups lists the groups of the group file under root.
func allGroups(root string) []groupEntry {
	var out []groupEntry
	_ = scanLines(root+"/etc/group", func(line string) bool {
		if e, ok := parseGroupLine(line); ok {
			out = append(out, e)
		}
		return true
	})
	return out
}

// getent asks the name service for one entry, "" if there is none or the
// service has only files.
func getent(database, key string) string {
	conf, err := os.ReadFile("/etc/nsswitch.conf")
	if err != nil {
		return ""
	}
	more := false
	for _, line := range strings.Split(string(conf), "\n") {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), database+":")
		if !ok {
			continue
		}
		for _, source := range strings.Fields(rest) {
			switch {
			case source == "files", source == "compat", strings.HasPrefix(source, "["):
			default:
				more = true
			}
		}
	}
	if !more || which("getent") == "" {
		return ""
	}
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	res, err := runTool(ctx, "getent", database, "--", key)
	if err != nil || res.retcode != 0 {
		return ""
	}
	return strings.TrimSpace(res.stdout)
}

// accountLine finds the first line of an account file whose field number n is
// want: 0 the name, 2 the number. Lookups are what file states do most, so that
// only the line that is meant is taken apart.
func accountLine(path string, n int, want string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(data) {
		field, rest := []byte(nil), line
		for range n + 1 {
			field, rest, _ = bytes.Cut(rest, []byte{':'})
		}
		if string(field) == want {
			return string(line)
		}
	}
	return ""
}

// userLine finds the first user whose field number n is key.
func userLine(n int, key string) (passwdEntry, bool) {
	if e, ok := parsePasswdLine(accountLine("/etc/passwd", n, key)); ok {
		return e, true
	}
	e, ok := parsePasswdLine(getent("passwd", key))
	return e, ok && (n != 0 || e.name == key) // getent takes numbers as well
}

// groupLine finds the first group whose field number n is key.
func groupLine(n int, key string) (groupEntry, bool) {
	if e, ok := parseGroupLine(accountLine("/etc/group", n, key)); ok {
		return e, true
	}
	e, ok := parseGroupLine(getent("group", key))
	return e, ok && (n != 0 || e.name == key)
}

// userByName finds a user.
func userByName(name string) (passwdEntry, bool) { return userLine(0, name) }

// userByID finds the first user with a uid.
func userByID(uid int) (passwdEntry, bool) { return userLine(2, strconv.Itoa(uid)) }

// groupByName finds a group.
func groupByName(name string) (groupEntry, bool) { return groupLine(0, name) }

// groupByID finds the first group with a gid.
func groupByID(gid int) (groupEntry, bool) { return groupLine(2, strconv.Itoa(gid)) }

// groupIDsOf lists the gids a user is in, its primary one first.
func groupIDsOf(u passwdEntry) []int {
	gids := []int{u.gid}
	for _, g := range allGroups("") {
		if g.gid == u.gid {
			continue
		}
		for _, m := range g.members {
			if m == u.name {
				gids = append(gids, g.gid)
				break
			}
		}
	}
	return gids
}

// credentialOf is what a program needs to run as u, with the gid of another
// group if group is not nil. nil: it is who we are.
func credentialOf(u passwdEntry, group *groupEntry) *syscall.Credential {
	if group == nil && u.uid == os.Geteuid() {
		return nil
	}
	cred := &syscall.Credential{Uid: uint32(u.uid), Gid: uint32(u.gid)}
	if group != nil {
		cred.Gid = uint32(group.gid)
	}
	for _, gid := range groupIDsOf(u) {
		cred.Groups = append(cred.Groups, uint32(gid))
	}
	if os.Geteuid() != 0 {
		cred.NoSetGroups = true
	}
	return cred
}

// homeOf is os.path.expanduser("~name"), or of the user that we are.
func homeOf(name string) string {
	if name == "" {
		if h := os.Getenv("HOME"); h != "" {
			return h
		}
		if u, ok := userByID(os.Getuid()); ok {
			return u.home
		}
		return "/"
	}
	if u, ok := userByName(name); ok {
		return u.home
	}
	return "~" + name
}

// expandUser is os.path.expanduser.
func expandUser(path string) string {
	if !strings.HasPrefix(path, "~") {
		return path
	}
	name, rest, _ := strings.Cut(path[1:], "/")
	home := homeOf(name)
	if strings.HasPrefix(home, "~") {
		return path
	}
	if len(name)+1 == len(path) {
		return home
	}
	return strings.TrimRight(home, "/") + "/" + rest
}
