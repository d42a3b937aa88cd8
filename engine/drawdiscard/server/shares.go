package server

import (
	"sync"
	"time"
)

// shares limits the requests at once, and in a second, of each of several clients, which keys name.
type shares[K comparable] struct {
	atOnce    int
	perSecond int

	mu    sync.Mutex
	all   map[K]*share
	sweep int // number of clients at which those without requests are forgotten
}

type share struct {
	requests int // at once
	rate     *rateLimit
}

func newShares[K comparable](atOnce, perSecond int) *shares[K] {
	return &shares[K]{atOnce: atOnce, perSecond: perSecond, all: map[K]*share{}, sweep: minSweep}
}

const minSweep = 1 << 12

// enter counts a request of a client, or returns the problem that refuses it. Leave ends it.
func (s *shares[K]) enter(key K) *problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.all[key]
	if c == nil {
		if len(s.all) >= s.sweep {
			s.forgetIdle()
		}
		c = &share{rate: newRateLimit(s.perSecond)}
		s.all[key] = c
	}
	switch {
	case c.requests >= s.atOnce:
		return &problemBusy
	case !c.rate.admit():
		return &problemRate
	}
	c.requests++
	return nil
}

func (s *shares[K]) leave(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[key].requests--
}

// forgetIdle forgets clients without requests, also in the last second.
func (s *shares[K]) forgetIdle() {
	for key, c := range s.all {
		if c.requests == 0 && c.rate.isIdle() {
			delete(s.all, key)
		}
	}
	s.sweep = max(minSweep, 2*len(s.all))
}

// isIdle reports whether the limit is as a new one.
func (l *rateLimit) isIdle() bool { return l.next.Load() <= int64(time.Since(l.start)) }
