// Filling paragraphs as Python's textwrap does, for warnings in state reports.
package main

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// textwrapFill fills lines of that width, all with the indent; blanks of every
// kind are one blank each, and words longer than a line are cut.
func textwrapFill(text string, width int, indent string) string {
	text = strings.Map(func(r rune) rune {
		switch r {
		case '\t', '\n', '\v', '\f', '\r':
			return ' '
		}
		return r
	}, strings.ReplaceAll(text, "\t", "        "))
	chunks := wrapChunks(text)
	room := width - utf8.RuneCountInString(indent)
	var lines []string
	for len(chunks) > 0 {
		if len(lines) > 0 && strings.TrimSpace(chunks[0]) == "" {
			if chunks = chunks[1:]; len(chunks) == 0 {
				break
			}
		}
		var line []string
		used := 0
		for len(chunks) > 0 {
			n := utf8.RuneCountInString(chunks[0])
			if used+n > room {
				break
			}
			line = append(line, chunks[0])
			used += n
			chunks = chunks[1:]
		}
		if len(chunks) > 0 && utf8.RuneCountInString(chunks[0]) > room {
			left := max(room-used, 1)
			r := []rune(chunks[0])
			if i := strings.LastIndexByte(string(r[:left]), '-'); i > 0 && strings.Trim(string(r[:left])[:i], "-") != "" {
				left = utf8.RuneCountInString(string(r[:left])[:i+1])
			}
			line = append(line, string(r[:left]))
			chunks[0] = string(r[left:])
		}
		if len(line) > 0 && strings.TrimSpace(line[len(line)-1]) == "" {
			line = line[:len(line)-1]
		}
		if len(line) > 0 {
			lines = append(lines, indent+strings.Join(line, ""))
		}
	}
	return strings.Join(lines, "\n")
}

// wrapChunks splits a text into blanks and words; a word also ends behind a
// hyphen between letters.
func wrapChunks(text string) []string {
	r := []rune(text)
	var chunks []string
	start := 0
	cut := func(end int) {
		if end > start {
			chunks = append(chunks, string(r[start:end]))
			start = end
		}
	}
	at := func(i int) rune {
		if i < 0 || i >= len(r) {
			return 0
		}
		return r[i]
	}
	wordPunct := func(c rune) bool {
		return c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c) || strings.ContainsRune(`!"'&.,?`, c) && c != 0
	}
	for i := range r {
		if i > 0 && (r[i] == ' ') != (r[i-1] == ' ') {
			cut(i)
		}
		if r[i] != '-' {
			continue
		}
		before := unicode.IsLetter(at(i-1)) && unicode.IsLetter(at(i-2)) && i-2 >= start ||
			wordPunct(at(i-1)) && at(i-2) == '-' && unicode.IsLetter(at(i-3)) && i-3 >= start
		after := unicode.IsLetter(at(i+1)) && (unicode.IsLetter(at(i+2)) || at(i+2) == '-' && unicode.IsLetter(at(i+3)))
		if before && after {
			cut(i + 1)
		}
	}
	cut(len(r))
	return chunks
}
