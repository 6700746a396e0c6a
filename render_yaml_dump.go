// YAML as Salt writes it: the layouts of libyaml's emitter under PyYAML, byte
// for byte, since files and outputs made with them are compared by people and
// by the file states.
//
// The law of this file: text that reads back as something else than a text is
// quoted (the resolver of render_yaml_scalar.go decides), and nothing here can
// fail: what YAML has no form for is written as NULL, as Salt does.
package main

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// YAMLFlow says which collections are written on one line.
type YAMLFlow int

// The three values of PyYAML's default_flow_style.
const (
	YAMLBlock YAMLFlow = iota // False: every collection in lines
	YAMLInline
	YAMLAuto // None: collections of scalars only on one line
)

// YAMLOptions choose a layout. The zero value is block style, two columns of
// indent, 80 columns, order kept, unicode written as it is.
type YAMLOptions struct {
	Flow          YAMLFlow
	SortKeys      bool
	Indent        int // 2 to 9, anything else is 2
	Width         int // 0 is 80, negative is without limit
	EscapeUnicode bool
	ExplicitStart bool // ---
	ExplicitEnd   bool // ...
	DefaultStyle  byte // 0, '\'', '"', '|' or '>' for every scalar
	LineBreak     string
}

// DumpYAML writes a value as one document, with a line end.
func DumpYAML(v any, opt YAMLOptions) string {
	e := yamlEmitter{opt: opt, indent: -1, whitespace: true, indention: true}
	e.bestIndent = opt.Indent
	if e.bestIndent < 2 || e.bestIndent > 9 {
		e.bestIndent = 2
	}
	e.width = opt.Width
	switch {
	case e.width < 0:
		e.width = math.MaxInt
	case e.width <= e.bestIndent*2:
		e.width = 80
	}
	e.lineBreak = opt.LineBreak
	if e.lineBreak == "" {
		e.lineBreak = "\n"
	}
	root := e.represent(v)
	if opt.ExplicitStart {
		e.writeIndent()
		e.indicator("---", true, false, false)
	}
	e.node(root, yamlRoot)
	e.writeIndent()
	switch {
	case opt.ExplicitEnd:
		e.indicator("...", true, false, false)
		e.writeIndent()
	case e.openEnded:
		e.indicator("...", true, false, false)
		e.writeIndent()
	}
	return e.out.String()
}

// yamlItem is a node to write.
type yamlItem struct {
	kind   byte // 's'calar, 'l'ist, 'm'ap
	tag    string
	text   string
	style  byte // of a scalar: 0 plain, or ' " | >
	items  []*yamlItem
	flow   bool
	anchor string // set once a second reference is found
	uses   int
}

type yamlContext int

const (
	yamlRoot yamlContext = iota
	yamlInSequence
	yamlInMapping
	yamlSimpleKey
)

type yamlEmitter struct {
	opt        YAMLOptions
	out        strings.Builder
	bestIndent int
	width      int
	lineBreak  string
	column     int
	indent     int
	flowLevel  int
	whitespace bool // the last character was a space
	indention  bool // only indentation so far on this line
	openEnded  bool // the document needs an end marker
	simpleKey  bool
	anchors    int
	nodes      map[any]*yamlItem // lists and maps by identity
}

// represent turns a value into nodes, finds what is used twice, and names it.
func (e *yamlEmitter) represent(v any) *yamlItem {
	e.nodes = map[any]*yamlItem{}
	root := e.item(v)
	e.nameAnchors(root, map[*yamlItem]bool{})
	return root
}

func (e *yamlEmitter) nameAnchors(n *yamlItem, seen map[*yamlItem]bool) {
	if n.kind == 's' {
		return
	}
	if seen[n] { // the second time it gets its name
		if n.anchor == "" {
			e.anchors++
			n.anchor = fmt.Sprintf("id%03d", e.anchors)
		}
		return
	}
	seen[n] = true
	for _, child := range n.items {
		e.nameAnchors(child, seen)
	}
}

func (e *yamlEmitter) scalar(tag, text string) *yamlItem {
	return &yamlItem{kind: 's', tag: tag, text: text, style: e.opt.DefaultStyle}
}

