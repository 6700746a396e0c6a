// Jinja's own filters on sequences, mappings and numbers, and the table of all
// of them. Those on texts are in jinja_filters_text.go.
package main

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
)

// jinjaFilters is the table of Jinja's filters.
func jinjaFilters() map[string]*JinjaFilter {
	length := jinjaFilter("len", "", func(r *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) { return r.length(v) })
	def := jinjaFilter("do_default", "default_value='', boolean=False", filterDefault)
	escape := jinjaFilter("escape", "", filterEscape)
	f := map[string]*JinjaFilter{
		"abs":        jinjaFilter("abs", "", filterAbs),
		"attr":       jinjaFilter2("do_attr", "name", filterAttr),
		"batch":      jinjaFilter("do_batch", "linecount, fill_with=None", filterBatch),
		"count":      length,
		"d":          def,
		"default":    def,
		"dictsort":   jinjaFilter("do_dictsort", "case_sensitive=False, by='key', reverse=False", filterDictsort),
		"e":          escape,
		"escape":     escape,
		"first":      jinjaFilter2("sync_do_first", "", filterFirst),
		"float":      jinjaFilter("do_float", "default=0.0", filterFloat),
		"groupby":    jinjaFilter2("sync_do_groupby", "attribute, default=None, case_sensitive=False", filterGroupby),
		"int":        jinjaFilter("do_int", "default=0, base=10", filterInt),
		"items":      jinjaFilter("do_items", "", filterItems),
		"join":       jinjaFilter2("sync_do_join", "d='', attribute=None", filterJoin),
		"last":       jinjaFilter2("do_last", "", filterLast),
		"length":     length,
		"list":       jinjaFilter("sync_do_list", "", filterList),
		"map":        jinjaFilter2("sync_do_map", "*args, **kwargs", filterMap),
		"max":        jinjaFilter2("do_max", "case_sensitive=False, attribute=None", filterMinMax(false)),
		"min":        jinjaFilter2("do_min", "case_sensitive=False, attribute=None", filterMinMax(true)),
		"random":     jinjaFilter2("do_random", "", filterRandom),
		"reject":     jinjaFilter2("sync_do_reject", "*args, **kwargs", filterSelect("sync_do_reject", false, false)),
		"rejectattr": jinjaFilter2("sync_do_rejectattr", "*args, **kwargs", filterSelect("sync_do_rejectattr", false, true)),
		"reverse":    jinjaFilter("do_reverse", "", filterReverse),
		"round":      jinjaFilter("do_round", "precision=0, method='common'", filterRound),
		"select":     jinjaFilter2("sync_do_select", "*args, **kwargs", filterSelect("sync_do_select", true, false)),
		"selectattr": jinjaFilter2("sync_do_selectattr", "*args, **kwargs", filterSelect("sync_do_selectattr", true, true)),
		"slice":      jinjaFilter("sync_do_slice", "slices, fill_with=None", filterSlice),
		"sort":       jinjaFilter2("do_sort", "reverse=False, case_sensitive=False, attribute=None", filterSort),
		"sum":        jinjaFilter2("sync_do_sum", "attribute=None, start=0", filterSum),
		"unique":     jinjaFilter2("sync_do_unique", "case_sensitive=False, attribute=None", filterUnique),
	}
	for name, entry := range jinjaTextFilters() {
		f[name] = entry
	}
	return f
}

func filterDefault(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	if _, ok := v.(*JinjaUndefined); ok {
		return a[0], nil
	}
	whenFalse, err := r.truth(a[1])
	if err != nil || !whenFalse {
		return v, err
	}
	b, err := r.truth(v)
	if err != nil || b {
		return v, err
	}
	return a[0], nil
}

func filterEscape(r *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
	if m, ok := v.(Markup); ok {
		return m, nil
	}
	s, err := r.str(v)
	return Markup(escapeHTML(s)), err
}

func filterAbs(_ *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
	switch v := v.(type) {
	case *JinjaUndefined:
		return nil, jinjaTypeError("bad operand type for abs(): '%s'", v.TypeName())
	case float64:
		return math.Abs(v), nil
	}
	i, _, isInt, ok := number(v)
	if !ok || !isInt {
		return nil, jinjaTypeError("bad operand type for abs(): '%s'", TypeName(v))
	}
	return normalInt(new(big.Int).Abs(i)), nil
}

