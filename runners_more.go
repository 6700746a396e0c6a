// Runners pillar, saltutil, network, http, auth, sdb: the smaller ones.
package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

func pillarRunner() Module {
	return Module{
		Doc: "Pillars, compiled on the master.",
		Funcs: Funcs{
			"show_pillar":        {run: runShowPillar, doc: "Compile a minion's pillar and return it.\n\nminion: its id; other keyword arguments are added to its grains, but saltenv and pillarenv choose environments"},
			"show_top":           {run: runShowTop, doc: "Return what the pillar's top files hold.\n\nminion: for this minion\nsaltenv: the environment"},
			"clear_pillar_cache": {run: runClearPillarCache, doc: "Forget compiled pillars that are kept. None are."},
		},
	}
}

type runShowPillarArgs struct {
	Minion string `def:"'*'"`
	Kwargs *Map   `arg:"**kwargs"`
}

func runShowPillar(ctx context.Context, c *Call, a runShowPillarArgs) (any, error) {
	provider := c.Runner.client.Pillar
	if provider == nil {
		return nil, ExecErrorf("this build compiles no pillars")
	}
	req := PillarRequest{ID: a.Minion, Grains: NewMap(), Saltenv: "base"}
	if grains, _, ok := c.Runner.Pool.data(a.Minion); ok && grains != nil {
		req.Grains = grains.Clone()
	} else {
		req.Grains = c.Runner.client.masterGrains(ctx).Clone()
	}
	for k, v := range a.Kwargs.All() {
		switch name := Str(k); name {
		case "saltenv":
			req.Saltenv = Str(v)
		case "pillarenv":
			req.Pillarenv = Str(v)
		default:
			if !strings.HasPrefix(name, "__") {
				req.Grains.Set(name, v)
			}
		}
	}
	req.Grains.Set("id", a.Minion)
	pillar, err := provider.Pillar(ctx, req)
	if err != nil {
		return nil, ExecErrorf("compile the pillar of %s: %v", a.Minion, err)
	}
	return pillar, nil
}

// PillarTops is what a pillar provider may offer besides.
type PillarTops interface {
	PillarTop(ctx context.Context, r PillarRequest) (*Map, error)
}

type runShowTopArgs struct {
	Minion  any    `def:"None"`
	Saltenv string `def:"'base'"`
}

func runShowTop(ctx context.Context, c *Call, a runShowTopArgs) (any, error) {
	tops, ok := c.Runner.client.Pillar.(PillarTops)
	if !ok {
		return nil, ExecErrorf("this build cannot show the top files of pillars")
	}
	req := PillarRequest{ID: c.Runner.client.masterID(), Grains: NewMap(), Saltenv: a.Saltenv}
	if a.Minion != nil {
		req.ID = Str(a.Minion)
		if grains, _, ok := c.Runner.Pool.data(req.ID); ok && grains != nil {
			req.Grains = grains
		}
	} else {
		req.Grains = c.Runner.client.masterGrains(ctx)
	}
	top, err := tops.PillarTop(ctx, req)
	if err != nil {
		return nil, ExecErrorf("read the pillar's top files: %v", err)
	}
	return top, nil
}

func runClearPillarCache(context.Context, *Call, runShowPillarArgs) (any, error) {
	return NewMap(), nil
}

// masterSyncKinds are the kinds of user-written files that a master can have,
// by the names under which sync_all answers.
func masterSyncKinds() []string {
	return []string{"clouds", "modules", "states", "grains", "renderers", "returners", "output", "proxymodules", "runners", "wheel", "engines",
		"thorium", "queues", "pillar", "sdb", "tops", "utils", "cache", "fileserver", "tokens", "serializers", "executors", "roster"}
}

