package lot

import "context"

// frozenOutputs is gradients of a program that reads the outputs of frozen first layers.
type frozenOutputs struct{ gradients }

// Prepare computes the outputs.
func (f *frozenOutputs) Prepare(ctx context.Context) error { return f.lot.Network.Frozen.Compute(ctx) }

func (f *frozenOutputs) Add(n int) error {
	if err := f.lot.Loader.Load(n, nil); err != nil {
		return err
	}
	f.lot.Network.Frozen.Read(f.lot.Network.Outputs, f.lot.Loader.Records[:n])
	return f.addLoaded(n)
}
