package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/spf13/pflag"
)

// delta is δ of all programs.
const delta = "1e-5"

// repeat trains once on each split, with flags of dptrain train.
func (b *bench) repeat(s *splits, program string, epsilon float64, setting string) error {
	for i, task := range s.tasks {
		r, err := b.train(s, task, epsilon, setting)
		if err != nil {
			return fmt.Errorf("%s: %w", setting, err)
		}
		r.Program, r.Run = program, i
		b.add(r)
	}
	return nil
}

// train trains in this process as dptrain train does, and evaluates.
func (b *bench) train(s *splits, task *data.Task, epsilon float64, setting string) (r result, err error) {
	dir, err := os.MkdirTemp(b.dir, "run-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	flags := &settings.Flags{}
	set := pflag.NewFlagSet("train", pflag.ContinueOnError)
	flags.Define(set)
	line := fmt.Sprintf("--device cpu --epsilon %v --delta %s --out %s %s", epsilon, delta, dir, setting)
	if err := set.Parse(strings.Fields(line)); err != nil {
		return r, err
	}
	if err := flags.Resolve(); err != nil {
		return r, err
	}
	spec, err := settings.New(flags, task)
	if err != nil {
		return r, err
	}
	if err := spec.Calibrate(); err != nil {
		return r, err
	}
	c := spec.Config
	c.Files.CheckpointFolder, c.Files.Ledger = "", filepath.Join(dir, "ledger.jsonl")
	run, err := engine.New(c)
	if err != nil {
		return r, err
	}
	defer run.Close()
	if err := run.Train(context.Background(), nil); err != nil {
		return r, err
	}
	parameters, err := run.BorrowParameters()
	if err != nil {
		return r, err
	}
	e, err := engine.NewEvaluator(c.Network, c.Device)
	if err != nil {
		return r, err
	}
	defer e.Close()
	outputs, err := e.Predictions(engine.Values(parameters), task.Test)
	if err != nil {
		return r, err
	}
	r = result{Table: s.table.name, Epsilon: epsilon, Setting: setting}
	if setting == "" {
		r.Setting = fmt.Sprintf("--model %s --lot %d --steps %d --clip %v --lr %v", flags.Model, flags.Lot, flags.Steps, flags.Clip, flags.LearningRate)
	}
	r.Score, r.AUC, err = score(task, outputs)
	return r, err
}

// score returns the accuracy and, for two classes, the area under the ROC curve; or the negative
// squared error.
func score(task *data.Task, outputs [][]float32) (score, auc float64, err error) {
	truth, err := lastColumn(task.Test)
	if err != nil {
		return 0, 0, err
	}
	n := float64(len(truth))
	for i, y := range truth {
		o := outputs[i]
		switch {
		case task.Classes == 0:
			score -= float64((o[0]-y)*(o[0]-y)) / n
		case slices.Index(o, slices.Max(o)) == int(y):
			score += 1 / n
		}
	}
	if task.Classes != 2 {
		return score, 0, nil
	}
	order := make([]int, len(truth))
	for i := range order {
		order[i] = i
	}
	margin := func(i int) float32 { return outputs[i][1] - outputs[i][0] }
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(margin(i), margin(j)) })
	below, pairs, positives := 0.0, 0.0, 0.0
	for from := 0; from < len(order); {
		to, zeros, ones := from, 0.0, 0.0
		for ; to < len(order) && margin(order[to]) == margin(order[from]); to++ {
			if truth[order[to]] == 1 {
				ones++
			} else {
				zeros++
			}
		}
		pairs += ones * (below + zeros/2)
		below, positives, from = below+zeros, positives+ones, to
	}
	if below == 0 || positives == 0 {
		return score, 0, nil
	}
	return score, pairs / (below * positives), nil
}
