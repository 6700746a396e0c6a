// Module pillar: the pillar of a minion that has no master.
package main

import "context"

// compileLocalPillar compiles the pillar from this box's own pillar roots. As in
// Salt it lies over the pillar that is there, unless ssh_merge_pillar is off.
func compileLocalPillar(ctx context.Context, e *Env, override *Map, pillarenv any) (*Map, error) {
	r := PillarRequest{ID: e.Opts.Str("id"), Grains: e.Grains, Saltenv: e.Opts.Str("saltenv"), Override: override}
	if e.Opts.Bool("ssh_merge_pillar") {
		r.Under = e.Pillar
	}
	if pillarenv != nil {
		r.Pillarenv = Str(pillarenv)
	}
	return NewPillarCompiler(e.Opts, e.Log, e.Files, e.Loader.customs()).Pillar(ctx, r)
}
