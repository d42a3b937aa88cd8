package pretrained

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"

	"github.com/dptrain/dptrain/models/layer"
)

// decoder is what a configuration of a decoder has in addition.
type decoder struct {
	keyHeads, headSize int  // heads of keys and values, which heads of queries share; columns of a head
	tied               bool // the head is the table of the embedding

	rotation, localRotation layer.Rotation // of blocks that see all steps, and of those with a window
	window                  int            // steps that a step sees in the local blocks; 0: no block is local
	local                   []bool         // for each block

	scoreScale, scoreCap, logitCap float64 // as in layer.AttentionOptions; logitCap is that of the logits of the next id

	queryBias, outBias, innerBias bool
	headNorms                     bool // norms of each head of queries and keys
	shiftedNorms, scaledEmbedding bool // scales of norms are 1 + weight; embeddings have the factor √width
}

var llamaBlock = blockNames{
	query: "self_attn.q_proj", key: "self_attn.k_proj", value: "self_attn.v_proj",
	attentionOut: "self_attn.o_proj", attentionNorm: "input_layernorm",
	gate: "mlp.gate_proj", inner: "mlp.up_proj", outer: "mlp.down_proj", outerNorm: "post_attention_layernorm",
}

// gemmaBlock are the names since Gemma 2.
func gemmaBlock() blockNames {
	names := llamaBlock
	names.afterAttention, names.outerNorm, names.afterOuter = "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"
	return names
}

// llamaFamily returns the names of the networks that have Llama's layers.
func llamaFamily(class string, names blockNames) *architecture {
	return &architecture{"model.", []string{"embed_tokens.", "layers.", "norm."}, "layers.%d.", names, lastStepHead, class}
}

// decoders are the families whose steps see the steps before them only.
var decoders = map[string]*architecture{
	gpt2: {"transformer.", []string{"wte.", "wpe.", "h.", "ln_f."}, "h.%d.", blockNames{
		query: "attn.c_attn", attentionOut: "attn.c_proj", attentionNorm: "ln_1",
		inner: "mlp.c_fc", outer: "mlp.c_proj", outerNorm: "ln_2",
	}, lastStepHead, "GPT2"},
	"llama":   llamaFamily("Llama", llamaBlock),
	"mistral": llamaFamily("Mistral", llamaBlock),
	"qwen2":   llamaFamily("Qwen2", llamaBlock),
	"qwen3":   llamaFamily("Qwen3", llamaBlock),
	"gemma":   llamaFamily("Gemma", llamaBlock),
	gemma2:    llamaFamily("Gemma2", gemmaBlock()),
	gemma3:    llamaFamily("Gemma3", gemmaBlock()),
}

// The families that need more than a name.
const (
	gpt2   = "gpt2" // the only decoder with learned positions, and with weights as [in, out]
	gemma2 = "gemma2"
	gemma3 = "gemma3_text"
)

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
	LocalBase     float64   `json:"rope_local_base_freq"`
	Scaling       *rotation `json:"rope_scaling"`
	Rotation      *rotation `json:"rope_parameters"`
	AttentionBias bool      `json:"attention_bias"`
	InnerBias     bool      `json:"mlp_bias"`

	Window       optional[int]     `json:"sliding_window"`
	UseWindow    bool              `json:"use_sliding_window"`
	FirstLocal   *int              `json:"max_window_layers"`
	Pattern      *int              `json:"sliding_window_pattern"`
	LayerTypes   []string          `json:"layer_types"`
	ScoreSize    *float64          `json:"query_pre_attn_scalar"`
	ScoreCap     optional[float64] `json:"attn_logit_softcapping"`
	LogitCap     optional[float64] `json:"final_logit_softcapping"`
	SeesAllSteps bool              `json:"use_bidirectional_attention"`

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

// optional is a number that may be missing, and that null sets to 0.
type optional[T any] struct {
	given bool
	T     T
}

func (o *optional[T]) UnmarshalJSON(text []byte) error {
	o.given = true
	return json.Unmarshal(text, &o.T)
}

func (o optional[T]) or(missing T) T {
	if !o.given {
		return missing
	}
	return o.T
}

