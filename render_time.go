// Dates in templates: Python's strftime.
package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// strftimeFilter formats seconds since the epoch, as a number or a text, in the
// zone of this process.
func strftimeFilter(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	format, err := r.str(a[0])
	if err != nil {
		return nil, err
	}
	unable := func() error {
		return jinjaErr("RuntimeError", "Unable to parse %s. Consider installing timelib", Str(v))
	}
	if v == nil {
		return pythonStrftime(format, time.Now(), false), nil
	}
	if d, ok := v.(DateTime); ok {
		return pythonStrftime(format, d.Time(), false), nil
	}
	var f float64
	if s, ok := textOf(v); ok {
		if f, ok = parsePythonFloat(s); !ok {
			return nil, unable()
		}
	} else if u, ok := v.(*JinjaUndefined); ok {
		if u.Kind == JinjaStrict {
			return nil, u.fail()
		}
		return nil, unable()
	} else if _, f, _, ok = number(v); !ok {
		return nil, unable()
	}
	if math.IsNaN(f) || math.Abs(f) > 2e11 {
		return nil, unable()
	}
	whole, part := math.Modf(f)
	return pythonStrftime(format, time.Unix(int64(whole), int64(math.Round(part*1e6))*1000), false), nil
}

// pythonStrftime formats by C's notation. zoned says whether %z and %Z mean
// something: a naive date has no zone.
func pythonStrftime(format string, t time.Time, zoned bool) string {
	var b strings.Builder
	two := func(n int) { fmt.Fprintf(&b, "%02d", n) }
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		pad := byte(0)
		if strings.IndexByte("-_0^#", format[i]) >= 0 && i+1 < len(format) {
			pad = format[i]
			i++
		}
		start := b.Len()
		switch c := format[i]; c {
		case 'a':
			b.WriteString(t.Format("Mon"))
		case 'A':
			b.WriteString(t.Format("Monday"))
		case 'b', 'h':
			b.WriteString(t.Format("Jan"))
		case 'B':
			b.WriteString(t.Format("January"))
		case 'c':
			b.WriteString(t.Format("Mon Jan _2 15:04:05 2006"))
		case 'C':
			two(t.Year() / 100)
		case 'd':
			two(t.Day())
		case 'D', 'x':
			b.WriteString(t.Format("01/02/06"))
		case 'e':
			fmt.Fprintf(&b, "%2d", t.Day())
		case 'f':
			fmt.Fprintf(&b, "%06d", t.Nanosecond()/1000)
		case 'F':
			b.WriteString(t.Format("2006-01-02"))
		case 'g', 'G', 'V':
			year, week := t.ISOWeek()
			switch c {
			case 'g':
				two(year % 100)
			case 'G':
				b.WriteString(strconv.Itoa(year))
			default:
				two(week)
			}
		case 'H':
			two(t.Hour())
		case 'I':
			two((t.Hour()+11)%12 + 1)
		case 'j':
			fmt.Fprintf(&b, "%03d", t.YearDay())
		case 'k':
			fmt.Fprintf(&b, "%2d", t.Hour())
		case 'l':
			fmt.Fprintf(&b, "%2d", (t.Hour()+11)%12+1)
		case 'm':
			two(int(t.Month()))
		case 'M':
			two(t.Minute())
		case 'n':
			b.WriteByte('\n')
		case 'p':
			b.WriteString(t.Format("PM"))
		case 'P':
			b.WriteString(t.Format("pm"))
		case 'r':
			b.WriteString(t.Format("03:04:05 PM"))
		case 'R':
			b.WriteString(t.Format("15:04"))
		case 's':
			b.WriteString(strconv.FormatInt(t.Unix(), 10))
		case 'S':
			two(t.Second())
		case 't':
			b.WriteByte('\t')
		case 'T', 'X':
			b.WriteString(t.Format("15:04:05"))
		case 'u':
			b.WriteString(strconv.Itoa((int(t.Weekday())+6)%7 + 1))
		case 'U':
			two((t.YearDay() + 6 - int(t.Weekday())) / 7)
		case 'w':
			b.WriteString(strconv.Itoa(int(t.Weekday())))
		case 'W':
			two((t.YearDay() + 6 - (int(t.Weekday())+6)%7) / 7)
		case 'y':
			two(t.Year() % 100)
		case 'Y':
			b.WriteString(strconv.Itoa(t.Year()))
		case 'z':
			if zoned {
				b.WriteString(t.Format("-0700"))
			}
		case 'Z':
			if zoned {
				b.WriteString(t.Format("MST"))
			}
		case '%':
			b.WriteByte('%')
		default:
			b.WriteString(format[i-1 : i+1])
			continue
		}
		if pad == 0 {
			continue
		}
		piece := b.String()[start:]
		head := b.String()[:start]
		switch pad {
		case '-':
			if t := strings.TrimLeft(piece, "0 "); t != "" {
				piece = t
			} else {
				piece = "0"
			}
		case '_':
			t := strings.TrimLeft(piece[:len(piece)-1], "0")
			piece = strings.Repeat(" ", len(piece)-1-len(t)) + t + piece[len(piece)-1:]
		case '0':
			piece = strings.ReplaceAll(piece, " ", "0")
		case '^':
			piece = strings.ToUpper(piece)
		}
		b.Reset()
		b.WriteString(head + piece)
	}
	return b.String()
}
