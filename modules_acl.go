// Module acl: access control lists of files, through getfacl(1) and setfacl(1).
package main

import (
	"context"
	"strings"
)

func aclModule() Module {
	return Module{
		Doc: "Read and change access control lists of files.",
		Virtual: func(context.Context, *Call) (bool, string) {
			return which("getfacl") != "", "The linux_acl execution module cannot be loaded: the getfacl binary is not in the path."
		},
		Funcs: Funcs{
			"version":   {run: aclVersion, doc: "Return the version of getfacl."},
			"getfacl":   {run: aclGet, doc: "Return the lists of files; recursive=True goes below directories.\n\nCLI Example:\n\n    salt '*' acl.getfacl /tmp/house/kitchen recursive=True"},
			"wipefacls": {run: aclWipe, doc: "Remove all entries beside the owner's, the group's and the others' from files."},
			"modfacl":   {run: aclModify, doc: "Set an entry of files: user, group or mask, with default: or d: before it the default one.\n\nCLI Example:\n\n    salt '*' acl.modfacl d:user myuser 7 /tmp/house/kitchen recursive=True"},
			"delfacl":   {run: aclDelete, doc: "Remove an entry from files.\n\nCLI Example:\n\n    salt '*' acl.delfacl user myuser /tmp/house/kitchen"},
		},
	}
}

type aclFilesArgs struct {
	Args   []any `arg:"*args"`
	Kwargs *Map  `arg:"**kwargs"`
}

// aclTool is the command with its option for recursion, and the files at its end.
func aclTool(kw *Map, files []any, words ...string) ([]string, error) {
	if len(files) == 0 {
		return nil, ExecErrorf("You need to specify at least one file or directory to work with!")
	}
	if Truth(kw.Value("recursive")) {
		words = append([]string{words[0], "-R"}, words[1:]...)
	}
	return append(append(words, "--"), namesOf(files)...), nil
}

func aclVersion(ctx context.Context, c *Call, _ noArgs) (any, error) {
	text, err := runText(ctx, c, "getfacl", "--version")
	if f := strings.Fields(text); err == nil && len(f) > 1 {
		return f[1], nil
	}
	return "", err
}

func aclGet(ctx context.Context, c *Call, a aclFilesArgs) (any, error) {
	words, err := aclTool(a.Kwargs, a.Args, "getfacl", "--absolute-names")
	if err != nil {
		return nil, err
	}
	text, err := runText(ctx, c, words...)
	return parseFacl(text), err
}

// parseFacl reads what getfacl writes: a block of comments and entries for each
// file.
func parseFacl(text string) *Map {
	ret := &Map{}
	var file *Map
	for _, line := range strings.Split(text, "\n") {
		if comment, ok := strings.CutPrefix(line, "# "); ok {
			key, value, _ := strings.Cut(comment, ": ")
			if key == "file" {
				file = NewMap("comment", &Map{}, "user", &List{}, "group", &List{})
				ret.Set(value, file)
			}
			if file == nil {
				continue
			}
			file.Map("comment").Set(key, value)
			if key == "flags" {
				for i, name := range []string{"suid", "sgid", "sticky"} {
					if len(value) > i && value[i] != '-' {
						file.Set(name, true)
					}
				}
			}
			continue
		}
		if file != nil && !strings.HasPrefix(line, "getfacl") {
			addFaclEntry(file, line)
		}
	}
	return ret
}

// addFaclEntry adds a line such as default:user:ann:r-x to a file's list.
func addFaclEntry(file *Map, line string) {
	line, _, _ = strings.Cut(line, "\t") // what the mask leaves of it
	rest, isDefault := strings.CutPrefix(line, "default:")
	parts := strings.Split(rest, ":")
	if len(parts) < 3 {
		return
	}
	kind, name, perms := parts[0], strings.Join(parts[1:len(parts)-1], ":"), parts[len(parts)-1]
	octal := int64(0)
	may := &Map{}
	for i, key := range []string{"read", "write", "execute"} {
		on := strings.Contains(perms, "rwx"[i:i+1])
		may.Set(key, on)
		if on {
			octal += 4 >> i
		}
	}
	to := file
	if isDefault {
		if to = file.Map("defaults"); to == nil {
			to = &Map{}
			file.Set("defaults", to)
		}
	}
	entry := NewMap("permissions", may, "octal", octal)
	if kind == "other" || kind == "mask" {
		to.Set(kind, NewList(NewMap("", entry)))
		return
	}
	if name == "" {
		owner := map[string]string{"user": "owner", "group": "group"}[kind]
		name = file.Map("comment").Str(owner)
	}
	list, _ := to.Value(kind).(*List)
	if list == nil {
		list = &List{}
		to.Set(kind, list)
	}
	list.Append(NewMap(name, entry))
}

func aclWipe(ctx context.Context, c *Call, a aclFilesArgs) (any, error) {
	words, err := aclTool(a.Kwargs, a.Args, "setfacl", "-b")
	if err != nil {
		return nil, err
	}
	_, err = runText(ctx, c, words...)
	return err == nil, err
}

// aclEntryKind is setfacl's letter for a kind of entry, with d: for a default.
func aclEntryKind(kind string) string {
	prefix := ""
	if strings.HasPrefix(kind, "d") {
		prefix = "d:"
		kind = strings.TrimPrefix(strings.TrimPrefix(kind, "default:"), "d:")
	}
	switch kind {
	case "user", "u", "group", "g", "mask", "m":
		return prefix + kind[:1]
	}
	return prefix
}

func aclModify(ctx context.Context, c *Call, a struct {
	AclType string
	AclName string `def:"''"`
	Perms   string `def:"''"`
	Args    []any  `arg:"*args"`
	Kwargs  *Map   `arg:"**kwargs"`
}) (any, error) {
	words, err := aclTool(a.Kwargs, a.Args, "setfacl", "-m", aclEntryKind(a.AclType)+":"+a.AclName+":"+a.Perms)
	if err != nil {
		return nil, err
	}
	return aclRun(ctx, c, a.Kwargs, words)
}

func aclDelete(ctx context.Context, c *Call, a struct {
	AclType string
	AclName string `def:"''"`
	Args    []any  `arg:"*args"`
	Kwargs  *Map   `arg:"**kwargs"`
}) (any, error) {
	words, err := aclTool(a.Kwargs, a.Args, "setfacl", "-x", aclEntryKind(a.AclType)+":"+a.AclName)
	if err != nil {
		return nil, err
	}
	return aclRun(ctx, c, a.Kwargs, words)
}

// aclRun runs setfacl, whose failure is one only with raise_err.
func aclRun(ctx context.Context, c *Call, kw *Map, words []string) (any, error) {
	r, err := runSaltTool(ctx, c, toolOptions{merge: true}, words...)
	if err != nil {
		return nil, err
	}
	if r.failed() && Truth(kw.Value("raise_err")) {
		return nil, ExecErrorf("%s", r.stdout)
	}
	return true, nil
}