func filterAttr(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	name, err := strArg(a[0], "attribute name must be string, not ")
	if err != nil {
		return nil, err
	}
	if u, ok := v.(*JinjaUndefined); ok {
		return r.undefinedAccess(u)
	}
	out, ok, err := r.ownAttr(v, name)
	if err != nil || ok {
		return out, err
	}
	return r.undefinedAttr(v, name), nil
}

// chunks makes the iterator of batch and slice.
func listOfLists(lists [][]any) []any {
	out := make([]any, len(lists))
	for i, l := range lists {
		out[i] = &List{Items: l}
	}
	return out
}

func filterBatch(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	return newJinjaIterator("do_batch ", func() ([]any, error) {
		items, err := r.items(v)
		if err != nil {
			return nil, err
		}
		n, err := intArg(a[0])
		if err != nil {
			return nil, err
		}
		var out [][]any
		var line []any
		for _, item := range items {
			if int64(len(line)) == n {
				out = append(out, line)
				line = nil
			}
			line = append(line, item)
		}
		if len(line) > 0 {
			for a[1] != nil && int64(len(line)) < n && len(line) < 1<<20 {
				line = append(line, a[1])
			}
			out = append(out, line)
		}
		return listOfLists(out), nil
	}), nil
}

func filterSlice(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	return newJinjaIterator("sync_do_slice ", func() ([]any, error) {
		items, err := r.items(v)
		if err != nil {
			return nil, err
		}
		n, err := intArg(a[0])
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, jinjaErr("ZeroDivisionError", "integer division or modulo by zero")
		}
		if n > 1<<20 {
			return nil, rangeTooBig()
		}
		length := int64(len(items))
		per, extra := length/n, length%n
		var out [][]any
		offset := int64(0)
		for i := range n {
			start := offset + i*per
			if i < extra {
				offset++
			}
			end := offset + (i+1)*per
			part := append([]any(nil), items[start:end]...)
			if a[1] != nil && i >= extra {
				part = append(part, a[1])
			}
			out = append(out, part)
		}
		return listOfLists(out), nil
	}), nil
}

// lowered is the key that ignores case.
func lowered(v any) any {
	if s, ok := textOf(v); ok {
		return strings.ToLower(s)
	}
	return v
}

// attrGetter reads a path like "a.b.0" in a value.
func attrGetter(r *JinjaRun, attribute any, def any) func(v any) (any, error) {
	parts := attributeParts(attribute)
	return func(v any) (any, error) {
		for _, part := range parts {
			var err error
			if v, err = r.getItem(v, part); err != nil {
				return nil, err
			}
			if _, missing := v.(*JinjaUndefined); missing && def != nil {
				v = def
			}
		}
		return v, nil
	}
}

func attributeParts(attribute any) []any {
	if attribute == nil {
		return nil
	}
	s, ok := textOf(attribute)
	if !ok {
		return []any{attribute}
	}
	var parts []any
	for _, p := range strings.Split(s, ".") {
		if isDigits(p) {
			if n, err := strconv.ParseInt(p, 10, 64); err == nil {
				parts = append(parts, n)
				continue
			}
		}
		parts = append(parts, p)
	}
	return parts
}

func filterDictsort(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	pos := 0
	switch by, _ := textOf(a[1]); by {
	case "key":
	case "value":
		pos = 1
	default:
		return nil, jinjaErr(jinjaFilterArgClass, `You can only sort by either "key" or "value"`)
	}
	if u, ok := v.(*JinjaUndefined); ok {
		return nil, u.fail()
	}
	m, ok := v.(*Map)
	if !ok {
		return nil, jinjaErr("AttributeError", "'%s' object has no attribute 'items'", TypeName(v))
	}
	sensitive, err := r.truth(a[0])
	if err != nil {
		return nil, err
	}
	reverse, err := r.truth(a[2])
	if err != nil {
		return nil, err
	}
	items, keys := make([]any, 0, m.Len()), make([]any, 0, m.Len())
	for k, val := range m.All() {
		pair := Tuple{k, val}
		key := pair[pos]
		if !sensitive {
			key = lowered(key)
		}
		items, keys = append(items, pair), append(keys, key)
	}
	items, err = r.sorted(items, keys, reverse)
	return &List{Items: items}, err
}

