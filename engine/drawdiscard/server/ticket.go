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
)

// tickets issues the tickets of one model and redeems each at most once.
//
// A ticket contains its number, the number of updates at the draw, the time of its expiry and a
// message authentication code (HMAC-SHA256, 128 bits) under a key that only this process knows.
// So the server keeps nothing for each ticket but one bit, in a ring of windowTickets bits: a
// flood of draws takes no memory. A ticket expires after its lifetime, or when windowTickets/2
// later tickets have been issued. A new process has a new key: tickets do not survive a
// restart.
type tickets struct {
	lifetime time.Duration
	issued   atomic.Uint64
	used     []atomic.Uint64 // bit n of the ring: ticket n was redeemed
	macs     sync.Pool
}

const (
	windowTickets = 1 << 23 // 1 MiB of bits
	macBytes      = 16
	ticketBytes   = 24 + macBytes
)

var ticketText = base64.RawURLEncoding.Strict()

func newTickets(model string, lifetime time.Duration) *tickets {
	key := make([]byte, 32)
	rand.Read(key) // ends the program if the system has no entropy
	key = append(key, model...)
	return &tickets{
		lifetime: lifetime,
		used:     make([]atomic.Uint64, windowTickets/64),
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
	t.used[n%windowTickets/64].And(^(uint64(1) << (n % 64))) // the bit of ticket n - windowTickets, which has expired
	var b [ticketBytes]byte
	binary.LittleEndian.PutUint64(b[0:], n)
	binary.LittleEndian.PutUint64(b[8:], updates)
	binary.LittleEndian.PutUint64(b[16:], uint64(now.Add(t.lifetime).UnixNano()))
	t.sign(b[24:], b[:24])
	return ticketText.EncodeToString(b[:])
}

// ticket is the content of a valid ticket.
type ticket struct{ number, updates uint64 }

// parse checks a ticket, without redeeming it.
func (t *tickets) parse(text string, now time.Time) (ticket, error) {
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
	if uint64(now.UnixNano()) > binary.LittleEndian.Uint64(b[16:]) || t.issued.Load()-c.number > windowTickets/2 {
		return ticket{}, errTicketExpired
	}
	return c, nil
}

// redeem marks a ticket as used. It succeeds once.
func (t *tickets) redeem(c ticket) error {
	bit := uint64(1) << (c.number % 64)
	if t.used[c.number%windowTickets/64].Or(bit)&bit != 0 {
		return errTicketUsed
	}
	return nil
}

// restore lets a ticket be redeemed again, after the server failed to store the return.
func (t *tickets) restore(c ticket) {
	t.used[c.number%windowTickets/64].And(^(uint64(1) << (c.number % 64)))
}
