package main

import (
	"fmt"
	"maps"
	"strings"

	"github.com/dptrain/dptrain/engine/data"
)

// targetRate is the learning rate of a regression where none is given: the slope of a
// squared error grows with the error, where that of a cross-entropy is bounded.
const targetRate = 0.05

// predicts reports whether a number is to be predicted, and no class.
func (s *settings) predicts() bool {
	if s.target != "" || s.schema == "" {
		return s.target != ""
	}
	known, err := data.ReadSchema(s.schema) // if it cannot be read, who needs it says so
	return err == nil && known.Target != ""
}

// readSchema gathers what flags and file say about a table's columns, on top of
// what is known of them.
func (s *settings) readSchema(schema data.Schema) (data.Schema, error) {
	var err error
	if s.schema != "" {
		if schema, err = data.ReadSchema(s.schema); err != nil {
			return schema, err
		}
	}
	if s.label != "" {
		schema.Label = s.label
	}
	if s.classes != "" {
		if schema.Classes, err = data.ParseClasses(s.classes); err != nil {
			return schema, fmt.Errorf("--classes: %w", err)
		}
	}
	if s.target != "" {
		schema.Target = s.target
	}
	if s.bounds != "" {
		bounds, err := data.ParseBounds(s.bounds)
		if err != nil {
			return schema, fmt.Errorf("--bounds: %w", err)
		}
		if schema.Bounds == nil {
			schema.Bounds = map[string]data.Bounds{}
		}
		maps.Copy(schema.Bounds, bounds)
	}
	for _, text := range s.vocabulary {
		column, words, err := data.ParseVocabulary(text)
		if err != nil {
			return schema, fmt.Errorf("--vocabulary: %w", err)
		}
		if schema.Vocabulary == nil {
			schema.Vocabulary = map[string][]string{}
		}
		schema.Vocabulary[column] = words
	}
	if s.text != "" {
		schema.Text = s.text
	}
	if s.tokens != "" {
		if schema.Tokens, schema.Words, err = data.ParseTokens(s.tokens); err != nil {
			return schema, fmt.Errorf("--tokens: %w", err)
		}
	}
	if s.length != 0 {
		schema.Length = s.length
	}
	schema.PredictNext = schema.PredictNext || s.next
	schema.Ignore = append(schema.Ignore, s.ignore...)
	if column, user := strings.CutPrefix(s.record, "user:"); user {
		schema.User = column
	}
	return schema, nil
}