func saltutilRunner() Module {
	m := Module{
		Doc: "User-written files of the master: from the file server to where the master loads them.",
		Funcs: Funcs{
			"sync_all": {run: runSyncAll, doc: "Fetch files of every kind.\n\nsaltenv: environments to take them from\nextmod_whitelist, extmod_blacklist: names by kind"},
		},
	}
	for _, kind := range masterSyncKinds() {
		name := "sync_" + kind
		if kind == "tokens" {
			name = "sync_eauth_tokens"
		}
		m.Funcs[name] = Func{run: func(ctx context.Context, c *Call, a runSyncArgs) (any, error) { return runSync(ctx, c, kind, a) },
			doc: "Fetch files of the kind " + kind + ".\n\nsaltenv: environments to take them from"}
	}
	return m
}

type runSyncArgs struct {
	Saltenv         any `def:"'base'"`
	ExtmodWhitelist any `def:"None"`
	ExtmodBlacklist any `def:"None"`
}

func runSync(ctx context.Context, c *Call, kind string, a runSyncArgs) (any, error) {
	names, err := syncExtmods(ctx, c, kind, syncArgs{Saltenv: a.Saltenv, ExtmodWhitelist: a.ExtmodWhitelist, ExtmodBlacklist: a.ExtmodBlacklist})
	if err != nil {
		return nil, ExecErrorf("fetch %s: %v", kind, err)
	}
	if len(names) > 0 {
		c.Runner.client.customs.Refresh()
	}
	return Strings(names), nil
}

func runSyncAll(ctx context.Context, c *Call, a runSyncArgs) (any, error) {
	ret := NewMap()
	for _, kind := range masterSyncKinds() {
		names, err := runSync(ctx, c, kind, a)
		if err != nil {
			return nil, err
		}
		ret.Set(kind, names)
	}
	return ret, nil
}

func networkRunner() Module {
	return Module{
		Doc: "Waking machines over the network.",
		Funcs: Funcs{
			"wol":      {run: runWol, doc: "Send a magic packet.\n\nmac: the address of the card\nbcast: the broadcast address\ndestport: the UDP port"},
			"wollist":  {run: runWolList, doc: "Send a magic packet for each address in a file, one a line."},
			"wolmatch": {run: runWolMatch, doc: "Send magic packets to minions by the cached addresses of their cards.\n\ntgt, tgt_type: which minions"},
		},
	}
}

type runWolArgs struct {
	Mac      string
	Bcast    string `def:"'255.255.255.255'"`
	Destport int    `def:"9"`
}

// wake sends one magic packet: six times FF, then sixteen times the address.
func wake(mac, bcast string, port int) error {
	clean := strings.NewReplacer(":", "", "-", "", ".", "").Replace(mac)
	raw, err := hex.DecodeString(clean)
	if err != nil || len(raw) != 6 {
		return OtherErrorf("ValueError", "Invalid MAC address")
	}
	packet := make([]byte, 0, 102)
	for range 6 {
		packet = append(packet, 0xff)
	}
	for range 16 {
		packet = append(packet, raw...)
	}
	conn, err := net.Dial("udp4", net.JoinHostPort(bcast, fmt.Sprint(port)))
	if err != nil {
		return ExecErrorf("send the packet: %v", err)
	}
	defer conn.Close()
	if _, err := conn.Write(packet); err != nil {
		return ExecErrorf("send the packet: %v", err)
	}
	return nil
}

func runWol(_ context.Context, _ *Call, a runWolArgs) (any, error) {
	return true, wake(a.Mac, a.Bcast, a.Destport)
}

type runWolListArgs struct {
	Maclist  string
	Bcast    string `def:"'255.255.255.255'"`
	Destport int    `def:"9"`
}

func runWolList(ctx context.Context, c *Call, a runWolListArgs) (any, error) {
	text, err := os.ReadFile(a.Maclist)
	if err != nil {
		c.progress(ctx, NewMap("error", "Failed to open the MAC file. Error: "+err.Error()))
		return NewList(), nil
	}
	ret := NewList()
	for _, mac := range strings.Fields(string(text)) {
		if err := wake(mac, a.Bcast, a.Destport); err != nil {
			return nil, err
		}
		fmt.Fprintf(c.Runner.Out, "Waking up %s\n", mac)
		ret.Append(mac)
	}
	return ret, nil
}