func filterFirst(r *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
	it, err := r.iter(v)
	if err != nil {
		return nil, err
	}
	item, ok, err := it.next()
	if err != nil {
		return nil, err
	}
	if !ok {
		return r.undefinedHint("No first item, sequence was empty."), nil
	}
	return item, nil
}

func filterLast(r *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
	switch v.(type) {
	case *JinjaIterator, *Set:
		return nil, jinjaTypeError("'%s' object is not reversible", TypeName(v))
	}
	items, err := r.items(v)
	if err != nil {
		if isJinjaClass(err, "TypeError") {
			return nil, jinjaTypeError("'%s' object is not reversible", TypeName(v))
		}
		return nil, err
	}
	if len(items) == 0 {
		return r.undefinedHint("No last item, sequence was empty."), nil
	}
	return items[len(items)-1], nil
}

func filterRandom(r *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
	if _, ok := v.(*JinjaIterator); ok {
		return nil, jinjaTypeError("object of type 'generator' has no len()")
	}
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return r.undefinedHint("No random item, sequence was empty."), nil
	}
	return items[rand.IntN(len(items))], nil
}

func filterList(r *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	if err := r.grow(16 * len(items)); err != nil {
		return nil, err
	}
	return &List{Items: append([]any(nil), items...)}, nil
}

func filterItems(r *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
	return newJinjaIterator("do_items ", func() ([]any, error) {
		switch v := v.(type) {
		case *JinjaUndefined:
			return nil, nil
		case *Map:
			return (&jinjaView{v, 'i'}).items(), nil
		}
		return nil, jinjaTypeError("Can only get item pairs from a mapping.")
	}), nil
}

func filterJoin(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	if a[1] != nil {
		get := attrGetter(r, a[1], nil)
		mapped := make([]any, len(items))
		for i, item := range items {
			if mapped[i], err = get(item); err != nil {
				return nil, err
			}
		}
		items = mapped
	}
	sep, err := r.str(a[0])
	if err != nil {
		return nil, err
	}
	_, safe := a[0].(Markup)
	if r.autoescape {
		for _, item := range items {
			if _, ok := item.(Markup); ok {
				safe = true
			}
		}
		if _, ok := a[0].(Markup); safe && !ok {
			sep = escapeHTML(sep)
		}
	}
	var b strings.Builder
	for i, item := range items {
		if i > 0 {
			b.WriteString(sep)
		}
		s, err := r.str(item)
		if err != nil {
			return nil, err
		}
		if _, ok := item.(Markup); r.autoescape && safe && !ok {
			s = escapeHTML(s)
		}
		b.WriteString(s)
		if b.Len() > r.limits.Output {
			return nil, jinjaErr("MemoryError", "the text is larger than %d bytes", r.limits.Output)
		}
	}
	if err := r.grow(b.Len()); err != nil {
		return nil, err
	}
	if r.autoescape && safe {
		return Markup(b.String()), nil
	}
	return b.String(), nil
}

func filterReverse(r *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
	if s, ok := textOf(v); ok {
		rs := []rune(s)
		for i, j := 0, len(rs)-1; i < j; i, j = i+1, j-1 {
			rs[i], rs[j] = rs[j], rs[i]
		}
		return sameText(v, string(rs)), nil
	}
	items, err := r.items(v)
	if err != nil {
		if isJinjaClass(err, "TypeError") {
			return nil, jinjaErr(jinjaFilterArgClass, "argument must be iterable")
		}
		return nil, err
	}
	items = append([]any(nil), items...)
	reverseItems(items)
	name := "reversed"
	switch v.(type) {
	case *List:
		name = "list_reverseiterator"
	case *Map:
		name = "dict_reversekeyiterator"
	case *JinjaIterator, *Set:
		return &List{Items: items}, nil
	}
	return newJinjaIterator(name, func() ([]any, error) { return items, nil }), nil
}

