// State module pkg: packages that stay at their versions.
package main

import (
	"context"
	"regexp"
	"strings"
	"sync"
)

var lockLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(.+)-(\d+):(.*)\.\*`) })

// pkgLocks lists the packages that are held; versions says whether the package
// manager holds at a version. noLocks is the comment where it cannot hold.
func pkgLocks(ctx context.Context, c *Call) (locks *Map, versions bool, noLocks string, err error) {
	locks = NewMap()
	switch {
	case c.Has(ctx, "pkg.list_locks"):
		m, err := runMap(ctx, c, "pkg.list_locks")
		return mapOrNew(m), true, "", err
	case c.Has(ctx, "pkg.list_holds"):
		v, err := c.RunKw(ctx, "pkg.list_holds", nil, NewMap("full", true))
		if err != nil {
			return nil, false, "", err
		}
		for _, item := range toItems(v) {
			m := lockLine().FindStringSubmatch(Str(item))
			if m == nil {
				locks.Set(item, NewMap())
				continue
			}
			epoch := m[2] + ":"
			if m[2] == "0" {
				epoch = ""
			}
			locks.Set(m[1], NewMap("version", epoch+m[3]))
		}
	case c.Has(ctx, "pkg.get_selections"):
		v, err := c.RunKw(ctx, "pkg.get_selections", nil, NewMap("state", "hold"))
		if err != nil {
			return nil, false, "", err
		}
		m, _ := v.(*Map)
		for _, item := range toItems(m.Value("hold")) {
			locks.Set(item, NewMap())
		}
	default:
		return nil, false, "No any function to get the list of held packages available.\nCheck if the package manager supports package locking.", nil
	}
	return locks, false, "", nil
}

// unhold releases one package and reports.
func unhold(ctx context.Context, c *Call, ret *Map, name string, pkg any) (string, error) {
	v, err := c.RunKw(ctx, "pkg.unhold", nil, NewMap("name", name, "pkgs", NewList(pkg)))
	if err != nil {
		return "", err
	}
	m, _ := v.(*Map)
	one := m.Map(pkg)
	if !Truth(one.Value("result")) {
		ret.Set("result", false)
	}
	ret.Map("changes").Merge(m)
	if t := one.Value("comment"); Truth(t) {
		return Str(t), nil
	}
	return "", nil
}

func pkgStateHeld(ctx context.Context, c *Call, a struct {
	Name    string
	Version any  `def:"None"`
	Pkgs    any  `def:"None"`
	Replace any  `def:"False"`
	Kwargs  *Map `arg:"**kwargs"`
}) (any, error) {
	if l, ok := a.Pkgs.(*List); ok && l.Len() == 0 && !Truth(a.Replace) {
		return pkgRet(a.Name, true, "No packages to be held provided"), nil
	}
	if a.Name != "" && a.Pkgs == nil {
		a.Pkgs = NewList(a.Name)
		if Truth(a.Version) {
			a.Pkgs = NewList(NewMap(a.Name, a.Version))
		}
	}
	locks, versions, noLocks, err := pkgLocks(ctx, c)
	if err != nil {
		return nil, err
	}
	if noLocks != "" {
		return pkgRet(a.Name, false, noLocks), nil
	}
	if !c.Has(ctx, "pkg.hold") {
		return pkgRet(a.Name, false, "`hold` function is not implemented for the package manager."), nil
	}
	ret := pkgRet(a.Name, true, "")
	changes := ret.Map("changes")
	var comments []string
	held := NewMap()
	for _, item := range toItems(a.Pkgs) {
		name, version := item, any(nil)
		if m, ok := item.(*Map); ok && m.Len() > 0 {
			name, version = m.At(0)
		}
		lock := locks.Map(name)
		var at any
		if v, ok := lock.Get("version"); ok {
			at = strings.TrimLeft(Str(v), "= ")
		}
		held.Set(name, true)
		if locks.Has(name) && (!versions || Equal(at, version)) {
			continue
		}
		if c.Testing() {
			text := "The following package would be held: " + Str(name)
			if locks.Has(name) {
				text = "The following package's hold rule would be updated: " + Str(name)
			}
			if Truth(version) {
				text += " (version = " + Str(version) + ")"
			}
			comments = append(comments, text)
			continue
		}
		released := false
		if locks.Has(name) {
			v, err := c.RunKw(ctx, "pkg.unhold", nil, NewMap("name", a.Name, "pkgs", NewList(name)))
			if err != nil {
				return nil, err
			}
			m, _ := v.(*Map)
			released = Truth(m.Map(name).Value("result"))
		}
		v, err := c.RunKw(ctx, "pkg.hold", nil, NewMap("name", a.Name, "pkgs", NewList(item)))
		if err != nil {
			return nil, err
		}
		m, _ := v.(*Map)
		switch ok := Truth(m.Map(name).Value("result")); {
		case ok && released:
			comments = append(comments, "Package "+Str(name)+" was updated with hold rule")
		case ok:
			comments = append(comments, "Package "+Str(name)+" is now being held")
		default:
			ret.Set("result", false)
			comments = append(comments, "Package "+Str(name)+" was not held")
		}
		changes.Merge(m)
	}
	if Truth(a.Replace) {
		for name := range locks.All() {
			if kind, ok := locks.Map(name).Get("type"); ok && kind != "package" || held.Has(name) {
				continue
			}
			text := "The following package would be unheld: " + Str(name)
			if !c.Testing() {
				if text, err = unhold(ctx, c, ret, a.Name, name); err != nil {
					return nil, err
				}
			}
			if text != "" {
				comments = append(comments, text)
			}
		}
	}
	return holdReport(ret, comments), nil
}

func holdReport(ret *Map, comments []string) *Map {
	text := strings.Join(comments, "\n")
	if text == "" && ret.Map("changes").Len() == 0 {
		text = "No changes made"
	}
	ret.Set("comment", text)
	return ret
}

func pkgStateUnheld(ctx context.Context, c *Call, a struct {
	Name    string
	Version any  `def:"None"`
	Pkgs    any  `def:"None"`
	All     any  `def:"False"`
	Kwargs  *Map `arg:"**kwargs"`
}) (any, error) {
	if l, ok := a.Pkgs.(*List); ok && l.Len() == 0 && !Truth(a.All) {
		return pkgRet(a.Name, true, "No packages to be unheld provided"), nil
	}
	if a.Name != "" && a.Pkgs == nil {
		a.Pkgs = NewList(NewMap(a.Name, a.Version))
	}
	locks, versions, noLocks, err := pkgLocks(ctx, c)
	if err != nil {
		return nil, err
	}
	if noLocks != "" {
		return pkgRet(a.Name, false, noLocks), nil
	}
	wanted := NewMap()
	for _, item := range toItems(a.Pkgs) {
		if m, ok := item.(*Map); ok && m.Len() > 0 {
			wanted.Set(m.At(0))
		} else {
			wanted.Set(item, nil)
		}
	}
	ret := pkgRet(a.Name, true, "")
	var comments []string
	for name := range locks.All() {
		lock := locks.Map(name)
		if kind, ok := lock.Get("type"); ok && kind != "package" {
			continue
		}
		var at any
		if v, ok := lock.Get("version"); ok && versions {
			at = strings.TrimLeft(Str(v), "= ")
		}
		if !Truth(a.All) && (!wanted.Has(name) || Truth(at) && !Equal(at, wanted.Value(name))) {
			continue
		}
		text := "The following package would be unheld: " + Str(name)
		if Truth(wanted.Value(name)) {
			text += " (version = " + Str(at) + ")"
		}
		if !c.Testing() {
			if text, err = unhold(ctx, c, ret, a.Name, name); err != nil {
				return nil, err
			}
		}
		if text != "" {
			comments = append(comments, text)
		}
	}
	return holdReport(ret, comments), nil
}
