package main

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	arrays "github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// columnarBytes writes columns of texts as a Parquet or a Feather file. "" is a cell without a value.
func columnarBytes(t *testing.T, format string, names []string, rows [][]string) []byte {
	t.Helper()
	write := parquetTexts
	if format == "feather" {
		write = featherTexts
	}
	content, err := write(names, rows)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func featherTexts(names []string, rows [][]string) ([]byte, error) {
	var fields []arrow.Field
	for _, name := range names {
		fields = append(fields, arrow.Field{Name: name, Type: arrow.BinaryTypes.String, Nullable: true})
	}
	columns := arrow.NewSchema(fields, nil)
	b := arrays.NewRecordBuilder(memory.DefaultAllocator, columns)
	for _, row := range rows {
		for k, cell := range row {
			if cell == "" {
				b.Field(k).AppendNull()
			} else {
				b.Field(k).(*arrays.StringBuilder).Append(cell)
			}
		}
	}
	var content bytes.Buffer
	w, err := ipc.NewFileWriter(&content, ipc.WithSchema(columns), ipc.WithZstd())
	if err != nil {
		return nil, err
	}
	err = errors.Join(w.Write(b.NewRecordBatch()), w.Close())
	return content.Bytes(), err
}

func parquetTexts(names []string, rows [][]string) ([]byte, error) {
	var nodes schema.FieldList
	for _, name := range names {
		nodes = append(nodes, schema.MustPrimitive(schema.NewPrimitiveNodeLogical(name, parquet.Repetitions.Optional, schema.StringLogicalType{}, parquet.Types.ByteArray, -1, -1)))
	}
	var content bytes.Buffer
	w := file.NewParquetWriter(&content, schema.MustGroup(schema.NewGroupNode("schema", parquet.Repetitions.Required, nodes, -1)))
	group := w.AppendRowGroup()
	for k := range names {
		column, err := group.NextColumn()
		if err != nil {
			return nil, err
		}
		var values []parquet.ByteArray
		levels := make([]int16, len(rows))
		for i, row := range rows {
			if row[k] != "" {
				values, levels[i] = append(values, parquet.ByteArray(row[k])), 1
			}
		}
		_, err = column.(*file.ByteArrayColumnChunkWriter).WriteBatch(values, levels, nil)
		if err := errors.Join(err, column.Close()); err != nil {
			return nil, err
		}
	}
	err := errors.Join(group.Close(), w.Close())
	return content.Bytes(), err
}

// train, eval, predict and schema read columnar files, also one whose name does not say so; damaged
// ones end with exit code 2 and one line.
func TestColumnarFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	rows := [][]string{}
	for i := range 60 {
		rows = append(rows, []string{[]string{"10", "80", ""}[i%3], []string{"no", "yes", "no"}[i%3]})
	}
	for _, format := range []string{"parquet", "feather"} {
		name := "people." + format
		content := columnarBytes(t, format, []string{"age", "label"}, rows)
		for _, file := range []string{name, "test." + format, "plain-" + format} {
			if err := os.WriteFile(file, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		line := "train --data " + name + " --test test." + format + " --label label --classes no,yes --bounds age=0:100 --model logistic --steps 2 --lot 20 --noise 1 --delta 1e-3 --accountant rdp --out " + format
		if v := runJSON(t, line); v["test_examples"] != 60.0 {
			t.Errorf("%s: %v", format, v["test_examples"])
		}
		if v := runJSON(t, "eval "+format+" --data plain-"+format); v["examples"] != 60.0 {
			t.Errorf("%s: eval %v", format, v)
		}
		if stdout, stderr, code := dptrain("predict " + format + " --data test." + format); code != 0 || bytes.Count([]byte(stdout), []byte("\n")) != 61 {
			t.Errorf("%s: predict: exit %d, %s", format, code, stderr)
		}
		if stdout, _, code := dptrain("schema " + name + " --label label"); code != 0 || !bytes.Contains([]byte(stdout), []byte("# age: [LOW, HIGH]")) {
			t.Errorf("%s: schema: exit %d, %s", format, code, stdout)
		}
		if err := os.WriteFile(name, content[:len(content)-20], 0o644); err != nil {
			t.Fatal(err)
		}
		if _, stderr, code := dptrain(line + "2"); code != 2 || bytes.Count([]byte(stderr), []byte("\n")) != 1 {
			t.Errorf("%s: damaged: exit %d, %s", format, code, stderr)
		}
	}
}
