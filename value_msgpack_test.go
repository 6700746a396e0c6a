// Both dialects of msgpack against vectors, and what is too deep or too long.
package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// readVectors reads one of the files that were recorded from Python Salt.
func readVectors(t testing.TB, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "vectors", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func unbase64(t testing.TB, s string) []byte {
	t.Helper()
	p, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// vectorValue reads a value in the notation of the vectors, which keeps the
// order of maps.
func vectorValue(t testing.TB, raw json.RawMessage) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := vectorToken(d)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}

func vectorToken(d *json.Decoder) (any, error) {
	tok, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch tok := tok.(type) {
	case json.Number:
		if i, err := tok.Int64(); err == nil {
			return i, nil
		}
		return tok.Float64()
	case json.Delim:
		if tok == '[' {
			l := NewList()
			for d.More() {
				v, err := vectorToken(d)
				if err != nil {
					return nil, err
				}
				l.Append(v)
			}
			_, err := d.Token()
			return l, err
		}
		m := NewMap()
		for d.More() {
			k, err := vectorToken(d)
			if err != nil {
				return nil, err
			}
			v, err := vectorToken(d)
			if err != nil {
				return nil, err
			}
			m.Set(k, v)
		}
		if _, err := d.Token(); err != nil {
			return nil, err
		}
		return vectorSpecial(m)
	}
	return tok, nil
}

func vectorSpecial(m *Map) (any, error) {
	if m.Len() != 1 {
		return m, nil
	}
	k, v := m.At(0)
	switch k {
	case "__b64":
		return base64.StdEncoding.DecodeString(v.(string))
	case "__int":
		i, ok := new(big.Int).SetString(v.(string), 10)
		if !ok {
			return nil, fmt.Errorf("bad integer %v", v)
		}
		return normalInt(i), nil
	case "__tuple":
		return Tuple(v.(*List).Items), nil
	case "__set":
		return v, nil
	case "__repeat":
		l := v.(*List)
		return strings.Repeat(l.Items[0].(string), int(l.Items[1].(int64))), nil
	case "__datetime":
		layout := "2006-01-02T15:04:05.999999"
		if len(v.(string)) == 10 {
			layout = "2006-01-02"
		}
		at, err := time.Parse(layout, v.(string))
		return NewDateTime(at), err
	}
	return m, nil
}

// sameOverWire compares a value with a recorded one: JSON has only text keys.
func sameOverWire(got, want any) bool {
	switch want := want.(type) {
	case *Map:
		g, ok := got.(*Map)
		if !ok || g.Len() != want.Len() {
			return false
		}
		for i := 0; i < g.Len(); i++ {
			gk, gv := g.At(i)
			wk, wv := want.At(i)
			if Str(gk) != Str(wk) || !sameOverWire(gv, wv) {
				return false
			}
		}
		return true
	case *List:
		g, ok := got.(*List)
		if !ok || g.Len() != want.Len() {
			return false
		}
		for i := range g.Items {
			if !sameOverWire(g.Items[i], want.Items[i]) {
				return false
			}
		}
		return true
	}
	return TypeName(got) == TypeName(want) && Equal(got, want)
}

func TestMsgpackVectors(t *testing.T) {
	var file struct {
		Vectors []struct {
			Name        string
			Value       json.RawMessage
			WireB64     *string         `json:"wire_b64"`
			BinB64      *string         `json:"bin_b64"`
			LoadsWire   json.RawMessage `json:"loads_wire"`
			LoadsBin    json.RawMessage `json:"loads_bin"`
			WireHeadHex string          `json:"wire_head_hex"`
			BinHeadHex  string          `json:"bin_head_hex"`
		}
	}
	readVectors(t, "msgpack", &file)
	if len(file.Vectors) < 40 {
		t.Fatalf("only %d vectors", len(file.Vectors))
	}
	for _, v := range file.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			value := vectorValue(t, v.Value)
			if v.Name == "int keys" { // JSON cannot say it
				value = NewMap(int64(1), "a", int64(2), "b")
			}
			wire, err := EncodeWire(value)
			if err != nil {
				t.Fatal(err)
			}
			bin, err := EncodeBin(value)
			if err != nil {
				t.Fatal(err)
			}
			if v.WireB64 == nil {
				if head := fmt.Sprintf("%x", wire[:len(v.WireHeadHex)/2]); head != v.WireHeadHex {
					t.Errorf("wire begins %s, want %s", head, v.WireHeadHex)
				}
				if head := fmt.Sprintf("%x", bin[:len(v.BinHeadHex)/2]); head != v.BinHeadHex {
					t.Errorf("bin begins %s, want %s", head, v.BinHeadHex)
				}
				return
			}
			if want := unbase64(t, *v.WireB64); !bytes.Equal(wire, want) {
				t.Errorf("wire %x, want %x", wire, want)
			}
			if want := unbase64(t, *v.BinB64); !bytes.Equal(bin, want) {
				t.Errorf("bin %x, want %x", bin, want)
			}
			for _, d := range []struct {
				name   string
				decode func([]byte) (any, error)
				p      []byte
				want   json.RawMessage
			}{{"wire", DecodeWire, wire, v.LoadsWire}, {"bin", DecodeBin, bin, v.LoadsBin}} {
				got, err := d.decode(d.p)
				if err != nil {
					t.Fatalf("decode %s: %v", d.name, err)
				}
				if want := vectorValue(t, d.want); !sameOverWire(got, want) {
					t.Errorf("decode %s: %s, want %s", d.name, Repr(got), Repr(want))
				}
				stream := NewBinStream(bytes.NewReader(append(bytes.Clone(d.p), d.p...)), 1<<20)
				for range 2 {
					if _, err := stream.Next(); err != nil {
						t.Errorf("stream %s: %v", d.name, err)
					}
				}
				if _, err := stream.Next(); err != io.EOF {
					t.Errorf("stream %s ends with %v", d.name, err)
				}
			}
		})
	}
}

