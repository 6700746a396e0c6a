// salt-minion: the minion daemon on the command line.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
)

func appletMinion(args []string, std Stdio) int {
	p, code, done := parseCLI("salt-minion", args, std)
	if done {
		return code
	}
	o, code, done := p.LoadConfig(std)
	if done {
		return code
	}
	log, closeLog := OpenLog(o, std.Err, "log_file")
	defer closeLog()
	log = log.With(LogName, "salt.minion")
	var running atomic.Pointer[Minion]
	return runDaemon(std, "salt-minion", o, log, p.Bool("daemon"), daemonProgram{
		Run: func(ctx context.Context, d *daemonRun) error {
			if err := makeMinionDirs(o); err != nil {
				return err
			}
			m, err := NewMinion(o, log)
			if err != nil {
				return err
			}
			m.LeaveJobs = true
			m.Status = d.Status
			running.Store(m)
			d.Ready()
			return m.Run(ctx)
		},
		Hangup: func(ctx context.Context) {
			if m := running.Load(); m != nil {
				m.Refresh(ctx)
			}
		},
	})
}

// makeMinionDirs makes the directories of a minion with the modes that Salt
// gives them.
func makeMinionDirs(o *Options) error {
	for _, d := range []struct {
		option string
		mode   os.FileMode
	}{{"pki_dir", 0o700}, {"cachedir", 0o755}, {"sock_dir", 0o755}} {
		path := o.Path(d.option)
		if path == "" {
			continue
		}
		if _, err := makeDaemonDir(filepath.Clean(path), d.mode); err != nil {
			return fmt.Errorf("make the directory of %s: %w", d.option, err)
		}
	}
	return nil
}
