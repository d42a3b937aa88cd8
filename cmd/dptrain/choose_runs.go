package main

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"strconv"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/internal/exitcode"
)

// parseRuns reads --runs.
func parseRuns(text string, mean int) (accountant.RunDistribution, error) {
	r := accountant.RunDistribution{Mean: float64(mean)}
	switch text {
	case "geometric":
		r.Shape = 1
	case "logarithmic":
	case "poisson":
		r.Shape = math.Inf(1)
	default:
		var err error
		if r.Shape, err = strconv.ParseFloat(text, 64); err != nil || math.IsInf(r.Shape, 0) {
			return r, exitcode.UnknownName("--runs", text, []string{"geometric", "logarithmic", "poisson", "a shape above -1"})
		}
	}
	if _, err := r.Quantile(0); err != nil {
		return r, exitcode.Usagef("--runs %s --trials %d: %w", text, mean, err)
	}
	return r, nil
}

// outcome is what one run releases.
type outcome struct {
	merit, deviation float64
	accuracy, mae    *float64 // one of them, or
	missed           *missed
	parameters       []engine.Parameter
	directions       []float32 // of a projection
}

// winner is the outcome as that of the best run.
func (o *outcome) winner(j *job) winner {
	return winner{j.setting(), o.accuracy, o.mae, o.deviation, o.missed}
}

// bestOf runs as many settings as chance says, and gives the best outcome and its
// setting. Of runs that did as well the first is best: as good as any, since they
// are alike. All that the runs write lies in a folder of their own, and goes.
func bestOf(ctx context.Context, settings []*job, number accountant.RunDistribution, folder string) (best outcome, at int, err error) {
	var eight [8]byte
	crand.Read(eight[:]) // it never fails
	count, err := number.Quantile(float64(binary.LittleEndian.Uint64(eight[:])>>11) * 0x1p-53)
	if err != nil {
		return best, 0, err
	}
	if count == 0 {
		return best, 0, errors.New("the number of runs that was drawn is none, so nothing was chosen; the cost covers that outcome, and choosing again costs as much again")
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return best, 0, err
	}
	defer os.RemoveAll(folder)
	best.merit = math.Inf(-1)
	for range count {
		i, err := crand.Int(crand.Reader, big.NewInt(int64(len(settings))))
		if err != nil {
			return best, 0, err
		}
		got, err := settings[i.Int64()].once(ctx, filepath.Join(folder, "ledger.jsonl"))
		if err != nil {
			return best, 0, err
		}
		if got.merit > best.merit {
			best, at = got, int(i.Int64())
		}
	}
	return best, at, nil
}

// once trains with a setting, and scores what came out.
func (j *job) once(ctx context.Context, ledger string) (out outcome, err error) {
	c := j.config
	c.Files.CheckpointFolder, c.Files.Ledger = "", ledger
	defer os.Remove(ledger)
	run, err := engine.New(c)
	if err != nil {
		return out, err
	}
	defer run.Close()
	if err := run.Train(ctx, nil); err != nil {
		return out, err
	}
	if out.parameters, err = run.Parameters(); err != nil {
		return out, err
	}
	j.takeDirections(run)
	out.directions = j.directions
	if c.Validation.Set != nil {
		released, err := run.Validate()
		if err != nil {
			return out, err
		}
		out.merit, out.deviation = released.Score, released.Deviation
		if j.example.Targets > 0 {
			out.mae = &released.MAE
		} else {
			out.accuracy = &released.Accuracy
		}
	} else {
		got, err := score(j, out.parameters)
		if err != nil {
			return out, err
		}
		out.merit, out.missed = merit(&got), missedOf(&got)
		if out.missed == nil {
			out.accuracy = &got.Accuracy
		}
	}
	if err := run.Close(); err != nil {
		return out, err
	}
	return out, j.within(ledger)
}

// within refuses a run whose ledger says more than what was stated of it.
func (j *job) within(path string) error {
	h, err := ledger.Read(path)
	if err != nil {
		return err
	}
	spent, err := accountant.Epsilon(h, j.config.Budget.Delta, "rdp")
	if err != nil {
		return err
	}
	stated, err := accountant.Epsilon(engine.PlannedHistory(j.config), j.config.Budget.Delta, "rdp")
	if err != nil {
		return err
	}
	if !h.Header.Secure || spent.Epsilon > stated.Epsilon*(1+1e-9) {
		return errors.New("a run's ledger says more than what was set aside for it: nothing is released")
	}
	return nil
}
