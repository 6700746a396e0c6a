// Module extfs: file systems of the kind ext2, ext3 and ext4, through e2fsprogs.
package main

import (
	"context"
	"strings"
)

func extfsModule() Module {
	return Module{
		Doc: "Make, tune and read ext2, ext3 and ext4 file systems.",
		Funcs: Funcs{
			"mkfs":       {run: extfsMkfs, doc: "Make a file system. Options have mke2fs's letters or these names: block_size, bytes_per_inode,\ninode_size, journal, journal_opts, label, reserved, opts, ext_opts, usage_type, uuid …\n\nCLI Example:\n\n    salt '*' extfs.mkfs /dev/sda1 fs_type=ext4 opts='acl,noexec'"},
			"tune":       {run: extfsTune, doc: "Change a file system: max, count, error, interval, journal, label, reserved, opts, feature, uuid …\n\nCLI Example:\n\n    salt '*' extfs.tune /dev/sda1 label=wildstallyns opts='acl,noexec'"},
			"attributes": {run: extfsPart("attributes"), pyname: "attributes", doc: "Return the attributes of a file system."},
			"blocks":     {run: extfsPart("blocks"), pyname: "blocks", doc: "Return the groups of blocks of a file system."},
			"dump":       {run: extfsDump, doc: "Return attributes and groups of blocks of a file system."},
		},
	}
}

// extfsOptions turns named arguments into options, by the letters of a tool.
func extfsOptions(kw *Map, letters map[string]string) []string {
	var words []string
	for k, v := range kw.All() {
		letter := letters[Str(k)]
		switch {
		case letter == "":
		case v == true || v == "True":
			words = append(words, "-"+letter)
		default:
			words = append(words, "-"+letter, Str(v))
		}
	}
	return words
}

func extfsMkfs(ctx context.Context, c *Call, a struct {
	Device string
	FsType string
	Kwargs *Map `arg:"**kwargs"`
}) (any, error) {
	opts := extfsOptions(a.Kwargs, map[string]string{"block_size": "b", "check": "c", "direct": "D", "ext_opts": "E", "fragment_size": "f", "force": "F",
		"blocks_per_group": "g", "number_of_groups": "G", "bytes_per_inode": "i", "inode_size": "I", "journal": "j", "journal_opts": "J", "blocks_file": "l",
		"label": "L", "reserved": "m", "last_dir": "M", "test": "n", "number_of_inodes": "N", "creator_os": "o", "opts": "O", "revision": "r", "super": "S",
		"usage_type": "T", "uuid": "U"})
	text, err := runText(ctx, c, append(append([]string{"mke2fs", "-F", "-t", a.FsType}, opts...), a.Device)...)
	if err != nil {
		return nil, err
	}
	ret := &List{}
next:
	for _, line := range pyLines(text, false) {
		for _, noise := range []string{"mke2fs", "Discarding device blocks", "Allocating group tables", "Writing inode tables", "Creating journal", "Writing superblocks"} {
			if line == "" || strings.HasPrefix(line, noise) {
				continue next
			}
		}
		ret.Append(line)
	}
	return ret, nil
}

func extfsTune(ctx context.Context, c *Call, a struct {
	Device string
	Kwargs *Map `arg:"**kwargs"`
}) (any, error) {
	opts := extfsOptions(a.Kwargs, map[string]string{"max": "c", "count": "C", "error": "e", "extended_opts": "E", "force": "f", "group": "g", "interval": "i",
		"journal": "j", "journal_opts": "J", "label": "L", "last_dir": "M", "opts": "o", "feature": "O", "mmp_check": "p", "reserved": "r", "quota_opts": "Q",
		"time": "T", "user": "u", "uuid": "U"})
	text, err := runText(ctx, c, append(append([]string{"tune2fs"}, opts...), a.Device)...)
	return Strings(pyLines(text, false)), err
}

type extfsDumpArgs struct {
	Device string
	Args   any `def:"None"`
}

func extfsDump(ctx context.Context, c *Call, a extfsDumpArgs) (any, error) {
	words := []string{"dumpe2fs", a.Device}
	if Truth(a.Args) {
		words = append(words, "-"+Str(a.Args))
	}
	text, err := runText(ctx, c, words...)
	return parseDumpe2fs(text), err
}

func extfsPart(part string) func(context.Context, *Call, extfsDumpArgs) (any, error) {
	return func(ctx context.Context, c *Call, a extfsDumpArgs) (any, error) {
		v, err := extfsDump(ctx, c, a)
		m, _ := v.(*Map)
		return m.Value(part), err
	}
}

// parseDumpe2fs reads the attributes at the top and the groups below them.
func parseDumpe2fs(text string) *Map {
	attributes, blocks := &Map{}, &Map{}
	var group *Map
	for _, line := range strings.Split(text, "\n") {
		key, value, isPair := strings.Cut(strings.ReplaceAll(line, "\t", " "), ": ")
		switch {
		case line == "" || strings.HasPrefix(line, "dumpe2fs"):
		case strings.HasPrefix(line, "Group ") && !strings.HasPrefix(line, "Group descriptor size"):
			f := strings.Fields(strings.NewReplacer(":", "", "(", "", ")", "", "[", "", "]", "").Replace(line))
			if len(f) > 3 {
				group = NewMap("group", f[1], "range", f[3], "extra", &List{})
				blocks.Set("Group "+f[1], group)
			}
		case group == nil && strings.HasPrefix(line, "Filesystem features"):
			attributes.Set(key, Strings(strings.Fields(value)))
		case group == nil && isPair:
			attributes.Set(key, strings.TrimSpace(value))
		case group == nil:
		case strings.Contains(line, "Free blocks:"), strings.Contains(line, "Free inodes:"):
			group.Set(strings.ToLower(strings.TrimSpace(key)), Strings(strings.Split(value, ", ")))
		default:
			extra, _ := group.Value("extra").(*List)
			extra.Append(strings.TrimSpace(line))
		}
	}
	return NewMap("attributes", attributes, "blocks", blocks)
}
