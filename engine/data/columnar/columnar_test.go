package columnar

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/dptrain/dptrain/engine/data"
)

// fields are columns of all types that are read, and nested ones.
var fields = []arrow.Field{
	{Name: "age", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	{Name: "income", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	{Name: "height", Type: arrow.PrimitiveTypes.Float32},
	{Name: "half", Type: arrow.FixedWidthTypes.Float16},
	{Name: "bytes", Type: arrow.PrimitiveTypes.Uint8},
	{Name: "price", Type: &arrow.Decimal128Type{Precision: 12, Scale: 2}, Nullable: true},
	{Name: "sex", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "city", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}},
	{Name: "member", Type: arrow.FixedWidthTypes.Boolean},
	{Name: "flag", Type: arrow.FixedWidthTypes.Boolean},
	{Name: "joined", Type: arrow.FixedWidthTypes.Date32, Nullable: true},
	{Name: "seen", Type: &arrow.TimestampType{Unit: arrow.Microsecond}},
	{Name: "grade", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	{Name: "list", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64)},
	{Name: "pair", Type: arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int64}, arrow.Field{Name: "y", Type: arrow.PrimitiveTypes.Int64})},
	{Name: "label", Type: arrow.BinaryTypes.String},
}

// tableSchema describes fields.
var tableSchema = data.Schema{
	Label: "label", Classes: []string{"no", "yes"},
	Bounds:     map[string]data.Bounds{"age": {0, 100}, "income": {0, 1e6}, "height": {1, 2}, "half": {0, 4}, "bytes": {0, 255}, "price": {-100, 100}, "flag": {0, 1}},
	Vocabulary: map[string][]string{"sex": {"f", "m"}, "city": {"Köln", "Ulm"}, "member": {"False", "True"}, "grade": {"1.0", "2.0", "2.5"}},
	Dates:      map[string]data.DateBounds{"joined": {day(2000, 1, 1), day(2030, 1, 1)}, "seen": {day(2000, 1, 1), day(2030, 1, 1)}},
	Ignore:     []string{"list", "pair"},
	Missing:    map[string]data.Missing{"age": data.MissingIndicator},
}

func day(y, m, d int) time.Time { return time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC) }

// table returns rows of fields, and the same as CSV in the form of pandas.
func table(t testing.TB, rows int) (arrow.Table, string) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	columns := arrow.NewSchema(fields, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, columns)
	var csv strings.Builder
	for _, f := range fields[:len(fields)-3] {
		csv.WriteString(f.Name + ",")
	}
	csv.WriteString("list,pair,label\n")
	for i := range rows {
		cells := appendRow(b, r, i)
		csv.WriteString(strings.Join(cells, ",") + "\n")
	}
	batch := b.NewRecordBatch()
	return array.NewTableFromRecords(columns, []arrow.RecordBatch{batch}), csv.String()
}

