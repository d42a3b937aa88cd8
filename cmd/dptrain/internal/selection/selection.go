package selection

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/engine"
)

// ValidationShare is the share of one run's ε that the validation may cost alone. Composed
// with the lots it adds about a thirtieth to their noise.
const ValidationShare = 0.25

// Candidates returns the specifications of n candidates.
func Candidates(base *settings.Spec, n int) ([]*settings.Spec, error) {
	specs := make([]*settings.Spec, n)
	for i := range specs {
		flags, err := base.Candidate(i)
		if err != nil {
			return nil, err
		}
		flags.Accountant = "rdp"
		flags.ForgetDerivedNoise()
		spec := *base
		spec.ValidationShare = ValidationShare
		if specs[i], err = spec.WithFlags(flags); err != nil {
			return nil, err
		}
	}
	return specs, nil
}

// Calibrate gives all candidates the same ε, the largest for which the selection stays
// within its budget, and records their releases in the ledger.
func (l *Ledger) Calibrate(specs []*settings.Spec) (accountant.Guarantee, error) {
	var guarantee accountant.Guarantee
	cost := func(perRun float64) (float64, error) {
		l.Candidates = l.Candidates[:0]
		for _, spec := range specs {
			if err := spec.Recalibrate(perRun); err != nil {
				return 0, err
			}
			h := spec.Config.PlannedHistory()
			l.Unit, l.Records, l.Adjacency = spec.Config.Records.Unit(), h.Header.Records, h.Header.Adjacency
			releases := []Release{}
			for _, lot := range h.Lots {
				releases = append(releases, Release{lot.Count, lot.Lot})
			}
			l.Candidates = append(l.Candidates, Candidate{spec.Hyperparameters().Flags(), releases})
		}
		var err error
		guarantee, err = l.Guarantee(l.Delta)
		return guarantee.Epsilon, err
	}
	// The selection costs more than one run, and less than 64 times as much. Where noise on the
	// command line costs more than a run's share, the search continues above that share.
	low, high := l.Budget/64, l.Budget
	for high > low*1.005 {
		middle := math.Sqrt(low * high)
		total, err := cost(middle)
		switch {
		case err == nil && total > l.Budget:
			high = middle
		case err == nil || errors.Is(err, engine.ErrBudget):
			low = middle
		default:
			return guarantee, err
		}
	}
	total, err := cost(low)
	if err == nil && total > l.Budget {
		err = fmt.Errorf("%w: the selection costs ε = %.4g even if one run costs %.4g; raise the budget or δ, or lower --trials", engine.ErrBudget, total, low)
	}
	return guarantee, err
}

// Outcome is what a run releases.
type Outcome struct {
	Score      float64 // higher is better
	Deviation  float64 // standard deviation of the noise in Accuracy or MAE
	Accuracy   *float64
	MAE        *float64                  // on records held out
	Test       *rundir.RegressionMetrics // on public test data
	Parameters []engine.Parameter
	Directions []float32 // of a projection
}

// Best trains a random number of randomly chosen candidates, and returns the best outcome
// and the index of its candidate. Ties go to the first run. The runs write to a directory
// of their own, which Best removes.
func Best(ctx context.Context, specs []*settings.Spec, runs Distribution, dir string) (best Outcome, index int, err error) {
	var random [8]byte
	crand.Read(random[:]) // never returns an error
	count, err := runs.runs().Quantile(float64(binary.LittleEndian.Uint64(random[:])>>11) * 0x1p-53)
	if err != nil {
		return best, 0, err
	}
	if count == 0 {
		return best, 0, errors.New("the random number of runs is 0, so nothing was selected; the cost includes this outcome, and another selection costs as much again")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return best, 0, err
	}
	defer os.RemoveAll(dir)
	best.Score = math.Inf(-1)
	for range count {
		i, err := crand.Int(crand.Reader, big.NewInt(int64(len(specs))))
		if err != nil {
			return best, 0, err
		}
		outcome, err := train(ctx, specs[i.Int64()], filepath.Join(dir, rundir.LedgerFile))
		if err != nil {
			return best, 0, err
		}
		if outcome.Score > best.Score {
			best, index = outcome, int(i.Int64())
		}
	}
	return best, index, nil
}

// train trains one candidate and scores it.
func train(ctx context.Context, spec *settings.Spec, ledgerFile string) (out Outcome, err error) {
	c := spec.Config
	c.Files.CheckpointFolder, c.Files.Ledger = "", ledgerFile
	defer os.Remove(ledgerFile)
	run, err := engine.New(c)
	if err != nil {
		return out, err
	}
	defer run.Close()
	if err := run.Train(ctx, nil); err != nil {
		return out, err
	}
	if out.Parameters, err = run.Parameters(); err != nil {
		return out, err
	}
	spec.AdoptProjection(run)
	out.Directions = spec.Directions
	if c.Validation.Set != nil {
		released, err := run.Validate()
		if err != nil {
			return out, err
		}
		out.Score, out.Deviation = released.Score, released.Deviation
		if spec.Network.Example.Targets > 0 {
			out.MAE = &released.MAE
		} else {
			out.Accuracy = &released.Accuracy
		}
	} else {
		e, err := spec.EvaluateTest(out.Parameters)
		if err != nil {
			return out, err
		}
		out.Score, out.Test = settings.Score(&e), rundir.NewRegressionMetrics(&e)
		if out.Test == nil {
			out.Accuracy = &e.Accuracy
		}
	}
	if err := run.Close(); err != nil {
		return out, err
	}
	return out, checkReleases(spec, ledgerFile)
}

// checkReleases refuses a run whose ledger states a higher cost than was planned for it.
func checkReleases(spec *settings.Spec, ledgerFile string) error {
	h, err := ledger.Read(ledgerFile)
	if err != nil {
		return err
	}
	spent, err := accountant.Epsilon(h, spec.Config.Budget.Delta, "rdp")
	if err != nil {
		return err
	}
	planned, err := accountant.Epsilon(spec.Config.PlannedHistory(), spec.Config.Budget.Delta, "rdp")
	if err != nil {
		return err
	}
	if !h.Header.Secure || spent.Epsilon > planned.Epsilon*(1+1e-9) {
		return errors.New("the ledger of a run states a higher cost than was planned for it: nothing is released")
	}
	return nil
}
