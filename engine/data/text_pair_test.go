package data

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// pairTokenizer is a tokenizer.json of nine pieces with the template of BERT.
const pairTokenizer = `{"pre_tokenizer":{"type":"WhitespaceSplit"},"post_processor":{"type":"BertProcessing","sep":["[SEP]",2],"cls":["[CLS]",1]},
"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,
"vocab":{"[UNK]":0,"[CLS]":1,"[SEP]":2,"a":3,"b":4,"c":5,"d":6,"e":7,"f":8}}}`

// Two texts become one example: the longer one is cut first, and the ids of the second segment are marked.
func TestOpen_PairsOfTexts(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	s := Schema{Text: "premise", TextPair: "hypothesis", Label: "y", Classes: []string{"0", "1"}, Length: 7}
	if err := s.SetTokens("tokenizer:" + write("tokenizer.json", pairTokenizer)); err != nil {
		t.Fatal(err)
	}
	table := write("rows.csv", "hypothesis,y,premise\ne f,1,a b c d\nd,0,\n,0,a b c d e\n")
	lines := write("rows.jsonl", `{"premise":"a b c d","hypothesis":"e f","y":1}`+"\n"+`{"premise":"","hypothesis":"d","y":0}`+"\n"+`{"premise":"a b c d e","hypothesis":"","y":0}`+"\n")
	for _, file := range []string{table, lines} {
		task, err := Open(file, Options{Schema: s})
		if err != nil {
			t.Fatal(err)
		}
		if c := task.Train.Columns()[0]; !c.Marked || c.Classes != 9 || !slices.Equal(task.Schema.Inputs, []string{"premise", "hypothesis"}) {
			t.Errorf("%s: column %+v, inputs %v", file, c, task.Schema.Inputs)
		}
		got := [][]float32{make([]float32, 3*7), make([]float32, 3)}
		if err := task.Train.Read(got, []int{0, 1, 2}); err != nil {
			t.Fatal(err)
		}
		want := []float32{
			1, 3, 4, 2, 9 + 7, 9 + 8, 9 + 2,
			1, 2, 9 + 6, 9 + 2, -1, -1, -1,
			1, 3, 4, 5, 6, 2, 9 + 2,
		}
		if !slices.Equal(got[0], want) || !slices.Equal(got[1], []float32{1, 0, 0}) {
			t.Errorf("%s: read %v, want %v", file, got, want)
		}
	}
	single := strings.Replace(pairTokenizer, `{"type":"BertProcessing","sep":["[SEP]",2],"cls":["[CLS]",1]}`,
		`{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A"}}],"pair":[],"special_tokens":{}}`, 1)
	without := s
	if err := without.SetTokens("tokenizer:" + write("single.json", single)); err != nil {
		t.Fatal(err)
	}
	bytes, alone, next, twice := s, s, s, s
	bytes.Tokens, bytes.Tokenizer = byBytes, nil
	alone.Text, next.Label, next.Classes, next.PredictNext, twice.TextPair = "", "", nil, true, "premise"
	for want, bad := range map[string]Schema{"has no template for a pair": without, "only a public tokenizer joins two texts": bytes,
		"the first is not given": alone, "with next each step has a label": next, "used in two ways": twice} {
		if _, err := Open(table, Options{Schema: bad}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not contain %q", err, want)
		}
	}
	absent := s
	absent.TextPair = "hypotesis"
	if _, err := Open(table, Options{Schema: absent}); err == nil || !strings.Contains(err.Error(), `no second text "hypotesis"`) {
		t.Errorf("a column that does not exist: %v", err)
	}
}
