package report

import (
	"strings"
	"testing"
)

// The page shows the last release of each metric, and draws a metric with one value with the error
// bars of its noise. A metric of a line that a resumed run repeats counts once.
func TestPage_ReleasedMetrics(t *testing.T) {
	s := newFixture()
	s.metrics = `{"lot":10,"released":[{"metric":"loss","value":[2],"deviation":0.25},{"metric":"class-counts","value":[0.25,0.75],"deviation":0.5}]}` + "\n" +
		`{"lot":20,"released":[{"metric":"loss","value":[9],"deviation":0.25}]}` + "\n" +
		`{"lot":20,"test_accuracy":0.8,"released":[{"metric":"loss","value":[1],"deviation":0.25},{"metric":"<b>","value":[3,4,5],"deviation":1}]}` + "\n"
	run, err := Open(s.write(t))
	if err != nil {
		t.Fatal(err)
	}
	c := run.metricChart("loss")
	if len(run.points) != 2 || c == nil || len(c.Lines) != 2 || strings.Count(c.Lines[0].Path, "M") != 2 || len(c.Lines[1].Dots) != 2 {
		t.Fatalf("points %+v, chart %+v", run.points, c)
	}
	// The bars reach from 1 − 2·0.25 to 2 + 2·0.25.
	low, high := c.Lines[1].Dots[1].Y, c.Lines[1].Dots[0].Y
	x := horizontalAxis(0, 20*1.04)
	y := verticalAxis(0.5-0.16, 2.5+0.16)
	if want := svgPath(x, y, [][2]float64{{10, 1.5}, {10, 2.5}}) + svgPath(x, y, [][2]float64{{20, 0.5}, {20, 1.5}}); c.Lines[0].Path != want || low != y.Position(1) || high != y.Position(2) {
		t.Errorf("error bars %s, want %s", c.Lines[0].Path, want)
	}
	page, err := run.Page()
	if err != nil {
		t.Fatal(err)
	}
	requireContains(t, "the page", string(page), "<dt>loss, lot 20</dt><dd>1 ± 0.25 of noise</dd>", "<dt>class counts, lot 10</dt>", ": 0.75, each ± 0.5 of noise",
		"<dt>&lt;b&gt;, lot 20</dt><dd>3, 4, 5, each ± 1 of noise</dd>", `class="line error"`)
	if strings.Contains(string(page), "<b>") {
		t.Error("a metric's name is not escaped")
	}
}
