package tokenizer

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// addedToken is a token that is found in a text before its words are.
type addedToken struct {
	ID         int32
	Content    string
	SingleWord bool `json:"single_word"`
	LStrip     bool // the token contains the white space in front of it
	RStrip     bool // the token contains the white space behind it
	Normalized bool // the token is found in the normalized text
	Special    bool // the token is no text
}

// addedTokens finds tokens in a text: the first, and of those that begin together the longest.
type addedTokens struct {
	tokens []addedToken
	find   trie // values are indices of tokens
	starts [256]bool
}

func (a *addedTokens) add(token addedToken, content string) {
	if content == "" {
		return
	}
	a.find.insert(content, int32(len(a.tokens)))
	a.starts[content[0]] = true
	a.tokens = append(a.tokens, token)
}

// addTokens adds the tokens of a file to the tokenizer.
func (t *Tokenizer) addTokens(tokens []addedToken, vocabulary map[string]int32) error {
	for _, token := range tokens {
		known, listed := vocabulary[token.Content]
		switch {
		case token.SingleWord:
			return fmt.Errorf("added token %.40q: single_word is not supported", token.Content)
		case token.ID < 0 || token.ID > maxID:
			return fmt.Errorf("added token %.40q has the id %d; ids are from 0 to %d", token.Content, token.ID, maxID)
		case listed && known != token.ID:
			return fmt.Errorf("added token %.40q has the id %d, and %d in the vocabulary", token.Content, token.ID, known)
		}
		t.count = max(t.count, int(token.ID)+1)
		if token.Special {
			t.special[token.ID] = true
		}
		if token.Content == "[MASK]" || token.Content == "<mask>" {
			t.mask = token.ID
		}
		switch {
		case !token.Normalized:
			t.raw.add(token, token.Content)
		case t.normalize != nil:
			t.normalized.add(token, t.normalize(token.Content))
		default:
			t.normalized.add(token, token.Content)
		}
	}
	return nil
}

// cut calls part for each section between tokens, with the id −1, and for each token, with its id.
func (a *addedTokens) cut(text string, part func(section string, id int32)) {
	if len(a.tokens) == 0 {
		if text != "" {
			part(text, -1)
		}
		return
	}
	from := 0
	for at := 0; at < len(text); at++ {
		if !a.starts[text[at]] {
			continue
		}
		length, index := a.find.longest(text[at:])
		if length == 0 {
			continue
		}
		token := &a.tokens[index]
		start, end := at, at+length
		if token.LStrip {
			start = trimSpaceEnd(text, from, at)
		}
		if token.RStrip {
			end = skipSpace(text, end)
		}
		if from < start {
			part(text[from:start], -1)
		}
		part(text[start:end], token.ID)
		from, at = end, end-1
	}
	if from < len(text) {
		part(text[from:], -1)
	}
}

// trimSpaceEnd returns where the white space at the end of text[from:end] begins.
func trimSpaceEnd(text string, from, end int) int {
	for end > from {
		r, size := utf8.DecodeLastRuneInString(text[from:end])
		if !unicode.IsSpace(r) {
			break
		}
		end -= size
	}
	return end
}

// skipSpace returns where the white space at the beginning of text[from:] ends.
func skipSpace(text string, from int) int {
	for from < len(text) {
		r, size := utf8.DecodeRuneInString(text[from:])
		if !unicode.IsSpace(r) {
			break
		}
		from += size
	}
	return from
}
