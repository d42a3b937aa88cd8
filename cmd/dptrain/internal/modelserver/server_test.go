package modelserver

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dptrain/dptrain/engine/data"
)

// doubling answers twice the number of a row, and fails for a batch that contains a 13. It counts the
// batches, and waits for a release before each.
type doubling struct {
	batches atomic.Int32
	release chan struct{}
}

func (d *doubling) model() Model {
	read := func(r io.Reader) (q data.Unlabeled, err error) {
		var x float32
		if _, err := fmt.Fscanf(r, "{\"x\": %g}", &x); err != nil {
			return q, err
		}
		q.Set, err = data.NewTable([]data.Column{{Name: "x", Kind: data.Feature}}, [][]float32{{x}}, nil)
		return q, err
	}
	return Model{JSON: read, Arrow: read, Predict: func(rows data.Set, to func(int, any) error) error {
		<-d.release
		d.batches.Add(1)
		values := make([]float32, rows.Len())
		index := make([]int, rows.Len())
		for i := range index {
			index[i] = i
		}
		if err := rows.Read([][]float32{values}, index); err != nil {
			return err
		}
		for _, v := range values {
			if v == 13 {
				return errors.New("13 has no answer")
			}
		}
		for i, v := range values {
			if err := to(i, 2*v); err != nil {
				return err
			}
		}
		return nil
	}}
}

func ask(s *Server, x int) (status int, body string) {
	w := httptest.NewRecorder()
	s.http.Handler.ServeHTTP(w, httptest.NewRequest("POST", "/v1/predict", strings.NewReader(fmt.Sprintf("{\"x\": %d}", x))))
	return w.Code, strings.TrimSpace(w.Body.String())
}

// Requests that wait are computed together, and a row that has no answer spoils no other request.
func TestServer_JoinsRequestsThatWait(t *testing.T) {
	d := &doubling{release: make(chan struct{})}
	s := New(d.model(), false)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.compute()
	}()
	var all sync.WaitGroup
	for x := range 20 {
		all.Go(func() {
			status, body := ask(s, x)
			if x == 13 {
				if status != http.StatusUnprocessableEntity || !strings.Contains(body, "13 has no answer") {
					t.Errorf("13: status %d, %s", status, body)
				}
			} else if status != http.StatusOK || body != fmt.Sprint(2*x) {
				t.Errorf("%d: status %d, %s", x, status, body)
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for waiting := true; waiting; { // releases batches until all requests are answered
		select {
		case d.release <- struct{}{}:
		case <-done:
			waiting = false
		}
	}
	s.queue <- nil
	<-ended
	w := httptest.NewRecorder()
	s.http.Handler.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text := w.Body.String()
	for _, want := range []string{`requests_total{status="200"} 19`, `requests_total{status="422"} 1`, "rows_total 19", "seconds_count 19", "batch_requests_sum 20"} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics lack %q:\n%s", want, text)
		}
	}
}

// A request finds a full queue only if maxWaiting others wait.
func TestServer_RefusesWhereTooManyWait(t *testing.T) {
	d := &doubling{release: make(chan struct{})}
	s := New(d.model(), false) // computes nothing yet
	var all sync.WaitGroup
	for range maxWaiting {
		all.Go(func() {
			if status, body := ask(s, 1); status != http.StatusOK {
				t.Errorf("status %d, %s", status, body)
			}
		})
	}
	for len(s.queue) < maxWaiting {
		runtime.Gosched()
	}
	if status, body := ask(s, 1); status != http.StatusServiceUnavailable || !strings.Contains(body, "try again") {
		t.Errorf("status %d, %s", status, body)
	}
	close(d.release)
	go s.compute()
	all.Wait()
	s.queue <- nil
	if n := d.batches.Load(); n != 1 {
		t.Errorf("%d requests that wait took %d batches", maxWaiting, n)
	}
}
