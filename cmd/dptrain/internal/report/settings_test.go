package report

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
)

// open writes the fixture and opens it.
func (s *runFixture) open(t *testing.T) *Run {
	t.Helper()
	r, err := Open(s.write(t))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// requirePosition fails if a point of a chart is not at these fractions of the plotted
// area's width and height, from its lower left corner.
func requirePosition(t *testing.T, what string, c *chart, at [2]float64, across, up float64) {
	t.Helper()
	x, y := (at[0]-c.Left)/(c.Right-c.Left), (c.Bottom-at[1])/(c.Bottom-c.Top)
	if math.Abs(x-across) > 1e-4 || math.Abs(y-up) > 1e-4 {
		t.Errorf("%s is at (%v, %v) of the chart, want (%v, %v)", what, x, y, across, up)
	}
}

// parsePath returns the points of an SVG path of straight lines.
func parsePath(t *testing.T, path string) (points [][2]float64) {
	t.Helper()
	for i, part := range strings.Split(strings.TrimPrefix(path, "M"), "L") {
		var p [2]float64
		if n, err := fmt.Sscan(part, &p[0], &p[1]); n != 2 || err != nil || path[0] != 'M' {
			t.Fatalf("point %d of %q: %v", i, path, err)
		}
		points = append(points, p)
	}
	return points
}

// Every curve of ε ends at all lots and their cost. The run's own accountant is drawn on top.
func TestEpsilonChart(t *testing.T) {
	s := newFixture()
	s.lots[0].Count = 400
	c := s.open(t).accounting.epsilonChart()
	most, costs := 0.0, map[string]float64{}
	h := ledger.History{Header: s.header, Lots: s.lots}
	for _, name := range accountant.Names() {
		a, err := accountant.Epsilon(h, 1e-5, name)
		if err != nil {
			t.Fatal(err)
		}
		costs[name] = a.Epsilon
		most = max(most, a.Epsilon)
	}
	if last := c.Lines[len(c.Lines)-1]; last.Style != "pld main" || len(c.Lines) != len(costs) {
		t.Fatalf("%d lines of %d accountants, %q on top", len(c.Lines), len(costs), last.Style)
	}
	if c.YLabel != "ε, logarithmic" {
		t.Fatalf("ε from %v is drawn over %q", costs, c.YLabel)
	}
	ends := map[string][2]float64{}
	for _, l := range c.Lines {
		name, _, _ := strings.Cut(l.Style, " ")
		points := parsePath(t, l.Path)
		ends[name] = points[len(points)-1]
		requirePosition(t, name, c, [2]float64{ends[name][0], c.Bottom}, 1, 0)
	}
	// On a logarithmic axis equal distances are equal factors.
	unit := (ends["rdp"][1] - ends["naive"][1]) / math.Log(costs["naive"]/costs["rdp"])
	for name, at := range ends {
		if want := ends["naive"][1] + unit*math.Log(costs["naive"]/costs[name]); math.Abs(at[1]-want) > 0.02 {
			t.Errorf("%s ends %v from the top, want %v", name, at[1], want)
		}
	}
}

func TestScoreChart(t *testing.T) {
	s := newFixture()
	s.lots[0].Count, s.summary["steps"] = 400, 400
	s.metrics = `{"lot":100,"test_accuracy":0.7}` + "\n" + `{"lot":400,"test_accuracy":0.9}` + "\n"
	c, err := s.open(t).scoreChart()
	if err != nil {
		t.Fatal(err)
	}
	cost := func(lots int) float64 {
		s.lots[0].Count = lots
		a, err := accountant.Epsilon(ledger.History{Header: s.header, Lots: s.lots}, 1e-5, "pld")
		if err != nil {
			t.Fatal(err)
		}
		return a.Epsilon
	}
	first, all := cost(100), cost(400)
	// The axis goes from .65 to .95: 0.05 beyond the points.
	points, dots := parsePath(t, c.Lines[0].Path), c.Lines[0].Dots
	requirePosition(t, "the first point", c, points[0], first/(1.04*all), 1./6)
	requirePosition(t, "the last point", c, points[1], 1/1.04, 5./6)
	for i, d := range dots {
		if [2]float64{d.X, d.Y} != points[i] {
			t.Errorf("dot %d is not at its point", i)
		}
	}
	if want := "70.00% at ε = " + number.Round(first, 1, 4); dots[0].Title != want {
		t.Errorf("the title of a dot is %q, want %q", dots[0].Title, want)
	}
}

// The heat of a cell grows with its share of the class.
func TestConfusionMatrix_Heat(t *testing.T) {
	s := newFixture()
	s.lots[0].Count = 1
	page, _ := s.render(t)
	requireContains(t, "the page", page,
		`<td class="hit heat10">50</td><td class="miss heat2" title="3 of class cat predicted as dog">3</td><td class="right">94%</td>`,
		`<td class="miss heat2" title="2 of class dog predicted as cat">2</td><td class="hit heat10">45</td><td class="right">96%</td>`)
	nearly := (&Run{summary: summary{rundir.Summary{Confusion: [][]int{{999, 1}, {0, 5}}}}}).confusionMatrix()
	if one, all := nearly.Rows[0].Right, nearly.Rows[1].Right; one != "99%" || all != "100%" {
		t.Errorf("999 of 1000 are %s, and 5 of 5 are %s", one, all)
	}
}

// The page shows every setting that was given, and no other.
func TestPage_EverySetting(t *testing.T) {
	s := newFixture()
	s.lots[0].Count = 1
	page, _ := s.render(t)
	settings := map[string][2]string{
		"validation_records": {"validation records", "300 records"}, "projection": {"first layer", "60 principal directions, released with noise of 7 times one record&#39;s contribution; ε includes their cost"},
		"views": {"views of a picture", "4, changed by flip"}, "preset": {"preset", "abadi"}, "init": {"starting weights", "public.pt"},
		"freeze": {"frozen layers", "fc1"}, "ema": {"moving average", "decay 0.999"}, "lr_of": {"learning-rate factors", "fc2=2"},
		"decay_of": {"layers with weight decay", "matrices"},
	}
	for _, row := range settings {
		requireLacks(t, "the page", page, "<dt>"+row[0]+"</dt>")
	}
	for key, value := range map[string]any{"validation_records": 300, "validation_accuracy": 0.5, "projection": 60, "projection_noise": 7, "views": 4, "augment": "flip",
		"preset": "abadi", "init": "public.pt", "freeze": "fc1", "ema": 0.999, "lr_of": "fc2=2", "decay_of": "matrices"} {
		s.summary[key] = value
	}
	delete(s.summary, "ledger_head")
	page, _ = s.render(t)
	for _, row := range settings {
		requireContains(t, "the page", page, "<dt>"+row[0]+"</dt><dd>"+row[1]+"</dd>")
	}
	for _, row := range [][2]string{{"network", "digits-cnn"}, {"weights", "26\u202f010"}, {"data", "mnist"}, {"records", "60\u202f000"}, {"sampling", "poisson"},
		{"expected lot", "600"}, {"sampling rate", "0.01"}, {"lots", "1\u202f000"}, {"epochs", "10"}, {"clipping", "flat"}, {"clip bound", "1"}, {"optimizer", "momentum"},
		{"learning rate", "0.5"}, {"schedule", "constant"}, {"device", "cpu, 2 threads"}, {"platform", "linux/amd64"}, {"time", "1 min 23 s"}, {"microbatch", "120"}, {"dptrain", "v1.0.0"}} {
		requireContains(t, "the page", page, "<dt>"+row[0]+"</dt><dd>"+row[1]+"</dd>")
	}
}
