// Pages of the program are given back and come again.
package main

import (
	"bytes"
	"os"
	"strconv"
	"testing"
)

// residentFile is how much of mapped files is in memory, in KB.
func residentFile(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("no /proc here")
	}
	_, rest, ok := bytes.Cut(text, []byte("RssFile:"))
	if !ok {
		t.Skip("the system does not tell")
	}
	n, err := strconv.Atoi(string(bytes.Fields(rest)[0]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestProgramPagesAreGivenBack(t *testing.T) {
	before := residentFile(t)
	releaseMemory()
	if after := residentFile(t); after > before*3/4 {
		t.Errorf("%d KB of the program are in memory, %d KB before", after, before)
	}
	// What was given back still works.
	if v, err := DecodeJSON([]byte(`{"a": [1, 2.5, "x"]}`)); err != nil || !Equal(v.(*Map).Value("a"), NewList(int64(1), 2.5, "x")) {
		t.Errorf("%s, %v", Repr(v), err)
	}
}
