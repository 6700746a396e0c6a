// Compound targets (-C) and nodegroups.
//
// The law of this room: an expression is a row of words between blanks. and, or,
// not, ( and ) are operators only as words of their own; a word X@pattern asks
// one matcher, with one other character between a data matcher's letter and the
// @ as delimiter; every other word is a glob on the id. not binds tightest, then
// and, then or. An expression that is not whole matches nothing.
package main

import (
	"strings"
	"unicode/utf8"
)

// compoundMaxDepth bounds nesting, so that no expression exhausts the stack.
const compoundMaxDepth = 200

type compoundNode interface {
	eval(s *Subject) Verdict
}

type (
	compoundTerm struct{ match func(*Subject) Verdict }
	compoundNot  struct{ of compoundNode }
	compoundAnd  []compoundNode
	compoundOr   []compoundNode
)

func (n compoundTerm) eval(s *Subject) Verdict { return n.match(s) }

func (n compoundNot) eval(s *Subject) Verdict {
	switch n.of.eval(s) {
	case MatchYes:
		return MatchNo
	case MatchNo:
		return MatchYes
	}
	return MatchUnknown
}

func (n compoundAnd) eval(s *Subject) Verdict {
	out := MatchYes
	for _, of := range n {
		switch of.eval(s) {
		case MatchNo:
			return MatchNo
		case MatchUnknown:
			out = MatchUnknown
		}
	}
	return out
}

func (n compoundOr) eval(s *Subject) Verdict {
	out := MatchNo
	for _, of := range n {
		switch of.eval(s) {
		case MatchYes:
			return MatchYes
		case MatchUnknown:
			out = MatchUnknown
		}
	}
	return out
}

// compoundWords cuts an expression into words; a list on the wire is words already.
func compoundWords(expr any) ([]string, error) {
	var items []any
	switch expr := expr.(type) {
	case string:
		return strings.FieldsFunc(expr, isTargetBlank), nil
	case *List:
		items = expr.Items
	case Tuple:
		items = expr
	default:
		return nil, targetErrorf("compound", "a compound target is a text or a list, not %s", TypeName(expr))
	}
	words := make([]string, len(items))
	for i, v := range items {
		words[i] = Str(v)
	}
	return words, nil
}

func isCompoundOperator(word string) bool {
	switch word {
	case "and", "or", "not", "(", ")":
		return true
	}
	return false
}

// splitTargetWord takes "G|@os|Debian" apart. letter is 0 for a plain glob.
func splitTargetWord(word string) (letter byte, delimiter, pattern string) {
	if len(word) < 3 || strings.IndexByte("GPIJLNSERTM", word[0]) < 0 {
		return 0, "", word
	}
	if strings.IndexByte("GPIJ", word[0]) >= 0 {
		_, size := utf8.DecodeRuneInString(word[1:])
		if rest := word[1+size:]; len(rest) > 1 && rest[0] == '@' {
			return word[0], word[1 : 1+size], rest[1:]
		}
	}
	if word[1] == '@' {
		return word[0], "", word[2:]
	}
	return 0, "", word
}

// ValidCompoundLetters are the letters that may stand in front of an @.
const ValidCompoundLetters = "GPIJLNSE"

type compoundParser struct {
	words  []string
	at     int
	groups *Map
	exact  bool // pillar terms match exactly: for access checks
}

func parseCompound(words []string, groups *Map, exact bool) (func(*Subject) Verdict, error) {
	p := &compoundParser{words: words, groups: groups, exact: exact}
	n, err := p.or(0)
	if err != nil {
		return nil, err
	}
	if p.at < len(p.words) {
		return nil, targetErrorf("compound", "compound target: %q is not expected after %q", p.words[p.at], p.words[p.at-1])
	}
	return n.eval, nil
}

func (p *compoundParser) peek() string {
	if p.at < len(p.words) {
		return p.words[p.at]
	}
	return ""
}

func (p *compoundParser) or(depth int) (compoundNode, error) {
	n, err := p.and(depth)
	if err != nil || p.peek() != "or" {
		return n, err
	}
	row := compoundOr{n}
	for p.peek() == "or" {
		p.at++
		if n, err = p.and(depth); err != nil {
			return nil, err
		}
		row = append(row, n)
	}
	return row, nil
}

func (p *compoundParser) and(depth int) (compoundNode, error) {
	n, err := p.operand(depth)
	if err != nil {
		return nil, err
	}
	row := compoundAnd{n}
	for {
		switch p.peek() {
		case "and":
			p.at++
		case "not": // "a not b" is "a and not b"
		default:
			if len(row) == 1 {
				return n, nil
			}
			return row, nil
		}
		next, err := p.operand(depth)
		if err != nil {
			return nil, err
		}
		row = append(row, next)
	}
}

func (p *compoundParser) operand(depth int) (compoundNode, error) {
	if depth > compoundMaxDepth {
		return nil, targetErrorf("compound", "compound target: more than %d brackets in each other", compoundMaxDepth)
	}
	if p.at >= len(p.words) {
		if p.at == 0 {
			return nil, targetErrorf("compound", "compound target: the expression is empty")
		}
		return nil, targetErrorf("compound", "compound target: something is missing after %q", p.words[p.at-1])
	}
	word := p.words[p.at]
	p.at++
	switch word {
	case "not":
		if p.peek() == "not" {
			return nil, targetErrorf("compound", "compound target: \"not not\" needs brackets: not ( not x )")
		}
		n, err := p.operand(depth + 1)
		return compoundNot{n}, err
	case "(":
		n, err := p.or(depth + 1)
		if err != nil {
			return nil, err
		}
		if p.peek() != ")" {
			return nil, targetErrorf("compound", "compound target: a bracket is not closed")
		}
		p.at++
		return n, nil
	case "and", "or", ")":
		return nil, targetErrorf("compound", "compound target: %q is not expected here", word)
	}
	return p.term(word, depth)
}

