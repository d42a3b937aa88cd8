package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/internal/quality"
)

// probabilitySection shows how good the predicted probabilities are on the public test data.
type probabilitySection struct {
	Calibration *chart
	About       string // of the calibration
	ROC         *chart
	Curves      []legendRow
	AboutROC    string
}

// legendRow names a line of a chart.
type legendRow struct{ Style, Name, Value string }

// probabilitySection returns nil if the run has no measures of probabilities.
func (s *summary) probabilitySection() *probabilitySection {
	if len(s.Calibration) == 0 && s.ROC == nil {
		return nil
	}
	p := &probabilitySection{}
	if len(s.Calibration) > 0 {
		p.Calibration, p.About = s.calibrationChart(), s.aboutCalibration()
	}
	if s.ROC != nil {
		p.ROC, p.Curves = s.rocChart()
		p.AboutROC = s.aboutROC()
	}
	return p
}

// isBinary reports whether the probabilities are those of the second of two classes.
func (s *summary) isBinary() bool { return len(s.Confusion) == 2 }

// calibrationError is the mean difference between predicted probability and observed share (the
// expected calibration error of Naeini et al. 2015).
func (s *summary) calibrationError() float64 {
	sum, examples := 0.0, 0.0
	for _, b := range s.Calibration {
		n := float64(b.Examples)
		sum, examples = sum+n*math.Abs(b.Predicted-b.Observed), examples+n
	}
	return sum / max(1, examples)
}

func (s *summary) aboutCalibration() string {
	shown := "the predicted class, whichever it is"
	if s.isBinary() {
		shown = "the class " + s.className(1)
	}
	return fmt.Sprintf("Calibration of the probability of %s. On the dashed line, a predicted probability of 70%% means that the class is right for 70%% of the examples. The vertical lines are 95%% intervals, because the test examples are limited in number. The bars at the bottom show how many examples have such a probability. The mean difference from the dashed line is %s.",
		shown, percent(s.calibrationError()))
}

// calibrationChart draws a reliability diagram.
func (s *summary) calibrationChart() *chart {
	x, y := squareCanvas.horizontalAxis(0, 1), squareCanvas.verticalAxis(0, 1)
	c := squareCanvas.newChart("calibration", x, y, percentTick, percentTick)
	c.Title, c.XLabel, c.YLabel = "Calibration", "predicted probability", "observed share"
	total := 0
	for _, b := range s.Calibration {
		total += b.Examples
	}
	var bars, intervals strings.Builder
	measured := line{Style: "measured"}
	for _, b := range s.Calibration {
		from := math.Min(0.9, math.Floor(10*b.Predicted)/10)
		bars.WriteString(svgRectangle(x, y, from+0.006, 0, from+0.094, 0.2*float64(b.Examples)/float64(max(1, total))))
		low, high := wilson(b.Observed, b.Examples)
		intervals.WriteString(svgPath(x, y, [][2]float64{{b.Predicted, low}, {b.Predicted, high}}))
		title := fmt.Sprintf("predicted %s, observed %s of %s", percent(b.Predicted), percent(b.Observed), plural(b.Examples, "example"))
		measured.Dots = append(measured.Dots, dot{x.Position(b.Predicted), y.Position(b.Observed), title})
	}
	c.About = fmt.Sprintf("Reliability diagram: a dot for each of %d ranges of the predicted probability. The mean difference from the diagonal is %s.", len(s.Calibration), percent(s.calibrationError()))
	c.Bars = bars.String()
	c.Lines = []line{{Style: "ideal", Path: svgPath(x, y, [][2]float64{{0, 0}, {1, 1}})}, {Style: "error", Path: intervals.String()}, measured}
	return c
}

// wilson is the 95% interval of a probability of which a share of n trials was observed (Wilson 1927).
func wilson(share float64, n int) (low, high float64) {
	const z = 1.96
	trials := float64(max(1, n))
	middle := (share + z*z/(2*trials)) / (1 + z*z/trials)
	half := z / (1 + z*z/trials) * math.Sqrt(share*(1-share)/trials+z*z/(4*trials*trials))
	return max(0, middle-half), min(1, middle+half)
}

// maxCurves is the number of classes that are drawn. curveStyles are their colours.
const maxCurves = 5

var curveStyles = [maxCurves]int{0, 1, 2, 3, 5}

func (s *summary) aboutROC() string {
	r := s.ROC
	text := fmt.Sprintf("ROC curves from %s. A curve shows, for each threshold on the probability, the share of a class that is recognised (true-positive rate) against the share of the other examples that is taken for it (false-positive rate). The dashed line is guessing.", plural(r.Examples, "test example"))
	if r.Average == nil {
		return strings.Replace(text, "ROC curves", "ROC curve of the class "+s.className(1), 1)
	}
	if n := len(r.Classes); n > maxCurves {
		text += fmt.Sprintf(" Each class is taken against all others. Of %d classes, the %d with the smallest area are drawn, and the average of all.", n, maxCurves)
	} else {
		text += " Each class is taken against all others."
	}
	return text
}

