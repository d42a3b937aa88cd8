package data

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// openWithTokenizer opens rows of a CSV file with pairTokenizer, whose [SEP] ends a text.
func openWithTokenizer(t *testing.T, rows string, s Schema, o Options) (*Task, error) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"tokenizer.json": maskTokenizer, "rows.csv": rows} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SetTokens("tokenizer:" + filepath.Join(dir, "tokenizer.json")); err != nil {
		t.Fatal(err)
	}
	end := 2
	s.Tokenizer.End = &end
	o.Schema = s
	return Open(filepath.Join(dir, "rows.csv"), o)
}

// maskTokenizer is a tokenizer.json of ten pieces. Four of them are special.
const maskTokenizer = `{"added_tokens":[{"id":9,"content":"[MASK]","special":true},{"id":0,"content":"[UNK]","special":true}],
"pre_tokenizer":{"type":"WhitespaceSplit"},"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
"pair":[],"special_tokens":{"[CLS]":{"ids":[1]}}},
"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,
"vocab":{"[UNK]":0,"[CLS]":1,"[SEP]":2,"a":3,"b":4,"c":5,"d":6,"e":7,"f":8,"[MASK]":9}}}`

// The texts of a user share examples, a long text is several examples, and no step of a text is lost or crosses to
// another text or user.
func TestOpen_PackedTexts(t *testing.T) {
	s := Schema{Text: "text", User: "who", Length: 5, PredictNext: true, Pack: true}
	rows := "text,who\na,x\nb c,y\nd,x\na b c d e f a,y\ne,x\n,z\n"
	task, err := openWithTokenizer(t, rows, s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	const m = 10 // what a mark adds
	want := [][2][]float32{
		{{m + 1, 3, m + 1, 6, -1}, {3, 2, 6, 2, -1}}, // x: a, d
		{{m + 1, 7, -1, -1, -1}, {7, 2, -1, -1, -1}}, // x: e
		{{m + 1, 4, 5, -1, -1}, {4, 5, 2, -1, -1}},   // y: b c
		{{m + 1, 3, 4, 5, 6}, {3, 4, 5, 6, 7}},       // y: the begin of the long text
		{{m + 7, 8, 3, -1, -1}, {8, 3, 2, -1, -1}},   // y: the rest
		{{m + 1, -1, -1, -1, -1}, {2, -1, -1, -1, -1}},
	}
	if got := Users(task.Train); !slices.Equal(got, []int32{0, 0, 1, 1, 1, 2}) || !task.Train.Columns()[0].Marked {
		t.Fatalf("users %v, columns %+v", got, task.Train.Columns())
	}
	for i, w := range want {
		got := [][]float32{make([]float32, 5), make([]float32, 5)}
		if err := task.Train.Read(got, []int{i}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got[0], w[0]) || !slices.Equal(got[1], w[1]) {
			t.Errorf("example %d: %v, want %v", i, got, w)
		}
	}
	if err := checkAll(task.Train); err != nil {
		t.Error(err)
	}
	alone, unused := s, s
	alone.User, unused.PredictNext, unused.Label, unused.Classes, unused.User = "", false, "who", []string{"x", "y"}, ""
	for want, bad := range map[string]Schema{"each text is a record of its own": alone, "joins texts for the prediction of the next index": unused} {
		if _, err := openWithTokenizer(t, rows, bad, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not contain %q", err, want)
		}
	}
}

// Of random texts, the steps in the examples of a user are those of its texts, and examples are as few as next-fit gives.
func TestOpen_PackedTextsKeepAllSteps(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var rows strings.Builder
		rows.WriteString("text,who\n")
		want := map[string]int{} // how often a user has a step
		for range 20 {
			who, words := r.IntN(3), []string{}
			previous := "1"
			step := func(next string) { want[fmt.Sprint(who, " ", previous, ">", next)]++; previous = next }
			for range r.IntN(12) {
				w := r.IntN(6)
				words = append(words, string(rune('a'+w)))
				step(fmt.Sprint(3 + w))
			}
			step("2")
			fmt.Fprintf(&rows, "%s,u%d\n", strings.Join(words, " "), who)
		}
		task, err := openWithTokenizer(t, rows.String(), Schema{Text: "text", User: "who", Length: 4, PredictNext: true, Pack: true}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		first := map[int32]string{} // users are numbered in the order of the file
		for _, line := range strings.Split(rows.String(), "\n")[1:] {
			if _, who, found := strings.Cut(line, ",u"); found && !slices.Contains(slices.Collect(maps.Values(first)), who) {
				first[int32(len(first))] = who
			}
		}
		users := Users(task.Train)
		for i := range task.Train.Len() {
			got := [][]float32{make([]float32, 4), make([]float32, 4)}
			if err := task.Train.Read(got, []int{i}); err != nil {
				t.Fatal(err)
			}
			for k, id := range got[0] {
				if id >= 0 {
					want[fmt.Sprint(first[users[i]], " ", math.Mod(float64(id), 10), ">", got[1][k])]--
				}
			}
		}
		for step, n := range want {
			if n != 0 {
				t.Fatalf("step %s is %d times too rare\n%s", step, n, rows.String())
			}
		}
	}
}

// A text that cannot be read gives no example, unless its user has no other.
func TestOpen_PackedBlankUsers(t *testing.T) {
	s := Schema{Text: "text", User: "who", Length: 5, PredictNext: true, Pack: true}
	task, err := openWithTokenizer(t, "text,who\na,x\nb,\"y\nc,x\n", s, Options{OnBadRow: BlankBadRows})
	if err != nil {
		t.Fatal(err)
	}
	if users, blank := Users(task.Train), Blank(task.Train); !slices.Equal(users, []int32{0, 1}) || !slices.Equal(blank, []bool{false, true}) {
		t.Errorf("users %v, blank %v", users, blank)
	}
}

// Masks follow their shares: 4 standard deviations on each side, so a false alarm has a probability of 6·10⁻⁵ a count.
func TestMasking_Shares(t *testing.T) {
	s := Schema{Text: "text", Length: 8, Masked: 0.2}
	task, err := openWithTokenizer(t, "text\na b c d e f\n", s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c := task.Train.Columns(); c[1].Kind != Label || c[1].Size() != 8 || task.Classes != 10 {
		t.Fatalf("columns %+v, %d classes", c, task.Classes)
	}
	mask, err := task.Schema.Masking()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	const trials = 20000
	var chosen, masked, same float64
	original := []float32{1, 3, 4, 5, 6, 7, 8, -1}
	for range trials {
		example := [][]float32{make([]float32, 8), make([]float32, 8)}
		if err := task.Train.Read(example, []int{0}); err != nil || !slices.Equal(example[0], original) || !slices.Equal(example[1], original) {
			t.Fatalf("read %v, error %v", example, err)
		}
		mask(example, r)
		for k, id := range original {
			switch label := example[1][k]; {
			case label == Pad:
				if example[0][k] != id {
					t.Fatalf("step %d has no label and another id", k)
				}
			case label != id || k == 0 || k == 7:
				t.Fatalf("step %d has the label %v", k, label)
			default:
				chosen++
				if example[0][k] == 9 {
					masked++
				}
				if example[0][k] == id {
					same++
				}
			}
		}
	}
	near := func(what string, got, n, p float64) {
		if math.Abs(got-n*p) > 4*math.Sqrt(n*p*(1-p)) {
			t.Errorf("%s: %v of %v, want a share of %v", what, got, n, p)
		}
	}
	near("chosen", chosen, 6*trials, 0.2)
	near("masked", masked, chosen, 0.8+0.1/10) // a random id can be the mask
	near("unchanged", same, chosen, 0.1+0.1/10)
}

// A public set has the same masks each time.
func TestFixMasks_SameEachTime(t *testing.T) {
	task, err := openWithTokenizer(t, "text\n"+strings.Repeat("a b c d e f\n", 30), Schema{Text: "text", Length: 8, Masked: 0.5}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	set, err := FixMasks(task.Train, task.Schema)
	if err != nil {
		t.Fatal(err)
	}
	read := func(rows ...int) [][]float32 {
		dst := [][]float32{make([]float32, 8*len(rows)), make([]float32, 8*len(rows))}
		if err := set.Read(dst, rows); err != nil {
			t.Fatal(err)
		}
		return dst
	}
	all, one := read(4, 5, 6), read(5)
	if !slices.Equal(all[0][8:16], one[0]) || !slices.Equal(all[1][8:16], one[1]) || slices.Equal(all[1][:8], one[1]) && slices.Equal(all[1][16:], one[1]) {
		t.Errorf("masks %v of row 5, and %v of three rows", one, all)
	}
}

func TestMasked_Refuses(t *testing.T) {
	labelled, next, pair, large := Schema{Text: "text", Length: 8, Masked: 0.2, Label: "y", Classes: []string{"a", "b"}}, Schema{Text: "text", Length: 8, Masked: 0.2, PredictNext: true},
		Schema{Text: "text", TextPair: "y", Length: 8, Masked: 0.2}, Schema{Text: "text", Length: 8, Masked: 15}
	for want, s := range map[string]Schema{"leave out label, classes": labelled, "target and next": next, "pairs of texts are not supported": pair, "between 0 and 1": large} {
		if _, err := openWithTokenizer(t, "text,y\na,b\n", s, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not contain %q", err, want)
		}
	}
}
