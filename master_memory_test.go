package main

import "testing"

func TestMemoryIsGivenBackAfterAStorm(t *testing.T) {
	var i idleMemory
	for step, c := range []struct {
		requests int64
		want     bool
	}{
		{0, true},      // the start
		{50, false},    // a little
		{400, false},   // more, but no storm
		{3000, false},  // a storm
		{3050, true},   // it is over
		{3060, false},  // and stays so
		{3400, false},  // busy without a storm
		{3500, false},  // calm, but nothing happened that is worth it
		{3600, true},   // it has added up
		{10000, false}, // the next storm
		{10001, true},
	} {
		if got := i.over(c.requests); got != c.want {
			t.Errorf("step %d, %d requests: %v", step, c.requests, got)
		}
	}
}
