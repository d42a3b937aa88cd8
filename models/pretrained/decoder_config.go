package pretrained

import (
	"cmp"
	"encoding/json"
	"fmt"
)

// decoder is what a configuration of a decoder has in addition.
type decoder struct {
	keyHeads, headSize int // heads of keys and values, which heads of queries share; columns of a head
	rotaryBase         float64
	window             int  // steps that a step sees; 0: all before it
	tied               bool // the head is the table of the embedding

	queryBias, outBias, innerBias bool
	headNorms                     bool // norms of each head of queries and keys
	shiftedNorms, scaledEmbedding bool // scales of norms are 1 + weight; embeddings have the factor √width
}

var llamaBlock = blockNames{
	query: "self_attn.q_proj", key: "self_attn.k_proj", value: "self_attn.v_proj",
	attentionOut: "self_attn.o_proj", attentionNorm: "input_layernorm",
	gate: "mlp.gate_proj", inner: "mlp.up_proj", outer: "mlp.down_proj", outerNorm: "post_attention_layernorm",
}

// llamaFamily returns the names of the networks that have Llama's layers.
func llamaFamily(class string) *architecture {
	return &architecture{"model.", []string{"embed_tokens.", "layers.", "norm."}, "layers.%d.", llamaBlock, lastStepHead, class}
}

// decoders are the families whose steps see the steps before them only.
var decoders = map[string]*architecture{
	gpt2: {"transformer.", []string{"wte.", "wpe.", "h.", "ln_f."}, "h.%d.", blockNames{
		query: "attn.c_attn", attentionOut: "attn.c_proj", attentionNorm: "ln_1",
		inner: "mlp.c_fc", outer: "mlp.c_proj", outerNorm: "ln_2",
	}, lastStepHead, "GPT2"},
	"llama":   llamaFamily("Llama"),
	"mistral": llamaFamily("Mistral"),
	"qwen2":   llamaFamily("Qwen2"),
	"qwen3":   llamaFamily("Qwen3"),
	"gemma":   llamaFamily("Gemma"),
}

// gpt2 is the only decoder with learned positions. Its weights have the layout [in, out].
const gpt2 = "gpt2"

// decoderFile is a config.json of a decoder.
type decoderFile struct {
	Vocabulary int `json:"vocab_size"`

	// GPT-2
	Width        int      `json:"n_embd"`
	Blocks       int      `json:"n_layer"`
	NHead        int      `json:"n_head"`
	NInner       *int     `json:"n_inner"`
	NPositions   int      `json:"n_positions"`
	Epsilon      *float64 `json:"layer_norm_epsilon"`
	Function     string   `json:"activation_function"`
	Unscaled     *bool    `json:"scale_attn_weights"`
	InverseScale bool     `json:"scale_attn_by_inverse_layer_idx"`
	Cross        bool     `json:"add_cross_attention"`

	// the others
	Hidden        int       `json:"hidden_size"`
	Layers        int       `json:"num_hidden_layers"`
	Heads         int       `json:"num_attention_heads"`
	KeyHeads      *int      `json:"num_key_value_heads"`
	HeadSize      *int      `json:"head_dim"`
	Inner         int       `json:"intermediate_size"`
	Positions     int       `json:"max_position_embeddings"`
	RMSEpsilon    *float64  `json:"rms_norm_eps"`
	Act           string    `json:"hidden_act"`
	Activation    string    `json:"hidden_activation"`
	Base          float64   `json:"rope_theta"`
	Scaling       *rotation `json:"rope_scaling"`
	Rotation      *rotation `json:"rope_parameters"`
	AttentionBias bool      `json:"attention_bias"`
	InnerBias     bool      `json:"mlp_bias"`
	Window        *int      `json:"sliding_window"`
	UseWindow     *bool     `json:"use_sliding_window"`

	Tied      *bool `json:"tie_word_embeddings"`
	EndID     endID `json:"eos_token_id"`
	Quantized any   `json:"quantization_config"`
}

// endID is the id at the end of a text: a number, or the first of a list. It is nil if there is none.
type endID struct{ *int }

func (e *endID) UnmarshalJSON(text []byte) error {
	var list []int
	if json.Unmarshal(text, &list) == nil && len(list) > 0 {
		e.int = &list[0]
		return nil
	}
	return json.Unmarshal(text, &e.int)
}

// rotation describes the angles of rotary embeddings.
type rotation struct {
	Kind    string   `json:"rope_type"`
	OldKind string   `json:"type"`
	Base    float64  `json:"rope_theta"`
	Part    *float64 `json:"partial_rotary_factor"`
}

