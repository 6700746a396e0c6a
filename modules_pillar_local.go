// Module pillar: the pillar of a minion that has no master.
package main

import "context"

// localPillar compiles the pillar from this box's own pillar roots.
func localPillar(_ context.Context, c *Call, override *Map, env any) (*Map, error) {
	out := DeepCopy(c.Pillar).(*Map)
	if env != nil && !Equal(env, c.Opts.Value("pillarenv")) {
		out = &Map{}
	}
	return dictUpdate(out, DeepCopy(override).(*Map), c.Opts.Bool("pillar_merge_lists")), nil
}
