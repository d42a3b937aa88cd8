package tokenizer

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// ggufMetadata is the metadata of a tokenizer with the tokens of two letters.
func ggufMetadata() map[string]any {
	return map[string]any{
		"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.merges": []any{"Ġ a", "a b"},
		"tokenizer.ggml.tokens":     []any{"<|end|>", "a", "b", "Ġ", "Ġa", "ab", "1", "Ċ", "<tool>"},
		"tokenizer.ggml.token_type": []any{int64(3), int64(1), int64(1), int64(1), int64(1), int64(1), int64(1), int64(1), int64(4)},
	}
}

// The ids of a text, and the text of the ids.
func TestFromGGUF_AndBack(t *testing.T) {
	text, err := FromGGUF(ggufMetadata())
	if err != nil {
		t.Fatal(err)
	}
	tok, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	const given = "ab a11\n<tool>b<|end|>"
	ids := tok.Encode(nil, given, 0)
	if !slices.Equal(ids, []int32{5, 4, 6, 6, 7, 8, 2, 0}) {
		t.Errorf("ids %v", ids)
	}
	pieces, err := tok.Pieces()
	if err != nil {
		t.Fatal(err)
	}
	back := ""
	for _, id := range ids {
		back += pieces[id]
	}
	if back != strings.TrimSuffix(given, "<|end|>") {
		t.Errorf("the text of the ids is %q", back)
	}
}

func TestFromGGUF_Refuses(t *testing.T) {
	for want, change := range map[string]func(m map[string]any){
		`tokenizer.ggml.model "llama"`: func(m map[string]any) { m["tokenizer.ggml.model"] = "llama" },
		`tokenizer.ggml.pre "falcon"`:  func(m map[string]any) { m["tokenizer.ggml.pre"] = "falcon" },
		"add_bos_token":                func(m map[string]any) { m["tokenizer.ggml.add_bos_token"] = true },
		"9 tokens and 0 types":         func(m map[string]any) { m["tokenizer.ggml.token_type"] = 1 },
		"occurs twice":                 func(m map[string]any) { m["tokenizer.ggml.tokens"].([]any)[1] = "b" },
		"is no text":                   func(m map[string]any) { m["tokenizer.ggml.tokens"].([]any)[1] = true },
	} {
		m := maps.Clone(ggufMetadata())
		m["tokenizer.ggml.tokens"] = slices.Clone(m["tokenizer.ggml.tokens"].([]any))
		change(m)
		if _, err := FromGGUF(m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not contain %q", err, want)
		}
	}
}

// Qwen's texts are normalized, and words of Llama 3's vocabulary are not cut.
func TestFromGGUF_Families(t *testing.T) {
	m := ggufMetadata()
	m["tokenizer.ggml.pre"] = "qwen2"
	if text, err := FromGGUF(m); err != nil || !strings.Contains(string(text), `"normalizer":{"type":"NFC"}`) {
		t.Errorf("qwen2: %v, %s", err, text)
	}
	m["tokenizer.ggml.pre"] = "llama-bpe"
	if _, err := FromGGUF(m); err == nil || !strings.Contains(err.Error(), "add_bos_token") {
		t.Errorf("llama-bpe without add_bos_token: %v", err)
	}
	m["tokenizer.ggml.add_bos_token"] = false
	m["tokenizer.ggml.merges"] = []any{}
	text, err := FromGGUF(m)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if ids := tok.Encode(nil, "ab", 0); !slices.Equal(ids, []int32{5}) {
		t.Errorf("llama-bpe: ids %v of a word of the vocabulary", ids)
	}
}

// A byte of SentencePiece is a byte, and its sign a space.
func TestPieces_SentencePiece(t *testing.T) {
	tok, err := Parse([]byte(`{"added_tokens":[{"id":0,"content":"<s>","special":true},{"id":4,"content":"\u2581\u2581","special":false}],"model":{"type":"BPE","merges":[],"vocab":{"<s>":0,"\u2581a":1,"<0xC3>":2,"<0xA4>":3}}}`))
	if err != nil {
		t.Fatal(err)
	}
	pieces, err := tok.Pieces()
	if err != nil || !slices.Equal(pieces, []string{"", " a", "\xc3", "\xa4", "  "}) {
		t.Errorf("%q, %v", pieces, err)
	}
	word, err := Parse([]byte(`{"model":{"type":"WordPiece","unk_token":"a","vocab":{"a":0}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := word.Pieces(); err == nil {
		t.Error("texts of WordPiece are restored")
	}
}
