package tokenizer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// parseNormalizer returns nil for no normalizer.
func parseNormalizer(p *typed) (normalizer, error) {
	if p == nil {
		return nil, nil
	}
	switch p.Type {
	case "Sequence":
		return parseNormalizerSequence(p)
	case "BertNormalizer":
		return parseBertNormalizer(p)
	case "Lowercase":
		return func(text string) string { return bertNormalizer{lower: true}.apply(text) }, nil
	case "StripAccents":
		return func(text string) string { return removeClass(text, markClass) }, nil
	case "Strip":
		return parseStrip(p)
	case "NFC", "NFD", "NFKC", "NFKD":
		form := map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD}[p.Type]
		return func(text string) string { return normalForm(form, text) }, nil
	case "Replace":
		return parseReplace(p)
	case "Prepend":
		var s struct{ Prepend string }
		err := p.into(&s)
		return func(text string) string {
			if text == "" {
				return text
			}
			return s.Prepend + text
		}, err
	case "Precompiled":
		return parseCharsMap(p)
	}
	return nil, fmt.Errorf("%q is not supported", p.Type)
}

func parseNormalizerSequence(p *typed) (normalizer, error) {
	var s struct{ Normalizers []*typed }
	if err := p.into(&s); err != nil {
		return nil, err
	}
	var list []normalizer
	for _, q := range s.Normalizers {
		if q == nil || q.Type == "Sequence" {
			return nil, fmt.Errorf("a Sequence in a Sequence is not supported")
		}
		f, err := parseNormalizer(q)
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return func(text string) string {
		for _, f := range list {
			text = f(text)
		}
		return text
	}, nil
}

func parseStrip(p *typed) (normalizer, error) {
	s := struct {
		Left  bool `json:"strip_left"`
		Right bool `json:"strip_right"`
	}{true, true}
	err := p.into(&s)
	return func(text string) string {
		if s.Left {
			text = strings.TrimLeftFunc(text, unicode.IsSpace)
		}
		if s.Right {
			text = strings.TrimRightFunc(text, unicode.IsSpace)
		}
		return text
	}, err
}

// manySpaces is the only regular expression of a Replace that is supported.
const manySpaces = " {2,}"

func parseReplace(p *typed) (normalizer, error) {
	var s struct {
		Pattern struct{ String, Regex *string }
		Content string
	}
	if err := p.into(&s); err != nil {
		return nil, err
	}
	switch {
	case s.Pattern.Regex != nil && *s.Pattern.Regex == manySpaces:
		return func(text string) string { return replaceManySpaces(text, s.Content) }, nil
	case s.Pattern.Regex != nil:
		return nil, fmt.Errorf("Replace with the pattern %.60q is not supported; a string is, and the pattern %q", *s.Pattern.Regex, manySpaces)
	case s.Pattern.String == nil || *s.Pattern.String == "":
		return nil, fmt.Errorf("Replace has no string to replace")
	}
	return func(text string) string { return strings.ReplaceAll(text, *s.Pattern.String, s.Content) }, nil
}

// replaceManySpaces replaces each run of at least two spaces.
func replaceManySpaces(text, by string) string {
	if !strings.Contains(text, "  ") {
		return text
	}
	var b strings.Builder
	for text != "" {
		at := strings.Index(text, "  ")
		if at < 0 {
			b.WriteString(text)
			break
		}
		b.WriteString(text[:at])
		b.WriteString(by)
		text = strings.TrimLeft(text[at:], " ")
	}
	return b.String()
}

func removeClass(text string, class uint8) string {
	if isASCII(text) {
		return text
	}
	var b []byte
	for i, r := range text {
		if classOf(r)&class == 0 {
			b = append(b, text[i:i+utf8.RuneLen(r)]...)
		}
	}
	return string(b)
}

// bertNormalizer is the preparation of texts for BERT (Devlin et al. 2019).
type bertNormalizer struct {
	clean      bool // removes control characters; white space becomes a space
	ideographs bool // puts spaces around Chinese characters
	accents    bool // removes accents
	lower      bool
}

func parseBertNormalizer(p *typed) (normalizer, error) {
	s := struct {
		Clean      bool  `json:"clean_text"`
		Ideographs bool  `json:"handle_chinese_chars"`
		Accents    *bool `json:"strip_accents"`
		Lower      bool  `json:"lowercase"`
	}{true, true, nil, true}
	if err := p.into(&s); err != nil {
		return nil, err
	}
	b := bertNormalizer{s.Clean, s.Ideographs, s.Lower, s.Lower}
	if s.Accents != nil {
		b.accents = *s.Accents
	}
	return b.apply, nil
}

func (n bertNormalizer) apply(text string) string {
	b := make([]byte, 0, len(text)+16)
	for i, r := range text {
		if r < utf8.RuneSelf {
			switch {
			case !n.clean:
			case r == '\t' || r == '\n' || r == '\r':
				r = ' '
			case r < ' ' || r == 0x7f:
				continue
			}
			if n.lower && !n.accents && r >= 'A' && r <= 'Z' { // with accents, lower case comes after them
				r += 'a' - 'A'
			}
			b = append(b, byte(r))
			continue
		}
		class, char := classOf(r), text[i:i+utf8.RuneLen(r)]
		switch {
		case n.clean && class&controlClass != 0:
		case n.clean && class&spaceClass != 0:
			b = append(b, ' ')
		case n.ideographs && class&ideographClass != 0:
			b = append(append(append(b, ' '), char...), ' ')
		case n.lower && !n.accents:
			b = appendLower(b, r)
		default:
			b = append(b, char...)
		}
	}
	if n.accents {
		return n.applyToMarks(string(b))
	}
	return string(b)
}

// applyToMarks removes accents, and then writes lower case.
func (n bertNormalizer) applyToMarks(text string) string {
	text = normalForm(norm.NFD, text)
	b := make([]byte, 0, len(text))
	for i, r := range text {
		switch {
		case r >= utf8.RuneSelf && classOf(r)&nonspacingClass != 0:
		case n.lower:
			b = appendLower(b, r)
		default:
			b = append(b, text[i:i+utf8.RuneLen(r)]...)
		}
	}
	return string(b)
}
