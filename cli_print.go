// Printing of results by the command lines: which outputter, which stream or
// file, with which colours.
//
// The law of this file: a result is written as soon as it is there; a reader
// that went away (a closed pipe) ends the program quietly.
package main

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
)

// resultPrinter writes results as the options say.
type resultPrinter struct {
	std Stdio
	d   *Display
}

func newResultPrinter(o *Options, std Stdio, log *slog.Logger) (*resultPrinter, error) {
	d, err := openDisplay(o, std, log)
	return &resultPrinter{std: std, d: d}, err
}

// value writes one result. out is the outputter that the result itself asks
// for; retcode colours it.
func (r *resultPrinter) value(v any, out string, retcode int) error {
	return r.d.Show(v, out, retcode)
}

// docs writes documentation, sorted by function. With an outputter asked for
// each text is a result of its own.
func (r *resultPrinter) docs(docs map[string]string, asResults bool) int {
	names := make([]string, 0, len(docs))
	for name := range docs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		var err error
		if asResults {
			err = r.value(NewMap(name, docs[name]), "nested", 0)
		} else {
			_, err = fmt.Fprintf(r.std.Out, "%s:\n%s\n\n", name, docs[name])
		}
		if err != nil {
			return exitFailed
		}
	}
	return 0
}

// readLine reads one line of a person's answer, without its end, a byte at a
// time: what follows belongs to the next reader.
func readLine(in io.Reader) (string, error) {
	var line []byte
	var c [1]byte
	for {
		n, err := in.Read(c[:])
		if n == 1 {
			if c[0] == '\n' {
				return strings.TrimSuffix(string(line), "\r"), nil
			}
			line = append(line, c[0])
		}
		if err != nil {
			if len(line) > 0 {
				return string(line), nil
			}
			return "", err
		}
	}
}

// readPassword asks for a text that the terminal does not show.
func readPassword(std Stdio, prompt string) (text string, err error) {
	fmt.Fprint(std.Err, prompt)
	err = withoutEcho(std.In, func() error {
		text, err = readLine(std.In)
		return err
	})
	if isTerminal(std.In) {
		fmt.Fprintln(std.Err)
	}
	return text, err
}
