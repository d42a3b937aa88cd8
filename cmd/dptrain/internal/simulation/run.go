package simulation

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"sync/atomic"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/report"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/drawdiscard"
)

// observer gets a model after each pass, from 0.
type observer func(pass int, model []float32) error

// job trains with one setting and fills its row.
type job struct {
	row   report.SimulationRow
	train func(ctx context.Context, observe observer) error
	units int // client contributions, for progress
}

// Run trains with every setting, on Threads goroutines. Its results depend on the seed and not on the
// number of threads. progress gets the number of done and of all client contributions, from several
// goroutines.
func Run(ctx context.Context, s Settings, from *data.Task, progress func(done, total int)) (*report.Simulation, error) {
	t, err := newTask(s, from)
	if err != nil {
		return nil, err
	}
	jobs := t.jobs()
	variance := t.varianceJobs()
	total := 0
	for _, j := range jobs {
		total += j.units
	}
	var done atomic.Int64
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan func() error, len(jobs)+len(variance))
	for _, v := range variance {
		queue <- v.measure
	}
	for _, j := range jobs {
		queue <- func() error {
			scorer, err := t.newScorer()
			if err != nil {
				return err
			}
			defer scorer.close()
			return j.train(ctx, func(pass int, model []float32) error {
				s, err := scorer.compute(model)
				if err != nil {
					return err
				}
				if j.row.TrainingLoss = append(j.row.TrainingLoss, number.Float(s.loss)); t.spec.Classes > 0 {
					j.row.Final, j.row.Accuracy = s.accuracy, append(j.row.Accuracy, s.accuracy)
				} else {
					j.row.RMSE = append(j.row.RMSE, number.Float(s.rmse))
				}
				progress(int(done.Add(int64(j.units/t.Passes))), total)
				return ctx.Err()
			})
		}
	}
	close(queue)
	var workers sync.WaitGroup
	for range t.Threads {
		workers.Go(func() {
			for work := range queue {
				if err := ctx.Err(); err != nil {
					return
				}
				if err := work(); err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r := &report.Simulation{Data: from.Name, Clients: t.Clients, Records: t.Records, Passes: t.Passes,
		Model: t.Model, Classes: t.spec.Classes, Clip: t.Clip, LossExamples: len(t.lossRecords.Labels),
		LearningRates: t.Rates, Weights: t.weights,
		TestExamples: len(t.testRecords.Labels), Central: centralSettings, Seed: t.Seed, Threads: t.Threads}
	for _, j := range jobs {
		r.Rows = append(r.Rows, j.row)
	}
	for _, v := range variance {
		r.Variance = append(r.Variance, v.SimulationVariance)
	}
	if t.spec.Classes > 0 {
		r.Claims = compareAll(r)
	}
	return r, nil
}

// streamNumber selects the random streams of a training, so that its results do not depend on which
// others are simulated.
func streamNumber(method string, size int, epsilon, rate float64) uint64 {
	h := fnv.New32a()
	fmt.Fprint(h, method, size, epsilon, rate)
	return uint64(h.Sum32())
}

// jobs lists the trainings.
func (t *task) jobs() (all []*job) {
	add := func(row report.SimulationRow, train func(ctx context.Context, j *job, observe observer) error) {
		j := &job{row: row, units: t.Clients * t.Passes}
		j.train = func(ctx context.Context, observe observer) error { return train(ctx, j, observe) }
		all = append(all, j)
	}
	for _, epsilon := range t.Epsilons {
		reported := number.Float(epsilon)
		for _, rate := range t.Rates {
			for _, k := range t.Instances {
				number := streamNumber(report.DrawAndDiscard, k, epsilon, rate)
				add(report.SimulationRow{Method: report.DrawAndDiscard, Instances: k, Epsilon: reported, LearningRate: rate},
					func(_ context.Context, j *job, observe observer) (err error) {
						j.row.Spread, j.row.Stationary, err = t.drawAndDiscard(k, epsilon, rate, number, observe)
						return err
					})
			}
			for _, b := range t.Batches {
				number := streamNumber(report.ServerBatch, b, epsilon, rate)
				add(report.SimulationRow{Method: report.ServerBatch, Batch: b, Epsilon: reported, LearningRate: rate},
					func(_ context.Context, _ *job, observe observer) error {
						return t.serverBatch(b, epsilon, rate, number, observe)
					})
			}
		}
		if t.Model == string(drawdiscard.Poisson) {
			continue // no network of package models predicts exp(w·x)
		}
		add(report.SimulationRow{Method: report.Central, Epsilon: reported, LearningRate: centralRateAt(epsilon)},
			func(ctx context.Context, j *job, observe observer) (err error) {
				j.row.Delta, err = t.central(ctx, epsilon, observe)
				return err
			})
	}
	return all
}
