// Module match: target expressions as functions, answered on the minion.
package main

import (
	"context"
	"fmt"
)

func matchModule() Module {
	id := "\n\ntgt: the expression\nminion_id: match this id and not the own one"
	path := "\n\ntgt: the path and the value\ndelimiter: what separates them"
	return Module{
		Doc: "Target expressions, answered for this minion.",
		Funcs: Funcs{
			"compound":    {run: matchByID("compound"), doc: "Tell whether a compound expression means this minion." + id},
			"glob":        {run: matchByID("glob"), doc: "Tell whether a shell pattern fits the id." + id},
			"list":        {run: matchByID("list"), pyname: "list_", doc: "Tell whether the id is in a list with commas." + id},
			"pcre":        {run: matchByID("pcre"), doc: "Tell whether the id begins with a regular expression." + id},
			"grain":       {run: matchByPath("grain"), doc: "Match a grain with a shell pattern." + path},
			"grain_pcre":  {run: matchByPath("grain_pcre"), doc: "Match a grain with a regular expression." + path},
			"pillar":      {run: matchByPath("pillar"), doc: "Match a pillar value with a shell pattern." + path},
			"pillar_pcre": {run: matchByPath("pillar_pcre"), doc: "Match a pillar value with a regular expression." + path},
			"ipcidr":      {run: matchIPCIDR, doc: "Tell whether this minion has an address, or one in a network.\n\ntgt: the address or network"},
			"data":        {run: matchData, doc: "Match the minion's data store with a shell pattern.\n\ntgt: key:pattern"},
			"filter_by":   {run: matchFilterBy, doc: "Return the value of the first key that matches this minion.\n\nlookup: values by expression\ntgt_type: the kind of the expressions\nminion_id: match this id\nmerge: a mapping to merge into the value\ndefault: the key to use if none matches"},
			"search_by":   {run: matchSearchBy, doc: "List the keys of which an expression matches this minion.\n\nlookup: lists of expressions by key"},
			"ifelse":      {run: matchIfelse, doc: "Take expressions and values by turns and return the value of the first that matches, else the last argument."},
		},
	}
}

// matchSubject is this minion, under another id if one is given.
func matchSubject(c *Call, id any) Subject {
	s := Subject{ID: c.Opts.Str("id"), Grains: c.Grains, Pillar: c.Pillar, Nodegroups: c.Opts.Map("nodegroups")}
	if s.Grains == nil {
		s.Grains = NewMap()
	}
	if s.Pillar == nil {
		s.Pillar = NewMap()
	}
	if Truth(id) {
		s.ID = Str(id)
	}
	return s
}

// matchExpression answers False, with the reason in the log, for what is no
// expression.
func matchExpression(c *Call, kind string, expr any, delimiter string, s Subject) bool {
	t, err := ParseTarget(kind, expr, delimiter, s.Nodegroups)
	if err != nil {
		c.Log.Error(fmt.Sprintf("match.%s: %v", kind, err))
		return false
	}
	return t.Match(s)
}

type matchIDArgs struct {
	Tgt      any
	MinionId any `def:"None"`
}

func matchByID(kind string) func(context.Context, *Call, matchIDArgs) (any, error) {
	return func(_ context.Context, c *Call, a matchIDArgs) (any, error) {
		return matchExpression(c, kind, a.Tgt, "", matchSubject(c, a.MinionId)), nil
	}
}

type matchPathArgs struct {
	Tgt       any
	Delimiter string `def:"':'"`
}

func matchByPath(kind string) func(context.Context, *Call, matchPathArgs) (any, error) {
	return func(_ context.Context, c *Call, a matchPathArgs) (any, error) {
		return matchExpression(c, kind, a.Tgt, a.Delimiter, matchSubject(c, nil)), nil
	}
}

type matchTgtArgs struct {
	Tgt any
}

func matchIPCIDR(_ context.Context, c *Call, a matchTgtArgs) (any, error) {
	return matchExpression(c, "ipcidr", a.Tgt, "", matchSubject(c, nil)), nil
}

