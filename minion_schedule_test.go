// The schedule runs what is due, when it is due, and beacons see what happens.
package main

import (
	"context"
	"os"
	"testing"
	"time"
)

func scheduleTime(t *testing.T, s string) time.Time {
	t.Helper()
	at, err := time.ParseInLocation("2006-01-02 15:04:05", s, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestCronLinesNameTheirNextTime(t *testing.T) {
	for _, c := range []struct{ line, from, want string }{
		{"* * * * *", "2030-01-01 10:00:30", "2030-01-01 10:01:00"},
		{"*/15 * * * *", "2030-01-01 10:46:00", "2030-01-01 11:00:00"},
		{"30 4 * * *", "2030-01-01 04:30:00", "2030-01-02 04:30:00"},
		{"0 0 1 1 *", "2030-01-01 00:00:00", "2031-01-01 00:00:00"},
		{"0 12 * * mon-fri", "2030-01-04 13:00:00", "2030-01-07 12:00:00"},
		{"0 0 13 * 5", "2030-09-02 00:00:00", "2030-09-06 00:00:00"},
		{"0 0 29 2 *", "2030-01-01 00:00:00", "2032-02-29 00:00:00"},
		{"5-10/5,50 8 * feb *", "2030-02-01 08:05:00", "2030-02-01 08:10:00"},
		{"@hourly", "2030-01-01 10:00:00", "2030-01-01 11:00:00"},
		{"0 0 * * 7", "2030-01-01 00:00:00", "2030-01-06 00:00:00"},
	} {
		spec, err := parseCronLine(c.line)
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		if got := spec.next(scheduleTime(t, c.from)); !got.Equal(scheduleTime(t, c.want)) {
			t.Errorf("%s after %s: got %s, want %s", c.line, c.from, got, c.want)
		}
	}
	for _, bad := range []string{"", "* * * *", "60 * * * *", "* * 0 * *", "*/0 * * * *", "5-1 * * * *", "x * * * *"} {
		if _, err := parseCronLine(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestTimesAsPeopleWriteThem(t *testing.T) {
	now := scheduleTime(t, "2030-01-02 10:00:00") // a Wednesday
	for text, want := range map[string]string{
		"5:00pm": "2030-01-02 17:00:00", "17:00": "2030-01-02 17:00:00", "Monday 5:00pm": "2030-01-07 17:00:00", "wednesday 8:00am": "2030-01-02 08:00:00",
		"12/24/2030 8:00am": "2030-12-24 08:00:00", "2030-12-24 08:00:00": "2030-12-24 08:00:00", "2030-12-24T08:00:01": "2030-12-24 08:00:01",
		"Dec 24 2030": "2030-12-24 00:00:00", "8 am": "2030-01-02 08:00:00",
	} {
		got, err := parseWhen(text, now)
		if err != nil || !got.Equal(scheduleTime(t, want)) {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "x", "25:00", "2030-13-01", "soon"} {
		if got, err := parseWhen(bad, now); err == nil {
			t.Errorf("%q was taken for %s", bad, got)
		}
	}
}

// testScheduler is a scheduler over a configuration directory of its own.
func testScheduler(t *testing.T, jobs *Map) *Scheduler {
	t.Helper()
	o := DefaultMinionOptions()
	o.configDir = t.TempDir()
	o.Set("schedule", jobs)
	return NewScheduler(o, NewLogger(os.Stderr, "quiet"), nil)
}

// runsOf looks at the schedule at a moment and names the jobs that are due.
func runsOf(s *Scheduler, now time.Time) []string {
	due, _ := s.look(now)
	out := []string{}
	for _, r := range due {
		out = append(out, r.name)
	}
	return out
}

func TestSchedulerRunsWhatIsDue(t *testing.T) {
	now := scheduleTime(t, "2030-01-02 10:00:00")
	s := testScheduler(t, NewMap(
		"every", NewMap("function", "test.ping", "seconds", int64(10), "maxrunning", int64(9)),
		"start", NewMap("function", "test.ping", "hours", int64(1), "run_on_start", true),
		"cron", NewMap("function", "test.ping", "cron", "* * * * *"),
		"when", NewMap("function", "test.ping", "when", NewList("10:00:05am", "11:00am")),
		"once", NewMap("function", "test.ping", "once", "2030-01-02T10:00:20"),
		"off", NewMap("function", "test.ping", "seconds", int64(1), "enabled", false),
		"range", NewMap("function", "test.ping", "seconds", int64(1), "range", NewMap("start", "8:00pm", "end", "9:00pm")),
		"until", NewMap("function", "test.ping", "seconds", int64(1), "until", "2020-01-01T00:00:00"),
		"bad", NewMap("function", "test.ping", "cron", "nonsense"),
	))
	for _, step := range []struct {
		after int
		want  []string
	}{{0, []string{"start"}}, {6, []string{"when"}}, {10, []string{"every"}}, {21, []string{"every", "once"}}, {22, nil}, {61, []string{"cron", "every"}}} {
		got := runsOf(s, now.Add(time.Duration(step.after)*time.Second))
		wantEqual(t, "after some seconds", Strings(got), Strings(step.want))
	}
	if st := s.Status("until", time.RFC3339); st.Value("_skip_reason") != "until_passed" {
		t.Errorf("until: %s", Repr(st))
	}
	if st := s.Status("bad", time.RFC3339); st.Value("_error") == nil {
		t.Error("a wrong cron line is not told of")
	}
}

func TestSchedulerCountsRunningJobs(t *testing.T) {
	now := scheduleTime(t, "2030-01-02 10:00:00")
	s := testScheduler(t, NewMap("job", NewMap("function", "test.ping", "seconds", int64(1))))
	runsOf(s, now)
	wantEqual(t, "first", Strings(runsOf(s, now.Add(2*time.Second))), NewList("job"))
	wantEqual(t, "while it runs", Strings(runsOf(s, now.Add(4*time.Second))), NewList())
	s.mu.Lock()
	s.state["job"].running--
	s.mu.Unlock()
	wantEqual(t, "after its end", Strings(runsOf(s, now.Add(8*time.Second))), NewList("job"))
}

func TestSchedulerSkipsAndPostpones(t *testing.T) {
	now := scheduleTime(t, "2030-01-02 10:00:00")
	s := testScheduler(t, NewMap("job", NewMap("function", "test.ping", "minutes", int64(1))))
	runsOf(s, now)
	s.Postpone("job", now.Add(time.Minute), now.Add(90*time.Second))
	wantEqual(t, "skipped", Strings(runsOf(s, now.Add(time.Minute))), NewList())
	wantEqual(t, "postponed", Strings(runsOf(s, now.Add(91*time.Second))), NewList("job"))
}

func TestScheduleIsKeptAndNoticed(t *testing.T) {
	s := testScheduler(t, &Map{})
	if err := s.change(true, func(m *Map) { m.Set("a", NewMap("function", "test.ping", "hours", int64(1))) }); err != nil {
		t.Fatal(err)
	}
	other := NewScheduler(s.opts, s.log, nil)
	for k, v := range other.saved().All() {
		other.jobs.Set(k, v)
	}
	if !other.List("").Has("a") {
		t.Fatal("the job is not in the file")
	}
	if err := other.change(true, func(m *Map) { m.Set("b", NewMap("function", "test.ping", "hours", int64(2))) }); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Minute)
	if err := os.Chtimes(s.file(), later, later); err != nil {
		t.Fatal(err)
	}
	if !s.List("").Has("b") {
		t.Error("what another process wrote is not noticed")
	}
}

func TestBeaconsSeeWhatHappens(t *testing.T) {
	dir := t.TempDir()
	ctx := context.Background()
	conf := NewMap("files", NewMap(dir, NewMap("mask", NewList("create", "modify"), "recurse", true, "auto_add", true, "exclude", NewList(dir+"/no"))))
	b := &inotifyBeacon{}
	defer b.close()
	look := func() []*Map {
		t.Helper()
		found, err := b.look(ctx, nil, conf, nil)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	look()
	writeFiles(t, dir, map[string]string{"a": "x", "no": "x"})
	found := look()
	if len(found) == 0 || found[0].Str("path") != dir+"/a" || found[0].Str("change") != "IN_CREATE" {
		t.Fatalf("saw %v", found)
	}
	for _, e := range found {
		if e.Str("path") == dir+"/no" {
			t.Error("saw what is excluded")
		}
	}
	writeFiles(t, dir, map[string]string{"sub/x": "y"})
	look() // the directory is watched from here on
	writeFiles(t, dir, map[string]string{"sub/z": "y"})
	if found = look(); len(found) == 0 || found[0].Str("path") != dir+"/sub/z" {
		t.Errorf("below a new directory saw %v", found)
	}

	log := dir + "/log"
	writeFiles(t, dir, map[string]string{"log": "old error\n"})
	lb := &logBeacon{}
	lconf := NewMap("file", log, "tags", NewMap("bad", NewMap("regex", ".*error")))
	if got, err := lb.look(ctx, nil, lconf, nil); err != nil || len(got) != 0 {
		t.Fatalf("first look: %v, %v", got, err)
	}
	f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("fine\nnew error\nhalf err"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	got, err := lb.look(ctx, nil, lconf, nil)
	if err != nil || len(got) != 1 || got[0].Str("raw") != "new error" {
		t.Errorf("log: %v, %v", got, err)
	}
	for name, v := range map[string]any{"load": NewList(NewMap("averages", NewMap("1m", NewList(0.0, 1.0)))), "ps": NewList(), "nosuch": NewList(), "service": &Map{}} {
		if checkBeacon(name, v) == "" {
			t.Errorf("a wrong configuration of %s was taken", name)
		}
	}
}

func TestSchedulerReadsExplicitTimesAndNames(t *testing.T) {
	now := scheduleTime(t, "2030-01-02 10:00:00")
	s := testScheduler(t, NewMap(
		"explicit", NewMap("function", "test.ping", "minutes", int64(1), "skip_explicit", NewList(NewMap("time", "2030-01-02T10:01:00")),
			"run_explicit", NewList(NewMap("time", "10:01:30 02.01.2030", "time_fmt", "%H:%M:%S %d.%m.%Y"))),
		"named", NewMap("function", "test.ping", "when", NewList("tea", "coffee")),
	))
	s.pillar = func() *Map { return NewMap("whens", NewMap("tea", "10:01:40am")) }
	s.grains = func() *Map { return NewMap("whens", NewMap("coffee", "10:03:30am", "tea", "1:00pm")) }
	runsOf(s, now)
	for _, step := range []struct {
		after int
		want  []string
	}{{60, nil}, {91, []string{"explicit"}}, {92, nil}, {101, []string{"named"}}, {120, []string{"explicit"}}, {211, []string{"explicit", "named"}}} {
		got := runsOf(s, now.Add(time.Duration(step.after)*time.Second))
		s.mu.Lock()
		s.state["explicit"].running = 0
		s.state["named"].running = 0
		s.mu.Unlock()
		wantEqual(t, "after some seconds", Strings(got), Strings(step.want))
	}
}
