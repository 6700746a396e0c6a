// Module sys: the registries of the other rooms, as lists of entries.
package main

import "context"

// sysRunners lists the runner functions.
func sysRunners(context.Context, *Call) []sysEntry { return nil }

// sysReturners lists the functions of returners.
func sysReturners(context.Context, *Call) []sysEntry { return nil }

// sysRenderers lists the renderers, by name.
func sysRenderers(context.Context, *Call) []sysEntry { return nil }
