// ZMTP 3.0: what the bytes of a connection mean.
//
// The law of this file: pure functions over byte slices, no I/O, no state, no
// allocation that depends on a length a peer announced. Whatever the bytes,
// the answer is a value, "more bytes needed" or a fault; the fuzz targets hold
// it to that.
//
//	connection = greeting (64 bytes), READY command, then messages and commands
//	greeting   = FF 8×any 7F, version major minor, mechanism (20), as-server, 31×00
//	frame      = flags, size (1 byte, or 8 with the long flag), body
//	command    = frame with the command flag: name length, name, data
//	READY      = properties: name length, name, value length (4 bytes), value
//
// We announce version 3.0, so peers subscribe by messages (first byte 1 or 0),
// as zmq4 expects it, and not by the commands of 3.1.
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

const (
	flagMore    = 0x01 // another frame of the same message follows
	flagLong    = 0x02 // the size has 8 bytes
	flagCommand = 0x04

	greetingSize   = 64
	longHeaderSize = 9
	maxCommand     = 8 << 10 // of a peer; a READY with a 255 byte identity has 300
	maxPingContext = 16
)

// appendGreeting appends our greeting: version 3.0, NULL, not as-server.
func appendGreeting(b []byte) []byte {
	var g [greetingSize]byte
	g[0], g[9], g[10] = 0xff, 0x7f, 3
	copy(g[12:], "NULL")
	return append(b, g[:]...)
}

// checkGreeting judges as much of a greeting as has arrived, so that a peer
// that speaks something else is refused by its first byte and not by a
// deadline.
func checkGreeting(p []byte) error {
	if len(p) > 0 && p[0] != 0xff {
		hint := "the peer does not speak ZeroMQ 4"
		if p[0] >= 'A' && p[0] <= 'Z' {
			hint = "a web browser or health check?"
		}
		return &fault{reasonNotZMTP, fmt.Sprintf("the first byte is 0x%02x (%s)", p[0], hint)}
	}
	if len(p) > 9 && p[9]&1 == 0 {
		return &fault{reasonNotZMTP, "no ZMTP signature"}
	}
	if len(p) > 10 && p[10] < 3 {
		return &fault{reasonVersion, fmt.Sprintf("the peer speaks revision %d, which is libzmq 3 or older; at least libzmq 4 is needed", p[10])}
	}
	if len(p) >= 32 {
		name := p[12:32]
		if i := bytes.IndexByte(name, 0); i >= 0 {
			name = name[:i]
		}
		if string(name) != "NULL" {
			return &fault{reasonMechanism, fmt.Sprintf("the peer wants the mechanism %q, only NULL is spoken here", name)}
		}
	}
	return nil
}

// A frameHeader is what stands before a body.
type frameHeader struct {
	flags byte
	size  int64
}

func (h frameHeader) more() bool    { return h.flags&flagMore != 0 }
func (h frameHeader) command() bool { return h.flags&flagCommand != 0 }

// decodeHeader reads a header from the start of p; n is its length, 0 when p
// does not hold all of it yet.
func decodeHeader(p []byte) (h frameHeader, n int, err error) {
	if len(p) == 0 {
		return h, 0, nil
	}
	h.flags = p[0]
	switch {
	case h.flags&^(flagMore|flagLong|flagCommand) != 0:
		return h, 0, &fault{reasonFrame, fmt.Sprintf("reserved flag bits 0x%02x", h.flags)}
	case h.command() && h.more():
		return h, 0, &fault{reasonFrame, "a command in several frames"}
	case h.flags&flagLong == 0:
		if len(p) < 2 {
			return h, 0, nil
		}
		h.size = int64(p[1])
		return h, 2, nil
	case len(p) < longHeaderSize:
		return h, 0, nil
	}
	size := binary.BigEndian.Uint64(p[1:])
	if size > math.MaxInt64 {
		return h, 0, &fault{reasonFrame, "a frame size beyond 63 bits"}
	}
	h.size = int64(size)
	return h, longHeaderSize, nil
}

// appendHeader appends the header of a frame of the given size.
func appendHeader(b []byte, flags byte, size int) []byte {
	if size <= 255 {
		return append(b, flags&^flagLong, byte(size))
	}
	return binary.BigEndian.AppendUint64(append(b, flags|flagLong), uint64(size))
}

// decodeCommand splits the body of a command frame.
func decodeCommand(p []byte) (name string, data []byte, err error) {
	if len(p) == 0 {
		return "", nil, &fault{reasonFrame, "an empty command"}
	}
	n := 1 + int(p[0])
	if n > len(p) {
		return "", nil, &fault{reasonFrame, "a command shorter than its name"}
	}
	return string(p[1:n]), p[n:], nil
}

// encodeCommand makes the body of a command frame.
func encodeCommand(name string, data []byte) []byte {
	b := make([]byte, 0, 1+len(name)+len(data))
	b = append(b, byte(len(name)))
	b = append(b, name...)
	return append(b, data...)
}

// readyInfo is what a peer says of itself in READY.
type readyInfo struct {
	socketType string
	identity   string
}

// decodeReady reads the properties of a READY command. Names have no case;
// properties that we do not know are skipped.
func decodeReady(p []byte) (readyInfo, error) {
	var r readyInfo
	bad := func(detail string) (readyInfo, error) {
		return readyInfo{}, &fault{reasonHandshake, "READY with " + detail}
	}
	for len(p) > 0 {
		n := int(p[0])
		if n == 0 {
			return bad("an empty property name")
		}
		if len(p) < 1+n+4 {
			return bad("a truncated property")
		}
		name := string(p[1 : 1+n])
		p = p[1+n:]
		size := binary.BigEndian.Uint32(p)
		p = p[4:]
		if uint64(size) > uint64(len(p)) {
			return bad("a truncated value")
		}
		value := string(p[:size])
		p = p[size:]
		switch {
		case strings.EqualFold(name, "Socket-Type"):
			if r.socketType != "" {
				return bad("two socket types")
			}
			r.socketType = value
		case strings.EqualFold(name, "Identity"):
			if len(value) > 255 {
				return bad("an identity of more than 255 bytes")
			}
			r.identity = value
		}
	}
	if r.socketType == "" {
		return bad("no socket type")
	}
	return r, nil
}

// encodeReady makes the body of the READY command frame. Like libzmq, sockets
// that ask and answer name an identity and the others do not.
func encodeReady(r readyInfo) []byte {
	property := func(b []byte, name, value string) []byte {
		b = append(b, byte(len(name)))
		b = append(b, name...)
		b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
		return append(b, value...)
	}
	data := property(nil, "Socket-Type", r.socketType)
	switch r.socketType {
	case "REQ", "DEALER", "ROUTER":
		data = property(data, "Identity", r.identity)
	}
	return encodeCommand("READY", data)
}

// peersOf lists the socket types that may talk to one of ours.
func peersOf(socketType string) []string {
	switch socketType {
	case "PUB":
		return []string{"SUB", "XSUB"}
	case "SUB":
		return []string{"PUB", "XPUB"}
	case "ROUTER":
		return []string{"REQ", "DEALER", "ROUTER"}
	case "REQ":
		return []string{"ROUTER", "REP"}
	}
	return nil
}
