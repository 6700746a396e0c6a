// Logging: slog with one handler that writes Salt's lines.
//
// The law of this room: one event, one line, on the console as
// `[LEVEL   ] text`, in the file with time, name, line and process. A value
// under a name that means a secret is written as stars, whoever logs it. The
// name before the line number is the attribute LogName of the logger.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// LogName is the attribute that names a logger: slog.With(LogName, "salt.minion").
const LogName = "logger"

// Salt's levels, as slog counts.
const (
	LevelAll      slog.Level = -1000
	LevelGarbage  slog.Level = -12
	LevelTrace    slog.Level = -8
	LevelProfile  slog.Level = -2
	LevelCritical slog.Level = 12
	LevelQuiet    slog.Level = 1000
)

// logLevels are the names of levels that a user may write, in the order in
// which a usage error lists them.
func logLevels() []string {
	return []string{"all", "debug", "error", "critical", "garbage", "info", "profile", "quiet", "trace", "warning"}
}

// ParseLogLevel finds a level by its name; an unknown one is warning and false.
func ParseLogLevel(name string) (slog.Level, bool) {
	switch strings.ToLower(name) {
	case "all":
		return LevelAll, true
	case "garbage":
		return LevelGarbage, true
	case "trace":
		return LevelTrace, true
	case "debug":
		return slog.LevelDebug, true
	case "profile":
		return LevelProfile, true
	case "info":
		return slog.LevelInfo, true
	case "warning":
		return slog.LevelWarn, true
	case "error":
		return slog.LevelError, true
	case "critical":
		return LevelCritical, true
	case "quiet":
		return LevelQuiet, true
	}
	return slog.LevelWarn, false
}

func levelName(l slog.Level) string {
	switch {
	case l >= LevelCritical:
		return "CRITICAL"
	case l >= slog.LevelError:
		return "ERROR"
	case l >= slog.LevelWarn:
		return "WARNING"
	case l >= slog.LevelInfo:
		return "INFO"
	case l >= LevelProfile:
		return "PROFILE"
	case l >= slog.LevelDebug:
		return "DEBUG"
	case l >= LevelTrace:
		return "TRACE"
	}
	return "GARBAGE"
}

// Secret is a text that logs and error messages show as stars.
type Secret string

const stars = "********"

func (Secret) LogValue() slog.Value { return slog.StringValue(stars) }
func (Secret) String() string       { return stars }
func (Secret) GoString() string     { return stars }

// secretName says whether a value under this name must not be written.
func secretName(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"password", "passwd", "passphrase", "secret", "token", "private_key", "privkey", "aes", "session_key"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return name == "key_pass" || name == "signing_key_pass"
}

// NewLogger writes to w what is at least as grave as the level of that name,
// in the form of Salt's console.
func NewLogger(w io.Writer, level string) *slog.Logger {
	l, _ := ParseLogLevel(level)
	return slog.New(&logHandler{sinks: []*logSink{{w: w, level: l, format: consoleFormat, dates: "%H:%M:%S"}}, name: "halite"})
}

const (
	consoleFormat = "[%(levelname)-8s] %(message)s"
	fileFormat    = "%(asctime)s,%(msecs)03d [%(name)-17s:%(lineno)-4d][%(levelname)-8s][%(process)d] %(message)s"
)

// logSink is one place that lines go to.
type logSink struct {
	mu     sync.Mutex
	w      io.Writer
	level  slog.Level
	format string
	dates  string
	colour bool
}

type logHandler struct {
	sinks []*logSink
	name  string
	jid   string
	attrs string // attributes of the logger, formatted
	group string
}

func (h *logHandler) Enabled(_ context.Context, l slog.Level) bool {
	for _, s := range h.sinks {
		if l >= s.level {
			return true
		}
	}
	return false
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	c := *h
	c.group += name + "."
	return &c
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	var b strings.Builder
	for _, a := range attrs {
		c.attr(&b, a)
	}
	c.attrs += b.String()
	return &c
}

// attr takes the attributes that have a place of their own in a line, and
// writes the others behind the text.
func (h *logHandler) attr(b *strings.Builder, a slog.Attr) {
	v := a.Value.Resolve()
	switch {
	case a.Key == "":
		return
	case a.Key == LogName && h.group == "":
		h.name = v.String()
		return
	case a.Key == "jid" && h.group == "":
		h.jid = v.String()
	case v.Kind() == slog.KindGroup:
		g := *h
		g.group += a.Key + "."
		for _, inner := range v.Group() {
			g.attr(b, inner)
		}
		return
	}
	text := v.String()
	if secretName(a.Key) {
		text = stars
	}
	if text == "" || strings.ContainsAny(text, " \t\"=") || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		text = strconv.Quote(text)
	}
	b.WriteString(" " + h.group + a.Key + "=" + text)
}

func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	line := *h // attributes of the record may name the logger or the job
	var b strings.Builder
	b.WriteString(r.Message)
	b.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool { line.attr(&b, a); return true })
	text := b.String()
	var failed error
	for _, s := range h.sinks {
		if r.Level < s.level {
			continue
		}
		out := line.render(s, r, text) + "\n"
		s.mu.Lock()
		if _, err := io.WriteString(s.w, out); err != nil && failed == nil {
			failed = err
		}
		s.mu.Unlock()
	}
	return failed
}

