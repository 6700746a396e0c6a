// YAML as Salt's loader reads it.
//
// The law of this file: the tree comes from render_yaml_tree.go. What a plain
// scalar means, merge keys, duplicate keys and tags are decided here, by the
// rules of YAML 1.1 as PyYAML and Salt's loader apply them, and errors carry the
// words, lines and columns that Salt's users know.
package main

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// YAMLMark is a position in a document, counted from 1; the zero value is none.
type YAMLMark struct{ Line, Column int }

// YAMLError says what is wrong with a document, and where. Class is the name
// that Salt's users see in front of such errors: ReaderError, ScannerError,
// ParserError, ComposerError, ConstructorError (or the name of a Python
// exception, for values that fail to convert).
type YAMLError struct {
	Class       string
	Context     string
	ContextMark YAMLMark
	Problem     string
	Mark        YAMLMark
	Position    int // byte offset, for ReaderError only
}

func (m YAMLMark) String() string {
	return fmt.Sprintf("  in \"<unicode string>\", line %d, column %d", m.Line, m.Column)
}

// Error is the text as Salt prints it, several lines with positions.
func (e *YAMLError) Error() string {
	if e.Class == "ReaderError" {
		return fmt.Sprintf("%s\n  in \"<unicode string>\", position %d", e.Problem, e.Position)
	}
	var lines []string
	if e.Context != "" {
		lines = append(lines, e.Context)
	}
	if e.ContextMark.Line > 0 && (e.Problem == "" || e.Mark.Line == 0 || e.ContextMark != e.Mark) {
		lines = append(lines, e.ContextMark.String())
	}
	if e.Problem != "" {
		lines = append(lines, e.Problem)
	}
	if e.Mark.Line > 0 {
		lines = append(lines, e.Mark.String())
	}
	return strings.Join(lines, "\n")
}

