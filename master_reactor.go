// The reactor: SLS files that the master renders and carries out when an event
// has a tag that the option reactor names.
//
// The law of this room: events are matched as they come and wait in one bounded
// queue (reactor_worker_hwm); a few workers (reactor_worker_threads) render and
// act, so that a slow reaction never slows the bus; what did not fit is counted
// and logged. Runners and wheel functions that the reactor starts carry its name
// as user, and events of that user start nothing, or one reaction could feed
// itself. Jobs on minions carry the master's user: reactions to their returns are
// wanted, as when one step of a set-up follows the other.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// reactorUser is the user of the runners and wheel functions that the reactor starts.
const reactorUser = "Reactor"

// reactor carries out reactions of one master.
type reactor struct {
	m     *Master
	log   *slog.Logger
	files FileClient
	rend  *Templates
	table reactionTable // of the goroutine that serves
}

// newReactor listens from now on and returns what reacts until its context ends.
// Without the option reactor there is nothing to do.
func (m *Master) newReactor() func(ctx context.Context) error {
	if len(toItems(m.o().Value("reactor"))) == 0 {
		return func(context.Context) error { return nil }
	}
	r := &reactor{m: m, log: m.log.With(LogName, "salt.utils.reactor"), files: masterFiles(m.files, m.o(), m.log), rend: NewTemplates(m.o(), customStages(m.customs)), table: reactionTable{leader: true}}
	queue := m.o().Int("reactor_worker_hwm")
	if queue <= 0 {
		queue = 10000
	}
	workers := m.o().Int("reactor_worker_threads")
	if workers <= 0 {
		workers = 10
	}
	sub := m.bus.Subscribe("", queue)
	return func(ctx context.Context) error { return r.serve(ctx, sub, workers) }
}

