// Tests of the modules mount and ps.
package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func TestMountKeepsFstab(t *testing.T) {
	c := moduleTestCall(t)
	fstab := filepath.Join(t.TempDir(), "fstab")
	before := "# a comment\nproc /proc proc defaults 0 0\n\n/dev/sda1 / ext4 rw,noatime 0 1\n"
	if err := os.WriteFile(fstab, []byte(before), 0o644); err != nil {
		t.Fatal(err)
	}
	set := func(name, device, fstype string, kw []any, want string) moduleCall {
		return moduleCall{"mount.set_fstab", []any{name, device, fstype}, append([]any{"config", fstab}, kw...), want}
	}
	checkCalls(t, c, []moduleCall{
		set("/proc", "proc", "proc", nil, "'present'"),
		set("/proc", "proc", "proc", []any{"opts", "nosuid", "test", true}, "'change'"),
		set("/proc", "proc", "proc", []any{"opts", "nosuid"}, "'change'"),
		set("/mnt/x", "/dev/sdb1", "xfs", []any{"dump", int64(1), "pass_num", int64(2)}, "'new'"),
		{"mount.rm_fstab", []any{"/", "/dev/sda1"}, []any{"config", fstab}, "True"},
		{"mount.rm_fstab", []any{"/absent", "/dev/sdz"}, []any{"config", fstab}, "True"},
		{"mount.fstab", []any{fstab}, nil, "{'/proc': {'device': 'proc', 'fstype': 'proc', 'opts': ['nosuid'], 'dump': '0', 'pass': '0'}, " +
			"'/mnt/x': {'device': '/dev/sdb1', 'fstype': 'xfs', 'opts': ['defaults'], 'dump': '1', 'pass': '2'}}"},
		{"mount.fstab", []any{fstab + ".absent"}, nil, "{}"},
	})
	got, err := os.ReadFile(fstab)
	if err != nil {
		t.Fatal(err)
	}
	if want := "# a comment\nproc\t\t/proc\tproc\tnosuid\t0 0\n\n/dev/sdb1\t\t/mnt/x\txfs\tdefaults\t1 2\n"; string(got) != want {
		t.Errorf("fstab: %q", got)
	}
}

func TestMountCacheAndActive(t *testing.T) {
	c := moduleTestCall(t)
	checkCalls(t, c, []moduleCall{
		{"mount.read_mount_cache", []any{"/mnt/x"}, nil, "{}"},
		{"mount.write_mount_cache", []any{"/mnt/x", "/dev/sdb1", false, "xfs", NewList("rw")}, nil, "True"},
		{"mount.read_mount_cache", []any{"/mnt/x"}, nil, "{'device': '/dev/sdb1', 'fstype': 'xfs', 'mkmnt': False, 'opts': ['rw']}"},
		{"mount.delete_mount_cache", []any{"/mnt/x"}, nil, "True"},
		{"mount.read_mount_cache", []any{"/mnt/x"}, nil, "{}"},
		{"mount.is_mounted", []any{"/proc"}, nil, "True"},
		{"mount.is_mounted", []any{"/nowhere"}, nil, "False"},
		{"mount.get_mount_from_path", []any{"/proc/self/fd"}, nil, "'/proc'"},
	})
}

func TestPsFindsAndEndsProcesses(t *testing.T) {
	c := moduleTestCall(t)
	// A name of its own, so that the pattern finds nothing else.
	tool := filepath.Join(t.TempDir(), "halite-ps-tst")
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("no sleep")
	}
	data, err := os.ReadFile(sleep)
	if err == nil {
		err = os.WriteFile(tool, data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(tool, "60")
	cmd.Args[0] = sleep // a program of many names looks at this one
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	pid := int64(cmd.Process.Pid)
	checkCalls(t, c, []moduleCall{
		{"ps.pgrep", []any{"halite-ps-ts"}, nil, Repr(NewList(pid))},
		{"ps.pgrep", []any{"halite-ps-none"}, nil, "None"},
		{"ps.proc_info", []any{pid}, []any{"attrs", NewList("pid", "name")}, Repr(NewMap("pid", pid, "name", "halite-ps-tst"))},
		{"ps.kill_pid", []any{pid}, nil, "True"},
	})
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		_ = cmd.Process.Kill()
		t.Error("kill_pid did not end the process")
	}
	checkCalls(t, c, []moduleCall{{"ps.kill_pid", []any{pid}, nil, "False"}})
}

func TestPsMeasures(t *testing.T) {
	c := moduleTestCall(t)
	for fun, key := range map[string]string{"ps.virtual_memory": "total", "ps.swap_memory": "percent", "ps.cpu_times": "idle"} {
		got, err := direct(t, c, fun, nil)
		m, ok := got.(*Map)
		if err != nil || !ok || !m.Has(key) {
			t.Errorf("%s: %s, %v", fun, Repr(got), err)
		}
	}
	if n, err := direct(t, c, "ps.num_cpus", nil); err != nil || n.(int64) < 1 {
		t.Errorf("num_cpus: %v, %v", n, err)
	}
}
