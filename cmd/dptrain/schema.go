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
	cmd := &cobra.Command{
		Use:   "schema FILE",
		Short: "Write a schema for a table, to finish and to give to train --schema",
		Long: `Write a YAML schema for a table (CSV, JSONL, Parquet, Feather or Arrow) to standard output.
A schema describes each column: the label and its classes, or the target; the bounds of numbers; the
words; the columns that are not used. docs/own-data.md explains it.

Without --public the file is private. dptrain then reads the names of the columns (of a CSV
file the first line) and no row. You complete the schema from public knowledge. The first line must
contain names: it is printed. JSONL has its names in the rows, so it needs --public.

With --public you declare that the file is public, such as a published sample or public test
data. The bounds, words and classes then come from its rows. Do not use --public for a private
file: the guarantee of a run does not cover what its schema reveals about the rows. With
--label or --target the schema is complete.`,
		Example: `  dptrain schema people.csv > people.yaml
  dptrain schema sample.csv --public --label income > people.yaml
  dptrain schema check sample.csv --schema people.yaml
  dptrain train --data people.csv --schema people.yaml`,
		Args: oneTable("schema people.csv"),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := terminal.Await(term, "Reading "+args[0], func() (string, error) { return data.SchemaSkeleton(args[0], o) })
			if err != nil {
				return exitcode.AsUsage(err)
			}
			if term.JSON {
				return term.Print(map[string]any{"schema": text, "public": o.Public}, "", nil)
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
		Use:   "check FILE",
		Short: "Compare the rows of a public table with a schema",
		Long: `Count the cells of a public table that do not fit a schema. FILE must be public, such as a
published sample or public test data: the report is a function of its rows, and no guarantee
covers it. The report of a private file is as private as the file.

outside: numbers outside the bounds, which training clamps. unknown: words that the
vocabulary does not list, which training treats as one word; for a label, unknown classes.
not a number: words in a column of numbers. empty: cells without content. constant: all cells
are equal, so the column is of no use. distribution: how many numbers lie in each part of the
interval between the bounds, or how many cells have each word. A row becomes blank in training, and contributes
nothing, if its label is unknown, if a cell of a column of numbers or dates is neither such nor
without a value, if a cell is without a value and the schema has missing: blank, or if it
does not have the columns of the schema.

A line a column states what leaves the bounds or the vocabulary, and is a warning above 5%.

Findings do not change the exit code. With --quiet the command prints their number.`,
		Example: `  dptrain schema check sample.csv --schema people.yaml
  dptrain schema check more.jsonl --schema people.yaml --json`,
		Args: oneTable("schema check sample.csv --schema people.yaml"),
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

// oneTable requires one argument, a table; example shows how to write it.
func oneTable(example string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return exitcode.Usagef("give one .csv or .jsonl file, as in dptrain %s", example)
		}
		return nil
	}
}
