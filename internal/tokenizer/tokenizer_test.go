package tokenizer

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// smallFile is a tokenizer.json of a few pieces, with one part replaced.
func smallFile(part, value string) string {
	parts := map[string]string{
		"added_tokens":  `[{"id":1,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}]`,
		"model":         `{"type":"BPE","unk_token":"<u>","vocab":{"<u>":0,"<s>":1,"a":2,"b":3,"ab":4,"abab":5,"aba":6},"merges":["a b","ab ab",["ab","a"]]}`,
		"normalizer":    "null",
		"pre_tokenizer": "null", "post_processor": "null",
	}
	parts[part] = value
	var b strings.Builder
	for name, text := range parts {
		fmt.Fprintf(&b, ",%q:%s", name, text)
	}
	return "{" + b.String()[1:] + "}"
}

func TestEncode_SmallFile(t *testing.T) {
	for _, c := range []struct {
		part, value, text string
		length            int
		want              []int32
	}{
		{"", "null", "ababaxb", 0, []int32{5, 2, 0, 3}},
		{"", "null", "<s>aba<s>", 0, []int32{1, 6, 1}},
		{"", "null", "", 0, nil},
		{"", "null", "ababab", 1, []int32{5}},
		{"post_processor", `{"type":"BertProcessing","cls":["<s>",1],"sep":["<s>",1]}`, "ababab", 3, []int32{1, 5, 1}},
		{"post_processor", `{"type":"BertProcessing","cls":["<s>",1],"sep":["<s>",1]}`, "ababab", 1, []int32{1}},
		{"normalizer", `{"type":"Sequence","normalizers":[{"type":"Lowercase"},{"type":"Prepend","prepend":"b"}]}`, "AB", 0, []int32{3, 4}},
		{"", "null", "a\xff", 0, []int32{2, 0}},
	} {
		tokenizer, err := Parse([]byte(smallFile(c.part, c.value)))
		if err != nil {
			t.Fatal(err)
		}
		if got := tokenizer.Encode(nil, c.text, c.length); !slices.Equal(got, c.want) {
			t.Errorf("%s %q: %v, want %v", c.value, c.text, got, c.want)
		}
	}
}

// A part that is not supported, or a file that is no tokenizer, is an error of one line that names it.
func TestParse_Refuses(t *testing.T) {
	for _, c := range []struct{ part, value, want string }{
		{"normalizer", `{"type":"Nmt"}`, `normalizer: "Nmt" is not supported`},
		{"normalizer", `{"type":"Sequence","normalizers":[{"type":"ByteLevel"}]}`, `normalizer: "ByteLevel" is not supported`},
		{"normalizer", `{"type":"Replace","pattern":{"Regex":"\\s+"},"content":" "}`, "Replace with the pattern"},
		{"normalizer", `{"type":"Precompiled","precompiled_charsmap":"/////w=="}`, "states a trie of 4294967295 bytes, and has 0"},
		{"normalizer", `{"type":"Precompiled","precompiled_charsmap":"?"}`, "not base64"},
		{"pre_tokenizer", `{"type":"UnicodeScripts"}`, `pre-tokenizer: "UnicodeScripts" is not supported`},
		{"pre_tokenizer", `{"type":"Split","pattern":{"Regex":"\\w+"},"behavior":"Isolated","invert":false}`, "Split with the pattern"},
		{"pre_tokenizer", `{"type":"Sequence","pretokenizers":[{"type":"ByteLevel"},{"type":"WhitespaceSplit"}]}`, `"WhitespaceSplit" after ByteLevel`},
		{"pre_tokenizer", `{"type":"Metaspace","replacement":"__"}`, "not one character"},
		{"post_processor", `{"type":"Other"}`, `post-processor: "Other" is not supported`},
		{"post_processor", `{"type":"BertProcessing","cls":["<s>",99],"sep":["<s>",1]}`, "special token 99 is not an id below 7"},
		{"post_processor", `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x","type_id":0}}],"pair":[]}`, `names "x"`},
		{"model", `{"type":"WordLevel"}`, `model: "WordLevel" is not supported`},
		{"model", `{"type":"BPE","vocab":{},"merges":[]}`, "the vocabulary is empty"},
		{"model", `{"type":"BPE","vocab":{"a":0,"b":1},"merges":["a b","b a"]}`, "merge 0 joins"},
		{"model", `{"type":"BPE","vocab":{"a":0},"merges":["a"]}`, "not two pieces"},
		{"model", `{"type":"BPE","vocab":{"a":-1},"merges":[]}`, "ids are from 0"},
		{"model", `{"type":"BPE","vocab":{"a":99999999},"merges":[]}`, "ids are from 0"},
		{"model", `{"type":"BPE","vocab":{"a":0},"merges":[],"dropout":0.1}`, "dropout"},
		{"model", `{"type":"BPE","vocab":{"a":0},"merges":[],"end_of_word_suffix":"</w>"}`, "end_of_word_suffix"},
		{"model", `{"type":"WordPiece","unk_token":"[UNK]","vocab":{"a":0}}`, "[UNK]"},
		{"model", `{"type":"Unigram","unk_id":5,"vocab":[["a",0]]}`, "unk_id 5"},
		{"model", `{"type":"Unigram","unk_id":0,"vocab":[["a",0],["a",1]]}`, "occurs twice"},
		{"model", `{"type":"Unigram","unk_id":0,"vocab":[["a"]]}`, "a list of its text and its score"},
		{"model", "null", "has no model"},
		{"model", "3", "not the JSON of a tokenizer.json"},
		{"added_tokens", `[{"id":2,"content":"<s>"}]`, "the id 2, and 1 in the vocabulary"},
		{"added_tokens", `[{"id":9,"content":"x","single_word":true}]`, "single_word is not supported"},
	} {
		if _, err := Parse([]byte(smallFile(c.part, c.value))); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s %s: %v does not contain %q", c.part, c.value, err, c.want)
		}
	}
}

