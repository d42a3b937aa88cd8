package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/drawing"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

var (
	//go:embed simulation.html
	simulationText string

	simulationTemplate = parsePage(template.Must(pageTemplate.Clone()).New("simulation"), simulationText)
)

// The methods of a simulation.
const (
	DrawAndDiscard = "draw-and-discard"
	ServerBatch    = "server-batch"
	Central        = "central"
)

// Simulation is the result of a comparison of draw and discard with its alternatives.
type Simulation struct {
	Rows     []SimulationRow      `json:"rows"`
	Claims   []SimulationClaim    `json:"claims"`
	Variance []SimulationVariance `json:"variance"`

	Data          string    `json:"data"`
	Clients       int       `json:"clients"`
	Records       int       `json:"records_per_client"`
	Passes        int       `json:"passes"`
	LearningRates []float64 `json:"lr"`
	Model         string    `json:"model"`
	Classes       int       `json:"classes,omitempty"` // 0: a target or a count
	Clip          float64   `json:"clip"`
	LossExamples  int       `json:"loss_examples"`
	Weights       int       `json:"weights"`
	TestExamples  int       `json:"test_examples"`
	Central       string    `json:"central_settings"`
	Seed          uint64    `json:"seed"`
	Threads       int       `json:"threads"`
	Seconds       float64   `json:"seconds"`
	Secure        bool      `json:"secure"` // always false
	Version       string    `json:"version"`
}

// SimulationRow is the result of training by one method with one setting.
type SimulationRow struct {
	Method       string       `json:"method"`
	Instances    int          `json:"instances,omitempty"`
	Batch        int          `json:"batch,omitempty"`
	Epsilon      number.Float `json:"epsilon"` // of one contribution; of the whole training for central
	Delta        float64      `json:"delta,omitempty"`
	LearningRate float64      `json:"lr"`
	Accuracy     []float64    `json:"accuracy,omitempty"` // on test examples, after each pass
	Final        float64      `json:"test_accuracy"`

	RMSE         []number.Float `json:"test_rmse,omitempty"` // in place of accuracy, of a target or a count
	TrainingLoss []number.Float `json:"training_loss"`       // mean over training examples, after each pass

	// Spread is the mean variance of a weight among the instances at the end, and Stationary the
	// variance that the noise alone keeps. Draw and discard only.
	Spread     float64 `json:"spread,omitempty"`
	Stationary float64 `json:"stationary,omitempty"`
}

// SimulationClaim compares draw and discard with k instances with server batches of k² and of k
// clients.
type SimulationClaim struct {
	Instances    int          `json:"instances"`
	Epsilon      number.Float `json:"epsilon"`
	LearningRate float64      `json:"lr"` // 0: each line at its best
	Accuracy     float64      `json:"accuracy"`
	AtSquare     float64      `json:"accuracy_batch_k_squared"`
	AtSame       float64      `json:"accuracy_batch_k"`
	SquareHolds  bool         `json:"square_holds"` // within ClaimMargin
	SameHolds    bool         `json:"same_holds"`
}

// ClaimMargin is the largest difference of final accuracies that counts as equal.
const ClaimMargin = 0.02

// SimulationVariance is the variance among k instances without gradients, in units of the variance of
// one update.
type SimulationVariance struct {
	Instances int     `json:"instances"`
	Theory    float64 `json:"theory"`   // k/2
	Measured  float64 `json:"measured"` // mean over updates, started at the theory's value
	Updates   int     `json:"updates"`

	// Moved is the mean squared distance of the average of the instances from its start, in units of
	// Updates/k: about 1.
	Moved float64 `json:"moved"`

	// Course is the variance among the instances after numbers of updates. A single instance has none:
	// its course is the mean squared distance of a weight from its start.
	Course []VariancePoint `json:"course,omitempty"`
}

// VariancePoint is a variance after a number of updates, in units of the variance of one update.
type VariancePoint struct {
	Updates  int     `json:"updates"`
	Variance float64 `json:"variance"`
}

