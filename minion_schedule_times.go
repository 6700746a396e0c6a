// The scheduler's times: cron lines, and dates and times as people write them.
// Pure functions; the current time is always an argument.
package main

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// cronSpec is a parsed cron line: a bit for each value of each field.
type cronSpec struct {
	minute, hour, day, month, week uint64
	anyDay, anyWeek                bool
}

// parseCronLine reads a line of five fields, or a name like @hourly.
func parseCronLine(line string) (s cronSpec, err error) {
	switch strings.TrimSpace(line) {
	case "@yearly", "@annually":
		line = "0 0 1 1 *"
	case "@monthly":
		line = "0 0 1 * *"
	case "@weekly":
		line = "0 0 * * 0"
	case "@daily", "@midnight":
		line = "0 0 * * *"
	case "@hourly":
		line = "0 * * * *"
	}
	f := strings.Fields(line)
	if len(f) != 5 {
		return s, fmt.Errorf("cron line %q has %d fields, not 5", line, len(f))
	}
	months := []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
	days := []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
	for i, field := range []struct {
		to     *uint64
		lo, hi int
		names  []string
		base   int
	}{{&s.minute, 0, 59, nil, 0}, {&s.hour, 0, 23, nil, 0}, {&s.day, 1, 31, nil, 0}, {&s.month, 1, 12, months, 1}, {&s.week, 0, 7, days, 0}} {
		if *field.to, err = parseCronField(f[i], field.lo, field.hi, field.names, field.base); err != nil {
			return s, fmt.Errorf("cron line %q: %w", line, err)
		}
	}
	if s.week&(1<<7) != 0 {
		s.week |= 1
	}
	s.anyDay, s.anyWeek = strings.HasPrefix(f[2], "*") || f[2] == "?", strings.HasPrefix(f[4], "*") || f[4] == "?"
	return s, nil
}

func parseCronField(text string, lo, hi int, names []string, base int) (set uint64, err error) {
	number := func(s string) (int, error) {
		for i, n := range names {
			if strings.EqualFold(s, n) {
				return i + base, nil
			}
		}
		n, err := strconv.Atoi(s)
		if err != nil || n < lo || n > hi {
			return 0, fmt.Errorf("%q is not between %d and %d", s, lo, hi)
		}
		return n, nil
	}
	for _, part := range strings.Split(text, ",") {
		span, step, hasStep := strings.Cut(part, "/")
		by := 1
		if hasStep {
			if by, err = strconv.Atoi(step); err != nil || by < 1 {
				return 0, fmt.Errorf("%q is no step", step)
			}
		}
		from, to := lo, hi
		if span != "*" && span != "?" {
			a, b, isRange := strings.Cut(span, "-")
			if from, err = number(a); err != nil {
				return 0, err
			}
			switch {
			case isRange:
				if to, err = number(b); err != nil {
					return 0, err
				}
			case !hasStep:
				to = from
			}
		}
		if to < from {
			return 0, fmt.Errorf("%q ends before it begins", span)
		}
		for n := from; n <= to; n += by {
			set |= 1 << n
		}
	}
	return set, nil
}

// next is the first time after t; zero if there is none within five years.
func (s cronSpec) next(t time.Time) time.Time {
	t = time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, t.Location()).Add(time.Minute)
	limit := t.AddDate(5, 0, 0)
	for t.Before(limit) {
		if s.month&(1<<int(t.Month())) == 0 {
			t = time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, t.Location())
			continue
		}
		day, week := s.day&(1<<t.Day()) != 0, s.week&(1<<int(t.Weekday())) != 0
		fits := day && week
		if !s.anyDay && !s.anyWeek { // two restrictions: either will do
			fits = day || week
		}
		if !fits {
			t = time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, t.Location())
			continue
		}
		if s.hour&(1<<t.Hour()) == 0 {
			t = time.Date(t.Year(), t.Month(), t.Day(), t.Hour()+1, 0, 0, 0, t.Location())
			continue
		}
		if later := s.minute >> t.Minute(); later&1 == 0 {
			if later == 0 {
				t = time.Date(t.Year(), t.Month(), t.Day(), t.Hour()+1, 0, 0, 0, t.Location())
			} else {
				t = t.Add(time.Duration(bits.TrailingZeros64(later)) * time.Minute)
			}
			continue
		}
		return t
	}
	return time.Time{}
}

