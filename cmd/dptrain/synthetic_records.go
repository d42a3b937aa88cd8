package main

import (
	"encoding/json"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"slices"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/prediction"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/host/atomicfile"
)

// mostTextsPerRecord limits the texts that are written for a record.
const mostTextsPerRecord = 20

// checkRecords checks the flags for synthetic records.
func (f *generateFlags) checkRecords(given func(flag string) bool) error {
	for _, name := range []string{"prompt", "number", "stop"} {
		if given(name) {
			return exitcode.Usagef("--%s is for texts, and --count writes records; drop one of them", name)
		}
	}
	switch {
	case f.count < 1:
		return exitcode.Usagef("--count %d: give at least 1", f.count)
	case !slices.Contains(prediction.FileFormats, f.format):
		return exitcode.Usagef("--format %s: write csv or jsonl", f.format)
	}
	return nil
}

// recordsResult is what generate --count prints.
type recordsResult struct {
	Records int    `json:"records"`
	Dropped int    `json:"dropped"` // texts that are no record of the schema
	Seed    uint64 `json:"seed"`
	Out     string `json:"out,omitempty"`
	// Rows are the records where no file is written.
	Rows []map[string]string `json:"rows,omitempty"`
}

// writeRecords writes synthetic records: texts that have the form of the training texts, and cells that the schema
// allows.
func (f *generateFlags) writeRecords(term *terminal.Terminal, w *writer, r *mathrand.Rand) error {
	template, err := w.schema.RowTemplate()
	if err != nil {
		return exitcode.AsUsage(err)
	}
	result := recordsResult{Seed: f.seed, Out: f.out}
	write := func(to io.Writer) error {
		out := prediction.NewWriter(to, f.format, template.Columns())
		for result.Records < f.count && result.Records+result.Dropped < mostTextsPerRecord*f.count {
			text, err := w.write(f, r)
			if err != nil {
				return err
			}
			cells, ok := template.Parse(text)
			if !ok {
				result.Dropped++
				continue
			}
			result.Records++
			if f.out == "" && term.JSON {
				result.Rows = append(result.Rows, named(template, cells))
				continue
			}
			if err := out.Write(typed(template, cells, w.schema)); err != nil {
				return err
			}
		}
		if f.out == "" && term.JSON {
			return nil
		}
		return out.Flush()
	}
	switch {
	case f.out != "":
		err = atomicfile.WriteFunc(f.out, write)
	default:
		err = write(term.Out)
	}
	if err != nil {
		return exitcode.AsUsage(err)
	}
	texts := result.Records + result.Dropped
	term.Note("%s of %s fit the schema; %d were dropped.", number.Plural(result.Records, "record"), number.Plural(texts, "text"), result.Dropped)
	if term.JSON {
		if err := term.Print(result, "", func(io.Writer) {}); err != nil {
			return err
		}
	}
	if result.Records < f.count {
		return fmt.Errorf("only %d of %d texts are records of the schema, and at most %d texts are written for a record; train longer, or with a larger ε or network", result.Records, texts, mostTextsPerRecord)
	}
	return nil
}

func named(t *data.RowTemplate, cells []string) map[string]string {
	row := map[string]string{}
	for k, name := range t.Columns() {
		row[name] = cells[k]
	}
	return row
}

// typed returns the cells of a row for a file.
func typed(t *data.RowTemplate, cells []string, s data.Schema) (row []any) {
	for k, cell := range cells {
		if t.IsNumber(k) && cell != "" && s.Decimal != "," {
			row = append(row, json.Number(cell))
		} else {
			row = append(row, cell)
		}
	}
	return row
}
