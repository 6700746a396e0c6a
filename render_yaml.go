// YAML as Salt's loader reads it.
//
// The law of this file: go.yaml.in/yaml/v4 only parses, into its node tree.
// What a plain scalar means, merge keys, duplicate keys and tags are decided
// here, by the rules of YAML 1.1 as PyYAML and Salt's loader apply them, and
// errors carry the words, lines and columns that Salt's users know.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
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
func ParseYAML(src []byte) (v any, err error) {
	if err := checkYAMLCharacters(src); err != nil {
		return nil, err
	}
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	defer func() { // the parser is foreign code on input of anyone
		if r := recover(); r != nil {
			v, err = nil, &YAMLError{Class: "ParserError", Problem: fmt.Sprintf("the document cannot be parsed: %v", r)}
		}
	}()
	loader, err := yaml.NewLoader(bytes.NewReader(src))
	if err != nil {
		return nil, yamlParserError(err)
	}
	var doc yaml.Node
	if err := loader.Load(&doc); err == io.EOF {
		return nil, nil
	} else if err != nil {
		return nil, yamlParserError(err)
	}
	var next yaml.Node
	if err := loader.Load(&next); err != io.EOF {
		if err != nil {
			var le *yaml.LoadError
			if !errors.As(err, &le) || le.Stage == "scanner" && next.Line == 0 && !secondDocumentStarts(src, le.Mark.Line) {
				return nil, yamlParserError(err)
			}
			next.Line, next.Column = secondDocumentLine(src), 1
		}
		return nil, &YAMLError{Class: "ComposerError", Context: "expected a single document in the stream",
			ContextMark: nodeMark(doc.Content[0]), Problem: "but found another document", Mark: nodeMark(&next)}
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	c := yamlConstructor{made: map[*yaml.Node]any{}, tags: map[*yaml.Node]string{}}
	if err := c.checkAnchors(doc.Content[0], map[string]*yaml.Node{}); err != nil {
		return nil, err
	}
	v, err = c.construct(doc.Content[0])
	for err == nil && len(c.pending) > 0 {
		// one layer after the other, so that of several errors the same one is
		// reported as by the reference
		layer := c.pending
		c.pending = nil
		for _, fill := range layer {
			if err = fill(); err != nil {
				break
			}
		}
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// secondDocumentLine is the line of the marker that ends the first document.
func secondDocumentLine(src []byte) int {
	content := false
	for i, line := range bytes.Split(src, []byte("\n")) {
		if bytes.HasPrefix(line, []byte("---")) && content {
			return i + 1
		}
		if t := bytes.TrimSpace(line); len(t) > 0 && t[0] != '#' && t[0] != '%' {
			content = true
		}
	}
	return 0
}

func secondDocumentStarts(src []byte, before int) bool {
	line := secondDocumentLine(src)
	return line > 0 && line <= before
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

func nodeMark(n *yaml.Node) YAMLMark { return YAMLMark{n.Line, n.Column} }

// yamlParserError turns an error of the parser into ours.
func yamlParserError(err error) error {
	var le *yaml.LoadError
	if !errors.As(err, &le) {
		return &YAMLError{Class: "ParserError", Problem: strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	e := &YAMLError{Problem: le.Message, Mark: YAMLMark{le.Mark.Line, le.Mark.Column},
		Context: le.ContextMsg}
	if le.ContextMsg != "" {
		e.ContextMark = YAMLMark{le.ContextMark.Line, le.ContextMark.Column}
	}
	switch le.Stage {
	case "reader":
		e.Class, e.Position = "ReaderError", le.Mark.Index
	case "scanner":
		e.Class = "ScannerError"
		switch { // the words of the original, where the Go parser changed them
		case strings.Contains(e.Problem, "hexadecimal number"):
			e.Problem = strings.Replace(e.Problem, "hexadecimal", "hexdecimal", 1)
			e.Context = strings.Replace(e.Context, "scanning a quoted", "parsing a quoted", 1)
		case e.Problem == "found unknown escape character", strings.HasPrefix(e.Problem, "found invalid Unicode character"):
			e.Context = strings.Replace(e.Context, "scanning a quoted", "parsing a quoted", 1)
		case strings.HasSuffix(e.Problem, "not allowed in a YAML tag"):
			e.Context, e.Problem = "while scanning a tag", "did not find expected whitespace or line break"
		}
	case "composer":
		e.Class = "ComposerError"
		if strings.HasPrefix(le.Message, "unknown anchor") {
			e.Problem = "found undefined alias"
		}
	default:
		e.Class = "ParserError"
	}
	return e
}

const yamlTagPrefix = "tag:yaml.org,2002:"

// yamlConstructor builds values from nodes. Mappings and sequences are made
// empty and filled later (pending), so that a document may refer to itself.
type yamlConstructor struct {
	made    map[*yaml.Node]any // of nodes with an anchor
	tags    map[*yaml.Node]string
	pending []func() error
}

func (c *yamlConstructor) checkAnchors(n *yaml.Node, seen map[string]*yaml.Node) error {
	if n.Anchor != "" {
		if first := seen[n.Anchor]; first != nil {
			return &YAMLError{Class: "ComposerError", Context: "found duplicate anchor; first occurrence",
				ContextMark: nodeMark(first), Problem: "second occurrence", Mark: nodeMark(n)}
		}
		seen[n.Anchor] = n
	}
	for _, child := range n.Content {
		if err := c.checkAnchors(child, seen); err != nil {
			return err
		}
	}
	return nil
}

// target follows an alias to its node.
func target(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}

// tag is the full tag of a node: the given one, or by the node's form.
func (c *yamlConstructor) tag(n *yaml.Node) string {
	if t, ok := c.tags[n]; ok {
		return t
	}
	if n.Style&yaml.TaggedStyle != 0 {
		if strings.HasPrefix(n.Tag, "!!") {
			return yamlTagPrefix + n.Tag[2:]
		}
		return n.Tag
	}
	switch n.Kind {
	case yaml.MappingNode:
		return yamlTagPrefix + "map"
	case yaml.SequenceNode:
		return yamlTagPrefix + "seq"
	}
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	if n.Style&quoted != 0 && n.Tag != "!" {
		return yamlTagPrefix + "str"
	}
	return yamlTagPrefix + resolveYAMLScalar(n.Value)
}

func yamlNodeKind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "mapping"
	case yaml.SequenceNode:
		return "sequence"
	}
	return "scalar"
}

func constructorError(n *yaml.Node, format string, args ...any) error {
	return &YAMLError{Class: "ConstructorError", Problem: fmt.Sprintf(format, args...), Mark: nodeMark(n)}
}

func (c *yamlConstructor) construct(n *yaml.Node) (any, error) {
	n = target(n)
	if n.Anchor != "" {
		if v, ok := c.made[n]; ok {
			return v, nil
		}
	}
	v, err := c.constructNew(n)
	if err == nil && n.Anchor != "" {
		c.made[n] = v
	}
	return v, err
}

func (c *yamlConstructor) constructNew(n *yaml.Node) (any, error) {
	tag := c.tag(n)
	name, standard := strings.CutPrefix(tag, yamlTagPrefix)
	if !standard {
		return nil, constructorError(n, "could not determine a constructor for the tag %s", Repr(tag))
	}
	switch name {
	case "map", "omap":
		m := &Map{}
		c.later(func() error { return c.fillMapping(n, m) })
		return m, nil
	case "seq":
		l := &List{}
		c.later(func() error { return c.fillSequence(n, l) })
		return l, nil
	case "set":
		s := &Set{}
		c.later(func() error { return c.fillMapping(n, &s.m) })
		return s, nil
	case "pairs":
		l := &List{}
		c.later(func() error { return c.fillPairs(n, l) })
		return l, nil
	case "null", "bool", "int", "float", "binary", "timestamp", "str", "python/unicode":
		if n.Kind != yaml.ScalarNode {
			return nil, constructorError(n, "expected a scalar node, but found %s", yamlNodeKind(n))
		}
		return constructYAMLScalar(name, n)
	}
	return nil, constructorError(n, "could not determine a constructor for the tag %s", Repr(tag))
}

func (c *yamlConstructor) later(fill func() error) { c.pending = append(c.pending, fill) }

func (c *yamlConstructor) fillSequence(n *yaml.Node, l *List) error {
	if n.Kind != yaml.SequenceNode {
		return constructorError(n, "expected a sequence node, but found %s", yamlNodeKind(n))
	}
	l.Items = make([]any, 0, len(n.Content))
	for _, child := range n.Content {
		v, err := c.construct(child)
		if err != nil {
			return err
		}
		l.Items = append(l.Items, v)
	}
	return nil
}

func (c *yamlConstructor) fillMapping(n *yaml.Node, m *Map) error {
	if n.Kind != yaml.MappingNode {
		return constructorError(n, "expected a mapping node, but found %s", yamlNodeKind(n))
	}
	if err := c.flatten(n); err != nil {
		return err
	}
	const context = "while constructing a mapping"
	for i := 0; i+1 < len(n.Content); i += 2 {
		keyNode := n.Content[i]
		key, err := c.construct(keyNode)
		if err != nil {
			return err
		}
		real := target(keyNode)
		if _, isSet := key.(*Set); isSet || !Hashable(key) {
			return &YAMLError{Class: "ConstructorError", Context: context, ContextMark: nodeMark(n),
				Problem: "found unacceptable key " + c.nodeValueRepr(real), Mark: nodeMark(real)}
		}
		value, err := c.construct(n.Content[i+1])
		if err != nil {
			return err
		}
		if m.Has(key) {
			return &YAMLError{Class: "ConstructorError", Context: context, ContextMark: nodeMark(n),
				Problem: fmt.Sprintf("found conflicting ID '%s'", Str(key)), Mark: nodeMark(real)}
		}
		m.Set(key, value)
	}
	return nil
}

func (c *yamlConstructor) fillPairs(n *yaml.Node, l *List) error {
	fail := func(at *yaml.Node, format string, args ...any) error {
		return &YAMLError{Class: "ConstructorError", Context: "while constructing pairs", ContextMark: nodeMark(n),
			Problem: fmt.Sprintf(format, args...), Mark: nodeMark(at)}
	}
	if n.Kind != yaml.SequenceNode {
		return fail(n, "expected a sequence, but found %s", yamlNodeKind(n))
	}
	for _, sub := range n.Content {
		sub = target(sub)
		if sub.Kind != yaml.MappingNode {
			return fail(sub, "expected a mapping of length 1, but found %s", yamlNodeKind(sub))
		}
		if len(sub.Content) != 2 {
			return fail(sub, "expected a single mapping item, but found %d items", len(sub.Content)/2)
		}
		key, err := c.construct(sub.Content[0])
		if err != nil {
			return err
		}
		value, err := c.construct(sub.Content[1])
		if err != nil {
			return err
		}
		l.Append(Tuple{key, value})
	}
	return nil
}

// flatten replaces the merge keys of a mapping by what they stand for. Own keys
// win; merged keys come first.
func (c *yamlConstructor) flatten(n *yaml.Node) error {
	var own, merged []*yaml.Node
	const context = "while constructing a mapping"
	fail := func(at *yaml.Node, text string) error {
		return &YAMLError{Class: "ConstructorError", Context: context, ContextMark: nodeMark(n),
			Problem: text + yamlNodeKind(at), Mark: nodeMark(at)}
	}
	found := false
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := target(n.Content[i]), n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			own = append(own, n.Content[i], value)
			continue
		}
		switch c.tag(key) {
		case yamlTagPrefix + "merge":
			found = true
			value = target(value)
			switch value.Kind {
			case yaml.MappingNode:
				if value == n {
					continue // merges itself: nothing more to add
				}
				if err := c.flatten(value); err != nil {
					return err
				}
				merged = append(merged, value.Content...)
			case yaml.SequenceNode:
				for j := len(value.Content) - 1; j >= 0; j-- {
					if sub := target(value.Content[j]); sub.Kind != yaml.MappingNode {
						// of several wrong members the first is named
						for _, sub := range value.Content {
							if sub = target(sub); sub.Kind != yaml.MappingNode {
								return fail(sub, "expected a mapping for merging, but found ")
							}
						}
					}
				}
				for j := len(value.Content) - 1; j >= 0; j-- {
					sub := target(value.Content[j])
					if sub == n {
						continue
					}
					if err := c.flatten(sub); err != nil {
						return err
					}
					merged = append(merged, sub.Content...)
				}
			default:
				return fail(value, "expected a mapping or list of mappings for merging, but found ")
			}
			continue
		case yamlTagPrefix + "value":
			c.tags[key] = yamlTagPrefix + "str"
		}
		own = append(own, n.Content[i], value)
	}
	if !found {
		return nil
	}
	existing := map[string]bool{}
	for i := 0; i < len(own); i += 2 {
		if key := target(own[i]); key.Kind == yaml.ScalarNode {
			existing[key.Value] = true
		}
	}
	content := make([]*yaml.Node, 0, len(own)+len(merged))
	for i := 0; i+1 < len(merged); i += 2 {
		if key := target(merged[i]); key.Kind == yaml.ScalarNode && existing[key.Value] {
			continue
		}
		content = append(content, merged[i], merged[i+1])
	}
	n.Content = append(content, own...)
	return nil
}

// nodeValueRepr prints what a node holds as the reference prints it in the
// error about an unacceptable key: forgotten quotes around {{ }} lead there.
func (c *yamlConstructor) nodeValueRepr(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return n.Value
	}
	return c.nodeRepr(n, 0, false)
}

func (c *yamlConstructor) nodeRepr(n *yaml.Node, depth int, whole bool) string {
	n = target(n)
	if depth > 20 {
		return "..."
	}
	var value string
	switch n.Kind {
	case yaml.ScalarNode:
		value = Repr(n.Value)
	case yaml.SequenceNode:
		parts := make([]string, len(n.Content))
		for i, child := range n.Content {
			parts[i] = c.nodeRepr(child, depth+1, true)
		}
		value = "[" + strings.Join(parts, ", ") + "]"
	case yaml.MappingNode:
		var parts []string
		for i := 0; i+1 < len(n.Content); i += 2 {
			parts = append(parts, "("+c.nodeRepr(n.Content[i], depth+1, true)+", "+c.nodeRepr(n.Content[i+1], depth+1, true)+")")
		}
		value = "[" + strings.Join(parts, ", ") + "]"
	}
	if !whole {
		return value
	}
	kind := yamlNodeKind(n)
	return fmt.Sprintf("%sNode(tag=%s, value=%s)", strings.ToUpper(kind[:1])+kind[1:], Repr(c.tag(n)), value)
}

// constructYAMLScalar makes the value of a scalar with the given standard tag.
func constructYAMLScalar(tag string, n *yaml.Node) (any, error) {
	text := n.Value
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
