// The index of minions follows keys and data.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func testIndex(t testing.TB) *MinionIndex {
	dir := t.TempDir()
	keys := OpenKeyDir(filepath.Join(dir, "pki"))
	if err := keys.Create(); err != nil {
		t.Fatal(err)
	}
	return NewMinionIndex(keys, filepath.Join(dir, "cache"), logNowhere())
}

func (x *MinionIndex) addKey(t testing.TB, id string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(x.keys.Dir(), KeyAccepted, id), []byte("key"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestIndexFollowsTheKeyDirectory(t *testing.T) {
	x := testIndex(t)
	for i := range 50 { // within one tick of the file system's clock
		x.addKey(t, fmt.Sprintf("m%02d", i))
		if ids, err := x.IDs(); err != nil || len(ids) != i+1 {
			t.Fatalf("%d keys: %v, %v", i+1, ids, err)
		}
	}
	dir := filepath.Join(x.keys.Dir(), KeyAccepted)
	old := time.Now().Add(-time.Minute)
	os.Chtimes(dir, old, old)
	x.IDs()
	if err := os.Rename(filepath.Join(dir, "m00"), filepath.Join(x.keys.Dir(), KeyRejected, "m00")); err != nil {
		t.Fatal(err)
	}
	if ids, _ := x.IDs(); len(ids) != 49 || slices.Contains(ids, "m00") {
		t.Errorf("after a removal: %v", ids)
	}
}

func TestIndexKeepsData(t *testing.T) {
	x := testIndex(t)
	for _, id := range []string{"a", "b", "c"} {
		x.addKey(t, id)
	}
	set := func(id, os string) {
		t.Helper()
		if err := x.SetData(id, NewMap("os", os), NewMap("role", id)); err != nil {
			t.Fatal(err)
		}
	}
	want := func(kind, tgt string, greedy bool, ids ...string) {
		t.Helper()
		r, err := x.Resolve(kind, tgt, "", nil, greedy)
		if err != nil || !slices.Equal(r.Minions, ids) {
			t.Errorf("%s %s: %v, %v; want %v", kind, tgt, r.Minions, err, ids)
		}
	}
	set("a", "Debian")
	want("grain", "os:deb*", false, "a")
	want("grain", "os:deb*", true, "a", "b", "c") // nothing is known of b and c
	set("b", "Arch")
	want("grain", "os:deb*", true, "a", "c")
	want("pillar_exact", "role:b", false, "b")
	set("a", "Arch")
	want("grain", "os:Arch", false, "a", "b")
	// Another process, or the next life, reads the same.
	y := NewMinionIndex(x.keys, filepath.Dir(x.dir), logNowhere())
	if g, p := y.Data("b"); g.Str("os") != "Arch" || p.Str("role") != "b" {
		t.Errorf("read back: %s, %s", Repr(g), Repr(p))
	}
	if err := os.WriteFile(filepath.Join(x.dir, "b", cacheDataFile), []byte{0x81, 0xa6}, 0o600); err != nil {
		t.Fatal(err)
	}
	if g, _ := NewMinionIndex(x.keys, filepath.Dir(x.dir), logNowhere()).Data("b"); g != nil {
		t.Errorf("a torn file gives %s", Repr(g))
	}
	if err := x.Forget("a"); err != nil {
		t.Fatal(err)
	}
	want("grain", "os:Arch", false, "b")
	for _, id := range []string{"../x", "a/b", ""} {
		if err := x.SetMine(id, NewMap()); err == nil {
			t.Errorf("data under the id %q", id)
		}
		if err := x.Forget(id); err == nil {
			t.Errorf("forgot %q", id)
		}
	}
}

// BenchmarkResolveGrain10000 matches a grain over 10,000 cached minions; the
// promise is 100 ms.
func BenchmarkResolveGrain10000(b *testing.B) {
	x := testIndex(b)
	grains := NewMap()
	for i := range 60 {
		grains.Set(fmt.Sprintf("grain%02d", i), "some value")
	}
	x.warm = true
	for i := range 10_000 {
		id := fmt.Sprintf("minion-%05d", i)
		x.addKey(b, id)
		g := grains.Clone()
		g.Set("os", []string{"Debian", "Arch", "RedHat"}[i%3])
		x.data[id] = &minionData{grains: g, pillar: NewMap()}
	}
	x.IDs()
	for b.Loop() {
		if r, err := x.Resolve("grain", "os:Deb*", "", nil, true); err != nil || len(r.Minions) != 3334 {
			b.Fatal(len(r.Minions), err)
		}
	}
}
