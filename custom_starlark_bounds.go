// What a Starlark file may cost the minion that runs it in its own process.
//
// The law of this room: a call is ended before it takes the memory of the box,
// and a result is brought over only if it is finite: Starlark's lists may hold
// themselves, or the same list a million times.
package main

import (
	"fmt"
	"runtime/metrics"
	"syscall"
	"time"

	"go.starlark.net/starlark"
)

const (
	starlarkMemory     = 128 << 20        // bytes that one call may add to the heap, on a box that has them
	starlarkMemoryPart = 4                // and never more than this part of the box's memory
	starlarkStride     = 8                // steps between two looks at the clock: few, as each may double a value
	starlarkLook       = time.Millisecond // between two looks at the memory
	starlarkMaxDepth   = msgpackMaxDepth
	starlarkMaxItems   = 4 << 20 // of one result
)

// boundStarlark ends a thread after a number of steps, or when it takes too
// much memory. The looks are steps of the thread itself: a watcher beside it
// would wait for the garbage collector while the thread doubles its values.
func boundStarlark(thread *starlark.Thread, steps uint64) {
	var limit uint64
	last := time.Now()
	thread.SetMaxExecutionSteps(min(steps, starlarkStride))
	thread.OnMaxSteps = func(thread *starlark.Thread) {
		if thread.ExecutionSteps() >= steps {
			thread.Cancel("too many steps")
			return
		}
		thread.SetMaxExecutionSteps(min(steps, thread.ExecutionSteps()+starlarkStride))
		if time.Since(last) < starlarkLook {
			return
		}
		have := heapBytes()
		if limit == 0 {
			limit = have + starlarkMemoryLimit()
		}
		if have > limit {
			thread.Cancel("it takes too much memory")
		}
		last = time.Now()
	}
}

func starlarkMemoryLimit() uint64 {
	var si syscall.Sysinfo_t
	if err := syscall.Sysinfo(&si); err != nil {
		return starlarkMemory
	}
	return min(starlarkMemory, uint64(si.Totalram)*uint64(max(si.Unit, 1))/starlarkMemoryPart)
}

func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// fromStarlark brings a value out of Starlark.
func fromStarlark(v starlark.Value) (any, error) {
	var r starlarkReader
	out := r.value(v, 0)
	return out, r.err
}

// starlarkReader counts what it has read; after an error it reads no more.
type starlarkReader struct {
	items int
	err   error
}

func (r *starlarkReader) value(v starlark.Value, depth int) any {
	r.items++
	switch {
	case r.err != nil:
		return nil
	case depth > starlarkMaxDepth:
		r.err = fmt.Errorf("a value is nested more than %d deep, or holds itself", starlarkMaxDepth)
		return nil
	case r.items > starlarkMaxItems:
		r.err = fmt.Errorf("a value has more than %d items", starlarkMaxItems)
		return nil
	}
	switch v := v.(type) {
	case starlark.NoneType:
		return nil
	case starlark.Bool:
		return bool(v)
	case starlark.Int:
		return normalInt(v.BigInt())
	case starlark.Float:
		return float64(v)
	case starlark.String:
		return string(v)
	case starlark.Bytes:
		return []byte(v)
	case starlark.Tuple:
		t := make(Tuple, len(v))
		for i, item := range v {
			t[i] = r.value(item, depth+1)
		}
		return t
	case *starlark.Dict:
		m := &Map{}
		for _, pair := range v.Items() {
			if k := r.value(pair[0], depth+1); r.err == nil {
				m.Set(k, r.value(pair[1], depth+1))
			}
		}
		return m
	case starlark.Iterable:
		l := &List{}
		it := v.Iterate()
		defer it.Done()
		var item starlark.Value
		for r.err == nil && it.Next(&item) {
			l.Append(r.value(item, depth+1))
		}
		return l
	}
	return v.String()
}
