package pretrained

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/dptrain/dptrain/internal/format/gguf"
	"github.com/dptrain/dptrain/internal/format/safetensors"
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
	if kind, given := f.Metadata[family+".rope.scaling.type"].(string); given && kind != "none" {
		return nil, fmt.Errorf("rope.scaling.type %.40q is not supported", kind)
	}
	if number("expert_count") > 0 {
		return nil, errors.New("expert_count is not supported")
	}
	keyHeads, epsilon := number("attention.head_count_kv"), real("attention.layer_norm_rms_epsilon")
	file := decoderFile{
		Hidden: number("embedding_length"), Layers: number("block_count"), Heads: number("attention.head_count"),
		Inner: number("feed_forward_length"), Positions: number("context_length"), KeyHeads: &keyHeads, RMSEpsilon: &epsilon,
		Base: real("rope.freq_base"),
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
		case "rope_freqs.weight":
			return nil, errors.New("rope_freqs.weight, other frequencies of rotary embeddings, is not supported")
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

// readGGUF reads the tensors of a file as float32, with the names and the layout of transformers.
func (c *Config) readGGUF(path string) (list []safetensors.Tensor, err error) {
	err = withGGUF(path, func(f *gguf.File) error {
		for _, t := range f.Tensors {
			name, err := nameOf(t.Name)
			if err != nil {
				return err
			}
			values, err := f.Values(t)
			if err != nil {
				return err
			}
			if c.Family == "llama" {
				values = c.withoutInterleaving(name, values)
			}
			list = append(list, safetensors.Tensor{Name: name, Shape: t.Shape, Values: values})
		}
		return nil
	})
	return list, err
}

// withoutInterleaving returns the rows of queries and keys in the order of transformers. llama.cpp rotates columns 2j
// and 2j+1 of Llama's heads, and transformers columns j and j+size/2.
func (c *Config) withoutInterleaving(name string, values []float32) []float32 {
	size := c.decoder.headSize
	layer := strings.TrimSuffix(name, ".weight")
	rows := map[string]int{c.names.query: c.heads * size, c.names.key: c.decoder.keyHeads * size}
	for part, n := range rows {
		if !strings.HasSuffix(layer, "."+part) || len(values)%n != 0 {
			continue
		}
		columns, ordered := len(values)/n, make([]float32, len(values))
		for r := range n {
			head, j := r/size*size, r%size
			copy(ordered[(head+j%2*size/2+j/2)*columns:][:columns], values[r*columns:])
		}
		return ordered
	}
	return values
}

// transformersConfig returns the configuration as a config.json has it.
func (c *Config) transformersConfig() map[string]any {
	d := c.decoder
	config := map[string]any{
		"model_type": c.Family, "vocab_size": c.vocabulary, "hidden_size": c.hidden, "num_hidden_layers": c.layers, "intermediate_size": c.inner,
		"num_attention_heads": c.heads, "num_key_value_heads": d.keyHeads, "head_dim": d.headSize, "max_position_embeddings": c.positions,
		"rms_norm_eps": c.epsilon, "rope_theta": d.rotaryBase, "hidden_act": "silu", "attention_bias": false, "tie_word_embeddings": d.tied,
	}
	if c.endID.int != nil {
		config["eos_token_id"] = *c.endID.int
	}
	return config
}
