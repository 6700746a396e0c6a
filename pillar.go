// Pillar: the data that a master gives to one minion alone, compiled from SLS
// files by the pillar's top file, and from external sources.
//
// The law of this room: one compiler serves the master and a minion without a
// master. What it works with comes in (options, the file server over
// pillar_roots, a renderer, execution functions for templates); it keeps nothing
// between two compilations but the files' lists and, with pillar_cache, results.
// A part that cannot be rendered costs that part: the reason goes to the log,
// and to the minion only as Salt's words under _errors, without the content.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// PillarCompiler implements PillarProvider and PillarTops.
type PillarCompiler struct {
	mu sync.Mutex
	pillarParts
	cached map[string]cachedPillar
}

// pillarParts are what a compilation works with.
type pillarParts struct {
	opts  *Options
	log   *slog.Logger
	files FileServer
	rend  *Renderer
	salt  FileClient // what cp.* and templates' functions see as file server
	own   *Customs   // what the users wrote: modules, renderers, external pillars
}

type cachedPillar struct {
	pillar *Map
	until  time.Time
}

// NewPillarCompiler makes a compiler over pillar_roots. salt is the file client
// that functions called from pillar files use, own what the users wrote; both may
// be nil.
func NewPillarCompiler(o *Options, log *slog.Logger, salt FileClient, own *Customs) *PillarCompiler {
	roots := o.Clone()
	roots.Set("file_roots", o.Value("pillar_roots"))
	render := RenderConfigOf(o.All())
	render.Stages = customStages(own)
	return &PillarCompiler{pillarParts: pillarParts{opts: o, log: log, files: NewRootsFileServer(roots, log),
		rend: NewRenderer(render), salt: salt, own: own}, cached: map[string]cachedPillar{}}
}

// Reload takes over a changed configuration.
func (p *PillarCompiler) Reload(o *Options) {
	fresh := NewPillarCompiler(o, p.log, p.salt, p.own)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opts, p.files, p.rend = fresh.opts, fresh.files, fresh.rend
	clear(p.cached)
}

// parts are what one compilation works with: a snapshot, for Reload may come.
func (p *PillarCompiler) parts() pillarParts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pillarParts
}

// pillarRunState is one compilation.
type pillarRunState struct {
	pillarParts
	ctx     context.Context
	req     PillarRequest
	call    *Call
	avail   map[string][]string // environment → names of its SLS files
	ignored map[string][]string // ignore_missing of the top file
	errs    []string
}

// Pillar compiles the pillar of one minion. Errors of single files are part of
// the result; the error is for a compilation that could not be made at all.
func (p *PillarCompiler) Pillar(ctx context.Context, r PillarRequest) (*Map, error) {
	parts := p.parts()
	if parts.opts.Bool("pillar_cache") && r.Override.Len() == 0 {
		return p.fromCache(ctx, r, parts)
	}
	return parts.compile(ctx, r)
}