func TestMsgpackRefuses(t *testing.T) {
	deep := bytes.Repeat([]byte{0x91}, 600)
	for name, p := range map[string][]byte{
		"nothing":                    {},
		"code that does not exist":   {0xc1},
		"array of 2^32-1":            {0xdd, 0xff, 0xff, 0xff, 0xff},
		"map of 2^32-1":              {0xdf, 0xff, 0xff, 0xff, 0xff},
		"text of 2^32-1":             {0xdb, 0xff, 0xff, 0xff, 0xff, 'a'},
		"bytes of 2^32-1":            {0xc6, 0xff, 0xff, 0xff, 0xff, 'a'},
		"extension of 2^32-1":        {0xc9, 0xff, 0xff, 0xff, 0xff, 78},
		"list as key":                {0x81, 0x90, 0x01},
		"map as key":                 {0x81, 0x80, 0x01},
		"nested too deeply":          append(deep, 0xc0),
		"two values":                 {0x01, 0x02},
		"torn integer":               {0xcf, 0x00},
		"torn float":                 {0xcb, 0x00},
		"date that is none":          {0xd4, 78, 'x'},
		"constant that is no pair":   {0xd4, 79, 0xc0},
		"map with half a pair":       {0x82, 0x01, 0x02, 0x03},
		"array shorter than it says": {0x93, 0x01, 0x02},
	} {
		if v, err := DecodeWire(p); err == nil {
			t.Errorf("%s: decoded as %s", name, Repr(v))
		}
		if v, err := DecodeBin(p); err == nil {
			t.Errorf("%s: decoded as %s", name, Repr(v))
		}
	}
	loop := NewList()
	loop.Append(loop)
	if _, err := EncodeWire(loop); err == nil {
		t.Error("a list that holds itself was encoded")
	}
}

func TestMsgpackExtensions(t *testing.T) {
	constant, _ := EncodeBin(NewList("NOT_SET", int64(7)))
	p := append([]byte{0xc7, byte(len(constant)), extConstant}, constant...)
	if v, err := DecodeWire(p); err != nil || !Equal(v, int64(7)) {
		t.Errorf("constant: %v, %v", v, err)
	}
	if v, err := DecodeBin([]byte{0xd6, 5, 1, 2, 3, 0xff}); err != nil || !Equal(v, []byte{1, 2, 3, 0xff}) {
		t.Errorf("unknown extension: %v, %v", v, err)
	}
	d := NewDateTime(time.Date(2024, 1, 2, 3, 4, 5, 678000, time.UTC))
	if s := Str(d); s != "2024-01-02 03:04:05.000678" {
		t.Errorf("str: %s", s)
	}
	if s := Repr(d); s != "datetime.datetime(2024, 1, 2, 3, 4, 5, 678)" {
		t.Errorf("repr: %s", s)
	}
}