// rocChart draws the curves, with their names and areas.
func (s *summary) rocChart() (*chart, []legendRow) {
	x, y := squareCanvas.horizontalAxis(0, 1), squareCanvas.verticalAxis(0, 1)
	c := squareCanvas.newChart("roc", x, y, percentTick, percentTick)
	c.Title, c.XLabel, c.YLabel = "ROC", "false-positive rate", "true-positive rate"
	c.Lines = []line{{Style: "ideal", Path: svgPath(x, y, [][2]float64{{0, 0}, {1, 1}})}}
	var legend []legendRow
	draw := func(curve quality.ClassROC, style, name string) {
		if len(curve.TPR) == 0 {
			return
		}
		points := [][2]float64{{0, 0}}
		for i, tpr := range curve.TPR {
			points = append(points, [2]float64{quality.FalsePositiveRates[i], tpr})
		}
		c.Lines = append(c.Lines, line{Style: style, Path: svgPath(x, y, points)})
		legend = append(legend, legendRow{style, name, fmt.Sprintf("%.3f", curve.AUC)})
	}
	if s.ROC.Average == nil {
		draw(s.ROC.Classes[0], "measured", s.className(1))
	} else {
		for i, one := range s.ROC.Classes[:min(maxCurves, len(s.ROC.Classes))] {
			draw(one, fmt.Sprintf("series-%d dashed-%d", curveStyles[i], i%4), s.className(one.Class))
		}
		draw(*s.ROC.Average, "reference", "average")
	}
	var parts []string
	for _, l := range legend {
		parts = append(parts, l.Name+" "+l.Value)
	}
	c.About = "ROC curves with the areas " + strings.Join(parts, ", ") + "."
	return c, legend
}

// residualChart draws the errors of a regression over its predictions; nil without test data.
func (s *summary) residualChart() *chart {
	if s.Residuals == nil || len(s.Residuals.Points) < 2 {
		return nil
	}
	low, high, most := math.Inf(1), math.Inf(-1), 0.0
	for _, p := range s.Residuals.Points {
		low, high, most = min(low, p[0]), max(high, p[0]), max(most, math.Abs(p[1]-p[0]))
	}
	if !(high > low) {
		low, high = low-0.5*math.Max(1, math.Abs(low)), low+0.5*math.Max(1, math.Abs(low))
	}
	if most *= 1.06; most == 0 {
		most = 1
	}
	margin := (high - low) * 0.03
	if math.IsInf(most, 0) || math.IsInf(high-low, 0) {
		return nil
	}
	x, y := horizontalAxis(low-margin, high+margin), verticalAxis(-most, most)
	c := wideCanvas.newChart("residuals", x, y, signedTick, signedTick)
	c.Title, c.XLabel, c.YLabel = "Residuals", "prediction of "+s.Target, "true value − prediction"
	c.About = fmt.Sprintf("Scatter plot of %s.", plural(len(s.Residuals.Points), "test example"))
	var points strings.Builder
	for _, p := range s.Residuals.Points {
		fmt.Fprintf(&points, "M%g %gh0", x.Position(p[0]), y.Position(p[1]-p[0]))
	}
	c.Lines = []line{{Style: "ideal", Path: svgPath(x, y, [][2]float64{{x.Low, 0}, {x.High, 0}})}, {Style: "points", Path: points.String()}}
	return c
}

// aboutResiduals explains the plot.
func (s *summary) aboutResiduals() string {
	text := "Each dot is an example of the public test data. Dots above the dashed line are larger than predicted."
	if n := len(s.Residuals.Points); n < s.Residuals.Examples {
		text += fmt.Sprintf(" %s of %s are drawn.", number.Thousands(n), plural(s.Residuals.Examples, "example"))
	}
	return text
}

// percentTick labels a tick of a share.
func percentTick(v float64) string { return number.Format(100*v, 3) + "%" }

// signedTick labels a tick that may be negative.
func signedTick(v float64) string {
	if v < 0 {
		return "−" + tickLabel(-v)
	}
	return tickLabel(v)
}

// checkMeasures rejects measures that cannot be drawn.
func checkMeasures(m *quality.Measures) error {
	isShare := func(x float64) bool { return x >= 0 && x <= 1 }
	for _, b := range m.Calibration {
		if b.Examples < 0 || !isShare(b.Predicted) || !isShare(b.Observed) {
			return fmt.Errorf("calibration: %v examples, predicted %v, observed %v: they must be shares between 0 and 1, and the number cannot be negative", b.Examples, b.Predicted, b.Observed)
		}
	}
	if m.ROC == nil {
		return nil
	}
	if len(m.ROC.Classes) == 0 {
		return fmt.Errorf("roc: it has no classes")
	}
	curves := m.ROC.Classes
	if m.ROC.Average != nil {
		curves = append([]quality.ClassROC{*m.ROC.Average}, curves...)
	}
	for _, c := range curves {
		if n := len(c.TPR); n != 0 && n != len(quality.FalsePositiveRates) || !isShare(c.AUC) || c.Class < 0 {
			return fmt.Errorf("roc: class %d has the area %v and %d points: the area must be between 0 and 1, and a curve needs %d points", c.Class, c.AUC, n, len(quality.FalsePositiveRates))
		}
		for _, v := range c.TPR {
			if !isShare(v) {
				return fmt.Errorf("roc: a rate is %v; it must be between 0 and 1", v)
			}
		}
	}
	return nil
}
