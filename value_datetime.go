// Date and time as a value. Nothing in Salt computes with it: it comes from
// Python modules over the wire, is shown, and goes back as it came. It has no
// zone, as in Python's datetime without tzinfo.
package main

import (
	"fmt"
	"strings"
	"time"
)

// DateTime is Python's naive datetime.
type DateTime struct{ t time.Time }

const dateTimeWire = "20060102T15:04:05.000000"

// NewDateTime drops the zone of t and what is finer than a microsecond.
func NewDateTime(t time.Time) DateTime {
	return DateTime{time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(),
		t.Nanosecond()/1000*1000, time.UTC)}
}

func parseDateTime(s string) (DateTime, error) {
	t, err := time.Parse(dateTimeWire, s)
	return DateTime{t}, err
}

// Time is the moment, in UTC.
func (d DateTime) Time() time.Time { return d.t }

// TypeName is Python's name of the type.
func (d DateTime) TypeName() string { return "datetime" }

// Truth is always true, as for a Python datetime.
func (d DateTime) Truth() bool { return true }

// String is Python's str(): the fraction only if there is one.
func (d DateTime) String() string {
	if d.t.Nanosecond() == 0 {
		return d.t.Format("2006-01-02 15:04:05")
	}
	return d.t.Format("2006-01-02 15:04:05.000000")
}

// Repr is Python's repr(): trailing zero seconds and microseconds are left out.
func (d DateTime) Repr() string {
	parts := []int{d.t.Year(), int(d.t.Month()), d.t.Day(), d.t.Hour(), d.t.Minute()}
	us := d.t.Nanosecond() / 1000
	if d.t.Second() != 0 || us != 0 {
		parts = append(parts, d.t.Second())
	}
	if us != 0 {
		parts = append(parts, us)
	}
	return "datetime.datetime(" + strings.Trim(strings.ReplaceAll(fmt.Sprint(parts), " ", ", "), "[]") + ")"
}
