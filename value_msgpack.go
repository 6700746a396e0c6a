// MessagePack: values to bytes and back, in Salt's two dialects.
//
// The wire dialect (everything on 4505/4506, token and proc files) writes text
// and bytes alike, in the old raw family without str8; its reader makes text
// of every byte string that is valid UTF-8. The bin dialect (event bus, caches)
// keeps text and bytes apart.
//
// The law of this room: bytes come from strangers. A count or length is
// compared with the bytes that are there before anything is allocated, depth
// and number of values are bounded, and a message is one value with nothing
// behind it.
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

const (
	msgpackMaxDepth  = 511     // what Python's packer can make
	msgpackMaxValues = 1 << 22 // in one message, keys counted

	extDateTime = 78
	extConstant = 79 // a pair (name, value) in the bin dialect
)

// EncodeWire encodes in the wire dialect.
func EncodeWire(v any) ([]byte, error) { return appendMsgpack(nil, v, true) }

// EncodeBin encodes in the bin dialect.
func EncodeBin(v any) ([]byte, error) { return appendMsgpack(nil, v, false) }

// DecodeWire decodes the one value in p, written in either dialect; byte
// strings that are valid UTF-8 become text.
func DecodeWire(p []byte) (any, error) { return decodeMsgpack(p, true) }

// DecodeBin decodes the one value in p and keeps text and bytes as typed.
func DecodeBin(p []byte) (any, error) { return decodeMsgpack(p, false) }

// appendMsgpack appends the encoding of v to dst.
func appendMsgpack(dst []byte, v any, wire bool) ([]byte, error) {
	buf := bytes.NewBuffer(dst)
	e := msgpackEncoder{buf: buf, enc: msgpack.GetEncoder(), wire: wire}
	e.enc.Reset(buf)
	err := e.value(v, 0)
	msgpack.PutEncoder(e.enc)
	if err != nil {
		return nil, fmt.Errorf("encode msgpack: %w", err)
	}
	return buf.Bytes(), nil
}

type msgpackEncoder struct {
	buf  *bytes.Buffer // enc writes here without a buffer of its own
	enc  *msgpack.Encoder
	wire bool
}

func (e *msgpackEncoder) value(v any, depth int) error {
	if depth > msgpackMaxDepth {
		return errors.New("value is nested too deeply")
	}
	switch v := v.(type) {
	case nil:
		return e.enc.EncodeNil()
	case bool:
		return e.enc.EncodeBool(v)
	case int64:
		return e.enc.EncodeInt(v)
	case *big.Int:
		switch {
		case v.IsInt64():
			return e.enc.EncodeInt(v.Int64())
		case v.IsUint64():
			return e.enc.EncodeUint(v.Uint64())
		}
		return e.text(v.String()) // Salt's substitute for what msgpack cannot hold
	case float64:
		return e.enc.EncodeFloat64(v)
	case string:
		return e.text(v)
	case []byte:
		if e.wire {
			if err := e.textHeader(len(v), true); err != nil {
				return err
			}
		} else if err := e.enc.EncodeBytesLen(len(v)); err != nil {
			return err
		}
		e.buf.Write(v)
		return nil
	case *List:
		if v == nil {
			return e.enc.EncodeArrayLen(0)
		}
		return e.items(v.Items, depth)
	case Tuple:
		return e.items(v, depth)
	case *Map:
		if err := e.enc.EncodeMapLen(v.Len()); err != nil {
			return err
		}
		for i := 0; i < v.Len(); i++ {
			k, item := v.At(i)
			if _, ok := k.(Tuple); ok { // no receiver could read it
				return fmt.Errorf("the tuple %s cannot be the key of a mapping that is sent", Repr(k))
			}
			if err := e.value(k, depth+1); err != nil {
				return err
			}
			if err := e.value(item, depth+1); err != nil {
				return err
			}
		}
		return nil
	case *Set:
		return e.items(v.Items(), depth)
	case DateTime:
		s := v.t.Format(dateTimeWire)
		if err := e.enc.EncodeExtHeader(extDateTime, len(s)); err != nil {
			return err
		}
		e.buf.WriteString(s)
		return nil
	case Object:
		return e.text(Str(v))
	}
	return e.value(FromGo(v), depth+1)
}

