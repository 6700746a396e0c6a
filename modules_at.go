// Module at: jobs that run once at a time, through at(1).
package main

import (
	"context"
	"regexp"
	"strings"
	"time"
)

func atModule() Module {
	return Module{
		Doc: "Manage the jobs of at.",
		Virtual: func(context.Context, *Call) (bool, string) {
			return which("at") != "", "The at module could not be loaded: at command not found"
		},
		Funcs: Funcs{
			"at":       {run: atAt, doc: "Add a job.\n\nCLI Example:\n\n    salt '*' at.at <timespec> <cmd> [tag=<tag>] [runas=<user>]"},
			"atc":      {run: atAtc, doc: "Return what a job will run."},
			"atq":      {run: atAtq, doc: "List jobs, all or those with a tag."},
			"atrm":     {run: atAtrm, doc: "Remove jobs by number, or all, or all with a tag."},
			"jobcheck": {run: atJobcheck, doc: "List the jobs that fit conditions: runas, tag, hour, minute, day, month, year."},
		},
	}
}

type atTagArgs struct {
	Tag any `def:"None"`
}

func atJobs(ctx context.Context, c *Call, tag any) (*List, error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, "atq")
	if err != nil {
		return nil, err
	}
	jobs := &List{}
	mark := regexp.MustCompile(`(?m)^### SALT: (\w+)`)
	for _, line := range pyLines(r.stdout, false) {
		id, spec, ok := strings.Cut(line, "\t")
		f := strings.Fields(spec)
		n, isNumber := intText(id)
		if !ok || len(f) < 7 || !isNumber {
			continue
		}
		t, err := time.Parse("Mon Jan _2 15:04:05 2006", strings.Join(f[:5], " "))
		if err != nil {
			continue
		}
		code, err := runSaltTool(ctx, c, toolOptions{}, which("at"), "-c", strings.TrimSpace(id))
		if err != nil {
			return nil, err
		}
		name := ""
		if all := mark.FindAllStringSubmatch(code.stdout, -1); len(all) > 0 {
			name = all[len(all)-1][1]
		}
		if Truth(tag) && !Equal(tag, name) && !Equal(tag, n) {
			continue
		}
		jobs.Append(NewMap("job", n, "date", t.Format("2006-01-02"), "time", t.Format("15:04")+":00", "queue", f[5], "user", f[6], "tag", name))
	}
	return jobs, nil
}

func atAtq(ctx context.Context, c *Call, a atTagArgs) (any, error) {
	jobs, err := atJobs(ctx, c, a.Tag)
	if err != nil {
		return nil, err
	}
	return NewMap("jobs", jobs), nil
}

type atArgsArgs struct {
	Args []any `arg:"*args"`
}

func atAtrm(ctx context.Context, c *Call, a atArgsArgs) (any, error) {
	if len(a.Args) == 0 {
		return NewMap("jobs", NewMap("removed", &List{}, "tag", nil)), nil
	}
	args := namesOf(a.Args)
	var tag any
	if args[0] == "all" && len(args) > 1 {
		tag = args[1]
	}
	jobs, err := atJobs(ctx, c, tag)
	if err != nil {
		return nil, err
	}
	removed := &List{}
	for _, j := range jobs.Items {
		id := Str(j.(*Map).Value("job"))
		if args[0] == "all" || hasString(args, id) {
			removed.Append(id)
		}
	}
	if _, err := runSaltTool(ctx, c, toolOptions{}, append([]string{"at", "-d"}, orBlank(namesOf(removed.Items))...)...); err != nil {
		return nil, err
	}
	return NewMap("jobs", NewMap("removed", removed, "tag", tag)), nil
}

// orBlank is what at gets to remove: one empty word if there is nothing, which it
// refuses, so that the exit code tells.
func orBlank(ids []string) []string {
	if len(ids) == 0 {
		return []string{""}
	}
	return ids
}

type atAtArgs struct {
	Args   []any `arg:"*args"`
	Kwargs *Map  `arg:"**kwargs"`
}

func atAt(ctx context.Context, c *Call, a atAtArgs) (any, error) {
	if len(a.Args) < 2 {
		return NewMap("jobs", &List{}), nil
	}
	args := namesOf(a.Args)
	stdin := strings.Join(args[1:], " ") + "\n"
	if tag, ok := a.Kwargs.Get("tag"); ok {
		stdin = "### SALT: " + Str(tag) + "\n" + stdin
	}
	text, err := runTextWith(ctx, c, toolOptions{stdin: stdin, runas: a.Kwargs.Value("runas")}, which("at"), args[0])
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(text, "Garbled time") {
		return NewMap("jobs", &List{}, "error", "invalid timespec"), nil
	}
	m := regexp.MustCompile(`(?m)^job (\d+)`).FindStringSubmatch(text)
	if m == nil {
		return nil, ExecErrorf("at did not take the job: %s", text)
	}
	n, _ := intText(m[1])
	return atAtq(ctx, c, atTagArgs{Tag: n})
}

type atJobidArgs struct{ Jobid any }

func atAtc(ctx context.Context, c *Call, a atJobidArgs) (any, error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, which("at"), "-c", Str(a.Jobid))
	if err != nil {
		return nil, err
	}
	if r.stdout == "" {
		return NewMap("error", "invalid job id '"+Str(a.Jobid)+"'"), nil
	}
	return r.stdout, nil
}

func atJobcheck(ctx context.Context, c *Call, a kwargsOnly) (any, error) {
	if a.Kwargs.Len() == 0 {
		return NewMap("error", "You have given a condition"), nil
	}
	jobs, err := atJobs(ctx, c, nil)
	if err != nil {
		return nil, err
	}
	if jobs.Len() == 0 {
		return NewMap("jobs", jobs), nil
	}
	kw := a.Kwargs
	part := func(text, sep string, i int) string { return strings.Split(text, sep)[i] }
	two := func(v any) string {
		s := Str(v)
		if len(s) == 1 {
			s = "0" + s
		}
		return s
	}
	out := &List{}
	for _, item := range jobs.Items {
		j := item.(*Map)
		day, clock := j.Str("date"), j.Str("time")
		fits := true
		check := func(key, have string, width bool) {
			v := kw.Value(key)
			if !Truth(v) {
				return
			}
			want := Str(v)
			if width {
				want = two(v)
			}
			if key == "year" && len(want) == 2 {
				want = "20" + want
			}
			fits = fits && want == have
		}
		check("runas", j.Str("user"), false)
		check("tag", j.Str("tag"), false)
		check("hour", part(clock, ":", 0), true)
		check("minute", part(clock, ":", 1), true)
		check("day", part(day, "-", 2), true)
		check("month", part(day, "-", 1), true)
		check("year", part(day, "-", 0), false)
		if fits {
			out.Append(j)
		}
	}
	if out.Len() == 0 {
		return NewMap("jobs", out, "note", "No match jobs or time format error"), nil
	}
	return NewMap("jobs", out), nil
}