// appendRow appends a row and returns its cells.
func appendRow(b *array.RecordBuilder, r *rand.Rand, i int) (cells []string) {
	add := func(missing bool, k int, set func(), text string) {
		if missing {
			b.Field(k).AppendNull()
			text = ""
		} else {
			set()
		}
		cells = append(cells, text)
	}
	age, income, height, half := r.Int64N(120), 1e6*r.Float64(), float32(1+r.Float64()), float16.New(float32(r.IntN(8))/2)
	add(i%7 == 3, 0, func() { b.Field(0).(*array.Int64Builder).Append(age) }, fmt.Sprint(age))
	add(i%5 == 1, 1, func() { b.Field(1).(*array.Float64Builder).Append(income) }, fmt.Sprint(income))
	add(false, 2, func() { b.Field(2).(*array.Float32Builder).Append(height) }, fmt.Sprint(height))
	add(false, 3, func() { b.Field(3).(*array.Float16Builder).Append(half) }, fmt.Sprint(half.Float32()))
	add(false, 4, func() { b.Field(4).(*array.Uint8Builder).Append(uint8(i)) }, fmt.Sprint(uint8(i)))
	cents := r.Int64N(20000) - 10000
	add(i%9 == 2, 5, func() { b.Field(5).(*array.Decimal128Builder).Append(decimal128.FromI64(cents)) }, fmt.Sprintf("%.2f", float64(cents)/100))
	sex := []string{"f", "m", "x"}[r.IntN(3)]
	add(i%6 == 4, 6, func() { b.Field(6).(*array.StringBuilder).Append(sex) }, sex)
	city := []string{"Köln", "Ulm"}[r.IntN(2)]
	add(false, 7, func() { b.Field(7).(*array.BinaryDictionaryBuilder).AppendString(city) }, city)
	member, flag := r.IntN(2) == 0, r.IntN(2) == 0
	add(false, 8, func() { b.Field(8).(*array.BooleanBuilder).Append(member) }, map[bool]string{false: "False", true: "True"}[member])
	add(false, 9, func() { b.Field(9).(*array.BooleanBuilder).Append(flag) }, map[bool]string{false: "0", true: "1"}[flag])
	joined := day(1995, 1, 1).AddDate(0, 0, r.IntN(15000))
	add(i%8 == 5, 10, func() { b.Field(10).(*array.Date32Builder).Append(arrow.Date32FromTime(joined)) }, joined.Format(time.DateOnly))
	seen := day(2001, 1, 1).Add(time.Duration(r.Int64N(1e9)) * time.Microsecond * 500)
	add(false, 11, func() {
		b.Field(11).(*array.TimestampBuilder).Append(arrow.Timestamp(seen.UnixMicro()))
	}, seen.Format("2006-01-02 15:04:05.000000"))
	grade := []float64{1, 2, 2.5}[r.IntN(3)]
	add(i%5 == 2, 12, func() { b.Field(12).(*array.Float64Builder).Append(grade) }, map[float64]string{1: "1.0", 2: "2.0", 2.5: "2.5"}[grade])
	list := b.Field(13).(*array.ListBuilder)
	list.Append(true)
	for range i % 3 {
		list.ValueBuilder().(*array.Int64Builder).Append(int64(i))
	}
	pair := b.Field(14).(*array.StructBuilder)
	pair.Append(true)
	pair.FieldBuilder(0).(*array.Int64Builder).Append(1)
	pair.FieldBuilder(1).(*array.Int64Builder).Append(2)
	label := []string{"no", "yes", "unknown"}[r.IntN(20)/9]
	cells = append(cells, "", "")
	add(false, 15, func() { b.Field(15).(*array.StringBuilder).Append(label) }, label)
	return cells
}

// parquetBytes writes a Parquet file with row groups of 130 rows.
func parquetBytes(t testing.TB, table arrow.Table, options ...parquet.WriterProperty) []byte {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	var nodes schema.FieldList
	for _, f := range table.Schema().Fields() {
		nodes = append(nodes, parquetNode(t, f))
	}
	root, err := schema.NewGroupNode("schema", parquet.Repetitions.Required, nodes, -1)
	must(err)
	var b bytes.Buffer
	w := file.NewParquetWriter(&b, root, file.WithWriterProps(parquet.NewWriterProperties(append(options, parquet.WithDataPageSize(500))...)))
	for rows := array.NewTableReader(table, 130); rows.Next(); {
		group, batch := w.AppendRowGroup(), rows.RecordBatch()
		for k := range int(batch.NumCols()) {
			if pair, ok := batch.Column(k).(*array.Struct); ok {
				must(writeColumn(group, pair.Field(0)))
				must(writeColumn(group, pair.Field(1)))
				continue
			}
			must(writeColumn(group, batch.Column(k)))
		}
		must(group.Close())
	}
	must(w.Close())
	return b.Bytes()
}

