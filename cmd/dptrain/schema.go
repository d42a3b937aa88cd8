package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/spf13/cobra"
)

func newSchema(term *terminal.Terminal) *cobra.Command {
	var o data.SkeletonOptions
	var scaled []string
	o.Scaled = func(columns []string) { scaled = columns }
	cmd := &cobra.Command{
		Use:     "schema FILE",
		Short:   "Write a schema for a table, to finish and to give to train --schema",
		Long:    helpOf("schema").long,
		Example: helpOf("schema").examples,
		Args:    oneTable("schema people.csv"),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := terminal.Await(term, "Reading "+args[0], func() (string, error) { return data.SchemaSkeleton(args[0], o) })
			if err != nil {
				return exitcode.AsUsage(err)
			}
			if len(scaled) > 0 {
				term.Note("scaled, because the numbers are skewed: %s; to undo this, remove their lines below scale", printableNames(scaled))
			}
			if term.JSON {
				return term.Print(map[string]any{"schema": text, "public": o.Public, "scaled": append([]string{}, scaled...)}, "", nil)
			}
			_, err = io.WriteString(term.Out, text)
			return err
		},
	}
	cmd.Flags().BoolVar(&o.Public, "public", false, "declare that the file is public: take bounds, words and classes from its rows")
	cmd.Flags().StringVar(&o.Label, "label", "", "the column with the classes")
	cmd.Flags().StringVar(&o.Target, "target", "", "the column with a number to predict, in place of --label")
	cmd.AddCommand(newSchemaCheck(term))
	return cmd
}

func newSchemaCheck(term *terminal.Terminal) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:     "check FILE",
		Short:   "Compare the rows of a public table with a schema",
		Long:    helpOf("schema-check").long,
		Example: helpOf("schema-check").examples,
		Args:    oneTable("schema check sample.csv --schema people.yaml"),
		RunE: func(_ *cobra.Command, args []string) error {
			if path == "" {
				return exitcode.Usagef("give the schema to compare with, as --schema FILE.yaml; dptrain schema %s writes one", args[0])
			}
			schema, err := data.ReadSchema(path)
			if err != nil {
				return exitcode.AsUsage(err)
			}
			report, err := terminal.Await(term, "Reading "+args[0], func() (*data.SchemaReport, error) { return data.CheckSchema(args[0], schema) })
			if err != nil {
				return exitcode.AsUsage(err)
			}
			term.Warn("this report is a function of the rows of %s: publish it only if they are public", args[0])
			printFindings(term, args[0], report.Findings())
			result := schemaCheckResult{report, report.Findings()}
			return term.Print(result, strconv.Itoa(countFindings(report)), func(w io.Writer) { printSchemaReport(w, report) })
		},
	}
	cmd.Flags().StringVar(&path, "schema", "", "the schema, a YAML file")
	return cmd
}

// schemaCheckResult is the JSON output of schema check.
type schemaCheckResult struct {
	*data.SchemaReport
	Findings []data.SchemaFinding `json:"schema_report"`
}

// countFindings counts bad rows, cells that do not fit and constant columns.
func countFindings(r *data.SchemaReport) int {
	n := r.BadRows
	for _, c := range r.Columns {
		n += c.Outside + c.Unknown + c.NotNumbers + c.Empty
		if c.Constant {
			n++
		}
	}
	return n
}

func printSchemaReport(w io.Writer, r *data.SchemaReport) {
	fmt.Fprintln(w, "column\tdescribed by\toutside\tunknown\tnot a number\tempty\tconstant\tdistribution")
	for _, c := range r.Columns {
		constant := ""
		if c.Constant {
			constant = "constant"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\n", printableName(c.Name), c.DescribedBy, c.Outside, c.Unknown, c.NotNumbers,
			c.Empty, constant, drawHistogram(c.Histogram))
	}
	fmt.Fprintf(w, "\n%s, %d blank in training\n", number.Plural(r.Rows, "row"), r.BlankRows)
	if r.BadRows > 0 {
		fmt.Fprintf(w, "%s without the columns of the schema; the first: %s\n", number.Plural(r.BadRows, "row"), r.BadRow)
	}
}

// maxBars is the largest number of bars in a line.
const maxBars = 32

// drawHistogram draws counts as bars in one line: of numbers between the bounds, or of words in
// the order of the vocabulary.
func drawHistogram(counts []int) string {
	bars := []rune(" ▁▂▃▄▅▆▇█")
	if len(counts) == 0 {
		return ""
	}
	highest := slices.Max(counts)
	var line strings.Builder
	line.WriteByte('|')
	for _, n := range counts[:min(len(counts), maxBars)] {
		height := 0
		if n > 0 {
			height = 1 + n*(len(bars)-2)/highest
		}
		line.WriteRune(bars[height])
	}
	line.WriteByte('|')
	if more := len(counts) - maxBars; more > 0 {
		fmt.Fprintf(&line, " and %d more", more)
	}
	return line.String()
}

// printableName quotes a name that would not be one word in a table.
func printableName(name string) string {
	if quoted := strconv.Quote(name); name == "" || quoted != `"`+name+`"` {
		return quoted
	}
	return name
}

// printableNames joins names for a line.
func printableNames(names []string) string {
	printable := make([]string, len(names))
	for i, name := range names {
		printable[i] = printableName(name)
	}
	return strings.Join(printable, ", ")
}

// oneTable requires one argument, a table; example shows how to write it.
func oneTable(example string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return exitcode.Usagef("give one .csv or .jsonl file, as in dptrain %s", example)
		}
		return nil
	}
}
