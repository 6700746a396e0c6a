// Module system: clock, name, and the ends of this box.
package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

func systemModule() Module {
	return Module{
		Doc: "Set clock and name of this box; stop or restart it.",
		Funcs: Funcs{
			"halt":                          {run: systemCommand("halt"), doc: "Halt the box."},
			"poweroff":                      {run: systemCommand("poweroff"), doc: "Power the box off."},
			"init":                          {run: systemInit, doc: "Change the runlevel."},
			"reboot":                        {run: systemReboot, doc: "Restart the box now or at a time, in minutes or as hh:mm."},
			"shutdown":                      {run: systemShutdown, doc: "Shut the box down now or at a time."},
			"get_system_time":               {run: systemGet("03:04:05 PM"), doc: "Return the time of day. utc_offset is like -0600.\n\nCLI Example:\n\n    salt '*' system.get_system_time"},
			"get_reboot_required_witnessed": {run: systemRebootWitnessed, doc: "Say whether somebody noted that this box needs a reboot."},
			"set_reboot_required_witnessed": {run: systemWitnessReboot, doc: "Note that this box needs a reboot; the note lasts until then."},
			"get_system_date":               {run: systemGet("Mon 01/02/2006"), doc: "Return the date."},
			"get_system_date_time":          {run: systemGet("2006-01-02 15:04:05"), doc: "Return date and time."},
			"set_system_time":               {run: systemSetTime, doc: "Set the time of day."},
			"set_system_date":               {run: systemSetDate, doc: "Set the date."},
			"set_system_date_time":          {run: systemSetDateTime, doc: "Set date and time; what is not given stays."},
			"has_settable_hwclock":          {run: systemHasHwclock, doc: "Say whether the hardware clock can be set."},
			"get_computer_desc":             {run: systemGetDesc, doc: "Return the description of this box in /etc/machine-info."},
			"set_computer_desc":             {run: systemSetDesc, doc: "Set the description of this box."},
			"get_computer_name":             {run: systemGetName, doc: "Return the host name."},
			"set_computer_name":             {run: systemSetName, doc: "Set the host name."},
		},
	}
}

func systemCommand(name string) func(context.Context, *Call, noArgs) (any, error) {
	return func(ctx context.Context, c *Call, _ noArgs) (any, error) { return runText(ctx, c, name) }
}

type runlevelArgs struct{ Runlevel any }

func systemInit(ctx context.Context, c *Call, a runlevelArgs) (any, error) {
	return runText(ctx, c, "init", Str(a.Runlevel))
}

type atTimeArgs struct {
	AtTime any `def:"None"`
}

func systemReboot(ctx context.Context, c *Call, a atTimeArgs) (any, error) {
	return shutdownBox(ctx, c, "-r", "reboot", a.AtTime)
}

func systemShutdown(ctx context.Context, c *Call, a atTimeArgs) (any, error) {
	return shutdownBox(ctx, c, "-h", "poweroff", a.AtTime)
}

// shutdownBox calls shutdown(8), or, where busybox has none, its other command.
func shutdownBox(ctx context.Context, c *Call, option, command string, at any) (any, error) {
	if which("shutdown") == "" {
		if Truth(at) {
			return nil, NotFoundErrorf("shutdown is not installed, so that no time can be given")
		}
		return runText(ctx, c, command)
	}
	when := "now"
	if Truth(at) {
		when = Str(at)
	}
	return runText(ctx, c, "shutdown", option, when)
}

type utcOffsetArgs struct {
	UtcOffset any `def:"None"`
}

// timeAt is the time now, in the zone of an offset like -0600 if it is given.
func timeAt(offset any) (time.Time, error) {
	if offset == nil {
		return localNow(), nil
	}
	m := regexp.MustCompile(`^([+-])?(\d\d)(\d\d)$`).FindStringSubmatch(Str(offset))
	if m == nil {
		return time.Time{}, InvocationErrorf("Invalid UTC offset")
	}
	h, _ := intText(m[2])
	min, _ := intText(m[3])
	seconds := int(h*60+min) * 60
	if m[1] == "-" {
		seconds = -seconds
	}
	return time.Now().In(time.FixedZone("", seconds)), nil
}

func systemGet(layout string) func(context.Context, *Call, utcOffsetArgs) (any, error) {
	return func(_ context.Context, _ *Call, a utcOffsetArgs) (any, error) {
		t, err := timeAt(a.UtcOffset)
		if err != nil {
			return nil, err
		}
		return t.Format(layout), nil
	}
}

// setClock sets the clock, and the hardware clock after it.
func setClock(ctx context.Context, c *Call, t time.Time) (any, error) {
	tv := syscall.NsecToTimeval(t.UnixNano())
	if err := syscall.Settimeofday(&tv); err != nil {
		return nil, ExecErrorf("date failed: %s", strerrorOf(err))
	}
	if which("hwclock") != "" {
		if r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, "hwclock", "--systohc"); err == nil && r.failed() {
			c.Log.Warn("hwclock failed to set hardware clock from software clock: " + r.stderr)
		}
	}
	return true, nil
}

