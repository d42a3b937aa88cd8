package client

import (
	"context"
	"fmt"

	"github.com/dptrain/dptrain/engine/drawdiscard"
	"github.com/dptrain/dptrain/noise"
)

// A server cannot make a client allocate more than it sends: the weights of a model are counted before
// it is built, and it is built after an instance has arrived.
const (
	// maxWeights is the largest model that a client computes with.
	maxWeights = 1 << 28
	// A step takes at most stepMemory bytes and stepMemoryRatio times those of the weights.
	stepMemory      = 1 << 30
	stepMemoryRatio = 64
)

// Contributor makes contributions of one client's records to one model.
type Contributor struct {
	client    *Client
	model     Model
	account   *Account
	records   drawdiscard.Records
	gradients drawdiscard.Model // nil before the first instance arrived
	mechanism *drawdiscard.Mechanism
	codec     *drawdiscard.Codec
	source    *noise.Source
	made      uint64
}

// NewContributor prepares contributions with the given settings of the step. The clip bound and the
// learning rate are the model's and do not change the guarantee; what does, the noise, its level, ε
// and δ, comes from the caller alone. Close it.
func NewContributor(c *Client, m Model, noiseSettings drawdiscard.Settings, records drawdiscard.Records, a *Account) (*Contributor, error) {
	if m.Weights < 1 || m.Weights > maxWeights {
		return nil, fmt.Errorf("the server's model has %d weights; at most %d are supported", m.Weights, maxWeights)
	}
	if noiseSettings.Distribution == drawdiscard.NoNoise {
		return nil, fmt.Errorf("a contribution without noise gives no privacy; use %s or %s", drawdiscard.Laplace, drawdiscard.Gaussian)
	}
	tensors, err := m.Tensors()
	if err != nil {
		return nil, fmt.Errorf("the server's model: %w", err)
	}
	switch n := drawdiscard.CountWeights(tensors, m.Weights); {
	case n > m.Weights:
		return nil, fmt.Errorf("the server states %d weights, and the model that it describes has more", m.Weights)
	case n < m.Weights:
		return nil, fmt.Errorf("the server states %d weights for a model of %d", m.Weights, n)
	case len(records.Features) != len(records.Labels)*m.Inputs.Size():
		return nil, fmt.Errorf("%d features of %d records for a model that reads %d", len(records.Features), len(records.Labels), m.Inputs.Size())
	}
	noiseSettings.Clip, noiseSettings.LearningRate = m.Settings.Clip, m.Settings.LearningRate
	x := &Contributor{client: c, model: m, account: a, records: records}
	if x.mechanism, err = drawdiscard.NewMechanism(noiseSettings, m.Weights); err != nil {
		return nil, err
	}
	if x.codec, err = drawdiscard.NewCodec(tensors); err != nil {
		return nil, err
	}
	if x.source, err = noise.New(); err != nil {
		return nil, err
	}
	return x, nil
}

// build makes the model, if the records need one and it was not made before.
func (x *Contributor) build() (err error) {
	if x.gradients != nil || len(x.records.Labels) == 0 {
		return nil
	}
	if x.gradients, err = x.model.BuildWithin(0, stepMemory+stepMemoryRatio*4*x.model.Weights); err != nil {
		return fmt.Errorf("the server's model: %w", err)
	}
	return nil
}

// Close ends the threads of the model.
func (x *Contributor) Close() error {
	if n, ok := x.gradients.(*drawdiscard.Network); ok {
		return n.Close()
	}
	return nil
}

// Mechanism returns the private step.
func (x *Contributor) Mechanism() *drawdiscard.Mechanism { return x.mechanism }

// Contribute makes one contribution: it draws, spends the budget, computes the private step and
// returns it. Clients without records return noise, as others do.
func (x *Contributor) Contribute(ctx context.Context) (Cost, error) {
	drawn, err := x.client.Draw(ctx, x.model.Name, x.codec)
	if err != nil {
		return Cost{}, err
	}
	weights := drawn.Weights
	step, err := x.mechanism.AtRate(drawn.Rate)
	if err != nil {
		return Cost{}, fmt.Errorf("the server's learning rate: %w", err)
	}
	if err := x.build(); err != nil {
		return Cost{}, err
	}
	cost, err := x.account.Spend(x.mechanism.Query(printable(x.model.Name), x.account.level))
	if err != nil {
		return cost, err
	}
	gradient := make([]float32, len(weights))
	if x.gradients != nil {
		if err := x.gradients.AverageGradient(gradient, weights, x.records); err != nil {
			return cost, err
		}
	}
	stream := noise.Stream{Purpose: noise.Release, Lot: x.made}
	x.made++
	if err := step.Release(gradient, weights, gradient, x.source, stream); err != nil {
		return cost, err
	}
	return cost, x.client.Return(ctx, x.model.Name, drawn.Ticket, x.codec.Append(nil, gradient))
}
