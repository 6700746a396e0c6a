// Versions: Halite's own, stamped by the build, and the Salt release whose
// behaviour it keeps, which is what peers, grains and --version show.
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// version is Halite's own. The build sets it (-ldflags "-X main.version=…");
// nothing else writes it.
var version = "unreleased"

// saltVersion is the release that Halite behaves like. Scripts, formulas and
// masters compare it, so it is a version that exists.
const (
	saltVersion  = "3006.29"
	saltCodename = "Sulfur"
)

// saltVersionInfo is the grain saltversioninfo.
func saltVersionInfo() *List { return NewList(int64(3006), int64(29)) }

// versionLine is what --version prints for the program of that name.
func versionLine(prog string) string {
	return fmt.Sprintf("%s %s (%s)\n", prog, saltVersion, saltCodename)
}

// versionsInformation is what the versions report shows, section by section.
func versionsInformation() *Map {
	deps := NewMap()
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			deps.Set(d.Path, strings.TrimPrefix(d.Version, "v"))
		}
	}
	system := NewMap("machine", runtime.GOARCH, "system", runtime.GOOS)
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		system.Set("release", strings.TrimSpace(string(release)))
	}
	return NewMap(
		"Salt Version", NewMap("Salt", saltVersion, "Halite", version),
		"Go Version", NewMap("Go", strings.TrimPrefix(runtime.Version(), "go")),
		"Dependency Versions", deps,
		"System Versions", system,
	)
}

// versionsReport is the text of --versions-report: the names of each section
// set right to one column.
func versionsReport() string {
	info := versionsInformation()
	width := 0
	for _, section := range info.All() {
		for name := range section.(*Map).All() {
			width = max(width, len(name.(string)))
		}
	}
	var b strings.Builder
	for title, section := range info.All() {
		fmt.Fprintf(&b, "%s:\n", title)
		for name, value := range section.(*Map).All() {
			fmt.Fprintf(&b, "%*s: %s\n", width, name, value)
		}
		b.WriteString(" \n")
	}
	return b.String()
}
