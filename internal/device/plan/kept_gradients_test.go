package plan_test

import (
	"fmt"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
)

// gpt2 is a network of the size of GPT-2 small (Radford et al. 2019), with this many words.
func gpt2(words, steps int) perexample.Build {
	const width, heads, blocks = 768, 12, 12
	return func(batch int) (*perexample.Network, error) {
		b := layer.NewBuilder(batch, 1)
		ids := b.Input("ids", steps)
		table := b.Parameter("embedding.weight", layer.Normal(0.02), words, width)
		x := layer.AddPositionEmbedding(b, layer.Lookup(b, table, ids), "position")
		for i := range blocks {
			name := fmt.Sprint("block", i)
			x = layer.Add(b, x, layer.SelfAttention(b, layer.LayerNorm(b, x, name+".norm1"), name+".attention", layer.AttentionOptions{Heads: heads, Causal: true}))
			h := layer.Dense(b, layer.LayerNorm(b, x, name+".norm2"), name+".fc1", 4*width, layer.GELU)
			x = layer.Add(b, x, layer.Dense(b, h, name+".fc2", width, layer.Identity))
		}
		logits := layer.TiedLogits(b, layer.LayerNorm(b, x, "norm"), table)
		b.SetLoss(layer.CrossEntropy(b, logits, b.Input("labels", steps)), logits)
		return b.Network()
	}
}

// keptBytes is the memory of the gradients that a program keeps of dense layers.
func keptBytes(p *plan.Program) (bytes int) {
	for _, i := range p.Front {
		if s, ok := i.Spec.(op.RecordGradients); ok {
			if _, dense := s.Form.(op.Product); dense {
				bytes += 4 * p.Buffers[i.Out].Size()
			}
		}
	}
	return bytes
}

// A record's gradient is kept where it is not larger than its rows. A norm that is computed
// without keeping it needs the rows until the clipped sums, which takes more memory: 340 MB of
// gradients of a record of GPT-2 small are in the place of 604 MB of rows.
func TestKeptGradients_TakeLessMemoryThanRows(t *testing.T) {
	const records, steps, width, blocks = 2, 1024, 768, 12
	for _, c := range []struct {
		words   int
		smaller float64 // the part of the program's memory that keeping saves, at least
	}{
		{50257, 0}, // the logits take the most memory, before any gradient is kept
		{256, 0.2},
	} {
		network, err := perexample.Compile(gpt2(c.words, steps), records, 1)
		if err != nil {
			t.Fatal(err)
		}
		keeps, err := plan.LowerTraining(network, plan.TrainingOptions{Norms: true})
		if err != nil {
			t.Fatal(err)
		}
		streams := keeps.WithoutKeptGradients()
		if got, want := keptBytes(keeps), records*blocks*4*12*width*width; got != want {
			t.Errorf("%d words: %d bytes of gradients are kept, want %d", c.words, got, want)
		}
		if got := keptBytes(streams); got != 0 {
			t.Errorf("%d words: without gradients, %d bytes are kept", c.words, got)
		}
		// Of the rows' 50 MB a block and record, attention and its projection may share some.
		if rows, saved := records*blocks*4*steps*(4+2+5+5)*width, streams.BytesForSums()-keeps.BytesForSums(); saved < (rows-keptBytes(keeps))*3/4 {
			t.Errorf("%d words: keeping gradients saves %d bytes at the end of the backward pass", c.words, saved)
		}
		keeps.Rematerialize(0)
		streams.Rematerialize(0)
		if limit := (1 - c.smaller) * float64(streams.MicrobatchBytes()); float64(keeps.MicrobatchBytes()) > limit {
			t.Errorf("%d words: the program takes %d bytes, and %d without kept gradients", c.words, keeps.MicrobatchBytes(), streams.MicrobatchBytes())
		}
		t.Logf("%d words: %d bytes a record, %d without kept gradients", c.words, keeps.MicrobatchBytes()/records, streams.MicrobatchBytes()/records)
	}
}
