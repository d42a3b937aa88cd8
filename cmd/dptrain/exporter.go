package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/dptrain/dptrain/internal/exitcode"
)

// exporter answers scrapes of GET /metrics while a run goes on, in the Prometheus
// text format (version 0.0.4). All of it is public, as what watch shows is.
type exporter struct {
	server *http.Server
	mu     sync.Mutex
	now    *gauges // nil before the first lot: a run that goes on has spent what is not known here
}

// gauges are what is scraped.
type gauges struct {
	lots, planned  int
	epsilon, delta float64
	speed          float64 // examples of the expected lots a second
	learningRate   float64
	testAccuracy   float64 // NaN where none is known
	missed         *missed // nil where nothing is known of it
}

// answerScrapes listens on an address, on loopback where it names no host; nil where the
// address is empty.
func answerScrapes(address string) (*exporter, error) {
	if address == "" {
		return nil, nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, exitcode.Usagef("--metrics-addr %q: give HOST:PORT, or :PORT for this machine alone", address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return nil, exitcode.Usagef("--metrics-addr %q: the port must be a number from 1 to 65535", address)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, exitcode.Usagef("--metrics-addr %s: %w; choose another", address, err)
	}
	e := &exporter{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		e.mu.Lock()
		now := e.now
		e.mu.Unlock()
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		if now != nil {
			now.write(w)
		}
	})
	e.server = &http.Server{Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second, MaxHeaderBytes: 1 << 14}
	go e.server.Serve(listener)
	return e, nil
}

// set replaces what is scraped.
func (e *exporter) set(now gauges) {
	if e == nil {
		return
	}
	e.mu.Lock()
	e.now = &now
	e.mu.Unlock()
}

// close ends with the scrapes under way.
func (e *exporter) close() {
	if e == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if e.server.Shutdown(ctx) != nil {
		e.server.Close()
	}
}

func (g gauges) write(w io.Writer) {
	one := func(name, kind, help string, value float64) {
		text := strconv.FormatFloat(value, 'g', -1, 64)
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s %s\n", name, help, name, kind, name, text)
	}
	one("dptrain_lots", "counter", "Lots done.", float64(g.lots))
	one("dptrain_lots_planned", "gauge", "Lots that the run is to have.", float64(g.planned))
	one("dptrain_epsilon", "gauge", "Privacy spent, as the run's accountant says, or what is proven for any data where that is more; never that of fewer lots than are done.", g.epsilon)
	if g.delta > 0 {
		one("dptrain_delta", "gauge", "The delta of that epsilon.", g.delta)
	}
	one("dptrain_examples_per_second", "gauge", "Examples of the expected lots in a second.", g.speed)
	one("dptrain_learning_rate", "gauge", "Learning rate of the last lot.", g.learningRate)
	if !math.IsNaN(g.testAccuracy) {
		one("dptrain_test_accuracy", "gauge", "Share of right answers on public test data.", g.testAccuracy)
	}
	if g.missed != nil {
		one("dptrain_test_rmse", "gauge", "Root of the mean squared error on public test data, in the target's units.", float64(g.missed.RMSE))
	}
}
