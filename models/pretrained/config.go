package pretrained

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/models/layer"
)

// Config is the configuration of a network, as a config.json has it.
type Config struct {
	Family string // model_type

	hidden, layers, heads, inner int
	vocabulary, positions        int
	segments                     int // rows of the table of segments; 0: there is none
	firstPosition                int // row of the first step's position
	epsilon                      float64
	activation                   activation
	decoder                      *decoder // nil: an encoder
	endID                        endID
	picture                      *picture // nil: it reads texts
	untied                       bool     // the head for ids is not the table of an encoder's ids
	pooling                      pooling  // of an encoder with a linear head; empty: it has the head of its family
	dense                        string   // the folder with the linear head; empty: the checkpoint has none

	*architecture
}

// IsEncoder reports whether each step of a network sees all others.
func (c *Config) IsEncoder() bool { return c.decoder == nil }

// activation is the function between the two dense layers of a block.
type activation struct {
	exact   layer.Activation
	tanhFit bool // GELU with a hyperbolic tangent, in place of exact
}

var activations = map[string]activation{
	"gelu":              {exact: layer.GELU},
	"relu":              {exact: layer.ReLU},
	"silu":              {exact: layer.SiLU},
	"swish":             {exact: layer.SiLU},
	"gelu_new":          {tanhFit: true},
	"gelu_pytorch_tanh": {tanhFit: true},
}

// architecture are the names of a family's tensors.
type architecture struct {
	prefix string   // of all tensors but those of the head
	parts  []string // what names begin with behind the prefix
	block  string   // of block i, with %d for it
	names  blockNames
	head   headKind
	class  string // the class in transformers; of a decoder without the name of the task
}

// blockNames are the names of the layers of a block; "" for a layer that it does not have.
type blockNames struct {
	query, key, value, attentionOut, attentionNorm string
	gate, inner, outer, outerNorm                  string
	afterAttention, afterOuter                     string // norms of what a decoder adds to a block's input
}

// headKind is what follows the last block.
type headKind uint8

const (
	pooledHead    headKind = iota // pooler.dense with tanh, classifier
	robertaHead                   // classifier.dense with tanh, classifier.out_proj
	distilledHead                 // pre_classifier with relu, classifier
	lastStepHead                  // score, which reads the last step
	plainHead                     // classifier
)

var bertBlock = blockNames{
	query: "attention.self.query", key: "attention.self.key", value: "attention.self.value",
	attentionOut: "attention.output.dense", attentionNorm: "attention.output.LayerNorm",
	inner: "intermediate.dense", outer: "output.dense", outerNorm: "output.LayerNorm",
}

// bert is the only encoder whose networks know which of two texts an id belongs to.
const bert = "bert"

var encoderParts = []string{"embeddings.", "encoder.", "pooler.", "transformer."}

var architectures = map[string]*architecture{
	bert:      {"bert.", encoderParts, "encoder.layer.%d.", bertBlock, pooledHead, "BertForSequenceClassification"},
	"roberta": {"roberta.", encoderParts, "encoder.layer.%d.", bertBlock, robertaHead, "RobertaForSequenceClassification"},
	"distilbert": {"distilbert.", encoderParts, "transformer.layer.%d.", blockNames{
		query: "attention.q_lin", key: "attention.k_lin", value: "attention.v_lin",
		attentionOut: "attention.out_lin", attentionNorm: "sa_layer_norm",
		inner: "ffn.lin1", outer: "ffn.lin2", outerNorm: "output_layer_norm",
	}, distilledHead, "DistilBertForSequenceClassification"},
}

const (
	maxConfigBytes = 1 << 20
	maxBlocks      = 1000
)

// readConfigOf reads the configuration of a folder, or of a GGUF file.
func readConfigOf(dir string) (*Config, error) {
	if isGGUF(dir) {
		return readGGUFConfig(dir)
	}
	return readConfig(filepath.Join(dir, "config.json"))
}

