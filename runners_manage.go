// Runner manage: which minions are there.
//
// The law of this file: up, down, status and versions come from answers to a
// real job; present and its other names from the connections that are open,
// without a job. Nothing is taken as up because it once was.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

func manageRunner() Module {
	subset := "\n\nsubset: only these ids\nshow_ip: also tell their addresses"
	ping := "\n\ntgt, tgt_type: which minions\ntimeout, gather_job_timeout: how long to wait, in seconds"
	connected := Func{run: runManagePresent, doc: "List the minions that are connected, by the established connections of the publish port and the cached addresses." + subset}
	gone := Func{run: runManageNotPresent, doc: "List the minions with accepted keys that are not connected." + subset}
	return Module{
		Doc: "Which minions are there, and which are not.",
		Funcs: Funcs{
			"status":         {run: runManageStatus, doc: "Ping minions and list who answers (up) and who does not (down)." + ping},
			"up":             {run: runManageUp, doc: "Ping minions and list those that answer." + ping},
			"down":           {run: runManageDown, doc: "Ping minions and list those that do not answer.\n\nremovekeys: delete their keys" + ping},
			"versions":       {run: runManageVersions, doc: "Compare the versions of the minions with the master's."},
			"present":        connected,
			"list_state":     connected,
			"joined":         connected,
			"allowed":        connected,
			"alived":         connected,
			"reaped":         connected,
			"not_present":    gone,
			"list_not_state": gone,
			"not_joined":     gone,
			"not_allowed":    gone,
			"not_alived":     gone,
			"not_reaped":     gone,
			"safe_accept":    {run: runManageSafeAccept, doc: "Compare the fingerprints of pending keys with those that the minions' machines tell over salt-ssh, and accept the equal ones."},
		},
	}
}

// seconds is a duration given as a number; zero or nothing means the default.
func seconds(v any) time.Duration {
	f, ok := toFloat(v)
	if !ok || f <= 0 {
		return 0
	}
	return time.Duration(f * float64(time.Second))
}

// runnerCommand runs a job and collects the answers by id. Errors of the client
// are printed, as runners do, and returned.
func runnerCommand(ctx context.Context, c *Call, r JobRequest, w WaitOptions) (*Map, error) {
	ret := NewMap()
	_, err := c.Runner.Client.Run(ctx, r, w, func(m MinionReturn) bool {
		if m.Silent == "" {
			ret.Set(m.ID, m.Return)
		}
		return true
	})
	return ret, tellClientError(c, err)
}

func tellClientError(c *Call, err error) error {
	if err == nil {
		return nil
	}
	var refused *ClientError
	if errors.Is(err, ErrNoMinions) || errors.As(err, &refused) {
		io.WriteString(c.Runner.Out, err.Error()+"\n")
	}
	return err
}

type runManageArgs struct {
	Tgt              any `def:"'*'"`
	TgtType          any `def:"'glob'"`
	Timeout          any `def:"None"`
	GatherJobTimeout any `def:"None"`
}

// ping returns the ids that answer and those that do not.
func (a runManageArgs) ping(ctx context.Context, c *Call) (up, down []string, err error) {
	tgt := a.Tgt
	if l, ok := tgt.(Tuple); ok {
		tgt = NewList(l...)
	}
	job, err := c.Runner.Client.Publish(ctx, JobRequest{Tgt: tgt, TgtType: Str(a.TgtType), Fun: "test.ping"}, true)
	if err != nil {
		if tellClientError(c, err); ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		return []string{}, []string{}, nil
	}
	expected := slices.Clone(job.Minions)
	up = []string{}
	err = c.Runner.Client.Follow(ctx, job, WaitOptions{Timeout: seconds(a.Timeout), Gather: seconds(a.GatherJobTimeout)}, func(r MinionReturn) bool {
		if r.Silent == "" {
			up = append(up, r.ID)
		}
		return true
	})
	down = []string{}
	for _, id := range expected {
		if !slices.Contains(up, id) {
			down = append(down, id)
		}
	}
	slices.Sort(up)
	slices.Sort(down)
	return up, down, err
}

type runManageStatusArgs struct {
	Output           any `def:"True"`
	Tgt              any `def:"'*'"`
	TgtType          any `def:"'glob'"`
	Timeout          any `def:"None"`
	GatherJobTimeout any `def:"None"`
}

func runManageStatus(ctx context.Context, c *Call, a runManageStatusArgs) (any, error) {
	up, down, err := runManageArgs{a.Tgt, a.TgtType, a.Timeout, a.GatherJobTimeout}.ping(ctx, c)
	if err != nil {
		return nil, err
	}
	return NewMap("up", Strings(up), "down", Strings(down)), nil
}

