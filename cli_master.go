// salt-master: the master daemon on the command line.
package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
)

func appletMaster(args []string, std Stdio) int {
	p, code, done := parseCLI("salt-master", args, std)
	if done {
		return code
	}
	o, code, done := p.LoadConfig(std)
	if done {
		return code
	}
	if err := makeMasterDirs(o); err != nil {
		fmt.Fprintf(std.Err, "salt-master: %v\n", err)
		return 1
	}
	log, closeLog := OpenLog(o, std.Err, "log_file")
	defer closeLog()
	log = log.With(LogName, "salt.master")
	var running atomic.Pointer[Master]
	return runDaemon(std, "salt-master", o, log, p.Bool("daemon"), daemonProgram{
		Run: func(ctx context.Context, d *daemonRun) error {
			m, err := NewMaster(o, log)
			if err != nil {
				return err
			}
			m.Eauth = NewEauth(o, log)
			runners := NewRunnerClient(o, log, io.Discard, m.customs)
			m.Runners = runners
			pillars := NewPillarCompiler(o, log, masterFiles(m.files, o, log), m.customs)
			m.Pillar, runners.Pillar = pillars, pillars
			running.Store(m)
			done := make(chan error, 1)
			go func() { done <- m.Run(ctx) }()
			select {
			case <-m.Ready():
				d.Ready()
			case err := <-done:
				return err
			}
			return <-done
		},
		Hangup: func(context.Context) {
			m := running.Load()
			if m == nil {
				return
			}
			fresh, err := LoadMasterConfig(ConfigFlags{Dir: p.Str("config_dir"), Log: log})
			if err != nil {
				log.Error(fmt.Sprintf("the configuration is not reloaded: %v", err))
				return
			}
			p.MergeInto(fresh)
			m.Reload(fresh)
		},
	})
}

// makeMasterDirs makes the directories of a master with the modes that Salt
// gives them. Started as root for another user, it hands them over to that user
// with everything in them: he could not do so himself.
func makeMasterDirs(o *Options) error {
	uid := -1
	if name := o.Str("user"); os.Geteuid() == 0 && name != "" && name != "root" {
		u, err := user.Lookup(name)
		if err == nil {
			uid, _ = strconv.Atoi(u.Uid)
		} // an unknown user is reported when the daemon becomes him
	}
	for _, d := range []struct {
		option string
		mode   os.FileMode
	}{{"pki_dir", 0o700}, {"cachedir", 0o750}, {"sock_dir", 0o755}, {"log_file", 0o755}} {
		path := o.Path(d.option)
		if path == "" {
			continue
		}
		if d.option == "log_file" {
			if !filepath.IsAbs(path) { // a syslog address
				continue
			}
			path = filepath.Dir(path)
		}
		path = filepath.Clean(path)
		made, err := makeDaemonDir(path, d.mode)
		if err != nil {
			return fmt.Errorf("make the directory of %s: %w", d.option, err)
		}
		if d.option == "log_file" && !made && filepath.Base(path) != "salt" {
			// The directory may be everybody's, such as /var/log: only the file is
			// handed over.
			if path = o.Path(d.option); uid > 0 {
				f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
				if err != nil {
					return fmt.Errorf("make the log file: %w", err)
				}
				f.Close()
			}
		}
		if uid > 0 {
			if err := handOver(path, uid); err != nil {
				return fmt.Errorf("hand %s over to user %s: %w", path, o.Str("user"), err)
			}
		}
	}
	return nil
}

// makeDaemonDir makes a directory with its mode and says whether it was
// missing. What is missing above it can be passed by every user, as the daemon
// may become another one.
func makeDaemonDir(path string, mode os.FileMode) (made bool, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, err
	}
	if err := os.Mkdir(path, mode); err == nil {
		return true, nil
	}
	return false, os.MkdirAll(path, mode) // it is there, or why not
}

// handOver gives a directory and what is in it to a user, if the directory is
// not his already. Links are not followed.
func handOver(dir string, uid int) error {
	st, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok && int(sys.Uid) == uid {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, -1)
	})
}
