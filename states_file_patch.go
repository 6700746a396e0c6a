// State module file: patch, which makes the changes of a patch to a file or a
// directory, after a run that shows whether it applies.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

type filePatchArgs struct {
	Name           string
	Source         any    `def:"None"`
	SourceHash     any    `def:"None"`
	SourceHashName any    `def:"None"`
	SkipVerify     bool   `def:"False"`
	Template       any    `def:"None"`
	Context        any    `def:"None"`
	Defaults       any    `def:"None"`
	Options        string `def:"''"`
	RejectFile     any    `def:"None"`
	Strip          any    `def:"None"`
	Saltenv        any    `def:"None"`
	Kwargs         *Map   `arg:"**kwargs"`
}

// patchWork is a file.patch on its way.
type patchWork struct {
	a       filePatchArgs
	name    string
	ret     *Map
	strip   any
	options []string // for patch

	temps                      []string
	patchFile, rejects, output string
}

func fileStatePatch(ctx context.Context, c *Call, a filePatchArgs) (any, error) {
	w := &patchWork{a: a, name: a.Name, ret: stateReturn(a.Name, false, ""), strip: a.Strip}
	defer w.removeTemps()
	return runSteps(ctx, c, w.checkTarget, w.checkRejectFile, w.readOptions, w.fetch, w.apply)
}

func (w *patchWork) checkTarget(ctx context.Context, c *Call) (any, error) {
	if v, err := c.Run(ctx, "cmd.has_exec", "patch"); err == nil && !Truth(v) {
		return stateSay(w.ret, false, "patch executable not found on minion")
	}
	if w.name == "" {
		return stateSay(w.ret, false, "A file/directory to be patched is required")
	}
	w.name = expandUser(w.name)
	if !filepath.IsAbs(w.name) {
		return stateSay(w.ret, false, "%s is not an absolute path", w.name)
	}
	if !pathExists(w.name) {
		return stateSay(w.ret, false, "%s does not exist", w.name)
	}
	var warnings []string
	for _, old := range []string{"hash", "dry_run_first"} {
		if w.a.Kwargs.Has(old) {
			warnings = append(warnings, fmt.Sprintf("The '%s' argument is no longer used and has been ignored.", old))
		}
	}
	if len(warnings) > 0 {
		w.ret.Set("warnings", Strings(warnings))
	}
	return nil, nil
}

func (w *patchWork) checkRejectFile(context.Context, *Call) (any, error) {
	if w.a.RejectFile == nil {
		return nil, nil
	}
	file := Str(w.a.RejectFile)
	dir := filepath.Dir(file)
	if !filepath.IsAbs(dir) {
		return stateSay(w.ret, false, "'%s' is not an absolute path", file)
	}
	if !isDir(dir) {
		return stateSay(w.ret, false, "Parent directory for reject_file '%s' either does not exist, or is not a directory", file)
	}
	return nil, nil
}

// readOptions sorts the options for patch: strip is the state's own, and those
// that the state itself sets are refused.
func (w *patchWork) readOptions(context.Context, *Call) (any, error) {
	words, _ := splitShell(w.a.Options)
	var refused []string
	for i := 0; i < len(words); i++ {
		word := words[i]
		if ownPatchOption(word) {
			refused = append(refused, word)
		}
		number, option := "", ""
		switch {
		case strings.HasPrefix(word, "-p"):
			number, option = word[2:], "-p"
		case strings.HasPrefix(word, "--strip"):
			_, v, ok := strings.Cut(word, "=")
			if !ok && i+1 < len(words) {
				i++
				v = words[i]
			}
			number, option = v, "-strip"
		default:
			w.options = append(w.options, word)
			continue
		}
		n, ok := toInt(number)
		if !ok || number == "" {
			return stateSay(w.ret, false, "Invalid format for '%s' CLI option. Consider using the 'strip' option for this state.", option)
		}
		w.strip = n
	}
	if len(refused) > 0 {
		return stateSay(w.ret, false, "The following CLI options are not allowed: %s", strings.Join(refused, ", "))
	}
	return nil, nil
}

// ownPatchOption says whether an option is one that the state sets itself.
func ownPatchOption(word string) bool {
	for _, p := range []string{"-N", "--forward", "-r", "--reject-file", "-o", "--output"} {
		if strings.HasPrefix(word, p) {
			return true
		}
	}
	return false
}

