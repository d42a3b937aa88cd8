package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"regexp"
	"strings"
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

// validToken is the form of a token in a header (RFC 6750, section 2.1).
var validToken = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

// ParseTokens reads bearer tokens, one a line. A line that begins with # is a comment.
func ParseTokens(text string) ([]string, error) {
	var tokens []string
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case !validToken.MatchString(line):
			return nil, fmt.Errorf("line %d: a token consists of A-Z, a-z, 0-9 and ._~+/-, without spaces; begin a comment with #", i+1)
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

// find compares the header with every token, in a time that depends on no token, and returns the number
// of the token, or -1.
func (s tokenSet) find(header string) int {
	scheme, token, _ := strings.Cut(header, " ")
	sum := sha256.Sum256([]byte(token))
	found := -1
	for i, t := range s {
		equal := subtle.ConstantTimeCompare(sum[:], t[:])
		found = subtle.ConstantTimeSelect(equal, i, found)
	}
	if !strings.EqualFold(scheme, "Bearer") {
		return -1
	}
	return found
}
