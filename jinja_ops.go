// Operators on values, with Python's arithmetic: integers without limit, floor
// division, sequences, comparisons in a chain.
package main

import (
	"math"
	"math/big"
	"math/bits"
	"strings"
)

func (n *jBinary) eval(r *JinjaRun) (any, error) {
	a, err := n.left.eval(r)
	if err != nil {
		return nil, err
	}
	b, err := n.right.eval(r)
	if err != nil {
		return nil, err
	}
	if x, ok := a.(int64); ok {
		if y, ok := b.(int64); ok { // by far the most common case
			switch n.op {
			case "+":
				if s := x + y; (s > x) == (y > 0) {
					return s, nil
				}
			case "-":
				if s := x - y; (s < x) == (y > 0) {
					return s, nil
				}
			case "%", "//":
				if y > 0 { // Python rounds down
					q, m := x/y, x%y
					if m < 0 {
						q, m = q-1, m+y
					}
					if n.op == "%" {
						return m, nil
					}
					return q, nil
				}
			case "*":
				if hi, lo := bits.Mul64(uint64(max(x, -x)), uint64(max(y, -y))); hi == 0 && lo < 1<<62 && x != math.MinInt64 && y != math.MinInt64 {
					return x * y, nil
				}
			}
		}
	}
	return r.binary(n.op, a, b)
}

func unsupported(op string, a, b any) error {
	if op == "**" {
		op = "** or pow()"
	}
	return jinjaTypeError("unsupported operand type(s) for %s: '%s' and '%s'", op, TypeName(a), TypeName(b))
}

func (r *JinjaRun) binary(op string, a, b any) (any, error) {
	if u, ok := a.(*JinjaUndefined); ok {
		return nil, u.fail()
	}
	if u, ok := b.(*JinjaUndefined); ok {
		if s, isText := textOf(a); !isText || op != "%" || !strings.Contains(s, "%") {
			if _, isText := textOf(a); isText && op == "%" {
				return nil, jinjaTypeError("not all arguments converted during string formatting")
			}
			return nil, u.fail()
		}
	}
	if isNumber(a) && isNumber(b) {
		return arithmetic(op, a, b)
	}
	switch op {
	case "+":
		return r.add(a, b)
	case "*":
		return r.repeat(a, b)
	case "%":
		if s, ok := textOf(a); ok {
			if _, safe := a.(Markup); safe {
				text, err := r.percentFormatAs(s, b, escapeUnsafe)
				return Markup(text), err
			}
			text, err := r.percentFormat(s, b)
			return text, err
		}
	case "-":
		x, ok1 := setOf(a)
		y, ok2 := setOf(b)
		if ok1 && ok2 {
			out := &Set{}
			for _, item := range x {
				if has, err := r.contains(&List{Items: y}, item); err != nil {
					return nil, err
				} else if !has {
					out.Add(item)
				}
			}
			return out, nil
		}
	}
	return nil, unsupported(op, a, b)
}

// setOf gives the items of what takes part in set operations.
func setOf(v any) ([]any, bool) {
	switch v := v.(type) {
	case *Set:
		return v.Items(), true
	case *jinjaView:
		if v.kind != 'v' {
			return v.items(), true
		}
	}
	return nil, false
}

func (r *JinjaRun) add(a, b any) (any, error) {
	switch x := a.(type) {
	case string:
		switch y := b.(type) {
		case string:
			if err := r.grow(len(x) + len(y)); err != nil {
				return nil, err
			}
			return x + y, nil
		case Markup:
			return Markup(escapeHTML(x)) + y, nil
		}
		return nil, jinjaTypeError(`can only concatenate str (not "%s") to str`, TypeName(b))
	case Markup:
		switch y := b.(type) {
		case string:
			return x + Markup(escapeHTML(y)), nil
		case Markup:
			return x + y, nil
		}
		return nil, unsupported("+", a, b)
	case []byte:
		if y, ok := b.([]byte); ok {
			return append(append([]byte{}, x...), y...), nil
		}
		return nil, jinjaTypeError("can't concat %s to bytes", TypeName(b))
	case *List:
		if y, ok := b.(*List); ok {
			if err := r.grow(16 * (len(x.Items) + len(y.Items))); err != nil {
				return nil, err
			}
			return &List{Items: append(append(make([]any, 0, len(x.Items)+len(y.Items)), x.Items...), y.Items...)}, nil
		}
		return nil, jinjaTypeError(`can only concatenate list (not "%s") to list`, TypeName(b))
	case Tuple:
		if g, ok := b.(*jinjaGroup); ok {
			b = g.PlainValue()
		}
		if y, ok := b.(Tuple); ok {
			return append(append(make(Tuple, 0, len(x)+len(y)), x...), y...), nil
		}
		return nil, jinjaTypeError(`can only concatenate tuple (not "%s") to tuple`, TypeName(b))
	}
	return nil, unsupported("+", a, b)
}

