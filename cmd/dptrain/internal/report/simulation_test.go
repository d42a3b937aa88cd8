package report

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// simulationFixture has two values of ε, two numbers of instances and two batches.
func simulationFixture() *Simulation {
	s := &Simulation{Data: "digits", Clients: 60, Records: 10, Model: "multinomial", Classes: 10, Clip: 1, LossExamples: 600, Passes: 3, LearningRates: []float64{0.03, 0.01}, Weights: 7850, TestExamples: 500, Central: "lots", Seed: 5, Threads: 2, Seconds: 61.2, Version: "v1"}
	for i, e := range []float64{math.Inf(1), 0.5} {
		add := func(method string, instances, batch int, final float64) {
			s.Rows = append(s.Rows, SimulationRow{Method: method, Instances: instances, Batch: batch, Epsilon: number.Float(e), LearningRate: 0.03, Accuracy: []float64{0.31, 0.4, final}, Final: final, TrainingLoss: []number.Float{2.1, number.Float(math.Inf(1)), 0.5}})
		}
		add(DrawAndDiscard, 1, 0, 0.8123-float64(i)/10)
		add(DrawAndDiscard, 10, 0, 0.7234-float64(i)/10)
		add(ServerBatch, 0, 10, 0.7345-float64(i)/10)
		add(ServerBatch, 0, 100, 0.7456-float64(i)/10)
		add(Central, 0, 0, 0.9)
		s.Claims = append(s.Claims, SimulationClaim{10, number.Float(e), 0, 0.7234, 0.7456, 0.7345, i == 0, true}, SimulationClaim{10, number.Float(e), 0.01, 0.7, 0.7, 0.7, false, i == 1})
	}
	s.Rows[6].Spread, s.Rows[6].Stationary = 0.2, 0.4
	s.Variance = []SimulationVariance{{Instances: 1}, {Instances: 10, Theory: 5, Measured: 5.1}}
	s.Variance[0].Course = []VariancePoint{{1, 1.1}, {1000, 980}}
	s.Variance[1].Course = []VariancePoint{{1, 5.2}, {1000, 4.9}}
	return s
}

func renderSimulation(t *testing.T, s *Simulation) string {
	t.Helper()
	page, err := s.Page()
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// The page has a panel for each ε with a line for each setting, every final accuracy, every claim
// and the variances, and is marked insecure.
func TestSimulation_PageIsComplete(t *testing.T) {
	page := renderSimulation(t, simulationFixture())
	requireContains(t, "the page", page, "Insecure", "not cryptographic", "no noise", "ε = 0.5", "k = 10", "batch 100", "central DP-SGD",
		"81.23%", "72.34%", "73.45%", "74.56%", "62.34%", "agree to 2 points", "the best of each line", "does not hold",
		"5.1", "2.5", "feature level", "1m1s", "3 passes", `id="passes-0-name"`, `id="passes-1-name"`, `id="loss-0-name"`, `id="loss-1-name"`, "training loss", "Model multinomial", `id="claim-1-name"`, `id="variance-name"`, `id="courses-name"`, "k = 1 (squared distance from the start)")
	requireLacks(t, "the page", page, "http://", "https://", "url(", "@import", "<script", "<img", "src=", "/*style*/", "NaN", "ZgotmplZ")
	// Two panels of accuracy and two of losses, of five lines each, and a legend of five, two claims of three lines and a legend of three, two of variance, and two over
	// updates with a legend of two.
	if got := strings.Count(page, `<path class="line `); got != 4*5+5+2*3+3+2+2+2 {
		t.Errorf("%d lines", got)
	}
}

func TestSimulation_PageEscapesNames(t *testing.T) {
	s := simulationFixture()
	s.Data = `<script>alert(1)</script>`
	requireLacks(t, "the page", renderSimulation(t, s), "<script")
}

// A simulation with one setting has a page without claims.
func TestSimulation_PageWithOneRow(t *testing.T) {
	s := &Simulation{Data: "digits", Passes: 1, Rows: []SimulationRow{{Method: DrawAndDiscard, Instances: 1, Epsilon: 1, Accuracy: []float64{1}, Final: 1}}, Variance: []SimulationVariance{{Instances: 1}}}
	requireLacks(t, "the page", renderSimulation(t, s), "NaN", "Inf", "Is k instances like")
}

// The page and the claims use the learning rate with the best final accuracy.
func TestSimulation_BestLearningRate(t *testing.T) {
	s := simulationFixture()
	better, worse := s.Rows[1], s.Rows[2]
	better.Final, better.LearningRate = 0.777, 0.01
	worse.Final, worse.LearningRate = 0.111, 0.01
	s.Rows = append(s.Rows, better, worse)
	best := s.Best()
	if len(best) != 10 || best[1].Final != 0.777 || best[2].Final != 0.7345 {
		t.Errorf("%d rows, final accuracies %v and %v", len(best), best[1].Final, best[2].Final)
	}
	page := renderSimulation(t, s)
	requireContains(t, "the page", page, "77.70%", `<span class="rate">0.01</span>`, "0.03, 0.01")
	requireLacks(t, "the page", page, "72.34% <", "11.10%")
}

func TestSimulation_CountsAgreements(t *testing.T) {
	best := "the best of each line"
	want := []Agreement{{best, "no noise", 1, 1, 1}, {best, "noise", 0, 1, 1}, {"0.01", "no noise", 0, 0, 1}, {"0.01", "noise", 0, 1, 1}}
	if got := simulationFixture().Agreements(); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// An infinite ε survives JSON.
func TestSimulation_RowsAreJSON(t *testing.T) {
	b, err := json.Marshal(simulationFixture())
	if err != nil {
		t.Fatal(err)
	}
	requireContains(t, "the JSON", string(b), `"epsilon":"Infinity"`, `"epsilon":0.5`, `"method":"draw-and-discard"`, `"secure":false`, `"square_holds":true`)
}

// Of a target, the page has the error in place of the accuracy, and the best row has the least.
func TestSimulation_PageOfTarget(t *testing.T) {
	s := simulationFixture()
	s.Classes, s.Claims = 0, nil
	for i := range s.Rows {
		s.Rows[i].Accuracy, s.Rows[i].Final, s.Rows[i].RMSE = nil, 0, []number.Float{1, 0.7, number.Float(0.2 + float64(i)/100)}
	}
	worse := s.Rows[0]
	worse.RMSE = []number.Float{1, 1, 0.9}
	s.Rows = append(s.Rows, worse)
	if best := s.Best(); len(best) != 10 || best[0].RMSE[2] != 0.2 {
		t.Errorf("%d rows, the first ends with %v", len(best), best[0].RMSE)
	}
	page := renderSimulation(t, s)
	requireContains(t, "the page", page, "Test RMSE and training loss", `id="passes-0-name"`, "Final RMSE")
	requireLacks(t, "the page", page, "NaN", "Is k instances like", "ZgotmplZ")
}
