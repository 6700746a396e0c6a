// The beacons wtmp and btmp: logins, logouts and failed logins, as the system
// writes them into /var/log/wtmp and /var/log/btmp.
package main

import (
	"context"
	"encoding/binary"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// Types of entries of the two files.
const (
	utmpLogin  = 7
	utmpLogout = 8
)

// loginsBeacon is wtmp or btmp; it remembers how far the file was read and who
// is logged in where, for an entry of a logout does not say whose it was.
type loginsBeacon struct {
	file    string
	failed  bool // btmp: failed logins, nobody logs out
	started bool
	offset  int64
	onTTY   map[string]string
}

func checkLogins(kind string) func(*Map, []any) string {
	return func(conf *Map, _ []any) string {
		for _, section := range []struct{ key, word string }{{"users", "User"}, {"groups", "Group"}, {"defaults", "Defaults"}} {
			v, ok := conf.Get(section.key)
			if !ok {
				continue
			}
			m, ok := v.(*Map)
			if !ok {
				return section.word + " configuration for " + kind + " beacon must be a dictionary."
			}
			ranges := []any{m.Value("time_range")}
			if section.key != "defaults" {
				ranges = nil
				for _, v := range m.All() {
					one, _ := v.(*Map)
					ranges = append(ranges, one.Value("time_range"))
				}
			}
			for _, r := range ranges {
				if why := checkTimeRange(kind, r); why != "" {
					return why
				}
			}
		}
		return ""
	}
}

func checkTimeRange(kind string, v any) string {
	if !Truth(v) {
		return ""
	}
	m, ok := v.(*Map)
	if !ok {
		return "The time_range parameter for " + kind + " beacon must be a dictionary."
	}
	if !m.Has("start") || !m.Has("end") {
		return "The time_range parameter for " + kind + " beacon must contain start & end options."
	}
	return ""
}

// utmpEntry is one entry, with the numbers in the order of the file.
type utmpEntry struct {
	kind                 int16
	pid                  int32
	line, id, user, host string
	exitTerm, exitCode   int16
	session, seconds     int64
}

// utmpWide says whether glibc writes times of 64 bits on this architecture.
func utmpWide() bool {
	switch runtime.GOARCH {
	case "arm64", "riscv64", "loong64":
		return true
	}
	return false
}

func utmpSize() int {
	if utmpWide() {
		return 400
	}
	return 384
}

func parseUtmp(p []byte) utmpEntry {
	text := func(from, size int) string {
		s, _ := decodeText(p[from:from+size], "")
		return strings.Trim(s, "\x00")
	}
	e := utmpEntry{
		kind: int16(binary.NativeEndian.Uint16(p)), pid: int32(binary.NativeEndian.Uint32(p[4:])),
		line: text(8, 32), id: text(40, 4), user: text(44, 32), host: text(76, 256),
		exitTerm: int16(binary.NativeEndian.Uint16(p[332:])), exitCode: int16(binary.NativeEndian.Uint16(p[334:])),
	}
	if utmpWide() {
		e.session, e.seconds = int64(binary.NativeEndian.Uint64(p[336:])), int64(binary.NativeEndian.Uint64(p[344:]))
	} else {
		e.session, e.seconds = int64(int32(binary.NativeEndian.Uint32(p[336:]))), int64(int32(binary.NativeEndian.Uint32(p[340:])))
	}
	return e
}

// event shows an entry. From exit_status on, Salt's names are one place beside
// the values (addr is the time); reactors read them, so they stay.
func (e utmpEntry) event() *Map {
	return NewMap("type", int64(e.kind), "PID", int64(e.pid), "line", e.line, "inittab", e.id, "user", e.user, "hostname", e.host,
		"exit_status", int64(e.exitTerm), "session", int64(e.exitCode), "time", e.session, "addr", e.seconds)
}

func (b *loginsBeacon) look(_ context.Context, _ *Call, conf *Map, _ []any) ([]*Map, error) {
	f, err := os.Open(b.file)
	if err != nil {
		if os.IsNotExist(err) {
			b.started, b.offset = true, 0 // all of the file that comes is news
			return nil, nil
		}
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !b.started {
		b.started, b.offset, b.onTTY = true, st.Size(), map[string]string{}
		return nil, nil
	}
	if st.Size() < b.offset { // rotated
		b.offset = 0
	}
	var out []*Map
	now := time.Now()
	for p := make([]byte, utmpSize()); ; {
		if _, err := f.ReadAt(p, b.offset); err != nil {
			if err == io.EOF {
				return out, nil
			}
			return out, err
		}
		b.offset += int64(len(p))
		event := parseUtmp(p).event()
		if !b.failed {
			b.follow(event, conf.Map("ut_type"))
		}
		if loginWanted(event.Str("user"), conf, now) {
			out = append(out, event)
		}
	}
}

// follow says whether an entry is a login or a logout, and whose.
func (b *loginsBeacon) follow(event, types *Map) {
	if b.onTTY == nil {
		b.onTTY = map[string]string{}
	}
	is := func(key string, kind int64) bool {
		if n, ok := toInt(types.Value(key)); ok && types.Has(key) {
			kind = n
		}
		return event.Value("type") == kind
	}
	line := event.Str("line")
	switch {
	case is("login", utmpLogin):
		event.Set("action", "login")
		b.onTTY[line] = event.Str("user")
	case is("logout", utmpLogout):
		event.Set("action", "logout")
		if user, ok := b.onTTY[line]; ok {
			event.Set("user", user)
			delete(b.onTTY, line)
		}
	}
}

// loginWanted says whether a user's login is to be told: of the users and
// members of groups that are named, if any are, within their hours.
func loginWanted(user string, conf *Map, now time.Time) bool {
	users := conf.Map("users").Clone()
	for k, v := range conf.Map("groups").All() {
		if g, ok := groupByName(Str(k)); ok {
			for _, member := range g.members {
				if !users.Has(member) {
					users.Set(member, v)
				}
			}
		}
	}
	hours := conf.Map("defaults").Map("time_range")
	if users.Len() > 0 {
		if !users.Has(user) {
			return false
		}
		if own := users.Map(user).Map("time_range"); own != nil {
			hours = own
		}
	}
	if hours == nil {
		return true
	}
	start, err := parseWhen(Str(hours.Value("start")), now)
	if err != nil {
		return false
	}
	end, err := parseWhen(Str(hours.Value("end")), now)
	return err == nil && !now.Before(start) && !now.After(end)
}
