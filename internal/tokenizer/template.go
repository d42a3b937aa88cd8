package tokenizer

import (
	"encoding/json"
	"fmt"
)

// templatePart is a special token, or the place of a text.
type templatePart struct {
	sequence byte // 'A', 'B', or 0 for a special token
	id       int32
	segment  int32
}

func specialTokens(template []templatePart) (n int) {
	for _, p := range template {
		if p.sequence == 0 {
			n++
		}
	}
	return n
}

// parseTemplates reads what is added to one text and to two.
func parseTemplates(p *typed) (single, pair []templatePart, err error) {
	single = []templatePart{{sequence: 'A'}}
	if p == nil {
		return single, []templatePart{{sequence: 'A'}, {sequence: 'B', segment: 1}}, nil
	}
	switch p.Type {
	case "ByteLevel": // offsets only
		return parseTemplates(nil)
	case "Sequence":
		return parseTemplateSequence(p)
	case "TemplateProcessing":
		return parseTemplateProcessing(p)
	case "BertProcessing", "RobertaProcessing":
		var s struct{ Sep, CLS namedID }
		if err := p.into(&s); err != nil {
			return nil, nil, err
		}
		cls, sep := templatePart{id: s.CLS.id}, templatePart{id: s.Sep.id}
		single = []templatePart{cls, {sequence: 'A'}, sep}
		if p.Type == "RobertaProcessing" {
			return single, []templatePart{cls, {sequence: 'A'}, sep, sep, {sequence: 'B'}, sep}, nil
		}
		return single, []templatePart{cls, {sequence: 'A'}, sep, {sequence: 'B', segment: 1}, {id: s.Sep.id, segment: 1}}, nil
	}
	return nil, nil, fmt.Errorf("%q is not supported; TemplateProcessing, BertProcessing, RobertaProcessing and ByteLevel are", p.Type)
}

// namedID is a token and its id, as a list of two.
type namedID struct{ id int32 }

func (n *namedID) UnmarshalJSON(text []byte) error {
	var name string
	pair := []any{&name, &n.id}
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	if len(pair) != 2 {
		return fmt.Errorf("a special token is a list of its text and its id")
	}
	return nil
}

func parseTemplateSequence(p *typed) (single, pair []templatePart, err error) {
	var s struct{ Processors []*typed }
	if err := p.into(&s); err != nil {
		return nil, nil, err
	}
	var adds *typed
	for _, q := range s.Processors {
		if q == nil || q.Type == "Sequence" {
			return nil, nil, fmt.Errorf("a Sequence in a Sequence is not supported")
		}
		if q.Type == "ByteLevel" {
			continue
		}
		if adds != nil {
			return nil, nil, fmt.Errorf("%s after %s is not supported; one of them may add tokens", q.Type, adds.Type)
		}
		adds = q
	}
	return parseTemplates(adds)
}

func parseTemplateProcessing(p *typed) (single, pair []templatePart, err error) {
	type part struct {
		SpecialToken *struct {
			ID     string
			TypeID int32 `json:"type_id"`
		}
		Sequence *struct {
			ID     string
			TypeID int32 `json:"type_id"`
		}
	}
	var s struct {
		Single, Pair  []part
		SpecialTokens map[string]struct{ IDs []int32 } `json:"special_tokens"`
	}
	if err := p.into(&s); err != nil {
		return nil, nil, err
	}
	resolve := func(parts []part) (list []templatePart, err error) {
		for _, q := range parts {
			switch {
			case q.Sequence != nil && (q.Sequence.ID == "A" || q.Sequence.ID == "B"):
				list = append(list, templatePart{sequence: q.Sequence.ID[0], segment: q.Sequence.TypeID})
			case q.SpecialToken != nil:
				token, ok := s.SpecialTokens[q.SpecialToken.ID]
				if !ok {
					return nil, fmt.Errorf("the template names %q, which special_tokens does not have", q.SpecialToken.ID)
				}
				for _, id := range token.IDs {
					list = append(list, templatePart{id: id, segment: q.SpecialToken.TypeID})
				}
			default:
				return nil, fmt.Errorf("a part of the template is neither SpecialToken nor Sequence A or B")
			}
		}
		return list, nil
	}
	if single, err = resolve(s.Single); err != nil {
		return nil, nil, err
	}
	pair, err = resolve(s.Pair)
	return single, pair, err
}
