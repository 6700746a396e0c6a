// Waiting: how a function lets time pass.
//
// The law of this file: whoever waits ends with its context. A loop that tries
// again, a job that sleeps and a daemon that backs off all wait here.
package main

import (
	"context"
	"time"
)

// sleepContext waits, and says whether the time passed.
func sleepContext(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// pause is sleepContext for a function that returns the context's error.
func pause(ctx context.Context, d time.Duration) error {
	if !sleepContext(ctx, d) {
		return ctx.Err()
	}
	return nil
}
