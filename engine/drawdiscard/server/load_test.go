package server

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dptrain/dptrain/engine/drawdiscard"
)

// pairClient draws and returns over one connection that stays open. It costs a fraction of
// package http's client, so that the load is that of the server.
type pairClient struct {
	conn   net.Conn
	in     *bufio.Reader
	draw   []byte
	prefix []byte // of a return, before the ticket
	file   []byte
	out    []byte

	header  int // bytes of the file before the weights
	weights []float32
	bank    *drawdiscard.NoiseBank
	scale   float32
}

func dialPairs(url string, m *Model, seed uint64) (*pairClient, error) {
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return nil, err
	}
	size, weights, model := m.codec.Size(), m.mechanism.Weights(), m.description.Name
	bank, err := drawdiscard.NewNoiseBank(m.description.Settings.Distribution, weights, seed)
	if err != nil {
		return nil, err
	}
	return &pairClient{
		header: size - 4*weights, weights: make([]float32, weights), bank: bank,
		scale: float32(m.mechanism.NoiseScale() * m.description.Settings.LearningRate),
		conn:  c, in: bufio.NewReaderSize(c, 8<<10),
		draw:   []byte("POST /v1/models/" + model + "/draw HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n"),
		prefix: []byte("POST /v1/models/" + model + "/return HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: " + strconv.Itoa(size) + "\r\nDptrain-Ticket: "),
		file:   make([]byte, size),
	}, nil
}

// exchange sends a request and reads the response: its status, its ticket and its body into file
// if it has one.
func (c *pairClient) exchange(request, body []byte) (status string, ticket []byte, err error) {
	c.out = append(append(c.out[:0], request...), body...)
	if _, err := c.conn.Write(c.out); err != nil {
		return "", nil, err
	}
	length := 0
	for first := true; ; first = false {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return "", nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case first && len(line) < 12:
			return "", nil, fmt.Errorf("response %q", line)
		case first:
			status = string(line[9:12])
		case len(line) == 0:
			if length > len(c.file) {
				_, err = io.CopyN(io.Discard, c.in, int64(length))
			} else {
				_, err = io.ReadFull(c.in, c.file[:length])
			}
			return status, ticket, err
		case string(name) == "Content-Length":
			if length, err = strconv.Atoi(string(value)); err != nil {
				return "", nil, err
			}
		case string(name) == TicketHeader:
			ticket = append([]byte(nil), value...)
		}
	}
}

// pair draws an instance, adds noise and returns it. The latencies are those of the two requests.
func (c *pairClient) pair() (draw, give time.Duration, err error) {
	began := time.Now()
	status, ticket, err := c.exchange(c.draw, nil)
	if err != nil || status != "200" {
		return 0, 0, errors.Join(err, errors.New("draw: status "+status))
	}
	drawn := time.Now()
	copy(c.weights, decodeWeights(c.file[c.header:]))
	c.bank.AddTo(c.weights, c.scale)
	appendWeights(c.file[:c.header], c.weights)
	request := append(append(append([]byte(nil), c.prefix...), ticket...), "\r\n\r\n"...)
	status, _, err = c.exchange(request, c.file)
	if err != nil || status != "204" && status != "422" && status != "410" { // the spam filter rejects few honest returns, and late ones expire
		return 0, 0, errors.Join(err, errors.New("return: status "+status))
	}
	return drawn.Sub(began), time.Since(drawn), nil
}

// runLoad lets clients make pairs until the deadline and returns all latencies of requests.
func runLoad(t testing.TB, r *running, model string, clients int, duration time.Duration) (pairs int, latencies []time.Duration) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	var stop atomic.Bool
	failures := make(chan error, clients)
	for i := range clients {
		c, err := dialPairs(r.url, r.models[model], uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			defer c.conn.Close()
			var mine []time.Duration
			for !stop.Load() {
				draw, give, err := c.pair()
				if err != nil {
					failures <- err
					break
				}
				mine = append(mine, draw, give)
			}
			mu.Lock()
			defer mu.Unlock()
			latencies = append(latencies, mine...)
		})
	}
	time.Sleep(duration)
	stop.Store(true)
	all.Wait()
	close(failures)
	for err := range failures {
		t.Error(err)
	}
	slices.Sort(latencies)
	return len(latencies) / 2, latencies
}

// A short load: every pair succeeds, all updates are counted, and no ticket is lost. The race
// detector checks the server's memory accesses.
func TestServer_Load(t *testing.T) {
	duration := 2 * time.Second
	if testing.Short() {
		duration = 300 * time.Millisecond
	}
	d := described("ads", 1000)
	d.Instances = 20
	r := start(t, Options{Folder: t.TempDir(), MaxRate: 1e9, MaxShare: 1}, d)
	pairs, latencies := runLoad(t, r, "ads", 64, duration)
	m := r.models["ads"]
	outliers, expired := m.rejects[problemOutlier.name].Load(), m.rejects[problemTicketExpired.name].Load()
	if got := m.updates.Load(); got+outliers+expired != uint64(pairs) || pairs == 0 {
		t.Errorf("%d updates, %d outliers and %d expired tickets of %d pairs", got, outliers, expired, pairs)
	}
	if bound := 100 + 5*d.FalseAlarms*float64(pairs); float64(outliers) > bound {
		t.Errorf("%d of %d honest returns were rejected", outliers, pairs)
	}
	t.Logf("%d of %d tickets expired", expired, pairs)
	t.Logf("%.0f pairs/s, p50 %v, p99 %v", float64(pairs)/duration.Seconds(), latencies[len(latencies)/2], latencies[len(latencies)*99/100])
}
