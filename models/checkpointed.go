package models

import (
	"errors"
	"strings"

	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/models/pretrained"
	G "gorgonia.org/gorgonia"
)

// pretrainedName is the name of the networks of package pretrained.
const pretrainedName = "hf"

// Pretrained returns the checkpoint that a spec of [Parse] names, and nil for other networks.
func Pretrained(spec string) (*pretrained.Model, error) {
	text, is := strings.CutPrefix(spec, pretrainedName+":")
	if !is {
		return nil, nil
	}
	return pretrained.Parse(text)
}

func parsePretrained(text string) (a args, err error) {
	a.pretrained, err = pretrained.Parse(text)
	return a, err
}

// checkpointed is the network of a checkpoint. It reads ids, or pictures.
func checkpointed(b *layer.Builder, x *G.Node, data DataSpec, a args) *G.Node {
	if len(data.LabelShape) > 0 {
		if data.Classes != data.Vocabulary {
			return b.Try(func() (*G.Node, error) {
				return nil, errors.New("a checkpoint with a label for each step predicts the next or masked ids, and other labels are not supported; give one label or target for a text")
			})
		}
		switch {
		case a.pretrained.IsEncoder():
			return a.pretrained.MaskedIDs(b, x, data.Vocabulary)
		case data.Marked:
			return a.pretrained.NextIDsOfPacked(b, x, data.Vocabulary)
		}
		return a.pretrained.NextIDs(b, x, data.Vocabulary)
	}
	if data.Marked {
		return a.pretrained.OutputsOfPairs(b, x, data.Vocabulary, data.outputs())
	}
	return a.pretrained.Outputs(b, x, data.Vocabulary, data.outputs())
}
