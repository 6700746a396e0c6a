// The YAML parser and composer: tokens to a tree of nodes, with libyaml's
// errors for what does not fit.
package main

import "strings"

// yamlNode is a node of a document.
type yamlNode struct {
	kind   byte   // s, l, m
	tag    string // as written, resolved; "" if there was none
	value  string
	quoted bool // a scalar whose text says nothing about its type
	items  []*yamlNode
	at     yamlPlace
	anchor bool
	done   bool // made is its value
	made   any
}

type yamlComposer struct {
	s       *yamlScanner
	anchors map[string]*yamlNode
	handles map[string]string
	depth   int
}

// maxYAMLDepth bounds the nesting of a document; Python gives up earlier.
const maxYAMLDepth = 1000

func yamlParserFail(problem string, at yamlPlace) error {
	return &YAMLError{Class: "ParserError", Problem: problem, Mark: at.mark()}
}

func yamlParserFailIn(context string, from yamlPlace, problem string, at yamlPlace) error {
	return &YAMLError{Class: "ParserError", Context: context, ContextMark: from.mark(), Problem: problem, Mark: at.mark()}
}

// composeYAML reads the only document of a stream, nil if there is none.
func composeYAML(src string) (*yamlNode, error) {
	c := &yamlComposer{s: newYAMLScanner(src), anchors: map[string]*yamlNode{}}
	t, err := c.s.next()
	if err != nil || t.kind == yamlStreamEnd {
		return nil, err
	}
	explicit, _, err := c.documentStart(true)
	if err != nil {
		return nil, err
	}
	if t, err = c.s.next(); err != nil {
		return nil, err
	}
	var root *yamlNode
	switch t.kind {
	case yamlVersionDirective, yamlTagDirective, yamlDocumentStart, yamlDocumentEnd, yamlStreamEnd:
		if explicit {
			root = c.empty(t.start)
			break
		}
		fallthrough
	default:
		if root, err = c.node(true, false); err != nil {
			return nil, err
		}
	}
	if t, err = c.s.next(); err != nil {
		return nil, err
	}
	for t.kind == yamlDocumentEnd {
		c.s.take()
		if t, err = c.s.next(); err != nil {
			return nil, err
		}
	}
	if t.kind == yamlStreamEnd {
		return root, nil
	}
	_, at, err := c.documentStart(false)
	if err != nil {
		return nil, err
	}
	return nil, &YAMLError{Class: "ComposerError", Context: "expected a single document in the stream",
		ContextMark: root.at.mark(), Problem: "but found another document", Mark: at.mark()}
}

// documentStart reads directives and ---; the first document needs neither.
func (c *yamlComposer) documentStart(implicit bool) (explicit bool, at yamlPlace, err error) {
	t, err := c.s.next()
	if err != nil {
		return false, at, err
	}
	at = t.start
	c.handles = map[string]string{"!": "!", "!!": yamlTagPrefix}
	switch t.kind {
	case yamlVersionDirective, yamlTagDirective, yamlDocumentStart:
	default:
		if implicit {
			return false, at, nil
		}
	}
	version := false
	own := map[string]bool{}
	for t.kind == yamlVersionDirective || t.kind == yamlTagDirective {
		switch t.kind {
		case yamlVersionDirective:
			if version {
				return false, at, yamlParserFail("found duplicate %YAML directive", t.start)
			}
			version = true
			if t.text != "1.1" && t.text != "1.2" {
				return false, at, yamlParserFail("found incompatible YAML document", t.start)
			}
		default:
			if own[t.handle] {
				return false, at, yamlParserFail("found duplicate %TAG directive", t.start)
			}
			own[t.handle] = true
			c.handles[t.handle] = t.text
		}
		c.s.take()
		if t, err = c.s.next(); err != nil {
			return false, at, err
		}
	}
	if t.kind != yamlDocumentStart {
		return false, at, yamlParserFail("did not find expected <document start>", t.start)
	}
	c.s.take()
	return true, at, nil
}

