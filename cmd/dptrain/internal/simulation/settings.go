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
	Model     string    // of package drawdiscard or models; "": multinomial for classes, linear for a target
	Clip      float64   // bound on each element of a client's average gradient
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
	case !(s.Clip > 0) || s.Clip > math.MaxFloat32:
		return exitcode.Usagef("--clip %v: give a finite number above 0", s.Clip)
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
	spec         drawdiscard.Spec
	trainRecords drawdiscard.Records // client c owns the examples c·Records to (c+1)·Records-1
	testRecords  drawdiscard.Records
	lossRecords  drawdiscard.Records // of trainRecords
	features     data.Column
	label        data.Column
	weights      int
	initial      []float32
}

// lossExamples is the number of training examples by which the training loss is measured, at most.
const lossExamples = 2000

// newTask assigns examples to clients.
func newTask(s Settings, from *data.Task) (*task, error) {
	if from.Test == nil {
		return nil, exitcode.Usagef("--data %s has no test examples: give a file with --test", from.Name)
	}
	columns := from.Train.Columns()
	if len(columns) != 2 {
		return nil, exitcode.Usagef("--data %s has %d columns: the simulation needs the features and one label or target", from.Name, len(columns))
	}
	usable := rowsWithoutBlank(from.Train)
	s.Clients = min(s.Clients, len(usable)/s.Records)
	if s.Clients == 0 {
		return nil, exitcode.Usagef("--records %d: the data have only %d training examples; give fewer", s.Records, len(usable))
	}
	t := &task{Settings: s, features: columns[0], label: columns[1]}
	t.spec = drawdiscard.Spec{Model: s.Model, Inputs: columns[0].Shape, Classes: from.Classes}
	if t.Model == "" {
		t.Model = string(drawdiscard.Multinomial)
		if columns[1].Kind == data.Target {
			t.Model = string(drawdiscard.Linear)
		}
	}
	t.spec.Model = t.Model
	if columns[0].Kind == data.Index {
		t.spec.Vocabulary = columns[0].Classes
	}
	model, err := t.newModel()
	if err != nil {
		return nil, exitcode.Usagef("--data %s, --model %s: %w", from.Name, t.Model, err)
	}
	defer closeModel(model)
	t.weights, t.initial = model.Weights(), model.Initial()
	train, err := data.Subset(from.Train, drawRows(usable, s.Clients*s.Records, s.Seed))
	if err != nil {
		return nil, err
	}
	if t.trainRecords, err = t.load(train, from.Schema); err != nil {
		return nil, exitcode.Usagef("--data %s, --model %s: %w", from.Name, t.Model, err)
	}
	if t.testRecords, err = t.load(from.Test, from.Schema); err != nil {
		return nil, exitcode.Usagef("--data %s: test data: %w", from.Name, err)
	}
	for _, i := range stream(s.Seed, lossStream, 0).Perm(len(t.trainRecords.Labels))[:min(lossExamples, len(t.trainRecords.Labels))] {
		of := t.recordsAt(i, 1)
		t.lossRecords.Features = append(t.lossRecords.Features, of.Features...)
		t.lossRecords.Labels = append(t.lossRecords.Labels, of.Labels...)
	}
	return t, nil
}

// load reads records as clients read theirs, with features in [0, 1].
func (t *task) load(s data.Set, schema data.Schema) (drawdiscard.Records, error) {
	return drawdiscard.LoadRecords(&data.Task{Train: s, Schema: schema}, t.spec)
}

// recordsAt returns training records.
func (t *task) recordsAt(first, count int) drawdiscard.Records {
	inputs := t.spec.Inputs.Size()
	r := &t.trainRecords
	return drawdiscard.Records{Features: r.Features[first*inputs:][:count*inputs], Labels: r.Labels[first:][:count]}
}

// clientRecords returns the records of a client.
func (t *task) clientRecords(client int) drawdiscard.Records {
	return t.recordsAt(client*t.Records, t.Records)
}

// newModel returns a model for one goroutine.
func (t *task) newModel() (drawdiscard.Model, error) { return t.spec.Build(1) }

// closeModel ends the threads of a network.
func closeModel(m drawdiscard.Model) error {
	if n, ok := m.(*drawdiscard.Network); ok {
		return n.Close()
	}
	return nil
}

// setOf returns records as a data set of networks.
func (t *task) setOf(r drawdiscard.Records) (data.Set, error) {
	features, label := t.features, t.label
	features.Bounds, label.Bounds = data.Bounds{}, data.Bounds{}
	return data.NewTable([]data.Column{features, label}, [][]float32{r.Features, r.Labels}, nil)
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
