package tokenizer

import (
	"fmt"
	"strconv"
	"strings"
)

// Pieces returns the text of each id, for [Tokenizer.Encode] in reverse: the texts of ids, joined, are the text. It
// supports BPE. A special token is empty.
func (t *Tokenizer) Pieces() ([]string, error) {
	pieces := make([]string, t.count)
	m, is := t.model.(*bpe)
	if !is {
		return nil, fmt.Errorf("texts are restored from the ids of BPE only")
	}
	for piece, id := range m.vocabulary {
		if !t.bytewise {
			piece = textOf(piece)
		}
		pieces[id] = piece
	}
	for _, list := range []addedTokens{t.raw, t.normalized} {
		for _, token := range list.tokens {
			pieces[token.ID] = ""
			if !token.Special && t.bytewise {
				pieces[token.ID] = token.Content
			} else if !token.Special {
				pieces[token.ID] = textOf(token.Content)
			}
		}
	}
	return pieces, nil
}

// textOf returns the text of a piece of SentencePiece: a sign stands for a space, and <0x0A> for a byte.
func textOf(piece string) string {
	if code, is := strings.CutPrefix(piece, "<0x"); is && len(piece) == len("<0x0A>") && piece[5] == '>' {
		if b, err := strconv.ParseUint(code[:2], 16, 8); err == nil {
			return string([]byte{byte(b)})
		}
	}
	return strings.ReplaceAll(piece, "▁", " ")
}
