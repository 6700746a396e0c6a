// State module ini: options and sections of files in the layout of INI files.
package main

import "context"

func iniStates() Module {
	return Module{
		Doc:     "Options and sections of INI files.",
		Virtual: needsFunction("ini.set_option", ""),
		Funcs: Funcs{
			"options_present":  {run: iniStateOptionsPresent, doc: "The file has the options: {section: {option: value}}; strict removes all others."},
			"options_absent":   {run: iniStateOptionsAbsent, doc: "The file does not have the options: {section: [option]}."},
			"sections_present": {run: iniStateSectionsPresent, doc: "The file has the sections."},
			"sections_absent":  {run: iniStateSectionsAbsent, doc: "The file does not have the sections."},
		},
	}
}

type iniStateArgs struct {
	Name      string
	Sections  any `def:"None"`
	Separator any `def:"="`
	Encoding  any `def:"None"`
}

// iniFailed makes what a file says about itself, or its absence, a return.
func iniFailed(ret *Map, err error) (any, error) {
	if k := asModuleError(err).Kind; k == ErrType || k == ErrInvocation {
		return nil, err
	}
	return stateSay(ret, false, "%s", errText(err))
}

// iniWork is one options_present on its way.
type iniWork struct {
	name      string
	kw        *Map // what all functions take
	noSpaces  any
	test      bool
	text      string // of a dry run
	result    any
	changes   *Map
	have      *Map
	topLevel  *Map
	inSection *Map
}

func newIniWork(a iniStateArgs) *iniWork {
	return &iniWork{name: a.Name, kw: NewMap("separator", a.Separator, "encoding", a.Encoding), result: true}
}

func (w *iniWork) dry(text string, changes bool) {
	w.text += text + "\n"
	if changes {
		w.result = nil
	}
}

func (w *iniWork) run(ctx context.Context, c *Call, fun string, more ...any) (*Map, error) {
	kw := NewMap("file_name", w.name)
	kw.Merge(NewMap(more...))
	kw.Merge(w.kw)
	v, err := c.RunKw(ctx, fun, nil, kw)
	if err != nil {
		return nil, err
	}
	m, _ := v.(*Map)
	return m, nil
}

func iniStateOptionsPresent(ctx context.Context, c *Call, a struct {
	Name      string
	Sections  *Map `def:"None"`
	Separator any  `def:"="`
	Strict    any  `def:"False"`
	Encoding  any  `def:"None"`
	NoSpaces  any  `def:"False"`
}) (any, error) {
	ret := stateReturn(a.Name, true, "No anomaly detected")
	w := &iniWork{name: a.Name, kw: NewMap("separator", a.Separator, "encoding", a.Encoding), noSpaces: a.NoSpaces, test: c.Testing(),
		result: true, changes: NewMap(), topLevel: NewMap(), inSection: NewMap()}
	var err error
	if a.Sections.Len() > 0 {
		err = w.options(ctx, c, a.Sections, Truth(a.Strict))
	} else if !w.test {
		var m *Map
		if m, err = w.run(ctx, c, "ini.set_option", "sections", nil, "no_spaces", a.NoSpaces); err == nil {
			w.changes.Merge(m)
		}
	}
	if err != nil {
		return iniFailed(ret, err)
	}
	if w.test {
		ret.Set("comment", w.text)
		ret.Set("result", w.result)
	}
	if e, ok := w.changes.Get("error"); ok {
		return stateSay(ret, false, "Errors encountered. %s", Str(e))
	}
	for k, v := range w.changes.All() {
		if Truth(v) {
			ret.Set("comment", "Changes take effect")
			ret.Map("changes").Set(k, v)
		}
	}
	return ret, nil
}

