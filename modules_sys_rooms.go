// Module sys: the registries of the other rooms, as lists of entries.
package main

import "context"

// sysRunners lists the runner functions, those of the user included.
func sysRunners(ctx context.Context, c *Call) []sysEntry {
	customs := NewCustoms(c.Opts)
	defer customs.Close()
	inner := *c
	inner.Env = &Env{Opts: c.Opts, Grains: c.Grains, Pillar: c.Pillar, Log: c.Log, Files: c.Files}
	inner.Loader = newRunnerLoader(customs)
	return sysFunctions(ctx, &inner)
}

// sysRenderers lists the renderers, by name.
func sysRenderers(context.Context, *Call) []sysEntry {
	sig := signatureOf("data", "saltenv", "sls")
	return []sysEntry{
		{name: "gpg", doc: "Decrypt the messages within texts, by the program gpg.", sig: sig},
		{name: "jinja", doc: "Fill in a Jinja template.", sig: sig},
		{name: "json", doc: "Read JSON.", sig: sig},
		{name: "yaml", doc: "Read YAML.", sig: sig},
	}
}

func signatureOf(names ...string) *Signature {
	sig := &Signature{}
	for _, name := range names {
		sig.Params = append(sig.Params, Param{Name: name})
	}
	return sig
}
