// Memory of an idle master: after a storm of logins or returns the runtime
// keeps what it needed meanwhile; it is given back when the storm is over.
package main

import "runtime/debug"

const (
	// stormRequests is how many requests make it worth to look.
	stormRequests = 500
	// calmRequests is how many of them between two looks are none of a storm.
	calmRequests = 100
)

// idleMemory watches the number of requests. The first look is that of a master
// which has just started, with what its start left over.
type idleMemory struct {
	started     bool
	seen, since int64
}

// over says whether a storm is over, given the number of requests since the start.
func (i *idleMemory) over(requests int64) bool {
	fresh := requests - i.seen
	i.seen = requests
	i.since += fresh
	if fresh > calmRequests || i.since < stormRequests && i.started {
		return false
	}
	i.started, i.since = true, 0
	return true
}

// look gives memory back if it is time to.
func (i *idleMemory) look(requests int64) {
	if i.over(requests) {
		debug.FreeOSMemory()
	}
}
