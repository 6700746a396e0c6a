// XML files are changed in place.
package main

import (
	"context"
	"os"
	"testing"
)

func TestXMLFilesAreChangedInPlace(t *testing.T) {
	dir := t.TempDir()
	file := dir + "/x.xml"
	writeFiles(t, dir, map[string]string{"x.xml": "<?xml version=\"1.0\"?>\n<!-- c -->\n<a k='v'>\n  <b id=\"1\">one</b>\n  <b id=\"2\">two &amp; more</b>\n  <c/>\n</a>\n"})
	c := NewCall(&Env{Opts: DefaultMinionOptions(), Pillar: NewMap(), Grains: NewMap(), Log: NewLogger(os.Stderr, "quiet")}, "", "", nil)
	ctx := context.Background()
	for path, want := range map[string]any{".//b": "one", "./b[@id='2']": "two & more", "b": "one", "c": nil, "nosuch": false, ".//nosuch": false} {
		got, err := xmlGetValue(ctx, c, xmlElementArgs{file, path})
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, path, got, want)
	}
	if _, err := xmlSetValue(ctx, c, xmlSetValueArgs{file, "./b[@id='2']", "3 < 4"}); err != nil {
		t.Fatal(err)
	}
	if _, err := xmlSetValue(ctx, c, xmlSetValueArgs{file, "c", int64(5)}); err != nil {
		t.Fatal(err)
	}
	if _, err := xmlSetAttribute(ctx, c, xmlSetAttributeArgs{file, "b", "id", "9"}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := "<?xml version=\"1.0\"?>\n<!-- c -->\n<a k='v'>\n  <b id=\"9\">one</b>\n  <b id=\"2\">3 &lt; 4</b>\n  <c>5</c>\n</a>\n"
	if string(got) != want {
		t.Errorf("the file is\n%s", got)
	}
}
