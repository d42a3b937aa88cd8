package simulation

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/drawdiscard"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/models"
)

// Settings of the central runs. They are public constants, chosen on MNIST.
const (
	centralLotsPerPass = 20
	centralClip        = 1
	centralRate        = 2.0
	centralSettings    = "client-level DP-SGD, 20 Poisson lots per pass, clip 1, learning rate 2; without noise: no clipping, learning rate 0.5"
)

// centralRateAt is smaller without noise, because gradients are longer than clipped ones.
func centralRateAt(epsilon float64) float64 {
	if math.IsInf(epsilon, 1) {
		return centralRate / 4
	}
	return centralRate
}

// central trains by DP-SGD with the client as the record: a trusted server clips each client's
// average gradient to the norm centralClip, and adds Gaussian noise to the sum of a Poisson lot. ε is
// that of the whole training for all data of a client, under zero-out adjacency.
func (t *task) central(ctx context.Context, epsilon float64, observe observer) (delta float64, err error) {
	name := t.Model
	if t.spec.IsGLM() {
		name = "logistic" // of package models: one dense layer
	}
	build, err := models.Parse(name, t.example(), 1)
	if err != nil {
		return 0, err
	}
	train, err := t.setOf(t.trainRecords)
	if err != nil {
		return 0, err
	}
	lot := max(1, t.Clients/centralLotsPerPass)
	perPass := max(1, t.Clients/lot)
	c := engine.Config{
		Network: build, Train: train, Records: engine.Records{Examples: t.Records},
		Sampling: engine.Sampling{Lot: lot}, Steps: perPass * t.Passes, Seed: &t.Seed,
		Optimization: engine.Optimization{Optimizer: optim.Optimizer{Kind: optim.KindSGD},
			Schedule: optim.Schedule{Base: centralRateAt(epsilon)}},
		Device: engine.DeviceOptions{Name: "cpu", Threads: 1},
	}
	if math.IsInf(epsilon, 1) {
		c.Mechanism.NonPrivate = true
	} else {
		delta = accountant.DefaultDelta(t.Clients)
		z, err := accountant.CalibrateNoise(accountant.Plan{
			Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: float64(lot) / float64(t.Clients), Records: t.Clients}, Steps: c.Steps,
		}, epsilon, delta, accountant.Default)
		if err != nil {
			return 0, err
		}
		c.Budget.Delta, c.Mechanism.NoiseMultiplier = delta, z
		c.Mechanism.Clipping = clip.Flat(clip.Constant(centralClip), nil)
		if err := os.MkdirAll(t.Ledgers, 0o755); err != nil {
			return 0, err
		}
		c.Files.Ledger = filepath.Join(t.Ledgers, fmt.Sprintf("central-epsilon-%s.jsonl", number.Short(epsilon)))
	}
	run, err := engine.New(c)
	if err != nil {
		return 0, err
	}
	err = run.Train(ctx, func(p *engine.Progress) error {
		if p.Lot%perPass != 0 {
			return nil
		}
		parameters, err := run.BorrowParameters()
		if err != nil {
			return err
		}
		w := t.weightsOf(parameters)
		return observe(p.Lot/perPass-1, w)
	})
	if closing := run.Close(); err == nil {
		err = closing
	}
	return delta, err
}

// weightsOf returns the weights of a central run as clients have them.
func (t *task) weightsOf(parameters []engine.Parameter) []float32 {
	if t.spec.IsGLM() {
		return drawdiscard.Family(t.Model).WeightsOfDense(parameters[0].Values, parameters[1].Values)
	}
	w := make([]float32, 0, t.weights)
	for _, p := range parameters {
		w = append(w, p.Values...)
	}
	return w
}