func (e *msgpackEncoder) items(items []any, depth int) error {
	if err := e.enc.EncodeArrayLen(len(items)); err != nil {
		return err
	}
	for _, item := range items {
		if err := e.value(item, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// text writes a text. Outside the wire dialect a text that is not UTF-8 goes as
// bytes, since a Python reader would refuse the whole message for it.
func (e *msgpackEncoder) text(s string) error {
	if !e.wire && !utf8.ValidString(s) {
		if err := e.enc.EncodeBytesLen(len(s)); err != nil {
			return err
		}
	} else if err := e.textHeader(len(s), e.wire); err != nil {
		return err
	}
	e.buf.WriteString(s)
	return nil
}

// textHeader writes the header of a text of n bytes; old readers do not know
// the one-byte length.
func (e *msgpackEncoder) textHeader(n int, old bool) error {
	switch {
	case n < 32:
		e.buf.WriteByte(msgpcode.FixedStrLow | byte(n))
	case n < 256 && !old:
		e.buf.Write([]byte{msgpcode.Str8, byte(n)})
	case n <= math.MaxUint16:
		e.buf.Write([]byte{msgpcode.Str16, byte(n >> 8), byte(n)})
	case int64(n) <= math.MaxUint32:
		e.buf.WriteByte(msgpcode.Str32)
		var size [4]byte
		binary.BigEndian.PutUint32(size[:], uint32(n))
		e.buf.Write(size[:])
	default:
		return errors.New("text is longer than 4 GiB")
	}
	return nil
}

// rawHeader is what stands before n bytes in the wire dialect.
func rawHeader(n int) ([]byte, error) {
	var head bytes.Buffer
	err := (&msgpackEncoder{buf: &head}).textHeader(n, true)
	return head.Bytes(), err
}

func decodeMsgpack(p []byte, wire bool) (any, error) {
	return (&msgpackDecoder{p: p, wire: wire}).message()
}

// decodeOwnedWire is DecodeWire for a message that nobody else has: large bytes
// of the value are parts of it, not copies.
func decodeOwnedWire(p []byte) (any, error) {
	return (&msgpackDecoder{p: p, wire: true, owned: true}).message()
}

// message decodes p, which must be one value.
func (d *msgpackDecoder) message() (any, error) {
	d.r, d.dec = bytes.NewReader(d.p), msgpack.GetDecoder()
	d.dec.Reset(d.r)
	v, err := d.value(0)
	msgpack.PutDecoder(d.dec)
	if err == nil && d.r.Len() > 0 {
		err = fmt.Errorf("%d bytes behind the value", d.r.Len())
	}
	if err != nil {
		return nil, fmt.Errorf("decode msgpack: %w", err)
	}
	return v, nil
}

type msgpackDecoder struct {
	p      []byte        // the message
	r      *bytes.Reader // on p; dec reads from it without a buffer of its own
	dec    *msgpack.Decoder
	wire   bool
	owned  bool // p belongs to the value from now on
	values int
}

func (d *msgpackDecoder) value(depth int) (any, error) {
	if depth > msgpackMaxDepth {
		return nil, errors.New("value is nested too deeply")
	}
	if d.values++; d.values > msgpackMaxValues {
		return nil, errors.New("message has too many values")
	}
	c, err := d.dec.PeekCode()
	if err != nil {
		return nil, noEOF(err)
	}
	switch {
	case msgpcode.IsFixedNum(c):
		return d.integer()
	case msgpcode.IsFixedString(c), c == msgpcode.Str8, c == msgpcode.Str16, c == msgpcode.Str32:
		return d.text(true)
	case msgpcode.IsFixedMap(c), c == msgpcode.Map16, c == msgpcode.Map32:
		return d.mapping(depth)
	case msgpcode.IsFixedArray(c), c == msgpcode.Array16, c == msgpcode.Array32:
		return d.array(depth)
	case msgpcode.IsBin(c):
		return d.text(d.wire)
	case msgpcode.IsExt(c):
		return d.extension(depth)
	}
	switch c {
	case msgpcode.Nil:
		return nil, d.dec.DecodeNil()
	case msgpcode.False, msgpcode.True:
		return d.dec.DecodeBool()
	case msgpcode.Float, msgpcode.Double:
		f, err := d.dec.DecodeFloat64()
		return f, noEOF(err)
	case msgpcode.Uint64:
		u, err := d.dec.DecodeUint64()
		if u > math.MaxInt64 {
			return new(big.Int).SetUint64(u), noEOF(err)
		}
		return int64(u), noEOF(err)
	case msgpcode.Uint8, msgpcode.Uint16, msgpcode.Uint32,
		msgpcode.Int8, msgpcode.Int16, msgpcode.Int32, msgpcode.Int64:
		return d.integer()
	}
	return nil, fmt.Errorf("code %#x does not exist", c)
}

func (d *msgpackDecoder) integer() (any, error) {
	i, err := d.dec.DecodeInt64()
	if err != nil {
		return nil, noEOF(err)
	}
	return i, nil
}

// take returns the next n bytes of the message, not copied.
func (d *msgpackDecoder) take(n int) ([]byte, error) {
	if n < 0 || n > d.r.Len() {
		return nil, io.ErrUnexpectedEOF
	}
	at := len(d.p) - d.r.Len()
	d.r.Seek(int64(n), io.SeekCurrent) // cannot fail within the message
	return d.p[at : at+n], nil
}

// text reads a byte string; asText makes text of it where it is valid UTF-8.
func (d *msgpackDecoder) text(asText bool) (any, error) {
	n, err := d.dec.DecodeBytesLen()
	if err != nil {
		return nil, noEOF(err)
	}
	raw, err := d.take(n)
	if err != nil {
		return nil, err
	}
	if d.owned && n >= msgpackShared && !(asText && utf8.Valid(raw)) {
		return raw, nil
	}
	return textOrBytes(raw, asText), nil
}

// msgpackShared is how large bytes must be for keeping their message alive.
const msgpackShared = 64 << 10

func textOrBytes(raw []byte, asText bool) any {
	if asText && utf8.Valid(raw) {
		return string(raw)
	}
	return bytes.Clone(raw)
}

func (d *msgpackDecoder) array(depth int) (any, error) {
	n, err := d.dec.DecodeArrayLen()
	if err != nil {
		return nil, noEOF(err)
	}
	if n < 0 || n > d.r.Len() || n > msgpackMaxValues {
		return nil, fmt.Errorf("array announces %d values in %d bytes", n, d.r.Len())
	}
	l := &List{Items: make([]any, n)}
	for i := range l.Items {
		if l.Items[i], err = d.value(depth + 1); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (d *msgpackDecoder) mapping(depth int) (any, error) {
	n, err := d.dec.DecodeMapLen()
	if err != nil {
		return nil, noEOF(err)
	}
	if n < 0 || n > d.r.Len()/2 || n > msgpackMaxValues {
		return nil, fmt.Errorf("map announces %d pairs in %d bytes", n, d.r.Len())
	}
	m := &Map{keys: make([]any, 0, n), vals: make([]any, 0, n)}
	for ; n > 0; n-- {
		k, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if _, isText := k.(string); !isText && !Hashable(k) {
			return nil, fmt.Errorf("a %s cannot be the key of a map", TypeName(k))
		}
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		m.Set(k, v)
	}
	return m, nil
}

func (d *msgpackDecoder) extension(depth int) (any, error) {
	id, n, err := d.dec.DecodeExtHeader()
	if err != nil {
		return nil, noEOF(err)
	}
	raw, err := d.take(n)
	if err != nil {
		return nil, err
	}
	switch id {
	case extDateTime:
		t, err := parseDateTime(string(raw))
		if err != nil {
			return nil, fmt.Errorf("date and time: %w", err)
		}
		return t, nil
	case extConstant:
		if depth > 8 { // each level may hold another message
			return nil, errors.New("value is nested too deeply")
		}
		inner := msgpackDecoder{p: raw, r: bytes.NewReader(raw), dec: msgpack.GetDecoder(), values: d.values}
		inner.dec.Reset(inner.r)
		v, err := inner.value(depth + 1)
		msgpack.PutDecoder(inner.dec)
		d.values = inner.values
		if err != nil {
			return nil, err
		}
		if pair, ok := v.(*List); ok && pair.Len() == 2 && inner.r.Len() == 0 {
			return pair.Items[1], nil
		}
		return nil, errors.New("constant is not a pair")
	}
	return textOrBytes(raw, d.wire), nil
}

// noEOF makes the end of input inside a value the error it is.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// BinStream reads values of the bin dialect that stand back to back in a
// stream, as on the event bus.
type BinStream struct {
	r   *bufio.Reader
	max int64
}

// NewBinStream reads from r; a value of more than max bytes is an error, as is
// every further read then.
func NewBinStream(r io.Reader, max int64) *BinStream {
	return &BinStream{r: bufio.NewReaderSize(r, 32<<10), max: max}
}

// Next returns the next value; io.EOF if the stream ends between two values.
func (s *BinStream) Next() (any, error) {
	p, err := s.nextBytes()
	if err != nil {
		return nil, err
	}
	return DecodeBin(p)
}

// nextBytes collects the bytes of one value. It follows the headers only,
// counting the values that are still to come, so that nothing is decoded
// before the value is complete and known to be within the limit.
func (s *BinStream) nextBytes() ([]byte, error) {
	var buf []byte
	grow := func(n int64) ([]byte, error) {
		if int64(len(buf))+n > s.max {
			return nil, fmt.Errorf("value in the stream is larger than %d bytes", s.max)
		}
		for n > 0 { // in pieces: an announced size is not yet a received one
			piece := min(n, 64<<10)
			at := len(buf)
			buf = append(buf, make([]byte, piece)...)
			if _, err := io.ReadFull(s.r, buf[at:]); err != nil {
				return nil, noEOF(err)
			}
			n -= piece
		}
		return buf, nil
	}
	// sized reads a big-endian number of width bytes and returns it.
	sized := func(width int64) (int64, error) {
		if _, err := grow(width); err != nil {
			return 0, err
		}
		var n int64
		for _, b := range buf[int64(len(buf))-width:] {
			n = n<<8 | int64(b)
		}
		return n, nil
	}
	for open := int64(1); open > 0; open-- {
		c, err := s.r.ReadByte()
		if err != nil {
			if len(buf) > 0 {
				err = noEOF(err)
			}
			return nil, err
		}
		if buf = append(buf, c); int64(len(buf)) > s.max {
			return nil, fmt.Errorf("value in the stream is larger than %d bytes", s.max)
		}
		width, unit, fixed := msgpackShape(c)
		n := fixed
		if width > 0 {
			more, err := sized(width)
			if err != nil {
				return nil, err
			}
			n += more
		}
		if unit == 0 {
			if _, err := grow(n); err != nil {
				return nil, err
			}
			continue
		}
		if open += n * unit; open > s.max { // each value takes a byte at least
			return nil, fmt.Errorf("value in the stream is larger than %d bytes", s.max)
		}
	}
	return buf, nil
}

// msgpackShape describes what follows a code: width bytes of a number, and then
// number + fixed more bytes (unit 0) or number + fixed times unit values.
func msgpackShape(c byte) (width, unit, fixed int64) {
	switch {
	case msgpcode.IsFixedMap(c):
		return 0, 2, int64(c & msgpcode.FixedMapMask)
	case msgpcode.IsFixedArray(c):
		return 0, 1, int64(c & msgpcode.FixedArrayMask)
	case msgpcode.IsFixedString(c):
		return 0, 0, int64(c & msgpcode.FixedStrMask)
	}
	switch c {
	case msgpcode.Map16:
		return 2, 2, 0
	case msgpcode.Map32:
		return 4, 2, 0
	case msgpcode.Array16:
		return 2, 1, 0
	case msgpcode.Array32:
		return 4, 1, 0
	case msgpcode.Str8, msgpcode.Bin8:
		return 1, 0, 0
	case msgpcode.Str16, msgpcode.Bin16:
		return 2, 0, 0
	case msgpcode.Str32, msgpcode.Bin32:
		return 4, 0, 0
	case msgpcode.Ext8:
		return 1, 0, 1
	case msgpcode.Ext16:
		return 2, 0, 1
	case msgpcode.Ext32:
		return 4, 0, 1
	case msgpcode.FixExt1, msgpcode.FixExt2, msgpcode.FixExt4, msgpcode.FixExt8, msgpcode.FixExt16:
		return 0, 0, 1 + int64(1)<<(c-msgpcode.FixExt1)
	case msgpcode.Uint8, msgpcode.Int8:
		return 0, 0, 1
	case msgpcode.Uint16, msgpcode.Int16:
		return 0, 0, 2
	case msgpcode.Uint32, msgpcode.Int32, msgpcode.Float:
		return 0, 0, 4
	case msgpcode.Uint64, msgpcode.Int64, msgpcode.Double:
		return 0, 0, 8
	}
	return 0, 0, 0
}
