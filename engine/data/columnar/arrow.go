package columnar

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/dptrain/dptrain/engine/data"
)

// arrowFile is an open Arrow file, which Feather version 2 also is.
type arrowFile struct {
	columns
	metadata *arrowMetadata
	memory   *limitedMemory
	reader   *ipc.FileReader
	batches  int
}

// maxBatchBytes limits the memory of a batch, compressed and not compressed. The size of a batch
// follows from the writer and from the rows.
const maxBatchBytes = 1 << 30

const errBatchTooLong = sizeError("a batch has more than 1 GiB; write the file with smaller batches (pandas.DataFrame.to_feather writes batches of 65,536 rows)")

const arrowMagic = "ARROW1"

func openArrow(f data.ColumnarSource) (open data.ColumnarFile, err error) {
	defer catch(&err)
	if err := requireMagic(f, "Arrow or Feather", arrowMagic); err != nil {
		return nil, err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	a := &arrowFile{metadata: &arrowMetadata{file: f, size: size}, memory: &limitedMemory{}}
	if err := a.metadata.checkFooter(); err != nil {
		return nil, err
	}
	if a.reader, err = ipc.NewFileReader(f, ipc.WithAllocator(a.memory), ipc.WithBodySizeLimit(maxBatchBytes)); err != nil {
		return nil, describeArrow(err)
	}
	for _, field := range a.reader.Schema().Fields() {
		a.columns = append(a.columns, column{field.Name, refusedArrowType(field.Type)})
	}
	a.batches = a.reader.NumRecords()
	if len(a.columns) == 0 {
		return nil, errors.New("the file has no columns")
	}
	return a, nil
}

// describeArrow replaces an error of the library, also one that the library made from a panic.
func describeArrow(err error) error {
	if text := err.Error(); strings.Contains(text, "exceeds limit") || strings.Contains(text, string(errBatchTooLong)) {
		return errBatchTooLong
	}
	return errDamaged
}

// refusedArrowType returns the reason why values of a type are not read; "" if they are.
func refusedArrowType(t arrow.DataType) string {
	switch t := t.(type) {
	case *arrow.DictionaryType:
		return refusedArrowType(t.ValueType)
	case *arrow.NullType, *arrow.BooleanType, *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type, *arrow.Int64Type,
		*arrow.Uint8Type, *arrow.Uint16Type, *arrow.Uint32Type, *arrow.Uint64Type,
		*arrow.Float16Type, *arrow.Float32Type, *arrow.Float64Type,
		*arrow.StringType, *arrow.LargeStringType, *arrow.StringViewType,
		*arrow.Date32Type, *arrow.Date64Type, *arrow.Time32Type, *arrow.Time64Type,
		*arrow.TimestampType, *arrow.Decimal32Type, *arrow.Decimal64Type, *arrow.Decimal128Type, *arrow.Decimal256Type:
		return ""
	case arrow.NestedType:
		return "is nested (lists, maps or records)"
	case arrow.BinaryDataType, *arrow.FixedSizeBinaryType:
		return "has binary values"
	}
	return "has values of type " + t.Name()
}

// EachRow calls f with the cells of each row.
func (a *arrowFile) EachRow(columns []int, limit int, f func(row []data.Cell) error) error {
	row := make([]data.Cell, len(columns))
	for i := range a.batches {
		batch, err := a.readBatch(i)
		if err != nil {
			return err
		}
		if err := eachRowOfBatch(batch, row, columns, limit, f); err != nil {
			return err
		}
	}
	return nil
}

func (a *arrowFile) readBatch(i int) (batch arrow.RecordBatch, err error) {
	defer catch(&err)
	if err := a.metadata.checkBlock(3, i); err != nil {
		return nil, err
	}
	a.memory.used = 0
	if batch, err = a.reader.RecordBatchAt(i); err != nil {
		return nil, describeArrow(err)
	}
	if batch.NumRows() > 8*int64(a.memory.used) { // a value has at least a bit
		return nil, errDamaged
	}
	return batch, nil
}

func eachRowOfBatch(batch arrow.RecordBatch, row []data.Cell, columns []int, limit int, f func(row []data.Cell) error) error {
	read := func(i int64) (err error) {
		defer catch(&err)
		for j, k := range columns {
			row[j] = arrowCell(batch.Column(k), int(i), limit)
		}
		return nil
	}
	for i := range batch.NumRows() {
		if err := read(i); err != nil {
			return err
		}
		if err := f(row); err != nil {
			return err
		}
	}
	return nil
}

// arrowCell converts a value whose type refusedArrowType admits.
func arrowCell(values arrow.Array, i, limit int) data.Cell {
	if values.IsNull(i) {
		return data.Cell{}
	}
	switch v := values.(type) {
	case *array.Dictionary:
		return arrowCell(v.Dictionary(), v.GetValueIndex(i), limit)
	case *array.Boolean:
		return data.Cell{Kind: data.TruthCell, True: v.Value(i)}
	case *array.String:
		return wordCell(v.Value(i), limit)
	case *array.LargeString:
		return wordCell(v.Value(i), limit)
	case *array.StringView:
		return wordCell(v.Value(i), limit)
	case *array.Date32:
		return dayCell(int64(v.Value(i)))
	case *array.Date64:
		return data.Cell{Kind: data.DateCell, Time: v.Value(i).ToTime().UTC()}
	case *array.Time32:
		return clockCell(int64(v.Value(i)) * int64(v.DataType().(*arrow.Time32Type).Unit.Multiplier()))
	case *array.Time64:
		return clockCell(int64(v.Value(i)) * int64(v.DataType().(*arrow.Time64Type).Unit.Multiplier()))
	case *array.Timestamp:
		return timeCell(int64(v.Value(i)), int64(v.DataType().(*arrow.TimestampType).Unit.Multiplier()))
	}
	return arrowNumber(values, i)
}

// arrowNumber converts a number.
func arrowNumber(values arrow.Array, i int) data.Cell {
	scale := func() int { return int(values.DataType().(arrow.DecimalType).GetScale()) }
	switch v := values.(type) {
	case *array.Int8:
		return intCell(int64(v.Value(i)))
	case *array.Int16:
		return intCell(int64(v.Value(i)))
	case *array.Int32:
		return intCell(int64(v.Value(i)))
	case *array.Int64:
		return intCell(v.Value(i))
	case *array.Uint8:
		return uintCell(uint64(v.Value(i)))
	case *array.Uint16:
		return uintCell(uint64(v.Value(i)))
	case *array.Uint32:
		return uintCell(uint64(v.Value(i)))
	case *array.Uint64:
		return uintCell(v.Value(i))
	case *array.Float16:
		return floatCell(float64(v.Value(i).Float32()), 32)
	case *array.Float32:
		return floatCell(float64(v.Value(i)), 32)
	case *array.Float64:
		return floatCell(v.Value(i), 64)
	case *array.Decimal32:
		return decimalCell(fmt.Sprint(int32(v.Value(i))), scale())
	case *array.Decimal64:
		return decimalCell(fmt.Sprint(int64(v.Value(i))), scale())
	case *array.Decimal128:
		return decimalCell(v.Value(i).BigInt().String(), scale())
	case *array.Decimal256:
		return decimalCell(v.Value(i).BigInt().String(), scale())
	}
	panic(errDamaged)
}

// limitedMemory is the allocator of a file: the buffers of a batch have at most maxBatchBytes
// together. It panics where they have more, because the library's allocators return no error.
type limitedMemory struct{ used int }

func (m *limitedMemory) Allocate(size int) []byte {
	if size < 0 || size > maxBatchBytes-m.used {
		panic(errBatchTooLong)
	}
	m.used += size
	return make([]byte, size)
}

func (m *limitedMemory) Reallocate(size int, b []byte) []byte {
	if size <= cap(b) {
		return b[:max(size, 0)]
	}
	larger := m.Allocate(size)
	copy(larger, b)
	return larger
}

func (m *limitedMemory) Free([]byte) {}
