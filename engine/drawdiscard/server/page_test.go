package server

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dptrain/dptrain/engine/drawdiscard"
)

// tested is a model that starts with the weights (1, -1, 0), and five public records, of which it
// predicts three correctly.
func tested() Description {
	d := described("ads", 3)
	d.Instances, d.FalseAlarms, d.Initial = 1, 0, []float32{1, -1, 0}
	d.Test = drawdiscard.Records{Features: []float32{1, 0, 0, 1, 0.5, 0, 0, 0.5, 1, 0.5}, Labels: []float32{1, 0, 1, 1, 0}}
	return d
}

// The accuracy on public test data is in the metrics and on the page, which shows all quantities over
// time, loads nothing and runs no script.
func TestPage_ShowsProgress(t *testing.T) {
	regression := described("costs", 2)
	regression.Spec = drawdiscard.Spec{Model: "linear", Inputs: drawdiscard.Shape{1}}
	regression.Instances, regression.FalseAlarms, regression.Initial = 1, 0, []float32{1, 0}
	regression.Test = drawdiscard.Records{Features: []float32{0, 1}, Labels: []float32{0, 0.2}}
	r := start(t, Options{}, tested(), regression, described("plain", 3))
	m := r.models["ads"]
	for deadline := time.Now().Add(10 * time.Second); math.IsNaN(m.test.last()) || math.IsNaN(r.models["costs"].test.last()); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing was measured")
		}
	}
	r.give(t, "ads", "false", nil)
	_, text := r.do(t, "GET", "/metrics", nil, nil)
	for _, want := range []string{`dptrain_test_accuracy{model="ads"} 0.6`, `dptrain_test_rmse{model="costs"} 0.56568`, `dptrain_spread_stationary{model="plain"}`, `dptrain_learning_rate{model="plain"} 0.1`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the metrics lack %s:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), `dptrain_test_accuracy{model="plain"}`) {
		t.Error("a model without test data has an accuracy")
	}
	m.history.add(sample{time: time.Now().Add(historyInterval), updates: 1, rejects: 1, quality: m.test.last()})
	response, page := r.do(t, "GET", "/", nil, nil)
	if response.StatusCode != 200 || !strings.HasPrefix(response.Header.Get("Content-Type"), "text/html") || !strings.Contains(response.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("%s, %v", response.Status, response.Header)
	}
	for _, want := range []string{"<h1>ads</h1>", "<h1>plain</h1>", "accuracy on public test data <b>60.00%</b>", "rmse on public test data", "updates <b>1</b>", "rejected requests <b>1</b>", "spread among", "rejected: ticket-invalid"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %s:\n%s", want, page)
		}
	}
	for _, bad := range []string{"<script", "src=", "http://", "https://", "url(", "NaN", "Inf", "ZgotmplZ"} {
		if strings.Contains(string(page), bad) {
			t.Errorf("the page contains %s", bad)
		}
	}
	requireWellFormed(t, string(page[strings.Index(string(page), "<div"):strings.LastIndex(string(page), "</html>")]))
}

func requireWellFormed(t *testing.T, text string) {
	t.Helper()
	in := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := in.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
}

// The history keeps equal distances, and its length is bounded.
func TestHistory_IsBounded(t *testing.T) {
	h := history{interval: time.Second}
	began := time.Now()
	for i := range 20 * historyLength {
		h.add(sample{time: began.Add(time.Duration(i) * time.Second), updates: uint64(i)})
		if n := len(h.list()); n > historyLength {
			t.Fatalf("%d samples", n)
		}
	}
	all := h.list()
	if len(all) < historyLength/2 || all[0].updates != 0 || all[len(all)-1].updates < 20*historyLength-uint64(h.interval.Seconds()) {
		t.Errorf("%d samples from %d to %d", len(all), all[0].updates, all[len(all)-1].updates)
	}
	if !slices.IsSortedFunc(all, func(a, b sample) int { return a.time.Compare(b.time) }) || all[2].time.Sub(all[1].time) != all[1].time.Sub(all[0].time) {
		t.Error("the distances differ")
	}
}

func TestModel_RefusesOtherTestData(t *testing.T) {
	d := tested()
	d.Test.Features = d.Test.Features[1:]
	if _, err := openModel(d, modelOptions{lifetime: time.Minute}); err == nil || !strings.Contains(err.Error(), "test records") {
		t.Errorf("%v", err)
	}
}
