// Several file server backends as one: fileserver_backend names them, and the
// first that has a file serves it.
package main

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
)

// NewFileServer makes the file server that fileserver_backend describes. A
// backend that does not exist or cannot be used is logged and left out.
func NewFileServer(o *Options, log *slog.Logger) FileServer {
	var chain chainFileServer
	for _, name := range o.List("fileserver_backend") {
		switch name {
		case "roots":
			chain = append(chain, namedFileServer{name, NewRootsFileServer(o, log)})
		case "git", "gitfs":
			s, err := NewGitFileServer(o, log)
			if err != nil {
				log.Error(err.Error())
				continue
			}
			chain = append(chain, namedFileServer{"git", s})
		default:
			log.Error(fmt.Sprintf("fileserver_backend: %s is not available: roots and git are", name))
		}
	}
	switch len(chain) {
	case 0:
		return NewRootsFileServer(o, log)
	case 1:
		return chain[0].FileServer
	}
	return chain
}

type namedFileServer struct {
	name string
	FileServer
}

// chainFileServer asks its backends in order.
type chainFileServer []namedFileServer

func (c chainFileServer) Envs() []string {
	var out []string
	for _, b := range c {
		for _, e := range b.Envs() {
			if !slices.Contains(out, e) {
				out = append(out, e)
			}
		}
	}
	slices.Sort(out)
	return out
}

func (c chainFileServer) Find(env, p string) (*FoundFile, error) {
	for _, b := range c {
		if f, err := b.Find(env, p); f != nil || err != nil {
			return f, err
		}
	}
	return nil, nil
}

func (c chainFileServer) Open(env string, f *FoundFile) (*os.File, error) {
	for _, b := range c {
		if b.name == f.Back {
			return b.Open(env, f)
		}
	}
	return nil, os.ErrNotExist
}

// union joins one list of every backend.
func (c chainFileServer) union(list func(FileServer) ([]string, error)) ([]string, error) {
	seen := map[string]bool{}
	for _, b := range c {
		names, err := list(b.FileServer)
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			seen[n] = true
		}
	}
	return sortedKeys(seen), nil
}

func (c chainFileServer) Files(env string) ([]string, error) {
	return c.union(func(s FileServer) ([]string, error) { return s.Files(env) })
}

func (c chainFileServer) EmptyDirs(env string) ([]string, error) {
	return c.union(func(s FileServer) ([]string, error) { return s.EmptyDirs(env) })
}

func (c chainFileServer) Dirs(env string) ([]string, error) {
	return c.union(func(s FileServer) ([]string, error) { return s.Dirs(env) })
}

func (c chainFileServer) Links(env string) (*Map, error) {
	out := &Map{}
	for i := len(c) - 1; i >= 0; i-- { // the first backend wins
		m, err := c[i].Links(env)
		if err != nil {
			return nil, err
		}
		out.Merge(m)
	}
	return out, nil
}
