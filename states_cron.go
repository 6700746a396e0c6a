// State module cron: users' crontabs.
package main

import (
	"context"
	"os"
	"strings"
)

func cronStates() Module {
	return Module{
		Doc:     "Users' crontabs.",
		Virtual: needsFunction("cron.list_tab", "cron module could not be loaded"),
		Funcs: Funcs{
			"present":     {run: cronStatePresent, doc: "The crontab has the command at that time. identifier names the entry, so that its command may change."},
			"absent":      {run: cronStateAbsent, doc: "The crontab does not have the command."},
			"file":        {run: cronStateFile, doc: "The crontab is a file of the master."},
			"env_present": {run: cronStateEnvPresent, doc: "The crontab sets the variable."},
			"env_absent":  {run: cronStateEnvAbsent, doc: "The crontab does not set the variable."},
		},
	}
}

// cronNoIdentifier marks entries without an identifier of their own.
const cronNoIdentifier = "NO ID SET"

// cronIsEntry says whether an entry is the one that a state means.
func cronIsEntry(entry *Map, cmd string, identifier any) bool {
	id := cronNoIdentifier
	if v := entry.Value("identifier"); Truth(v) {
		id = Str(v)
	}
	want := cronNoIdentifier
	if Truth(identifier) {
		want = Str(identifier)
	}
	same := entry.Value("cmd") == cmd
	switch {
	case !same && id == cronNoIdentifier && want == cronNoIdentifier:
		return false
	case same && id == cronNoIdentifier:
		return true
	}
	return id == want
}

// cronDiffers says whether a field has to change: random only replaces *.
func cronDiffers(old, wanted any) bool {
	if Equal(old, wanted) {
		return false
	}
	if wanted == "random" {
		return old == "*"
	}
	return wanted != nil
}

// cronStatus compares a crontab with what a state wants: fields is a list of
// field names and values.
func cronStatus(ctx context.Context, c *Call, user, cmd string, identifier, special any, fields ...any) (string, error) {
	tab, err := runMap(ctx, c, "cron.list_tab", user)
	if err != nil {
		return "", err
	}
	kind := "crons"
	if special != nil {
		kind = "special"
	}
	for _, item := range toItems(tab.Value(kind)) {
		entry, ok := item.(*Map)
		if !ok || !cronIsEntry(entry, cmd, identifier) {
			continue
		}
		for i := 0; i < len(fields); i += 2 {
			if cronDiffers(entry.Value(fields[i]), fields[i+1]) {
				return "update", nil
			}
		}
		return "present", nil
	}
	return "absent", nil
}

func cronEnvStatus(ctx context.Context, c *Call, user, name string, value any) (string, error) {
	tab, err := runMap(ctx, c, "cron.list_tab", user)
	if err != nil {
		return "", err
	}
	if value == nil {
		value = ""
	}
	for _, item := range toItems(tab.Value("env")) {
		if entry, ok := item.(*Map); ok && entry.Value("name") == name {
			if Equal(entry.Value("value"), value) {
				return "present", nil
			}
			return "update", nil
		}
	}
	return "absent", nil
}

// cronWould is the return of a dry run.
func cronWould(ret *Map, what, status string) (any, error) {
	switch status {
	case "present":
		return stateSay(ret, true, "%s already present", what)
	case "update":
		return stateSay(ret, nil, "%s is set to be updated", what)
	}
	return stateSay(ret, nil, "%s is set to be added", what)
}

// cronWouldRemove is cronWould for what is to be gone.
func cronWouldRemove(ret *Map, what, status string) (any, error) {
	if status == "absent" {
		return stateSay(ret, true, "%s is absent", what)
	}
	return stateSay(ret, nil, "%s is set to be removed", what)
}

// cronDid is the return after a change; nl is what ends the last words.
func cronDid(ret *Map, what, name, user string, data any, nl string) (any, error) {
	switch data {
	case "present", "absent":
		return stateSay(ret, true, "%s already %s", what, Str(data))
	case "new":
		ret.Set("changes", NewMap(user, name))
		return stateSay(ret, true, "%s added to %s's crontab", what, user)
	case "updated":
		ret.Set("changes", NewMap(user, name))
		return stateSay(ret, true, "%s updated", what)
	case "removed":
		ret.Set("changes", NewMap(user, name))
		return stateSay(ret, true, "%s removed from %s's crontab", what, user)
	}
	return stateSay(ret, false, "%s for user %s failed to commit with error %s%s", what, user, nl, Str(data))
}