// fromCache serves pillar_cache: results live pillar_cache_ttl seconds.
func (p *PillarCompiler) fromCache(ctx context.Context, r PillarRequest, parts pillarParts) (*Map, error) {
	key := r.ID + "\x00" + r.Pillarenv + "\x00" + r.Saltenv
	now := time.Now()
	p.mu.Lock()
	have, ok := p.cached[key]
	p.mu.Unlock()
	if ok && now.Before(have.until) {
		return DeepCopy(have.pillar).(*Map), nil
	}
	m, err := parts.compile(ctx, r)
	if err != nil || m.Has("_errors") {
		return m, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, c := range p.cached { // what nobody asked for again goes
		if now.After(c.until) {
			delete(p.cached, k)
		}
	}
	p.cached[key] = cachedPillar{m, now.Add(parts.opts.Duration("pillar_cache_ttl"))}
	return DeepCopy(m).(*Map), nil
}

// ForgetCached empties the cache of compiled pillars: of one minion, or of all.
func (p *PillarCompiler) ForgetCached(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.cached {
		if id == "" || strings.HasPrefix(k, id+"\x00") {
			delete(p.cached, k)
		}
	}
}

func (p pillarParts) newRun(ctx context.Context, r PillarRequest) *pillarRunState {
	if r.Grains == nil {
		r.Grains = &Map{}
	}
	if r.Saltenv == "" {
		r.Saltenv = "base"
	}
	o := p.opts.Clone()
	o.Set("id", r.ID)
	o.Set("minion_id", r.ID)
	o.Set("saltenv", r.Saltenv)
	o.Set("pillarenv", nilIfEmpty(r.Pillarenv))
	env := &Env{Opts: o, Grains: r.Grains, Pillar: orEmptyMap(r.Override), Log: p.log, Files: p.salt}
	env.Loader = NewLoader(o, p.own.modules())
	return &pillarRunState{pillarParts: p, ctx: ctx, req: r, call: NewCall(env, "pillar", "", nil),
		avail: map[string][]string{}, ignored: map[string][]string{}}
}

func nilIfEmpty(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func orEmptyMap(m *Map) *Map {
	if m == nil {
		return &Map{}
	}
	return m
}

func (p pillarParts) compile(ctx context.Context, r PillarRequest) (*Map, error) {
	p.own.Follow()
	s := p.newRun(ctx, r)
	top, topErrs := s.top()
	pillar := DeepCopy(orEmptyMap(r.Override)).(*Map)
	if p.opts.Bool("ext_pillar_first") {
		pillar = s.external(pillar)
		s.call.Pillar = pillar
		pillar = s.merge(pillar, s.render(s.matches(top), &Map{}))
	} else {
		pillar = s.external(s.render(s.matches(top), pillar))
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	s.errs = append(s.errs, topErrs...)
	if p.opts.Bool("pillar_opts") {
		master := p.opts.All().Clone()
		master.Delete("grains")
		pillar.Set("master", master)
	}
	if r.Under.Len() > 0 {
		pillar = s.merge(DeepCopy(r.Under).(*Map), pillar)
	}
	if len(s.errs) > 0 {
		for _, e := range s.errs {
			p.log.Log(ctx, LevelCritical, "Pillar render error: "+e)
		}
		pillar.Set("_errors", Strings(s.errs))
	}
	if r.Override.Len() > 0 {
		pillar = s.merge(pillar, DeepCopy(r.Override).(*Map))
	}
	if errs := s.decrypt(pillar); len(errs) > 0 {
		for _, e := range errs {
			p.log.Error(e)
		}
		pillar.Set("_errors", Strings(append(s.errs, errs...)))
	}
	return pillar, nil
}

// merge puts b over a by pillar_source_merging_strategy. a is changed, b is not.
func (s *pillarRunState) merge(a, b *Map) *Map {
	strategy, lists := s.opts.Str("pillar_source_merging_strategy"), s.opts.Bool("pillar_merge_lists")
	lists = lists && strategy != "none" // it is one pillar then, whose lists are replaced
	switch strategy {
	case "smart", "recurse", "none", "":
		if !strings.HasSuffix(s.opts.Str("renderer"), "yamlex") {
			// In place: a copy for each of many files would cost their square.
			return UpdateMap(a, DeepCopy(b).(*Map), lists)
		}
	}
	return MergeMaps(a, b, strategy, s.opts.Str("renderer"), lists)
}

// errNoPillarFile says that an environment has no such file.
var errNoPillarFile = errors.New("no such pillar file")

// read returns a file of the pillar roots with its path on this box.
func (s *pillarRunState) read(name, env string) (text []byte, full string, err error) {
	found, err := s.files.Find(env, name)
	if err != nil {
		return nil, "", err
	}
	if found == nil {
		return nil, "", errNoPillarFile
	}
	f, err := s.files.Open(env, found)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	text, err = io.ReadAll(f)
	return text, found.Path, err
}

// FetchTemplate implements RenderFiles over the pillar roots.
func (s *pillarRunState) FetchTemplate(_ context.Context, name, env string) ([]byte, string, error) {
	text, full, err := s.read(name, env)
	if errors.Is(err, errNoPillarFile) {
		err = fs.ErrNotExist
	}
	return text, full, err
}

// available lists the SLS files of an environment by their dotted names.
func (s *pillarRunState) available(env string) []string {
	if names, ok := s.avail[env]; ok {
		return names
	}
	files, err := s.files.Files(env)
	if err != nil {
		s.log.Error(fmt.Sprintf("list the pillar files of %s: %v", env, err))
	}
	names := slsNames(files)
	s.avail[env] = names
	return names
}

// slsNames turns file names into the dotted names of state files.
func slsNames(files []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, f := range files {
		name, ok := strings.CutSuffix(f, ".sls")
		if !ok {
			continue
		}
		if name = strings.ReplaceAll(strings.TrimSuffix(name, "/init"), "/", "."); !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// find looks for an SLS: a.b is a/b.sls or a/b/init.sls.
func (s *pillarRunState) find(sls, env string) (text []byte, full string, isInit bool, err error) {
	base := strings.ReplaceAll(sls, ".", "/")
	if text, full, err = s.read(base+".sls", env); err == nil || !errors.Is(err, errNoPillarFile) {
		return text, full, false, err
	}
	text, full, err = s.read(path.Join(base, "init.sls"), env)
	return text, full, true, err
}

// template renders one file to data.
func (s *pillarRunState) template(text []byte, full, sls, env string, defaults *Map) (any, error) {
	return s.rend.Render(withCall(s.ctx, s.call), RenderRequest{Source: string(text), Path: full, Saltenv: env, SLS: sls, Context: defaults,
		Grains: s.req.Grains, Pillar: s.call.Pillar, Opts: s.call.Opts.All(), Functions: callFunctions{s.ctx, s.call}, Files: s,
		Log: s.log})
}

// masterFiles is the file client that functions of a pillar on the master see:
// the master's own file server, whichever is in force.
func masterFiles(server func() FileServer, o *Options, log *slog.Logger) FileClient {
	hashType := o.Str("hash_type")
	if hashType == "" {
		hashType = "sha256"
	}
	return NewFileClient(o, log, func(_ context.Context, load *Map) (any, error) {
		return localFileAnswer(server(), hashType, load)
	}, true)
}
