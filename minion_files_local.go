// The file server of a masterless minion: file_roots, read in this process by
// the rules of the master's file server.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// NewLocalFiles makes the file client of a minion without a master.
func NewLocalFiles(o *Options, log *slog.Logger) FileClient {
	server := NewFileServer(o, log)
	hashType := o.Str("hash_type")
	if hashType == "" {
		hashType = "sha256"
	}
	return NewFileClient(o, log, func(_ context.Context, load *Map) (any, error) {
		return localFileAnswer(server, hashType, load)
	}, true)
}

// localFileAnswer answers one request of the file client. Contents are not asked
// for: the client reads the file itself.
func localFileAnswer(server FileServer, hashType string, load *Map) (any, error) {
	env := envOf(load)
	cmd := load.Str("cmd")
	if cmd == "_file_envs" {
		return Strings(server.Envs()), nil
	}
	if err := ValidEnv(env); err != nil {
		return nil, err
	}
	prefix := strings.Trim(load.Str("prefix"), "/")
	list := func(paths []string, err error) (any, error) {
		out := NewList()
		for _, p := range paths {
			if strings.HasPrefix(p, prefix) {
				out.Append(p)
			}
		}
		return out, err
	}
	switch cmd {
	case "_file_list":
		return list(server.Files(env))
	case "_file_list_emptydirs":
		return list(server.EmptyDirs(env))
	case "_dir_list":
		return list(server.Dirs(env))
	case "_symlink_list":
		links, err := server.Links(env)
		out := NewMap()
		for k, v := range links.All() {
			if strings.HasPrefix(Str(k), prefix) {
				out.Set(k, v)
			}
		}
		return out, err
	}
	found, err := server.Find(env, load.Str("path"))
	if err != nil {
		return nil, err
	}
	var hash, stat any = "", nil
	if found != nil && cmd != "_file_find" {
		sum, err := hashFile(found.Path, hashType)
		if err != nil {
			return nil, err
		}
		hash, stat = NewMap("hash_type", hashType, "hsum", sum), statList(found.Info)
	}
	switch cmd {
	case "_file_hash":
		return hash, nil
	case "_file_hash_and_stat":
		return NewList(hash, stat), nil
	case "_file_find":
		if found == nil {
			return NewMap("path", "", "rel", ""), nil
		}
		return NewMap("path", found.Path, "rel", found.Rel, "stat", statList(found.Info), "back", found.Back), nil
	}
	return nil, fmt.Errorf("the local file server does not answer %s", cmd)
}
