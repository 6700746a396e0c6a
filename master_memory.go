// Memory of an idle master: after a storm of logins or returns the runtime
// keeps what it needed meanwhile; it is given back when the storm is over.
package main

const (
	// stormRequests is how many requests make it worth to look.
	stormRequests = 500
	// calmRequests is how many of them between two looks are none of a storm.
	calmRequests = 100
	// calmLooks is how many looks in a row the calm has to last; by then the
	// workers have gone home.
	calmLooks = 3
)

// idleMemory watches the number of requests.
type idleMemory struct {
	seen, since int64
	calm        int // looks
}

// newIdleMemory begins with the start of the master, which counts as a storm.
func newIdleMemory() *idleMemory { return &idleMemory{since: stormRequests} }

// over says whether a storm is over, given the number of requests so far.
func (i *idleMemory) over(requests int64) bool {
	fresh := requests - i.seen
	i.seen = requests
	i.since += fresh
	i.calm++
	if fresh > calmRequests {
		i.calm = 0
	}
	if i.calm < calmLooks || i.since < stormRequests {
		return false
	}
	i.since = 0
	return true
}

// look gives memory back if it is time to.
func (i *idleMemory) look(requests int64) {
	if i.over(requests) {
		releaseMemory()
	}
}
