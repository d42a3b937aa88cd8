package server

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestTickets_RedeemOnce(t *testing.T) {
	tickets, now := newTickets("a", time.Minute), time.Now()
	text := tickets.issue(now, 42)
	c, err := tickets.parse(text, now)
	if err != nil || c.updates != 42 {
		t.Fatalf("%+v %v", c, err)
	}
	var won atomic.Int32
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if tickets.redeem(c) == nil {
				won.Add(1)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("the ticket was redeemed %d times", won.Load())
	}
	tickets.restore(c)
	if tickets.redeem(c) != nil || tickets.redeem(c) == nil {
		t.Error("a restored ticket is redeemed once more")
	}
}

// A ticket expires after its lifetime and after half a window of later tickets; then its bit can
// be used again.
func TestTickets_Expire(t *testing.T) {
	tickets, now := newTickets("a", time.Minute), time.Now()
	text := tickets.issue(now, 0)
	if _, err := tickets.parse(text, now.Add(time.Minute+time.Millisecond)); !errors.Is(err, errTicketExpired) {
		t.Errorf("after its lifetime: %v", err)
	}
	if _, err := tickets.parse(text, now.Add(time.Minute-time.Millisecond)); err != nil {
		t.Errorf("within its lifetime: %v", err)
	}
	c, _ := tickets.parse(text, now)
	if err := tickets.redeem(c); err != nil {
		t.Fatal(err)
	}
	tickets.issued.Store(windowTickets / 2)
	if _, err := tickets.parse(text, now); err != nil {
		t.Errorf("at half a window: %v", err)
	}
	tickets.issued.Store(windowTickets/2 + 1)
	if _, err := tickets.parse(text, now); !errors.Is(err, errTicketExpired) {
		t.Errorf("after half a window: %v", err)
	}
	tickets.issued.Store(windowTickets)
	later, err := tickets.parse(tickets.issue(now, 0), now)
	if err != nil || later.number != windowTickets {
		t.Fatal(later, err)
	}
	if err := tickets.redeem(later); err != nil {
		t.Errorf("the bit of an expired ticket: %v", err)
	}
}

// Changing any character, the model or the process makes a ticket invalid.
func TestTickets_AreAuthentic(t *testing.T) {
	tickets, other, now := newTickets("a", time.Minute), newTickets("a", time.Minute), time.Now()
	text := tickets.issue(now, 1<<40)
	for i := range text {
		for _, c := range "A_b9" {
			if changed := text[:i] + string(c) + text[i+1:]; changed != text {
				if _, err := tickets.parse(changed, now); !errors.Is(err, errTicketInvalid) {
					t.Errorf("character %d: %v", i, err)
				}
			}
		}
	}
	for _, bad := range []string{text + "A", text[1:], text + "=", "\n" + text[1:], strings.Repeat("é", len(text)/2)} {
		if _, err := tickets.parse(bad, now); !errors.Is(err, errTicketInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := other.parse(text, now); !errors.Is(err, errTicketInvalid) {
		t.Errorf("another process: %v", err)
	}
	if _, err := tickets.parse("", now); !errors.Is(err, errTicketMissing) {
		t.Errorf("no ticket: %v", err)
	}
}
