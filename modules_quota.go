// Module quota: disk quotas of users and groups, through the tools of package
// quota.
package main

import (
	"context"
	"strings"
)

func quotaModule() Module {
	return Module{
		Doc: "Read and set disk quotas.",
		Virtual: func(context.Context, *Call) (bool, string) {
			return which("setquota") != "", "The quota execution module cannot be loaded: the module is only available on POSIX-like systems with the setquota binary available."
		},
		Funcs: Funcs{
			"report":   {run: quotaReport, doc: "Return the quotas of users and groups of a mount point, and what they use.\n\nCLI Example:\n\n    salt '*' quota.report /media/data"},
			"set":      {run: quotaSet, pyname: "set_", doc: "Set limits of a user or a group: block-soft-limit, block-hard-limit, file-soft-limit,\nfile-hard-limit; what is not given stays.\n\nCLI Example:\n\n    salt '*' quota.set /media/data user=larry block-soft-limit=1048576"},
			"warn":     {run: quotaWarn, doc: "Run quotawarn, which writes to users that are over their quotas."},
			"stats":    {run: quotaStats, doc: "Return the statistics of quotastats."},
			"on":       {run: quotaSwitch("quotaon"), pyname: "on", doc: "Switch quotas on."},
			"off":      {run: quotaSwitch("quotaoff"), pyname: "off", doc: "Switch quotas off."},
			"get_mode": {run: quotaMode, doc: "Say whether quotas are on for a device or mount point."},
		},
	}
}

func quotaReport(ctx context.Context, c *Call, a struct{ Mount string }) (any, error) {
	users, err := quotasOf(ctx, c, a.Mount, "-u", "Users")
	if err != nil {
		return nil, err
	}
	groups, err := quotasOf(ctx, c, a.Mount, "-g", "Groups")
	return NewMap(a.Mount, NewMap("User Quotas", users, "Group Quotas", groups)), err
}

func quotasOf(ctx context.Context, c *Call, mount, option, kind string) (*Map, error) {
	text, err := runText(ctx, c, "repquota", "-vp", option, mount)
	return parseRepquota(text, kind), err
}

func quotaColumns() []string {
	return []string{"block-used", "block-soft-limit", "block-hard-limit", "block-grace", "file-used", "file-soft-limit", "file-hard-limit", "file-grace"}
}

// parseRepquota reads the table of repquota -vp.
func parseRepquota(text, kind string) *Map {
	entries := &Map{}
	ret := NewMap(kind, entries)
	header := true
	for _, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		switch {
		case header && strings.Contains(line, "Block grace time"):
			block, inode, _ := strings.Cut(line, ";")
			last := func(s string) *List { return NewList(s[strings.LastIndex(s, ": ")+len(": "):]) }
			ret.Set("Block Grace Time", last(block))
			ret.Set("Inode Grace Time", last(inode))
		case header:
			header = !strings.HasPrefix(line, "-")
		case len(f) >= 10:
			one := &Map{}
			for i, key := range quotaColumns() {
				one.Set(key, f[2+i])
			}
			entries.Set(f[0], one)
		}
	}
	return ret
}

func quotaSet(ctx context.Context, c *Call, a struct {
	Device string
	Kwargs *Map `arg:"**kwargs"`
}) (any, error) {
	user, group := a.Kwargs.Value("user"), a.Kwargs.Value("group")
	option, kind, title, name := "-u", "Users", "User: ", user
	switch {
	case user != nil && group != nil:
		return nil, InvocationErrorf("Please specify a user or group, not both.")
	case group != nil:
		option, kind, title, name = "-g", "Groups", "Group: ", group
	case user == nil:
		return nil, ExecErrorf("A valid user or group was not found")
	}
	have, err := quotasOf(ctx, c, a.Device, option, kind)
	if err != nil {
		return nil, err
	}
	limits := have.Map(kind).Map(Str(name))
	if limits == nil {
		limits = &Map{}
	}
	words := []string{"setquota", option, Str(name)}
	for _, key := range []string{"block-soft-limit", "block-hard-limit", "file-soft-limit", "file-hard-limit"} {
		if v, ok := a.Kwargs.Get(key); ok {
			limits.Set(key, v)
		} else if !limits.Has(key) {
			limits.Set(key, int64(0))
		}
		words = append(words, Str(limits.Value(key)))
	}
	r, err := runSaltTool(ctx, c, toolOptions{}, append(words, a.Device)...)
	if err != nil {
		return nil, err
	}
	if r.failed() {
		return nil, ExecErrorf("Unable to set desired quota. Error follows: \n%s", r.stderr)
	}
	return NewMap(title+Str(name), limits), nil
}

func quotaWarn(ctx context.Context, c *Call, _ noArgs) (any, error) {
	_, err := runText(ctx, c, "quotawarn")
	return nil, err
}

func quotaStats(ctx context.Context, c *Call, _ noArgs) (any, error) {
	text, err := runText(ctx, c, "quotastats")
	ret := &Map{}
	for _, line := range strings.Split(text, "\n") {
		if key, value, ok := strings.Cut(line, ": "); ok {
			ret.Set(key, value)
		}
	}
	return ret, err
}

func quotaSwitch(tool string) func(context.Context, *Call, struct{ Device string }) (any, error) {
	return func(ctx context.Context, c *Call, a struct{ Device string }) (any, error) {
		_, err := runText(ctx, c, tool, a.Device)
		return err == nil, err
	}
}

func quotaMode(ctx context.Context, c *Call, a struct{ Device string }) (any, error) {
	text, err := runText(ctx, c, "quotaon", "-p", a.Device)
	return parseQuotaMode(text, a.Device), err
}

// parseQuotaMode reads lines such as
//
//	group quota on /data (/dev/sdb1) is on
//	quotaon: Mountpoint (or device) /data not found or has no quota enabled.
func parseQuotaMode(text, device string) *Map {
	ret := &Map{}
	for _, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		switch {
		case len(f) > 4 && f[0] == "quotaon:" && f[1] == "Mountpoint":
			ret.Set(f[4], "disabled")
		case len(f) > 1 && f[0] == "quotaon:" && f[1] == "Cannot":
			return NewMap(device, "Not found")
		case len(f) > 6 && f[0] != "quotaon:":
			if !ret.Has(f[3]) {
				ret.Set(f[3], NewMap("device", strings.Trim(f[4], "()")))
			}
			if m := ret.Map(f[3]); m != nil {
				m.Set(f[0], f[6])
			}
		}
	}
	return ret
}