// render fills a line format in Python's notation: %(field)s with the flags
// and widths that log formats use.
func (h *logHandler) render(s *logSink, r slog.Record, text string) string {
	var b strings.Builder
	format := s.format
	for {
		i := strings.IndexByte(format, '%')
		if i < 0 {
			b.WriteString(format)
			return b.String()
		}
		b.WriteString(format[:i])
		format = format[i:]
		end := strings.IndexByte(format, ')')
		if !strings.HasPrefix(format, "%(") || end < 0 {
			if strings.HasPrefix(format, "%%") {
				format = format[1:]
			}
			b.WriteByte('%')
			format = format[1:]
			continue
		}
		field, rest := format[2:end], format[end+1:]
		n := 0
		for n < len(rest) && strings.IndexByte("-+ 0123456789.", rest[n]) >= 0 {
			n++
		}
		flags := rest[:n]
		if n < len(rest) {
			rest = rest[n+1:]
		} else {
			rest = ""
		}
		switch v := h.field(s, r, field, text).(type) {
		case int:
			fmt.Fprintf(&b, "%"+flags+"d", v)
		default:
			fmt.Fprintf(&b, "%"+strings.TrimLeft(flags, "0")+"s", v)
		}
		format = rest
	}
}

// field is the value of one field of a line format.
func (h *logHandler) field(s *logSink, r slog.Record, name, text string) any {
	level := levelName(r.Level)
	paint := func(code, text string) string {
		if !s.colour {
			return text
		}
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	levelColour, textColour := logColours(level)
	switch name {
	case "message":
		return text
	case "levelname":
		return level
	case "name":
		return h.name
	case "process":
		return os.Getpid()
	case "processName":
		return "MainProcess"
	case "asctime":
		return strftime(s.dates, r.Time)
	case "msecs":
		return r.Time.Nanosecond() / int(time.Millisecond)
	case "created":
		return fmt.Sprintf("%.6f", float64(r.Time.UnixNano())/1e9)
	case "jid":
		if h.jid == "" {
			return ""
		}
		return "[JID: " + h.jid + "]"
	case "bracketname":
		return fmt.Sprintf("[%-17s]", h.name)
	case "bracketlevel":
		return fmt.Sprintf("[%-8s]", level)
	case "bracketprocess":
		return fmt.Sprintf("[%5d]", os.Getpid())
	case "colorname":
		return paint("1;32", fmt.Sprintf("[%-17s]", h.name))
	case "colorlevel":
		return paint(levelColour, fmt.Sprintf("[%-8s]", level))
	case "colorprocess":
		return paint("1;34", fmt.Sprintf("[%5d]", os.Getpid()))
	case "colormsg":
		return paint(textColour, text)
	case "lineno", "module", "filename", "pathname", "funcName":
		frame, _ := runtime.CallersFrames([]uintptr{r.PC}).Next()
		switch name {
		case "lineno":
			return frame.Line
		case "pathname":
			return frame.File
		case "filename":
			return path.Base(frame.File)
		case "funcName":
			return strings.TrimPrefix(frame.Function, "main.")
		}
		return strings.TrimSuffix(path.Base(frame.File), ".go")
	}
	return ""
}

// logColours are the escape codes of a level's name and of its text.
func logColours(level string) (name, text string) {
	switch level {
	case "CRITICAL":
		return "1;31", "1;31"
	case "ERROR":
		return "1;31", "31"
	case "WARNING":
		return "1;33", "33"
	case "INFO":
		return "1;32", "32"
	case "PROFILE":
		return "1;36", "1;36"
	case "DEBUG":
		return "1;36", "36"
	case "TRACE":
		return "1;35", "35"
	}
	return "1;34", "34"
}

// strftime formats a time by C's notation, as far as log formats use it.
func strftime(format string, t time.Time) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		switch format[i] {
		case 'Y':
			b.WriteString(t.Format("2006"))
		case 'y':
			b.WriteString(t.Format("06"))
		case 'm':
			b.WriteString(t.Format("01"))
		case 'd':
			b.WriteString(t.Format("02"))
		case 'H':
			b.WriteString(t.Format("15"))
		case 'I':
			b.WriteString(t.Format("03"))
		case 'M':
			b.WriteString(t.Format("04"))
		case 'S':
			b.WriteString(t.Format("05"))
		case 'p':
			b.WriteString(t.Format("PM"))
		case 'f':
			b.WriteString(t.Format("000000"))
		case 'b':
			b.WriteString(t.Format("Jan"))
		case 'B':
			b.WriteString(t.Format("January"))
		case 'a':
			b.WriteString(t.Format("Mon"))
		case 'A':
			b.WriteString(t.Format("Monday"))
		case 'j':
			b.WriteString(t.Format("002"))
		case 'z':
			b.WriteString(t.Format("-0700"))
		case 'Z':
			b.WriteString(t.Format("MST"))
		case '%':
			b.WriteByte('%')
		default:
			b.WriteString(format[i-1 : i+1])
		}
	}
	return b.String()
}