func readConfig(path string) (*Config, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxConfigBytes {
		return nil, fmt.Errorf("%s has %d bytes; a configuration has at most %d", path, info.Size(), maxConfigBytes)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, err := parseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if c.picture != nil {
		return c, c.readPreprocessor(filepath.Dir(path))
	}
	return c, nil
}

func parseConfig(text []byte) (*Config, error) {
	var f struct {
		ModelType string `json:"model_type"`

		Hidden int `json:"hidden_size"`
		Dim    int `json:"dim"`
		Layers int `json:"num_hidden_layers"`
		NLayer int `json:"n_layers"`
		Heads  int `json:"num_attention_heads"`
		NHeads int `json:"n_heads"`
		Inner  int `json:"intermediate_size"`
		HidDim int `json:"hidden_dim"`

		Vocabulary int      `json:"vocab_size"`
		Positions  int      `json:"max_position_embeddings"`
		Segments   *int     `json:"type_vocab_size"`
		Padding    *int     `json:"pad_token_id"`
		Epsilon    *float64 `json:"layer_norm_eps"`
		Act        string   `json:"hidden_act"`
		Activation string   `json:"activation"`
		Kind       string   `json:"position_embedding_type"`
		Decoder    bool     `json:"is_decoder"`
		Cross      bool     `json:"add_cross_attention"`
		Quantized  any      `json:"quantization_config"`
		Tied       *bool    `json:"tie_word_embeddings"`
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("this is not a config.json: %w", err)
	}
	if _, is := decoders[f.ModelType]; is {
		return parseDecoder(text, f.ModelType)
	}
	if visions[f.ModelType] != nil {
		return parseVision(text, f.ModelType)
	}
	a := architectures[f.ModelType]
	act, knownAct := activations[cmp.Or(f.Act, f.Activation, "gelu")]
	switch {
	case a == nil:
		return nil, fmt.Errorf("model_type %.40q is not supported; bert, roberta, distilbert, gpt2, llama, mistral, qwen2, qwen3, gemma, gemma2, gemma3_text, vit and deit are", f.ModelType)
	case !knownAct:
		return nil, errActivation(cmp.Or(f.Act, f.Activation))
	case f.Kind != "" && f.Kind != "absolute":
		return nil, fmt.Errorf("position_embedding_type %.40q is not supported; absolute is", f.Kind)
	case f.Decoder || f.Cross:
		return nil, fmt.Errorf("is_decoder and add_cross_attention are not supported")
	case f.Quantized != nil:
		return nil, fmt.Errorf("quantization_config is not supported; give a checkpoint of F32, F16 or BF16")
	}
	c := &Config{Family: f.ModelType, architecture: a, hidden: f.Hidden, layers: f.Layers, heads: f.Heads, inner: f.Inner,
		vocabulary: f.Vocabulary, positions: f.Positions, segments: 2, epsilon: 1e-12, activation: act}
	switch f.ModelType {
	case "distilbert":
		c.hidden, c.layers = cmp.Or(f.Dim, f.Hidden), cmp.Or(f.NLayer, f.Layers)
		c.heads, c.inner = cmp.Or(f.NHeads, f.Heads), cmp.Or(f.HidDim, f.Inner)
		c.segments = 0
	case "roberta":
		c.firstPosition = 2
		if f.Padding != nil {
			c.firstPosition = *f.Padding + 1
		}
	}
	c.untied = f.Tied != nil && !*f.Tied
	if f.Segments != nil && c.segments > 0 {
		c.segments = *f.Segments
	}
	if f.Epsilon != nil && f.ModelType != "distilbert" {
		c.epsilon = *f.Epsilon
	}
	return c, c.check()
}

func errActivation(name string) error {
	return fmt.Errorf("hidden_act %.40q is not supported; gelu, gelu_new, gelu_pytorch_tanh, relu and silu are", name)
}

// check refuses sizes that are no network.
func (c *Config) check() error {
	const most = 1 << 20
	for name, n := range map[string]int{"width": c.hidden, "number of blocks": c.layers, "number of heads": c.heads, "inner width": c.inner,
		"vocabulary": c.vocabulary, "number of positions": c.positions} {
		if n < 1 || n > most {
			return fmt.Errorf("the %s is %d; it needs a number from 1 to 2^20", name, n)
		}
	}
	switch {
	case c.decoder == nil && c.hidden%c.heads != 0:
		return fmt.Errorf("%d heads cannot share a width of %d", c.heads, c.hidden)
	case c.layers > maxBlocks:
		return fmt.Errorf("%d blocks are too many; at most %d are supported", c.layers, maxBlocks)
	case c.segments < 0 || c.segments > most || c.firstPosition < 0 || c.firstPosition >= c.positions:
		return fmt.Errorf("type_vocab_size %d or pad_token_id %d is out of range", c.segments, c.firstPosition-1)
	case !(c.epsilon > 0 && c.epsilon < 1):
		return fmt.Errorf("the epsilon of the norms, %v, is not between 0 and 1", c.epsilon)
	}
	return nil
}
