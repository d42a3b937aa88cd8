package data

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// SchemaFinding is a column of public data whose cells leave the bounds or the vocabulary of a
// schema. The shares are of all cells.
type SchemaFinding struct {
	Column  string  `json:"column"`
	Outside float64 `json:"outside"` // numbers and dates outside the bounds
	Unknown float64 `json:"unknown"` // words outside the vocabulary
	NotUTF8 bool    `json:"not_utf8,omitempty"`
}

// LoudShare is the share of cells above which a finding probably is an error of the schema.
const LoudShare = 0.05

// Loud reports whether the schema is probably wrong.
func (f SchemaFinding) Loud() bool { return max(f.Outside, f.Unknown) > LoudShare }

func (f SchemaFinding) String() string {
	var parts []string
	if f.Outside > 0 {
		parts = append(parts, fmt.Sprintf("%.3g%% outside its bounds", 100*f.Outside))
	}
	if f.Unknown > 0 {
		parts = append(parts, fmt.Sprintf("%.3g%% not in its vocabulary", 100*f.Unknown))
	}
	if f.NotUTF8 {
		parts = append(parts, "words that are not UTF-8 (save the file as UTF-8)")
	}
	return f.Column + ": " + strings.Join(parts, ", ")
}

// Findings returns the features and targets whose cells leave their bounds or vocabulary, in the
// order of the columns.
func (r *SchemaReport) Findings() []SchemaFinding {
	findings := []SchemaFinding{}
	for _, c := range r.Columns {
		if c.DescribedBy == "label" || c.Outside+c.Unknown == 0 {
			continue
		}
		share := func(n int) float64 { return float64(n) / float64(c.cells) }
		findings = append(findings, SchemaFinding{c.Name, share(c.Outside), share(c.Unknown), c.notUTF8})
	}
	return findings
}

// histogramBins is the number of parts of equal length into which a report divides the interval
// between the bounds.
const histogramBins = 16

// addToHistogram counts a cell within the bounds or the vocabulary.
func (c *schemaCheck) addToHistogram(column *ColumnReport, k int, cell string) {
	role := &c.layout.roles[k]
	position := -1
	var err error
	switch column.DescribedBy {
	case "bounds", "dates", "target":
		if c.features, err = role.encode(c.features[:0], cell); err == nil && !isMissing(cell) && !role.outside(cell) {
			position = min(int((float64(c.features[0])+1)/2*histogramBins), histogramBins-1)
		}
	case "vocabulary":
		if slot, known := role.slots[cell]; known {
			position = slot
		}
	case "label":
		if class, known := c.layout.classes[cell]; known {
			position = class
		}
	}
	if position >= 0 && position < len(column.Histogram) {
		column.Histogram[position]++
	}
	if column.Unknown > 0 && !utf8.ValidString(cell) {
		column.notUTF8 = true
	}
}

// histogramLength returns the number of parts of a column's histogram; 0 if it has none.
func (c *schemaCheck) histogramLength(by string, k int) int {
	switch by {
	case "bounds", "dates", "target":
		return histogramBins
	case "vocabulary":
		return len(c.layout.roles[k].Words)
	case "label":
		return len(c.layout.classes)
	}
	return 0
}