func (r *JinjaRun) repeat(a, b any) (any, error) {
	seq := func(v any) bool {
		switch v.(type) {
		case string, Markup, []byte, *List, Tuple:
			return true
		}
		return false
	}
	if !seq(a) && seq(b) {
		if _, ok := indexOf(a); !ok && !isNumber(a) {
			return nil, jinjaTypeError("can't multiply sequence by non-int of type '%s'", TypeName(a))
		}
		a, b = b, a
	}
	if !seq(a) {
		return nil, unsupported("*", a, b)
	}
	n, ok := indexOf(b)
	if !ok {
		if _, big := b.(*big.Int); big {
			return nil, jinjaErr("OverflowError", "cannot fit 'int' into an index-sized integer")
		}
		return nil, jinjaTypeError("can't multiply sequence by non-int of type '%s'", TypeName(b))
	}
	n = max(n, 0)
	size, err := r.length(a)
	if err != nil {
		return nil, err
	}
	if s, ok := textOf(a); ok {
		size = int64(len(s))
	}
	if _, isText := textOf(a); !isText {
		size *= 16
	}
	if size > 0 && n > int64(r.limits.Output)/size {
		return nil, jinjaErr("MemoryError", "the result is larger than %d bytes", r.limits.Output)
	}
	if err := r.grow(int(n * size)); err != nil {
		return nil, err
	}
	switch x := a.(type) {
	case string:
		return strings.Repeat(x, int(n)), nil
	case Markup:
		return Markup(strings.Repeat(string(x), int(n))), nil
	case []byte:
		return []byte(strings.Repeat(string(x), int(n))), nil
	case Tuple:
		out := Tuple{}
		for range n {
			out = append(out, x...)
		}
		return out, nil
	case *List:
		out := &List{}
		for range n {
			out.Items = append(out.Items, x.Items...)
		}
		return out, nil
	}
	return nil, unsupported("*", a, b)
}

// maxJinjaBits bounds integers: a template must not fill the memory with one.
const maxJinjaBits = 1 << 20

func arithmetic(op string, a, b any) (any, error) {
	ai, af, aint, _ := number(a)
	bi, bf, bint, _ := number(b)
	if aint && bint && op != "/" {
		switch op {
		case "+":
			return normalInt(new(big.Int).Add(ai, bi)), nil
		case "-":
			return normalInt(new(big.Int).Sub(ai, bi)), nil
		case "*":
			if ai.BitLen()+bi.BitLen() > maxJinjaBits {
				return nil, jinjaErr("MemoryError", "the integer is too large")
			}
			return normalInt(new(big.Int).Mul(ai, bi)), nil
		case "//", "%":
			if bi.Sign() == 0 {
				if op == "%" {
					return nil, jinjaErr("ZeroDivisionError", "integer modulo by zero")
				}
				return nil, jinjaErr("ZeroDivisionError", "integer division or modulo by zero")
			}
			q, m := new(big.Int).QuoRem(ai, bi, new(big.Int))
			if m.Sign() != 0 && m.Sign() != bi.Sign() { // Python rounds down
				q.Sub(q, big.NewInt(1))
				m.Add(m, bi)
			}
			if op == "%" {
				return normalInt(m), nil
			}
			return normalInt(q), nil
		case "**":
			if bi.Sign() < 0 {
				if ai.Sign() == 0 {
					return nil, jinjaErr("ZeroDivisionError", "0.0 cannot be raised to a negative power")
				}
				return math.Pow(af, bf), nil
			}
			if ai.BitLen() > 1 && (!bi.IsInt64() || int64(ai.BitLen())*bi.Int64() > maxJinjaBits || bi.Int64() > maxJinjaBits) {
				return nil, jinjaErr("MemoryError", "the integer is too large")
			}
			if !bi.IsInt64() { // 0, 1 or -1
				odd := bi.Bit(0) == 1
				if ai.Sign() < 0 && !odd {
					return int64(1), nil
				}
				return normalInt(ai), nil
			}
			return normalInt(new(big.Int).Exp(ai, bi, nil)), nil
		}
	}
	if (aint && math.IsInf(af, 0)) || (bint && math.IsInf(bf, 0)) {
		if aint && bint {
			return divideBig(ai, bi)
		}
		return nil, jinjaErr("OverflowError", "int too large to convert to float")
	}
	switch op {
	case "+":
		return af + bf, nil
	case "-":
		return af - bf, nil
	case "*":
		return af * bf, nil
	case "/":
		if bf == 0 {
			if aint && bint {
				return nil, jinjaErr("ZeroDivisionError", "division by zero")
			}
			return nil, jinjaErr("ZeroDivisionError", "float division by zero")
		}
		if aint && bint && (ai.BitLen() > 53 || bi.BitLen() > 53) {
			return divideBig(ai, bi)
		}
		return af / bf, nil
	case "//", "%":
		if bf == 0 {
			if op == "%" {
				return nil, jinjaErr("ZeroDivisionError", "float modulo")
			}
			return nil, jinjaErr("ZeroDivisionError", "float floor division by zero")
		}
		m := math.Mod(af, bf)
		div := (af - m) / bf
		if m != 0 {
			if (bf < 0) != (m < 0) {
				m += bf
				div--
			}
		} else {
			m = math.Copysign(0, bf)
		}
		if op == "%" {
			return m, nil
		}
		if div == 0 {
			return math.Copysign(0, af/bf), nil
		}
		floor := math.Floor(div)
		if div-floor > 0.5 {
			floor++
		}
		return floor, nil
	case "**":
		if af == 0 && bf < 0 {
			return nil, jinjaErr("ZeroDivisionError", "0.0 cannot be raised to a negative power")
		}
		if af < 0 && bf != math.Trunc(bf) {
			return nil, jinjaErr("ValueError", "complex numbers are not supported")
		}
		f := math.Pow(af, bf)
		if math.IsInf(f, 0) && !math.IsInf(af, 0) && !math.IsInf(bf, 0) {
			return nil, jinjaErr("OverflowError", "(34, 'Numerical result out of range')")
		}
		return f, nil
	}
	return nil, unsupported(op, a, b)
}