func TestSplitters_Examples(t *testing.T) {
	for _, c := range []struct {
		split splitter
		text  string
		want  []string
	}{
		{splitForGPT2, "I'LL  say: don't\n\n 12345!", []string{"I", "'", "LL", " ", " say", ":", " don", "'t", "\n\n", " 12345", "!"}},
		{splitForLlama3, "I'LL  say: don't\n\n 12345!", []string{"I", "'LL", " ", " say", ":", " don", "'t", "\n\n", " ", "123", "45", "!"}},
		{splitForQwen, "x 12 \r\n(y)", []string{"x", " ", "1", "2", " \r\n", "(y", ")"}},
		{splitForBert, " a,b\u3000c ", []string{"a", ",", "b", "c"}},
	} {
		var got []string
		c.split(c.text, true, func(word string) { got = append(got, word) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

// Both ways to merge give the same pieces, and a word of 10^6 characters does not take a time of its
// square.
func TestBPE_LongWords(t *testing.T) {
	tokenizer, err := Parse([]byte(smallFile("normalizer", "null")))
	if err != nil {
		t.Fatal(err)
	}
	b := tokenizer.model.(*bpe)
	r := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		symbols := make([]int32, r.IntN(shortWord+1))
		for i := range symbols {
			symbols[i] = 2 + r.Int32N(2)
		}
		long := slices.Clone(symbols)
		short := slices.Clone(symbols)
		short, long = short[:b.mergeShort(short)], long[:b.mergeLong(long)]
		if !slices.Equal(short, long) {
			t.Fatalf("%v become %v and %v", symbols, short, long)
		}
	}
	begin := time.Now()
	if ids := tokenizer.Encode(nil, strings.Repeat("ab", 500_000), 0); len(ids) != 250_000 {
		t.Errorf("%d ids", len(ids))
	}
	if d := time.Since(begin); d > time.Minute {
		t.Errorf("a word of 10^6 characters takes %v", d)
	}
}

func TestCutLonger(t *testing.T) {
	for _, c := range [][5]int{{3, 4, 10, 3, 4}, {3, 9, 10, 3, 7}, {9, 3, 10, 7, 3}, {9, 9, 10, 5, 5}, {9, 8, 11, 6, 5}, {2, 9, 0, 0, 0}} {
		if a, b := cutLonger(c[0], c[1], c[2]); a != c[3] || b != c[4] {
			t.Errorf("%v: %d, %d", c, a, b)
		}
	}
}

// smallParsed returns the tokenizers of smallTokenizers, by name.
func smallParsed(tb testing.TB, lines []string) map[string]*Tokenizer {
	tb.Helper()
	all := map[string]*Tokenizer{}
	for name, file := range smallTokenizers(lines) {
		text, err := json.Marshal(file)
		if err != nil {
			tb.Fatal(err)
		}
		if all[name], err = Parse(text); err != nil {
			tb.Fatalf("%s: %v", name, err)
		}
	}
	return all
}

// checkIDs returns an error if ids are more than length, which is not 0, or not those of a tokenizer.
func checkIDs(t *Tokenizer, ids []int32, length int) error {
	if length > 0 && len(ids) > length {
		return fmt.Errorf("%d ids, more than %d", len(ids), length)
	}
	for _, id := range ids {
		if id < 0 || int(id) >= t.Count() {
			return fmt.Errorf("the id %d of %d", id, t.Count())
		}
	}
	return nil
}

func FuzzEncode(f *testing.F) {
	lines := drawLines(200, 5)
	tokenizers := smallParsed(f, lines)
	f.Add("a b\xff[MASK] ")
	f.Add(lines[0])
	f.Fuzz(func(t *testing.T, text string) {
		for name, tokenizer := range tokenizers {
			for _, length := range []int{0, 1, 9} {
				if err := checkIDs(tokenizer, tokenizer.Encode(nil, text, length), length); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		}
	})
}

// longestTime is the time that a long word may take, far more than it takes.
const longestTime = 60 // seconds of processor time

// FuzzEncode_LongWord repeats a piece up to 10⁵ characters.
func FuzzEncode_LongWord(f *testing.F) {
	tokenizers := smallParsed(f, drawLines(200, 5))
	for _, piece := range []string{"a", "ab", "\u0301", "'s", " ", "\n ", "▁", "[MASK]", "1", "漢", "\xff", "\U0001f600"} {
		f.Add(piece)
	}
	f.Fuzz(func(t *testing.T, piece string) {
		if piece == "" {
			return
		}
		word := strings.Repeat(piece, 1+100_000/len(piece))
		for name, tokenizer := range tokenizers {
			begin := processorTime(t)
			if err := checkIDs(tokenizer, tokenizer.Encode(nil, word, 0), 0); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if used := processorTime(t) - begin; used > longestTime {
				t.Fatalf("%s: %d bytes take %.0f s", name, len(word), used)
			}
		}
	})
}

// A word of 10⁶ characters takes no more than a time in proportion to its length, for each kind of tokenizer.
func TestEncode_LongWords(t *testing.T) {
	for name, tokenizer := range smallParsed(t, drawLines(200, 5)) {
		for _, piece := range []string{"a", "ab1", "\u0301", " ", "\n ", "'", "漢", "[MASK]"} {
			used := [2]float64{}
			for i, n := range []int{100_000, 1_000_000} {
				word := strings.Repeat(piece, n/utf8.RuneCountInString(piece))
				begin := processorTime(t)
				if err := checkIDs(tokenizer, tokenizer.Encode(nil, word, 0), 0); err != nil {
					t.Fatalf("%s, %q: %v", name, piece, err)
				}
				used[i] = processorTime(t) - begin
			}
			// A time of n² would be 100 times as long. The other tests of the machine may slow one of both.
			if used[1] > 50*max(used[0], 0.02) {
				t.Errorf("%s, %q: %.2f s for 10⁶ characters, %.2f s for 10⁵", name, piece, used[1], used[0])
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, part := range []string{"normalizer", "pre_tokenizer"} {
		f.Add([]byte(smallFile(part, "null")), "ab")
	}
	f.Add([]byte(smallFile("normalizer", `{"type":"Precompiled","precompiled_charsmap":"`+smallCharsMap()[:40]+`"}`)), "ﬁ")
	f.Fuzz(func(t *testing.T, file []byte, text string) {
		tokenizer, err := Parse(file)
		if err == nil {
			tokenizer.Encode(nil, text, 16)
			tokenizer.EncodePair(nil, nil, text, text, 16)
		} else if strings.Contains(err.Error(), "\n") {
			t.Fatalf("an error of two lines: %v", err)
		}
	})
}

// The normal form of many marks is that of few where both exist: without marks that repeat, and for all pairs in between.
func TestLongNormalForm_SameAsShort(t *testing.T) {
	for _, line := range drawLines(2000, 8) {
		if isBeyondGo(line) {
			continue
		}
		for _, form := range []norm.Form{norm.NFC, norm.NFD, norm.NFKC, norm.NFKD} {
			if got, want := longNormalForm(form, line), form.String(line); got != want {
				t.Fatalf("%v of %+q: %+q, want %+q", form, line, got, want)
			}
		}
	}
	marks := strings.Repeat("\u0301", 40)
	for text, want := range map[string]string{"\U000e0069\u0300": "\U000e0069\u0300", "\U00011099\U000110ba": "\U0001109a"} {
		if got := normalForm(norm.NFC, text); got != want {
			t.Errorf("%+q: %+q, want %+q", text, got, want)
		}
	}
	if got := normalForm(norm.NFC, "a"+marks+"\u0323"); got != "\u1ea1"+marks {
		t.Errorf("a letter with 41 marks: %+q", got)
	}
}

func TestParseScore(t *testing.T) {
	for text, want := range map[string]float64{"0": 0, "-3": -3, "-2.5": -2.5, "1e3": 1000, "-1.5E-2": -0.015, "18446744073709551616": 1.8446744073709552e19,
		"1e-320": 1e-320, "0.000": 0} {
		if got, err := parseScore(text); err != nil || got != want {
			t.Errorf("%s: %v, want %v, error %v", text, got, want, err)
		}
	}
	for _, text := range []string{"1e400", "x", "1e99999999999999999999"} {
		if _, err := parseScore(text); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}