func parseDecoder(text []byte, family string) (*Config, error) {
	var f decoderFile
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("this is not a config.json: %w", err)
	}
	if f.Quantized != nil {
		return nil, fmt.Errorf("quantization_config is not supported; give a checkpoint of F32, F16 or BF16")
	}
	c := &Config{Family: family, architecture: decoders[family], vocabulary: f.Vocabulary, endID: f.EndID}
	var err error
	if family == gpt2 {
		err = c.setGPT2(&f)
	} else {
		err = c.setLlama(&f)
	}
	if err != nil {
		return nil, err
	}
	return c, c.checkDecoder()
}

func (c *Config) setActivation(name string) (err error) {
	known := false
	if c.activation, known = activations[name]; !known {
		err = errActivation(name)
	}
	return err
}

func (c *Config) setGPT2(f *decoderFile) error {
	switch {
	case f.Unscaled != nil && !*f.Unscaled:
		return fmt.Errorf("scale_attn_weights false is not supported")
	case f.InverseScale:
		return fmt.Errorf("scale_attn_by_inverse_layer_idx is not supported")
	case f.Cross:
		return fmt.Errorf("add_cross_attention is not supported")
	}
	c.hidden, c.layers, c.heads, c.positions = f.Width, f.Blocks, f.NHead, f.NPositions
	c.inner = 4 * c.hidden
	if f.NInner != nil {
		c.inner = *f.NInner
	}
	c.epsilon = orDefault(f.Epsilon, 1e-5)
	c.decoder = &decoder{keyHeads: c.heads, headSize: c.hidden / max(1, c.heads), tied: orDefault(f.Tied, true)}
	if c.heads > 0 && c.hidden%c.heads != 0 {
		return fmt.Errorf("%d heads cannot share a width of %d", c.heads, c.hidden)
	}
	return c.setActivation(cmp.Or(f.Function, "gelu_new"))
}

func (c *Config) setLlama(f *decoderFile) error {
	gemma := c.Family == "gemma"
	base := cmp.Or(f.Base, 10000)
	for _, r := range []*rotation{f.Scaling, f.Rotation} {
		if r == nil {
			continue
		}
		if kind := cmp.Or(r.Kind, r.OldKind, "default"); kind != "default" {
			return fmt.Errorf("rope_type %.40q is not supported; default is", kind)
		}
		if r.Part != nil && *r.Part != 1 {
			return fmt.Errorf("partial_rotary_factor %v is not supported; 1 is", *r.Part)
		}
		base = cmp.Or(r.Base, base)
	}
	if f.KeyHeads == nil && c.Family != "llama" {
		return fmt.Errorf("num_key_value_heads is missing")
	}
	c.hidden, c.layers, c.heads, c.inner, c.positions = f.Hidden, f.Layers, f.Heads, f.Inner, f.Positions
	c.epsilon = orDefault(f.RMSEpsilon, 1e-6)
	d := &decoder{
		keyHeads: orDefault(f.KeyHeads, f.Heads), headSize: orDefault(f.HeadSize, 0), rotaryBase: base, tied: orDefault(f.Tied, gemma),
		queryBias: f.AttentionBias || c.Family == "qwen2", outBias: f.AttentionBias, innerBias: f.InnerBias && c.Family == "llama",
		headNorms: c.Family == "qwen3", shiftedNorms: gemma, scaledEmbedding: gemma,
	}
	if f.Window != nil && orDefault(f.UseWindow, c.Family == "mistral") {
		d.window = *f.Window
	}
	if d.headSize == 0 {
		if c.heads > 0 && c.hidden%c.heads != 0 {
			return fmt.Errorf("%d heads cannot share a width of %d", c.heads, c.hidden)
		}
		d.headSize = c.hidden / max(1, c.heads)
	}
	c.decoder = d
	act := "silu"
	if gemma {
		act = "gelu_pytorch_tanh"
	}
	return c.setActivation(cmp.Or(f.Activation, f.Act, act))
}

func orDefault[T any](given *T, otherwise T) T {
	if given == nil {
		return otherwise
	}
	return *given
}

func (c *Config) checkDecoder() error {
	if err := c.check(); err != nil {
		return err
	}
	d := c.decoder
	switch {
	case d.keyHeads < 1 || c.heads%d.keyHeads != 0:
		return fmt.Errorf("%d heads cannot share %d heads of keys", c.heads, d.keyHeads)
	case d.headSize < 1 || d.headSize > 1<<16:
		return fmt.Errorf("head_dim is %d; it needs a number from 1 to 2^16", d.headSize)
	case c.Family != gpt2 && d.headSize%2 != 0:
		return fmt.Errorf("heads of %d columns cannot be rotated; an even number is needed", d.headSize)
	case d.window < 0 || c.Family != gpt2 && !(d.rotaryBase > 0 && d.rotaryBase < 1e30):
		return fmt.Errorf("sliding_window %d or rope_theta %v is out of range", d.window, d.rotaryBase)
	}
	return nil
}
