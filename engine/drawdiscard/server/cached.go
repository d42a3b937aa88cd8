package server

import (
	"sync"
	"time"
)

// cached is a result that is computed from all instances and that many requests share. A small
// request could otherwise cost as much as k returns. Computing it takes at most a tenth of the time.
type cached[T any] struct {
	mu    sync.Mutex
	value T
	due   time.Time
}

// get returns the result, which is at least as new as least, or ten times its own computing time
// if that is longer.
func (c *cached[T]) get(least time.Duration, compute func() T) T {
	c.mu.Lock()
	defer c.mu.Unlock()
	if began := time.Now(); !began.Before(c.due) {
		c.value = compute()
		c.due = time.Now().Add(max(least, 10*time.Since(began)))
	}
	return c.value
}
