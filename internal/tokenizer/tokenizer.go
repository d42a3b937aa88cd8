// Package tokenizer converts texts to the ids that public language models read, as the file
// tokenizer.json describes it. The ids are those of the Python package tokenizers.
//
// A text passes five parts:
//
//   - added_tokens.go: added tokens are cut out of the text. Of tokens that begin at one place the longest is
//     taken. A token is found in the text as it is, or in the normalized text.
//   - normalizer.go, chars_map.go: the normalizer rewrites the text between them: lower case, accents,
//     normal forms, the replacements of SentencePiece.
//   - pre_tokenizer.go, splitters.go: the pre-tokenizer cuts it into words. The regular expressions of GPT-2,
//     Llama 3 and Qwen look ahead, which those of Go do not, so functions do the same.
//   - word_piece.go, bpe.go, unigram.go: the model cuts a word into pieces of its vocabulary: the longest
//     piece first; merges of neighbours in a learned order; or the most probable sequence of pieces.
//   - template.go: special tokens are added.
//
// A part that this package does not have is an error that names it: no part is replaced by a similar one.
//
// The Python package has tables of several versions of Unicode: those of its regular expressions are newer
// than Go's, and those of its accents and punctuation are older. zz_unicode.go has the classes of every
// character in that package. testdata/unicode.py asks for them and writes the file.
//
// oracle_test.go compares ids with the Python package on lines of many scripts, for a small tokenizer of each
// kind, and for real ones in a folder that a flag names.
//
//	normalizers      BertNormalizer, Lowercase, StripAccents, Strip, NFC, NFD, NFKC, NFKD, Replace, Prepend, Precompiled
//	pre-tokenizers   BertPreTokenizer, WhitespaceSplit, Metaspace, ByteLevel, Digits, Split with the patterns of GPT-2, Llama 3 and Qwen
//	models           WordPiece, BPE, Unigram
//	post-processors  TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel
//
// The sections truncation, padding and decoder are not read.
package tokenizer

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/dptrain/dptrain/internal/format/gguf"
)

// The limits of a file: ids are exact as float32, and a file has at most this size.
const (
	maxID    = 1<<24 - 1
	maxBytes = 1 << 28
)

// Tokenizer converts texts to ids. It is safe for concurrent use.
type Tokenizer struct {
	raw, normalized addedTokens // found before and after the normalizer
	normalize       normalizer  // nil: the text stays as it is
	split           splitter    // nil: the text is one word
	bytewise        bool        // the model reads the bytes of a word instead of its characters
	model           model
	single, pair    []templatePart
	count           int
	special         map[int32]bool // tokens that are no text
	mask            int32          // −1: none
}

// normalizer rewrites a text.
type normalizer func(text string) string

// splitter cuts a text into words. First reports that nothing stands in front of the text.
type splitter func(text string, first bool, word func(string))

// model cuts a word into pieces and appends their ids.
type model interface {
	appendIDs(ids []int32, word string) []int32
}

// typed is a part of a file: an object with a type.
type typed struct {
	Type string
	text json.RawMessage
}

func (t *typed) UnmarshalJSON(text []byte) error {
	t.text = append(t.text, text...)
	var head struct{ Type string }
	err := json.Unmarshal(text, &head)
	t.Type = head.Type
	return err
}

// into reads the part's settings.
func (t *typed) into(settings any) error {
	if err := json.Unmarshal(t.text, settings); err != nil {
		return fmt.Errorf("%s: %w", t.Type, err)
	}
	return nil
}

type file struct {
	AddedTokens   []addedToken `json:"added_tokens"`
	Normalizer    *typed
	PreTokenizer  *typed `json:"pre_tokenizer"`
	PostProcessor *typed `json:"post_processor"`
	Model         *typed
}

// Read reads a tokenizer.json, or the tokenizer of a GGUF file.
func Read(path string) (*Tokenizer, error) {
	text, err := ReadJSON(path)
	if err != nil {
		return nil, err
	}
	t, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// ReadJSON returns the content of a tokenizer.json, or the tokenizer of a GGUF file in that format.
func ReadJSON(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(path, ".gguf") {
		header, err := gguf.Read(file, info.Size())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		text, err := FromGGUF(header.Metadata)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return text, nil
	}
	if info.Size() > maxBytes {
		return nil, fmt.Errorf("%s has %d bytes; a tokenizer has at most %d", path, info.Size(), maxBytes)
	}
	return io.ReadAll(file)
}

// Parse reads the content of a tokenizer.json.
func Parse(text []byte) (*Tokenizer, error) {
	var f file
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("the tokenizer is not the JSON of a tokenizer.json: %w", err)
	}
	if f.Model == nil {
		return nil, fmt.Errorf("the tokenizer has no model: the file needs the key model of a tokenizer.json")
	}
	t := &Tokenizer{special: map[int32]bool{}, mask: -1}
	var err error
	if t.normalize, err = parseNormalizer(f.Normalizer); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	if t.split, t.bytewise, err = parsePreTokenizer(f.PreTokenizer); err != nil {
		return nil, fmt.Errorf("pre-tokenizer: %w", err)
	}
	vocabulary, err := t.parseModel(f.Model)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if err := t.addTokens(f.AddedTokens, vocabulary); err != nil {
		return nil, err
	}
	if t.single, t.pair, err = parseTemplates(f.PostProcessor); err != nil {
		return nil, fmt.Errorf("post-processor: %w", err)
	}
	for _, p := range append(t.single, t.pair...) {
		if p.sequence == 0 {
			t.special[p.id] = true
		}
		if p.sequence == 0 && (p.id < 0 || p.id >= int32(t.count)) {
			return nil, fmt.Errorf("post-processor: special token %d is not an id below %d", p.id, t.count)
		}
	}
	return t, nil
}

