// Tests of the modules acl, quota and extfs, with what their tools write.
package main

import "testing"

func TestParseFacl(t *testing.T) {
	got := parseFacl(`# file: /tmp/d
# owner: root
# group: staff
# flags: -s-
user::rwx
user:ann:r-x	#effective:r--
group::r-x
mask::r--
other::---
default:user::rwx
default:other::r--

`)
	perm := func(r, w, x bool, octal int64) *Map {
		return NewMap("permissions", NewMap("read", r, "write", w, "execute", x), "octal", octal)
	}
	want := NewMap("/tmp/d", NewMap(
		"comment", NewMap("file", "/tmp/d", "owner", "root", "group", "staff", "flags", "-s-"),
		"user", NewList(NewMap("root", perm(true, true, true, 7)), NewMap("ann", perm(true, false, true, 5))),
		"group", NewList(NewMap("staff", perm(true, false, true, 5))),
		"sgid", true,
		"mask", NewList(NewMap("", perm(true, false, false, 4))),
		"other", NewList(NewMap("", perm(false, false, false, 0))),
		"defaults", NewMap("user", NewList(NewMap("root", perm(true, true, true, 7))), "other", NewList(NewMap("", perm(true, false, false, 4))))))
	if !Equal(got, want) {
		t.Errorf("got  %s\nwant %s", Repr(got), Repr(want))
	}
	for kind, want := range map[string]string{"user": "u", "default:group": "d:g", "d:m": "d:m", "other": ""} {
		if got := aclEntryKind(kind); got != want {
			t.Errorf("%s is %q, want %q", kind, got, want)
		}
	}
}

func TestParseQuota(t *testing.T) {
	got := parseRepquota(`*** Report for user quotas on device /dev/sdb1
Block grace time: 7days; Inode grace time: 6days
                        Block limits                File limits
User            used    soft    hard  grace    used  soft  hard  grace
----------------------------------------------------------------------
root      --      20       0       0      0       2     0     0      0
larry     +-    1200    1000    2000  12345      10     0     0      0

Statistics:
Total blocks: 7
`, "Users")
	if got.Map("Users").Map("larry").Str("block-soft-limit") != "1000" || got.Map("Users").Map("root").Str("file-used") != "2" ||
		!Equal(got.Value("Inode Grace Time"), NewList("6days")) {
		t.Errorf("got %s", Repr(got))
	}
	mode := parseQuotaMode("group quota on /data (/dev/sdb1) is on\nuser quota on /data (/dev/sdb1) is off\n", "/data")
	if want := NewMap("/data", NewMap("device", "/dev/sdb1", "group", "on", "user", "off")); !Equal(mode, want) {
		t.Errorf("mode %s", Repr(mode))
	}
	if mode := parseQuotaMode("quotaon: Cannot find /x", "/x"); !Equal(mode, NewMap("/x", "Not found")) {
		t.Errorf("mode %s", Repr(mode))
	}
}

func TestParseDumpe2fs(t *testing.T) {
	got := parseDumpe2fs(`dumpe2fs 1.47.0 (5-Feb-2023)
Filesystem volume name:   data
Filesystem features:      has_journal ext_attr
Group descriptor size:    64

Group 0: (Blocks 0-32767) csum 0x1 [ITABLE_ZEROED]
  Primary superblock at 0
  Free blocks: 10-20, 30
  Free inodes: 12
`)
	want := NewMap("attributes", NewMap("Filesystem volume name", "data", "Filesystem features", NewList("has_journal", "ext_attr"), "Group descriptor size", "64"),
		"blocks", NewMap("Group 0", NewMap("group", "0", "range", "0-32767", "extra", NewList("Primary superblock at 0"), "free blocks", NewList("10-20", "30"), "free inodes", NewList("12"))))
	if !Equal(got, want) {
		t.Errorf("got  %s\nwant %s", Repr(got), Repr(want))
	}
	words := extfsOptions(NewMap("label", "x", "journal", true, "nosuch", "y"), map[string]string{"label": "L", "journal": "j"})
	if !Equal(Strings(words), NewList("-L", "x", "-j")) {
		t.Errorf("options %v", words)
	}
}
