package server

import (
	"bytes"
	"fmt"
	"net/http"
	"time"
)

// measured returns the names of the models with test data and a measure.
func (s *Server) measured(quality string) (names []string) {
	for _, n := range s.names {
		if m := s.models[n]; len(m.test.records.Labels) > 0 && m.qualityName() == quality {
			names = append(names, n)
		}
	}
	return names
}

// writeMetrics writes all metrics in the text format of Prometheus.
func (s *Server) writeMetrics(w http.ResponseWriter) {
	var b bytes.Buffer
	family := func(name, kind, help string) { fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", name, help, kind) }
	each := func(name, kind, help string, value func(m *Model) any) {
		family(name, kind, help)
		for _, n := range s.names {
			fmt.Fprintf(&b, "%s{model=%q} %v\n", name, n, value(s.models[n]))
		}
	}
	each("dptrain_draws_total", "counter", "Instances drawn.", func(m *Model) any { return m.draws.Load() })
	each("dptrain_updates_total", "counter", "Returns that replaced an instance, restarts included.", func(m *Model) any { return m.updates.Load() })
	each("dptrain_instances", "gauge", "Instances of the model.", func(m *Model) any { return m.instances.Count() })
	each("dptrain_spread", "gauge", "Mean over the weights of the variance among the instances, at most a second old.", func(m *Model) any { return m.summarize().spread })
	each("dptrain_spread_stationary", "gauge", "The spread that noise alone keeps at the present learning rate.", func(m *Model) any { return m.stationarySpread() })
	each("dptrain_learning_rate", "gauge", "The learning rate of the next draw.", func(m *Model) any { return m.rates.At(m.updates.Load()) })
	for _, quality := range []struct{ name, help string }{
		{"accuracy", "Accuracy of the averaged model on the public test data."},
		{"rmse", "Root mean squared error of the averaged model on the public test data, on the scale of contributions."},
	} {
		for i, n := range s.measured(quality.name) {
			if i == 0 {
				family("dptrain_test_"+quality.name, "gauge", quality.help)
			}
			fmt.Fprintf(&b, "dptrain_test_%s{model=%q} %v\n", quality.name, n, s.models[n].test.last())
		}
	}
	family("dptrain_instance_age_seconds", "gauge", "Time since an instance entered: the youngest, the mean, the oldest of those a second ago.")
	for _, n := range s.names {
		low, mean, high := s.models[n].summarize().ages(time.Now())
		for _, a := range []struct {
			stat string
			age  time.Duration
		}{{"min", low}, {"mean", mean}, {"max", high}} {
			fmt.Fprintf(&b, "dptrain_instance_age_seconds{model=%q,stat=%q} %v\n", n, a.stat, a.age.Seconds())
		}
	}
	family("dptrain_rejects_total", "counter", "Rejected requests by reason. Requests that reached no model have an empty model.")
	for _, p := range problems {
		if n := s.rejects[p.name].Load(); n > 0 {
			fmt.Fprintf(&b, "dptrain_rejects_total{model=\"\",reason=%q} %d\n", p.name, n)
		}
		for _, name := range s.names {
			if n := s.models[name].rejects[p.name].Load(); n > 0 {
				fmt.Fprintf(&b, "dptrain_rejects_total{model=%q,reason=%q} %d\n", name, p.name, n)
			}
		}
	}
	family("dptrain_requests_in_flight", "gauge", "Requests in flight.")
	fmt.Fprintf(&b, "dptrain_requests_in_flight %d\n", s.inFlight.Load())
	family("dptrain_sync_errors_total", "counter", "Failed syncs of a journal to disk.")
	fmt.Fprintf(&b, "dptrain_sync_errors_total %d\n", s.errors.Load())
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	w.Write(b.Bytes())
}