func (e *yamlEmitter) item(v any) *yamlItem {
	switch v := v.(type) {
	case nil:
		return e.scalar("null", "null")
	case bool:
		return e.scalar("bool", strconv.FormatBool(v))
	case int64:
		return e.scalar("int", strconv.FormatInt(v, 10))
	case *big.Int:
		return e.scalar("int", v.String())
	case float64:
		return e.scalar("float", yamlFloat(v))
	case string:
		return e.scalar("str", v)
	case []byte:
		var b strings.Builder
		for len(v) > 0 {
			n := min(len(v), 57)
			b.WriteString(base64.StdEncoding.EncodeToString(v[:n]))
			b.WriteByte('\n')
			v = v[n:]
		}
		return &yamlItem{kind: 's', tag: "binary", text: b.String(), style: '|'}
	case *List:
		return e.collection(v, func(n *yamlItem) {
			n.kind, n.tag = 'l', "seq"
			for _, item := range v.Items {
				n.items = append(n.items, e.item(item))
			}
		})
	case Tuple:
		return e.collection(nil, func(n *yamlItem) {
			n.kind, n.tag = 'l', "seq"
			for _, item := range v {
				n.items = append(n.items, e.item(item))
			}
		})
	case *Map:
		return e.collection(v, func(n *yamlItem) { e.fillMap(n, "map", v) })
	case *Set:
		return e.collection(v, func(n *yamlItem) { e.fillMap(n, "set", &v.m) })
	case Plainer:
		return e.item(v.PlainValue())
	case Object:
		return e.scalar("null", "NULL")
	}
	return e.item(FromGo(v))
}

func (e *yamlEmitter) collection(id any, fill func(*yamlItem)) *yamlItem {
	if id != nil {
		if n := e.nodes[id]; n != nil {
			n.uses++
			return n
		}
	}
	n := &yamlItem{uses: 1}
	if id != nil {
		e.nodes[id] = n
	}
	fill(n)
	switch e.opt.Flow {
	case YAMLInline:
		n.flow = true
	case YAMLAuto:
		n.flow = true
		for _, child := range n.items {
			if child.kind != 's' || child.style != 0 {
				n.flow = false
			}
		}
	}
	return n
}

func (e *yamlEmitter) fillMap(n *yamlItem, tag string, m *Map) {
	n.kind, n.tag = 'm', tag
	keys := m.Keys()
	if e.opt.SortKeys && m.Class() == "" { // ordered mappings keep their order
		keys = sortedIfComparable(keys)
	}
	for _, k := range keys {
		v, _ := m.Get(k)
		n.items = append(n.items, e.item(k), e.item(v))
	}
}

// sortedIfComparable sorts as Python's sorted does, or leaves the order when
// two keys have none between them.
func sortedIfComparable(keys []any) []any {
	sorted := append([]any(nil), keys...)
	if _, err := sortValues(sorted); err != nil {
		return keys
	}
	return sorted
}

func yamlFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return ".nan"
	case math.IsInf(f, 1):
		return ".inf"
	case math.IsInf(f, -1):
		return "-.inf"
	}
	s := formatFloat(f)
	if !strings.Contains(s, ".") {
		s = strings.Replace(s, "e", ".0e", 1)
	}
	return s
}

// --- the writer

func (e *yamlEmitter) put(s string) {
	e.out.WriteString(s)
	e.column += utf8.RuneCountInString(s)
}

func (e *yamlEmitter) newLine() {
	e.out.WriteString(e.lineBreak)
	e.column = 0
}

// writeBreak writes a line break of a text: \n in the chosen form, the others
// of unicode as they are.
func (e *yamlEmitter) writeBreak(r rune) {
	if r == '\n' {
		e.newLine()
		return
	}
	e.out.WriteRune(r)
	e.column = 0
}

func (e *yamlEmitter) writeIndent() {
	indent := max(e.indent, 0)
	if !e.indention || e.column > indent || e.column == indent && !e.whitespace {
		e.newLine()
	}
	if e.column < indent {
		e.put(strings.Repeat(" ", indent-e.column))
	}
	e.whitespace, e.indention = true, true
}

func (e *yamlEmitter) indicator(s string, needSpace, isSpace, isIndention bool) {
	if needSpace && !e.whitespace {
		e.put(" ")
	}
	e.put(s)
	e.whitespace = isSpace
	e.indention = e.indention && isIndention
}

func (e *yamlEmitter) increaseIndent(flow, indentless bool) (restore int) {
	old := e.indent
	switch {
	case e.indent < 0 && flow:
		e.indent = e.bestIndent
	case e.indent < 0:
		e.indent = 0
	case !indentless:
		e.indent += e.bestIndent
	}
	return old
}

