package training

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

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/internal/host/loopback"
)

// MetricsServer serves GET /metrics in the Prometheus text format (version 0.0.4) while a
// run lasts. All metrics are public, as everything that Progress reports. Methods of a
// nil MetricsServer do nothing.
type MetricsServer struct {
	server *http.Server
	mu     sync.Mutex
	latest *metrics // nil before the first lot: what a resumed run has spent is unknown until then
}

type metrics struct {
	lots, plannedLots int
	epsilon, delta    float64
	examplesPerSecond float64 // of the expected lots
	learningRate      float64
	testAccuracy      float64                   // NaN if unknown
	regression        *rundir.RegressionMetrics // nil if unknown
}

// ServeMetrics listens on an address, or on the loopback interface if the address names no
// host. Remote permits an address that other machines reach. It returns nil for an empty address.
func ServeMetrics(address string, remote bool) (*MetricsServer, error) {
	if address == "" {
		return nil, nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, exitcode.Usagef("--metrics-addr %q: give HOST:PORT, or :PORT to listen on this machine only", address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return nil, exitcode.Usagef("--metrics-addr %q: the port must be a number from 1 to 65535", address)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if !loopback.IsHost(host) && !remote {
		return nil, exitcode.Usagef("--metrics-addr %s is reachable by other machines, which could read the metrics: add --metrics-remote, or give :%s", address, port)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, exitcode.Usagef("--metrics-addr %s: %w; choose another address", address, err)
	}
	s := &MetricsServer{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		latest := s.latest
		s.mu.Unlock()
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		if latest != nil {
			latest.write(w)
		}
	})
	handler := http.Handler(mux)
	if loopback.IsListener(listener) {
		handler = loopback.Handler(mux, func(w http.ResponseWriter, status int, reason string) { http.Error(w, reason, status) })
	}
	s.server = &http.Server{Handler: handler, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second, MaxHeaderBytes: 1 << 14}
	go s.server.Serve(listener)
	return s, nil
}

// set replaces the metrics.
func (s *MetricsServer) set(m metrics) {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.latest = &m
	s.mu.Unlock()
}

// Close completes the requests in progress and stops the server.
func (s *MetricsServer) Close() {
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.server.Shutdown(ctx) != nil {
		s.server.Close()
	}
}

func (m metrics) write(w io.Writer) {
	metric := func(name, kind, help string, value float64) {
		text := strconv.FormatFloat(value, 'g', -1, 64)
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s %s\n", name, help, name, kind, name, text)
	}
	metric("dptrain_lots", "counter", "Lots that are done.", float64(m.lots))
	metric("dptrain_lots_planned", "gauge", "Planned number of lots.", float64(m.plannedLots))
	metric("dptrain_epsilon", "gauge", "Upper bound of the epsilon spent so far: the run's accountant's, or the one proven for any data if it is larger.", m.epsilon)
	if m.delta > 0 {
		metric("dptrain_delta", "gauge", "The delta of that epsilon.", m.delta)
	}
	metric("dptrain_examples_per_second", "gauge", "Examples of the expected lots per second.", m.examplesPerSecond)
	metric("dptrain_learning_rate", "gauge", "Learning rate of the last lot.", m.learningRate)
	if !math.IsNaN(m.testAccuracy) {
		metric("dptrain_test_accuracy", "gauge", "Share of correct predictions on public test data.", m.testAccuracy)
	}
	if m.regression != nil {
		metric("dptrain_test_rmse", "gauge", "Root mean squared error on public test data, in units of the target.", float64(m.regression.RMSE))
	}
}
