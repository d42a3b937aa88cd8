package rundir

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// SchemaShares are released shares of private records whose cells do not fit the schema. The noise may
// make a share negative, or larger than 1.
type SchemaShares struct {
	Lot     int            `json:"lot"` // that released them
	Columns []ColumnShares `json:"columns"`
	// Deviation is the standard deviation of the noise in each share, and Sampling that of sampling
	// in a share of one half.
	Deviation float64 `json:"deviation"`
	Sampling  float64 `json:"sampling_deviation"`
	// Blank is the share of the records that cannot be read, such as one with an unknown class, and
	// BlankDeviation its standard deviation: the size of a lot is random, too.
	Blank          float64 `json:"blank"`
	BlankDeviation float64 `json:"blank_deviation"`
}

// ColumnShares are the shares of a column, among the records that can be read.
type ColumnShares struct {
	Column  string  `json:"column"`
	Outside float64 `json:"outside"` // numbers and dates outside the bounds
	Unknown float64 `json:"unknown"` // words outside the vocabulary
	Empty   float64 `json:"empty"`   // cells without a value
}

// deviationOf returns the standard deviation of a share: that of the noise and that of sampling.
func (s *SchemaShares) deviationOf(share float64) float64 {
	p := min(max(share, 0), 1)
	return math.Hypot(s.Deviation, 2*s.Sampling*math.Sqrt(p*(1-p)))
}

// Findings describes the shares that exceed a limit by more than two standard deviations: a line for
// each column, in their order, and one for blank records.
func (s *SchemaShares) Findings(limit float64) (findings []string) {
	describe := func(share float64, what string) string {
		return describeShare(share, s.deviationOf(share), limit, what)
	}
	for _, c := range s.Columns {
		var parts []string
		for _, part := range []string{describe(c.Outside, "outside its bounds"), describe(c.Unknown, "not in its vocabulary"), describe(c.Empty, "without a value")} {
			if part != "" {
				parts = append(parts, part)
			}
		}
		if parts != nil {
			findings = append(findings, c.Column+": "+strings.Join(parts, ", "))
		}
	}
	if part := describeShare(s.Blank, s.BlankDeviation, limit, "of the records cannot be read and are blank"); part != "" {
		findings = append(findings, part)
	}
	return findings
}

// describeShare returns "" if a share does not exceed the limit by two standard deviations.
func describeShare(share, deviation, limit float64, what string) string {
	if share-2*deviation <= limit {
		return ""
	}
	return fmt.Sprintf("%.0f%% ± %.0f%% %s", 100*min(share, 1), math.Ceil(100*deviation), what)
}

// maxPrinted limits the columns that the summary prints.
const maxPrinted = 20

// Print prints the findings.
func (s *SchemaShares) Print(w io.Writer) {
	findings := s.Findings(0)
	if len(findings) == 0 {
		fmt.Fprintf(w, "schema\tno column is certain to leave it: all shares are 0%% within the noise of ±%.1f%% (ε includes its cost)\n", 100*s.Deviation)
		return
	}
	key := "schema"
	for _, f := range findings[:min(len(findings), maxPrinted)] {
		fmt.Fprintf(w, "%s\t%s\n", key, f)
		key = ""
	}
	if more := len(findings) - maxPrinted; more > 0 {
		fmt.Fprintf(w, "\tand %d more, in run.json\n", more)
	}
}
