// A program whose pages were given back runs on.
package main

import "testing"

func TestAProgramRunsOnAfterItsPagesWereReleased(t *testing.T) {
	before, _ := usage()
	releaseProgramPages()
	if Repr(NewMap("a", NewList(int64(1)))) != "{'a': [1]}" {
		t.Error("the program is damaged")
	}
	after, _ := usage()
	if after <= before {
		t.Error("nothing was released: running on cost no page fault")
	}
}