func (e *yamlEmitter) node(n *yamlItem, ctx yamlContext) {
	e.simpleKey = ctx == yamlSimpleKey
	if n.anchor != "" {
		if n.uses < 0 {
			e.indicator("*", true, false, false)
			e.put(n.anchor)
			if e.simpleKey {
				e.put(" ")
			}
			return
		}
		n.uses = -1 // written: from now on an alias
		e.indicator("&", true, false, false)
		e.put(n.anchor)
		e.whitespace, e.indention = false, false
	}
	switch n.kind {
	case 's':
		e.writeScalar(n)
	case 'l':
		e.writeSequence(n, ctx)
	case 'm':
		if n.tag != "map" {
			e.writeTag(n.tag)
		}
		e.writeMapping(n)
	}
}

func (e *yamlEmitter) writeTag(tag string) {
	if !e.whitespace {
		e.put(" ")
	}
	e.put("!!" + tag)
	e.whitespace, e.indention = false, false
}

func (e *yamlEmitter) writeSequence(n *yamlItem, ctx yamlContext) {
	if e.flowLevel > 0 || n.flow || len(n.items) == 0 {
		e.indicator("[", true, true, false)
		old := e.increaseIndent(true, false)
		e.flowLevel++
		for i, item := range n.items {
			if i > 0 {
				e.indicator(",", false, false, false)
			}
			if e.column > e.width {
				e.writeIndent()
			}
			e.node(item, yamlInSequence)
		}
		e.flowLevel--
		e.indent = old
		e.indicator("]", false, false, false)
		return
	}
	inMapping := ctx == yamlInMapping || ctx == yamlSimpleKey
	old := e.increaseIndent(false, inMapping && !e.indention)
	for _, item := range n.items {
		e.writeIndent()
		e.indicator("-", true, false, true)
		e.node(item, yamlInSequence)
	}
	e.indent = old
}

func (e *yamlEmitter) writeMapping(n *yamlItem) {
	flow := e.flowLevel > 0 || n.flow || len(n.items) == 0
	var old int
	if flow {
		e.indicator("{", true, true, false)
		old = e.increaseIndent(true, false)
		e.flowLevel++
	} else {
		old = e.increaseIndent(false, false)
	}
	for i := 0; i < len(n.items); i += 2 {
		if flow {
			if i > 0 {
				e.indicator(",", false, false, false)
			}
			if e.column > e.width {
				e.writeIndent()
			}
		} else {
			e.writeIndent()
		}
		if e.isSimpleKey(n.items[i]) {
			e.node(n.items[i], yamlSimpleKey)
			e.indicator(":", false, false, false)
		} else {
			e.indicator("?", true, false, !flow)
			e.node(n.items[i], yamlInMapping)
			if !flow || e.column > e.width {
				e.writeIndent()
			}
			e.indicator(":", true, false, !flow)
		}
		e.node(n.items[i+1], yamlInMapping)
	}
	e.indent = old
	if flow {
		e.flowLevel--
		e.indicator("}", false, false, false)
	}
}

// maxSimpleKey is the longest key that is not introduced by a question mark.
const maxSimpleKey = 128

func (e *yamlEmitter) isSimpleKey(n *yamlItem) bool {
	length := len(n.anchor)
	if n.kind == 's' {
		a := analyzeYAMLText(n.text, e.opt.EscapeUnicode)
		if a.multiline {
			return false
		}
		length += len(n.text)
		if n.tag == "binary" {
			length += len("!!binary")
		}
	} else if len(n.items) > 0 && (n.anchor == "" || n.uses >= 0) {
		return false
	}
	return length <= maxSimpleKey
}

// yamlAnalysis says in which styles a text can be written.
type yamlAnalysis struct {
	multiline, flowPlain, blockPlain, single, block bool
}

func isYAMLBreak(r rune) bool {
	return r == '\n' || r == '\r' || r == 0x85 || r == 0x2028 || r == 0x2029
}

func isYAMLBlank(r rune) bool { return r == ' ' || r == '\t' || r == 0 || isYAMLBreak(r) }

// isYAMLPrintable is the emitter's idea of printable: without the NEL, and
// without everything beyond the basic plane.
func isYAMLPrintable(r rune) bool {
	return r == '\n' || r >= ' ' && r <= '~' || r >= 0xa0 && r <= 0xd7ff ||
		r >= 0xe000 && r <= 0xfffd && r != 0xfeff
}

