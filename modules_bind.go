// Binding: from positional and keyword arguments to the struct that a function
// takes, by Python's rules and with Python's words for a call that does not fit.
//
// The struct is the signature. Each exported field is one parameter, in order:
//
//	Name   string          required; the parameter is called name
//	Cwd    any    `def:"None"`        optional, with its default as Python writes it
//	Runas  string `arg:"user" def:"None"`   another name than the field's
//	Args   []any  `arg:"*args"`       further positional arguments
//	Kwargs *Map   `arg:"**kwargs"`    further keyword arguments, in order
//
// The fields of an embedded struct are parameters at the place where it
// stands, so that functions with the same run of arguments share one struct.
// Where functions differ in nothing but the name of a parameter, it is called
// Value in their struct and Func.value in the table has its name.
//
// A field of type any takes the value as it came. string takes its text (None
// is ""), bool Python's truth, int, int64 and float64 a number or a text that
// reads as one, []any and []string a list (a single value is a list of one; for
// []string a text is split at commas), *Map a mapping.
package main

import (
	"context"
	"fmt"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"unicode"
)

// Param is one named parameter.
type Param struct {
	Name     string
	Optional bool
	Default  any
}

// Signature describes what a function takes.
type Signature struct {
	Params   []Param
	Varargs  string // name of *args, "" if there is none
	Kwargs   string // name of **kwargs, "" if there is none
	funcName string // as Python's error texts name the function
}

// TakesKeyword says whether a keyword argument of that name can be passed.
func (s *Signature) TakesKeyword(name string) bool {
	if s.Kwargs != "" {
		return true
	}
	for _, p := range s.Params {
		if p.Name == name {
			return true
		}
	}
	return false
}

// Bind sorts arguments into parameters. values has one entry for each
// parameter, defaults filled in. The error is of kind ErrType.
func (s *Signature) Bind(args []any, kwargs *Map) (values []any, rest []any, extra *Map, err error) {
	values = make([]any, len(s.Params))
	given := make([]bool, len(s.Params))
	for i, a := range args {
		if i < len(values) {
			values[i], given[i] = a, true
			continue
		}
		if s.Varargs == "" {
			return nil, nil, nil, s.tooMany(len(args), kwargs)
		}
		rest = append(rest, a)
	}
	extra = &Map{}
next:
	for k, v := range kwargs.All() {
		name := Str(k)
		for i, p := range s.Params {
			if p.Name != name {
				continue
			}
			if given[i] {
				return nil, nil, nil, TypeErrorf("%s() got multiple values for argument '%s'", s.funcName, name)
			}
			values[i], given[i] = v, true
			continue next
		}
		if s.Kwargs == "" {
			return nil, nil, nil, TypeErrorf("%s() got an unexpected keyword argument '%s'", s.funcName, name)
		}
		extra.Set(name, v)
	}
	var missing []string
	for i, p := range s.Params {
		if given[i] {
			continue
		}
		if !p.Optional {
			missing = append(missing, "'"+p.Name+"'")
			continue
		}
		values[i] = DeepCopy(p.Default)
	}
	if len(missing) > 0 {
		return nil, nil, nil, TypeErrorf("%s() missing %d required positional argument%s: %s",
			s.funcName, len(missing), plural(len(missing)), joinNames(missing))
	}
	return values, rest, extra, nil
}