func parseAny(text string, layouts ...string) (time.Time, bool) {
	for _, l := range layouts {
		if t, err := time.Parse(l, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

type setTimeArgs struct {
	Newtime   string
	UtcOffset any `def:"None"`
}

func systemSetTime(ctx context.Context, c *Call, a setTimeArgs) (any, error) {
	t, ok := parseAny(a.Newtime, "3:04:05 PM", "3:04 PM", "15:04:05", "15:04")
	if !ok {
		return false, nil
	}
	now, err := timeAt(a.UtcOffset)
	if err != nil {
		return nil, err
	}
	return setClock(ctx, c, time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location()))
}

type setDateArgs struct {
	Newdate   string
	UtcOffset any `def:"None"`
}

func systemSetDate(ctx context.Context, c *Call, a setDateArgs) (any, error) {
	t, ok := parseAny(a.Newdate, "2006-01-02", "01-02-2006", "01-02-06", "01/02/2006", "01/02/06", "2006/01/02")
	if !ok {
		return nil, InvocationErrorf("Invalid date format")
	}
	now, err := timeAt(a.UtcOffset)
	if err != nil {
		return nil, err
	}
	return setClock(ctx, c, time.Date(t.Year(), t.Month(), t.Day(), now.Hour(), now.Minute(), now.Second(), 0, now.Location()))
}

type setDateTimeArgs struct {
	Years     any `def:"None"`
	Months    any `def:"None"`
	Days      any `def:"None"`
	Hours     any `def:"None"`
	Minutes   any `def:"None"`
	Seconds   any `def:"None"`
	UtcOffset any `def:"None"`
}

func systemSetDateTime(ctx context.Context, c *Call, a setDateTimeArgs) (any, error) {
	now, err := timeAt(a.UtcOffset)
	if err != nil {
		return nil, err
	}
	parts := []int{now.Year(), int(now.Month()), now.Day(), now.Hour(), now.Minute(), now.Second()}
	for i, v := range []any{a.Years, a.Months, a.Days, a.Hours, a.Minutes, a.Seconds} {
		if v == nil {
			continue
		}
		n, ok := toInt(v)
		if !ok {
			return nil, InvocationErrorf("%s is no integer", Repr(v))
		}
		parts[i] = int(n)
	}
	t := time.Date(parts[0], time.Month(parts[1]), parts[2], parts[3], parts[4], parts[5], 0, now.Location())
	if int(t.Month()) != parts[1] || t.Day() != parts[2] || t.Hour() != parts[3] || t.Minute() != parts[4] || t.Second() != parts[5] {
		return nil, InvocationErrorf("there is no such date or time")
	}
	return setClock(ctx, c, t)
}

func systemHasHwclock(ctx context.Context, c *Call, _ noArgs) (any, error) {
	if which("hwclock") == "" {
		return false, nil
	}
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true, quiet: true}, "hwclock", "--test", "--systohc")
	return err == nil && !r.failed(), err
}

const machineInfo = "/etc/machine-info"

func systemGetDesc(context.Context, *Call, noArgs) (any, error) {
	lines, err := fileLines(machineInfo)
	if err != nil {
		if which("hostnamectl") != "" {
			return "", nil
		}
		return false, nil
	}
	for _, line := range lines {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_HOSTNAME="); ok {
			v = strings.TrimSpace(v)
			if len(v) > 1 && (v[0] == '"' || v[0] == '\'') && v[len(v)-1] == v[0] {
				v = v[1 : len(v)-1]
			}
			return strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n", `\t`, "\t").Replace(v), nil
		}
	}
	if which("hostnamectl") != "" {
		return "", nil
	}
	return false, nil
}

type descArgs struct{ Desc any }

func systemSetDesc(ctx context.Context, c *Call, a descArgs) (any, error) {
	text := strings.NewReplacer(`"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(Str(a.Desc))
	if systemdRuns() && which("hostnamectl") != "" {
		return runOK(ctx, c, "hostnamectl", "set-hostname", "--pretty", text)
	}
	lines, err := fileLines(machineInfo)
	if err != nil && !os.IsNotExist(err) {
		return false, nil
	}
	line, done := `PRETTY_HOSTNAME="`+text+`"`, false
	for i := range lines {
		if strings.HasPrefix(strings.TrimSpace(lines[i]), "PRETTY_HOSTNAME=") {
			lines[i], done = line, true
			break
		}
	}
	if !done {
		lines = append(lines, line)
	}
	return replaceSystemFile(machineInfo, []byte(strings.Join(lines, "\n")+"\n"), 0o644) == nil, nil
}

func systemGetName(context.Context, *Call, noArgs) (any, error) {
	name, err := os.Hostname()
	return name, err
}

type computerNameArgs struct{ Hostname any }

func systemSetName(ctx context.Context, c *Call, a computerNameArgs) (any, error) {
	return c.Run(ctx, "network.mod_hostname", a.Hostname)
}

// rebootWitness is the note that this box needs a reboot.
const rebootWitness = "/var/volatile/tmp/salt/reboot_witnessed"

func systemRebootWitnessed(context.Context, *Call, noArgs) (any, error) {
	_, err := os.Stat(rebootWitness)
	return err == nil, nil
}

func systemWitnessReboot(context.Context, *Call, noArgs) (any, error) {
	if err := os.MkdirAll(filepath.Dir(rebootWitness), 0o755); err != nil {
		return false, nil
	}
	return os.WriteFile(rebootWitness, nil, 0o644) == nil, nil
}
