// Module config: reading the minion's configuration, and configLookup, which
// other modules use for options that may also stand in grains or pillar.
package main

// configLookup finds an option as config.get does with a plain name: in the
// options, the grains, the pillar and the master's options, in this order.
func configLookup(c *Call, name string) (any, bool) {
	if v, ok := c.Opts.All().Get(name); ok {
		return v, true
	}
	if v, ok := c.Grains.Get(name); ok {
		return v, true
	}
	if v, ok := c.Pillar.Get(name); ok {
		return v, true
	}
	return c.Pillar.Map("master").Get(name)
}