func filterRound(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	method, _ := textOf(a[1])
	switch method {
	case "common", "ceil", "floor":
	default:
		return nil, jinjaErr(jinjaFilterArgClass, "method must be common, ceil or floor")
	}
	if u, ok := v.(*JinjaUndefined); ok {
		if method == "common" {
			return nil, jinjaTypeError("type %s doesn't define __round__ method", u.TypeName())
		}
		return nil, u.fail()
	}
	if method == "common" {
		p, err := intArg(a[0])
		if err != nil {
			return nil, err
		}
		return pythonRound(v, p)
	}
	p, err := arithmetic("**", int64(10), a[0])
	if err != nil {
		return nil, err
	}
	scaled, err := r.binary("*", v, p)
	if err != nil {
		return nil, err
	}
	i, f, isInt, _ := number(scaled)
	if !isInt {
		if math.IsNaN(f) {
			return nil, jinjaValueError("cannot convert float NaN to integer")
		}
		if math.IsInf(f, 0) {
			return nil, jinjaErr("OverflowError", "cannot convert float infinity to integer")
		}
		if method == "ceil" {
			f = math.Ceil(f)
		} else {
			f = math.Floor(f)
		}
		i, _ = big.NewFloat(f).Int(nil)
	}
	return r.binary("/", normalInt(i), p)
}

// pythonRound is round(v, digits): half to even, exactly.
func pythonRound(v any, digits int64) (any, error) {
	i, f, isInt, ok := number(v)
	if !ok {
		return nil, jinjaTypeError("type %s doesn't define __round__ method", TypeName(v))
	}
	if isInt {
		if digits >= 0 {
			return normalInt(i), nil
		}
		if -digits > int64(len(i.String())) {
			return int64(0), nil
		}
		unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(-digits), nil)
		q, m := new(big.Int).DivMod(i, unit, new(big.Int))
		twice := new(big.Int).Lsh(m, 1)
		if c := twice.Cmp(unit); c > 0 || c == 0 && q.Bit(0) == 1 {
			q.Add(q, big.NewInt(1))
		}
		return normalInt(q.Mul(q, unit)), nil
	}
	if math.IsNaN(f) || math.IsInf(f, 0) || digits > 300 {
		return f, nil
	}
	if digits >= 0 {
		out, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(digits), 64), 64)
		return out, nil
	}
	if digits < -308 {
		return math.Copysign(0, f), nil
	}
	unit := math.Pow(10, float64(-digits))
	return math.RoundToEven(f/unit) * unit, nil
}

func filterSort(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	items = append([]any(nil), items...)
	reverse, err := r.truth(a[0])
	if err != nil {
		return nil, err
	}
	sensitive, err := r.truth(a[1])
	if err != nil {
		return nil, err
	}
	var getters []func(any) (any, error)
	if s, ok := textOf(a[2]); ok {
		for _, part := range strings.Split(s, ",") {
			getters = append(getters, attrGetter(r, part, nil))
		}
	} else {
		getters = append(getters, attrGetter(r, a[2], nil))
	}
	keys := make([]any, len(items))
	for i, item := range items {
		key := &List{Items: make([]any, len(getters))}
		for k, get := range getters {
			part, err := get(item)
			if err != nil {
				return nil, err
			}
			if !sensitive {
				part = lowered(part)
			}
			key.Items[k] = part
		}
		keys[i] = key
		if len(getters) == 1 {
			keys[i] = key.Items[0]
		}
	}
	items, err = r.sorted(items, keys, reverse)
	return &List{Items: items}, err
}

func filterUnique(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	get := attrGetter(r, a[1], nil)
	return newJinjaIterator("sync_do_unique ", func() ([]any, error) {
		sensitive, err := r.truth(a[0])
		if err != nil {
			return nil, err
		}
		items, err := r.items(v)
		if err != nil {
			return nil, err
		}
		var out []any
		seen := &Set{}
		for _, item := range items {
			key, err := get(item)
			if err != nil {
				return nil, err
			}
			if !sensitive {
				key = lowered(key)
			}
			if err := hashableError(key); err != nil {
				return nil, err
			}
			if !seen.Has(key) {
				seen.Add(key)
				out = append(out, item)
			}
		}
		return out, nil
	}), nil
}

