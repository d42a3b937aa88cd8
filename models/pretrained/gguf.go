package pretrained

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/format/gguf"
	"github.com/dptrain/dptrain/models/layer"
)

// isGGUF reports whether the path of a checkpoint is that of a file of llama.cpp, and not of a folder.
func isGGUF(path string) bool { return strings.HasSuffix(path, ".gguf") }

// withGGUF passes a file to a function.
func withGGUF(path string, use func(f *gguf.File) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	f, err := gguf.Read(file, info.Size())
	if err == nil {
		err = use(f)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func readGGUFConfig(path string) (c *Config, err error) {
	err = withGGUF(path, func(f *gguf.File) error {
		c, err = parseGGUF(f)
		return err
	})
	return c, err
}

// parseGGUF reads a configuration from metadata. The families have the names of transformers.
func parseGGUF(f *gguf.File) (*Config, error) {
	family, _ := f.Metadata["general.architecture"].(string)
	if family != "llama" && family != "qwen2" && family != "qwen3" {
		return nil, fmt.Errorf("general.architecture %.40q is not supported; llama, qwen2 and qwen3 are", family)
	}
	number := func(key string) int {
		n, _ := f.Metadata[family+"."+key].(uint64)
		return int(min(n, math.MaxInt32))
	}
	real := func(key string) float64 {
		x, _ := f.Metadata[family+"."+key].(float64)
		return x
	}
	scaling, err := ggufScaling(f, family)
	if err != nil {
		return nil, err
	}
	if number("expert_count") > 0 {
		return nil, errors.New("expert_count is not supported")
	}
	keyHeads, epsilon := number("attention.head_count_kv"), real("attention.layer_norm_rms_epsilon")
	file := decoderFile{
		Hidden: number("embedding_length"), Layers: number("block_count"), Heads: number("attention.head_count"),
		Inner: number("feed_forward_length"), Positions: number("context_length"), KeyHeads: &keyHeads, RMSEpsilon: &epsilon,
		Base: real("rope.freq_base"), Scaling: scaling,
	}
	if size := number("attention.key_length"); size > 0 {
		file.HeadSize = &size
	}
	tied := true
	for _, t := range f.Tensors {
		switch t.Name {
		case "token_embd.weight":
			file.Vocabulary = t.Shape[0]
		case "output.weight":
			tied = false
		}
	}
	file.Tied = &tied
	if end, given := f.Metadata["tokenizer.ggml.eos_token_id"].(uint64); given && end < 1<<24 {
		id := int(end)
		file.EndID = endID{&id}
	}
	c := &Config{Family: family, architecture: decoders[family], vocabulary: file.Vocabulary, endID: file.EndID}
	if err := c.setLlama(&file); err != nil {
		return nil, err
	}
	if err := c.checkDecoder(); err != nil {
		return nil, err
	}
	if turned := number("rope.dimension_count"); turned != 0 && turned != c.decoder.headSize {
		return nil, fmt.Errorf("rope.dimension_count %d is not supported; the %d columns of a head are", turned, c.decoder.headSize)
	}
	return c, nil
}

// ropeFactors is the tensor of the numbers that divide the frequencies of rotary embeddings.
const ropeFactors = "rope_freqs.weight"

// ggufScaling returns the scaling of the angles, nil if there is none. A file of Llama 3.1 and later ones has the numbers that
// divide the frequencies, and not those that they were computed from, so it returns the scaling that has them.
func ggufScaling(f *gguf.File, family string) (*rotation, error) {
	var scaling *rotation
	if kind, given := f.Metadata[family+".rope.scaling.type"].(string); given && kind != "none" {
		factor, _ := f.Metadata[family+".rope.scaling.factor"].(float64)
		if kind != "linear" {
			return nil, fmt.Errorf("rope.scaling.type %.40q is not supported; linear is", kind)
		}
		scaling = &rotation{Kind: kind, Factor: factor}
	}
	for _, t := range f.Tensors {
		if t.Name != ropeFactors {
			continue
		}
		divisors, err := f.Values(t)
		if err != nil {
			return nil, err
		}
		base, _ := f.Metadata[family+".rope.freq_base"].(float64)
		for _, factor := range []float64{8, 32} { // of Llama 3.1 and 3.2
			s := layer.RotaryScaling{Factor: factor, Low: 1, High: 4, Steps: 8192}
			if scaling == nil && hasDivisors(s, base, divisors) {
				return &rotation{Kind: "llama3", Factor: s.Factor, Low: s.Low, High: s.High, Steps: s.Steps}, nil
			}
		}
		return nil, fmt.Errorf("%s, which divides frequencies of rotary embeddings, is not that of Llama 3.1 or 3.2; others are not supported", ropeFactors)
	}
	return scaling, nil
}

// hasDivisors reports whether a scaling divides the frequencies by some numbers.
func hasDivisors(s layer.RotaryScaling, base float64, divisors []float32) bool {
	plain := op.RotaryFrequencies(2*len(divisors), base, layer.RotaryScaling{})
	for i, f := range op.RotaryFrequencies(2*len(divisors), base, s) {
		if by := plain[i] / f; !(math.Abs(by-float64(divisors[i])) <= 1e-4*by) {
			return false
		}
	}
	return true
}

// ggufNames are the names of the parts of GGUF's tensors in transformers.
var ggufNames = map[string]string{
	"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
	"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
	"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
	"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}

// nameOf returns the name in transformers of a tensor of a GGUF file.
func nameOf(name string) (string, error) {
	switch name {
	case "token_embd.weight":
		return "model.embed_tokens.weight", nil
	case "output_norm.weight":
		return "model.norm.weight", nil
	case "output.weight":
		return nextHead + ".weight", nil
	}
	parts := strings.Split(name, ".")
	if len(parts) == 4 && parts[0] == "blk" && ggufNames[parts[2]] != "" {
		return "model.layers." + parts[1] + "." + ggufNames[parts[2]] + "." + parts[3], nil
	}
	return "", fmt.Errorf("the tensor %.80q is not supported", name)
}

// readGGUF passes the tensors of a file to a function, with the names and the layout of transformers.
func (c *Config) readGGUF(path string, add func(name string, x *stored) error) error {
	return withGGUF(path, func(f *gguf.File) error {
		for _, t := range f.Tensors {
			if t.Name == ropeFactors {
				continue
			}
			name, err := nameOf(t.Name)
			if err != nil {
				return err
			}
			x := &stored{shape: t.Shape, half: t.Half(), read: func(file io.ReaderAt, row int, into []float32) error {
				return f.ReadRows(file, t, row, into)
			}}
			if c.Family == "llama" {
				x.place = c.withoutInterleaving(name, t.Shape)
			}
			if err := add(name, x); err != nil {
				return err
			}
		}
		return nil
	})
}

// withoutInterleaving returns the places of the rows of queries and keys in transformers; nil for other tensors. llama.cpp
// rotates columns 2j and 2j+1 of Llama's heads, and transformers columns j and j+size/2.
func (c *Config) withoutInterleaving(name string, shape []int) func(row int) int {
	size := c.decoder.headSize
	layer := strings.TrimSuffix(name, ".weight")
	rows := map[string]int{c.names.query: c.heads * size, c.names.key: c.decoder.keyHeads * size}
	for part, n := range rows {
		if strings.HasSuffix(layer, "."+part) && shape[0] == n {
			return func(r int) int {
				head, j := r/size*size, r%size
				return head + j%2*size/2 + j/2
			}
		}
	}
	return nil
}

// transformersConfig returns the configuration as a config.json has it.
func (c *Config) transformersConfig() map[string]any {
	d := c.decoder
	config := map[string]any{
		"model_type": c.Family, "vocab_size": c.vocabulary, "hidden_size": c.hidden, "num_hidden_layers": c.layers, "intermediate_size": c.inner,
		"num_attention_heads": c.heads, "num_key_value_heads": d.keyHeads, "head_dim": d.headSize, "max_position_embeddings": c.positions,
		"rms_norm_eps": c.epsilon, "rope_theta": d.rotation.Base, "hidden_act": "silu", "attention_bias": false, "tie_word_embeddings": d.tied,
	}
	if s := d.rotation.Scaling; s.High > 0 {
		config["rope_scaling"] = map[string]any{"rope_type": "llama3", "factor": s.Factor, "low_freq_factor": s.Low, "high_freq_factor": s.High,
			"original_max_position_embeddings": s.Steps}
	} else if s.Factor > 0 {
		config["rope_scaling"] = map[string]any{"rope_type": "linear", "factor": s.Factor}
	}
	if c.endID.int != nil {
		config["eos_token_id"] = *c.endID.int
	}
	return config
}