// divideBig divides integers that no float holds exactly.
func divideBig(a, b *big.Int) (any, error) {
	if b.Sign() == 0 {
		return nil, jinjaErr("ZeroDivisionError", "division by zero")
	}
	f, _ := new(big.Rat).SetFrac(a, b).Float64()
	if math.IsInf(f, 0) {
		return nil, jinjaErr("OverflowError", "integer division result too large for a float")
	}
	return f, nil
}

// equal is a == b.
func (r *JinjaRun) equal(a, b any) (bool, error) {
	if x, ok := a.(string); ok {
		if y, ok := b.(string); ok {
			return x == y, nil
		}
	}
	ua, aUndef := a.(*JinjaUndefined)
	ub, bUndef := b.(*JinjaUndefined)
	if aUndef || bUndef {
		if aUndef && ua.Kind == JinjaStrict {
			return false, ua.fail()
		}
		if bUndef && ub.Kind == JinjaStrict {
			return false, ub.fail()
		}
		return aUndef && bUndef && ua.Kind == ub.Kind, nil
	}
	if x, ok := a.(*jinjaRange); ok {
		y, ok := b.(*jinjaRange)
		return ok && x.len() == y.len() && (x.len() == 0 || x.start == y.start && (x.len() == 1 || x.step == y.step)), nil
	}
	if x, ok := setOf(a); ok {
		if y, ok := setOf(b); ok {
			if len(x) != len(y) {
				return false, nil
			}
			for _, item := range x {
				if has, err := r.contains(&List{Items: y}, item); !has || err != nil {
					return false, err
				}
			}
			return true, nil
		}
	}
	return Equal(a, b), nil
}

// compare runs one comparison operator.
func (r *JinjaRun) compare(op string, a, b any) (bool, error) {
	switch op {
	case "eq":
		return r.equal(a, b)
	case "ne":
		eq, err := r.equal(a, b)
		return !eq, err
	case "in":
		return r.contains(b, a)
	case "notin":
		in, err := r.contains(b, a)
		return !in, err
	}
	if u, ok := a.(*JinjaUndefined); ok {
		return false, u.fail()
	}
	if u, ok := b.(*JinjaUndefined); ok {
		return false, u.fail()
	}
	if isNumber(a) && isNumber(b) {
		c, ok := compareNumbers(a, b)
		if !ok {
			return false, nil // not a number
		}
		return ordered(op, c), nil
	}
	if x, ok := setOf(a); ok {
		if y, ok := setOf(b); ok {
			return r.subset(op, x, y)
		}
	}
	c, err := Compare(a, b)
	if err != nil {
		if strings.Contains(err.Error(), "recursion") {
			return false, jinjaErr("RecursionError", "%s", err)
		}
		sign := map[string]string{"lt": "<", "lteq": "<=", "gt": ">", "gteq": ">="}[op]
		return false, jinjaTypeError("'%s'%s", sign, strings.TrimPrefix(err.Error(), "'<'"))
	}
	return ordered(op, c), nil
}

func ordered(op string, c int) bool {
	switch op {
	case "lt":
		return c < 0
	case "lteq":
		return c <= 0
	case "gt":
		return c > 0
	}
	return c >= 0
}

func (r *JinjaRun) subset(op string, a, b []any) (bool, error) {
	switch op {
	case "gt":
		return r.subset("lt", b, a)
	case "gteq":
		return r.subset("lteq", b, a)
	}
	for _, item := range a {
		if has, err := r.contains(&List{Items: b}, item); !has || err != nil {
			return false, err
		}
	}
	return op == "lteq" || len(a) < len(b), nil
}

func (n *jCompare) eval(r *JinjaRun) (any, error) {
	a, err := n.first.eval(r)
	if err != nil {
		return nil, err
	}
	for i, op := range n.ops {
		b, err := n.rest[i].eval(r)
		if err != nil {
			return nil, err
		}
		ok, err := r.compare(op, a, b)
		if err != nil || !ok {
			return false, err
		}
		a = b
	}
	return true, nil
}
