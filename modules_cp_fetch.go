// Where a file may come from besides the master: http and https addresses and
// local paths, with the hash that it must have.
//
// The law of this room: what was fetched is whole and has its hash before it
// gets its name in the cache.
package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// cacheSource brings a source (salt, http, https, file, absolute path) to this
// box and returns where it is; "" if there is none.
func cacheSource(ctx context.Context, c *Call, source, saltenv string, sourceHash any, verify bool) (string, error) {
	u, err := url.Parse(source)
	scheme := ""
	if err == nil {
		scheme = u.Scheme
	}
	switch {
	case filepath.IsAbs(source):
		if _, err := os.Stat(source); err != nil {
			return "", nil
		}
		return source, nil
	case scheme == "file":
		if _, err := os.Stat(u.Path); err != nil {
			return "", nil
		}
		return u.Path, nil
	case scheme == "http" || scheme == "https":
		return cacheHTTP(ctx, c, u, saltenv, sourceHash, verify)
	case scheme != "" && scheme != "salt":
		return "", ExecErrorf("sources of the kind %s:// are not supported: use salt, http, https or file", scheme)
	}
	f, err := c.files()
	if err != nil {
		return "", err
	}
	return f.Cache(ctx, source, saltenv)
}

// externalPath is where Salt keeps what it fetched by URL.
func externalPath(c *Call, u *url.URL, saltenv string) (string, error) {
	rel := path.Join(u.Host, u.Path)
	if u.RawQuery != "" {
		rel += "-" + u.RawQuery
	}
	return SafeJoin(filepath.Join(c.Opts.Path("cachedir"), "extrn_files", saltenv), strings.ReplaceAll(rel, ":", "_"))
}

func cacheHTTP(ctx context.Context, c *Call, u *url.URL, saltenv string, sourceHash any, verify bool) (string, error) {
	dest, err := externalPath(c, u, saltenv)
	if err != nil {
		return "", err
	}
	kind, sum := parseSourceHash(sourceHash)
	if sum != "" {
		if have, err := hashFile(dest, kind); err == nil && have == sum {
			return dest, nil
		}
	}
	if err := httpFetch(ctx, u, dest, verify); err != nil {
		return "", err
	}
	if sum != "" {
		if have, err := hashFile(dest, kind); err != nil || have != sum {
			os.Remove(dest)
			return "", ExecErrorf("%s does not have the hash %s", u.Redacted(), sum)
		}
	}
	return dest, nil
}

// parseSourceHash reads "sha256=abc…", or a bare sum whose length names its kind.
func parseSourceHash(v any) (kind, sum string) {
	s, _ := v.(string)
	if k, rest, ok := strings.Cut(s, "="); ok {
		return k, strings.ToLower(rest)
	}
	switch len(s) {
	case 32:
		kind = "md5"
	case 40:
		kind = "sha1"
	case 56:
		kind = "sha224"
	case 64:
		kind = "sha256"
	case 96:
		kind = "sha384"
	case 128:
		kind = "sha512"
	default:
		return "", ""
	}
	return kind, strings.ToLower(s)
}

// httpFetch writes the answer of a URL beside dest and renames it.
func httpFetch(ctx context.Context, u *url.URL, dest string, verify bool) error {
	client := &http.Client{}
	if !verify {
		client.Transport = unverifiedTransport()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return OtherErrorf("salt.exceptions.MinionError", "Error: %s reading %s", err, u.Path)
	}
	resp, err := client.Do(req)
	if err != nil {
		text := err.Error()
		if errors.Is(err, syscall.ECONNREFUSED) {
			text = "[Errno 111] Connection refused"
		}
		return OtherErrorf("salt.exceptions.MinionError", "Error: %s reading %s", text, u.Path)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return OtherErrorf("salt.exceptions.MinionError", "Error: HTTP %s reading %s", resp.Status, u.Redacted())
	}
	if err := os.MkdirAll(filepath.Dir(dest), 0o755); err != nil {
		return err
	}
	return writeStream(dest, resp.Body)
}

// writeStream writes what r has to a file beside dest and renames it.
func writeStream(dest string, r io.Reader) error {
	tmp, err := os.CreateTemp(filepath.Dir(dest), "."+filepath.Base(dest)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if _, err := io.Copy(tmp, r); err != nil {
		tmp.Close()
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if info, err := os.Stat(dest); err == nil {
		mode = info.Mode().Perm()
	}
	if err := os.Chmod(tmp.Name(), mode); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), dest)
}