func (w *iniWork) options(ctx context.Context, c *Call, sections *Map, strict bool) error {
	top, bodies := NewMap(), NewMap()
	for k, v := range sections.All() {
		if m, ok := v.(*Map); ok {
			bodies.Set(k, m)
		} else {
			top.Set(k, v)
		}
	}
	have, err := w.run(ctx, c, "ini.get_ini")
	if err != nil {
		return err
	}
	w.have = have
	for k, v := range have.All() {
		if _, ok := v.(*Map); ok {
			w.inSection.Set(k, v)
		} else {
			w.topLevel.Set(k, v)
		}
	}
	if w.test {
		for k, v := range top.All() {
			if old, ok := w.topLevel.Get(k); ok && Str(old) == Str(v) {
				w.dry("Unchanged key "+Str(k)+".", false)
			} else {
				w.dry("Changed key "+Str(k)+".", true)
			}
		}
	} else {
		m, err := w.run(ctx, c, "ini.set_option", "sections", top, "no_spaces", w.noSpaces)
		if err != nil {
			return err
		}
		w.changes.Merge(m)
	}
	if strict {
		if err := w.strict(ctx, c, top, bodies); err != nil {
			return err
		}
	}
	for k := range bodies.All() {
		if err := w.section(ctx, c, k, bodies.Map(k), strict); err != nil {
			return err
		}
	}
	return nil
}

// strict removes options outside of sections, and sections, that are not named.
func (w *iniWork) strict(ctx context.Context, c *Call, top, bodies *Map) error {
	for k, old := range w.topLevel.All() {
		if top.Has(k) {
			continue
		}
		if w.test {
			w.dry("Removed key "+Str(k)+".", true)
			continue
		}
		if _, err := w.run(ctx, c, "ini.remove_option", "section", nil, "option", k); err != nil {
			return err
		}
		w.changes.Set(k, NewMap("before", old, "after", nil))
	}
	for k, old := range w.inSection.All() {
		if bodies.Has(k) {
			continue
		}
		if w.test {
			w.dry("Removed section "+Str(k)+".", true)
			continue
		}
		if _, err := w.run(ctx, c, "ini.remove_section", "section", k); err != nil {
			return err
		}
		w.changes.Set(k, NewMap("before", old, "after", nil))
	}
	return nil
}

func (w *iniWork) section(ctx context.Context, c *Call, name any, body *Map, strict bool) error {
	where := ""
	if Truth(name) {
		where = " in section " + Str(name)
	}
	changes := NewMap()
	old := w.inSection.Map(name)
	if strict {
		for k, v := range old.All() {
			if body.Has(k) {
				continue
			}
			if w.test {
				w.dry("Deleted key "+Str(k)+where+".", true)
				continue
			}
			if _, err := w.run(ctx, c, "ini.remove_option", "section", name, "option", k); err != nil {
				return err
			}
			changes.Set(k, NewMap("before", v, "after", nil))
		}
	}
	if w.test {
		for k, v := range body.All() {
			if was, ok := old.Get(k); ok && Str(was) == Str(v) {
				w.dry("Unchanged key "+Str(k)+where+".", false)
			} else {
				w.dry("Changed key "+Str(k)+where+".", true)
			}
		}
		return nil
	}
	m, err := w.run(ctx, c, "ini.set_option", "sections", NewMap(name, body), "no_spaces", w.noSpaces)
	if err != nil {
		return err
	}
	if e, ok := m.Get("error"); ok {
		w.changes.Set("error", e)
	}
	if made := m.Map(name); made != nil {
		changes.Merge(made)
	}
	if changes.Len() > 0 {
		w.changes.Set(name, changes)
	}
	return nil
}

