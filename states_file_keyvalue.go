// State module file: keyvalue, which edits the lines of a file that give keys
// their values.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
)

type fileKeyvalueArgs struct {
	Name              string
	Key               any    `def:"None"`
	Value             any    `def:"None"`
	KeyValues         any    `def:"None"`
	Separator         string `def:"'='"`
	AppendIfNotFound  bool   `def:"False"`
	PrependIfNotFound bool   `def:"False"`
	SearchOnly        bool   `def:"False"`
	ShowChanges       bool   `def:"True"`
	IgnoreIfMissing   bool   `def:"False"`
	Count             int64  `def:"1"`
	Uncomment         any    `def:"None"`
	KeyIgnoreCase     bool   `def:"False"`
	ValueIgnoreCase   bool   `def:"False"`
}

func fileStateKeyvalue(_ context.Context, c *Call, a fileKeyvalueArgs) (any, error) {
	name, ret, ok := startFile("keyvalue", a.Name, nil)
	if !ok {
		return ret, nil
	}
	pairs, problem := a.pairs()
	if problem != "" {
		return stateSay(ret, false, "%s", problem)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		ret.Set("comment", "unable to open "+name)
		ret.Set("result", a.IgnoreIfMissing)
		return ret, nil
	}
	e := &keyvalueEdit{a: a}
	for k, v := range pairs.All() {
		e.keys = append(e.keys, &wantedKey{Str(k), v, a.Count})
	}
	for _, line := range keepEnds(string(data)) {
		e.content = append(e.content, e.edit(line))
	}
	if a.AppendIfNotFound {
		e.appendMissing()
	} else if a.PrependIfNotFound {
		e.prependMissing()
	}
	if e.changes == 0 {
		ret.Set("result", true)
		return ret, nil
	}
	if a.ShowChanges {
		ret.Map("changes").Set("diff", strings.Join(e.diff, ""))
	}
	if c.Testing() {
		comment := fmt.Sprintf("File %s is set to be changed (%d lines)", name, e.changes)
		if a.ShowChanges {
			comment += "\nPredicted diff:\n\r\t\t" + strings.Join(e.diff, "\r\t\t")
		}
		ret.Set("comment", comment)
		return ret, nil
	}
	ret.Set("comment", fmt.Sprintf("Changed %d lines", e.changes))
	if err := replaceAtomically(name, []byte(strings.Join(e.content, ""))); err != nil {
		return stateSay(ret, false, "%s not writable", name)
	}
	ret.Set("result", true)
	return ret, nil
}

// pairs are the wanted keys with their values, or what is wrong with them.
func (a fileKeyvalueArgs) pairs() (*Map, string) {
	pairs, isMap := a.KeyValues.(*Map)
	switch {
	case a.Key != nil && a.Value != nil:
		if isMap && pairs.Class() == "" {
			return nil, "file.keyvalue can not combine key_values with key and value"
		}
		return NewMap(Str(a.Key), a.Value), ""
	case !Truth(a.KeyValues):
		return nil, "file.keyvalue key and value not supplied and key_values is empty"
	case !isMap:
		return nil, "file.keyvalue key and value not supplied and key_values is not a dictionary"
	}
	return pairs, ""
}

// wantedKey is one wanted key of file.keyvalue and how often it is still wanted.
type wantedKey struct {
	key   string
	value any
	left  int64
}

func (k *wantedKey) line(separator string) string { return k.key + separator + Str(k.value) + "\n" }

// keyvalueEdit is the contents of a file as file.keyvalue makes them.
type keyvalueEdit struct {
	a             fileKeyvalueArgs
	keys          []*wantedKey
	content, diff []string
	changes       int
}

// strip takes away what comments a line out.
func (e *keyvalueEdit) strip(s string) string {
	if u, ok := e.a.Uncomment.(string); ok {
		return strings.TrimLeft(s, u)
	}
	return strings.TrimLeft(s, " \t\n\r\f\v")
}

func foldIf(s string, on bool) string {
	if on {
		return strings.ToLower(s)
	}
	return s
}

// edit gives a line as it is to be: changed, the same, or none ("").
func (e *keyvalueEdit) edit(line string) string {
	test := e.strip(line)
	uncommented := len(line) > len(test)
	test = foldIf(test, e.a.KeyIgnoreCase)
	for _, k := range e.keys {
		want := foldIf(k.key, e.a.KeyIgnoreCase)
		if !strings.HasPrefix(test, want) {
			continue
		}
		working := line
		if uncommented {
			working = e.strip(line)
		}
		key, value, ok := strings.Cut(working, e.a.Separator)
		if !ok || foldIf(key, e.a.KeyIgnoreCase) != want {
			continue
		}
		if e.differs(k, value, uncommented) {
			line = e.change(k, line, key)
		}
		if k.left > 0 {
			k.left--
		}
	}
	return line
}

// differs says whether a line with this value of a key is to be changed.
func (e *keyvalueEdit) differs(k *wantedKey, value string, uncommented bool) bool {
	switch {
	case uncommented:
		return k.left > 0
	case k.left == 0:
		return true
	}
	return foldIf(strings.TrimSpace(value), e.a.ValueIgnoreCase) != foldIf(strings.TrimSpace(Str(k.value)), e.a.ValueIgnoreCase)
}

// change puts the wanted value into a line; a key that is wanted no more goes.
func (e *keyvalueEdit) change(k *wantedKey, line, key string) string {
	e.changes++
	e.diff = append(e.diff, "- "+line)
	if k.left == 0 {
		return ""
	}
	line = key + e.a.Separator + Str(k.value) + "\n"
	if _, isText := k.value.(string); isText {
		e.diff = append(e.diff, "+ "+line)
	} else {
		e.diff = append(e.diff, fmt.Sprintf("+ %s (from %s type)\n", strings.TrimRight(line, " \t\r\n"), TypeName(k.value)))
	}
	return line
}

// missing makes the lines of the keys that were not found.
func (e *keyvalueEdit) missing() []string {
	var out []string
	for _, k := range e.keys {
		if k.left > 0 {
			out = append(out, k.line(e.a.Separator))
		}
	}
	e.changes += len(out)
	return out
}

func (e *keyvalueEdit) appendMissing() {
	lines := e.missing()
	if len(lines) == 0 {
		return
	}
	e.content = append(e.content, lines...)
	e.diff = append(e.diff, "- <EOF>\n")
	for _, line := range lines {
		e.diff = append(e.diff, "+ "+line)
	}
	e.diff = append(e.diff, "+ <EOF>\n")
}

// prependMissing puts each line before the ones before it.
func (e *keyvalueEdit) prependMissing() {
	lines := e.missing()
	if len(lines) == 0 {
		return
	}
	diff := []string{"  <SOF>\n"}
	slices.Reverse(lines)
	for _, line := range lines {
		diff = append(diff, "+ "+line)
	}
	e.content = append(lines, e.content...)
	e.diff = append(diff, e.diff...)
}
