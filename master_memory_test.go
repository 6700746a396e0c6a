// A master gives memory back after a storm.
package main

import "testing"

func TestMemoryIsGivenBackAfterAStorm(t *testing.T) {
	i := newIdleMemory()
	for step, c := range []struct {
		requests int64
		want     bool
	}{
		{0, false}, {0, false}, {50, true}, // the start
		{400, false},                             // some requests, but no storm
		{450, false}, {460, false}, {470, false}, // calm, and nothing happened
		{3000, false}, {3050, false}, {3060, false}, // a storm and the calm after it
		{3070, true}, {3080, false}, {3090, false}, // it has lasted; once is enough
		{9000, false}, {9010, false}, {15000, false}, // the next one flares up again
		{15001, false}, {15002, false}, {15003, true},
	} {
		if got := i.over(c.requests); got != c.want {
			t.Errorf("step %d, %d requests: %v", step, c.requests, got)
		}
	}
}
