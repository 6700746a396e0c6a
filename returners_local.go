// Returners that stay on the box: local prints, rawfile_json appends to a file,
// syslog tells the system's log.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

func localReturner() Returner {
	return Returner{
		doc: "Print what a job returned, for trials.",
		Return: func(_ context.Context, _ *Env, ret *Map, out io.Writer) error {
			_, err := fmt.Fprintln(out, Repr(ret))
			return err
		},
		Events: func(_ context.Context, _ *Env, events []*Map, out io.Writer) error {
			l := NewList()
			for _, e := range events {
				l.Append(e)
			}
			_, err := fmt.Fprintln(out, Repr(l))
			return err
		},
	}
}

func rawfileReturner() Returner {
	return Returner{
		doc: "Append what a job returned to a file, as one line of JSON.\n\nrawfile_json.filename: the file, /var/log/salt/events by default",
		Return: func(_ context.Context, env *Env, ret *Map, _ io.Writer) error {
			return appendJSON(env, ret, []*Map{ret})
		},
		Events: func(_ context.Context, env *Env, events []*Map, _ io.Writer) error {
			return appendJSON(env, nil, events)
		},
	}
}

// appendJSON adds lines to the file. All of them go out in one write under a
// lock, so that lines of several processes do not mix.
func appendJSON(env *Env, ret *Map, rows []*Map) error {
	if len(rows) == 0 {
		return nil
	}
	path := optionOr(returnerOptions(env, "rawfile_json", ret, "filename"), "filename", "/var/log/salt/events")
	var text strings.Builder
	for _, row := range rows {
		text.WriteString(returnJSON(row))
		text.WriteByte('\n')
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return fmt.Errorf("write to rawfile_json.filename: %w", err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	if _, err := f.WriteString(text.String()); err != nil {
		return fmt.Errorf("write to rawfile_json.filename: %w", err)
	}
	return f.Close()
}

// syslogSocket is where the system's log listens.
const syslogSocket = "/dev/log"

func syslogReturner() Returner {
	return Returner{
		doc: "Tell the system's log what a job returned, as JSON.\n\nsyslog.level, syslog.facility: LOG_INFO and LOG_USER by default\nsyslog.tag: the name in the log\nsyslog.options: a list of LOG_PID, LOG_PERROR and others",
		Return: func(ctx context.Context, env *Env, ret *Map, _ io.Writer) error {
			line, err := syslogLine(returnerOptions(env, "syslog", ret, "level", "facility", "tag", "options"), returnJSON(ret), time.Now())
			if err != nil {
				return err
			}
			return sendSyslog(ctx, syslogSocket, line)
		},
	}
}

func syslogLevels() map[string]int {
	return map[string]int{"LOG_EMERG": 0, "LOG_ALERT": 1, "LOG_CRIT": 2, "LOG_ERR": 3, "LOG_WARNING": 4, "LOG_NOTICE": 5, "LOG_INFO": 6, "LOG_DEBUG": 7}
}

func syslogFacilities() map[string]int {
	return map[string]int{"LOG_KERN": 0, "LOG_USER": 1, "LOG_MAIL": 2, "LOG_DAEMON": 3, "LOG_AUTH": 4, "LOG_SYSLOG": 5, "LOG_LPR": 6,
		"LOG_NEWS": 7, "LOG_UUCP": 8, "LOG_CRON": 9, "LOG_AUTHPRIV": 10, "LOG_LOCAL0": 16, "LOG_LOCAL1": 17, "LOG_LOCAL2": 18,
		"LOG_LOCAL3": 19, "LOG_LOCAL4": 20, "LOG_LOCAL5": 21, "LOG_LOCAL6": 22, "LOG_LOCAL7": 23}
}

// syslogLine is one message in the form of the local socket.
func syslogLine(o *Map, text string, now time.Time) (string, error) {
	level, ok := syslogLevels()[optionOr(o, "level", "LOG_INFO")]
	if !ok {
		return "", fmt.Errorf("syslog has no attribute %s", Str(o.Value("level")))
	}
	facility, ok := syslogFacilities()[optionOr(o, "facility", "LOG_USER")]
	if !ok {
		return "", fmt.Errorf("syslog has no attribute %s", Str(o.Value("facility")))
	}
	tag := optionOr(o, "tag", "salt-minion")
	if len(tag) > 32 {
		return "", fmt.Errorf("tag size is limited to 32 characters")
	}
	for _, option := range toStrings(o.Value("options")) {
		switch option {
		case "LOG_PID":
			tag += fmt.Sprintf("[%d]", os.Getpid())
		case "LOG_CONS", "LOG_NDELAY", "LOG_NOWAIT", "LOG_PERROR":
		default:
			return "", fmt.Errorf("syslog has no attribute %s", option)
		}
	}
	return fmt.Sprintf("<%d>%s %s: %s", facility<<3|level, now.Format(time.Stamp), tag, text), nil
}

// sendSyslog writes one message to the socket, whose kind depends on the daemon.
func sendSyslog(ctx context.Context, path, line string) error {
	var last error
	for _, kind := range []string{"unixgram", "unix"} {
		conn, err := (&net.Dialer{}).DialContext(ctx, kind, path)
		if err != nil {
			last = err
			continue
		}
		defer conn.Close()
		if t, ok := ctx.Deadline(); ok {
			_ = conn.SetDeadline(t)
		}
		if kind == "unix" {
			line += "\x00"
		}
		if _, err := io.WriteString(conn, line); err != nil {
			return fmt.Errorf("write to the system's log: %w", err)
		}
		return nil
	}
	return fmt.Errorf("no system log listens: %w", last)
}
