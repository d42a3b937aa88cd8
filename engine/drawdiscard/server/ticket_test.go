package server

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

// One request at a time has a ticket, and a ticket that was spent or refused stays so.
func TestTickets_ClaimOnce(t *testing.T) {
	tickets, now := newTickets("a", time.Minute, 100), time.Now()
	for range 40 { // places in several words
		tickets.issue(now, 0)
	}
	text := tickets.issue(now, 42)
	c, err := tickets.parse(text, now, 42)
	if err != nil || c.updates != 42 {
		t.Fatalf("%+v %v", c, err)
	}
	var won atomic.Int32
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			switch err := tickets.claim(c); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, errTicketInUse):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("the ticket was claimed %d times", won.Load())
	}
	tickets.settle(c, ticketFree)
	if err := tickets.claim(c); err != nil {
		t.Errorf("after a request that failed on the way: %v", err)
	}
	for state, want := range map[ticketState]error{ticketSpent: errTicketUsed, ticketRefused: errTicketRefused} {
		tickets.settle(c, state)
		if err := tickets.claim(c); !errors.Is(err, want) {
			t.Errorf("state %d: %v", state, err)
		}
	}
	for n := range uint64(41) {
		if err := tickets.claim(ticket{number: n}); (err == nil) != (n != c.number) {
			t.Errorf("ticket %d: %v", n, err)
		}
	}
}

// stepped returns the time with a wall clock that was set forward and the same monotonic clock.
func stepped(now time.Time, by time.Duration) time.Time {
	*(*uint64)(unsafe.Pointer(&now)) += uint64(by/time.Second) << 30 // package time: seconds since 1885 above 30 bits of nanoseconds
	return now
}

// A step of the wall clock, by hand or by NTP, neither expires a ticket nor prolongs it.
func TestTickets_IgnoreWallClock(t *testing.T) {
	now := time.Now()
	later := stepped(now, time.Hour)
	if later.Sub(now) != 0 || later.Round(0).Sub(now.Round(0)) != time.Hour {
		t.Skip("package time has another layout")
	}
	tickets := newTickets("a", time.Minute, 100)
	if _, err := tickets.parse(tickets.issue(now, 0), later, 0); err != nil {
		t.Errorf("the clock was set forward: %v", err)
	}
	if _, err := tickets.parse(tickets.issue(later, 0), now.Add(2*time.Minute), 0); !errors.Is(err, errTicketExpired) {
		t.Errorf("the clock was set back: %v", err)
	}
}

// A ticket expires after its lifetime, after its largest age in updates, and after half a window of
// later tickets; then its place can be used again.
func TestTickets_Expire(t *testing.T) {
	tickets, now := newTickets("a", time.Minute, 100), time.Now()
	text := tickets.issue(now, 0)
	if _, err := tickets.parse(text, now.Add(time.Minute+time.Millisecond), 0); !errors.Is(err, errTicketExpired) {
		t.Errorf("after its lifetime: %v", err)
	}
	if _, err := tickets.parse(text, now.Add(time.Minute-time.Millisecond), 0); err != nil {
		t.Errorf("within its lifetime: %v", err)
	}
	c, _ := tickets.parse(text, now, 0)
	for age, want := range map[uint64]error{0: nil, 100: nil, 101: errTicketExpired, 4000: errTicketExpired} {
		if _, err := tickets.parse(tickets.issue(now, 7), now, 7+age); !errors.Is(err, want) {
			t.Errorf("after %d updates: %v", age, err)
		}
	}
	tickets.settle(c, ticketSpent)
	tickets.issued.Store(windowTickets / 2)
	if _, err := tickets.parse(text, now, 0); err != nil {
		t.Errorf("at half a window: %v", err)
	}
	tickets.issued.Store(windowTickets/2 + 1)
	if _, err := tickets.parse(text, now, 0); !errors.Is(err, errTicketExpired) {
		t.Errorf("after half a window: %v", err)
	}
	tickets.issued.Store(windowTickets)
	later, err := tickets.parse(tickets.issue(now, 0), now, 0)
	if err != nil || later.number != windowTickets {
		t.Fatal(later, err)
	}
	if err := tickets.claim(later); err != nil {
		t.Errorf("the place of an expired ticket: %v", err)
	}
}

// Changing any character, the model or the process makes a ticket invalid.
func TestTickets_AreAuthentic(t *testing.T) {
	tickets, other, now := newTickets("a", time.Minute, 100), newTickets("a", time.Minute, 100), time.Now()
	text := tickets.issue(now, 1<<40)
	for i := range text {
		for _, c := range "A_b9" {
			if changed := text[:i] + string(c) + text[i+1:]; changed != text {
				if _, err := tickets.parse(changed, now, 0); !errors.Is(err, errTicketInvalid) {
					t.Errorf("character %d: %v", i, err)
				}
			}
		}
	}
	for _, bad := range []string{text + "A", text[1:], text + "=", "\n" + text[1:], strings.Repeat("é", len(text)/2)} {
		if _, err := tickets.parse(bad, now, 0); !errors.Is(err, errTicketInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := other.parse(text, now, 0); !errors.Is(err, errTicketInvalid) {
		t.Errorf("another process: %v", err)
	}
	if _, err := tickets.parse("", now, 0); !errors.Is(err, errTicketMissing) {
		t.Errorf("no ticket: %v", err)
	}
}
