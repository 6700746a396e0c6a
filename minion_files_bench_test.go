// What a file costs on its way to a minion.
package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkGetFile brings a file of 64 MiB from a master to a minion in this
// process, over the wire.
func BenchmarkGetFile(b *testing.B) {
	const size = 64 << 20
	dir := shortTempDir(b)
	srv := filepath.Join(dir, "srv")
	if err := os.Mkdir(srv, 0o755); err != nil {
		b.Fatal(err)
	}
	big := make([]byte, size)
	rand.Read(big)
	if err := os.WriteFile(filepath.Join(srv, "big"), big, 0o644); err != nil {
		b.Fatal(err)
	}
	m := startMaster(b, "auto_accept", true, "file_roots", NewMap("base", NewList(srv)))
	_, stop := startMinion(b, m, "one")
	defer stop()
	dest := filepath.Join(dir, "got")
	m.run(b, "one", "test.ping")
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		os.Remove(dest)
		if ret := m.run(b, "one", "cp.get_file", "salt://big", dest); ret.Value("return") != dest {
			b.Fatal(fmt.Sprint(Repr(ret)))
		}
	}
}