// parquetNode returns the description of a column. Dictionaries are words.
func parquetNode(t testing.TB, f arrow.Field) schema.Node {
	t.Helper()
	repetition := parquet.Repetitions.Required
	if f.Nullable {
		repetition = parquet.Repetitions.Optional
	}
	primitive := func(name string, logical schema.LogicalType, physical parquet.Type, length int) schema.Node {
		node, err := schema.NewPrimitiveNodeLogical(name, repetition, logical, physical, length, -1)
		if err != nil {
			t.Fatal(err)
		}
		return node
	}
	group := func(repetition parquet.Repetition, name string, logical schema.LogicalType, fields ...schema.Node) schema.Node {
		node, err := schema.NewGroupNode(name, repetition, fields, -1)
		if logical != nil {
			node, err = schema.NewGroupNodeLogical(name, repetition, fields, logical, -1)
		}
		if err != nil {
			t.Fatal(err)
		}
		return node
	}
	switch dt := f.Type.(type) {
	case *arrow.Int64Type:
		return primitive(f.Name, schema.NewIntLogicalType(64, true), parquet.Types.Int64, -1)
	case *arrow.Uint8Type:
		return primitive(f.Name, schema.NewIntLogicalType(8, false), parquet.Types.Int32, -1)
	case *arrow.Float64Type:
		return primitive(f.Name, schema.NoLogicalType{}, parquet.Types.Double, -1)
	case *arrow.Float32Type:
		return primitive(f.Name, schema.NoLogicalType{}, parquet.Types.Float, -1)
	case *arrow.Float16Type:
		return primitive(f.Name, schema.Float16LogicalType{}, parquet.Types.FixedLenByteArray, 2)
	case *arrow.Decimal128Type:
		return primitive(f.Name, schema.NewDecimalLogicalType(dt.Precision, dt.Scale), parquet.Types.FixedLenByteArray, 6)
	case *arrow.BooleanType:
		return primitive(f.Name, schema.NoLogicalType{}, parquet.Types.Boolean, -1)
	case *arrow.Date32Type:
		return primitive(f.Name, schema.DateLogicalType{}, parquet.Types.Int32, -1)
	case *arrow.TimestampType:
		return primitive(f.Name, schema.NewTimestampLogicalType(false, schema.TimeUnitMicros), parquet.Types.Int64, -1)
	case *arrow.ListType:
		return group(parquet.Repetitions.Optional, f.Name, schema.NewListLogicalType(), group(parquet.Repetitions.Repeated, "list", nil, primitive("element", schema.NoLogicalType{}, parquet.Types.Int64, -1)))
	case *arrow.StructType:
		return group(parquet.Repetitions.Required, f.Name, nil, primitive("x", schema.NoLogicalType{}, parquet.Types.Int64, -1), primitive("y", schema.NoLogicalType{}, parquet.Types.Int64, -1))
	}
	return primitive(f.Name, schema.StringLogicalType{}, parquet.Types.ByteArray, -1)
}

// writeColumn writes a column chunk.
func writeColumn(group file.SerialRowGroupWriter, values arrow.Array) error {
	w, err := group.NextColumn()
	if err != nil {
		return err
	}
	var levels []int16
	for i := range values.Len() {
		levels = append(levels, int16(1))
		if values.IsNull(i) {
			levels[i] = 0
		}
	}
	switch w := w.(type) {
	case *file.Int64ColumnChunkWriter:
		var all []int64
		switch v := values.(type) {
		case *array.Int64:
			all = present(v, func(i int) int64 { return v.Value(i) })
		case *array.Timestamp:
			all = present(v, func(i int) int64 { return int64(v.Value(i)) })
		case *array.List: // [], [1] or [2, 2]
			var repetitions []int16
			levels = nil
			for i := range v.Len() {
				from, to := v.ValueOffsets(i)
				if from == to {
					levels, repetitions = append(levels, 1), append(repetitions, 0)
				}
				for j := from; j < to; j++ {
					all, levels, repetitions = append(all, v.ListValues().(*array.Int64).Value(int(j))), append(levels, 2), append(repetitions, int16(min(1, j-from)))
				}
			}
			_, err = w.WriteBatch(all, levels, repetitions)
			return errors.Join(err, w.Close())
		}
		_, err = w.WriteBatch(all, levels, nil)
	case *file.Int32ColumnChunkWriter:
		_, err = w.WriteBatch(present(values, func(i int) int32 {
			if v, ok := values.(*array.Date32); ok {
				return int32(v.Value(i))
			}
			return int32(values.(*array.Uint8).Value(i))
		}), levels, nil)
	case *file.Float64ColumnChunkWriter:
		_, err = w.WriteBatch(present(values, values.(*array.Float64).Value), levels, nil)
	case *file.Float32ColumnChunkWriter:
		_, err = w.WriteBatch(present(values, values.(*array.Float32).Value), levels, nil)
	case *file.BooleanColumnChunkWriter:
		_, err = w.WriteBatch(present(values, values.(*array.Boolean).Value), levels, nil)
	case *file.ByteArrayColumnChunkWriter:
		_, err = w.WriteBatch(present(values, func(i int) parquet.ByteArray {
			if v, ok := values.(*array.Dictionary); ok {
				return parquet.ByteArray(v.Dictionary().(*array.String).Value(v.GetValueIndex(i)))
			}
			return parquet.ByteArray(values.(*array.String).Value(i))
		}), levels, nil)
	case *file.FixedLenByteArrayColumnChunkWriter:
		_, err = w.WriteBatch(present(values, func(i int) parquet.FixedLenByteArray {
			if v, ok := values.(*array.Float16); ok {
				return v.Value(i).ToLEBytes()
			}
			cents := values.(*array.Decimal128).Value(i).LowBits()
			return binary.BigEndian.AppendUint64(nil, cents)[2:]
		}), levels, nil)
	}
	return errors.Join(err, w.Close())
}

