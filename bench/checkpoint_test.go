package bench

import (
	"flag"
	"testing"

	"github.com/dptrain/dptrain/models"
)

var (
	checkpoint = flag.String("checkpoint", "", "what BenchmarkCheckpoint trains, in the syntax of --model hf:DIR, as in DIR,lora=8")
	texts      = flag.Int("texts", 16, "texts in a step of BenchmarkCheckpoint")
	ids        = flag.Int("ids", 128, "ids of a text in BenchmarkCheckpoint")
)

// fineTuning is a step that trains a checkpoint on texts of random ids.
func fineTuning(checkpoint string, texts, ids, vocabulary int) Workload {
	return Workload{checkpoint, "hf:" + checkpoint, models.DataSpec{Shape: []int{ids}, Vocabulary: vocabulary, Classes: 2, Padded: true}, texts}
}

// BenchmarkCheckpoint times private and plain steps that train a checkpoint: go test ./bench -run '^$' -bench Checkpoint
// -checkpoint DIR,lora=8. peers/checkpoint_steps.py compares it with PyTorch and Opacus.
func BenchmarkCheckpoint(b *testing.B) {
	if *checkpoint == "" {
		b.Skip("-checkpoint names no checkpoint")
	}
	h, err := deviceFromFlags()
	if err != nil {
		b.Fatal(err)
	}
	for _, kind := range []Kind{Private, Plain} {
		b.Run(string(kind), func(b *testing.B) {
			s, err := NewStep(fineTuning(*checkpoint, *texts, *ids, 1000), kind, h)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			timeSteps(b, s)
		})
	}
}

// A step of adapters trains the adapters and the head, and nothing else.
func TestCheckpoint_TrainsAdapters(t *testing.T) {
	for checkpoint, want := range map[string]int{"bert,lora=2": 2*2*2 + 4, "bert": 41} { // A and B of two layers in each of two blocks, and the head
		s, err := NewStep(fineTuning("../models/pretrained/testdata/"+checkpoint, 4, 8, 16), Private, DeviceConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Run(); err != nil {
			t.Error(err)
		}
		if n := len(s.executable.State().Weights); n != want {
			t.Errorf("%s: %d parameters are trained, want %d", checkpoint, n, want)
		}
		s.Close()
	}
}
