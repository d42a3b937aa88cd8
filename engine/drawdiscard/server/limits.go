package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// rateLimit admits a number of requests a second, with bursts of up to one second of them
// (the generic cell rate algorithm, ITU-T I.371). It takes no lock.
type rateLimit struct {
	interval int64 // nanoseconds between two requests
	next     atomic.Int64
	start    time.Time
}

func newRateLimit(perSecond int) *rateLimit {
	return &rateLimit{interval: int64(time.Second) / int64(perSecond), start: time.Now()}
}

func (l *rateLimit) admit() bool {
	now := int64(time.Since(l.start))
	for {
		next := l.next.Load()
		if next-now > int64(time.Second) {
			return false
		}
		if l.next.CompareAndSwap(next, max(next, now)+l.interval) {
			return true
		}
	}
}

// tokenSet contains the hashes of the valid bearer tokens.
type tokenSet [][sha256.Size]byte

const minTokenLength = 16

// ParseTokens reads bearer tokens, one a line.
func ParseTokens(text string) ([]string, error) {
	var tokens []string
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			continue
		case len(line) < minTokenLength:
			return nil, fmt.Errorf("line %d: a token of %d characters; use at least %d, such as the output of openssl rand -hex 32", i+1, len(line), minTokenLength)
		}
		tokens = append(tokens, line)
	}
	if len(tokens) == 0 {
		return nil, errors.New("there is no token; write one a line")
	}
	return tokens, nil
}

func newTokenSet(tokens []string) tokenSet {
	var s tokenSet
	for _, t := range tokens {
		s = append(s, sha256.Sum256([]byte(t)))
	}
	return s
}

// accepts compares the header with every token, in a time that depends on no token.
func (s tokenSet) accepts(header string) bool {
	scheme, token, _ := strings.Cut(header, " ")
	sum := sha256.Sum256([]byte(token))
	found := 0
	for _, t := range s {
		found |= subtle.ConstantTimeCompare(sum[:], t[:])
	}
	return found == 1 && strings.EqualFold(scheme, "Bearer")
}

// limitedListener accepts at most a number of connections at a time. Others wait in the
// system's queue.
type limitedListener struct {
	net.Listener
	places chan struct{}
	closed chan struct{}
	once   sync.Once
}

func newLimitedListener(l net.Listener, connections int) *limitedListener {
	return &limitedListener{Listener: l, places: make(chan struct{}, connections), closed: make(chan struct{})}
}

func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &limitedConn{Conn: c, release: sync.OnceFunc(func() { <-l.places })}, nil
}

func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	release func()
}

func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