// serve hands events to workers until ctx ends.
func (r *reactor) serve(ctx context.Context, sub *EventSubscription, workers int) error {
	defer sub.Close()
	work := make(chan reaction)
	var running sync.WaitGroup
	for range workers {
		running.Add(1)
		go func() { // ends when work is closed
			defer running.Done()
			for one := range work {
				r.react(ctx, one)
			}
		}()
	}
	defer running.Wait()
	defer close(work)
	var lost int64
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-sub.C:
			if n := sub.Dropped(); n > lost {
				r.log.Error(fmt.Sprintf("%d events came faster than the reactor could take them and were left out", n-lost))
				lost = n
			}
			if e.Data.Str("user") == reactorUser {
				continue
			}
			if r.manage(e) || !r.table.leader {
				continue
			}
			files := r.filesFor(e.Tag)
			if len(files) == 0 {
				continue
			}
			select {
			case work <- reaction{e, files}:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// reaction is an event with the files to render for it.
type reaction struct {
	event Event
	files []string
}

// filesFor lists the files of all entries whose tag, a glob, fits.
func (r *reactor) filesFor(tag string) []string {
	var out []string
	for _, entry := range r.reactions() {
		m, ok := entry.(*Map)
		if !ok {
			continue
		}
		for glob, files := range m.All() {
			if !GlobMatch(Str(glob), tag) {
				continue
			}
			for _, f := range toItems(files) {
				out = append(out, Str(f))
			}
		}
	}
	return out
}

// react renders the files of an event and carries out what they say, in order.
func (r *reactor) react(ctx context.Context, one reaction) {
	for _, file := range one.files {
		for _, path := range r.paths(ctx, file) {
			chunks, err := r.render(ctx, path, one.event)
			if err != nil {
				r.log.Error(fmt.Sprintf("reaction %s to %s: %v", path, one.event.Tag, err))
				continue
			}
			for _, low := range chunks {
				if err := r.run(ctx, low); err != nil {
					r.log.Error(fmt.Sprintf("reaction %s to %s: %s.%s: %v", path, one.event.Tag, low.kind, low.fun, err))
				}
			}
		}
	}
}

// paths finds a file: of the file server by salt://, else on this box, by glob.
func (r *reactor) paths(ctx context.Context, file string) []string {
	if strings.HasPrefix(file, "salt://") {
		p, err := r.files.Cache(ctx, file, "base")
		if err != nil || p == "" {
			r.log.Error(fmt.Sprintf("reaction %s: there is no such file on the file server", file))
			return nil
		}
		return []string{p}
	}
	found, err := filepath.Glob(file)
	if err != nil || len(found) == 0 {
		r.log.Error(fmt.Sprintf("reaction %s: there is no such file", file))
	}
	return found
}

// reactorLow is one thing to do.
type reactorLow struct {
	id, kind, fun string
	args          *Map // everything that was given, by name
}

// render renders one file with the event and takes it apart.
func (r *reactor) render(ctx context.Context, path string, e Event) ([]reactorLow, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	o := r.m.o()
	env := &Env{Opts: o, Grains: NewMap(), Pillar: NewMap(), Log: r.log, Files: r.files, Loader: NewLoader(o, nil), Templates: r.rend}
	c := NewCall(env, "reactor", "", nil)
	v, err := r.rend.Render(ctx, c, RenderRequest{Source: string(text), Path: path, Saltenv: "base", NoSLS: true,
		Context: NewMap("tag", e.Tag, "data", e.Data.Clone())})
	if err != nil {
		return nil, err
	}
	high, ok := v.(*Map)
	if !ok {
		if Truth(v) {
			return nil, fmt.Errorf("it does not render to a mapping")
		}
		return nil, nil
	}
	var out []reactorLow
	for id, body := range high.All() {
		decls, ok := body.(*Map)
		if !ok {
			return nil, fmt.Errorf("ID %s is not formed as a mapping", Str(id))
		}
		for k, v := range decls.All() {
			kind, fun, _ := strings.Cut(Str(k), ".")
			low := reactorLow{id: Str(id), kind: kind, fun: fun, args: NewMap()}
			for _, item := range toItems(v) {
				switch item := item.(type) {
				case *Map:
					low.args.Merge(item)
				case string:
					if low.fun == "" { // local: [state.apply, …]
						low.fun = item
					}
				}
			}
			if low.fun == "" {
				return nil, fmt.Errorf("ID %s names no function for %s", low.id, kind)
			}
			out = append(out, low)
		}
	}
	return out, nil
}

// run carries out one chunk.
func (r *reactor) run(ctx context.Context, low reactorLow) error {
	args, kwargs := low.arguments()
	switch low.kind {
	case "local", "cmd":
		return r.publish(ctx, low, args, kwargs)
	case "runner":
		if r.m.Runners == nil {
			return fmt.Errorf("this master runs no runners")
		}
		r.m.runRunner(ctx, r.m.nextJID(), reactorUser, low.fun, args, kwargs)
		return nil
	case "wheel":
		r.m.runWheelJob(ctx, reactorUser, low.fun, args, kwargs)
		return nil
	case "caller":
		return fmt.Errorf("caller reactions run on a masterless minion, not on a master")
	}
	return fmt.Errorf("unknown kind of reaction: local, runner and wheel are there")
}

// reactorKeys are names of a chunk that say where and how, not what with.
var reactorKeys = [...]string{"args", "arg", "kwarg", "tgt", "tgt_type", "expr_form", "ret", "timeout", "name", "metadata"}

// arguments sorts what was given into positional and named arguments: `args`
// (values, and mappings of names), or the older `arg` and `kwarg`. Runner and
// wheel functions also take everything else by its name.
func (low reactorLow) arguments() (args []any, kwargs *Map) {
	kwargs = NewMap()
	for _, item := range toItems(low.args.Value("args")) {
		if m, ok := item.(*Map); ok {
			kwargs.Merge(m)
		} else {
			args = append(args, item)
		}
	}
	args = append(args, toItems(low.args.Value("arg"))...)
	switch v := low.args.Value("kwarg").(type) {
	case *Map:
		kwargs.Merge(v)
	case *List:
		for _, item := range v.Items {
			if m, ok := item.(*Map); ok {
				kwargs.Merge(m)
			}
		}
	}
	if low.kind == "local" || low.kind == "cmd" || low.args.Has("args") {
		return args, kwargs
	}
next:
	for k, v := range low.args.All() {
		for _, known := range reactorKeys {
			if k == any(known) {
				continue next
			}
		}
		kwargs.Set(k, v)
	}
	return args, kwargs
}

// publish sends a job to minions; nobody waits for its returns.
func (r *reactor) publish(ctx context.Context, low reactorLow, args []any, kwargs *Map) error {
	tgt, ok := low.args.Get("tgt")
	if !ok {
		return fmt.Errorf("tgt is missing")
	}
	kind := low.args.Str("tgt_type")
	if kind == "" {
		kind = low.args.Str("expr_form")
	}
	if kind == "" {
		kind = "glob"
	}
	if l, ok := tgt.(*List); ok && kind == "glob" {
		kind, tgt = "list", l
	}
	if kind == "nodegroup" {
		k, text, err := ExpandTarget(kind, Str(tgt), r.m.o().Map("nodegroups"))
		if err != nil {
			return err
		}
		kind, tgt = k, text
	}
	if kwargs.Len() > 0 {
		kw := NewMap("__kwarg__", true)
		kw.Merge(kwargs)
		args = append(args, kw)
	}
	extra := NewMap()
	if md := low.args.Map("metadata"); md != nil {
		extra.Set("metadata", md)
	}
	_, err := r.m.publish(ctx, &publishRequest{fun: low.fun, arg: NewList(args...), tgt: tgt, tgtType: kind, ret: low.args.Str("ret"),
		user: r.m.o().Str("user"), kwargs: extra})
	return err
}
