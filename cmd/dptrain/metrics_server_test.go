package main

import (
	"io"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/training/metricstest"
)

// scraper scrapes at every write.
type scraper struct{ address, seen string }

func (s *scraper) Write(b []byte) (int, error) {
	if _, text, err := metricstest.Scrape(s.address); err == nil {
		s.seen = text
	}
	return len(b), nil
}

// A run serves its metrics until it ends.
func TestTrain_ServesMetrics(t *testing.T) {
	t.Chdir(t.TempDir())
	s := &scraper{address: metricstest.FreeAddress(t)}
	line := drawn + " --steps 1000 --noise 4 --delta 1e-5 --out run --metrics-addr " + s.address
	if code := run(strings.Fields(line), nil, io.Discard, s); code != exitcode.Done {
		t.Errorf("exit %d", code)
	}
	for _, name := range []string{"dptrain_epsilon ", "dptrain_delta 1e-05", "dptrain_test_accuracy 0.", "dptrain_lots_planned 1000"} {
		if !strings.Contains(s.seen, name) {
			t.Errorf("%q is missing in the last scrape:\n%s", name, s.seen)
		}
	}
	if _, _, err := metricstest.Scrape(s.address); err == nil {
		t.Error("the server responds after the end of the run")
	}
}
