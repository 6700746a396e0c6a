// State module test: states that only pretend.
package main

import (
	"context"
	"math/rand/v2"
	"strings"
)

func testStates() Module {
	return Module{
		Doc: "States that change nothing: placeholders, and pretended results.",
		Funcs: Funcs{
			"nop":                     {run: testStateNop, doc: "Succeed without changes."},
			"succeed_without_changes": {run: testStateSucceed, doc: "Succeed without changes."},
			"fail_without_changes":    {run: testStateFail, doc: "Fail without changes."},
			"succeed_with_changes":    {run: testStateSucceedChanges, doc: "Succeed and report a pretended change."},
			"fail_with_changes":       {run: testStateFailChanges, doc: "Fail and report a pretended change."},
			"configurable_test_state": {run: testStateConfigurable, doc: "Give the wanted result, with or without changes. changes and result are True, False or Random."},
			"show_notification":       {run: testStateNotification, doc: "Put a text into the report."},
			"mod_watch":               {run: testStateWatch, doc: "Report which watched states had changes."},
			"check_pillar":            {run: testStateCheckPillar, doc: "Fail unless pillar keys are there and have the wanted types."},
		},
	}
}

type testStateArgs struct {
	Name   string
	Kwargs *Map `arg:"**kwargs"`
}

func (a testStateArgs) comment(def string) any {
	if v, ok := a.Kwargs.Get("comment"); ok {
		return v
	}
	return def
}

func pretendedChange() *Map {
	return NewMap("testing", NewMap("old", "Unchanged", "new", "Something pretended to change"))
}

func testStateNop(_ context.Context, _ *Call, a testStateArgs) (any, error) {
	return stateReturn(a.Name, true, "Success!"), nil
}

func testStateSucceed(_ context.Context, _ *Call, a testStateArgs) (any, error) {
	return NewMap("name", a.Name, "changes", NewMap(), "result", true, "comment", a.comment("Success!")), nil
}

func testStateFail(_ context.Context, c *Call, a testStateArgs) (any, error) {
	comment := a.comment("Failure!")
	if c.Testing() {
		comment = "If we weren't testing, this would be a failure!"
	}
	return NewMap("name", a.Name, "changes", NewMap(), "result", false, "comment", comment), nil
}

func testStateSucceedChanges(_ context.Context, c *Call, a testStateArgs) (any, error) {
	ret := NewMap("name", a.Name, "changes", pretendedChange(), "result", true, "comment", a.comment("Success!"))
	if c.Testing() {
		ret.Set("result", nil)
		ret.Set("comment", "If we weren't testing, this would be successful with changes")
	}
	return ret, nil
}

func testStateFailChanges(_ context.Context, c *Call, a testStateArgs) (any, error) {
	ret := NewMap("name", a.Name, "changes", pretendedChange(), "result", false, "comment", a.comment("Failure!"))
	if c.Testing() {
		ret.Set("result", nil)
		ret.Set("comment", "If we weren't testing, this would be failed with changes")
	}
	return ret, nil
}

func testStateConfigurable(_ context.Context, c *Call, a struct {
	Name     string
	Changes  any `def:"True"`
	Result   any `def:"True"`
	Comment  any `def:"''"`
	Warnings any `def:"None"`
}) (any, error) {
	ret := NewMap("name", a.Name, "changes", NewMap(), "result", false, "comment", a.Comment)
	switch v := a.Changes.(type) {
	case bool:
		if v {
			ret.Set("changes", pretendedChange())
		}
	default:
		if !strings.EqualFold(Str(v), "random") {
			return nil, InvocationErrorf("You have specified the state option 'changes' with invalid arguments. It must be either True, False, or 'Random'")
		}
		if rand.IntN(2) == 0 {
			ret.Set("changes", pretendedChange())
		}
	}
	switch v := a.Result.(type) {
	case bool:
		ret.Set("result", v)
	default:
		if !strings.EqualFold(Str(v), "random") {
			return nil, InvocationErrorf("You have specified the state option 'result' with invalid arguments. It must be either True, False, or 'Random'")
		}
		ret.Set("result", rand.IntN(2) == 0)
	}
	switch v := a.Warnings.(type) {
	case nil:
	case string:
		ret.Set("warnings", NewList(v))
	case *List:
		ret.Set("warnings", v)
	default:
		return nil, InvocationErrorf("warnings must be a text or a list of texts, not %s", Repr(v))
	}
	if c.Testing() {
		ret.Set("result", nil)
		if a.Changes == false {
			ret.Set("result", true)
		}
		if !Truth(a.Comment) {
			ret.Set("comment", "This is a test")
		}
	}
	return ret, nil
}