type runWolMatchArgs struct {
	Tgt      any
	TgtType  string `def:"'glob'"`
	Bcast    string `def:"'255.255.255.255'"`
	Destport int    `def:"9"`
}

func runWolMatch(_ context.Context, c *Call, a runWolMatchArgs) (any, error) {
	ids, err := cachedTargets(c, a.Tgt, a.TgtType)
	if err != nil {
		return nil, err
	}
	ret := NewList()
	for _, id := range ids {
		grains, _, _ := c.Runner.Pool.data(id)
		for card, v := range grains.Map("hwaddr_interfaces").All() {
			mac := Str(v)
			if card == any("lo") || mac == "" {
				continue
			}
			if err := wake(mac, a.Bcast, a.Destport); err != nil {
				return nil, err
			}
			fmt.Fprintf(c.Runner.Out, "Waking up %s\n", mac)
			ret.Append(mac)
		}
	}
	return ret, nil
}

func httpRunner() Module {
	return Module{
		Doc: "Requests over HTTP.",
		Funcs: Funcs{
			"query": {run: runHTTPQuery, doc: "Make a request and return a mapping with body (and status, headers if asked for).\n\nurl: http or https\noutput: also print the mapping\nmethod, data, header_dict, username, password, timeout: of the request\nstatus, headers: return these too\ndecode, decode_type: return the decoded body as dict (json, yaml)"},
		},
	}
}

type runHTTPArgs struct {
	URL    string `arg:"url"`
	Output any    `def:"True"`
	Kwargs *Map   `arg:"**kwargs"`
}

const httpBodyLimit = 64 << 20

func runHTTPQuery(ctx context.Context, c *Call, a runHTTPArgs) (any, error) {
	return httpModuleQuery(ctx, c, httpQueryArgs{URL: a.URL, Kwargs: a.Kwargs})
}

func authRunner() Module {
	return Module{
		Doc: "Tokens of external authentication.",
		Funcs: Funcs{
			"mk_token":  {run: runMakeToken, doc: "Make a token.\n\neauth, username, password: the credentials\ntoken_expire: its life in seconds"},
			"del_token": {run: runDeleteToken, doc: "Delete a token, so that it opens nothing any more."},
		},
	}
}

type runMakeTokenArgs struct {
	Load *Map `arg:"**load"`
}

func runMakeToken(ctx context.Context, c *Call, a runMakeTokenArgs) (any, error) {
	load := NewMap()
	for k, v := range a.Load.All() {
		if !strings.HasPrefix(Str(k), "__") {
			load.Set(k, v)
		}
	}
	load.Set("cmd", "mk_token")
	v, err := c.Runner.Client.ask(ctx, load)
	if err != nil {
		return nil, ExecErrorf("ask the master for a token: %v", err)
	}
	if m, ok := v.(*Map); ok && m.Has("token") {
		return m, nil
	}
	return false, nil
}

type runTokenArgs struct {
	Token string
}

func runDeleteToken(_ context.Context, c *Call, a runTokenArgs) (any, error) {
	if !isHexToken(a.Token) {
		return false, nil
	}
	dir := c.Opts.Path("token_dir")
	if dir == "" {
		dir = filepath.Join(c.Opts.Path("cachedir"), "tokens")
	}
	if err := os.Remove(filepath.Join(dir, a.Token)); err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			c.Log.Error(fmt.Sprintf("delete the token: %v", err))
		}
		return false, nil
	}
	return true, nil
}

// isHexToken checks the form of a token, which is also the name of its file.
func isHexToken(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) >= 32 && len(s) <= 128
}

func sdbRunner() Module {
	return Module{
		Doc: "Values behind sdb:// addresses.",
		Funcs: Funcs{
			"get": {run: runSdbGet, doc: "Return the value behind an address; what is no address that is configured is returned as it is."},
		},
	}
}

type runSdbArgs struct {
	URI string `arg:"uri"`
}

func runSdbGet(_ context.Context, _ *Call, a runSdbArgs) (any, error) { return a.URI, nil }