// parseModel reads the model and returns its vocabulary as the file has it.
func (t *Tokenizer) parseModel(m *typed) (vocabulary map[string]int32, err error) {
	if t.bytewise && m.Type != "BPE" {
		return nil, fmt.Errorf("%q after the pre-tokenizer ByteLevel is not supported; only BPE is", m.Type)
	}
	switch m.Type {
	case "WordPiece":
		t.model, vocabulary, err = parseWordPiece(m)
	case "BPE":
		t.model, vocabulary, err = parseBPE(m, t.bytewise)
	case "Unigram":
		t.model, vocabulary, err = parseUnigram(m)
	default:
		return nil, fmt.Errorf("%q is not supported; WordPiece, BPE and Unigram are", m.Type)
	}
	for _, id := range vocabulary {
		t.count = max(t.count, int(id)+1)
	}
	return vocabulary, err
}

// checkVocabulary refuses ids that an index of a network cannot have.
func checkVocabulary(v map[string]int32) error {
	if len(v) == 0 {
		return fmt.Errorf("the vocabulary is empty")
	}
	for piece, id := range v {
		if id < 0 || id > maxID {
			return fmt.Errorf("piece %.40q has the id %d; ids are from 0 to %d", piece, id, maxID)
		}
	}
	return nil
}

// Count is one more than the largest id.
func (t *Tokenizer) Count() int { return t.count }

// MaskID returns the id that hides another one in the training of an encoder.
func (t *Tokenizer) MaskID() (id int32, found bool) { return t.mask, t.mask >= 0 }

// IsSpecial reports whether an id is no part of a text: a token that the file calls special, or that is added to texts.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.special[id] }

// Pairs reports whether the tokenizer joins two texts.
func (t *Tokenizer) Pairs() bool { return len(t.pair) > 0 }

// Encode appends the ids of a text, with special tokens, at most length of them. A longer text is cut
// at its end. Length 0 stands for no limit.
func (t *Tokenizer) Encode(ids []int32, text string, length int) []int32 {
	content := t.appendText(nil, text)
	if room := length - specialTokens(t.single); length > 0 && len(content) > max(0, room) {
		content = content[:max(0, room)]
	}
	from := len(ids)
	for _, p := range t.single {
		if p.sequence == 0 {
			ids = append(ids, p.id)
		} else {
			ids = append(ids, content...)
		}
	}
	if length > 0 {
		ids = ids[:min(len(ids), from+length)]
	}
	return ids
}

// EncodePair appends the ids of two texts, with special tokens, at most length of them, and the
// segment, 0 or 1, of each. The longer text is cut first.
func (t *Tokenizer) EncodePair(ids, segments []int32, a, b string, length int) (_, _ []int32) {
	first, second := t.appendText(nil, a), t.appendText(nil, b)
	if length > 0 {
		n, m := cutLonger(len(first), len(second), max(0, length-specialTokens(t.pair)))
		first, second = first[:n], second[:m]
	}
	from := len(ids)
	for _, p := range t.pair {
		added := len(ids)
		switch p.sequence {
		case 'A':
			ids = append(ids, first...)
		case 'B':
			ids = append(ids, second...)
		default:
			ids = append(ids, p.id)
		}
		for range ids[added:] {
			segments = append(segments, p.segment)
		}
	}
	if length > 0 && len(ids) > from+length {
		segments = segments[:len(segments)-(len(ids)-from-length)]
		ids = ids[:from+length]
	}
	return ids, segments
}

// cutLonger returns how much of two texts of a and b ids remains if both together have at most
// limit ids.
func cutLonger(a, b, limit int) (int, int) {
	if a+b <= limit {
		return a, b
	}
	short, long := min(a, b), max(a, b)
	if short > limit {
		long = short
	} else {
		long = max(short, limit-short)
	}
	if short+long > limit {
		short = limit / 2
		long = short + limit%2
	}
	if a > b {
		return long, short
	}
	return short, long
}

// appendText appends the ids of a text without special tokens, except those that are written in it.
func (t *Tokenizer) appendText(ids []int32, text string) []int32 {
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\ufffd")
	}
	first := true
	t.raw.cut(text, func(section string, id int32) {
		if id >= 0 {
			ids, first = append(ids, id), false
			return
		}
		if t.normalize != nil {
			section = t.normalize(section)
		}
		t.normalized.cut(section, func(section string, id int32) {
			if id >= 0 {
				ids = append(ids, id)
			} else if t.split == nil {
				ids = t.model.appendIDs(ids, section)
			} else {
				t.split(section, first, func(word string) { ids = t.model.appendIDs(ids, word) })
			}
			first = false
		})
		first = false
	})
	return ids
}