// parseWhen reads a date and time as people write it: 5:00pm, 17:00, Monday
// 5:00pm, 12/24/2030 8:00am, 2030-12-24 08:00:00, 2030-12-24T08:00:00, Dec 24 2030.
// What is not said is taken from now; a day of the week is the next one.
func parseWhen(text string, now time.Time) (time.Time, error) {
	fail := fmt.Errorf("%q is no date or time", text)
	words := strings.Fields(strings.ReplaceAll(text, ",", " "))
	if len(words) == 0 {
		return time.Time{}, fail
	}
	if len(words) == 1 && strings.Contains(words[0], "T") && strings.Contains(words[0], "-") {
		for _, layout := range []string{"2006-01-02T15:04:05.999999", "2006-01-02T15:04", time.RFC3339} {
			if t, err := time.ParseInLocation(layout, words[0], now.Location()); err == nil {
				return t.In(now.Location()), nil
			}
		}
		return time.Time{}, fail
	}
	year, month, day := now.Date()
	var clock time.Time
	hasClock, weekday := false, -1
	// am and pm may stand apart.
	for i := 0; i+1 < len(words); i++ {
		if w := strings.ToLower(words[i+1]); w == "am" || w == "pm" {
			words[i] += w
			words = append(words[:i+1], words[i+2:]...)
		}
	}
	var rest []string
	for _, w := range words {
		low := strings.ToLower(w)
		found := false
		for _, layout := range []string{"15:04:05.999999", "15:04", "3:04:05pm", "3:04pm", "3pm"} {
			if t, err := time.Parse(layout, low); err == nil {
				clock, hasClock, found = t, true, true
				break
			}
		}
		for d := time.Sunday; d <= time.Saturday && !found; d++ {
			name := strings.ToLower(d.String())
			if low == name || low == name[:3] || len(low) > 3 && strings.HasPrefix(name, low) {
				weekday, found = int(d), true
			}
		}
		if !found && low != "at" && low != "on" {
			rest = append(rest, w)
		}
	}
	if len(rest) > 0 {
		date := strings.Join(rest, " ")
		ok := false
		for _, layout := range []string{"2006-01-02", "2006/01/02", "01/02/2006", "1/2/2006", "1/2/06", "02.01.2006", "20060102",
			"Jan 2 2006", "January 2 2006", "2 Jan 2006", "2 January 2006", "Jan 2", "January 2", "2 Jan", "2 January", "1/2"} {
			t, err := time.Parse(layout, date)
			if err != nil {
				continue
			}
			_, month, day = t.Date()
			if t.Year() != 0 {
				year = t.Year()
			}
			ok = true
			break
		}
		if !ok {
			return time.Time{}, fail
		}
	} else if !hasClock && weekday < 0 {
		return time.Time{}, fail
	}
	t := time.Date(year, month, day, clock.Hour(), clock.Minute(), clock.Second(), clock.Nanosecond(), now.Location())
	if weekday >= 0 && len(rest) == 0 {
		t = t.AddDate(0, 0, (weekday-int(t.Weekday())+7)%7)
	}
	return t, nil
}

// strptimeLayout turns a format of Python's strptime into Go's.
func strptimeLayout(format string) string {
	return strings.NewReplacer("%Y", "2006", "%m", "01", "%d", "02", "%H", "15", "%M", "04", "%S", "05", "%y", "06", "%I", "03", "%p", "PM",
		"%b", "Jan", "%B", "January", "%a", "Mon", "%A", "Monday", "%f", "999999", "%z", "-0700", "%Z", "MST", "%j", "002", "%%", "%").Replace(format)
}

const scheduleTimeFormat = "%Y-%m-%dT%H:%M:%S"
