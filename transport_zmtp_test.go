// The bytes of ZMTP: recorded handshakes of libzmq, whatever a peer could send
// instead, and fuzz targets for each decoder.
package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// zmtpRecord is one thing seen between a real master and a real minion.
type zmtpRecord struct {
	Socket, Dir, Kind, Hex string
	Parts                  []string `json:"parts_b64"`
}

func (r zmtpRecord) bytes(t *testing.T) []byte {
	b, err := hex.DecodeString(r.Hex)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func zmtpRecords(t *testing.T) (seen, filtered []zmtpRecord) {
	text, err := os.ReadFile("testdata/vectors/zmtp.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Seen   []zmtpRecord
		Filter struct{ Messages []zmtpRecord } `json:"zmq_filtering_on"`
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v.Seen, v.Filter.Messages
}

func TestZMTPRecorded(t *testing.T) {
	seen, filtered := zmtpRecords(t)
	kinds := map[string]int{}
	for _, r := range append(seen, filtered...) {
		switch r.Kind {
		case "greeting":
			if b := r.bytes(t); len(b) != greetingSize || checkGreeting(b) != nil {
				t.Errorf("%s: greeting %s: %v", r.Dir, r.Hex, checkGreeting(b))
			}
			kinds["greeting"]++
		case "command":
			name, data, err := decodeCommand(r.bytes(t))
			if err != nil {
				t.Errorf("%s: command %s: %v", r.Dir, r.Hex, err)
				continue
			}
			kinds[name]++
			if name != "READY" {
				continue
			}
			ready, err := decodeReady(data)
			if err != nil {
				t.Errorf("%s: %s: %v", r.Dir, r.Hex, err)
				continue
			}
			kinds[ready.socketType]++
			// What libzmq says, we say in the same bytes.
			if got := encodeReady(ready); !bytes.Equal(got, r.bytes(t)) && ready.socketType != "SUB" {
				t.Errorf("READY of %s: %x, libzmq says %s", ready.socketType, got, r.Hex)
			}
		}
	}
	for _, k := range []string{"greeting", "READY", "SUBSCRIBE", "REQ", "ROUTER", "PUB", "SUB"} {
		if kinds[k] == 0 {
			t.Errorf("no %s among the records", k)
		}
	}
}

// The recorded peers get through our handshake, each with the socket of ours
// that it met; also when the bytes come one at a time.
func TestZMTPRecordedHandshake(t *testing.T) {
	seen, _ := zmtpRecords(t)
	ours := map[string]string{"REQ": "ROUTER", "ROUTER": "REQ", "SUB": "PUB", "PUB": "SUB"}
	for _, r := range seen {
		if r.Kind != "command" {
			continue
		}
		name, data, err := decodeCommand(r.bytes(t))
		if err != nil || name != "READY" {
			continue
		}
		ready, err := decodeReady(data)
		if err != nil {
			t.Fatal(err)
		}
		said := append(appendHeader(appendGreeting(nil), flagCommand, len(r.bytes(t))), r.bytes(t)...)
		for _, slow := range []bool{false, true} {
			l, wrote := playLink(said, slow)
			if err := l.handshake(ours[ready.socketType]); err != nil {
				t.Errorf("%s: %v", r.Hex, err)
			}
			if l.peer != ready {
				t.Errorf("peer %+v, want %+v", l.peer, ready)
			}
			if !bytes.Equal(wrote.Bytes(), playedHandshake(ours[ready.socketType])) {
				t.Errorf("we said %x", wrote.Bytes())
			}
		}
	}
}

// A filtered publication with its two parts goes through link and zmq4 seam
// unchanged.
func TestZMTPRecordedPublication(t *testing.T) {
	_, filtered := zmtpRecords(t)
	ctx := transportTest(t)
	p := listenPublisher(t, ctx, TransportOptions{})
	var topics []string
	for _, r := range filtered {
		if name, data, err := decodeCommand(r.bytes(t)); r.Kind == "command" && err == nil && name == "SUBSCRIBE" {
			topics = append(topics, string(data))
		}
	}
	s := dialSubscriber(t, ctx, p, TransportOptions{}, topics...)
	messages := 0
	for _, r := range filtered {
		if r.Kind != "message" {
			continue
		}
		messages++
		var parts [][]byte
		for _, text := range r.Parts {
			b, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, b)
		}
		if n := p.Publish(parts...); n != 1 {
			t.Errorf("message for %q went to %d", parts[0], n)
		}
		if got, err := s.Recv(ctx); err != nil || !slices.EqualFunc(got, parts, bytes.Equal) {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if messages == 0 {
		t.Error("no messages among the records")
	}
}

func TestZMTPGreetingRefused(t *testing.T) {
	good := appendGreeting(nil)
	for n := range good {
		if err := checkGreeting(good[:n]); err != nil {
			t.Errorf("%d bytes of a good greeting: %v", n, err)
		}
	}
	change := func(at int, b ...byte) []byte {
		g := slices.Clone(good)
		copy(g[at:], b)
		return g
	}
	for name, c := range map[string]struct {
		bytes  []byte
		reason string
	}{
		"http":     {[]byte("G"), reasonNotZMTP},
		"zmtp 1":   {[]byte{1, 0}, reasonNotZMTP},
		"unsigned": {change(9, 0)[:10], reasonNotZMTP},
		"zmtp 2":   {change(10, 1)[:11], reasonVersion},
		"curve":    {change(12, []byte("CURVE")...), reasonMechanism},
		"nullx":    {change(12, []byte("NULLX")...), reasonMechanism},
	} {
		var f *fault
		if err := checkGreeting(c.bytes); !errors.As(err, &f) || f.reason != c.reason {
			t.Errorf("%s: %v, want %s", name, err, c.reason)
		}
	}
	if err := checkGreeting(change(10, 4)); err != nil {
		t.Errorf("a later version is not refused: %v", err)
	}
}

func TestZMTPHeader(t *testing.T) {
	for _, size := range []int{0, 1, 255, 256, 1 << 40} {
		for _, flags := range []byte{0, flagMore, flagCommand} {
			b := appendHeader(nil, flags, size)
			h, n, err := decodeHeader(append(b, "rest"...))
			if err != nil || n != len(b) || h.size != int64(size) || h.more() != (flags == flagMore) || h.command() != (flags == flagCommand) {
				t.Errorf("size %d flags %d: %+v, %d, %v", size, flags, h, n, err)
			}
			for k := range b {
				if _, n, err := decodeHeader(b[:k]); n != 0 || err != nil {
					t.Errorf("%d of %d bytes: %d, %v", k, len(b), n, err)
				}
			}
		}
	}
	for _, bad := range []string{"08", "80ff", "0500", "02ffffffffffffffff", "028000000000000000"} {
		b, _ := hex.DecodeString(bad)
		if h, _, err := decodeHeader(b); err == nil {
			t.Errorf("%s was taken: %+v", bad, h)
		}
	}
}

func TestZMTPReadyRefused(t *testing.T) {
	property := func(name, value string) string {
		return string([]byte{byte(len(name))}) + name + string([]byte{0, 0, 0, byte(len(value))}) + value
	}
	for _, c := range []struct{ data, want string }{
		{"", "no socket type"},
		{property("Identity", "x"), "no socket type"},
		{"\x00\x00\x00\x00\x00", "empty property name"},
		{"\x03abc", "truncated property"},
		{"\xffabc", "truncated property"},
		{"\x0bSocket-Type\xff\xff\xff\xffREQ", "truncated value"},
		{property("Socket-Type", "REQ") + property("socket-type", "SUB"), "two socket types"},
	} {
		if r, err := decodeReady([]byte(c.data)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %+v, %v; want %q", c.data, r, err, c.want)
		}
	}
	r, err := decodeReady([]byte(property("SOCKET-TYPE", "REQ") + property("X-Other", "y") + property("identity", "me")))
	if want := (readyInfo{"REQ", "me"}); err != nil || r != want {
		t.Errorf("%+v, %v", r, err)
	}
}

// playConn is a connection whose peer said everything already.
type playConn struct {
	net.Conn
	io.Reader
	io.Writer
}

func (c playConn) Read(p []byte) (int, error)     { return c.Reader.Read(p) }
func (c playConn) Write(p []byte) (int, error)    { return c.Writer.Write(p) }
func (playConn) Close() error                     { return nil }
func (playConn) SetDeadline(time.Time) error      { return nil }
func (playConn) SetReadDeadline(time.Time) error  { return nil }
func (playConn) SetWriteDeadline(time.Time) error { return nil }

// playLink is a link that hears the given bytes; what it says is kept.
func playLink(said []byte, slow bool) (*link, *bytes.Buffer) {
	var in io.Reader = bytes.NewReader(said)
	if slow {
		in = iotest.OneByteReader(in)
	}
	var out bytes.Buffer
	o := TransportOptions{MaxMessage: 1 << 20}.withDefaults()
	return newLink(playConn{Reader: in, Writer: &out}, o, &linkCounters{}, subscriberIn), &out
}

func FuzzZMTPGreeting(f *testing.F) {
	f.Add(appendGreeting(nil))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		err := checkGreeting(b)
		// A verdict does not change for the better when more arrives.
		for n := range b {
			if checkGreeting(b[:n]) != nil && err == nil {
				t.Fatalf("refused after %d bytes, taken after %d", n, len(b))
			}
		}
	})
}

func FuzzZMTPHeader(f *testing.F) {
	f.Add([]byte{0, 5})
	f.Add([]byte{flagLong, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, n, err := decodeHeader(b)
		if n > len(b) || h.size < 0 || err != nil && n != 0 {
			t.Fatalf("%+v, %d, %v", h, n, err)
		}
		if n == 0 {
			return
		}
		again, _, err := decodeHeader(appendHeader(nil, h.flags, int(h.size)))
		if err != nil || again.size != h.size || (again.flags^h.flags)&^flagLong != 0 {
			t.Fatalf("%+v became %+v, %v", h, again, err)
		}
	})
}

func FuzzZMTPReady(f *testing.F) {
	f.Add(encodeReady(readyInfo{"REQ", "id"})[6:])
	f.Add([]byte("\x03abc"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeReady(b)
		if err != nil {
			return
		}
		_, data, err := decodeCommand(encodeReady(r))
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeReady(data)
		if err != nil || again.socketType != r.socketType {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
	})
}

// Everything a peer can say after it has connected, through the whole reading
// half: whatever it is, the reader comes to an end and keeps no more than was
// sent.
func FuzzZMTPConnection(f *testing.F) {
	hello := playedHandshake("REQ")
	f.Add(append(slices.Clone(hello), 1, 0, 0, 3, 'a', 'b', 'c'))
	f.Add(append(slices.Clone(hello), 4, 7, 4, 'P', 'I', 'N', 'G', 0, 1))
	f.Add(append(slices.Clone(hello), 2, 0x40, 0, 0, 0, 0, 0, 0, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, _ := playLink(b, false)
		if l.handshake("ROUTER") != nil {
			return
		}
		for total := 0; ; {
			h, err := l.next()
			if err != nil {
				break
			}
			body, err := l.body(h.size, nil)
			if err != nil {
				break
			}
			if int64(len(body)) != h.size {
				t.Fatalf("%d bytes for a frame of %d", len(body), h.size)
			}
			if total += len(body); total > len(b) {
				t.Fatalf("%d bytes of bodies in %d bytes", total, len(b))
			}
		}
		l.close(io.EOF)
		awaitFact(t, "the writer ended", func() bool {
			select {
			case <-l.flushed():
				return true
			default:
				return false
			}
		})
	})
}

// zmq4's writes, cut anyhow, come out as the same messages.
func FuzzZMTPJoiner(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x05hello\x00\x00"), uint8(3))
	f.Fuzz(func(t *testing.T, frames []byte, step uint8) {
		run := func(cut int) (all [][][]byte, failed bool) {
			var j frameJoiner
			rest := append(playedHandshake("PUB"), frames...)
			for len(rest) > 0 {
				n := min(cut, len(rest))
				if j.write(rest[:n], func(m [][]byte) { all = append(all, m) }) != nil {
					return all, true
				}
				if j.inBody && j.header.size > 1<<20 {
					return all, true // zmq4 sends what we gave it
				}
				rest = rest[n:]
			}
			return all, false
		}
		whole, failed1 := run(len(frames) + 1000)
		pieces, failed2 := run(int(step) + 1)
		same := slices.EqualFunc(whole, pieces, func(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) })
		if !failed1 && !failed2 && !same {
			t.Fatalf("%q and %q", whole, pieces)
		}
	})
}