func analyzeYAMLText(s string, ascii bool) yamlAnalysis {
	if s == "" {
		return yamlAnalysis{blockPlain: true, single: true}
	}
	var blockInd, flowInd, breaks, special bool
	var leadSpace, leadBreak, trailSpace, trailBreak, breakSpace, spaceBreak bool
	if strings.HasPrefix(s, "---") || strings.HasPrefix(s, "...") {
		blockInd, flowInd = true, true
	}
	precededByBlank, prevSpace, prevBreak := true, false, false
	for i, r := range s {
		n := utf8.RuneLen(r)
		if r == utf8.RuneError {
			_, n = utf8.DecodeRuneInString(s[i:])
		}
		next, _ := utf8.DecodeRuneInString(s[i+n:])
		followedByBlank := i+n >= len(s) || isYAMLBlank(next)
		first, last := i == 0, i+n == len(s)
		if first {
			switch r {
			case '#', ',', '[', ']', '{', '}', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`':
				flowInd, blockInd = true, true
			case '?', ':':
				flowInd = true
				blockInd = blockInd || followedByBlank
			case '-':
				if followedByBlank {
					flowInd, blockInd = true, true
				}
			}
		} else {
			switch r {
			case ',', '?', '[', ']', '{', '}':
				flowInd = true
			case ':':
				flowInd = true
				blockInd = blockInd || followedByBlank
			case '#':
				if precededByBlank {
					flowInd, blockInd = true, true
				}
			}
		}
		if !isYAMLPrintable(r) || ascii && r > 127 || r == utf8.RuneError && n == 1 {
			special = true
		}
		switch {
		case r == ' ':
			leadSpace = leadSpace || first
			trailSpace = trailSpace || last
			breakSpace = breakSpace || prevBreak
			prevSpace, prevBreak = true, false
		case isYAMLBreak(r):
			breaks = true
			leadBreak = leadBreak || first
			trailBreak = trailBreak || last
			spaceBreak = spaceBreak || prevSpace
			prevSpace, prevBreak = false, true
		default:
			prevSpace, prevBreak = false, false
		}
		precededByBlank = isYAMLBlank(r)
	}
	a := yamlAnalysis{multiline: breaks, flowPlain: true, blockPlain: true, single: true, block: true}
	if leadSpace || leadBreak || trailSpace || trailBreak || breaks {
		a.flowPlain, a.blockPlain = false, false
	}
	if trailSpace {
		a.block = false
	}
	if breakSpace || spaceBreak || special {
		a.flowPlain, a.blockPlain, a.single = false, false, false
	}
	if spaceBreak || special {
		a.block = false
	}
	if flowInd {
		a.flowPlain = false
	}
	if blockInd {
		a.blockPlain = false
	}
	return a
}

func (e *yamlEmitter) writeScalar(n *yamlItem) {
	a := analyzeYAMLText(n.text, e.opt.EscapeUnicode)
	plainImplicit := resolveYAMLScalar(n.text) == n.tag
	quotedImplicit := n.tag == "str"
	tagged := !plainImplicit && !quotedImplicit
	style := n.style
	if e.simpleKey && a.multiline {
		style = '"'
	}
	if style == 0 {
		if e.flowLevel > 0 && !a.flowPlain || e.flowLevel == 0 && !a.blockPlain ||
			n.text == "" && (e.flowLevel > 0 || e.simpleKey) || !tagged && !plainImplicit {
			style = '\''
		}
	}
	if style == '\'' && !a.single {
		style = '"'
	}
	if (style == '|' || style == '>') && (!a.block || e.flowLevel > 0 || e.simpleKey) {
		style = '"'
	}
	switch {
	case tagged:
		e.writeTag(n.tag)
	case style != 0 && !quotedImplicit:
		if !e.whitespace {
			e.put(" ")
		}
		e.put("!")
		e.whitespace, e.indention = false, false
	}
	old := e.increaseIndent(true, false)
	switch style {
	case 0:
		e.writePlain(n.text)
	case '\'':
		e.writeSingle(n.text)
	case '"':
		e.writeDouble(n.text)
	case '|', '>':
		e.writeBlock(n.text, style)
	}
	e.indent = old
}

func spaceFollows(rs []rune, i int) bool { return i+1 < len(rs) && rs[i+1] == ' ' }

func (e *yamlEmitter) writePlain(s string) {
	if !e.whitespace && (s != "" || e.flowLevel > 0) {
		e.put(" ")
	}
	e.writeFolding([]rune(s), false)
	e.whitespace, e.indention = false, false
}

func (e *yamlEmitter) writeSingle(s string) {
	e.indicator("'", true, false, false)
	if e.writeFolding([]rune(s), true) {
		e.writeIndent()
	}
	e.indicator("'", false, false, false)
	e.whitespace, e.indention = false, false
}

// writeFolding writes a plain or single-quoted text and says whether it ended
// with a line break.
func (e *yamlEmitter) writeFolding(rs []rune, quoted bool) bool {
	spaces, breaks := false, false
	for i, r := range rs {
		switch {
		case r == ' ':
			inside := !quoted || i > 0 && i < len(rs)-1
			if !e.simpleKey && !spaces && e.column > e.width && inside && !spaceFollows(rs, i) {
				e.writeIndent()
			} else {
				e.put(" ")
			}
			spaces = true
		case isYAMLBreak(r):
			if !breaks && r == '\n' {
				e.newLine()
			}
			e.writeBreak(r)
			e.indention, breaks = true, true
		default:
			if breaks {
				e.writeIndent()
			}
			if quoted && r == '\'' {
				e.put("'")
			}
			e.out.WriteRune(r)
			e.column++
			e.indention, spaces, breaks = false, false, false
		}
	}
	return breaks
}

func yamlEscape(r rune) string {
	switch r {
	case 0:
		return `\0`
	case 7:
		return `\a`
	case 8:
		return `\b`
	case '\t':
		return `\t`
	case '\n':
		return `\n`
	case 0xb:
		return `\v`
	case 0xc:
		return `\f`
	case '\r':
		return `\r`
	case 0x1b:
		return `\e`
	case '"':
		return `\"`
	case '\\':
		return `\\`
	case 0x85:
		return `\N`
	case 0xa0:
		return `\_`
	case 0x2028:
		return `\L`
	case 0x2029:
		return `\P`
	}
	switch {
	case r <= 0xff:
		return fmt.Sprintf(`\x%02X`, r)
	case r <= 0xffff:
		return fmt.Sprintf(`\u%04X`, r)
	}
	return fmt.Sprintf(`\U%08X`, r)
}

func (e *yamlEmitter) writeDouble(s string) {
	e.indicator(`"`, true, false, false)
	rs := []rune(s)
	spaces := false
	for i, r := range rs {
		switch {
		case !isYAMLPrintable(r) || e.opt.EscapeUnicode && r > 127 || isYAMLBreak(r) || r == '"' || r == '\\':
			e.put(yamlEscape(r))
			spaces = false
		case r == ' ':
			if !e.simpleKey && !spaces && e.column > e.width && i > 0 && i < len(rs)-1 {
				e.writeIndent()
				if spaceFollows(rs, i) {
					e.put(`\`)
				}
			} else {
				e.put(" ")
			}
			spaces = true
		default:
			e.out.WriteRune(r)
			e.column++
			spaces = false
		}
	}
	e.indicator(`"`, false, false, false)
	e.whitespace, e.indention = false, false
}

// writeBlock writes a literal or folded block.
func (e *yamlEmitter) writeBlock(s string, style byte) {
	e.indicator(string(style), true, false, false)
	rs := []rune(s)
	open := false
	if len(rs) > 0 && (rs[0] == ' ' || isYAMLBreak(rs[0])) {
		e.indicator(strconv.Itoa(e.bestIndent), false, false, false)
	}
	switch n := len(rs); {
	case n == 0 || !isYAMLBreak(rs[n-1]):
		e.indicator("-", false, false, false)
	case n == 1 || isYAMLBreak(rs[n-2]):
		e.indicator("+", false, false, false)
		open = true
	}
	e.newLine()
	e.indention, e.whitespace = true, true
	breaks, leadingSpaces := true, true
	for i, r := range rs {
		switch {
		case isYAMLBreak(r):
			if style == '>' && !breaks && !leadingSpaces && r == '\n' {
				k := i
				for k < len(rs) && isYAMLBreak(rs[k]) {
					k++
				}
				if k < len(rs) && rs[k] != ' ' && rs[k] != '\t' {
					e.newLine()
				}
			}
			e.writeBreak(r)
			e.indention, breaks = true, true
		default:
			if breaks {
				e.writeIndent()
				leadingSpaces = r == ' ' || r == '\t'
			}
			if style == '>' && !breaks && r == ' ' && !spaceFollows(rs, i) && e.column > e.width {
				e.writeIndent()
			} else {
				e.out.WriteRune(r)
				e.column++
			}
			e.indention, breaks = false, false
		}
	}
	e.openEnded = open
}