// ParseYAML reads one document. An empty document is nil. The error, if any,
// is a *YAMLError.
func ParseYAML(src []byte) (any, error) {
	if err := checkYAMLCharacters(src); err != nil {
		return nil, err
	}
	root, err := composeYAML(strings.TrimPrefix(string(src), "\ufeff"))
	if err != nil || root == nil {
		return nil, err
	}
	var c yamlConstructor
	v, err := c.construct(root)
	for err == nil && len(c.pending) > 0 {
		// one layer after the other, so that of several errors the same one is
		// reported as by the reference
		layer := c.pending
		c.pending = nil
		for _, fill := range layer {
			if err = c.fill(fill); err != nil {
				break
			}
		}
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// checkYAMLCharacters refuses what may not stand in a document at all, before
// anything else is looked at.
func checkYAMLCharacters(src []byte) error {
	fail := func(at int, text string) error {
		return &YAMLError{Class: "ReaderError", Problem: text, Position: at}
	}
	for i := 0; i < len(src); {
		c := src[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c < 0x7f || c == '\n' || c == '\t' || c == '\r' {
				i++
				continue
			}
			return fail(i, fmt.Sprintf("unacceptable character #x%04x: control characters are not allowed", c))
		}
		r, n := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && n == 1 {
			return fail(i, fmt.Sprintf("unacceptable character #x%04x: invalid leading UTF-8 octet", c))
		}
		ok := r == 0x85 || r >= 0xa0 && r <= 0xd7ff || r >= 0xe000 && r <= 0xfffd && (r != 0xfeff || i == 0) || r >= 0x10000
		if !ok {
			return fail(i, fmt.Sprintf("unacceptable character #x%04x: control characters are not allowed", r))
		}
		i += n
	}
	return nil
}

const yamlTagPrefix = "tag:yaml.org,2002:"

// yamlConstructor builds values from nodes. Mappings and sequences are made
// empty and filled later (pending), so that a document may refer to itself.
type yamlConstructor struct{ pending []yamlFill }

// yamlFill is a container to be filled from its node.
type yamlFill struct {
	n     *yamlNode
	m     *Map
	l     *List
	pairs bool
}

func (c *yamlConstructor) fill(f yamlFill) error {
	switch {
	case f.m != nil:
		return c.fillMapping(f.n, f.m)
	case f.pairs:
		return c.fillPairs(f.n, f.l)
	}
	return c.fillSequence(f.n, f.l)
}

func constructorError(n *yamlNode, format string, args ...any) error {
	return &YAMLError{Class: "ConstructorError", Problem: fmt.Sprintf(format, args...), Mark: n.at.mark()}
}

func constructorErrorIn(context string, in, at *yamlNode, problem string) error {
	return &YAMLError{Class: "ConstructorError", Context: context, ContextMark: in.at.mark(), Problem: problem, Mark: at.at.mark()}
}

func (c *yamlConstructor) construct(n *yamlNode) (any, error) {
	if n.done {
		return n.made, nil
	}
	v, err := c.constructNew(n)
	if err == nil && n.anchor {
		n.made, n.done = v, true
	}
	return v, err
}

func (c *yamlConstructor) constructNew(n *yamlNode) (any, error) {
	tag := n.fullTag()
	name, standard := strings.CutPrefix(tag, yamlTagPrefix)
	if !standard {
		return nil, constructorError(n, "could not determine a constructor for the tag %s", Repr(tag))
	}
	switch name {
	case "map", "omap":
		m := &Map{}
		c.pending = append(c.pending, yamlFill{n: n, m: m})
		return m, nil
	case "seq":
		l := &List{}
		c.pending = append(c.pending, yamlFill{n: n, l: l})
		return l, nil
	case "set":
		s := &Set{}
		c.pending = append(c.pending, yamlFill{n: n, m: &s.m})
		return s, nil
	case "pairs":
		l := &List{}
		c.pending = append(c.pending, yamlFill{n: n, l: l, pairs: true})
		return l, nil
	case "null", "bool", "int", "float", "binary", "timestamp", "str", "python/unicode":
		if n.kind != 's' {
			return nil, constructorError(n, "expected a scalar node, but found %s", n.kindName())
		}
		return constructYAMLScalar(name, n)
	}
	return nil, constructorError(n, "could not determine a constructor for the tag %s", Repr(tag))
}

func (c *yamlConstructor) fillSequence(n *yamlNode, l *List) error {
	if n.kind != 'l' {
		return constructorError(n, "expected a sequence node, but found %s", n.kindName())
	}
	l.Items = make([]any, 0, len(n.items))
	for _, child := range n.items {
		v, err := c.construct(child)
		if err != nil {
			return err
		}
		l.Items = append(l.Items, v)
	}
	return nil
}

func (c *yamlConstructor) fillMapping(n *yamlNode, m *Map) error {
	if n.kind != 'm' {
		return constructorError(n, "expected a mapping node, but found %s", n.kindName())
	}
	if err := c.flatten(n, 0); err != nil {
		return err
	}
	const context = "while constructing a mapping"
	for i := 0; i+1 < len(n.items); i += 2 {
		keyNode := n.items[i]
		key, err := c.construct(keyNode)
		if err != nil {
			return err
		}
		if !Hashable(key) {
			return constructorErrorIn(context, n, keyNode, "found unacceptable key "+keyNode.repr(false, 0))
		}
		value, err := c.construct(n.items[i+1])
		if err != nil {
			return err
		}
		if m.Has(key) {
			return constructorErrorIn(context, n, keyNode, fmt.Sprintf("found conflicting ID '%s'", Str(key)))
		}
		m.Set(key, value)
	}
	return nil
}

func (c *yamlConstructor) fillPairs(n *yamlNode, l *List) error {
	const context = "while constructing pairs"
	if n.kind != 'l' {
		return constructorErrorIn(context, n, n, "expected a sequence, but found "+n.kindName())
	}
	for _, sub := range n.items {
		if sub.kind != 'm' {
			return constructorErrorIn(context, n, sub, "expected a mapping of length 1, but found "+sub.kindName())
		}
		if len(sub.items) != 2 {
			return constructorErrorIn(context, n, sub, fmt.Sprintf("expected a single mapping item, but found %d items", len(sub.items)/2))
		}
		key, err := c.construct(sub.items[0])
		if err != nil {
			return err
		}
		value, err := c.construct(sub.items[1])
		if err != nil {
			return err
		}
		l.Append(Tuple{key, value})
	}
	return nil
}

// flatten replaces the merge keys of a mapping by what they stand for. Own keys
// win; merged keys come first.
func (c *yamlConstructor) flatten(n *yamlNode, depth int) error {
	if depth > maxYAMLDepth {
		return &YAMLError{Class: "RecursionError", Problem: "maximum recursion depth exceeded"}
	}
	special := false
	for i := 0; i+1 < len(n.items); i += 2 {
		if k := n.items[i]; k.kind == 's' && (k.value == "<<" || k.value == "=" || k.tag != "") {
			special = true
			break
		}
	}
	if !special {
		return nil
	}
	const context = "while constructing a mapping"
	var own, merged []*yamlNode
	found := false
	for i := 0; i+1 < len(n.items); i += 2 {
		key, value := n.items[i], n.items[i+1]
		if key.kind != 's' {
			own = append(own, key, value)
			continue
		}
		switch key.fullTag() {
		case yamlTagPrefix + "merge":
			found = true
			switch value.kind {
			case 'm':
				if value == n {
					continue // merges itself: nothing more to add
				}
				if err := c.flatten(value, depth+1); err != nil {
					return err
				}
				merged = append(merged, value.items...)
			case 'l':
				// the first wrong member is named, the last one is merged first
				for _, sub := range value.items {
					if sub.kind != 'm' {
						return constructorErrorIn(context, n, sub, "expected a mapping for merging, but found "+sub.kindName())
					}
					if sub == n {
						continue
					}
					if err := c.flatten(sub, depth+1); err != nil {
						return err
					}
				}
				for j := len(value.items) - 1; j >= 0; j-- {
					if sub := value.items[j]; sub != n {
						merged = append(merged, sub.items...)
					}
				}
			default:
				return constructorErrorIn(context, n, value, "expected a mapping or list of mappings for merging, but found "+value.kindName())
			}
			continue
		case yamlTagPrefix + "value":
			key.tag = yamlTagPrefix + "str"
		}
		own = append(own, key, value)
	}
	if !found {
		return nil
	}
	existing := map[string]bool{}
	for i := 0; i < len(own); i += 2 {
		if own[i].kind == 's' {
			existing[own[i].value] = true
		}
	}
	items := make([]*yamlNode, 0, len(own)+len(merged))
	for i := 0; i+1 < len(merged); i += 2 {
		if key := merged[i]; key.kind == 's' && existing[key.value] {
			continue
		}
		items = append(items, merged[i], merged[i+1])
	}
	n.items = append(items, own...)
	return nil
}

// constructYAMLScalar makes the value of a scalar with the given standard tag.
func constructYAMLScalar(tag string, n *yamlNode) (any, error) {
	text := n.value
	python := func(class, format string, args ...any) error {
		return &YAMLError{Class: class, Problem: fmt.Sprintf(format, args...)}
	}
	switch tag {
	case "str", "timestamp", "python/unicode":
		return text, nil
	case "null":
		return nil, nil
	case "bool":
		switch strings.ToLower(text) {
		case "yes", "true", "on":
			return true, nil
		case "no", "false", "off":
			return false, nil
		}
		return nil, python("KeyError", "%s", Repr(strings.ToLower(text)))
	case "int":
		// Salt drops leading zeros, so that file modes stay what they look like
		if text != "0" && strings.HasPrefix(text, "0") && !strings.HasPrefix(text, "0b") && !strings.HasPrefix(text, "0x") {
			if text = strings.TrimLeft(text, "0"); text == "" {
				text = "0"
			}
		}
		return parseYAMLInt(text, python)
	case "float":
		return parseYAMLFloat(text, python)
	case "binary":
		for _, r := range text {
			if r > 127 {
				return nil, constructorError(n, "failed to convert base64 data into ascii: 'ascii' codec can't encode characters: ordinal not in range(128)")
			}
		}
		data, err := decodeBase64Lenient(text)
		if err != nil {
			return nil, constructorError(n, "failed to decode base64 data: %s", err)
		}
		return data, nil
	}
	return text, nil
}

func parseYAMLInt(text string, python func(string, string, ...any) error) (any, error) {
	s := strings.ReplaceAll(text, "_", "")
	if s == "" {
		return nil, python("IndexError", "string index out of range")
	}
	negative := s[0] == '-'
	if s[0] == '-' || s[0] == '+' {
		s = s[1:]
	}
	parse := func(digits string, base int) (*big.Int, error) {
		i, ok := new(big.Int).SetString(strings.TrimSpace(digits), base)
		if !ok || digits == "" {
			return nil, python("ValueError", "invalid literal for int() with base %d: %s", base, Repr(digits))
		}
		return i, nil
	}
	var i *big.Int
	var err error
	switch {
	case s == "":
		return nil, python("IndexError", "string index out of range")
	case s == "0":
		return int64(0), nil
	case strings.HasPrefix(s, "0b"):
		i, err = parse(s[2:], 2)
	case strings.HasPrefix(s, "0x"):
		i, err = parse(s[2:], 16)
	case s[0] == '0':
		i, err = parse(s, 8)
	case strings.Contains(s, ":"):
		i = new(big.Int)
		for _, part := range strings.Split(s, ":") {
			var d *big.Int
			if d, err = parse(part, 10); err != nil {
				return nil, err
			}
			i.Add(i.Mul(i, big.NewInt(60)), d)
		}
	default:
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			if negative {
				n = -n
			}
			return n, nil
		}
		i, err = parse(s, 10)
	}
	if err != nil {
		return nil, err
	}
	if negative {
		i.Neg(i)
	}
	return normalInt(i), nil
}

func parseYAMLFloat(text string, python func(string, string, ...any) error) (any, error) {
	s := strings.ToLower(strings.ReplaceAll(text, "_", ""))
	if s == "" {
		return nil, python("IndexError", "string index out of range")
	}
	sign := 1.0
	if s[0] == '-' {
		sign = -1
	}
	if s[0] == '-' || s[0] == '+' {
		s = s[1:]
	}
	parse := func(part string) (float64, error) {
		f, err := strconv.ParseFloat(part, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return 0, python("ValueError", "could not convert string to float: %s", Repr(part))
		}
		return f, nil
	}
	switch {
	case s == ".inf":
		return math.Inf(int(sign)), nil
	case s == ".nan":
		return math.NaN(), nil
	case strings.Contains(s, ":"):
		parts := strings.Split(s, ":")
		value, base := 0.0, 1.0
		for i := len(parts) - 1; i >= 0; i-- {
			d, err := parse(parts[i])
			if err != nil {
				return nil, err
			}
			value += d * base
			base *= 60
		}
		return sign * value, nil
	}
	f, err := parse(s)
	if err != nil {
		return nil, err
	}
	return sign * f, nil
}
