// Module file: checksums, and finding them in files of checksums.
package main

import (
	"context"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// hashLengths are the hash types that sources may be checked with, and the
// lengths of their hexadecimal digests.
func hashLengths() map[string]int {
	return map[string]int{"sha512": 128, "sha384": 96, "sha256": 64, "sha224": 56, "sha1": 40, "md5": 32}
}

func hashTypeOfLength(n int) string {
	for name, length := range hashLengths() {
		if length == n {
			return name
		}
	}
	return ""
}

// hashLengthsText lists types with their lengths, shortest first.
func hashLengthsText() string {
	var lengths []int
	for _, n := range hashLengths() {
		lengths = append(lengths, n)
	}
	sort.Ints(lengths)
	parts := make([]string, len(lengths))
	for i, n := range lengths {
		parts[i] = hashTypeOfLength(n) + " (" + strconv.Itoa(n) + ")"
	}
	return strings.Join(parts, ", ")
}

// fileProtocols are the schemes that sources can have.
func fileProtocols() []string { return []string{"salt", "file", "http", "https", "ftp", "swift", "s3"} }

func isFileProtocol(scheme string) bool {
	for _, p := range fileProtocols() {
		if p == scheme {
			return true
		}
	}
	return false
}

// urlScheme is the scheme of a URL in lower case, "" if it has none.
func urlScheme(s string) string {
	scheme, _, ok := strings.Cut(s, ":")
	if !ok || scheme == "" {
		return ""
	}
	for i, r := range scheme {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789+-.", r)) {
			return ""
		}
	}
	return strings.ToLower(scheme)
}

// redactURL hides a password in a URL.
func redactURL(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.User == nil {
		return s
	}
	return strings.Replace(s, u.User.String()+"@", "<redacted>@", 1)
}

// hashOfFile is get_hash: the digest of a file.
func hashOfFile(name, form string) (string, error) {
	if newHash(form) == nil {
		return "", OtherErrorf("ValueError", "Invalid hash type: %s", form)
	}
	sum, err := hashFile(name, form)
	if err != nil {
		return "", pyOSError(err)
	}
	return sum, nil
}

type fileSumArgs struct {
	Path string
	Form string `def:"'sha256'"`
}

func fileGetSum(_ context.Context, _ *Call, a fileSumArgs) (any, error) {
	name := expandUser(a.Path)
	if st, err := os.Stat(name); err != nil || !st.Mode().IsRegular() {
		return "File not found", nil
	}
	return hashOfFile(name, a.Form)
}

type fileHashArgs struct {
	Path      string
	Form      string `def:"'sha256'"`
	ChunkSize any    `def:"65536"`
}

func fileGetHash(_ context.Context, _ *Call, a fileHashArgs) (any, error) {
	return hashOfFile(expandUser(a.Path), a.Form)
}

type checkHashArgs struct {
	Path     string
	FileHash any
}

func fileCheckHash(_ context.Context, _ *Call, a checkHashArgs) (any, error) {
	text, ok := a.FileHash.(string)
	if !ok {
		return nil, InvocationErrorf("hash must be a string")
	}
	kind, value := "", text
	for _, sep := range []string{":", "="} {
		if k, v, ok := strings.Cut(text, sep); ok {
			kind, value = k, v
			break
		}
	}
	if kind == "" {
		if kind = hashTypeOfLength(len(text)); kind == "" {
			return nil, InvocationErrorf("Hash %s (length: %d) could not be matched to a supported hash type. The supported hash types and lengths are: %s", text, len(text), hashLengthsText())
		}
	}
	sum, err := hashOfFile(expandUser(a.Path), kind)
	if err != nil {
		return nil, err
	}
	return sum == value, nil
}

type sourceSumArgs struct {
	FileName       any  `def:"''"`
	Source         any  `def:"''"`
	SourceHash     any  `def:"None"`
	SourceHashName any  `def:"None"`
	Saltenv        any  `def:"'base'"`
	VerifySsl      bool `def:"True"`
}

func fileGetSourceSum(ctx context.Context, c *Call, a sourceSumArgs) (any, error) {
	return getSourceSum(ctx, c, a)
}

