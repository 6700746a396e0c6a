// The words of a command line as values: what `salt` and `salt-call` send to a
// function, and what a minion does with texts that others sent unconverted.
//
// The law of this room: a word is read as YAML where that gives a value of
// another kind and nothing is lost, and stays the text that was typed in every
// other case. Nothing here fails: what cannot be read is a text.
package main

import (
	"errors"
	"math/big"
	"strings"
	"unicode"
)

// convertWord gives the value of one word.
func convertWord(word string) any {
	trimmed := pyStrip(word)
	if trimmed == "" || trimmed == "---" || trimmed == "..." {
		return word
	}
	if strings.Contains(word, "_") && strings.Trim(trimmed, "0123456789_") == "" {
		return word // digits with underscores are a name rather than a number
	}
	if strings.ContainsAny(word, "\t\r\n") {
		return word
	}
	if word == "None" {
		return nil
	}
	v, err := ParseYAML([]byte(word))
	if err != nil {
		return word
	}
	switch v := v.(type) {
	case nil, string:
		if strings.Contains(word, "#") {
			return word // a comment would be lost
		}
		if v == nil && word == "!" || v == "" && (word == "|" || word == "!") {
			return word
		}
		return v
	case bool, float64:
		return v
	case int64:
		return v
	case *big.Int:
		if v.Sign() > 0 && v.BitLen() <= 64 && !isJobNumber(v.String()) {
			return v
		}
		return v.String() // does not fit into a message
	case *Map:
		if strings.HasPrefix(word, "{") || strings.Contains(word, "#") {
			return v
		}
	case *List:
		if strings.HasPrefix(word, "[") || strings.Contains(word, "#") {
			return v
		}
	}
	return word
}

// isJobNumber says whether digits are a job id, which is a text.
func isJobNumber(digits string) bool { return ValidJID(digits) == nil }

// splitKeyword takes a word of the form name=value apart. A second = behind the
// first, a blank in the name or a line end make it an ordinary word.
func splitKeyword(word string) (name, value string, ok bool) {
	name, value, found := strings.Cut(word, "=")
	if !found || name == "" || strings.HasPrefix(value, "=") {
		return "", "", false
	}
	for i, r := range name {
		letter := r == '_' || unicode.IsLetter(r)
		digit := unicode.IsDigit(r) || unicode.IsNumber(r)
		if !letter && (i == 0 || !digit && r != '.' && r != '-') {
			return "", "", false
		}
	}
	value = strings.TrimSuffix(value, "\n")
	if strings.Contains(value, "\n") {
		return "", "", false
	}
	return name, value, true
}

// KeywordFromWord is the keyword argument that a word stands for.
func KeywordFromWord(word string) (name string, v any, ok bool) {
	name, value, ok := splitKeyword(word)
	if !ok {
		return "", nil, false
	}
	return name, convertWord(value), true
}

// parseInput converts the words of a call: positional arguments in their order,
// then one mapping marked with __kwarg__ if there are keyword arguments. The
// values of the names in noParse stay as typed.
func parseInput(items []any, noParse map[string]bool) *List {
	out, kwargs := NewList(), NewMap()
	for _, item := range items {
		switch item := item.(type) {
		case string:
			name, value, ok := splitKeyword(item)
			switch {
			case !ok:
				out.Append(convertWord(item))
			case noParse[name]:
				kwargs.Set(name, value)
			default:
				kwargs.Set(name, convertWord(value))
			}
		case *Map:
			if item.Value("__kwarg__") != true {
				out.Append(item)
				continue
			}
			for k, v := range item.All() {
				if k != "__kwarg__" {
					kwargs.Set(k, v)
				}
			}
		default:
			out.Append(item)
		}
	}
	if kwargs.Len() > 0 {
		marked := NewMap("__kwarg__", true)
		marked.Merge(kwargs)
		out.Append(marked)
	}
	return out
}

// parseWords is parseInput for the words of a command line.
func parseWords(words []string, noParse map[string]bool) *List {
	items := make([]any, len(words))
	for i, w := range words {
		items[i] = w
	}
	return parseInput(items, noParse)
}

// noParseNames takes the value of --no-parse apart.
func noParseNames(value string) map[string]bool {
	names := map[string]bool{}
	for _, name := range strings.Split(value, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names[name] = true
		}
	}
	return names
}

// Errors of calls of several functions, in Salt's words.
var (
	errTooFewGroups  = errors.New("Cannot execute compound command without defining all arguments.")
	errTooManyGroups = errors.New("Cannot execute compound command with more arguments than commands.")
)

// splitFunctions takes f1,f2 apart and gives each function its group of words.
// The separator stands as a word of its own between groups, or inside words.
func splitFunctions(fun string, words []string, separator string) (funs []string, groups [][]string, err error) {
	funs = strings.Split(fun, ",")
	alone := 0
	for _, w := range words {
		if w == separator {
			alone++
		}
	}
	groups = [][]string{nil}
	add := func(word string) {
		last := len(groups) - 1
		groups[last] = append(groups[last], word)
	}
	if alone == len(funs)-1 {
		for _, w := range words {
			if w == separator {
				groups = append(groups, nil)
			} else {
				add(w)
			}
		}
		return funs, groups, nil
	}
	for _, w := range words {
		if separator == "" || !strings.Contains(w, separator) {
			add(w)
			continue
		}
		for i, part := range strings.Split(w, separator) {
			if i > 0 {
				groups = append(groups, nil)
			}
			if part != "" {
				add(part)
			}
		}
	}
	switch {
	case len(funs) > len(groups):
		return nil, nil, errTooFewGroups
	case len(funs) < len(groups):
		return nil, nil, errTooManyGroups
	}
	return funs, groups, nil
}
