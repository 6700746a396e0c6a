// Slots: arguments that are computed right before a state runs,
// __slot__:salt:mod.fun(args, k=v).attr ~ tail.
package main

import (
	"context"
	"strings"
)

const slotMark = "__slot__:"

// formatSlots replaces slots in arguments, their mappings and their lists.
func (r *stateRun) formatSlots(ctx context.Context, kwargs *Map) error {
	var failed error
	value := func(v any) (any, bool) {
		s, ok := v.(string)
		if !ok || !strings.HasPrefix(s, slotMark) || failed != nil {
			return v, false
		}
		out, err := r.evalSlot(ctx, s)
		if err != nil {
			failed = err
		}
		return out, true
	}
	inMap := func(m *Map) {
		for i := 0; i < m.Len(); i++ {
			k, v := m.At(i)
			if out, ok := value(v); ok {
				m.Set(k, out)
			}
		}
	}
	for i := 0; i < kwargs.Len(); i++ {
		k, v := kwargs.At(i)
		switch v := v.(type) {
		case *Map:
			inMap(v)
		case *List:
			for n, item := range v.Items {
				if m, ok := item.(*Map); ok {
					inMap(m)
				} else if out, ok := value(item); ok {
					v.Items[n] = out
				}
			}
		case string:
			if out, ok := value(v); ok {
				kwargs.Set(k, out)
			}
		}
	}
	return failed
}

// evalSlot calls the function of a slot. A slot that cannot be read stays as it is.
func (r *stateRun) evalSlot(ctx context.Context, slot string) (any, error) {
	parts := strings.SplitN(slot, ":", 3)
	if len(parts) != 3 || parts[1] != "salt" {
		r.c.Log.Warn("Malformed slot: " + slot)
		return slot, nil
	}
	fun, args, kwargs, ok := parseSlotCall(parts[2])
	if !ok || !r.c.Has(ctx, fun) {
		r.c.Log.Warn("Malformed slot: " + slot)
		return slot, nil
	}
	v, err := r.c.RunKw(ctx, fun, args, kwargs)
	if err != nil {
		return nil, err
	}
	text, tail, hasTail := strings.Cut(parts[2], "~")
	if i := strings.LastIndexByte(text, ')'); i >= 0 {
		if rest := text[i+1:]; strings.Contains(rest, ".") {
			_, path, _ := strings.Cut(rest, ".")
			v, _ = TraversePath(v, strings.TrimSpace(path), ".")
		}
	}
	if hasTail {
		s, ok := v.(string)
		if !ok {
			r.c.Log.Error("Ignoring slot append, slot result is not a string")
			return v, nil
		}
		tail = strings.TrimSpace(tail)
		if n := len(tail); n >= 2 && tail[0] == tail[n-1] && (tail[0] == '"' || tail[0] == '\'') {
			tail = tail[1 : n-1]
		}
		return s + tail, nil
	}
	return v, nil
}

// parseSlotCall reads mod.fun(args, k=v).
func parseSlotCall(s string) (fun string, args []any, kwargs *Map, ok bool) {
	kwargs = NewMap()
	fun, rest, found := strings.Cut(s, "(")
	fun = strings.TrimSpace(fun)
	if !found || fun == "" {
		return "", nil, nil, false
	}
	var word strings.Builder
	key := ""
	quote := rune(0)
	quoted, depth := false, 0
	flush := func() {
		text := word.String()
		word.Reset()
		if !quoted {
			text = strings.TrimSpace(text)
			if text == "" && key == "" {
				return
			}
		}
		var v any = text
		if !quoted {
			if parsed, err := ParseYAML([]byte(text)); err == nil {
				v = parsed
			}
		}
		if key != "" {
			kwargs.Set(key, v)
		} else {
			args = append(args, v)
		}
		key, quoted = "", false
	}
	for _, c := range rest {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
				if depth == 0 {
					continue
				}
			}
			word.WriteRune(c)
		case (c == '"' || c == '\'') && depth == 0 && strings.TrimSpace(word.String()) == "":
			word.Reset()
			quote, quoted = c, true
		case c == '"' || c == '\'':
			quote = c
			word.WriteRune(c)
		case c == '[' || c == '{' || c == '(':
			depth++
			word.WriteRune(c)
		case (c == ']' || c == '}' || c == ')') && depth > 0:
			depth--
			word.WriteRune(c)
		case c == ')':
			flush()
			return fun, args, kwargs, true
		case c == ',' && depth == 0:
			flush()
		case c == '=' && depth == 0 && key == "" && !quoted && isIdentifier(strings.TrimSpace(word.String())):
			key = strings.TrimSpace(word.String())
			word.Reset()
		case quoted && depth == 0 && c == ' ':
		default:
			word.WriteRune(c)
		}
	}
	return "", nil, nil, false
}

// isIdentifier says whether s is a name as Python's are, in plain letters.
func isIdentifier(s string) bool {
	for i, r := range s {
		if r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}