// parsePythonInt is int(text, base).
func parsePythonInt(s string, base int64) (any, bool) {
	t := strings.TrimFunc(s, isPythonSpace)
	neg := false
	if t != "" && (t[0] == '-' || t[0] == '+') {
		neg = t[0] == '-'
		t = t[1:]
	}
	if len(t) > 1 && t[0] == '0' {
		prefix := map[byte]int64{'x': 16, 'X': 16, 'o': 8, 'O': 8, 'b': 2, 'B': 2}[t[1]]
		if prefix != 0 && (base == 0 || base == prefix) {
			base = prefix
			t = strings.TrimPrefix(t[2:], "_")
		}
	}
	if base == 0 {
		base = 10
		if len(t) > 1 && t[0] == '0' && strings.Trim(t, "0_") != "" {
			return nil, false
		}
	}
	if base < 2 || base > 36 || t == "" || t[0] == '_' || t[len(t)-1] == '_' || strings.Contains(t, "__") || len(t) > 4300 {
		return nil, false
	}
	if t[0] == '-' || t[0] == '+' {
		return nil, false
	}
	i, ok := new(big.Int).SetString(strings.ReplaceAll(t, "_", ""), int(base))
	if !ok {
		return nil, false
	}
	if neg {
		i.Neg(i)
	}
	return normalInt(i), true
}

// parsePythonFloat is float(text).
func parsePythonFloat(s string) (float64, bool) {
	t := strings.TrimFunc(s, isPythonSpace)
	switch strings.ToLower(strings.TrimLeft(t, "+-")) {
	case "inf", "infinity", "nan":
		if len(t)-len(strings.TrimLeft(t, "+-")) > 1 {
			return 0, false
		}
		f, err := strconv.ParseFloat(t, 64)
		return f, err == nil
	}
	if t == "" || strings.ContainsAny(t, "xXpPiInN") || t[0] == '_' || t[len(t)-1] == '_' || strings.Contains(t, "__") {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(t, "_", ""), 64)
	if err != nil && !strings.Contains(err.Error(), "range") {
		return 0, false
	}
	return f, true
}

// pythonInt is int(v) for what is no text.
func pythonInt(v any) (any, bool) {
	i, f, isInt, ok := number(v)
	switch {
	case !ok:
		return nil, false
	case isInt:
		return normalInt(i), true
	case math.IsNaN(f), math.IsInf(f, 0):
		return nil, false
	}
	n, _ := big.NewFloat(math.Trunc(f)).Int(nil)
	return normalInt(n), true
}

func filterInt(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	if u, ok := v.(*JinjaUndefined); ok {
		return nil, u.fail()
	}
	if s, ok := textOf(v); ok {
		base, err := intArg(a[1])
		if err != nil {
			return nil, err
		}
		if i, ok := parsePythonInt(s, base); ok {
			return i, nil
		}
		if f, ok := parsePythonFloat(s); ok {
			if i, ok := pythonInt(f); ok {
				return i, nil
			}
		}
		return a[0], nil
	}
	if f, ok := v.(float64); ok && math.IsInf(f, 0) {
		return nil, jinjaErr("OverflowError", "cannot convert float infinity to integer")
	}
	if i, ok := pythonInt(v); ok {
		return i, nil
	}
	return a[0], nil
}

func filterFloat(_ *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	if u, ok := v.(*JinjaUndefined); ok {
		return nil, u.fail()
	}
	if s, ok := textOf(v); ok {
		if f, ok := parsePythonFloat(s); ok {
			return f, nil
		}
		return a[0], nil
	}
	if _, f, _, ok := number(v); ok {
		if math.IsInf(f, 0) {
			if _, isBig := v.(*big.Int); isBig {
				return nil, jinjaErr("OverflowError", "int too large to convert to float")
			}
		}
		return f, nil
	}
	return a[0], nil
}

func fileSize(f float64, binary bool) string {
	base, names := 1000.0, []string{"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"}
	if binary {
		base, names = 1024, []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"}
	}
	switch {
	case f == 1:
		return "1 Byte"
	case f < base:
		return fmt.Sprintf("%d Bytes", int64(f))
	}
	unit := base
	for i, name := range names {
		unit *= base
		if f < unit || i == len(names)-1 {
			return strconv.FormatFloat(base*f/unit, 'f', 1, 64) + " " + name
		}
	}
	return ""
}
