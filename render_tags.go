// Salt's tags for templates: load_yaml, load_json, load_text, import_yaml,
// import_json, import_text, profile; and its global functions and tests.
package main

import "strings"

func saltTags() map[string]func(p *jinjaParser) jinjaStmt {
	tags := map[string]func(p *jinjaParser) jinjaStmt{"profile": parseProfile}
	for _, format := range []string{"yaml", "json", "text"} {
		tags["load_"+format] = parseLoad
		tags["import_"+format] = parseImportData
	}
	return tags
}

// parseLoad makes {% load_x as name %}…{% endload %} a macro whose text goes
// through the filter of the tag's name.
func parseLoad(p *jinjaParser) jinjaStmt {
	filter := p.cur.value
	pos := p.begin()
	p.expect("name:as")
	target := p.assignTarget(nil, false)
	macro := &jMacro{jinjaPos: pos, name: "_" + p.free()}
	macro.body = p.statements([]string{"name:endload"}, true)
	finishMacro(macro)
	call := &jCall{jinjaPos: pos, fn: &jName{pos, macro.name}}
	return &jBody{pos, []jinjaStmt{macro, &jSet{pos, target, &jFilter{jinjaPos: pos, obj: call, name: filter}}}}
}

// parseImportData makes {% import_x 'file' as name %} an import whose text goes
// through the loading filter.
func parseImportData(p *jinjaParser) jinjaStmt {
	_, format, _ := strings.Cut(p.cur.value, "_")
	imp := p.parseImport()
	pos := imp.jinjaPos
	name := &jName{pos, imp.target}
	return &jBody{pos, []jinjaStmt{imp, &jSet{pos, name, &jFilter{jinjaPos: pos, obj: name, name: "load_" + format}}}}
}

// parseProfile runs what is enclosed; the times are for logs that Halite does
// not keep.
func parseProfile(p *jinjaParser) jinjaStmt {
	pos := p.begin()
	p.expect("name:as")
	label := p.parseExpression(true)
	body := p.statements([]string{"name:endprofile"}, true)
	return &jBody{pos, append([]jinjaStmt{&jExprStmt{pos, label}}, body...)}
}

// saltGlobals are Salt's global functions.
func saltGlobals() map[string]any {
	return map[string]any{
		"raise": jinjaFunction("jinja_raise", "msg", func(r *JinjaRun, _ any, a []any, _ JinjaKwargs) (any, error) {
			s, err := r.str(a[0])
			if err != nil {
				return nil, err
			}
			return nil, jinjaErr("salt.exceptions.TemplateError", "%s", s)
		}),
		"odict": &JinjaFunc{Name: "collections.OrderedDict", Kind: "type", Fn: func(r *JinjaRun, args []any, kw JinjaKwargs) (any, error) {
			if len(args) > 1 {
				return nil, jinjaTypeError("expected at most 1 argument, got %d", len(args))
			}
			m := NewMap().SetClass("OrderedDict")
			return m, r.updateMap(m, args, kw)
		}},
		"show_full_context": jinjaFunction("show_full_context", "", func(r *JinjaRun, _ any, _ []any, _ JinjaKwargs) (any, error) {
			return simpleTypes(r.All(), 0), nil
		}),
		"ifelse": jinjaFunction("ifelse", "*args, **kwargs", func(r *JinjaRun, _ any, a []any, kw JinjaKwargs) (any, error) {
			switch {
			case len(a)%2 == 0:
				return nil, jinjaErr("salt.exceptions.SaltException", "The ifelse function must have an odd number of arguments!")
			case len(a) == 1:
				return a[0], nil
			}
			return callSalt(r, r.Data.(*renderRun).req, "match.ifelse", a, kw)
		}),
	}
}

// simpleTypes replaces what is no plain data by its repr.
func simpleTypes(v any, depth int) any {
	if depth > maxReprDepth {
		return "..."
	}
	switch v := v.(type) {
	case nil, bool, int64, float64, string:
		return v
	case *List:
		l := &List{}
		for _, item := range v.Items {
			l.Append(simpleTypes(item, depth+1))
		}
		return l
	case Tuple:
		l := &List{}
		for _, item := range v {
			l.Append(simpleTypes(item, depth+1))
		}
		return l
	case *Map:
		m := &Map{}
		for k, item := range v.All() {
			switch k.(type) {
			case nil, bool, int64, float64, string:
			default:
				k = Repr(k)
			}
			m.Set(k, simpleTypes(item, depth+1))
		}
		return m
	case Markup:
		return string(v)
	}
	if isNumber(v) {
		return v
	}
	return Repr(v)
}

// saltTests are Salt's tests.
func (rd *Renderer) saltTests() map[string]*JinjaFilter {
	return map[string]*JinjaFilter{
		"match": jinjaEntry('p', 1, "test_match", "rgx, ignorecase=False, multiline=False", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			m, err := rd.regexp(r, v, a[0], a[1], a[2], (*PyRegexp).Match)
			return m != nil, err
		}),
		"equalto": jinjaFilter("test_equalto", "other", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			return r.equal(v, a[0])
		}),
		"list": jinjaFilter("is_list", "", func(_ *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			_, ok := v.(*List)
			return ok, nil
		}),
	}
}
