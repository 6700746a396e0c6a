// What state modules share: calls of execution functions with the type that a
// state wants, and the words of a return.
//
// An execution function that gives another type than expected gives the zero
// value here: a state then reports that it could not do its work, where Python
// would have ended in an exception.
package main

import (
	"context"
	"fmt"
	"strings"
)

// stateSay sets result and comment of a return and ends the state with it.
func stateSay(ret *Map, result any, format string, a ...any) (any, error) {
	ret.Set("result", result)
	ret.Set("comment", fmt.Sprintf(format, a...))
	return ret, nil
}

// stateStep is a step of a state: it ends the state with its return, which is
// nil while there is more to do.
type stateStep func(context.Context, *Call) (any, error)

// runSteps takes the steps of a state up to the one that ends it.
func runSteps(ctx context.Context, c *Call, steps ...stateStep) (any, error) {
	for _, step := range steps {
		if end, err := step(ctx, c); end != nil || err != nil {
			return end, err
		}
	}
	return nil, nil
}

// runMap calls a function that returns a mapping.
func runMap(ctx context.Context, c *Call, name string, args ...any) (*Map, error) {
	v, err := c.Run(ctx, name, args...)
	if err != nil {
		return nil, err
	}
	m, _ := v.(*Map)
	return m, nil
}

// runItems calls a function that returns a list.
func runItems(ctx context.Context, c *Call, name string, args ...any) ([]any, error) {
	v, err := c.Run(ctx, name, args...)
	if err != nil {
		return nil, err
	}
	return toItems(v), nil
}

// runTruth calls a function and says whether what it returns is true.
func runTruth(ctx context.Context, c *Call, name string, args ...any) (bool, error) {
	v, err := c.Run(ctx, name, args...)
	return Truth(v), err
}

// runString calls a function that returns a text; None is "".
func runString(ctx context.Context, c *Call, name string, args ...any) (string, error) {
	v, err := c.Run(ctx, name, args...)
	if err != nil || v == nil {
		return "", err
	}
	return Str(v), nil
}

// addComment puts a line below the comment that is there.
func addComment(ret *Map, line string) {
	if have := ret.Str("comment"); have != "" {
		line = strings.TrimRight(have, " \t\r\n") + "\n" + line
	}
	ret.Set("comment", line)
}

// hasItem says whether a list has an equal item.
func hasItem(items []any, v any) bool {
	for _, item := range items {
		if Equal(item, v) {
			return true
		}
	}
	return false
}

// joinTexts joins values as their texts.
func joinTexts(items []any, sep string) string {
	out := make([]string, len(items))
	for i, item := range items {
		out[i] = Str(item)
	}
	return strings.Join(out, sep)
}

// uniqueItems leaves out what is there already.
func uniqueItems(items ...any) []any {
	var out []any
	for _, item := range items {
		if !hasItem(out, item) {
			out = append(out, item)
		}
	}
	return out
}

// needsFunction makes the Virtual of a state module that has no use without an
// execution function.
func needsFunction(fun, reason string) func(context.Context, *Call) (bool, string) {
	return func(ctx context.Context, c *Call) (bool, string) {
		return c.Has(ctx, fun), reason
	}
}

// oldNew is how most changes are shown.
func oldNew(old, changed any) *Map { return NewMap("old", old, "new", changed) }

// mapOrNew is m, and a fresh mapping for nil.
func mapOrNew(m *Map) *Map {
	if m == nil {
		return NewMap()
	}
	return m
}

// isSaltError says whether an error is one that states catch: a failed command,
// a wrong call or a missing program.
func isSaltError(err error) bool {
	switch asModuleError(err).Kind {
	case ErrExecution, ErrInvocation, ErrCommandNotFound:
		return true
	}
	return false
}
