// Messages between the minion and the processes of user-written modules: JSON
// with a form for what JSON lacks. Bytes, tuples and mappings with keys that are
// no text travel as {"!": kind, "v": …}; python/host.py has the other end.
package main

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
)

// maxHostMessage bounds one message, so that a broken module cannot make the
// minion allocate what it likes. 1 GiB.
const maxHostMessage = 1 << 30

// appendHostJSON writes v. Text that is no UTF-8 is sent as bytes.
func appendHostJSON(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case *big.Int:
		return v.Append(b, 10)
	case float64:
		switch {
		case math.IsNaN(v):
			return append(b, "NaN"...)
		case math.IsInf(v, 1):
			return append(b, "Infinity"...)
		case math.IsInf(v, -1):
			return append(b, "-Infinity"...)
		}
		s := formatFloat(v)
		return append(b, s...)
	case string:
		q, _ := json.Marshal(v)
		return append(b, q...)
	case []byte:
		b = append(b, `{"!":"b","v":"`...)
		b = base64.StdEncoding.AppendEncode(b, v)
		return append(b, `"}`...)
	case *List:
		return appendHostItems(b, v.Items)
	case Tuple:
		b = append(b, `{"!":"t","v":`...)
		b = appendHostItems(b, v)
		return append(b, '}')
	case *Map:
		plain := !v.Has("!")
		for k := range v.All() {
			if _, ok := k.(string); !ok {
				plain = false
			}
		}
		if !plain {
			b = append(b, `{"!":"m","v":[`...)
			first := true
			for k, x := range v.All() {
				if !first {
					b = append(b, ',')
				}
				first = false
				b = append(b, '[')
				b = appendHostJSON(b, k)
				b = append(b, ',')
				b = appendHostJSON(b, x)
				b = append(b, ']')
			}
			return append(b, `]}`...)
		}
		b = append(b, '{')
		first := true
		for k, x := range v.All() {
			if !first {
				b = append(b, ',')
			}
			first = false
			b = appendHostJSON(b, k)
			b = append(b, ':')
			b = appendHostJSON(b, x)
		}
		return append(b, '}')
	case Object:
		return appendHostJSON(b, v.Repr())
	}
	return appendHostJSON(b, FromGo(v))
}

func appendHostItems(b []byte, items []any) []byte {
	b = append(b, '[')
	for i, x := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendHostJSON(b, x)
	}
	return append(b, ']')
}

// unpackHost undoes the tagging in a decoded message.
func unpackHost(v any) any {
	switch v := v.(type) {
	case *List:
		for i := range v.Items {
			v.Items[i] = unpackHost(v.Items[i])
		}
	case *Map:
		switch v.Str("!") {
		case "b":
			p, err := base64.StdEncoding.DecodeString(v.Str("v"))
			if err != nil {
				return nil
			}
			return p
		case "t":
			if l := v.List("v"); l != nil {
				unpackHost(l)
				return Tuple(l.Items)
			}
		case "m":
			out := &Map{}
			if l := v.List("v"); l != nil {
				for _, pair := range l.Items {
					if p, ok := pair.(*List); ok && p.Len() == 2 {
						if k := unpackHost(p.Items[0]); Hashable(k) {
							out.Set(k, unpackHost(p.Items[1]))
						}
					}
				}
			}
			return out
		}
		for _, k := range v.Keys() {
			v.Set(k, unpackHost(v.Value(k)))
		}
	}
	return v
}

// writeHostMessage sends one message with its length before it.
func writeHostMessage(w io.Writer, m *Map) error {
	body := appendHostJSON(make([]byte, 4, 512), m)
	if len(body)-4 > maxHostMessage {
		return fmt.Errorf("a message of %d bytes is too large for a module", len(body)-4)
	}
	binary.BigEndian.PutUint32(body, uint32(len(body)-4))
	_, err := w.Write(body)
	return err
}

// readHostMessage reads one message; io.EOF if the other end has gone.
func readHostMessage(r io.Reader) (*Map, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxHostMessage {
		return nil, fmt.Errorf("the module announces %d bytes, more than allowed", n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	v, err := DecodeJSON(body)
	if err != nil {
		return nil, fmt.Errorf("message of a module: %w", err)
	}
	m, ok := v.(*Map)
	if !ok {
		return nil, errors.New("message of a module: no mapping")
	}
	return m, nil
}