// matchData looks into what data.* keeps, through that module.
func matchData(ctx context.Context, c *Call, a matchTgtArgs) (any, error) {
	stored, err := c.Run(ctx, "data.load")
	if err != nil {
		return false, nil
	}
	return MatchPath(stored, Str(a.Tgt), "", PathGlob), nil
}

// matchAs runs the match function of a target type, as filter_by names it.
func matchAs(ctx context.Context, c *Call, kind, expr string, id any) (bool, error) {
	args := []any{expr}
	if Truth(id) {
		args = append(args, id)
	}
	v, err := c.Run(ctx, "match."+kind, args...)
	return Truth(v), err
}

type matchFilterByArgs struct {
	Lookup     *Map
	TgtType    string `def:"'compound'"`
	MinionId   any    `def:"None"`
	Merge      any    `def:"None"`
	MergeLists bool   `def:"False"`
	Default    any    `def:"'default'"`
}

func matchFilterBy(ctx context.Context, c *Call, a matchFilterByArgs) (any, error) {
	for k, v := range a.Lookup.All() {
		ok, err := matchAs(ctx, c, a.TgtType, Str(k), a.MinionId)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if !Truth(a.Merge) {
			return v, nil
		}
		merge, ok := a.Merge.(*Map)
		if !ok {
			return nil, OtherErrorf("SaltException", "filter_by merge argument must be a dictionary.")
		}
		base, ok := DeepCopy(v).(*Map)
		if !ok {
			return merge, nil
		}
		mergeInto(base, merge, a.MergeLists)
		return base, nil
	}
	return a.Lookup.Value(a.Default), nil
}

// mergeInto updates a mapping with another, all the way down.
func mergeInto(into, from *Map, lists bool) {
	for k, v := range from.All() {
		have, _ := into.Get(k)
		if a, ok := have.(*Map); ok {
			if b, ok := v.(*Map); ok {
				mergeInto(a, b, lists)
				continue
			}
		}
		if a, ok := have.(*List); ok && lists {
			if b, ok := v.(*List); ok {
				into.Set(k, NewList(append(append([]any{}, a.Items...), b.Items...)...))
				continue
			}
		}
		into.Set(k, DeepCopy(v))
	}
}

type matchSearchByArgs struct {
	Lookup   *Map
	TgtType  string `def:"'compound'"`
	MinionId any    `def:"None"`
}

func matchSearchBy(ctx context.Context, c *Call, a matchSearchByArgs) (any, error) {
	found := NewList()
	for k, v := range a.Lookup.All() {
		for _, expr := range toItems(v) {
			ok, err := matchAs(ctx, c, a.TgtType, Str(expr), a.MinionId)
			if err != nil {
				return nil, err
			}
			if ok {
				found.Append(k)
			}
		}
	}
	if found.Len() == 0 {
		return nil, nil
	}
	return found, nil
}

type matchIfelseArgs struct {
	Args   []any `arg:"*args"`
	Kwargs *Map  `arg:"**kwargs"`
}

func matchIfelse(ctx context.Context, c *Call, a matchIfelseArgs) (any, error) {
	if len(a.Args)%2 == 0 {
		return nil, OtherErrorf("SaltException", "The ifelse function must have an odd number of arguments!")
	}
	last := a.Args[len(a.Args)-1]
	kind := a.Kwargs.Str("tgt_type")
	if kind == "" {
		kind = "compound"
	}
	for i := 0; i+1 < len(a.Args); i += 2 {
		ok := a.Args[i] == true
		if _, isBool := a.Args[i].(bool); !isBool {
			var err error
			if ok, err = matchAs(ctx, c, kind, Str(a.Args[i]), a.Kwargs.Value("minion_id")); err != nil {
				return nil, err
			}
		}
		if !ok {
			continue
		}
		value := a.Args[i+1]
		if merge, isMap := a.Kwargs.Value("merge").(*Map); isMap {
			base, isMap := DeepCopy(value).(*Map)
			if !isMap {
				return merge, nil
			}
			mergeInto(base, merge, Truth(a.Kwargs.Value("merge_lists")))
			value = base
		}
		return value, nil
	}
	return last, nil
}
