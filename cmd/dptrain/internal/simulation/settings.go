package simulation

import (
	"math"
	"slices"
	"strconv"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/drawdiscard"
)

// Settings of an experiment.
type Settings struct {
	Clients   int       // at most; 0: as many as the data have
	Records   int       // of a client
	Passes    int       // in which each client contributes once
	Instances []int     // numbers k of instances to try
	Batches   []int     // numbers of clients whose gradients the server averages
	Epsilons  []float64 // of one contribution; +Inf: without privacy
	Rates     []float64 // learning rates of draw and discard and of server batches
	Seed      uint64
	Threads   int
	Ledgers   string // folder for the ledgers of the central runs
}

// Limits of the settings.
const (
	maxClients   = 10_000_000
	maxPasses    = 10_000
	maxInstances = 10_000
	maxBatch     = 10_000_000
	maxLocal     = 1000 // ε
)

// Check returns an error that names the flag of an invalid setting.
func (s *Settings) Check() error {
	switch {
	case s.Clients < 1 || s.Clients > maxClients:
		return exitcode.Usagef("--clients %d is out of range: give 1 to %d", s.Clients, maxClients)
	case s.Records < 1 || s.Records > maxClients:
		return exitcode.Usagef("--records %d is out of range: give 1 to %d", s.Records, maxClients)
	case s.Passes < 1 || s.Passes > maxPasses:
		return exitcode.Usagef("--passes %d is out of range: give 1 to %d", s.Passes, maxPasses)
	case s.Threads < 1:
		return exitcode.Usagef("--threads %d: give at least 1", s.Threads)
	case len(s.Instances) == 0 || len(s.Epsilons) == 0 || len(s.Rates) == 0:
		return exitcode.Usagef("--instances, --epsilons and --lr need at least one value each")
	}
	for _, rate := range s.Rates {
		if !(rate > 0) || math.IsInf(rate, 1) {
			return exitcode.Usagef("--lr %v: give finite learning rates above 0", rate)
		}
	}
	for _, k := range s.Instances {
		if k < 1 || k > maxInstances {
			return exitcode.Usagef("--instances %d is out of range: give 1 to %d", k, maxInstances)
		}
	}
	for _, b := range s.Batches {
		if b < 1 || b > maxBatch {
			return exitcode.Usagef("--batches %d is out of range: give 1 to %d", b, maxBatch)
		}
	}
	for _, e := range s.Epsilons {
		if !(e > 0) || e > maxLocal && !math.IsInf(e, 1) {
			return exitcode.Usagef("--epsilons %g is out of range: give numbers above 0 and at most %d, or none", e, maxLocal)
		}
	}
	return nil
}

// ParseEpsilons parses numbers and the word none, which stands for +Inf.
func ParseEpsilons(words []string) ([]float64, error) {
	var all []float64
	for _, word := range words {
		e := math.Inf(1)
		if word != "none" {
			var err error
			if e, err = strconv.ParseFloat(word, 64); err != nil || math.IsInf(e, 0) {
				return nil, exitcode.Usagef("--epsilons: %q is not a number; give numbers separated by commas, and none for training without privacy", word)
			}
		}
		if slices.Contains(all, e) {
			return nil, exitcode.Usagef("--epsilons names %s twice; drop one", word)
		}
		all = append(all, e)
	}
	return all, nil
}

// task is what all methods share.
type task struct {
	Settings
	train        data.Set            // client c owns the examples c·Records to (c+1)·Records-1
	trainRecords drawdiscard.Records // the same examples
	testRecords  drawdiscard.Records
	layout       layout
	weights      int
	unitFeatures bool // all features are in [0, 1], so that gradients are in [-1, 1]
}

// newTask assigns examples to clients.
func newTask(s Settings, from *data.Task) (*task, error) {
	if from.Test == nil {
		return nil, exitcode.Usagef("--data %s has no test examples: give a file with --test", from.Name)
	}
	usable := rowsWithoutBlank(from.Train)
	s.Clients = min(s.Clients, len(usable)/s.Records)
	if s.Clients == 0 {
		return nil, exitcode.Usagef("--records %d: the data have only %d training examples; give fewer", s.Records, len(usable))
	}
	t := &task{Settings: s}
	var err error
	if t.layout, err = newLayout(from.Train); err != nil {
		return nil, exitcode.Usagef("--data %s: %w", from.Name, err)
	}
	if t.train, err = data.Subset(from.Train, drawRows(usable, s.Clients*s.Records, s.Seed)); err != nil {
		return nil, err
	}
	model, err := t.newModel()
	if err != nil {
		return nil, exitcode.Usagef("--data %s: %w", from.Name, err)
	}
	t.weights = model.Weights()
	if t.testRecords, err = t.layout.readAll(from.Test); err != nil {
		return nil, err
	}
	t.trainRecords, err = t.layout.readAll(t.train)
	t.unitFeatures = !slices.ContainsFunc(t.trainRecords.Features, func(v float32) bool { return !(v >= 0 && v <= 1) })
	return t, err
}

// clientRecords returns the records of a client.
func (t *task) clientRecords(client int) drawdiscard.Records {
	first, inputs := client*t.Records, t.layout.inputs()
	return drawdiscard.Records{Features: t.trainRecords.Features[first*inputs:][:t.Records*inputs],
		Labels: t.trainRecords.Labels[first:][:t.Records]}
}

// newModel returns a model for one goroutine.
func (t *task) newModel() (*drawdiscard.GLM, error) {
	return drawdiscard.NewGLM(drawdiscard.Multinomial, t.layout.inputs(), t.layout.classes())
}

// rowsWithoutBlank lists the examples that could be read.
func rowsWithoutBlank(s data.Set) []int {
	blank := data.Blank(s)
	rows := make([]int, 0, s.Len())
	for i := range s.Len() {
		if blank == nil || !blank[i] {
			rows = append(rows, i)
		}
	}
	return rows
}
