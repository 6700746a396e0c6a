// Figures of the transport. The peers are raw connections in the same process,
// so a figure holds the cost of both ends.
//
//	go test -run '^$' -bench 'Requests|Publish|IdlePeers' .
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// benchPeers connects n peers of the given type and does their handshakes,
// many at a time.
func benchPeers(b testing.TB, addr net.Addr, socketType string, n int) []net.Conn {
	b.Helper()
	peers := make([]net.Conn, n)
	hello := playedHandshake(socketType)
	answer := len(playedHandshake(map[string]string{"REQ": "ROUTER", "SUB": "PUB"}[socketType]))
	if socketType == "SUB" {
		hello = append(hello, 0, 1, 1)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				c, err := net.Dial("tcp", addr.String())
				if err != nil {
					b.Error(err)
					return
				}
				peers[i] = c
				c.Write(hello)
				if _, err := io.ReadFull(c, make([]byte, answer)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.Cleanup(func() {
		for _, c := range peers {
			if c != nil {
				c.Close()
			}
		}
	})
	if b.Failed() {
		b.FailNow()
	}
	return peers
}

// BenchmarkRequests: each peer asks, 300 bytes, waits for the answer and asks
// again; all at the same time.
func BenchmarkRequests(b *testing.B) {
	for _, peers := range []int{1, 100, 1000, 5000} {
		b.Run(fmt.Sprint("peers=", peers), func(b *testing.B) {
			s := listenRequests(b, context.Background(), TransportOptions{}, echoHandler)
			conns := benchPeers(b, s.Addr(), "REQ", peers)
			request := appendHeader([]byte{1, 0}, 0, 300)
			request = append(request, bytes.Repeat([]byte{'x'}, 300)...)
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			var wg sync.WaitGroup
			for _, c := range conns {
				wg.Go(func() {
					answer := make([]byte, len(request))
					for left.Add(-1) >= 0 {
						if _, err := c.Write(request); err != nil {
							b.Error(err)
							return
						}
						if _, err := io.ReadFull(c, answer); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}

// BenchmarkPublish: 1 KiB to all subscribers, until the last one has it.
func BenchmarkPublish(b *testing.B) {
	for _, peers := range []int{1000, 5000} {
		b.Run(fmt.Sprint("peers=", peers), func(b *testing.B) {
			p := listenPublisher(b, context.Background(), TransportOptions{})
			conns := benchPeers(b, p.Addr(), "SUB", peers)
			awaitFact(b, "subscriptions", func() bool { return subscriptions(p) == peers })
			body := bytes.Repeat([]byte{'x'}, 1024)
			var got sync.WaitGroup
			for _, c := range conns {
				go func() {
					message := make([]byte, longHeaderSize+len(body))
					for {
						if _, err := io.ReadFull(c, message); err != nil {
							return
						}
						got.Done()
					}
				}()
			}
			b.ResetTimer()
			for range b.N {
				got.Add(peers)
				p.Publish(body)
				got.Wait()
			}
			b.ReportMetric(b.Elapsed().Seconds()*1000/float64(b.N), "ms/message")
		})
	}
}

// BenchmarkIdlePeers tells what an idle minion costs the master: one request
// connection and one subscription. The far ends are bare sockets in this
// process and are counted too.
func BenchmarkIdlePeers(b *testing.B) {
	const minions = 2000
	used := func() (heap, stack uint64) {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse, m.StackInuse
	}
	ctx := context.Background()
	p := listenPublisher(b, ctx, TransportOptions{})
	s := listenRequests(b, ctx, TransportOptions{}, echoHandler)
	heap, stack := used()
	goroutines := runtime.NumGoroutine()
	began := time.Now()
	benchPeers(b, p.Addr(), "SUB", minions)
	benchPeers(b, s.Addr(), "REQ", minions)
	awaitFact(b, "all subscribed", func() bool { return subscriptions(p) == minions })
	b.ReportMetric(time.Since(began).Seconds()*1000, "ms-to-connect")
	heap2, stack2 := used()
	per := func(after, before uint64) float64 { return float64(int64(after)-int64(before)) / minions / 1024 }
	b.ReportMetric(per(heap2, heap), "heap-KiB/minion")
	b.ReportMetric(per(stack2, stack), "stack-KiB/minion")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/minions, "goroutines/minion")
	for range b.N {
	}
}
