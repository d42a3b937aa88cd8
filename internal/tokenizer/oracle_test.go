package tokenizer

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	lineCount = flag.Int("lines", 4000, "number of generated lines that are compared with the Python package")
	realFiles = flag.String("tokenizers", "", "folder whose files *.json are tokenizers that are compared, too")
	textFiles = flag.String("texts", "", "folder whose files *.txt and *.tsv have lines that are compared, too")
	chosen    = flag.String("compare", "", "pattern of the names of the tokenizers that are compared; empty: all")
)

// scripts are ranges of characters from which words are drawn.
var scripts = [][2]rune{
	{'a', 'z'}, {'A', 'Z'}, {'a', 'z'}, {'0', '9'}, {'!', '/'}, {0xa0, 0xff}, {0x100, 0x17f}, {0x1c0, 0x24f}, {0x300, 0x36f},
	{0x370, 0x3ff}, {0x400, 0x4ff}, {0x531, 0x587}, {0x590, 0x5ff}, {0x600, 0x6ff}, {0x700, 0x74f}, {0x900, 0x97f}, {0x980, 0x9ff},
	{0xb80, 0xbff}, {0xd00, 0xd7f}, {0xe00, 0xe7f}, {0xf00, 0xfff}, {0x1000, 0x109f}, {0x10a0, 0x10ff}, {0x1100, 0x11ff}, {0x1200, 0x137f},
	{0x1780, 0x17ff}, {0x1e00, 0x1fff}, {0x2000, 0x206f}, {0x20d0, 0x20ff}, {0x2100, 0x218f}, {0x2400, 0x245f}, {0x3000, 0x303f},
	{0x3040, 0x30ff}, {0x3200, 0x33ff}, {0x4e00, 0x9fff}, {0xac00, 0xd7a3}, {0xf900, 0xfaff}, {0xfb00, 0xfdff}, {0xfe00, 0xfe6f}, {0xff00, 0xffef},
	{0x10380, 0x104ff}, {0x11000, 0x1174f}, {0x1d400, 0x1d7ff}, {0x1f000, 0x1faff}, {0x20000, 0x2a6df}, {0xe0000, 0xe01ef}, {0x80, 0xd7ff}, {0xe000, 0x10ffff},
}

var betweenWords = []string{" ", " ", " ", " ", "  ", "   ", "\n", "\r\n", "\t", "", "'s ", "'LL", "'re", " '", "\u00a0", "\u3000", "\n\n ", ".", ", ", "-", "▁", "\u200d", "\x00", "'ſ"}

// drawLines returns lines of words of many scripts.
func drawLines(n int, seed uint64) []string {
	r := rand.New(rand.NewPCG(seed, 1))
	lines := make([]string, n)
	for i := range lines {
		var b strings.Builder
		home := scripts[r.IntN(len(scripts))]
		for range 1 + r.IntN(8) {
			script := home
			if r.IntN(3) == 0 {
				script = scripts[r.IntN(len(scripts))]
			}
			for range 1 + r.IntN(9) {
				b.WriteRune(script[0] + r.Int32N(script[1]-script[0]+1))
			}
			b.WriteString(betweenWords[r.IntN(len(betweenWords))])
			if r.IntN(200) == 0 { // more marks than a normal form of Go keeps together
				b.WriteString(strings.Repeat(string(rune(0x300+r.IntN(0x70))), 25+r.IntN(20)))
			}
			if r.IntN(40) == 0 {
				b.WriteString([]string{"[MASK]", "<s>", " <mask> ", "[UNK]"}[r.IntN(4)])
			}
		}
		lines[i] = b.String()
	}
	return lines
}

// pieces returns substrings of lines, the frequent ones more often than others.
func pieces(lines []string, n int) []string {
	r := rand.New(rand.NewPCG(2, 2))
	found := map[string]bool{}
	for range n {
		line := []rune(lines[r.IntN(len(lines))])
		from := r.IntN(len(line))
		found[string(line[from:min(len(line), from+1+r.IntN(3))])] = true
	}
	for c := range rune(128) {
		found[string(c)] = true
	}
	return slices.Sorted(maps.Keys(found))
}

type object = map[string]any