func runManageUp(ctx context.Context, c *Call, a runManageArgs) (any, error) {
	up, _, err := a.ping(ctx, c)
	return Strings(up), err
}

type runManageDownArgs struct {
	Removekeys       bool `def:"False"`
	Tgt              any  `def:"'*'"`
	TgtType          any  `def:"'glob'"`
	Timeout          any  `def:"None"`
	GatherJobTimeout any  `def:"None"`
}

func runManageDown(ctx context.Context, c *Call, a runManageDownArgs) (any, error) {
	_, down, err := runManageArgs{a.Tgt, a.TgtType, a.Timeout, a.GatherJobTimeout}.ping(ctx, c)
	if err != nil {
		return nil, err
	}
	if a.Removekeys {
		for _, id := range down {
			if err := c.Runner.Pool.keys.Delete(id); err != nil {
				c.Log.Error(fmt.Sprintf("delete the key of %s: %v", id, err))
			}
		}
	}
	return Strings(down), nil
}

func runManageVersions(ctx context.Context, c *Call, _ noArgs) (any, error) {
	job, err := c.Runner.Client.Publish(ctx, JobRequest{Tgt: "*", TgtType: "glob", Fun: "test.version"}, true)
	if err != nil {
		tellClientError(c, err)
		return NewMap(), nil
	}
	versions := map[string]any{}
	for _, id := range job.Minions {
		versions[id] = nil
	}
	err = c.Runner.Client.Follow(ctx, job, WaitOptions{}, func(r MinionReturn) bool {
		if r.Silent == "" && answerRetcode(r.Retcode, nil) == 0 {
			versions[r.ID] = r.Return
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(versions))
	for id := range versions {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	ret := NewMap("Master", saltVersion)
	for _, id := range ids {
		label, shown := "Minion offline", versions[id]
		if text, ok := shown.(string); ok {
			switch compareVersions(text, saltVersion) {
			case -1:
				label = "Minion requires update"
			case 0:
				label = "Up to date"
			case 1:
				label = "Minion newer than master"
			}
		} else {
			shown = false
		}
		if ret.Map(label) == nil {
			ret.Set(label, NewMap())
		}
		ret.Map(label).Set(id, shown)
	}
	return ret, nil
}

// compareVersions orders "3006.9" and "3007.0rc1" by their numbers; a release
// is newer than its candidates.
func compareVersions(a, b string) int {
	x, y := versionParts(a), versionParts(b)
	for len(x) < len(y) {
		x = append(x, 0)
	}
	for len(y) < len(x) {
		y = append(y, 0)
	}
	return slices.Compare(x, y)
}

func versionParts(v string) []int {
	var out []int
	n, digits := 0, false
	for i := 0; i < len(v); i++ {
		ch := v[i]
		switch {
		case ch >= '0' && ch <= '9':
			n, digits = n*10+int(ch-'0'), true
		case ch == '.' || ch == '-' || ch == '+':
			if digits {
				out = append(out, n)
			}
			n, digits = 0, false
		default: // rc1, nb20240101, +123.gabcdef: before the release itself
			if digits {
				out = append(out, n)
			}
			for len(out) < 3 {
				out = append(out, 0)
			}
			return append(out, -1)
		}
	}
	if digits {
		out = append(out, n)
	}
	return out
}

type runPresentArgs struct {
	Subset any  `def:"None"`
	ShowIp bool `def:"False"`
}

func runManagePresent(_ context.Context, c *Call, a runPresentArgs) (any, error) {
	var among []string
	if a.Subset != nil {
		among = toStrings(a.Subset)
	}
	connected := c.Runner.Pool.connected(among)
	ids := make([]string, 0, len(connected))
	for id := range connected {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	if !a.ShowIp {
		return Strings(ids), nil
	}
	ret := NewMap()
	for _, id := range ids {
		ret.Set(id, connected[id])
	}
	return ret, nil
}

func runManageNotPresent(_ context.Context, c *Call, a runPresentArgs) (any, error) {
	connected := c.Runner.Pool.connected(nil)
	subset := toStrings(a.Subset)
	gone := []string{}
	for _, id := range c.Runner.Pool.accepted() {
		if connected[id] == "" && (a.Subset == nil || slices.Contains(subset, id)) {
			gone = append(gone, id)
		}
	}
	return Strings(gone), nil
}

func runManageSafeAccept(context.Context, *Call, runManageSafeArgs) (any, error) {
	return nil, ExecErrorf("manage.safe_accept needs salt-ssh, which is not built in: compare the output of salt-key -f with that of " +
		"salt-call --local key.finger on the minion, then accept with salt-key -a")
}

type runManageSafeArgs struct {
	Target  any
	TgtType any `def:"'glob'"`
}
