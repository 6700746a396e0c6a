// Plain sockets: SUB and REQ directly on the framing, for whoever holds
// thousands of them in one process.
//
// The law of this file: a plain socket has no goroutine of its own. Its owner
// reads in his; while he does not, nothing of it runs, no heartbeat is answered,
// and the end of the connection is noticed by the next call. Apart from that the
// rules of Subscriber and Requester hold: one connection is one life, after an
// error a new one is dialled.
package main

import (
	"context"
	"fmt"
)

// plainIn is the read buffer of a plain socket: what is larger is read past it.
const plainIn = 512

// plainSubscriber is a SUB socket.
type plainSubscriber struct{ link *link }

// dialPlainSubscriber connects to a publisher and subscribes to the topics. ctx
// bounds the dialling only.
func dialPlainSubscriber(ctx context.Context, addr string, topics []string, o TransportOptions) (*plainSubscriber, error) {
	l, err := dialLink(ctx, addr, "SUB", plainIn, o.withDefaults())
	if err != nil {
		return nil, err
	}
	for _, t := range topics {
		if err := l.send(outgoing{frames: [][]byte{append([]byte{1}, t...)}}); err != nil {
			l.close(err)
			return nil, fmt.Errorf("subscribe to %q: %w", t, err)
		}
	}
	return &plainSubscriber{l}, nil
}

// Recv waits for the next message; Close ends the wait.
func (s *plainSubscriber) Recv() ([][]byte, error) {
	m, err := s.link.message()
	if err != nil {
		s.link.close(err)
		return nil, fmt.Errorf("subscription at %s ended: %w", s.link.conn.RemoteAddr(), s.link.cause())
	}
	return m, nil
}

// Close ends the subscription.
func (s *plainSubscriber) Close() { s.link.close(errTransportClosed) }

// plainRequester is a REQ socket. One request at a time.
type plainRequester struct{ link *link }

// dialPlainRequester connects to a request server. ctx bounds the dialling only.
func dialPlainRequester(ctx context.Context, addr string, o TransportOptions) (*plainRequester, error) {
	l, err := dialLink(ctx, addr, "REQ", plainIn, o.withDefaults())
	if err != nil {
		return nil, err
	}
	return &plainRequester{l}, nil
}

// Request sends a request and waits for the answer. After an error, the end of
// ctx too, the requester is closed.
func (r *plainRequester) Request(ctx context.Context, body []byte) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() { r.link.close(context.Cause(ctx)) })
	defer stop()
	err := r.link.send(outgoing{frames: [][]byte{nil, body}})
	var m [][]byte
	if err == nil {
		m, err = r.link.message()
	}
	if err == nil && (len(m) != 2 || len(m[0]) > 0) {
		err = fmt.Errorf("an answer of %d frames", len(m))
	}
	if err != nil {
		r.link.close(err)
		return nil, fmt.Errorf("request to %s: %w", r.link.conn.RemoteAddr(), r.link.cause())
	}
	return m[1], nil
}

// Close ends the connection; a request in flight fails.
func (r *plainRequester) Close() { r.link.close(errTransportClosed) }

// message reads a whole message.
func (l *link) message() ([][]byte, error) {
	var frames [][]byte
	for {
		h, err := l.next()
		if err != nil {
			return nil, err
		}
		body, err := l.body(h.size, nil)
		if err != nil {
			return nil, err
		}
		if frames = append(frames, body); !h.more() {
			return frames, nil
		}
	}
}