func iniStateOptionsAbsent(ctx context.Context, c *Call, a iniStateArgs) (any, error) {
	ret := stateReturn(a.Name, true, "No anomaly detected")
	w := newIniWork(a)
	sections, _ := a.Sections.(*Map)
	if c.Testing() {
		for section, v := range sections.All() {
			where := ""
			if Truth(section) {
				where = " in section " + Str(section)
			}
			keys, ok := v.(*List)
			if !ok {
				kw := w.kw.Clone()
				kw.Merge(NewMap("file_name", a.Name, "section", nil, "option", section))
				have, err := c.RunKw(ctx, "ini.get_option", nil, kw)
				if err != nil {
					return iniFailed(ret, err)
				}
				if Truth(have) {
					w.dry("Deleted key "+Str(section)+".", true)
				} else {
					w.dry("Key "+Str(section)+" does not exist.", false)
				}
				continue
			}
			have, err := w.run(ctx, c, "ini.get_section", "section", section)
			if err != nil {
				return iniFailed(ret, err)
			}
			for _, k := range keys.Items {
				if Truth(have.Value(k)) {
					w.dry("Deleted key "+Str(k)+where+".", true)
				} else {
					w.dry("Key "+Str(k)+where+" does not exist.", false)
				}
			}
		}
		return iniDry(ret, w)
	}
	for section, v := range sections.All() {
		keys, isList := v.(*List)
		names := keys.items()
		if !isList {
			if names, _ = spread(v); len(names) == 0 {
				continue
			}
		}
		for _, k := range names {
			kw := w.kw.Clone()
			kw.Merge(NewMap("file_name", a.Name, "section", section, "option", k))
			old, err := c.RunKw(ctx, "ini.remove_option", nil, kw)
			if err != nil {
				return iniFailed(ret, err)
			}
			if !Truth(old) {
				continue
			}
			changes := ret.Map("changes")
			if !isList {
				changes.Set(section, old)
			} else {
				if changes.Map(section) == nil {
					changes.Set(section, NewMap())
				}
				changes.Map(section).Set(k, old)
			}
			ret.Set("comment", "Changes take effect")
		}
	}
	return ret, nil
}

func iniDry(ret *Map, w *iniWork) (any, error) {
	if w.text == "" {
		w.text = "No changes detected."
	}
	return stateSay(ret, w.result, "%s", w.text)
}

// drySections tells of every section what would become of it.
func (w *iniWork) drySections(ctx context.Context, c *Call, ret *Map, sections any, tell func(s string, there bool)) (any, error) {
	have, err := w.run(ctx, c, "ini.get_ini")
	if err != nil {
		return iniFailed(ret, err)
	}
	for _, s := range iniSections(sections) {
		tell(Str(s), have.Has(s))
	}
	return iniDry(ret, w)
}

// iniSections are the names of sections, from a list or a mapping.
func iniSections(v any) []any {
	if m, ok := v.(*Map); ok {
		return m.Keys()
	}
	return toItems(v)
}

func iniStateSectionsPresent(ctx context.Context, c *Call, a iniStateArgs) (any, error) {
	ret := stateReturn(a.Name, true, "No anomaly detected")
	w := newIniWork(a)
	if c.Testing() {
		return w.drySections(ctx, c, ret, a.Sections, func(s string, there bool) {
			if there {
				w.dry("Section unchanged "+s+".", false)
			} else {
				w.dry("Created new section "+s+".", true)
			}
		})
	}
	wanted := NewMap()
	for _, s := range iniSections(a.Sections) {
		wanted.Set(s, NewMap())
	}
	changes, err := w.run(ctx, c, "ini.set_option", "sections", wanted)
	if err != nil {
		return iniFailed(ret, err)
	}
	if e, ok := changes.Get("error"); ok {
		return stateSay(ret, false, "Errors encountered %s", Str(e))
	}
	ret.Set("changes", mapOrNew(changes))
	return stateSay(ret, true, "Changes take effect")
}

func iniStateSectionsAbsent(ctx context.Context, c *Call, a iniStateArgs) (any, error) {
	ret := stateReturn(a.Name, true, "No anomaly detected")
	w := newIniWork(a)
	if c.Testing() {
		return w.drySections(ctx, c, ret, a.Sections, func(s string, there bool) {
			if there {
				w.dry("Deleted section "+s+".", true)
			} else {
				w.dry("Section "+s+" does not exist.", false)
			}
		})
	}
	for _, s := range iniSections(a.Sections) {
		old, err := w.run(ctx, c, "ini.remove_section", "section", s)
		if err != nil {
			return iniFailed(ret, err)
		}
		if old.Len() > 0 {
			ret.Map("changes").Set(s, old)
			ret.Set("comment", "Changes take effect")
		}
	}
	return ret, nil
}