const bertTemplate = `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"[SEP]","type_id":0}}],
"pair":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"[SEP]","type_id":0}},{"Sequence":{"id":"B","type_id":1}},{"SpecialToken":{"id":"[SEP]","type_id":1}}],
"special_tokens":{"[CLS]":{"id":"[CLS]","ids":[1],"tokens":["[CLS]"]},"[SEP]":{"id":"[SEP]","ids":[2],"tokens":["[SEP]"]}}}`

func wordPieceModel(lines []string) object {
	vocabulary := object{"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "[MASK]": 3}
	for _, p := range pieces(lines, 20_000) {
		for _, p := range []string{p, "##" + p, strings.ToLower(p), "##" + strings.ToLower(p)} {
			if _, known := vocabulary[p]; !known {
				vocabulary[p] = len(vocabulary)
			}
		}
	}
	return object{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 20, "vocab": vocabulary}
}

func unigramModel(lines []string, fallback bool) object {
	r := rand.New(rand.NewPCG(3, 3))
	vocabulary := [][]any{{"<unk>", 0.0}, {"<s>", 0.0}, {"</s>", 0.0}, {"▁", -3.5}}
	if fallback {
		for b := range 256 {
			vocabulary = append(vocabulary, []any{fmt.Sprintf("<0x%02X>", b), 0})
		}
	}
	known := map[string]bool{"▁": true, "<unk>": true, "<s>": true, "</s>": true}
	for _, p := range pieces(lines, 30_000) {
		for _, p := range []string{p, "▁" + strings.TrimLeft(p, " ▁")} {
			if !known[p] {
				known[p] = true
				vocabulary = append(vocabulary, []any{p, -2 - 8*r.Float64()})
			}
		}
	}
	return object{"type": "Unigram", "unk_id": 0, "vocab": vocabulary, "byte_fallback": fallback}
}

// learnMerges joins the most frequent pair of neighbours again and again.
func learnMerges(words [][]string, vocabulary object, n int) (merges []string) {
	for range n {
		count := map[[2]string]int{}
		for _, w := range words {
			for i := range len(w) - 1 {
				count[[2]string{w[i], w[i+1]}]++
			}
		}
		var best [2]string
		for p, c := range count {
			if b := count[best]; c > b || c == b && p[0]+" "+p[1] < best[0]+" "+best[1] {
				best = p
			}
		}
		joined := best[0] + best[1]
		if _, known := vocabulary[joined]; !known {
			vocabulary[joined] = len(vocabulary)
		}
		merges = append(merges, best[0]+" "+best[1])
		for k, w := range words {
			var merged []string
			for i := 0; i < len(w); i++ {
				if i+1 < len(w) && w[i] == best[0] && w[i+1] == best[1] {
					merged = append(merged, joined)
					i++
				} else {
					merged = append(merged, w[i])
				}
			}
			words[k] = merged
		}
	}
	return merges
}

func byteModel(lines []string, whole bool) object {
	charOf := map[byte]string{}
	for r, b := range byteOf {
		charOf[b] = string(r)
	}
	vocabulary := object{"<s>": 0, "</s>": 1}
	for b := range 256 {
		vocabulary[charOf[byte(b)]] = len(vocabulary)
	}
	var words [][]string
	for _, line := range lines[:min(len(lines), 150)] {
		splitForGPT2(line, true, func(word string) {
			var symbols []string
			for i := range len(word) {
				symbols = append(symbols, charOf[word[i]])
			}
			words = append(words, symbols)
		})
	}
	return object{"type": "BPE", "vocab": vocabulary, "merges": learnMerges(words, vocabulary, 120), "ignore_merges": whole}
}

func characterModel(lines []string) object {
	vocabulary := object{"<unk>": 0, "<s>": 1, "</s>": 2}
	for b := range 256 {
		vocabulary[fmt.Sprintf("<0x%02X>", b)] = len(vocabulary)
	}
	var words [][]string
	for _, line := range lines[:min(len(lines), 200)] {
		var symbols []string
		for _, r := range strings.ReplaceAll(line, " ", "▁") {
			if _, known := vocabulary[string(r)]; !known {
				vocabulary[string(r)] = len(vocabulary)
			}
			symbols = append(symbols, string(r))
		}
		words = append(words, symbols)
	}
	return object{"type": "BPE", "vocab": vocabulary, "merges": learnMerges(words, vocabulary, 80), "byte_fallback": true, "fuse_unk": true, "unk_token": "<unk>"}
}

func special(id int, content string, strip bool) object {
	return object{"id": id, "content": content, "special": true, "normalized": false, "single_word": false, "lstrip": strip, "rstrip": false}
}

// smallTokenizers returns tokenizers of each kind, with vocabularies from lines.
func smallTokenizers(lines []string) map[string]object {
	bertTokens := []object{special(0, "[UNK]", false), special(1, "[CLS]", false), special(2, "[SEP]", false), special(3, "[MASK]", true)}
	wordPieces := wordPieceModel(lines)
	bert := func(normalizer object) object {
		return object{"added_tokens": bertTokens, "normalizer": normalizer, "pre_tokenizer": object{"type": "BertPreTokenizer"},
			"post_processor": json.RawMessage(bertTemplate), "model": wordPieces}
	}
	bytes := byteModel(lines, false)
	split := func(pattern string) object {
		return object{"type": "Sequence", "pretokenizers": []object{
			{"type": "Split", "pattern": object{"Regex": pattern}, "behavior": "Isolated", "invert": false},
			{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
		}}
	}
	byPattern := map[string]string{}
	for p := range patterns {
		switch {
		case strings.HasPrefix(p, "'s"):
			byPattern["gpt2"] = p
		case strings.Contains(p, "{1,3}"):
			byPattern["llama3"] = p
		default:
			byPattern["qwen"] = p
		}
	}
	metaspace := object{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}
	s := []object{special(1, "<s>", false), special(2, "</s>", false)}
	all := map[string]object{
		"bert-uncased": bert(object{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": nil, "lowercase": true}),
		"bert-cased":   bert(object{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": nil, "lowercase": false}),
		"bert-lower":   bert(object{"type": "BertNormalizer", "clean_text": false, "handle_chinese_chars": false, "strip_accents": false, "lowercase": true}),
		"bert-nfd":     bert(object{"type": "Sequence", "normalizers": []object{{"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, {"type": "Strip", "strip_left": true, "strip_right": true}}}),
		"roberta": {"added_tokens": []object{special(0, "<s>", false), special(len(bytes["vocab"].(object)), "<mask>", true)}, "pre_tokenizer": object{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true},
			"post_processor": object{"type": "RobertaProcessing", "sep": []any{"</s>", 1}, "cls": []any{"<s>", 0}, "trim_offsets": true, "add_prefix_space": true}, "model": bytes},
		"gpt2": {"added_tokens": []object{}, "pre_tokenizer": split(byPattern["gpt2"]), "model": bytes},
		"smollm": {"added_tokens": []object{special(0, "<s>", false)}, "pre_tokenizer": object{"type": "Sequence", "pretokenizers": []object{
			{"type": "Digits", "individual_digits": true}, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}}}, "model": bytes},
		"digits": {"added_tokens": []object{}, "pre_tokenizer": object{"type": "Sequence", "pretokenizers": []object{
			{"type": "Digits", "individual_digits": false}, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}}}, "model": bytes},
		"llama3":  {"added_tokens": []object{special(0, "<s>", false)}, "pre_tokenizer": split(byPattern["llama3"]), "model": byteModel(lines, true)},
		"qwen":    {"added_tokens": []object{special(0, "<s>", false)}, "normalizer": object{"type": "NFC"}, "pre_tokenizer": split(byPattern["qwen"]), "model": bytes},
		"llama2":  {"added_tokens": s, "normalizer": object{"type": "Sequence", "normalizers": []object{{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": object{"String": " "}, "content": "▁"}}}, "model": characterModel(lines)},
		"unigram": {"added_tokens": s, "normalizer": object{"type": "NFKC"}, "pre_tokenizer": metaspace, "model": unigramModel(lines, false)},
		"unigram-bytes": {"added_tokens": s, "normalizer": object{"type": "Replace", "pattern": object{"Regex": " {2,}"}, "content": " "},
			"pre_tokenizer": object{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false}, "model": unigramModel(lines, true)},
		"xlm": {"added_tokens": s, "normalizer": object{"type": "Precompiled", "precompiled_charsmap": smallCharsMap()},
			"pre_tokenizer": object{"type": "Sequence", "pretokenizers": []object{{"type": "WhitespaceSplit"}, metaspace}}, "model": unigramModel(lines, false)},
	}
	for _, file := range all {
		file["version"] = "1.0"
	}
	return all
}

// The ids, and for pairs also the segments, are those of the Python package.
func TestEncode_SameIDsAsPython(t *testing.T) {
	python := cmp.Or(os.Getenv("DPTRAIN_PYTHON"), "python3")
	if exec.Command(python, "-c", "import tokenizers").Run() != nil {
		t.Skip("this Python has no package tokenizers")
	}
	dir := t.TempDir()
	lines := drawLines(*lineCount, 1)
	write := func(name string, content any) string {
		text, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	drawn := lines
	lines = append(lines, readLines(t)...)
	args := []string{"testdata/oracle.py", write("lines", lines)}
	isChosen := regexp.MustCompile(*chosen)
	for name, file := range smallTokenizers(drawn) {
		if isChosen.MatchString(name) {
			args = append(args, write(name+".json", file))
		}
	}
	if *realFiles != "" {
		found, err := filepath.Glob(filepath.Join(*realFiles, "*.json"))
		if err != nil || len(found) == 0 {
			t.Fatalf("no tokenizers in %s: %v", *realFiles, err)
		}
		for _, path := range found {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if name := "real-" + filepath.Base(path); isChosen.MatchString(name) {
				args = append(args, write(name, json.RawMessage(text)))
			}
		}
	}
	command := exec.Command(python, args...)
	command.Env = append(os.Environ(), "TOKENIZERS_PARALLELISM=false", "PYTHONUTF8=1")
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%d lines %s", len(lines), out)
	for _, path := range args[2:] {
		t.Run(filepath.Base(path), func(t *testing.T) { compareWithPython(t, path, lines) })
	}
}

// readLines returns the lines of the files of -texts.
func readLines(t *testing.T) (lines []string) {
	t.Helper()
	if *textFiles == "" {
		return nil
	}
	for _, kind := range []string{"*.txt", "*.tsv"} {
		paths, err := filepath.Glob(filepath.Join(*textFiles, kind))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(strings.ToValidUTF8(string(text), "\ufffd")) {
				lines = append(lines, strings.TrimSuffix(line, "\n"))
			}
		}
	}
	if len(lines) == 0 {
		t.Fatalf("no texts in %s", *textFiles)
	}
	return lines
}

func compareWithPython(t *testing.T, path string, lines []string) {
	tokenizer, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	begin := processorTime(t)
	var ids []int32
	var ends []int
	for _, line := range lines {
		ids = tokenizer.Encode(ids, line, 0)
		ends = append(ends, len(ids))
	}
	rate := float64(len(lines)) / (processorTime(t) - begin)
	text, err := os.ReadFile(path + ".rate")
	if err != nil {
		t.Fatal(err)
	}
	other, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.0f lines in a second of processor time, %.2f times those of the Python package; %d ids", rate, rate/other, len(ids))
	from := 0
	compareLines(t, path+".ids", func(i int) (string, []int32) {
		got := ids[from:ends[i]]
		from = ends[i]
		return lines[i], got
	})
	compareLines(t, path+".pairs", func(i int) (string, []int32) {
		ids, segments := tokenizer.EncodePair(nil, nil, lines[2*i], lines[2*i+1], 12)
		return lines[2*i] + " | " + lines[2*i+1], append(ids, segments...)
	})
}

func compareLines(t *testing.T, path string, ours func(i int) (string, []int32)) {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<24)
	differences := 0
	for i := 0; in.Scan(); i++ {
		text, ids := ours(i)
		if got := strings.Trim(fmt.Sprint(ids), "[]"); got != in.Text() {
			if differences++; differences <= 3 {
				t.Errorf("%q (%+q)\ngot  %s\nwant %s", text, text, got, in.Text())
			}
		}
	}
	if differences > 0 {
		t.Errorf("%d lines differ", differences)
	}
}