func (c *yamlComposer) empty(at yamlPlace) *yamlNode { return &yamlNode{kind: 's', at: at} }

// node reads one node. In block context collections may be blocks; indentless
// sequences are those of a mapping's value.
func (c *yamlComposer) node(block, indentless bool) (*yamlNode, error) {
	if c.depth++; c.depth > maxYAMLDepth {
		return nil, &YAMLError{Class: "RecursionError", Problem: "maximum recursion depth exceeded"}
	}
	defer func() { c.depth-- }()
	t, err := c.s.next()
	if err != nil {
		return nil, err
	}
	if t.kind == yamlAlias {
		name, at := t.text, t.start
		c.s.take()
		n := c.anchors[name]
		if n == nil {
			return nil, &YAMLError{Class: "ComposerError", Problem: "found undefined alias", Mark: at.mark()}
		}
		return n, nil
	}
	n := &yamlNode{at: t.start}
	var anchor, handle, suffix string
	tagged := false
	var tagAt yamlPlace
	for range 2 {
		switch {
		case t.kind == yamlAnchor && anchor == "":
			anchor = t.text
		case t.kind == yamlTag && !tagged:
			tagged, handle, suffix, tagAt = true, t.handle, t.text, t.start
		default:
			continue
		}
		c.s.take()
		if t, err = c.s.next(); err != nil {
			return nil, err
		}
	}
	if tagged {
		n.tag = suffix
		if handle != "" {
			prefix, ok := c.handles[handle]
			if !ok {
				return nil, yamlParserFailIn("while parsing a node", n.at, "found undefined tag handle", tagAt)
			}
			n.tag = prefix + suffix
		}
	}
	if anchor != "" {
		if first := c.anchors[anchor]; first != nil {
			return nil, &YAMLError{Class: "ComposerError", Context: "found duplicate anchor; first occurrence",
				ContextMark: first.at.mark(), Problem: "second occurrence", Mark: n.at.mark()}
		}
		n.anchor = true
		c.anchors[anchor] = n
	}
	switch {
	case indentless && t.kind == yamlBlockEntry:
		n.kind = 'l'
		return n, c.indentlessSequence(n)
	case t.kind == yamlScalar:
		n.kind, n.value, n.quoted = 's', t.text, t.quoted
		c.s.take()
		return n, nil
	case t.kind == yamlFlowSequenceStart:
		n.kind = 'l'
		return n, c.flowSequence(n)
	case t.kind == yamlFlowMappingStart:
		n.kind = 'm'
		return n, c.flowMapping(n)
	case block && t.kind == yamlBlockSequenceStart:
		n.kind = 'l'
		return n, c.blockSequence(n)
	case block && t.kind == yamlBlockMappingStart:
		n.kind = 'm'
		return n, c.blockMapping(n)
	case anchor != "" || tagged:
		n.kind = 's'
		if n.tag == "!" { // a lone exclamation mark is the empty text
			n.tag = yamlTagPrefix + "str"
		}
		return n, nil
	}
	context := "while parsing a flow node"
	if block {
		context = "while parsing a block node"
	}
	return nil, yamlParserFailIn(context, n.at, "did not find expected node content", t.start)
}

// isOneOf says whether the next token is one of the kinds.
func (t *yamlToken) isOneOf(kinds ...yamlTokenKind) bool {
	for _, k := range kinds {
		if t.kind == k {
			return true
		}
	}
	return false
}