func (w *patchWork) temp() (string, error) {
	f, err := os.CreateTemp("", "__salt.tmp.*")
	if err != nil {
		return "", pyOSError(err)
	}
	w.temps = append(w.temps, f.Name())
	return f.Name(), f.Close()
}

func (w *patchWork) removeTemps() {
	for _, p := range w.temps {
		os.Remove(p)
	}
}

// fetch brings the patch here, in a dry run as well.
func (w *patchWork) fetch(ctx context.Context, c *Call) (any, error) {
	a := w.a
	src, _, err := pickSource(ctx, c, a.Source, a.SourceHash, c.StateEnv())
	if err != nil {
		return stateSay(w.ret, false, "%s", errText(err))
	}
	for _, file := range []*string{&w.patchFile, &w.rejects, &w.output} {
		if *file, err = w.temp(); err != nil {
			return nil, err
		}
	}
	real := *c
	env := *c.Env
	env.Opts = c.Opts.Clone()
	env.Opts.Set("test", false)
	real.Env = &env
	m := newManagedArgs(w.patchFile)
	m.Source, m.SourceHash, m.SourceHashName, m.SkipVerify, m.Template, m.Context, m.Defaults = src, a.SourceHash, a.SourceHashName, a.SkipVerify,
		a.Template, a.Context, a.Defaults
	got, err := managedState(ctx, &real, m)
	if err != nil {
		return stateSay(w.ret, false, "Failed to cache patch file %s: %s", redactURL(Str(src)), errText(err))
	}
	if !c.Testing() && !Truth(got.Value("result")) {
		return got, nil
	}
	return nil, nil
}

// run runs patch; code is its exit code.
func (w *patchWork) run(ctx context.Context, c *Call, file string, more []string, dry bool) (out *Map, code int64, err error) {
	var quoted []string
	for _, word := range append(append([]string(nil), w.options...), more...) {
		quoted = append(quoted, quoteShell(word))
	}
	v, err := c.RunKw(ctx, "file.patch", []any{w.name, file}, NewMap("options", strings.Join(quoted, " "), "dry_run", dry))
	if err != nil {
		return nil, 0, err
	}
	out, _ = v.(*Map)
	code, _ = toInt(out.Value("retcode"))
	return out, code, nil
}

// apply patches into a file beside first; only a patch that applies is applied.
func (w *patchWork) apply(ctx context.Context, c *Call) (any, error) {
	if w.a.RejectFile != nil {
		w.rejects = Str(w.a.RejectFile)
	}
	var strip []string
	if w.strip != nil && isDir(w.name) {
		strip = []string{"-p" + Str(w.strip)}
	}
	check, code, err := w.run(ctx, c, w.patchFile, append([]string{"-N", "-r", w.rejects, "-o", w.output}, strip...), false)
	if err != nil {
		return nil, err
	}
	if code != 0 {
		return w.refused(ctx, c, check, code)
	}
	if c.Testing() {
		return stateChanged(w.a.Name, nil, "The patch would be applied", check), nil
	}
	done, code, err := w.run(ctx, c, w.patchFile, strip, false)
	if err != nil {
		return nil, err
	}
	if code == 0 {
		return stateChanged(w.a.Name, true, "Patch successfully applied", done), nil
	}
	return stateChanged(w.a.Name, false, "Failed to apply patch", done), nil
}

// refused ends the state of a patch that does not apply: it may have been
// applied before.
func (w *patchWork) refused(ctx context.Context, c *Call, check *Map, code int64) (any, error) {
	_, reverse, err := w.run(ctx, c, w.rejects, []string{"-R", "-f"}, true)
	if err != nil {
		return nil, err
	}
	if s := check.Str("stderr"); code == 2 && s != "" {
		return stateSay(w.ret, false, "%s", s)
	}
	if reverse == 0 {
		return stateReturn(w.a.Name, true, "Patch was already applied"), nil
	}
	comment := "Patch would not apply cleanly, no changes made. Results of dry-run are below."
	if w.a.RejectFile == nil {
		comment += " Run state again using the reject_file option to save rejects to a persistent file."
	}
	text, err := Output("nested", check, OutputOptions{BaseIndent: 14})
	if err != nil {
		return nil, err
	}
	return stateSay(w.ret, false, "%s", comment+"\n\n"+text)
}