func TestBinStreamLimits(t *testing.T) {
	big, _ := EncodeBin(strings.Repeat("x", 5000))
	if _, err := NewBinStream(bytes.NewReader(big), 4000).Next(); err == nil {
		t.Error("a value above the limit was read")
	}
	// What is announced is not allocated: memory follows what arrives.
	s := NewBinStream(bytes.NewReader([]byte{0xc6, 0xff, 0xff, 0xff, 0xff, 1}), 1<<40)
	if _, err := s.Next(); err != io.ErrUnexpectedEOF {
		t.Errorf("torn value: %v", err)
	}
	if _, err := NewBinStream(bytes.NewReader([]byte{0x92, 0x01}), 100).Next(); err != io.ErrUnexpectedEOF {
		t.Errorf("torn list: %v", err)
	}
	if _, err := NewBinStream(bytes.NewReader([]byte{0xdd, 0xff, 0xff, 0xff, 0xff}), 100).Next(); err == nil {
		t.Error("an array of 2^32-1 values was begun")
	}
}

func FuzzDecodeWire(f *testing.F) {
	var file struct {
		Vectors []struct {
			WireB64 string `json:"wire_b64"`
			BinB64  string `json:"bin_b64"`
		}
	}
	readVectors(f, "msgpack", &file)
	for _, v := range file.Vectors {
		f.Add(unbase64(f, v.WireB64))
		f.Add(unbase64(f, v.BinB64))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		for _, decode := range []func([]byte) (any, error){DecodeWire, DecodeBin} {
			v, err := decode(p)
			if err != nil {
				continue
			}
			// What was decoded can be encoded, and then decodes to itself.
			q, err := EncodeBin(v)
			if err != nil {
				t.Fatalf("encode %s: %v", Repr(v), err)
			}
			w, err := DecodeBin(q)
			if err != nil {
				t.Fatalf("decode again: %v", err)
			}
			if Repr(v) != Repr(w) {
				t.Fatalf("%s became %s", Repr(v), Repr(w))
			}
			if _, err := EncodeWire(v); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func FuzzBinStream(f *testing.F) {
	f.Add([]byte{0x82, 0xa1, 'a', 0x01, 0xa1, 'b', 0xc4, 2, 1, 2, 0xc0})
	f.Add([]byte{0xd8, 78, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	f.Fuzz(func(t *testing.T, p []byte) {
		// The stream finds the same borders between values as the decoder.
		s := NewBinStream(bytes.NewReader(p), 1<<16)
		var read []byte
		for {
			q, err := s.nextBytes()
			if err != nil {
				break
			}
			read = append(read, q...)
			if len(q) == 0 || !bytes.HasPrefix(p, read) {
				t.Fatalf("read %x of %x", read, p)
			}
		}
		if v, err := DecodeBin(p); err == nil {
			got, err := NewBinStream(bytes.NewReader(p), 1<<16).Next()
			if err != nil || Repr(got) != Repr(v) {
				t.Fatalf("stream has %v (%v), decoder %s", got, err, Repr(v))
			}
		}
	})
}

func BenchmarkDecodeReturn(b *testing.B) {
	p, _ := EncodeWire(sampleReturn())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeWire(p); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeReturn(b *testing.B) {
	v := sampleReturn()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := EncodeWire(v); err != nil {
			b.Fatal(err)
		}
	}
}

func sampleReturn() *Map {
	return NewMap("cmd", "_return", "id", "minion-00001", "success", true, "return", true, "retcode", int64(0),
		"jid", "20261130120258127067", "fun", "test.ping", "fun_args", NewList(), "user", "root",
		"_stamp", "2026-11-30T12:02:58.127100", "nonce", "0123456789abcdef0123456789abcdef",
		"ts", int64(1796041085), "tok", bytes.Repeat([]byte{0xfe}, 256))
}