// present returns the values that are not null.
func present[T any](values arrow.Array, value func(i int) T) (all []T) {
	for i := range values.Len() {
		if !values.IsNull(i) {
			all = append(all, value(i))
		}
	}
	return all
}

// arrowBytes writes an Arrow file with batches of 130 rows.
func arrowBytes(t testing.TB, table arrow.Table, options ...ipc.Option) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := ipc.NewFileWriter(&b, append(options, ipc.WithSchema(table.Schema()))...)
	if err != nil {
		t.Fatal(err)
	}
	for rows := array.NewTableReader(table, 130); rows.Next(); {
		if err := w.Write(rows.RecordBatch()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// allFiles returns a table in all formats and compressions, by name.
func allFiles(t testing.TB, table arrow.Table) map[string][]byte {
	t.Helper()
	all := map[string][]byte{
		"v2.parquet":           parquetBytes(t, table, parquet.WithDataPageVersion(parquet.DataPageV2), parquet.WithCompression(compress.Codecs.Zstd)),
		"no dictionary.pq":     parquetBytes(t, table, parquet.WithDictionaryDefault(false)),
		"delta.parquet":        parquetBytes(t, table, parquet.WithDictionaryDefault(false), parquet.WithEncodingFor("age", parquet.Encodings.DeltaBinaryPacked), parquet.WithEncodingFor("income", parquet.Encodings.ByteStreamSplit), parquet.WithEncodingFor("sex", parquet.Encodings.DeltaByteArray)),
		"file.feather":         arrowBytes(t, table),
		"lz4.feather":          arrowBytes(t, table, ipc.WithLZ4()),
		"zstd.arrow":           arrowBytes(t, table, ipc.WithZstd()),
		"a name without a dot": parquetBytes(t, table),
		"unusual.dat":          arrowBytes(t, table),
	}
	for name, codec := range map[string]compress.Compression{"none": compress.Codecs.Uncompressed, "snappy": compress.Codecs.Snappy, "gzip": compress.Codecs.Gzip, "lz4": compress.Codecs.Lz4Raw, "brotli": compress.Codecs.Brotli} {
		all[name+".parquet"] = parquetBytes(t, table, parquet.WithCompression(codec))
	}
	return all
}

// contents returns all numbers of a set, and which examples are blank.
func contents(t testing.TB, s data.Set) (values [][]float32, blank []bool) {
	t.Helper()
	rows := make([]int, s.Len())
	for i := range rows {
		rows[i] = i
	}
	for _, c := range s.Columns() {
		values = append(values, make([]float32, s.Len()*c.Size()))
	}
	if err := s.Read(values, rows); err != nil {
		t.Fatal(err)
	}
	return values, data.Blank(s)
}

func write(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// A table has the same examples, the same report and the same schema in all formats.
func TestOpen_SameAsCSV(t *testing.T) {
	rows, csv := table(t, 400)
	csvFile := write(t, "a.csv", []byte(csv))
	want, err := data.Open(csvFile, data.Options{Schema: tableSchema})
	if err != nil {
		t.Fatal(err)
	}
	values, blank := contents(t, want.Train)
	if len(blank) != 400 || !slices.Contains(blank, true) || !slices.Contains(blank, false) {
		t.Fatalf("%d examples, blank %v", len(blank), blank)
	}
	report, err := data.CheckSchema(csvFile, tableSchema)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range allFiles(t, rows) {
		file := write(t, name, content)
		got, err := data.Open(file, data.Options{Schema: tableSchema, Test: csvFile, OnBadRow: data.BlankBadRows})
		if err == nil || !strings.Contains(err.Error(), "the label is not one of") {
			t.Errorf("%s: a public test file with unknown labels: %v", name, err)
		}
		if got, err = data.Open(file, data.Options{Schema: tableSchema}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		same, sameBlank := contents(t, got.Train)
		if !slices.EqualFunc(values, same, slices.Equal) || !slices.Equal(blank, sameBlank) || !slices.Equal(got.Schema.Inputs, want.Schema.Inputs) {
			t.Errorf("%s: the examples differ from those of CSV", name)
		}
		checked, err := data.CheckSchema(file, tableSchema)
		if err != nil || fmt.Sprint(checked.Findings()) != fmt.Sprint(report.Findings()) || checked.BlankRows != report.BlankRows {
			t.Errorf("%s: %v, reports %+v, CSV %+v", name, err, checked, report)
		}
		_, err = data.Open(file, data.Options{Schema: tableSchema, OnBadRow: data.FailOnBadRow})
		if err == nil || !strings.Contains(err.Error(), `column "label"`) || !strings.Contains(err.Error(), "PRIVATE") {
			t.Errorf("%s: a bad row: %v", name, err)
		}
	}
}

// One schema with a decimal comma and another form of dates describes CSV and Parquet.
func TestOpen_SchemaOfGermanCSV(t *testing.T) {
	rows, csv := table(t, 50)
	var german strings.Builder
	for line := range strings.Lines(csv) {
		cells := strings.Split(strings.TrimSpace(line), ",")
		for i, c := range cells {
			if joined, err := time.Parse(time.DateOnly, c); err == nil {
				cells[i] = joined.Format("02.01.2006")
			} else if i < 6 {
				cells[i] = strings.ReplaceAll(c, ".", ",")
			}
		}
		german.WriteString(strings.Join(cells, ";") + "\n")
	}
	s := tableSchema
	s.Separator, s.Decimal, s.DateFormat, s.Dates = "semicolon", ",", "DD.MM.YYYY", map[string]data.DateBounds{"joined": s.Dates["joined"]}
	s.Ignore = []string{"list", "pair", "seen"}
	want, err := data.Open(write(t, "a.csv", []byte(german.String())), data.Options{Schema: s})
	if err != nil {
		t.Fatal(err)
	}
	values, _ := contents(t, want.Train)
	got, err := data.Open(write(t, "a.parquet", parquetBytes(t, rows)), data.Options{Schema: s})
	if err != nil {
		t.Fatal(err)
	}
	if same, _ := contents(t, got.Train); !slices.EqualFunc(values, same, slices.Equal) {
		t.Error("the examples differ")
	}
}

// A schema from a public file has the same text as that from CSV, apart from its introduction and the
// nested columns; that of a private file has names and no values.
func TestSchemaSkeleton_OfColumnarFile(t *testing.T) {
	rows, csv := table(t, 400)
	skeleton := func(name string, content []byte, public bool) string {
		text, err := data.SchemaSkeleton(write(t, name, content), data.SkeletonOptions{Label: "label", Public: public})
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ = strings.Cut(text, "\nlabel:")
		return text
	}
	want := skeleton("a.csv", []byte(csv), true)
	want = want[:strings.Index(want, "\nignore:")]
	for name, content := range allFiles(t, rows) {
		got := skeleton(name, content, true)
		const nested = "\nignore:\n  - list  # it is nested (lists, maps or records)\n  - pair  # it is nested (lists, maps or records)\n"
		// As a word, Parquet's 1 is that of a whole number; as a boolean, flag is one of words.
		same := strings.NewReplacer("flag: [\"0\", \"1\"]", "flag: [\"False\", \"True\"]", "\n  grade: [1, 3]", "\n  grade: [1, 3]").Replace(want)
		if !strings.HasSuffix(got, nested) || sections(got)["bounds"] != sections(same)["bounds"] || sections(got)["dates"] != sections(same)["dates"] {
			t.Errorf("%s:\n%s\nCSV:\n%s", name, got, want)
		}
		private := skeleton(name, content, false)
		if strings.Contains(private, "Köln") || strings.Contains(private, "120") || !strings.Contains(private, "  - list  # it is nested") || !strings.Contains(private, "  # age: [LOW, HIGH]") {
			t.Errorf("%s, private:\n%s", name, private)
		}
	}
}

// sections returns the lines of a schema by key, without the columns that Parquet writes as
// truth values.
func sections(text string) map[string]string {
	all, key := map[string]string{}, ""
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, " ") {
			key = strings.TrimSuffix(strings.TrimSpace(line), ":")
		} else if !strings.HasPrefix(line, "  flag") {
			all[key] += line
		}
	}
	return all
}

func TestOpen_RefusesColumns(t *testing.T) {
	rows, _ := table(t, 20)
	for name, content := range map[string][]byte{"a.parquet": parquetBytes(t, rows), "a.feather": arrowBytes(t, rows)} {
		for column, want := range map[string]string{"list": `column "list" is nested`, "pair": `column "pair" is nested`} {
			s := tableSchema
			s.Ignore = slices.DeleteFunc([]string{"list", "pair"}, func(c string) bool { return c == column })
			s.Bounds, s.Missing, s.Vocabulary, s.Dates = map[string]data.Bounds{column: {0, 1}}, nil, nil, nil
			s.Ignore = append(s.Ignore, "*")
			_, err := data.Open(write(t, name, content), data.Options{Schema: s})
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s, %s: %v", name, column, err)
			}
		}
		s := tableSchema
		s.Label = "lable"
		_, err := data.Open(write(t, name, content), data.Options{Schema: s})
		if err == nil || !strings.Contains(err.Error(), `no label "lable"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A cell that is too long makes its own record blank, and changes no other.
func TestOpen_LongCell(t *testing.T) {
	columns := arrow.NewSchema([]arrow.Field{{Name: "word", Type: arrow.BinaryTypes.String}, {Name: "label", Type: arrow.BinaryTypes.String}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, columns)
	for i := range 100 {
		word := "a"
		if i == 50 {
			word = strings.Repeat("a", 3<<20)
		}
		b.Field(0).(*array.StringBuilder).Append(word)
		b.Field(1).(*array.StringBuilder).Append("no")
	}
	rows := array.NewTableFromRecords(columns, []arrow.RecordBatch{b.NewRecordBatch()})
	for name, content := range map[string][]byte{"a.parquet": parquetBytes(t, rows), "a.feather": arrowBytes(t, rows, ipc.WithZstd())} {
		task, err := data.Open(write(t, name, content), data.Options{Schema: data.Schema{Label: "label", Classes: []string{"no", "yes"}, Vocabulary: map[string][]string{"word": {"a"}}}})
		if err != nil {
			t.Fatal(err)
		}
		values, blank := contents(t, task.Train)
		for i, isBlank := range blank {
			if isBlank != (i == 50) || !isBlank && values[0][3*i] != 1 {
				t.Errorf("%s: example %d: blank %v, %v", name, i, isBlank, values[0][3*i:3*i+3])
			}
		}
	}
}

// openAll does everything with a file that dptrain does before training. Its errors have one line.
func openAll(t testing.TB, name string, content []byte) (errs []error) {
	t.Helper()
	path := write(t, name, content)
	_, err := data.Open(path, data.Options{Schema: tableSchema})
	errs = append(errs, err)
	_, err = data.SchemaSkeleton(path, data.SkeletonOptions{Public: true})
	errs = append(errs, err)
	for _, err := range errs {
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("several lines: %q", err)
		}
	}
	return errs
}

// damage changes some bytes of a file, cuts it, or repeats a part.
func damage(r *rand.Rand, content []byte) []byte {
	b := slices.Clone(content)
	for range 1 + r.IntN(4) {
		// Most of the structure is at the ends.
		at := r.IntN(len(b))
		if r.IntN(2) == 0 {
			at = len(b) - 1 - r.IntN(min(len(b), 2500))
		}
		switch r.IntN(6) {
		case 0, 1:
			b[at] ^= 1 << r.IntN(8)
		case 2:
			b[at] = []byte{0, 0xff, 0x7f, 0x80}[r.IntN(4)]
		case 3:
			if at+8 <= len(b) {
				binary.LittleEndian.PutUint64(b[at:], []uint64{1 << 62, 1<<63 - 1, 1 << 31, 1<<32 - 1, 0, 1 << 63}[r.IntN(6)])
			}
		case 4:
			b = slices.Delete(b, at, min(len(b), at+1+r.IntN(16)))
		case 5:
			b = slices.Insert(b, at, b[max(0, at-r.IntN(16)):at]...)
		}
	}
	return b
}

// A damaged file gives one line or other values, never a panic, and takes limited memory.
func TestOpen_DamagedFiles(t *testing.T) {
	rounds := 15
	if os.Getenv("DPTRAIN_FULL") != "" {
		rounds = 1000
	}
	r := rand.New(rand.NewPCG(3, uint64(rounds)))
	rows, _ := table(t, 300)
	var before, after runtime.MemStats
	for name, content := range allFiles(t, rows) {
		if !strings.Contains(name, ".") {
			continue
		}
		refused := 0
		for range rounds {
			runtime.ReadMemStats(&before)
			if errs := openAll(t, name, damage(r, content)); errs[0] != nil {
				refused++
			}
			runtime.ReadMemStats(&after)
			if taken := after.TotalAlloc - before.TotalAlloc; taken > 3*maxBatchBytes {
				t.Errorf("%s: a damaged file takes %d MB", name, taken>>20)
			}
		}
		if refused == 0 {
			t.Errorf("%s: no damaged file was refused", name)
		}
		for _, length := range []int{0, 1, 8, 12, len(content) / 2, len(content) - 1} {
			if errs := openAll(t, name, content[:length]); errs[0] == nil {
				t.Errorf("%s: the first %d of %d bytes are read without an error", name, length, len(content))
			}
		}
	}
}

func FuzzOpen(f *testing.F) {
	rows, _ := table(f, 30)
	for name, content := range allFiles(f, rows) {
		f.Add(strings.HasSuffix(name, ".feather") || strings.Contains(name, "arrow"), content)
	}
	f.Fuzz(func(t *testing.T, arrow bool, content []byte) {
		name := "a.parquet"
		if arrow {
			name = "a.arrow"
		}
		openAll(t, name, content)
	})
}

// A batch that announces more memory than a batch may have is refused before it is allocated.
func TestOpen_LargeBatch(t *testing.T) {
	columns := arrow.NewSchema([]arrow.Field{{Name: "age", Type: arrow.PrimitiveTypes.Float64}, {Name: "label", Type: arrow.BinaryTypes.String}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, columns)
	for range 5000 {
		b.Field(0).(*array.Float64Builder).Append(0)
		b.Field(1).(*array.StringBuilder).Append("no")
	}
	content := arrowBytes(t, array.NewTableFromRecords(columns, []arrow.RecordBatch{b.NewRecordBatch()}), ipc.WithZstd())
	size := binary.LittleEndian.AppendUint64(nil, 130*8) // of the numbers of a batch, before they were compressed
	at := bytes.Index(content, append(size, "\x28\xb5\x2f\xfd"...))
	if at < 0 {
		t.Fatal("the file has no compressed numbers")
	}
	binary.LittleEndian.PutUint64(content[at:], maxBatchBytes)
	s := data.Schema{Label: "label", Classes: []string{"no", "yes"}, Bounds: map[string]data.Bounds{"age": {-1, 1}}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := data.Open(write(t, "a.arrow", content), data.Options{Schema: s})
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "a batch has more than 1 GiB") {
		t.Errorf("error %v", err)
	}
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 50<<20 {
		t.Errorf("%d MB", taken>>20)
	}
}

func TestRequireMagic(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "does not begin like",
		"age,label\n1,no\n":        "does not begin like",
		"\x1f\x8b\x08\x00":         "gunzip",
		"FEA1\x00\x00\x00\x00abc":  "version 1 of Feather",
		"\xff\xff\xff\xff\x00\x00": "streams are not read",
		"PAREabcdabcdabcd":         "encrypted",
	} {
		for _, name := range []string{"a.parquet", "a.feather"} {
			_, err := data.Open(write(t, name, []byte(text)), data.Options{Schema: tableSchema})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s with %q: %v", name, text, err)
			}
		}
	}
}

func TestCatch_PassesErrors(t *testing.T) {
	f := func() (err error) {
		defer catch(&err)
		return os.ErrNotExist
	}
	g := func() (err error) {
		defer catch(&err)
		panic("secret")
	}
	if !errors.Is(f(), os.ErrNotExist) || !errors.Is(g(), errDamaged) {
		t.Errorf("%v, %v", f(), g())
	}
}
