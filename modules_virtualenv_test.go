// Tests of the module virtualenv.
package main

import (
	"context"
	"testing"
)

func TestVirtualenvVersion(t *testing.T) {
	for text, want := range map[string]*List{
		"virtualenv 20.17.1+ds from /usr/lib/python3/dist-packages": NewList(int64(20), int64(17), int64(1)),
		"1.9.1": NewList(int64(1), int64(9), int64(1)), "16.0.0rc1": NewList(int64(16), int64(0), int64(0)), "no version": nil,
	} {
		if got := parseVirtualenvVersion(text); (got == nil) != (want == nil) || got != nil && !Equal(got, want) {
			t.Errorf("%s: %s", text, Repr(got))
		}
	}
}

func TestVirtualenvPythonTakesNoCode(t *testing.T) {
	_, err := virtualenvDistribution(context.Background(), moduleTestCall(t), struct{ Venv, Distribution string }{t.TempDir(), "x'); import os; ('"})
	if err == nil {
		t.Error("code was taken for a name")
	}
}
