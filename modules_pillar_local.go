// Module pillar: the pillar of a minion that has no master.
package main

import "context"

// localPillar compiles the pillar from this box's own pillar roots. As in Salt
// it lies over the pillar that the call already has.
func localPillar(ctx context.Context, c *Call, override *Map, env any) (*Map, error) {
	fresh, err := compileLocalPillar(ctx, c.Env, override, env)
	if err != nil {
		return nil, err
	}
	return UpdateMap(DeepCopy(orEmptyMap(c.Pillar)).(*Map), fresh, c.Opts.Bool("pillar_merge_lists")), nil
}

// compileLocalPillar compiles the pillar of a masterless minion anew.
func compileLocalPillar(ctx context.Context, e *Env, override *Map, pillarenv any) (*Map, error) {
	r := PillarRequest{ID: e.Opts.Str("id"), Grains: e.Grains, Saltenv: e.Opts.Str("saltenv"), Override: override}
	if pillarenv != nil {
		r.Pillarenv = Str(pillarenv)
	}
	return NewPillarCompiler(e.Opts, e.Log, e.Files, e.Loader.customs()).Pillar(ctx, r)
}
