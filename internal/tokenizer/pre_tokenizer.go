package tokenizer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// parsePreTokenizer returns nil for no pre-tokenizer. Bytewise reports that the model reads bytes.
func parsePreTokenizer(p *typed) (split splitter, bytewise bool, err error) {
	if p == nil {
		return nil, false, nil
	}
	parts := []*typed{p}
	if p.Type == "Sequence" {
		var s struct{ PreTokenizers []*typed }
		if err := p.into(&s); err != nil {
			return nil, false, err
		}
		parts = s.PreTokenizers
	}
	for i, q := range parts {
		if q == nil || q.Type == "Sequence" {
			return nil, false, fmt.Errorf("a Sequence in a Sequence is not supported")
		}
		if bytewise {
			return nil, false, fmt.Errorf("%q after ByteLevel is not supported", q.Type)
		}
		bytewise = q.Type == "ByteLevel"
		next, err := parseSplitter(q, i == 0)
		if err != nil {
			return nil, false, err
		}
		split = then(split, next)
	}
	return split, bytewise, nil
}

// then returns the splitter that applies next to the words of first; one of them may be nil.
func then(first, next splitter) splitter {
	if first == nil || next == nil {
		if first == nil {
			return next
		}
		return first
	}
	return func(text string, isFirst bool, word func(string)) {
		first(text, isFirst, func(part string) { next(part, false, word) })
	}
}

// parseSplitter reads a pre-tokenizer that is not a sequence. Leading reports that it is the first.
func parseSplitter(p *typed, leading bool) (splitter, error) {
	switch p.Type {
	case "BertPreTokenizer":
		return splitForBert, nil
	case "WhitespaceSplit":
		return splitAtSpace, nil
	case "Metaspace":
		return parseMetaspace(p, leading)
	case "ByteLevel":
		s := struct {
			Prefix bool  `json:"add_prefix_space"`
			Regex  *bool `json:"use_regex"`
		}{Prefix: true}
		if err := p.into(&s); err != nil {
			return nil, err
		}
		var split splitter
		if s.Regex == nil || *s.Regex {
			split = splitForGPT2
		}
		if !s.Prefix {
			return split, nil
		}
		return then(prefixSpace, split), nil
	case "Digits":
		var s struct {
			Single bool `json:"individual_digits"`
		}
		return func(text string, _ bool, word func(string)) { splitDigits(text, s.Single, word) }, p.into(&s)
	case "Split":
		return parseSplit(p)
	}
	return nil, fmt.Errorf("%q is not supported", p.Type)
}

func prefixSpace(text string, _ bool, word func(string)) {
	if !strings.HasPrefix(text, " ") {
		text = " " + text
	}
	word(text)
}

// The regular expressions of Split, and the functions that do the same.
var patterns = map[string]splitter{
	`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`:                                          splitForGPT2,
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: splitForLlama3,
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:      splitForQwen,
}

func parseSplit(p *typed) (splitter, error) {
	var s struct {
		Pattern  struct{ String, Regex *string }
		Behavior string
		Invert   bool
	}
	if err := p.into(&s); err != nil {
		return nil, err
	}
	if s.Pattern.Regex != nil {
		split, known := patterns[*s.Pattern.Regex]
		if !known {
			return nil, fmt.Errorf("Split with the pattern %.80q is not supported; those of GPT-2, Llama 3 and Qwen are", *s.Pattern.Regex)
		}
		// The patterns match every character, so that the two ways give the same words.
		if s.Behavior == "Isolated" && !s.Invert || s.Behavior == "Removed" && s.Invert {
			return split, nil
		}
		return nil, fmt.Errorf("Split with the behavior %.40q and invert %t is not supported for a pattern", s.Behavior, s.Invert)
	}
	if s.Pattern.String == nil || *s.Pattern.String == "" {
		return nil, fmt.Errorf("Split has no pattern")
	}
	if s.Behavior != "MergedWithPrevious" || s.Invert {
		return nil, fmt.Errorf("Split with the behavior %.40q and invert %t is not supported for a string", s.Behavior, s.Invert)
	}
	sign := *s.Pattern.String
	return func(text string, _ bool, word func(string)) {
		for part := range strings.SplitAfterSeq(text, sign) {
			if part != "" {
				word(part)
			}
		}
	}, nil
}

func parseMetaspace(p *typed, leading bool) (splitter, error) {
	var s struct {
		Replacement string
		Prefix      *bool   `json:"add_prefix_space"`
		Scheme      *string `json:"prepend_scheme"`
		Split       *bool
	}
	if err := p.into(&s); err != nil {
		return nil, err
	}
	sign := s.Replacement
	if utf8.RuneCountInString(sign) != 1 {
		return nil, fmt.Errorf("Metaspace: the replacement %.40q is not one character", sign)
	}
	scheme := "always"
	if s.Scheme != nil {
		scheme = *s.Scheme
	} else if s.Prefix != nil && !*s.Prefix {
		scheme = "never"
	}
	switch {
	case scheme != "always" && scheme != "never" && scheme != "first":
		return nil, fmt.Errorf("Metaspace: the prepend_scheme %.40q is not supported", scheme)
	case scheme == "first" && !leading:
		return nil, fmt.Errorf("Metaspace with the prepend_scheme first after another pre-tokenizer is not supported")
	}
	whole := s.Split != nil && !*s.Split
	return func(text string, first bool, word func(string)) {
		text = strings.ReplaceAll(text, " ", sign)
		if (scheme == "always" || scheme == "first" && first) && !strings.HasPrefix(text, sign) {
			text = sign + text
		}
		if whole {
			word(text)
			return
		}
		for text != "" {
			next := strings.Index(text[1:], sign) // the sign at the beginning belongs to the word
			if next < 0 {
				word(text)
				return
			}
			word(text[:next+1])
			text = text[next+1:]
		}
	}, nil
}

// splitAtSpace yields the runs of characters that are not white space.
func splitAtSpace(text string, _ bool, word func(string)) {
	for w := range strings.FieldsSeq(text) {
		word(w)
	}
}

// splitForBert also makes a word of each punctuation mark.
func splitForBert(text string, _ bool, word func(string)) {
	from := 0
	for i, r := range text {
		if r < utf8.RuneSelf && (r >= 'a' && r <= 'z' || r >= '0' && r <= '9') {
			continue
		}
		space, class := unicode.IsSpace(r), classOf(r)
		if !space && class&punctuationClass == 0 {
			continue
		}
		if from < i {
			word(text[from:i])
		}
		from = i + utf8.RuneLen(r)
		if !space {
			word(text[i:from])
		}
	}
	if from < len(text) {
		word(text[from:])
	}
}
