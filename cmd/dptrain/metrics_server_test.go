package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/exitcode"
)

// freeAddress returns a local address on which no program listens. Its port is outside the range of
// automatic ports.
func freeAddress(t *testing.T) string {
	t.Helper()
	var err error
	for range 100 {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(20000))); err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Skipf("no network here: %v", err)
	return ""
}

func scrape(address string) (status int, text string, err error) {
	got, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return 0, "", err
	}
	defer got.Body.Close()
	b, err := io.ReadAll(got.Body)
	return got.StatusCode, string(b), err
}

// scraper scrapes at every write.
type scraper struct{ address, seen string }

func (s *scraper) Write(b []byte) (int, error) {
	if _, text, err := scrape(s.address); err == nil {
		s.seen = text
	}
	return len(b), nil
}

// A run serves its metrics until it ends.
func TestTrain_ServesMetrics(t *testing.T) {
	t.Chdir(t.TempDir())
	s := &scraper{address: freeAddress(t)}
	line := drawn + " --steps 1000 --noise 4 --delta 1e-5 --out run --metrics-addr " + s.address
	if code := run(strings.Fields(line), io.Discard, s); code != exitcode.Done {
		t.Errorf("exit %d", code)
	}
	for _, name := range []string{"dptrain_epsilon ", "dptrain_delta 1e-05", "dptrain_test_accuracy 0.", "dptrain_lots_planned 1000"} {
		if !strings.Contains(s.seen, name) {
			t.Errorf("%q is missing in the last scrape:\n%s", name, s.seen)
		}
	}
	if _, _, err := scrape(s.address); err == nil {
		t.Error("the server responds after the end of the run")
	}
}
