// Events and the frames of the local bus, a Unix stream socket: maps in the bin
// dialect back to back, each with the bytes of one event as its body. A BinStream
// reads them. The newest releases of Salt put the length of each map before it.
package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// eventTagEnd stands between the tag of an event and its data.
const eventTagEnd = "\n\n"

const eventTrimmed = "VALUE_TRIMMED"

// EventStamp is the form of `_stamp`.
func EventStamp(now time.Time) string { return now.UTC().Format("2006-01-02T15:04:05.000000") }

// PackEvent is the event as bytes, trimmed to MaxEventSize.
func PackEvent(tag string, data *Map) ([]byte, error) { return PackEventMax(tag, data, MaxEventSize) }

// PackEventMax is PackEvent with a max_event_size. Data that is larger loses its
// largest values; the data given stays as it is.
func PackEventMax(tag string, data *Map, limit int) ([]byte, error) {
	if tag == "" || strings.Contains(tag, eventTagEnd) {
		return nil, fmt.Errorf("%q cannot be the tag of an event", tag)
	}
	head := make([]byte, 0, 256)
	head = append(append(head, tag...), eventTagEnd...)
	p, err := appendMsgpack(head, data, false)
	if err != nil || limit <= 0 || len(p)-len(head) <= limit {
		return p, err
	}
	data = DeepCopy(data).(*Map)
	for percent := 50; percent >= 0; percent -= 10 {
		trimEvent(data, limit*percent/100)
		if p, err = appendMsgpack(head, data, false); err != nil || len(p)-len(head) <= limit {
			return p, err
		}
	}
	return p, nil
}

// trimEvent replaces the values above a size; maps are gone into, lists are not.
func trimEvent(m *Map, above int) {
	for k, v := range m.All() {
		if inner, ok := v.(*Map); ok {
			trimEvent(inner, above)
			continue
		}
		if v == eventTrimmed || isScalar(v) {
			continue
		}
		if p, err := EncodeBin(v); err == nil && len(p) > above {
			m.Set(k, eventTrimmed)
		}
	}
}

func isScalar(v any) bool { return v == nil || isNumber(v) }

// UnpackEvent reads the bytes of an event.
func UnpackEvent(p []byte) (tag string, data *Map, err error) {
	raw, rest, ok := bytes.Cut(p, []byte(eventTagEnd))
	if !ok || len(raw) == 0 || !utf8.Valid(raw) {
		return "", nil, errors.New("event without a tag")
	}
	v, err := DecodeBin(rest)
	if err != nil {
		return "", nil, fmt.Errorf("event %s: %w", raw, err)
	}
	if data, ok = v.(*Map); !ok {
		return "", nil, fmt.Errorf("event %s: data is a %s", raw, TypeName(v))
	}
	return string(raw), data, nil
}

// BusFrame wraps the bytes of an event for the local bus.
func BusFrame(event []byte) ([]byte, error) {
	return EncodeBin(NewMap("head", NewMap(), "body", event))
}

// BusFrameLength is the frame with its length in four bytes before it.
func BusFrameLength(event []byte) ([]byte, error) {
	frame, err := BusFrame(event)
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...), nil
}

// BusBody takes the bytes of the event out of a frame that a BinStream read.
func BusBody(frame any) ([]byte, error) {
	m, ok := frame.(*Map)
	if !ok {
		return nil, fmt.Errorf("frame on the event bus is a %s", TypeName(frame))
	}
	body, ok := bytesOf(m.Value("body"))
	if !ok {
		return nil, errors.New("frame on the event bus without a body")
	}
	return body, nil
}
