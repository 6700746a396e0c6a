// Showing results: on the terminal or in a file, with the options of the user.
package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
)

// Display shows results one after the other, as the output options say.
type Display struct {
	opts OutputOptions
	out  io.Writer
	path string
}

// openDisplay prepares showing results. With output_file they go there, and the
// file is emptied first unless output_file_append is set; a file that cannot be
// written is an error at once, before any job is sent.
func openDisplay(o *Options, std Stdio, log *slog.Logger) (*Display, error) {
	d := &Display{opts: newOutputOptions(o, isTerminal(std.Out)), out: std.Out, path: o.Str("output_file")}
	d.opts.Own = NewCustoms(o)
	if d.opts.Log = log; log == nil {
		d.opts.Log = NewLogger(std.Err, "error")
	}
	if d.path == "" {
		return d, nil
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if !o.Bool("output_file_append") {
		flags |= os.O_TRUNC
	}
	f, err := os.OpenFile(d.path, flags, 0o666)
	if err != nil {
		return nil, fmt.Errorf("open the output file: %w", err)
	}
	return d, f.Close()
}

// Close ends what user-written outputters started.
func (d *Display) Close() { d.opts.Own.Close() }

// Show shows data with the outputter that its return names, for a minion whose
// exit code was retcode. Empty text prints nothing.
func (d *Display) Show(data any, outputter string, retcode int) error {
	o := d.opts
	o.Retcode = retcode
	return d.ShowWith(data, outputter, o)
}

// ShowWith is Show with options of its own. What an outputter cannot show is
// logged here; the error that is returned only ends the program, and not even
// that with outputter key, as in Salt.
func (d *Display) ShowWith(data any, outputter string, o OutputOptions) error {
	text, err := Output(outputter, data, o)
	var cannot *outputError
	if errors.As(err, &cannot) {
		d.opts.Log.Error(cannot.Error())
		if cannot.name == "key" && !o.Static {
			return nil
		}
	}
	if err != nil || text == "" {
		return err
	}
	return d.Print(text + "\n")
}

// Print writes text where results go.
func (d *Display) Print(text string) error {
	if d.path == "" {
		_, err := io.WriteString(d.out, text)
		return err
	}
	f, err := os.OpenFile(d.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return fmt.Errorf("write the output file: %w", err)
	}
	_, err = io.WriteString(f, text)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// progressBar shows how many answers of a job came, on a terminal.
type progressBar struct {
	w     io.Writer
	total int
	shown bool
}

// newProgressBar makes a bar on w; where no terminal is, it shows nothing, so
// that no file or pipe gets control characters.
func newProgressBar(w io.Writer, total int) *progressBar {
	if !isTerminal(w) {
		w = nil
	}
	return &progressBar{w: w, total: total}
}

// Update shows that n answers came.
func (p *progressBar) Update(n int) {
	if p.w == nil {
		return
	}
	p.total = max(p.total, n, 1)
	tail := fmt.Sprintf(" Returns: [%d/%d]", n, p.total)
	room := max(terminalWidth(p.w)-len(tail)-8, 10)
	full := room * n / p.total
	fmt.Fprintf(p.w, "\r%3d%% |%s%s|%s", 100*n/p.total, strings.Repeat("#", full), strings.Repeat(" ", room-full), tail)
	p.shown = true
}

// End leaves the line of the bar.
func (p *progressBar) End() {
	if p.shown {
		fmt.Fprintln(p.w)
	}
}