func lowerOrNil(v any) any {
	if v == nil {
		return nil
	}
	return strings.ToLower(Str(v))
}

func cronStatePresent(ctx context.Context, c *Call, a struct {
	Name       string
	User       string `def:"root"`
	Minute     any    `def:"*"`
	Hour       any    `def:"*"`
	Daymonth   any    `def:"*"`
	Month      any    `def:"*"`
	Dayweek    any    `def:"*"`
	Comment    any    `def:"None"`
	Commented  any    `def:"False"`
	Identifier any    `def:"False"`
	Special    any    `def:"None"`
}) (any, error) {
	name := pyStrip(a.Name)
	id := a.Identifier
	if id == false {
		id = name
	}
	ret := stateReturn(name, true, "")
	if c.Testing() {
		idText, commented := id, any(nil)
		if id != nil {
			idText = Str(id)
		}
		if a.Commented != nil {
			commented = a.Commented == true
		}
		fields := []any{"minute", lowerOrNil(a.Minute), "hour", lowerOrNil(a.Hour), "daymonth", lowerOrNil(a.Daymonth),
			"month", lowerOrNil(a.Month), "dayweek", lowerOrNil(a.Dayweek)}
		if a.Special != nil {
			fields = []any{"spec", a.Special}
		}
		fields = append(fields, "identifier", idText, "cmd", name, "comment", a.Comment, "commented", commented)
		status, err := cronStatus(ctx, c, a.User, name, idText, a.Special, fields...)
		if err != nil {
			return nil, err
		}
		return cronWould(ret, "Cron "+name, status)
	}
	kw := NewMap("user", a.User, "cmd", name, "comment", a.Comment, "commented", a.Commented, "identifier", id)
	fun := "cron.set_job"
	if a.Special == nil {
		kw.Merge(NewMap("minute", a.Minute, "hour", a.Hour, "daymonth", a.Daymonth, "month", a.Month, "dayweek", a.Dayweek))
	} else {
		fun = "cron.set_special"
		kw.Set("special", a.Special)
	}
	data, err := c.RunKw(ctx, fun, nil, kw)
	if err != nil {
		return nil, err
	}
	return cronDid(ret, "Cron "+name, name, a.User, data, "\n")
}

func cronStateAbsent(ctx context.Context, c *Call, a struct {
	Name       string
	User       string `def:"root"`
	Identifier any    `def:"False"`
	Special    any    `def:"None"`
	Kwargs     *Map   `arg:"**kwargs"`
}) (any, error) {
	name := pyStrip(a.Name)
	id := a.Identifier
	if id == false {
		id = name
	}
	ret := stateReturn(name, true, "")
	if c.Testing() {
		status, err := cronStatus(ctx, c, a.User, name, id, nil)
		if err != nil {
			return nil, err
		}
		return cronWouldRemove(ret, "Cron "+name, status)
	}
	kw, fun := NewMap("identifier", id), "cron.rm_job"
	if a.Special != nil {
		kw.Set("special", a.Special)
		fun = "cron.rm_special"
	}
	data, err := c.RunKw(ctx, fun, []any{a.User, name}, kw)
	if err != nil {
		return nil, err
	}
	return cronDid(ret, "Cron "+name, name, a.User, data, "")
}

func cronStateEnvPresent(ctx context.Context, c *Call, a struct {
	Name  string
	Value any    `def:"None"`
	User  string `def:"root"`
}) (any, error) {
	ret := stateReturn(a.Name, true, "")
	if c.Testing() {
		status, err := cronEnvStatus(ctx, c, a.User, a.Name, a.Value)
		if err != nil {
			return nil, err
		}
		return cronWould(ret, "Cron env "+a.Name, status)
	}
	data, err := c.RunKw(ctx, "cron.set_env", []any{a.User, a.Name}, NewMap("value", a.Value))
	if err != nil {
		return nil, err
	}
	return cronDid(ret, "Cron env "+a.Name, a.Name, a.User, data, "\n")
}