func (s *Signature) tooMany(got int, kwargs *Map) error {
	most, least := len(s.Params), 0
	for _, p := range s.Params {
		if !p.Optional {
			least++
		}
	}
	takes := fmt.Sprintf("%d positional argument%s", most, plural(most))
	if least != most {
		takes = fmt.Sprintf("from %d to %d positional arguments", least, most)
	}
	were := "were"
	if got == 1 {
		were = "was"
	}
	return TypeErrorf("%s() takes %s but %d %s given", s.funcName, takes, got, were)
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// joinNames writes 'a', 'b', and 'c' as Python's errors do.
func joinNames(names []string) string {
	switch len(names) {
	case 1:
		return names[0]
	case 2:
		return names[0] + " and " + names[1]
	}
	return strings.Join(names[:len(names)-1], ", ") + ", and " + names[len(names)-1]
}

// builtin is a Func with its signature.
type builtin struct {
	f    Func
	sig  *Signature
	args reflect.Type
	// fields[i] is the index of parameter i's field; varargs and kwargs are nil
	// where there is none.
	fields          [][]int
	varargs, kwargs []int
}

// newBuiltin reads the signature of a table entry. A wrong table is a
// programming error and panics: TestModuleTables calls this for every entry.
func newBuiltin(name string, f Func) *builtin {
	t := reflect.TypeOf(f.run)
	if t.Kind() != reflect.Func || t.NumIn() != 3 || t.NumOut() != 2 || t.In(2).Kind() != reflect.Struct {
		panic(fmt.Sprintf("%s: run is %s, not func(context.Context, *Call, struct) (any, error)", name, t))
	}
	if f.pyname != "" {
		name = f.pyname
	}
	b := &builtin{f: f, args: t.In(2), sig: &Signature{funcName: name}}
	for _, field := range reflect.VisibleFields(b.args) {
		if field.Anonymous {
			continue
		}
		arg := field.Tag.Get("arg")
		switch {
		case strings.HasPrefix(arg, "**"):
			b.sig.Kwargs, b.kwargs = arg[2:], field.Index
			continue
		case strings.HasPrefix(arg, "*"):
			b.sig.Varargs, b.varargs = arg[1:], field.Index
			continue
		case arg == "" && field.Name == "Value" && f.value != "":
			arg = f.value
		case arg == "":
			arg = snakeCase(field.Name)
		}
		p := Param{Name: arg}
		if def, ok := field.Tag.Lookup("def"); ok {
			p.Optional = true
			p.Default = parseDefault(def)
		}
		b.sig.Params = append(b.sig.Params, p)
		b.fields = append(b.fields, field.Index)
	}
	return b
}

// Doc gives the table's text the shape of a Python docstring, which is what
// sys.doc and the outputters expect: a line break first, four blanks before
// each line and at the end.
func (b *builtin) Doc() string {
	text := strings.TrimSpace(b.f.doc)
	if text == "" {
		return ""
	}
	return "\n    " + strings.ReplaceAll(strings.ReplaceAll(text, "\n", "\n    "), "    \n", "\n") + "\n    "
}

func (b *builtin) Signature() *Signature { return b.sig }

func (b *builtin) Invoke(ctx context.Context, c *Call, args []any, kwargs *Map) (any, error) {
	values, rest, extra, err := b.sig.Bind(args, kwargs)
	if err != nil {
		return nil, err
	}
	in := reflect.New(b.args).Elem()
	for i, v := range values {
		if err := assign(in.FieldByIndex(b.fields[i]), v, b.sig.Params[i].Name); err != nil {
			return nil, err
		}
	}
	if b.varargs != nil {
		if err := assign(in.FieldByIndex(b.varargs), NewList(rest...), b.sig.Varargs); err != nil {
			return nil, err
		}
	}
	if b.kwargs != nil {
		in.FieldByIndex(b.kwargs).Set(reflect.ValueOf(extra))
	}
	out := reflect.ValueOf(b.f.run).Call([]reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(c), in})
	if err, _ := out[1].Interface().(error); err != nil {
		return nil, err
	}
	return out[0].Interface(), nil
}

// assign converts one value to the type of its field.
func assign(f reflect.Value, v any, name string) error {
	bad := func(want string) error {
		return InvocationErrorf("argument %s: %s is no %s", name, Repr(v), want)
	}
	switch p := f.Addr().Interface().(type) {
	case *any:
		*p = v
	case *string:
		switch v := v.(type) {
		case nil:
			*p = ""
		case []byte:
			*p = string(v)
		default:
			*p = Str(v)
		}
	case *bool:
		*p = Truth(v)
	case *int:
		n, ok := toInt(v)
		if !ok {
			return bad("integer")
		}
		*p = int(n)
	case *int64:
		n, ok := toInt(v)
		if !ok {
			return bad("integer")
		}
		*p = n
	case *float64:
		n, ok := toFloat(v)
		if !ok {
			return bad("number")
		}
		*p = n
	case **Map:
		m, ok := v.(*Map)
		if !ok && v != nil {
			return bad("mapping")
		}
		*p = m
	case **List:
		l, ok := v.(*List)
		if !ok && v != nil {
			return bad("list")
		}
		*p = l
	case *[]any:
		*p = toItems(v)
	case *[]string:
		*p = toStrings(v)
	default:
		return fmt.Errorf("argument %s: the field has the unsupported type %s", name, f.Type())
	}
	return nil
}