func testStateNotification(_ context.Context, _ *Call, a struct {
	Name   string
	Text   any  `def:"None"`
	Kwargs *Map `arg:"**kwargs"`
}) (any, error) {
	if !Truth(a.Text) {
		return nil, InvocationErrorf("Missing required argument text.")
	}
	return NewMap("name", a.Name, "changes", NewMap(), "result", true, "comment", a.Text), nil
}

func testStateWatch(_ context.Context, c *Call, a struct {
	Name   string
	Sfun   any  `def:"None"`
	Kwargs *Map `arg:"**kwargs"`
}) (any, error) {
	changed := NewList()
	if c.State != nil {
		for _, req := range toItems(c.State.Low.Map("__reqs__").Value("watch")) {
			low, _ := req.(*Map)
			if ret := c.State.Running.Map(lowTag(low)); ret != nil && Truth(ret.Value("changes")) {
				changed.Append(low.Str("state") + ": " + Str(low.Value("__id__")))
			}
		}
	}
	ret := NewMap("name", a.Name, "result", true, "comment", "Watch statement fired.",
		"changes", NewMap("Requisites with changes", changed))
	for _, key := range []string{"result", "comment", "changes"} {
		if v, ok := a.Kwargs.Get(key); ok {
			ret.Set(key, v)
		}
	}
	return ret, nil
}

func testStateCheckPillar(ctx context.Context, c *Call, a struct {
	Name       string
	Present    any  `def:"None"`
	Boolean    any  `def:"None"`
	Integer    any  `def:"None"`
	String     any  `def:"None"`
	Listing    any  `def:"None"`
	Dictionary any  `def:"None"`
	Verbose    bool `def:"False"`
}) (any, error) {
	checks := []struct {
		keys any
		kind string // as the report names it
		fits func(v any) bool
	}{
		{a.Present, "None", func(any) bool { return true }},
		{a.Boolean, "<class 'bool'>", func(v any) bool { _, ok := v.(bool); return ok }},
		{a.Integer, "<class 'int'>", func(v any) bool { return isNumber(v) && TypeName(v) != "float" }},
		{a.String, "(<class 'str'>,)", func(v any) bool { _, ok := v.(string); return ok }},
		{a.Listing, "<class 'list'>", func(v any) bool { _, ok := v.(*List); return ok }},
		{a.Dictionary, "<class 'dict'>", func(v any) bool { _, ok := v.(*Map); return ok }},
	}
	any1 := false
	for _, check := range checks {
		any1 = any1 || Truth(check.keys)
	}
	if !any1 {
		return nil, InvocationErrorf("Missing required argument text.")
	}
	ok := true
	failed, fine := NewMap(), NewMap()
	for _, check := range checks {
		if !Truth(check.keys) {
			continue
		}
		if _, isList := check.keys.(*List); !isList && TypeName(check.keys) != "str" {
			return nil, &ModuleError{Kind: ErrType}
		}
		for _, k := range toItems(check.keys) {
			v, err := c.Run(ctx, "pillar.get", k, nil)
			if err != nil {
				return nil, err
			}
			switch {
			case v == nil:
				failed.Set(k, "is missing.")
				ok = false
			case !check.fits(v):
				failed.Set(k, "is not "+check.kind+".")
				ok = false
			case a.Verbose:
				fine.Set(k, check.kind)
			}
		}
	}
	var b strings.Builder
	for k, what := range failed.All() {
		b.WriteString("Pillar key \"" + Str(k) + "\" " + Str(what) + "\n")
	}
	if fine.Len() > 0 {
		b.WriteString("Those keys passed the check:\n")
		for k, kind := range fine.All() {
			b.WriteString("- " + Str(k) + " (" + Str(kind) + ")\n")
		}
	}
	return stateReturn(a.Name, ok, b.String()), nil
}
