package data

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dptrain/dptrain/internal/nearest"
	"gopkg.in/yaml.v3"
)

// schemaExamples are the keys of a schema file, each with a value.
var schemaExamples = map[string]string{
	"label": "income", "classes": "[low, high]", "target": "hours", "bounds": "{age: [0, 120]}", "vocabulary": "{sex: [Female, Male]}",
	"dates": "{joined: [2010-01-01, 2026-12-31]}", "date-format": "DD.MM.YYYY", "scale": "{income: log}", "missing": "{age: indicator}",
	"inputs": "[age, sex]", "only": "[age, sex]", "ignore": "[row-id]", "text": "review", "text-pair": "answer", "tokens": "bytes", "words": "[good, bad]",
	"length": "200", "next": "true", "pack": "true", "masked": "0.15", "user": "patient", "weight": "visits", "separator": "semicolon", "decimal": `","`,
}

// parseSchema reads a schema. Errors name the line and the key.
func parseSchema(text []byte) (s Schema, err error) {
	var document yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&document); errors.Is(err, io.EOF) {
		return s, nil
	} else if err != nil {
		return s, fmt.Errorf("%s; write the schema like %s", strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), "yaml: "), SchemaExample)
	}
	root := document.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return s, nil
	}
	if root.Kind != yaml.MappingNode {
		return s, fmt.Errorf("line %d: a schema has keys and values; write it like %s", root.Line, SchemaExample)
	}
	seen := map[string]int{}
	for i := 0; i < len(root.Content); i += 2 {
		key := root.Content[i]
		example, known := schemaExamples[key.Value]
		if !known {
			return s, fmt.Errorf("line %d: %s is not a key of a schema%s; write the schema like %s", key.Line, strconv.Quote(key.Value), nearestKey(key.Value), SchemaExample)
		}
		if first, twice := seen[key.Value]; twice {
			return s, fmt.Errorf("line %d: %s is also in line %d; write it once", key.Line, key.Value, first)
		}
		seen[key.Value] = key.Line
		expand(key.Value, root.Content[i+1])
		one := yaml.Node{Kind: yaml.MappingNode, Content: root.Content[i : i+2]}
		if err := one.Decode(&s); err != nil {
			return s, fmt.Errorf("line %d: %s: %s", key.Line, key.Value, describeYAMLError(err, key.Value, example))
		}
	}
	if s.Tokens != "" && s.Tokens != byWords {
		if err = s.SetTokens(s.Tokens); err != nil {
			return s, fmt.Errorf("line %d: %w", seen["tokens"], err)
		}
	}
	return s, s.validate()
}

func nearestKey(key string) string {
	var keys []string
	for k := range schemaExamples {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	if near := nearest.LikelyTypo(key, keys); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// describeYAMLError returns the reason why the value of a key cannot be read. The messages of the
// parser name Go types, so an example replaces them.
func describeYAMLError(err error, key, example string) string {
	var mistyped *yaml.TypeError
	if strings.HasPrefix(err.Error(), "yaml: ") && !errors.As(err, &mistyped) {
		mistyped = &yaml.TypeError{Errors: []string{""}} // an array of another length
	}
	if mistyped != nil {
		if first := mistyped.Errors[0]; strings.Contains(first, "already defined") {
			return first
		}
		return fmt.Sprintf("write it like %s: %s", key, example)
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

// UnmarshalYAML reads a list of two numbers, or LOW:HIGH as the flag --bounds has it.
func (b *Bounds) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind != yaml.ScalarNode {
		return node.Decode((*[2]float64)(b))
	}
	return b.parse(node.Value)
}

// UnmarshalYAML reads a list of two dates, or FIRST:LAST.
func (d *DateBounds) UnmarshalYAML(node *yaml.Node) error {
	parts := []string{node.Value}
	if node.Kind != yaml.ScalarNode {
		if err := node.Decode(&parts); err != nil {
			return err
		}
		return d.set(parts)
	}
	return d.set(strings.Split(node.Value, ":"))
}

// MarshalYAML writes a list of two dates.
func (d DateBounds) MarshalYAML() (any, error) {
	return []string{d[0].Format(time.DateOnly), d[1].Format(time.DateOnly)}, nil
}

func (d *DateBounds) set(dates []string) (err error) {
	if len(dates) != 2 {
		return errors.New("write the first and the last date, as in [2010-01-01, 2026-12-31]")
	}
	for i, text := range dates {
		if d[i], err = time.Parse(time.DateOnly, strings.TrimSpace(text)); err != nil {
			return fmt.Errorf("%q is no date; write it as 2026-12-31", text)
		}
	}
	return nil
}

// expand replaces the spelling of a flag by YAML's lists and mappings: words with | and names with
// commas between them, and one rule for all columns.
func expand(key string, value *yaml.Node) {
	list := func(node *yaml.Node, separator string) {
		if node.Kind != yaml.ScalarNode || node.Tag == "!!null" {
			return
		}
		node.Kind, node.Tag = yaml.SequenceNode, "!!seq"
		for _, entry := range splitList(node.Value, separator) {
			node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: entry, Line: node.Line})
		}
	}
	switch key {
	case "vocabulary":
		for i := 1; i < len(value.Content) && value.Kind == yaml.MappingNode; i += 2 {
			list(value.Content[i], "|")
		}
	case "ignore", "only", "inputs":
		list(value, ",")
	case "missing":
		if value.Kind == yaml.ScalarNode && value.Tag != "!!null" {
			rule := *value
			value.Kind, value.Tag = yaml.MappingNode, "!!map"
			value.Content = []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: allColumns}, &rule}
		}
	}
}
