package engine

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/engine/internal/lot"
	"github.com/dptrain/dptrain/internal/setting"
)

// LocalTraining makes the contribution of a user the change of the weights in some steps of SGD on
// the user's examples, from the weights of the lot: federated averaging (McMahan et al. 2018,
// "Learning Differentially Private Recurrent Language Models", algorithm 1, DP-FedAvg). One step on
// all examples of a user is DP-FedSGD: the change is Rate times the negative gradient.
//
// It has the Steps of each user in a lot, their learning Rate, and their Batch, the examples of a step.
//
// Clip bounds are bounds on the norm of a change. The released mean of the clipped changes, times
// −1, is the gradient of Optimization: SGD with rate 1 adds the mean to the weights. Other
// optimizers are those of Reddi et al. 2021 ("Adaptive Federated Optimization").
//
// Statistics are those of all examples of a user that take part, with the weights of the lot: the
// user's steps come after them.
//
// The guarantee is that of gradients of users. The change is a function of the released weights and
// of the user's own examples: the steps start from the same weights for every user, and nothing
// remains of the previous user's.
type LocalTraining = lot.Local

// maxLocalSteps and maxLocalExamples keep the numbers of a lot's random words below 2^63.
const (
	maxLocalSteps    = 1 << 20
	maxLocalExamples = 1 << 31 // of all steps of a user
	defaultMaxBatch  = 64
)

// checkLocalTraining sets the defaults of local training, and refuses what it cannot be combined
// with.
func (c *Config) checkLocalTraining() error {
	l := &c.LocalTraining
	if *l == (LocalTraining{}) {
		return nil
	}
	switch {
	case l.Steps < 1 || l.Steps > maxLocalSteps:
		return setting.Errorf("LocalTraining.Steps", "%v: give at least 1 and at most %d; leave it out, and users contribute gradients", setting.With("LocalTraining.Steps", l.Steps), maxLocalSteps)
	case !(l.Rate > 0) || math.IsInf(l.Rate, 1):
		return setting.Errorf("LocalTraining.Rate", "%v: give a finite learning rate above 0", setting.With("LocalTraining.Rate", l.Rate))
	case l.Batch < 0 || l.Batch > load.MaxExamples:
		return setting.Errorf("LocalTraining.Batch", "%v: give at least 1 and at most %d; leave it out for the default", setting.With("LocalTraining.Batch", l.Batch), load.MaxExamples)
	case !c.Records.Users:
		return setting.Errorf("Records.Users", "%v needs %v: users train on their own examples; use it, or leave out the local steps", setting.With("LocalTraining.Steps", l.Steps), setting.Named("Records.Users"))
	case c.Microbatch != 0:
		return setting.Errorf("Microbatch", "a microbatch of %d records with local steps: users are computed one after the other, and the batch of a local step is %v; drop the microbatch",
			c.Microbatch, setting.Named("LocalTraining.Batch"))
	case c.Augmentation.Views > 0:
		return fmt.Errorf("augmentation is not available with local steps: drop one of them")
	case c.Projection.Directions > 0:
		return fmt.Errorf("a projection is not available with local steps: drop one of them")
	case c.Sampling.ConstantWork:
		return fmt.Errorf("constant work is not available with local steps: drop one of them")
	}
	if l.Batch == 0 {
		l.Batch = min(max(1, c.Records.Examples), defaultMaxBatch)
	}
	if l.Steps > maxLocalExamples/l.Batch {
		return fmt.Errorf("%d local steps of %d examples: give at most %d examples for all steps of a user", l.Steps, l.Batch, maxLocalExamples)
	}
	c.Device.resolver().PreferCPU() // users have few examples, one after the other
	return nil
}
