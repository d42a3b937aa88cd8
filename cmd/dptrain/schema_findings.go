package main

import (
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/engine/data"
)

// compareTestFile compares the public test file of a table with the schema. A wrong schema has no
// other symptom than a worse model. The findings are nil if no file is compared.
func compareTestFile(term *terminal.Terminal, spec *settings.Spec) ([]data.SchemaFinding, error) {
	file := spec.Flags.Test
	if spec.Task.Split != nil {
		return data.StateFindings(spec.Task.Test, spec.Task.Schema), nil
	}
	if file == "" || len(spec.Task.Schema.InputColumns()) == 0 {
		return nil, nil
	}
	report, err := terminal.Await(term, "Comparing "+file+" with the schema", func() (*data.SchemaReport, error) {
		return data.CheckSchema(file, spec.Task.Schema)
	})
	if err != nil {
		return nil, err
	}
	return report.Findings(), nil
}

// announceSchema prints what the run does with cells that have no value or leave the schema.
func announceSchema(term *terminal.Terminal, spec *settings.Spec) {
	if text := spec.Task.Schema.DescribeText(); text != "" {
		term.Note("Text of %s: %s (--tokens and --length change it).", spec.Task.Schema.Text, text)
	}
	if template, err := spec.Task.Schema.RowTemplate(); err == nil {
		term.Note("Rows are texts such as %q; ? is a cell without a value, or a word outside the vocabulary. The text has these columns: %s.", template.Example(), strings.Join(template.Columns(), ", "))
		return
	}
	if len(spec.Task.Schema.InputColumns()) == 0 {
		return
	}
	if given, err := spec.Flags.ReadSchema(data.Schema{}); err == nil && len(given.Missing) == 0 {
		term.Note("Cells without a value: numbers count as the middle of their bounds, words as a word of their own (--missing changes it).")
	}
	if spec.Flags.Test == "" && spec.Task.Split == nil && !spec.Flags.ReleasesSchema() {
		term.Note("Nothing was compared with the schema: bounds and vocabulary are compared with public test data only (--test). --metric schema releases how many private records leave them, with noise.")
	}
	file := spec.Flags.Test
	if spec.Task.Split != nil {
		file = "the public part of " + spec.Task.Name
	}
	printFindings(term, file, spec.SchemaFindings)
}

// printFindings prints a line a column, as a warning if the schema is probably wrong.
func printFindings(term *terminal.Terminal, file string, findings []data.SchemaFinding) {
	for _, f := range findings {
		if f.Loud() {
			term.Warn("%s; in %s the column does not fit the schema, which clamps such numbers and makes one word of such words: correct the schema", f, file)
		} else {
			term.Note("%s", f)
		}
	}
}
