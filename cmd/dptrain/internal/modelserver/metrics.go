package modelserver

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// latencies are the upper limits of the histogram of times, in seconds.
var latencies = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}

// metrics counts requests.
type metrics struct {
	mu                      sync.Mutex
	statuses                map[int]int // of refused requests
	answered, rows, batches int
	requestsInBatches       int
	seconds                 float64
	within                  [14]int // requests of at most latencies[i]
}

func (m *metrics) observe(rows int, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answered++
	m.rows += rows
	m.seconds += took.Seconds()
	for i, limit := range latencies {
		if took.Seconds() <= limit {
			m.within[i]++
		}
	}
}

func (m *metrics) refused(status int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.statuses == nil {
		m.statuses = map[int]int{}
	}
	m.statuses[status]++
}

func (m *metrics) batch(requests int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.batches++
	m.requestsInBatches += requests
}

// serve writes the metrics in the text format of Prometheus.
func (m *metrics) serve(w http.ResponseWriter, _ *http.Request) {
	var b bytes.Buffer
	m.write(&b)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Write(b.Bytes())
}

func (m *metrics) write(b *bytes.Buffer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	family := func(name, kind, help string) { fmt.Fprintf(b, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", name, help, kind) }
	family("dptrain_predict_requests_total", "counter", "Requests by status.")
	fmt.Fprintf(b, "dptrain_predict_requests_total{status=\"200\"} %d\n", m.answered)
	for _, status := range slices.Sorted(maps.Keys(m.statuses)) {
		fmt.Fprintf(b, "dptrain_predict_requests_total{status=\"%d\"} %d\n", status, m.statuses[status])
	}
	family("dptrain_predict_rows_total", "counter", "Rows that were predicted.")
	fmt.Fprintf(b, "dptrain_predict_rows_total %d\n", m.rows)
	family("dptrain_predict_batch_requests", "summary", "Requests that were computed together.")
	fmt.Fprintf(b, "dptrain_predict_batch_requests_sum %d\ndptrain_predict_batch_requests_count %d\n", m.requestsInBatches, m.batches)
	family("dptrain_predict_seconds", "histogram", "Time from the header of an answered request to its answer.")
	for i, limit := range latencies {
		fmt.Fprintf(b, "dptrain_predict_seconds_bucket{le=\"%v\"} %d\n", limit, m.within[i])
	}
	fmt.Fprintf(b, "dptrain_predict_seconds_bucket{le=\"+Inf\"} %d\n", m.answered)
	fmt.Fprintf(b, "dptrain_predict_seconds_sum %v\ndptrain_predict_seconds_count %d\n", m.seconds, m.answered)
}