func cronStateEnvAbsent(ctx context.Context, c *Call, a struct {
	Name string
	User string `def:"root"`
}) (any, error) {
	name := pyStrip(a.Name)
	ret := stateReturn(name, true, "")
	if c.Testing() {
		status, err := cronEnvStatus(ctx, c, a.User, name, nil)
		if err != nil {
			return nil, err
		}
		return cronWouldRemove(ret, "Cron env "+name, status)
	}
	data, err := c.Run(ctx, "cron.rm_env", a.User, name)
	if err != nil {
		return nil, err
	}
	return cronDid(ret, "Cron env "+name, name, a.User, data, "")
}

func cronStateFile(ctx context.Context, c *Call, a struct {
	Name           string
	SourceHash     any    `def:"''"`
	SourceHashName any    `def:"None"`
	User           string `def:"root"`
	Template       any    `def:"None"`
	Context        any    `def:"None"`
	Replace        any    `def:"True"`
	Defaults       any    `def:"None"`
	Backup         any    `def:"''"`
	Kwargs         *Map   `arg:"**kwargs"`
}) (any, error) {
	ret := stateReturn(a.Name, true, "")
	info, err := runMap(ctx, c, "user.info", a.User)
	groups := toItems(info.Value("groups"))
	if err != nil || len(groups) == 0 {
		return stateSay(ret, false, "Could not identify group for user %s", a.User)
	}
	raw, err := runString(ctx, c, "cron.raw_cron", a.User)
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(raw, "\n") {
		raw += "\n"
	}
	f, err := os.CreateTemp("", "crontab-")
	if err != nil {
		return nil, osError(err)
	}
	path := f.Name()
	defer os.Remove(path)
	_, err = f.WriteString(raw)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, osError(err)
	}
	if !Truth(a.Replace) {
		return stateSay(ret, true, "User %s already has a crontab. No changes made", a.User)
	}
	kw := NewMap("name", path, "source", a.Name, "source_hash", a.SourceHash, "source_hash_name", a.SourceHashName, "user", a.User, "group", groups[0],
		"mode", "0600", "attrs", nil, "template", a.Template, "context", a.Context, "defaults", a.Defaults, "saltenv", c.StateEnv())
	kw.Merge(a.Kwargs)
	if c.Testing() {
		v, err := c.RunKw(ctx, "file.check_managed", nil, kw)
		if err != nil {
			return nil, err
		}
		if pair := toItems(v); len(pair) == 2 {
			ret.Set("result", pair[0])
			ret.Set("comment", pair[1])
		}
		return ret, nil
	}
	v, err := c.Run(ctx, "file.source_list", a.Name, a.SourceHash, c.StateEnv())
	if err != nil {
		return nil, err
	}
	source := toItems(v)
	if len(source) != 2 {
		return stateSay(ret, false, "Unable to manage file: no source")
	}
	kw.Set("source", source[0])
	kw.Set("source_hash", source[1])
	kw.Set("skip_verify", false)
	v, err = c.RunKw(ctx, "file.get_managed", nil, kw)
	got := toItems(v)
	if err != nil || len(got) != 3 {
		text := "nothing came back"
		if err != nil {
			text = errText(err)
		}
		return stateSay(ret, false, "Unable to manage file: %s", text)
	}
	if Truth(got[2]) {
		return stateSay(ret, false, "%s", Str(got[2]))
	}
	v, err = c.RunKw(ctx, "file.manage_file", nil, NewMap("name", path, "sfn", got[0], "ret", ret, "source", source[0], "source_sum", got[1], "user", a.User,
		"group", groups[0], "mode", "0600", "attrs", nil, "saltenv", c.StateEnv(), "backup", a.Backup))
	done, ok := v.(*Map)
	if err != nil || !ok {
		text := Str(v)
		if err != nil {
			text = errText(err)
		}
		ret.Set("changes", NewMap())
		return stateSay(ret, false, "Unable to manage file: %s", text)
	}
	if done.Map("changes").Has("diff") {
		out, err := runMap(ctx, c, "cron.write_cron_file_verbose", a.User, path)
		if err != nil {
			return nil, err
		}
		if Equal(out.Value("retcode"), int64(0)) {
			return stateSay(done, true, "Crontab for user %s was updated", a.User)
		}
		done.Set("changes", NewMap())
		return stateSay(done, false, "Unable to update user %s crontab %s. Error: %s", a.User, path, Str(out.Value("stderr")))
	}
	if Truth(done.Value("result")) {
		done.Set("changes", NewMap())
		return stateSay(done, done.Value("result"), "Crontab for user %s is in the correct state", a.User)
	}
	return done, nil
}