// rotation describes the angles of rotary embeddings: of all blocks, or of those that see all steps and of the local ones.
type rotation struct {
	Kind    string   `json:"rope_type"`
	OldKind string   `json:"type"`
	Base    float64  `json:"rope_theta"`
	Part    *float64 `json:"partial_rotary_factor"`

	Factor float64 `json:"factor"`
	Low    float64 `json:"low_freq_factor"`
	High   float64 `json:"high_freq_factor"`
	Steps  float64 `json:"original_max_position_embeddings"`

	Full  *rotation `json:"full_attention"`
	Local *rotation `json:"sliding_attention"`
}

// set changes angles to those of a configuration.
func (r *rotation) set(angles *layer.Rotation) error {
	if r == nil {
		return nil
	}
	if r.Part != nil && *r.Part != 1 {
		return fmt.Errorf("partial_rotary_factor %v is not supported; 1 is", *r.Part)
	}
	switch kind := cmp.Or(r.Kind, r.OldKind, "default"); kind {
	case "default":
	case "linear", "llama3":
		if angles.Scaling = (layer.RotaryScaling{Factor: r.Factor}); kind == "llama3" {
			angles.Scaling = layer.RotaryScaling{Factor: r.Factor, Low: r.Low, High: r.High, Steps: r.Steps}
		}
		if r.Factor == 0 || kind == "llama3" && (r.Low == 0 || r.High == 0 || r.Steps == 0) {
			return fmt.Errorf("rope_type %s: a number is missing; linear needs factor, and llama3 also low_freq_factor, high_freq_factor and original_max_position_embeddings", kind)
		}
	default:
		return fmt.Errorf("rope_type %.40q is not supported; default, linear and llama3 are", kind)
	}
	angles.Base = cmp.Or(r.Base, angles.Base)
	return angles.Scaling.Check()
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
	gemma, blockNorms := c.Family == "gemma" || c.names.afterOuter != "", c.names.afterOuter != ""
	if f.KeyHeads == nil && c.Family != "llama" {
		return fmt.Errorf("num_key_value_heads is missing")
	}
	c.hidden, c.layers, c.heads, c.inner, c.positions = f.Hidden, f.Layers, f.Heads, f.Inner, f.Positions
	c.epsilon = orDefault(f.RMSEpsilon, 1e-6)
	d := &decoder{
		keyHeads: orDefault(f.KeyHeads, f.Heads), headSize: orDefault(f.HeadSize, 0), tied: orDefault(f.Tied, gemma),
		queryBias: f.AttentionBias || c.Family == "qwen2", outBias: f.AttentionBias, innerBias: f.InnerBias && c.Family == "llama",
		headNorms: c.Family == "qwen3" || c.Family == gemma3, shiftedNorms: gemma, scaledEmbedding: gemma,
	}
	c.decoder = d
	if d.headSize == 0 {
		if c.heads > 0 && c.hidden%c.heads != 0 {
			return fmt.Errorf("%d heads cannot share a width of %d", c.heads, c.hidden)
		}
		d.headSize = c.hidden / max(1, c.heads)
	}
	if err := c.setRotations(f); err != nil {
		return err
	}
	if err := c.setLocalBlocks(f); err != nil {
		return err
	}
	if blockNorms {
		if err := c.setGemma(f); err != nil {
			return err
		}
	}
	act := "silu"
	if gemma {
		act = "gelu_pytorch_tanh"
	}
	return c.setActivation(cmp.Or(f.Activation, f.Act, act))
}

// setRotations sets the angles. Gemma 3 has others for local blocks.
func (c *Config) setRotations(f *decoderFile) error {
	d, base := c.decoder, 10000.0
	if c.Family == gemma3 {
		base = 1e6
	}
	d.rotation.Base = cmp.Or(f.Base, base)
	d.localRotation.Base = cmp.Or(f.LocalBase, 10000)
	for _, r := range []*rotation{f.Scaling, f.Rotation} {
		full := r
		if r != nil && (r.Full != nil || r.Local != nil) {
			if c.Family != gemma3 {
				return fmt.Errorf("rope_parameters of full_attention and sliding_attention are not supported for model_type %s", c.Family)
			}
			if err := r.Local.set(&d.localRotation); err != nil {
				return err
			}
			full = r.Full
		}
		if err := full.set(&d.rotation); err != nil {
			return err
		}
	}
	if c.Family != gemma3 {
		d.localRotation = d.rotation
	}
	return nil
}