func (c *yamlComposer) blockSequence(n *yamlNode) error {
	t, err := c.s.next()
	if err != nil {
		return err
	}
	from := t.start
	c.s.take()
	for {
		if t, err = c.s.next(); err != nil {
			return err
		}
		switch t.kind {
		case yamlBlockEntry:
			after := t.end
			c.s.take()
			if t, err = c.s.next(); err != nil {
				return err
			}
			item := c.empty(after)
			if !t.isOneOf(yamlBlockEntry, yamlBlockEnd) {
				if item, err = c.node(true, false); err != nil {
					return err
				}
			}
			n.items = append(n.items, item)
		case yamlBlockEnd:
			c.s.take()
			return nil
		default:
			return yamlParserFailIn("while parsing a block collection", from, "did not find expected '-' indicator", t.start)
		}
	}
}

func (c *yamlComposer) indentlessSequence(n *yamlNode) error {
	for {
		t, err := c.s.next()
		if err != nil {
			return err
		}
		if t.kind != yamlBlockEntry {
			return nil
		}
		after := t.end
		c.s.take()
		if t, err = c.s.next(); err != nil {
			return err
		}
		item := c.empty(after)
		if !t.isOneOf(yamlBlockEntry, yamlKey, yamlValue, yamlBlockEnd) {
			if item, err = c.node(true, false); err != nil {
				return err
			}
		}
		n.items = append(n.items, item)
	}
}

func (c *yamlComposer) blockMapping(n *yamlNode) error {
	t, err := c.s.next()
	if err != nil {
		return err
	}
	from := t.start
	c.s.take()
	// part reads what follows a key or value indicator that ended at after
	part := func(after yamlPlace) (*yamlNode, error) {
		t, err := c.s.next()
		if err != nil {
			return nil, err
		}
		if t.isOneOf(yamlKey, yamlValue, yamlBlockEnd) {
			return c.empty(after), nil
		}
		return c.node(true, true)
	}
	for {
		if t, err = c.s.next(); err != nil {
			return err
		}
		switch t.kind {
		case yamlKey:
			after := t.end
			c.s.take()
			key, err := part(after)
			if err != nil {
				return err
			}
			if t, err = c.s.next(); err != nil {
				return err
			}
			value := c.empty(t.start)
			if t.kind == yamlValue {
				after := t.end
				c.s.take()
				if value, err = part(after); err != nil {
					return err
				}
			}
			n.items = append(n.items, key, value)
		case yamlBlockEnd:
			c.s.take()
			return nil
		default:
			return yamlParserFailIn("while parsing a block mapping", from, "did not find expected key", t.start)
		}
	}
}

// flowItem is the token that the next item of a flow collection begins with, or
// its end; between items there is a comma.
func (c *yamlComposer) flowItem(first bool, end yamlTokenKind, doing string, from yamlPlace, problem string) (*yamlToken, error) {
	t, err := c.s.next()
	if err != nil || t.kind == end || first {
		return t, err
	}
	if t.kind != yamlFlowEntry {
		return t, yamlParserFailIn(doing, from, problem, t.start)
	}
	c.s.take()
	return c.s.next()
}

func (c *yamlComposer) flowSequence(n *yamlNode) error {
	t, err := c.s.next()
	if err != nil {
		return err
	}
	from := t.start
	c.s.take()
	for first := true; ; first = false {
		if t, err = c.flowItem(first, yamlFlowSequenceEnd, "while parsing a flow sequence", from, "did not find expected ',' or ']'"); err != nil {
			return err
		}
		var item *yamlNode
		switch t.kind {
		case yamlFlowSequenceEnd:
			c.s.take()
			return nil
		case yamlKey:
			if item, err = c.pair(t.start); err != nil {
				return err
			}
		default:
			if item, err = c.node(false, false); err != nil {
				return err
			}
		}
		n.items = append(n.items, item)
	}
}