// getSourceSum reads a source_hash: a hash, type=hash, or a file of hashes.
func getSourceSum(ctx context.Context, c *Call, a sourceSumArgs) (*Map, error) {
	text := Str(orEmpty(a.SourceHash))
	invalid := func() error {
		return ExecErrorf("Source hash %s format is invalid. The supported formats are: 1) a hash, 2) an expression in the format "+
			"<hash_type>=<hash>, or 3) either a path to a local file containing hashes, or a URI of a remote hash file. Supported protocols "+
			"for remote hash files are: %s. The hash may also not be of a valid length, the following are supported hash types and lengths: %s.",
			redactURL(text), strings.Join(fileProtocols(), ", "), hashLengthsText())
	}
	file := ""
	switch scheme := urlScheme(text); {
	case filepath.IsAbs(text):
		file = text
	case isFileProtocol(scheme):
		got, err := c.RunKw(ctx, "cp.cache_file", []any{text, a.Saltenv}, NewMap("verify_ssl", a.VerifySsl))
		if err != nil {
			return nil, err
		}
		if !Truth(got) {
			return nil, ExecErrorf("Source hash file %s not found", redactURL(text))
		}
		file = Str(got)
	case scheme != "":
		return nil, invalid()
	}
	if file != "" {
		found, err := extractHash(c, extractHashArgs{HashFn: file, HashType: "", FileName: a.FileName, Source: a.Source, SourceHashName: a.SourceHashName})
		if err != nil {
			return nil, err
		}
		if found == nil {
			return nil, invalid()
		}
		found.Set("hsum", strings.ToLower(found.Str("hsum")))
		return found, nil
	}
	kind, sum, given := strings.Cut(text, "=")
	if given {
		kind, sum = strings.TrimSpace(kind), strings.TrimSpace(sum)
	} else {
		sum = text
		if text == "" || strings.Trim(text, "0123456789abcdefABCDEF") != "" {
			return nil, invalid()
		}
		if kind = hashTypeOfLength(len(text)); kind == "" {
			return nil, invalid()
		}
	}
	length, known := hashLengths()[kind]
	if !known {
		return nil, ExecErrorf("Invalid hash type '%s'. Supported hash types are: sha512, sha384, sha256, sha224, sha1, md5. Either remove the hash type and "+
			"simply use '%s' as the source_hash, or change the hash type to a supported type.", kind, sum)
	}
	if len(sum) != length {
		right := hashTypeOfLength(len(sum))
		if right == "" {
			return nil, invalid()
		}
		return nil, ExecErrorf("Invalid length (%d) for hash type '%s'. Either remove the hash type and simply use '%s' as the source_hash, "+
			"or change the hash type to '%s'", len(sum), kind, sum, right)
	}
	return NewMap("hash_type", kind, "hsum", strings.ToLower(sum)), nil
}

type extractHashArgs struct {
	HashFn         string
	HashType       string `def:"'sha256'"`
	FileName       any    `def:"''"`
	Source         any    `def:"''"`
	SourceHashName any    `def:"None"`
}

func fileExtractHash(_ context.Context, c *Call, a extractHashArgs) (any, error) {
	m, err := extractHash(c, a)
	if err != nil || m == nil {
		return nil, err
	}
	return m, nil
}

// extractHash finds a hash in a file of hashes: on the line of a name that is
// asked for, or else the first one there is.
func extractHash(c *Call, a extractHashArgs) (*Map, error) {
	p, err := os.ReadFile(a.HashFn)
	if err != nil {
		return nil, pyOSError(err)
	}
	text, _ := decodeText(p, "")
	least, most := 32, 128
	if n, ok := hashLengths()[a.HashType]; ok {
		least, most = n, n
	} else if a.HashType != "" {
		c.Log.Warn("file.extract_hash: Unsupported hash_type '" + a.HashType + "', falling back to matching any supported hash_type")
	}
	hashName, fileName, source := Str(orEmpty(a.SourceHashName)), Str(orEmpty(a.FileName)), Str(orEmpty(a.Source))
	sourceBase := ""
	if u, err := url.Parse(source); err == nil {
		if sourceBase = path.Base(u.Path); u.Path == "" {
			sourceBase = path.Base(u.Host)
		}
	}
	const blanks = " \t\n\r\v\f"
	// named says whether a line is about name: it ends with base after one of
	// the separators, or begins with name.
	named := func(line, name, base, separators string) bool {
		if name == "" {
			return false
		}
		if strings.HasSuffix(line, base) {
			before := line[:len(line)-len(base)]
			return before != "" && strings.Contains(separators, before[len(before)-1:])
		}
		rest, ok := strings.CutPrefix(line, name)
		return ok && rest != "" && strings.Contains(blanks, rest[:1])
	}
	re := regexp.MustCompile(`(?i)[a-z0-9]+`)
	var first *Map
	found := map[string]*Map{}
	for _, line := range strings.Split(text, "\n") {
		line = pyStrip(line)
		var match *Map
		for _, word := range re.FindAllString(line, -1) {
			if len(word) >= least && len(word) <= most && strings.Trim(strings.ToLower(word), "0123456789abcdef") == "" {
				if kind := hashTypeOfLength(len(word)); kind != "" {
					match = NewMap("hsum", word, "hash_type", kind)
				}
				break
			}
		}
		if match == nil {
			continue
		}
		if first == nil {
			first = match
		}
		for _, want := range []struct{ kind, name, base, separators string }{
			{"source_hash_name", hashName, hashName, blanks},
			{"file_name", fileName, filepath.Base(fileName), blanks + `\/*`},
			{"source", source, sourceBase, blanks + `\/*`},
		} {
			if found[want.kind] == nil && named(line, want.name, want.base, want.separators) {
				found[want.kind] = match
			}
		}
	}
	for _, kind := range []string{"source_hash_name", "file_name", "source"} {
		if m := found[kind]; m != nil {
			return m, nil
		}
	}
	return first, nil
}