// setLocalBlocks sets the window, and which blocks have it.
func (c *Config) setLocalBlocks(f *decoderFile) error {
	const ofQwen, ofGemma2, ofGemma3 = 28, 2, 6 // the defaults of transformers
	isLocal := func(int) bool { return true }
	switch window := f.Window.or(4096); c.Family {
	case "mistral":
		c.decoder.window, f.LayerTypes = window, nil
	case "qwen2", "qwen3":
		if f.UseWindow {
			c.decoder.window = window
		}
		isLocal = func(i int) bool { return i >= orDefault(f.FirstLocal, ofQwen) }
	case gemma2, gemma3:
		pattern := ofGemma2
		if c.Family == gemma3 {
			pattern = orDefault(f.Pattern, ofGemma3)
		}
		if window < 1 || pattern < 1 {
			return fmt.Errorf("sliding_window %d or sliding_window_pattern %d is out of range", window, pattern)
		}
		c.decoder.window = window
		isLocal = func(i int) bool { return (i+1)%pattern != 0 }
	}
	if c.decoder.window == 0 || c.layers < 1 || c.layers > maxBlocks {
		return nil
	}
	if f.LayerTypes != nil && len(f.LayerTypes) != c.layers {
		return fmt.Errorf("layer_types has %d entries for %d blocks", len(f.LayerTypes), c.layers)
	}
	c.decoder.local = make([]bool, c.layers)
	for i := range c.decoder.local {
		if f.LayerTypes == nil {
			c.decoder.local[i] = isLocal(i)
			continue
		}
		switch kind := f.LayerTypes[i]; kind {
		case "sliding_attention":
			c.decoder.local[i] = true
		case "full_attention":
		default:
			return fmt.Errorf("layer_types: %.40q is not supported; full_attention and sliding_attention are", kind)
		}
	}
	return nil
}

// setGemma sets what is new since Gemma 2.
func (c *Config) setGemma(f *decoderFile) error {
	d := c.decoder
	ofScores, ofLogits := 0.0, 0.0
	if c.Family == gemma2 {
		ofScores, ofLogits = 50, 30
	}
	size := orDefault(f.ScoreSize, 256)
	d.scoreScale, d.scoreCap, d.logitCap = 1/math.Sqrt(size), f.ScoreCap.or(ofScores), f.LogitCap.or(ofLogits)
	switch {
	case f.SeesAllSteps:
		return fmt.Errorf("use_bidirectional_attention is not supported")
	case !(size > 0 && size <= 1<<20):
		return fmt.Errorf("query_pre_attn_scalar %v is out of range", size)
	case c.Family == gemma3 && d.scoreCap != 0:
		return fmt.Errorf("attn_logit_softcapping is not supported for model_type %s, because transformers ignores it", c.Family)
	case !(d.scoreCap >= 0 && d.scoreCap <= 1e6 && d.logitCap >= 0 && d.logitCap <= 1e6):
		return fmt.Errorf("attn_logit_softcapping %v or final_logit_softcapping %v is out of range", d.scoreCap, d.logitCap)
	}
	return nil
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
	inRange := func(base float64) bool { return base > 0 && base < 1e30 }
	switch {
	case d.keyHeads < 1 || c.heads%d.keyHeads != 0:
		return fmt.Errorf("%d heads cannot share %d heads of keys", c.heads, d.keyHeads)
	case d.headSize < 1 || d.headSize > 1<<16:
		return fmt.Errorf("head_dim is %d; it needs a number from 1 to 2^16", d.headSize)
	case c.Family != gpt2 && d.headSize%2 != 0:
		return fmt.Errorf("heads of %d columns cannot be rotated; an even number is needed", d.headSize)
	case d.window < 0 || c.Family != gpt2 && !(inRange(d.rotation.Base) && inRange(d.localRotation.Base)):
		return fmt.Errorf("sliding_window %d or rope_theta %v is out of range", d.window, d.rotation.Base)
	}
	return nil
}
