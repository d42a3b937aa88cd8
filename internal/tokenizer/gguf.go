package tokenizer

import (
	"encoding/json"
	"fmt"
)

// The types of tokens in a GGUF file.
const (
	ggufControl     = 3
	ggufUserDefined = 4
)

// preTokenizers are the pre-tokenizers of a tokenizer.json for their names in GGUF files.
var preTokenizers = map[string]string{
	"gpt-2":     `{"type":"ByteLevel","add_prefix_space":false,"use_regex":true}`,
	"smollm":    `{"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},{"type":"ByteLevel","add_prefix_space":false,"use_regex":true}]}`,
	"llama-bpe": splitThenBytes(`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`),
	"qwen2":     splitThenBytes(`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`),
}

func splitThenBytes(pattern string) string {
	quoted, _ := json.Marshal(pattern) // of a string: no error
	return `{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":` + string(quoted) +
		`},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]}`
}

// FromGGUF returns the tokenizer.json of the tokenizer in the metadata of a GGUF file.
func FromGGUF(metadata map[string]any) ([]byte, error) {
	text := func(key string) string {
		s, _ := metadata["tokenizer.ggml."+key].(string)
		return s
	}
	list := func(key string) []any {
		l, _ := metadata["tokenizer.ggml."+key].([]any)
		return l
	}
	if kind := text("model"); kind != "gpt2" {
		return nil, fmt.Errorf("tokenizer.ggml.model %.40q is not supported; gpt2, byte-level BPE, is", kind)
	}
	pre, known := preTokenizers[text("pre")]
	if !known {
		return nil, fmt.Errorf("tokenizer.ggml.pre %.40q is not supported; gpt-2, smollm, llama-bpe and qwen2 are", text("pre"))
	}
	llama3, qwen := text("pre") == "llama-bpe", text("pre") == "qwen2"
	begins, given := metadata["tokenizer.ggml.add_bos_token"].(bool)
	if begins || llama3 && !given { // texts of Llama 3 begin with an id unless the file denies it
		return nil, fmt.Errorf("tokenizer.ggml.add_bos_token is not supported; only false is")
	}
	var normalizer any
	if qwen {
		normalizer = map[string]any{"type": "NFC"}
	}
	tokens, types := list("tokens"), list("token_type")
	if len(types) != len(tokens) {
		return nil, fmt.Errorf("%d tokens and %d types of tokens: each token needs one", len(tokens), len(types))
	}
	vocabulary, added := map[string]int{}, []map[string]any{}
	for i, x := range tokens {
		piece, is := x.(string)
		if _, twice := vocabulary[piece]; !is || twice {
			return nil, fmt.Errorf("token %d is no text, or occurs twice", i)
		}
		vocabulary[piece] = i
		if kind, _ := types[i].(int64); kind == ggufControl || kind == ggufUserDefined {
			added = append(added, map[string]any{"id": i, "content": piece, "special": kind == ggufControl, "normalized": false})
		}
	}
	return json.Marshal(map[string]any{
		"version": "1.0", "added_tokens": added, "normalizer": normalizer, "pre_tokenizer": json.RawMessage(pre), "decoder": map[string]any{"type": "ByteLevel"},
		"model": map[string]any{"type": "BPE", "vocab": vocabulary, "merges": list("merges"), "ignore_merges": llama3},
	})
}