// pair reads a mapping of one key inside a flow sequence.
func (c *yamlComposer) pair(at yamlPlace) (*yamlNode, error) {
	n := &yamlNode{kind: 'm', at: at}
	c.s.take()
	t, err := c.s.next()
	if err != nil {
		return nil, err
	}
	var key *yamlNode
	if t.isOneOf(yamlValue, yamlFlowEntry, yamlFlowSequenceEnd) {
		key = c.empty(t.end)
		if t.kind != yamlFlowSequenceEnd {
			c.s.take() // libyaml loses it here
		}
	} else if key, err = c.node(false, false); err != nil {
		return nil, err
	}
	if t, err = c.s.next(); err != nil {
		return nil, err
	}
	if t.kind == yamlValue {
		c.s.take()
		if t, err = c.s.next(); err != nil {
			return nil, err
		}
		if !t.isOneOf(yamlFlowEntry, yamlFlowSequenceEnd) {
			value, err := c.node(false, false)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, key, value)
			return n, nil
		}
	}
	n.items = append(n.items, key, c.empty(t.start))
	return n, nil
}

func (c *yamlComposer) flowMapping(n *yamlNode) error {
	t, err := c.s.next()
	if err != nil {
		return err
	}
	from := t.start
	c.s.take()
	for first := true; ; first = false {
		if t, err = c.flowItem(first, yamlFlowMappingEnd, "while parsing a flow mapping", from, "did not find expected ',' or '}'"); err != nil {
			return err
		}
		var key *yamlNode
		switch t.kind {
		case yamlFlowMappingEnd:
			c.s.take()
			return nil
		case yamlKey:
			c.s.take()
			if t, err = c.s.next(); err != nil {
				return err
			}
			key = c.empty(t.start)
			if !t.isOneOf(yamlValue, yamlFlowEntry, yamlFlowMappingEnd) {
				if key, err = c.node(false, false); err != nil {
					return err
				}
			}
			if t, err = c.s.next(); err != nil {
				return err
			}
			value := c.empty(t.start)
			if t.kind == yamlValue {
				c.s.take()
				if t, err = c.s.next(); err != nil {
					return err
				}
				value = c.empty(t.start)
				if !t.isOneOf(yamlFlowEntry, yamlFlowMappingEnd) {
					if value, err = c.node(false, false); err != nil {
						return err
					}
				}
			}
			n.items = append(n.items, key, value)
		default: // a key without a value
			if key, err = c.node(false, false); err != nil {
				return err
			}
			if t, err = c.s.next(); err != nil {
				return err
			}
			n.items = append(n.items, key, c.empty(t.start))
		}
	}
}

// fullTag is the tag of a node: the given one, or by the node's form.
func (n *yamlNode) fullTag() string {
	if n.tag != "" && n.tag != "!" {
		return n.tag
	}
	switch n.kind {
	case 'm':
		return yamlTagPrefix + "map"
	case 'l':
		return yamlTagPrefix + "seq"
	}
	if n.quoted && n.tag != "!" {
		return yamlTagPrefix + "str"
	}
	return yamlTagPrefix + resolveYAMLScalar(n.value)
}

func (n *yamlNode) kindName() string {
	switch n.kind {
	case 'm':
		return "mapping"
	case 'l':
		return "sequence"
	}
	return "scalar"
}

// repr prints a node as the error about an unacceptable key does.
func (n *yamlNode) repr(whole bool, depth int) string {
	if depth > 20 {
		return "..."
	}
	value := ""
	switch n.kind {
	case 's':
		if !whole {
			return n.value
		}
		value = Repr(n.value)
	case 'l':
		parts := make([]string, len(n.items))
		for i, item := range n.items {
			parts[i] = item.repr(true, depth+1)
		}
		value = "[" + strings.Join(parts, ", ") + "]"
	case 'm':
		var parts []string
		for i := 0; i+1 < len(n.items); i += 2 {
			parts = append(parts, "("+n.items[i].repr(true, depth+1)+", "+n.items[i+1].repr(true, depth+1)+")")
		}
		value = "[" + strings.Join(parts, ", ") + "]"
	}
	if !whole {
		return value
	}
	name := n.kindName()
	return strings.ToUpper(name[:1]) + name[1:] + "Node(tag=" + Repr(n.fullTag()) + ", value=" + value + ")"
}