func (p *compoundParser) term(word string, depth int) (compoundNode, error) {
	letter, delimiter, pattern := splitTargetWord(word)
	if delimiter == "" {
		delimiter = DefaultTargetDelim
	}
	var match func(*Subject) Verdict
	var err error
	switch letter {
	case 0:
		match = globMatcher(word)
	case 'E':
		match, err = pcreMatcher(pattern)
	case 'L':
		match = listMatcher(pattern)
	case 'S':
		match, err = ipcidrMatcher(pattern)
	case 'N':
		var words []string
		if words, err = ExpandNodegroup(pattern, p.groups); err != nil {
			return nil, err
		}
		inner := &compoundParser{words: words, groups: p.groups, exact: p.exact}
		n, err := inner.or(depth + 1)
		if err != nil {
			return nil, err
		}
		if inner.at < len(words) {
			return nil, targetErrorf("nodegroup", "nodegroup %q: %q is not expected there", pattern, words[inner.at])
		}
		return n, nil
	case 'R':
		err = targetErrorf("range", rangeRefusal)
	case 'T', 'M':
		err = targetErrorf("compound", resourceRefusal, word)
	default:
		kind := map[byte]string{'G': "grain", 'P': "grain_pcre", 'I': "pillar", 'J': "pillar_pcre"}[letter]
		if p.exact && (letter == 'I' || letter == 'J') {
			kind = "pillar_exact"
		}
		match, err = dataMatcher(kind, pattern, delimiter)
		if err != nil { // one term without a delimiter is no error of the whole expression
			match, err = func(*Subject) Verdict { return MatchNo }, nil
		}
	}
	if letter == 'E' || letter == 'S' {
		if err != nil { // nor is a pattern that no id can match
			match, err = func(*Subject) Verdict { return MatchNo }, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return compoundTerm{match}, nil
}

// UnknownNodegroupError names a group that the configuration does not have.
type UnknownNodegroupError struct{ Name string }

func (e *UnknownNodegroupError) Error() string {
	return "nodegroup " + reprString(e.Name) + " is not in the configuration (option nodegroups)"
}

// ExpandNodegroup turns a group into the words of a compound expression, the
// groups inside it included. A text without operators is a row of ids or one
// regular expression, a list is a row of ids or of words. A group that contains
// itself is an error.
func ExpandNodegroup(name string, groups *Map) ([]string, error) {
	return expandNodegroup(name, groups, nil)
}

func expandNodegroup(name string, groups *Map, within []string) ([]string, error) {
	for _, outer := range within {
		if outer == name {
			return nil, targetErrorf("nodegroup", "nodegroup %q contains itself (%s)", name, strings.Join(append(within, name), " > "))
		}
	}
	def, ok := groups.Get(name)
	if !ok {
		return nil, &UnknownNodegroupError{Name: name}
	}
	switch def.(type) {
	case string, *List, Tuple:
	default:
		return nil, targetErrorf("nodegroup", "nodegroup %q is %s, but must be a text or a list", name, TypeName(def))
	}
	words, err := compoundWords(def)
	if err != nil {
		return nil, err
	}
	if joined := joinPlainGroup(words); joined != "" {
		return []string{joined}, nil
	}
	var out []string
	for _, word := range words {
		letter, _, pattern := splitTargetWord(word)
		if letter != 'N' {
			out = append(out, word)
			continue
		}
		inner, err := expandNodegroup(pattern, groups, append(within[:len(within):len(within)], name))
		if err != nil {
			return nil, err
		}
		out = append(out, bracketed(inner)...)
	}
	return out, nil
}

// bracketed keeps an inserted expression together.
func bracketed(words []string) []string {
	if len(words) < 2 {
		return words
	}
	return append(append([]string{"("}, words...), ")")
}

// joinPlainGroup makes one term of a group without operators, wildcards and
// letters: a list of ids, or a regular expression if it looks like one.
func joinPlainGroup(words []string) string {
	if len(words) == 0 {
		return ""
	}
	pattern := false
	for _, w := range words {
		if isCompoundOperator(w) || strings.Contains(w, "*") {
			return ""
		}
		if len(w) > 1 && w[0] >= 'A' && w[0] <= 'Z' && w[1] == '@' {
			return ""
		}
		pattern = pattern || strings.ContainsAny(w, `([{\?}])`)
	}
	if pattern {
		return "E@" + strings.Join(words, ",")
	}
	return "L@" + strings.Join(words, ",")
}

// ExpandTarget replaces nodegroups before a target is published, so that no
// minion needs their definitions: -N and N@ become a compound expression.
func ExpandTarget(kind, tgt string, groups *Map) (newKind, newTgt string, err error) {
	var words []string
	switch kind {
	case "nodegroup":
		words, err = ExpandNodegroup(tgt, groups)
		return "compound", strings.Join(words, " "), err
	case "compound":
		for _, word := range strings.FieldsFunc(tgt, isTargetBlank) {
			if letter, _, pattern := splitTargetWord(word); letter == 'N' {
				inner, err := ExpandNodegroup(pattern, groups)
				if err != nil {
					return kind, tgt, err
				}
				words = append(words, bracketed(inner)...)
				continue
			}
			words = append(words, word)
		}
		return kind, strings.Join(words, " "), nil
	}
	return kind, tgt, nil
}