// toInt reads an integer as int() would; None is 0.
func toInt(v any) (int64, bool) {
	switch v := v.(type) {
	case nil:
		return 0, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case int64:
		return v, true
	case float64:
		return int64(v), true
	case *big.Int:
		return 0, false
	case string:
		n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		return n, err == nil
	}
	return 0, false
}

// toFloat reads a number as float() would; None is 0.
func toFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case string:
		n, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
		return n, err == nil
	case *big.Int:
		f, _ := new(big.Float).SetInt(v).Float64()
		return f, true
	}
	n, ok := toInt(v)
	return float64(n), ok
}

//go:noinline
func toItems(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case *List:
		return v.Items
	case Tuple:
		return v
	}
	return []any{v}
}

// toStrings reads a list of texts: a list as it is, a text split at commas.
func toStrings(v any) []string {
	if s, ok := v.(string); ok {
		var out []string
		for _, part := range strings.Split(s, ",") {
			if part = strings.TrimSpace(part); part != "" {
				out = append(out, part)
			}
		}
		return out
	}
	var out []string
	for _, item := range toItems(v) {
		out = append(out, Str(item))
	}
	return out
}

// parseDefault reads a default as Python writes it: None, True, a number, a
// quoted text, [] or {}; $SHELL is the user's shell. Anything else is text.
func parseDefault(s string) any {
	switch s {
	case "None":
		return nil
	case "True":
		return true
	case "False":
		return false
	case "[]":
		return &List{}
	case "{}":
		return &Map{}
	case "()":
		return Tuple{}
	case "$SHELL":
		return defaultShell()
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	if n, err := strconv.ParseFloat(s, 64); err == nil {
		return n
	}
	if len(s) >= 2 && (s[0] == '\'' || s[0] == '"') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

// snakeCase turns a Go name into Salt's: ReturnAll → return_all, PythonShell →
// python_shell, ID → id.
func snakeCase(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if unicode.IsUpper(r) {
			nextLower := i+1 < len(runes) && unicode.IsLower(runes[i+1])
			if i > 0 && (unicode.IsLower(runes[i-1]) || unicode.IsDigit(runes[i-1]) || nextLower) {
				b.WriteByte('_')
			}
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// SplitKeywords takes the __kwarg__ mappings out of a job's arguments and
// converts texts of the form name=value with word (which says whether a text is
// one). Keywords that the function does not take are a SaltInvocationError that
// names them all (cli.md section 3).
func SplitKeywords(sig *Signature, arg []any, word func(string) (name string, v any, ok bool)) ([]any, *Map, error) {
	var args []any
	kwargs := &Map{}
	var invalid []string
	take := func(name string, v any) {
		if !sig.TakesKeyword(name) {
			invalid = append(invalid, name+"="+Str(v))
			return
		}
		kwargs.Set(name, v)
	}
	for _, a := range arg {
		switch v := a.(type) {
		case string:
			if word != nil {
				if name, val, ok := word(v); ok {
					take(name, val)
					continue
				}
			}
		case *Map:
			if mark, _ := v.Value("__kwarg__").(bool); mark {
				for k, val := range v.All() {
					if k != "__kwarg__" {
						take(Str(k), val)
					}
				}
				continue
			}
		}
		args = append(args, a)
	}
	if len(invalid) > 0 {
		return nil, nil, InvocationErrorf("The following keyword arguments are not valid: %s", strings.Join(invalid, ", "))
	}
	return args, kwargs, nil
}

// noArgs is the signature of functions without parameters.
type noArgs struct{}
