// Reading package files of small systems, which their managers do not tell about:
// members of tar archives, and fields of the control files in them.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// maxControlFile bounds what is read of one member; control files are small.
const maxControlFile = 1 << 20

// archiveMember reads a member of a compressed tar archive, or of several that
// follow each other.
func archiveMember(file, name string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return tarMember(f, name)
}

func tarMember(r io.Reader, name string) ([]byte, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	t := tar.NewReader(z)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("there is no %s", name)
		}
		if err != nil {
			return nil, err
		}
		if path.Clean(h.Name) == name {
			return io.ReadAll(io.LimitReader(t, maxControlFile))
		}
	}
}

// ipkControl reads the control file of an opkg package.
func ipkControl(file string) (string, error) {
	inner, err := archiveMember(file, "control.tar.gz")
	if err != nil {
		return "", err
	}
	p, err := tarMember(bytes.NewReader(inner), "control")
	return string(p), err
}

// controlField is what follows a key at the begin of a line.
func controlField(text, key string) string {
	for _, line := range strings.Split(text, "\n") {
		if v, ok := strings.CutPrefix(line, key); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