// simulationPage has the values that simulation.html shows.
type simulationPage struct {
	Title, Summary    string
	Result            string // what test examples measure: accuracy or RMSE
	Warnings          []warning
	Legend            []legendEntry
	Panels            []panel
	Epsilons          []string
	Finals            []finalRow
	ClaimSummary      string
	Agreements        []Agreement
	ClaimLegend       []legendEntry
	ClaimPanels       []panel
	Claims            []claimRow
	Variance          *chart
	Courses           *chart // nil without courses
	CourseLegend      []legendEntry
	VarianceRows      []varianceRow
	HaveTrained       bool
	TrainedNote       string
	Meaning, Settings []row
	Version           string
}

type legendEntry struct{ Name, Style string }

type panel struct {
	Title string
	Chart *chart
}

type finalRow struct {
	Name   string
	Values []finalCell
}

type finalCell struct{ Accuracy, Rate string }

type claimRow struct {
	Epsilon                    string
	Instances                  int
	Accuracy, AtSquare, AtSame string
	Square, Same               string
}

type varianceRow struct {
	Instances                 int
	Theory, Measured, Trained string
}

// Page writes report.html: one file that loads no other file.
func (s *Simulation) Page() ([]byte, error) {
	p := &simulationPage{
		Title: "Draw and discard on " + s.Data,
		Summary: fmt.Sprintf("%s of %s contribute once in each of %s. Model %s, %s.",
			plural(s.Clients, "client"), plural(s.Records, "record"), strings.Replace(plural(s.Passes, "pass"), "passs", "passes", 1), s.Model, plural(s.Weights, "weight")),
		Warnings: []warning{{"caution", "Insecure", "This is a simulation. The noise and the server's choices come from a seed, and the noise is drawn by a fast generator that is not cryptographic. No model of this simulation protects the clients. Use its results to choose settings, on public data."}},
		Result:   "accuracy", Variance: s.varianceChart(), Meaning: s.meaning(), Settings: s.settings(), Version: s.Version,
	}
	if s.hasErrors() {
		p.Result = "RMSE"
	}
	s.addAccuracy(p)
	s.addClaims(p)
	s.addVariance(p)
	p.Courses, p.CourseLegend = s.courseChart()
	var b bytes.Buffer
	if err := simulationTemplate.Execute(&b, p); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Best returns, for each method, setting and ε, the row of the learning rate with the highest final
// accuracy, in the order of the rows.
func (s *Simulation) Best() (best []SimulationRow) {
	for _, r := range s.Rows {
		same := slices.IndexFunc(best, func(b SimulationRow) bool {
			return b.Method == r.Method && b.Instances == r.Instances && b.Batch == r.Batch && b.Epsilon == r.Epsilon
		})
		switch {
		case same < 0:
			best = append(best, r)
		case r.isBetter(&best[same]):
			best[same] = r
		}
	}
	return best
}

// isBetter reports whether a row ends better than another.
func (r *SimulationRow) isBetter(other *SimulationRow) bool {
	if len(r.RMSE) > 0 {
		return r.RMSE[len(r.RMSE)-1] < other.RMSE[len(other.RMSE)-1]
	}
	return r.Final > other.Final
}

// FinalText formats the result at the end.
func (r *SimulationRow) FinalText() string {
	if n := len(r.RMSE); n > 0 {
		return number.Short(float64(r.RMSE[n-1]))
	}
	return percent(r.Final)
}

// epsilons lists the values of ε in the order of the rows.
func (s *Simulation) epsilons() (all []number.Float) {
	for _, r := range s.Rows {
		if !slices.Contains(all, r.Epsilon) {
			all = append(all, r.Epsilon)
		}
	}
	return all
}

// EpsilonName writes ε, and "no noise" for +Inf.
func EpsilonName(e number.Float) string {
	if math.IsInf(float64(e), 1) {
		return "no noise"
	}
	return "ε = " + number.Short(float64(e))
}

// Name names the method and its setting.
func (r *SimulationRow) Name() string {
	switch r.Method {
	case DrawAndDiscard:
		return fmt.Sprintf("k = %d", r.Instances)
	case ServerBatch:
		return "batch " + number.Thousands(r.Batch)
	}
	return "central DP-SGD"
}

// seriesStyles are the CSS classes of lines of one kind, by position.
const seriesColors, seriesDashes = 6, 4

func seriesStyle(method string, position int) string {
	switch method {
	case DrawAndDiscard:
		return fmt.Sprintf("series-%d", position%seriesColors)
	case ServerBatch:
		return fmt.Sprintf("dashed-%d", position%seriesDashes)
	}
	return "reference"
}

// addAccuracy adds a chart for each ε, the legend and the table of final accuracies.
func (s *Simulation) addAccuracy(p *simulationPage) {
	position := map[string]int{} // of a method's setting among those of the method
	count := map[string]int{}
	finals := map[string]*finalRow{}
	epsilons := s.epsilons()
	for _, e := range epsilons {
		p.Epsilons = append(p.Epsilons, EpsilonName(e))
	}
	for _, r := range s.Best() {
		name := r.Name()
		if _, known := position[name]; !known {
			position[name] = count[r.Method]
			count[r.Method]++
			p.Legend = append(p.Legend, legendEntry{name, seriesStyle(r.Method, position[name])})
			finals[name] = &finalRow{name, make([]finalCell, len(epsilons))}
		}
		finals[name].Values[slices.Index(epsilons, r.Epsilon)] = finalCell{r.FinalText(), number.Short(r.LearningRate)}
	}
	for _, l := range p.Legend {
		p.Finals = append(p.Finals, *finals[l.Name])
	}
	style := func(r *SimulationRow) string { return seriesStyle(r.Method, position[r.Name()]) }
	for i, e := range epsilons {
		var tests *chart
		if s.Classes == 0 && s.hasErrors() {
			tests = s.errorChart(fmt.Sprintf("passes-%d", i), "test RMSE", e, style, func(r *SimulationRow) []number.Float { return r.RMSE })
		} else {
			tests = s.accuracyChart(fmt.Sprintf("passes-%d", i), e, style)
		}
		p.Panels = append(p.Panels, panel{EpsilonName(e), tests})
		if c := s.errorChart(fmt.Sprintf("loss-%d", i), "training loss", e, style, func(r *SimulationRow) []number.Float { return r.TrainingLoss }); c != nil {
			p.Panels = append(p.Panels, panel{EpsilonName(e) + ", training loss", c})
		}
	}
}

// hasErrors reports whether rows have errors of a target in place of accuracy.
func (s *Simulation) hasErrors() bool { return len(s.Rows) > 0 && len(s.Rows[0].RMSE) > 0 }

// accuracyChart draws the test accuracy over passes.
func (s *Simulation) accuracyChart(name string, e number.Float, style func(*SimulationRow) string) *chart {
	x, y := horizontalAxis(0, float64(s.Passes)), s.accuracyAxis(e)
	c := newChart(name, x, y, accuracyStyle.tick)
	c.Title, c.XLabel, c.YLabel = "Test accuracy over passes, "+EpsilonName(e), "passes", "test accuracy"
	c.About = "One line for each method and setting; the table of final accuracies has the last values."
	for _, r := range s.Best() {
		if r.Epsilon != e {
			continue
		}
		points := make([][2]float64, len(r.Accuracy))
		for pass, a := range r.Accuracy {
			points[pass] = [2]float64{float64(pass + 1), a}
		}
		c.Lines = append(c.Lines, line{Style: style(&r), Path: svgPath(x, y, points)})
	}
	return c
}

// largestShownError and smallestShownError bound what an errorChart draws: noise can make a loss infinite.
const largestShownError, smallestShownError = 1e6, 1e-6

// errorChart draws a loss or an error over passes on a logarithmic axis; nil where no value is positive
// and finite.
func (s *Simulation) errorChart(name, what string, e number.Float,
	style func(*SimulationRow) string, of func(*SimulationRow) []number.Float) *chart {
	low, high := math.Inf(1), 0.0
	var lines []line
	var courses [][][2]float64
	for _, r := range s.Best() {
		if r.Epsilon != e {
			continue
		}
		var points [][2]float64
		for pass, v := range of(&r) {
			if v := float64(v); v > 0 {
				v = max(smallestShownError, min(largestShownError, v))
				points = append(points, [2]float64{float64(pass + 1), v})
				low, high = min(low, v), max(high, v)
			}
		}
		lines, courses = append(lines, line{Style: style(&r)}), append(courses, points)
	}
	if high == 0 {
		return nil
	}
	x, y := horizontalAxis(0, float64(s.Passes)), verticalAxis(low/1.5, high*1.5)
	y.Logarithmic = true
	c := newChart(name, x, y, tickLabel)
	title := strings.ToUpper(what[:1]) + what[1:]
	c.Title, c.XLabel, c.YLabel = title+" over passes, "+EpsilonName(e), "passes", what+", logarithmic"
	c.About = "One line for each method and setting. Values above a million are drawn there."
	for i := range lines {
		lines[i].Path = svgPath(x, y, courses[i])
	}
	c.Lines = lines
	return c
}

// accuracyAxis covers all accuracies with one ε, in whole tenths.
func (s *Simulation) accuracyAxis(e number.Float) drawing.Axis {
	least, most := 1.0, 0.0
	for _, r := range s.Best() {
		if r.Epsilon == e {
			least, most = min(least, slices.Min(r.Accuracy)), max(most, slices.Max(r.Accuracy))
		}
	}
	return verticalAxis(math.Floor(10*least)/10, max(math.Ceil(10*most)/10, math.Floor(10*least)/10+0.1))
}

// addClaims adds a chart for each ε: the final accuracy over k, over √batch and over batch.
func (s *Simulation) addClaims(p *simulationPage) {
	if len(s.Claims) == 0 {
		return
	}
	p.ClaimLegend = []legendEntry{{"draw and discard over k", "series-0 main"}, {"server batches over √batch", "series-1"}, {"server batches over batch", "dashed-1"}}
	p.Agreements = s.Agreements()
	for _, c := range s.Claims {
		if c.LearningRate == 0 {
			p.Claims = append(p.Claims, claimRow{EpsilonName(c.Epsilon), c.Instances, percent(c.Accuracy),
				percent(c.AtSquare), percent(c.AtSame), holds(c.SquareHolds), holds(c.SameHolds)})
		}
	}
	p.ClaimSummary = fmt.Sprintf("The rule k ≈ √batch likens draw and discard with k instances to server batches of k² clients. The table counts the pairs of k above 1 and ε whose accuracies after %d passes agree to %.0f points, and also those of batches of k clients.", s.Passes, 100*ClaimMargin)
	for i, e := range s.epsilons() {
		var instances, batches [][2]float64
		most := 1.0
		for _, r := range s.Best() {
			switch {
			case r.Epsilon != e || r.Method == Central:
				continue
			case r.Method == DrawAndDiscard:
				instances = append(instances, [2]float64{float64(r.Instances), r.Final})
			default:
				batches = append(batches, [2]float64{float64(r.Batch), r.Final})
			}
			if r.Method == DrawAndDiscard && r.Instances == 1 { // a batch of one client
				batches = append(batches, [2]float64{1, r.Final})
			}
		}
		byX := func(a, b [2]float64) int { return int(a[0] - b[0]) }
		slices.SortFunc(instances, byX)
		slices.SortFunc(batches, byX)
		for _, b := range batches {
			most = max(most, math.Sqrt(b[0]))
		}
		for _, k := range instances {
			most = max(most, k[0])
		}
		x, y := horizontalAxis(1, most), s.accuracyAxis(e)
		x.Logarithmic = true
		c := newChart(fmt.Sprintf("claim-%d", i), x, y, accuracyStyle.tick)
		c.Title, c.XLabel, c.YLabel = "Final accuracy over k and batches, "+EpsilonName(e), "k, √batch or batch, logarithmic", "final test accuracy"
		c.About = "The table below has the values."
		var roots, plain [][2]float64
		for _, b := range batches {
			roots = append(roots, [2]float64{math.Sqrt(b[0]), b[1]})
			if b[0] <= most {
				plain = append(plain, b)
			}
		}
		c.Lines = []line{
			{Style: "dashed-1", Path: svgPath(x, y, plain)},
			{Style: "series-1", Path: svgPath(x, y, roots)},
			{Style: "series-0 main", Path: svgPath(x, y, instances)},
		}
		p.ClaimPanels = append(p.ClaimPanels, panel{EpsilonName(e), c})
	}
}

// Agreement counts the claims that hold.
type Agreement struct {
	Rates, Noise        string
	Square, Same, Pairs int
}

// Agreements counts the claims at the best and at each learning rate, without and with noise.
func (s *Simulation) Agreements() (all []Agreement) {
	for _, rate := range append([]float64{0}, s.LearningRates...) {
		name := "the best of each line"
		if rate > 0 {
			name = number.Short(rate)
		}
		for _, noise := range []string{"no noise", "noise"} {
			a := Agreement{Rates: name, Noise: noise}
			for _, c := range s.Claims {
				if c.LearningRate != rate || math.IsInf(float64(c.Epsilon), 1) != (noise == "no noise") {
					continue
				}
				a.Pairs++
				if c.SquareHolds {
					a.Square++
				}
				if c.SameHolds {
					a.Same++
				}
			}
			if a.Pairs > 0 {
				all = append(all, a)
			}
		}
	}
	return all
}

func holds(yes bool) string {
	if yes {
		return "holds"
	}
	return "does not hold"
}

// trained returns the least ε of the rows and the variance among instances at the end of training with
// it, by k, in units of the variance of one update.
func (s *Simulation) trained() (epsilon number.Float, ratio map[int]float64) {
	epsilon, ratio = number.Float(math.Inf(1)), map[int]float64{}
	for _, r := range s.Best() {
		epsilon = min(epsilon, r.Epsilon)
	}
	for _, r := range s.Best() {
		if r.Epsilon == epsilon && r.Stationary > 0 {
			ratio[r.Instances] = r.Spread / r.Stationary * float64(r.Instances) / 2
		}
	}
	return epsilon, ratio
}

func (s *Simulation) addVariance(p *simulationPage) {
	epsilon, ratio := s.trained()
	p.HaveTrained = len(ratio) > 0
	for _, v := range s.Variance {
		r := varianceRow{v.Instances, number.Short(v.Theory), number.Short(v.Measured), "–"}
		if t, ok := ratio[v.Instances]; ok {
			r.Trained = number.Short(t)
		}
		p.VarianceRows = append(p.VarianceRows, r)
	}
	if p.HaveTrained {
		p.TrainedNote = fmt.Sprintf("The column trained is the variance at the end of training with %s: one moment of a fluctuating quantity. Gradients pull the instances together and lower it.", EpsilonName(epsilon))
	}
}

// varianceChart draws the variance over k.
func (s *Simulation) varianceChart() *chart {
	mostK, most := 1.0, 0.5
	for _, v := range s.Variance {
		mostK, most = max(mostK, float64(v.Instances)), max(most, v.Theory, v.Measured)
	}
	x, y := horizontalAxis(0, mostK*1.04), verticalAxis(0, most*1.06)
	c := newChart("variance", x, y, tickLabel)
	c.Title, c.XLabel, c.YLabel = "Variance among k instances", "k", "variance / σ²"
	c.About = "A line of the theory, k/2, and a dot for each measured variance. The table next to it has the values."
	measured := line{Style: "measured"}
	for _, v := range s.Variance {
		measured.Dots = append(measured.Dots, dot{x.Position(float64(v.Instances)), y.Position(v.Measured),
			fmt.Sprintf("k = %d: %s, theory %s", v.Instances, number.Short(v.Measured), number.Short(v.Theory))})
	}
	c.Lines = []line{{Style: "series-1", Path: svgPath(x, y, [][2]float64{{0, 0}, {mostK, mostK / 2}})}, measured}
	return c
}

// courseChart draws the variance over updates, a line for each k, on logarithmic axes.
func (s *Simulation) courseChart() (*chart, []legendEntry) {
	last, low, high := 1.0, math.Inf(1), 0.0
	for _, v := range s.Variance {
		for _, p := range v.Course {
			if p.Variance > 0 {
				last, low, high = max(last, float64(p.Updates)), min(low, p.Variance), max(high, p.Variance)
			}
		}
	}
	if !(low < high) || last <= 1 {
		return nil, nil
	}
	x, y := horizontalAxis(1, last*1.2), verticalAxis(low/1.5, high*1.5)
	x.Logarithmic, y.Logarithmic = true, true
	c := newChart("courses", x, y, tickLabel)
	c.Title, c.XLabel, c.YLabel = "Variance over updates", "updates, logarithmic", "variance / σ², logarithmic"
	c.About = "One line for each number of instances: flat lines near k/2, and a rising line for a single instance."
	var legend []legendEntry
	for i, v := range s.Variance {
		var points [][2]float64
		for _, p := range v.Course {
			if p.Variance > 0 {
				points = append(points, [2]float64{float64(p.Updates), p.Variance})
			}
		}
		style := fmt.Sprintf("series-%d", i%seriesColors)
		name := fmt.Sprintf("k = %d", v.Instances)
		if v.Instances == 1 {
			name += " (squared distance from the start)"
		}
		c.Lines = append(c.Lines, line{Style: style, Path: svgPath(x, y, points)})
		legend = append(legend, legendEntry{name, style})
	}
	return c, legend
}

func (s *Simulation) meaning() []row {
	return []row{
		{"Draw and discard, server batches", "ε is that of one contribution and of one weight (feature level): Laplace noise of scale 2c/ε on every weight of the client's average gradient, whose elements are clipped to [−c, c]. It covers all records of the client, against the server. A client contributes once in each pass, so that the whole training costs the number of passes times ε for a weight by basic composition, and that times the number of weights for a model."},
		{"Central DP-SGD", "(ε, δ) is that of the whole training and of all weights, for all records of a client. The server is trusted: it sees every gradient."},
		{"What adversaries learn", "dptrain budget local states it for one contribution."},
	}
}

func (s *Simulation) settings() []row {
	rows := []row{
		{"clients", number.Thousands(s.Clients)}, {"records of a client", number.Thousands(s.Records)},
		{"passes", number.Thousands(s.Passes)}, {"updates of each line", number.Thousands(s.Clients * s.Passes)},
		{"clip bound c", number.Short(s.Clip)}, {"training loss", "mean over " + plural(s.LossExamples, "training example")},
		{"learning rates", joinNumbers(s.LearningRates)}, {"test examples", number.Thousands(s.TestExamples)},
		{"central runs", s.Central}, {"seed", fmt.Sprint(s.Seed)}, {"threads", fmt.Sprint(s.Threads)},
	}
	if s.Seconds > 0 {
		rows = append(rows, row{"time", time.Duration(s.Seconds * float64(time.Second)).Round(time.Second).String()})
	}
	return rows
}

func joinNumbers(values []float64) string {
	var words []string
	for _, v := range values {
		words = append(words, number.Short(v))
	}
	return strings.Join(words, ", ")
}
