package main

import (
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/runspec"
	"github.com/dptrain/dptrain/internal/terminal"
)

// compareTestFile compares the public test file of a table with the schema, and prints the columns
// that leave it. A wrong schema has no other symptom than a worse model.
func compareTestFile(term *terminal.Terminal, spec *runspec.Spec) error {
	if len(spec.Task.Schema.InputColumns()) == 0 {
		return nil
	}
	noteMissingValues(term, spec)
	if spec.Flags.Test == "" {
		term.Note("Nothing was compared with the schema: bounds and vocabulary are compared with public test data only (--test).")
		return nil
	}
	report, err := terminal.Await(term, "Comparing "+spec.Flags.Test+" with the schema", func() (*data.SchemaReport, error) {
		return data.CheckSchema(spec.Flags.Test, spec.Task.Schema)
	})
	if err != nil {
		return err
	}
	spec.SchemaFindings = report.Findings()
	printFindings(term, spec.Flags.Test, spec.SchemaFindings)
	return nil
}

// printFindings prints a line a column, as a warning if the schema is probably wrong.
func printFindings(term *terminal.Terminal, file string, findings []data.SchemaFinding) {
	for _, f := range findings {
		if f.Loud() {
			term.Warn("%s; in %s the column does not fit the schema, which clamps such numbers and does not tell such words apart: correct the schema", f, file)
		} else {
			term.Note("%s", f)
		}
	}
}

// noteMissingValues says what cells without a value become, unless the user said it.
func noteMissingValues(term *terminal.Terminal, spec *runspec.Spec) {
	given, err := spec.Flags.ReadSchema(data.Schema{})
	if err != nil || len(given.Missing) > 0 {
		return
	}
	term.Note("Cells without a value: numbers count as the middle of their bounds, words as a word of their own (--missing changes it).")
}
