package client

import (
	"context"
	"fmt"

	"github.com/dptrain/dptrain/engine/drawdiscard"
	"github.com/dptrain/dptrain/noise"
)

// maxWeights is the largest model that a client computes with: a server cannot make it allocate
// more.
const maxWeights = 1 << 28

// Contributor makes contributions of one client's records to one model.
type Contributor struct {
	client    *Client
	model     Model
	account   *Account
	records   drawdiscard.Records
	gradients drawdiscard.Model
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
	noiseSettings.Clip, noiseSettings.LearningRate = m.Settings.Clip, m.Settings.LearningRate
	x := &Contributor{client: c, model: m, account: a, records: records}
	var err error
	if x.mechanism, err = drawdiscard.NewMechanism(noiseSettings, m.Weights); err != nil {
		return nil, err
	}
	if x.gradients, err = m.Build(0); err != nil {
		return nil, fmt.Errorf("the server's model: %w", err)
	}
	if x.gradients.Weights() != m.Weights {
		x.Close()
		return nil, fmt.Errorf("the server states %d weights for a model of %d", m.Weights, x.gradients.Weights())
	}
	if x.codec, err = drawdiscard.NewCodec(x.gradients.Tensors()); err != nil {
		x.Close()
		return nil, err
	}
	if x.source, err = noise.New(); err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
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
	weights, ticket, err := x.client.Draw(ctx, x.model.Name, x.codec)
	if err != nil {
		return Cost{}, err
	}
	cost, err := x.account.Spend(x.mechanism.Query(printable(x.model.Name)))
	if err != nil {
		return cost, err
	}
	gradient := make([]float32, len(weights))
	if len(x.records.Labels) > 0 {
		if err := x.gradients.AverageGradient(gradient, weights, x.records); err != nil {
			return cost, err
		}
	}
	stream := noise.Stream{Purpose: noise.Release, Lot: x.made}
	x.made++
	if err := x.mechanism.Release(gradient, weights, gradient, x.source, stream); err != nil {
		return cost, err
	}
	return cost, x.client.Return(ctx, x.model.Name, ticket, x.codec.Append(nil, gradient))
}
