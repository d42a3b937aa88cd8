package server

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/dptrain/dptrain/engine/drawdiscard"
)

const (
	// leastRate is the least rate in bytes a second of a body, and of a file that is sent, after a grace.
	// It bounds how long a client can occupy one of the places for requests.
	leastRate = 16 << 10
	bodyGrace = 5 * time.Second
	// unreadBody is the time for a body to arrive that is not read. Package http reads up to 256 KB of it
	// before the answer leaves, and the connection has a place meanwhile.
	unreadBody = time.Second
	// A read of less than smallRead bytes costs about as much as a return of that many kilobytes. After
	// one, the server waits for more bytes to arrive.
	smallRead = 512
	pause     = 5 * time.Millisecond
)

// readBody appends the body of a return to dst. It takes no more memory than the longest valid file.
func (s *Server) readBody(dst []byte, w http.ResponseWriter, r *http.Request, c *drawdiscard.Codec) ([]byte, error) {
	return s.readLimited(dst, w, r, int64(c.MaxSize()), c.Size())
}

// readLimited appends a body of at most limit bytes, and probably of a size, to dst. It takes no more
// time than a client at the least rate.
func (s *Server) readLimited(dst []byte, w http.ResponseWriter, r *http.Request, limit int64, size int) ([]byte, error) {
	if r.ContentLength > limit {
		return dst, &http.MaxBytesError{Limit: limit}
	}
	dst = slices.Grow(dst, max(size, smallRead)+1)
	body := http.MaxBytesReader(w, r.Body, limit)
	connection, began := http.NewResponseController(w), time.Now()
	for {
		late := s.grace + transferTime(len(dst))
		connection.SetReadDeadline(began.Add(min(late, s.options.Timeout))) // an error: the request comes from no connection
		n, err := body.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case errors.Is(err, io.EOF):
			return dst, nil
		case err != nil:
			return dst, err
		case len(dst) == cap(dst):
			dst = slices.Grow(dst, 1)
		}
		if n < smallRead {
			time.Sleep(pause)
		}
	}
}

// transferTime is the time of a number of bytes at the least rate.
func transferTime(bytes int) time.Duration { return time.Duration(bytes) * time.Second / leastRate }

// limitUnreadBody limits the time of a body that is not read. Reading it sets another limit.
func limitUnreadBody(w http.ResponseWriter) {
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(unreadBody)) // an error: the request comes from no connection
}
