// The beacon journald: entries of the journal that have given fields.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

func checkJournald(conf *Map, _ []any) string {
	for _, v := range conf.Map("services").All() {
		if _, ok := v.(*Map); !ok {
			return "Services configuration for journald beacon must be a list of dictionaries."
		}
	}
	return ""
}

// journaldBeacon remembers where in the journal it is, and when the journal last
// changed, so that journalctl is asked only when there is something new.
type journaldBeacon struct {
	cursor  string
	since   time.Time // while there is no entry yet
	changed time.Time
}

// journalDirs are where journald keeps its files.
func journalDirs() []string { return []string{"/run/log/journal", "/var/log/journal"} }

// journalChanged is when a file of the journal was last written.
func journalChanged() (last time.Time) {
	for _, dir := range journalDirs() {
		files, _ := filepath.Glob(filepath.Join(dir, "*", "*.journal"))
		for _, file := range files {
			if st, err := os.Stat(file); err == nil && st.ModTime().After(last) {
				last = st.ModTime()
			}
		}
	}
	return last
}

func (b *journaldBeacon) look(ctx context.Context, _ *Call, conf *Map, _ []any) ([]*Map, error) {
	if _, err := needTool("journalctl"); err != nil {
		return nil, err
	}
	changed := journalChanged()
	first := b.since.IsZero()
	if !first && changed.Equal(b.changed) {
		return nil, nil
	}
	b.changed = changed
	args := []string{"journalctl", "--quiet", "--no-pager", "--all", "--output=json"}
	switch {
	case first:
		b.since = time.Now()
		args = append(args, "--lines=1")
	case b.cursor != "":
		args = append(args, "--after-cursor="+b.cursor)
	default:
		args = append(args, "--since=@"+strconv.FormatInt(b.since.Unix(), 10))
	}
	r, err := runTool(ctx, args...)
	if err != nil {
		return nil, err
	}
	if r.retcode != 0 {
		return nil, fmt.Errorf("journalctl: %s", bytes.TrimSpace([]byte(r.stderr)))
	}
	entries, cursor := journalEntries([]byte(r.stdout))
	if cursor != "" {
		b.cursor = cursor
	}
	if first {
		return nil, nil
	}
	return journalMatches(entries, conf.Map("services")), nil
}

// journalEntries reads lines of JSON, one entry each.
func journalEntries(text []byte) (entries []*Map, cursor string) {
	for _, line := range bytes.Split(text, []byte("\n")) {
		v, err := DecodeJSON(line)
		m, ok := v.(*Map)
		if err != nil || !ok {
			continue
		}
		cursor = m.Str("__CURSOR")
		entries = append(entries, journalEntry(m))
	}
	return entries, cursor
}

// journalEntry gives fields the types that Python's systemd.journal gives them;
// Salt sends its times as Python writes them.
func journalEntry(m *Map) *Map {
	numbers := []string{"PRIORITY", "ERRNO", "CODE_LINE", "SYSLOG_FACILITY", "SYSLOG_PID", "_PID", "_UID", "_GID", "_AUDIT_SESSION", "_AUDIT_LOGINUID",
		"_SYSTEMD_OWNER_UID", "COREDUMP_PID", "COREDUMP_UID", "COREDUMP_GID", "COREDUMP_SIGNAL", "LEADER", "SESSION_ID", "USERSPACE_USEC",
		"INITRD_USEC", "KERNEL_USEC"}
	out := &Map{}
	for k, v := range m.All() {
		name := Str(k)
		if n, err := strconv.ParseInt(Str(v), 10, 64); err == nil {
			switch {
			case name == "__REALTIME_TIMESTAMP", name == "_SOURCE_REALTIME_TIMESTAMP":
				t := time.UnixMicro(n)
				v = fmt.Sprintf("datetime.datetime(%d, %d, %d, %d, %d, %d, %d)", t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond()/1000)
			case slices.Contains(numbers, name):
				v = n
			}
		}
		out.Set(name, v)
	}
	return out
}

// journalMatches are the entries that have all fields of one of the services.
func journalMatches(entries []*Map, services *Map) (out []*Map) {
	for _, entry := range entries {
		for k, v := range services.All() {
			fields, hit := v.(*Map), true
			for name, want := range fields.All() {
				have, ok := entry.Get(Str(name))
				hit = hit && ok && Str(have) == Str(want)
			}
			if hit {
				event := entry.Clone()
				event.Set("tag", Str(k))
				out = append(out, event)
			}
		}
	}
	return out
}
