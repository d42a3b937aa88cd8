package server

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash"
	"sync"
	"sync/atomic"
	"time"
)

// Errors of tickets.
var (
	errTicketMissing = errors.New("the header Dptrain-Ticket is missing")
	errTicketInvalid = errors.New("the ticket was not issued by this server for this model, or before its last start")
	errTicketExpired = errors.New("the ticket has expired; draw again")
	errTicketUsed    = errors.New("the ticket was used before")
	errTicketRefused = errors.New("the ticket was used by a return that was refused; draw again")
	errTicketInUse   = errors.New("another request returns this ticket at this moment; try again later with the same ticket")
)

// tickets issues the tickets of one model. One request at a time uses a ticket, and at most one
// request spends it.
//
// A ticket contains its number, the number of updates at the draw, the time of its expiry and a
// message authentication code (HMAC-SHA256, 128 bits) under a key that only this process knows.
// So the server keeps nothing for each ticket but its state, in a ring of windowTickets states of
// two bits: a flood of draws takes no memory. A ticket expires after its lifetime, after maxAge
// updates, or when windowTickets/2 later tickets have been issued. A new process has a new key:
// tickets do not survive a restart. Times are those of the monotonic clock since the start, so a
// step of the wall clock changes no ticket.
type tickets struct {
	lifetime time.Duration
	maxAge   uint64 // updates
	start    time.Time
	issued   atomic.Uint64
	states   []atomic.Uint64 // state n of the ring is that of ticket n
	macs     sync.Pool
}

// ticketState is what happened to a ticket.
type ticketState uint64

const (
	ticketFree    ticketState = iota // no request used it, or one that failed on the way
	ticketInUse                      // a request uses it
	ticketSpent                      // its return is in
	ticketRefused                    // its return was refused
)

const (
	windowTickets = 1 << 23 // 2 MiB of states
	statesInWord  = 32
	macBytes      = 16
	ticketBytes   = 24 + macBytes
)

var ticketText = base64.RawURLEncoding.Strict()

func newTickets(model string, lifetime time.Duration, maxAge uint64) *tickets {
	key := make([]byte, 32)
	rand.Read(key) // ends the program if the system has no entropy
	key = append(key, model...)
	return &tickets{
		lifetime: lifetime,
		maxAge:   maxAge,
		start:    time.Now(),
		states:   make([]atomic.Uint64, windowTickets/statesInWord),
		macs:     sync.Pool{New: func() any { return hmac.New(sha256.New, key) }},
	}
}

func (t *tickets) sign(dst, body []byte) {
	h := t.macs.Get().(hash.Hash)
	defer t.macs.Put(h)
	h.Reset()
	h.Write(body)
	var sum [sha256.Size]byte
	copy(dst, h.Sum(sum[:0])[:macBytes])
}

// issue returns a ticket for a draw after the given number of updates.
func (t *tickets) issue(now time.Time, updates uint64) string {
	n := t.issued.Add(1) - 1
	t.setState(n, ticketFree) // the place of ticket n - windowTickets, which has expired
	var b [ticketBytes]byte
	binary.LittleEndian.PutUint64(b[0:], n)
	binary.LittleEndian.PutUint64(b[8:], updates)
	binary.LittleEndian.PutUint64(b[16:], uint64(now.Sub(t.start)+t.lifetime))
	t.sign(b[24:], b[:24])
	return ticketText.EncodeToString(b[:])
}

// ticket is the content of a valid ticket.
type ticket struct{ number, updates uint64 }

// parse checks a ticket at a time and a number of updates, without claiming it.
func (t *tickets) parse(text string, now time.Time, updates uint64) (ticket, error) {
	if text == "" {
		return ticket{}, errTicketMissing
	}
	var b [ticketBytes]byte
	if len(text) != ticketText.EncodedLen(ticketBytes) {
		return ticket{}, errTicketInvalid
	}
	if _, err := ticketText.Decode(b[:], []byte(text)); err != nil {
		return ticket{}, errTicketInvalid
	}
	var mac [macBytes]byte
	t.sign(mac[:], b[:24])
	if !hmac.Equal(mac[:], b[24:]) {
		return ticket{}, errTicketInvalid
	}
	c := ticket{binary.LittleEndian.Uint64(b[0:]), binary.LittleEndian.Uint64(b[8:])}
	if now.Sub(t.start) > time.Duration(binary.LittleEndian.Uint64(b[16:])) ||
		t.issued.Load()-c.number > windowTickets/2 || t.isOld(c, updates) {
		return ticket{}, errTicketExpired
	}
	return c, nil
}

// isOld reports whether too many updates happened since the draw. Updates in flight may be counted
// before the ticket's own.
func (t *tickets) isOld(c ticket, updates uint64) bool {
	return updates-min(updates, c.updates) > t.maxAge
}

// claim reserves a ticket for one request, which settles it.
func (t *tickets) claim(c ticket) error {
	word, shift := t.place(c.number)
	for {
		v := word.Load()
		switch ticketState(v>>shift) & 3 {
		case ticketInUse:
			return errTicketInUse
		case ticketSpent:
			return errTicketUsed
		case ticketRefused:
			return errTicketRefused
		}
		if word.CompareAndSwap(v, v|uint64(ticketInUse)<<shift) {
			return nil
		}
	}
}

// settle gives a claimed ticket its state after the request.
func (t *tickets) settle(c ticket, s ticketState) {
	if t.issued.Load()-c.number < windowTickets*3/4 { // otherwise its place is, or soon will be, that of another ticket
		t.setState(c.number, s)
	}
}

func (t *tickets) setState(n uint64, s ticketState) {
	word, shift := t.place(n)
	for {
		v := word.Load()
		if word.CompareAndSwap(v, v&^(3<<shift)|uint64(s)<<shift) {
			return
		}
	}
}

// place returns the word of a ticket's state and the place in it.
func (t *tickets) place(n uint64) (word *atomic.Uint64, shift uint64) {
	return &t.states[n%windowTickets/statesInWord], n % statesInWord * 2
}
