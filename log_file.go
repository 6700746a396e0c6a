// Where log lines go: the console, a file that is found again after somebody
// moved it, or a syslog.
package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// OpenLog makes the logger that options ask for: log_level on the console,
// log_level_logfile (or else the same) in the file named by the option fileKey.
// The returned function closes the file.
func OpenLog(o *Options, console io.Writer, fileKey string) (*slog.Logger, func() error) {
	level, _ := ParseLogLevel(o.Str("log_level"))
	screen := &logSink{w: console, level: level, format: consoleFormat, dates: "%H:%M:%S", colour: isTerminal(console)}
	if f := o.Str("log_fmt_console"); f != "" {
		screen.format = f
	}
	if f := o.Str("log_datefmt"); f != "" {
		screen.dates = f
	}
	h := &logHandler{sinks: []*logSink{screen}, name: "halite"}
	none := func() error { return nil }
	fileLevel := level
	if name := o.Str("log_level_logfile"); name != "" {
		fileLevel, _ = ParseLogLevel(name)
	}
	target := o.Str(fileKey)
	if target == "" || fileLevel == LevelQuiet {
		return slog.New(h), none
	}
	complain := func(err error) {
		screen.mu.Lock()
		defer screen.mu.Unlock()
		if screen.level <= slog.LevelWarn {
			fmt.Fprintf(console, "[WARNING ] Failed to open log file, do you have permission to write to %s? (%v)\n", target, err)
		}
	}
	var file io.WriteCloser
	if u, err := url.Parse(target); err == nil && u.Scheme != "" {
		s, err := openSyslog(u)
		if err != nil {
			complain(err)
			return slog.New(h), none
		}
		file = s
	} else {
		file = &logFile{path: target, maxBytes: int64(o.Int("log_rotate_max_bytes")), keep: o.Int("log_rotate_backup_count"), complain: complain}
	}
	sink := &logSink{w: file, level: fileLevel, format: fileFormat, dates: "%Y-%m-%d %H:%M:%S"}
	if f := o.Str("log_fmt_logfile"); f != "" {
		sink.format = f
	}
	if f := o.Str("log_datefmt_logfile"); f != "" {
		sink.dates = f
	}
	h.sinks = append(h.sinks, sink)
	return slog.New(h), file.Close
}

// logFileCheck is how often a log file is looked for under its name again.
const logFileCheck = time.Second

// logFile is opened at the first line, and anew when it was moved away by a
// rotation from outside. Its own rotation is by size.
type logFile struct {
	path     string
	maxBytes int64
	keep     int
	complain func(error)

	mu      sync.Mutex
	f       *os.File
	size    int64
	checked time.Time
	failed  bool
}

func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f != nil && time.Since(l.checked) >= logFileCheck {
		l.checked = time.Now()
		here, err1 := l.f.Stat()
		there, err2 := os.Stat(l.path)
		if err1 != nil || err2 != nil || !os.SameFile(here, there) {
			l.f.Close()
			l.f = nil
		}
	}
	if l.f == nil {
		if err := l.open(); err != nil {
			if !l.failed {
				l.failed = true
				l.complain(err)
			}
			return len(p), nil // a log that cannot be written stops nothing
		}
	}
	if l.maxBytes > 0 && l.size > 0 && l.size+int64(len(p)) > l.maxBytes {
		l.rotate()
		if l.f == nil {
			return len(p), nil
		}
	}
	n, err := l.f.Write(p)
	l.size += int64(n)
	return n, err
}

func (l *logFile) open() error {
	if err := os.MkdirAll(filepath.Dir(l.path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	l.f, l.size, l.checked, l.failed = f, st.Size(), time.Now(), false
	return nil
}

// rotate moves file to file.1, file.1 to file.2 and so on, and drops the last.
func (l *logFile) rotate() {
	l.f.Close()
	l.f = nil
	for i := l.keep - 1; i >= 1; i-- {
		os.Rename(fmt.Sprintf("%s.%d", l.path, i), fmt.Sprintf("%s.%d", l.path, i+1))
	}
	if l.keep > 0 {
		os.Rename(l.path, l.path+".1")
	} else {
		os.Truncate(l.path, 0)
	}
	if err := l.open(); err != nil {
		l.complain(err)
	}
}

func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f = nil
	return err
}

// syslogWriter sends each line as one message.
type syslogWriter struct {
	network, addr string
	priority      int
	mu            sync.Mutex
	conn          net.Conn
}

// openSyslog takes Salt's addresses: file:///dev/log/LOG_DAEMON,
// udp://host:port/LOG_USER, tcp://host:port.
func openSyslog(u *url.URL) (*syslogWriter, error) {
	s := &syslogWriter{network: u.Scheme}
	facility := "LOG_USER"
	switch u.Scheme {
	case "file":
		s.network, s.addr = "unixgram", u.Path
		if base := path.Base(u.Path); strings.HasPrefix(strings.ToUpper(base), "LOG_") {
			facility, s.addr = base, path.Dir(u.Path)
		}
	case "udp", "tcp":
		port := u.Port()
		if port == "" {
			port = "514"
		}
		s.addr = net.JoinHostPort(u.Hostname(), port)
		if u.Path != "" && u.Path != "/" {
			facility = path.Base(u.Path)
		}
	default:
		return nil, fmt.Errorf("the scheme %q is not one of file, udp, tcp", u.Scheme)
	}
	number, ok := syslogFacility(strings.ToUpper(facility))
	if !ok {
		return nil, fmt.Errorf("the syslog facility '%s' is not known", facility)
	}
	const info = 6
	s.priority = number<<3 | info
	return s, s.dial()
}

func syslogFacility(name string) (int, bool) {
	name = strings.TrimPrefix(name, "LOG_")
	for i, f := range []string{"KERN", "USER", "MAIL", "DAEMON", "AUTH", "SYSLOG", "LPR", "NEWS", "UUCP", "CRON", "AUTHPRIV", "FTP"} {
		if f == name {
			return i, true
		}
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(name, "LOCAL")); err == nil && strings.HasPrefix(name, "LOCAL") && n >= 0 && n < 8 {
		return 16 + n, true
	}
	return 0, false
}

func (s *syslogWriter) dial() error {
	c, err := net.DialTimeout(s.network, s.addr, 2*time.Second)
	if err == nil {
		s.conn = c
	}
	return err
}

func (s *syslogWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := "<" + strconv.Itoa(s.priority) + ">halite: " + strings.TrimSuffix(string(p), "\n")
	if s.network == "tcp" {
		line += "\n"
	}
	var err error
	for range 2 { // once more after the log daemon was restarted
		if s.conn == nil {
			if err = s.dial(); err != nil {
				break
			}
		}
		s.conn.SetWriteDeadline(time.Now().Add(2 * time.Second))
		if _, err = s.conn.Write([]byte(line)); err == nil {
			return len(p), nil
		}
		s.conn.Close()
		s.conn = nil
	}
	return 0, errors.Join(errors.New("write to syslog"), err)
}

func (s *syslogWriter) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return nil
	}
	err := s.conn.Close()
	s.conn = nil
	return err
}
