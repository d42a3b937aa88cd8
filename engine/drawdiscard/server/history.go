package server

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dptrain/dptrain/engine/drawdiscard"
)

const (
	historyLength   = 512
	historyInterval = 5 * time.Second // at first; it doubles whenever the history is full
)

// sample is the progress of a model at a time.
type sample struct {
	time             time.Time
	updates, rejects uint64
	spread           float64
	stationary       float64 // the spread that noise alone keeps
	quality          float64 // on the public test data; NaN without them
}

// history has samples of a model since the start of the server, at equal distances. When it is full, it
// keeps every second one and doubles the distance, so its memory is bounded.
type history struct {
	mu       sync.Mutex
	interval time.Duration
	samples  []sample
}

// add appends a sample if one is due.
func (h *history) add(s sample) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.samples); n > 0 && s.time.Sub(h.samples[n-1].time) < h.interval {
		return
	}
	if len(h.samples) == historyLength {
		kept := h.samples[:0]
		for i := 0; i < historyLength; i += 2 {
			kept = append(kept, h.samples[i])
		}
		h.samples, h.interval = kept, 2*h.interval
	}
	h.samples = append(h.samples, s)
}

// list returns the samples so far.
func (h *history) list() []sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]sample(nil), h.samples...)
}

// publicTest measures the averaged model on public test data.
type publicTest struct {
	records drawdiscard.Records // none: there are no test data
	quality atomic.Uint64       // bits of the last measurement; of NaN before the first

	isMeasured bool // this and the next ones belong to the goroutine that measures
	updates    uint64
	due        time.Time
}

// measure computes the accuracy of the averaged model, or the root mean squared error of a target on the
// scale of contributions. It computes for at most a tenth of the time, and only after an update.
func (p *publicTest) measure(m *Model) {
	began := time.Now()
	if len(p.records.Labels) == 0 || began.Before(p.due) || p.isMeasured && p.updates == m.updates.Load() {
		return
	}
	a := m.average()
	m.predictor.mu.Lock()
	means, err := m.predictor.predict([][]float32{a.weights}, p.records.Features, len(p.records.Labels))
	m.predictor.mu.Unlock()
	p.due = time.Now().Add(10 * time.Since(began))
	if err != nil {
		return
	}
	sum := 0.0
	for i, label := range p.records.Labels {
		if m.description.Classes == 0 {
			d := means[i][0] - float64(label)
			sum += d * d
			continue
		}
		if one, finite := newPrediction(means[i], m.description.Classes); finite && *one.Class == int(label) {
			sum++
		}
	}
	quality := sum / float64(len(p.records.Labels))
	if m.description.Classes == 0 {
		quality = math.Sqrt(quality)
	}
	p.updates, p.isMeasured = a.updates, true
	p.quality.Store(math.Float64bits(quality))
}

// last is the last measurement; NaN before the first, and without test data.
func (p *publicTest) last() float64 { return math.Float64frombits(p.quality.Load()) }

// qualityName names the measure of the public test data.
func (m *Model) qualityName() string {
	if m.description.Classes == 0 {
		return "rmse"
	}
	return "accuracy"
}

// observe measures the model and adds its state to the history, if these are due.
func (m *Model) observe(now time.Time) {
	m.test.measure(m)
	s := sample{time: now, updates: m.updates.Load(), spread: m.summarize().spread,
		stationary: m.stationarySpread(), quality: m.test.last()}
	for _, n := range m.rejects {
		s.rejects += n.Load()
	}
	m.history.add(s)
}

// observeModels observes the models every second.
func (s *Server) observeModels(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		for _, m := range s.models {
			m.observe(time.Now())
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
