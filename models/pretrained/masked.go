package pretrained

import (
	"fmt"

	"github.com/dptrain/dptrain/models/layer"
	G "gorgonia.org/gorgonia"
)

// maskedHeads are what the names of the parameters of heads for masked ids begin with.
var maskedHeads = []string{"cls.", "lm_head.", "vocab_transform.", "vocab_layer_norm.", "vocab_projector."}

// maskedHead are the names of the layers of a head for masked ids.
type maskedHead struct{ dense, norm, bias string }

// MaskedIDs adds an encoder to a builder that predicts the id of each step: logits [batch, time, vocabulary]. It is
// trained on ids of which some are replaced. The ids [batch, time] are those of the tokenizer, where −1 is padding.
func (m *Model) MaskedIDs(b *layer.Builder, ids *G.Node, vocabulary int) *G.Node {
	return m.add(b, ids, vocabulary, func(n *network) *G.Node {
		switch {
		case m.decoder != nil:
			n.err = fmt.Errorf("model_type %s predicts the next id, and masked ids need an encoder, such as bert or roberta", m.Family)
			return nil
		case m.untied:
			n.err = fmt.Errorf("tie_word_embeddings false is not supported for masked ids")
			return nil
		}
		x := n.encode(ids)
		names, act := maskedHead{"cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions"}, n.activation
		switch m.head {
		case robertaHead:
			names, act = maskedHead{"lm_head.dense", "lm_head.layer_norm", "lm_head"}, activation{exact: layer.GELU}
		case distilledHead:
			names = maskedHead{"vocab_transform", "vocab_layer_norm", "vocab_projector"}
		}
		x = layer.Dense(b, x, names.dense, n.hidden, layer.Identity)
		n.activation = act
		x = layer.LayerNorm(b, n.activate(x), names.norm)
		return layer.Shift(b, layer.TiedLogits(b, x, n.words), names.bias)
	})
}
