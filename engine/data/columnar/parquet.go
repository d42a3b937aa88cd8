package columnar

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/dptrain/dptrain/engine/data"
)

// parquetFile is an open Parquet file.
type parquetFile struct {
	columns
	reader *file.Reader
	leaves []int // the position of each column among the leaves of the schema
	groups int
}

// Limits of a Parquet file's pages. The size of a page follows from the writer and from the rows.
const (
	maxPageBytes   = 256 << 20
	batchRows      = 1024 // values of a column that are decoded together
	parquetBuffer  = 64 << 10
	errPageTooLong = sizeError("a page has more than 256 MiB; write the file with smaller pages (pandas.DataFrame.to_parquet writes pages of 1 MiB)")
)

func openParquet(f data.ColumnarSource) (open data.ColumnarFile, err error) {
	defer catch(&err)
	if err := requireMagic(f, "Parquet", "PAR1"); err != nil {
		return nil, err
	}
	properties := parquet.NewReaderProperties(memory.NewGoAllocator())
	properties.BufferedStreamEnabled, properties.BufferSize = true, parquetBuffer
	properties.MaxCompressedPageSize, properties.MaxUncompressedPageSize = maxPageBytes, maxPageBytes
	p := &parquetFile{}
	if p.reader, err = file.NewParquetReader(f, file.WithReadProps(properties)); err != nil {
		return nil, fmt.Errorf("the file is damaged or not complete: %s", oneLine(err))
	}
	p.groups = p.reader.NumRowGroups()
	root, leaf := p.reader.MetaData().Schema.Root(), 0
	for i := range root.NumFields() {
		node := root.Field(i)
		c := column{name: node.Name()}
		p.leaves = append(p.leaves, leaf)
		repeated := node.RepetitionType() == parquet.Repetitions.Repeated
		if leaves := countLeaves(node); leaves == 1 && node.Type() == schema.Primitive && !repeated {
			c.refused = refusedParquetType(p.reader.MetaData().Schema.Column(leaf))
			leaf++
		} else {
			c.refused = "is nested (lists, maps or records)"
			leaf += leaves
		}
		p.columns = append(p.columns, c)
	}
	if len(p.columns) == 0 {
		return nil, errors.New("the file has no columns")
	}
	return p, nil
}

func countLeaves(node schema.Node) int {
	group, isGroup := node.(*schema.GroupNode)
	if !isGroup {
		return 1
	}
	leaves := 0
	for i := range group.NumFields() {
		leaves += countLeaves(group.Field(i))
	}
	return leaves
}

// refusedParquetType returns the reason why a column's type is not read; "" if it is.
func refusedParquetType(c *schema.Column) string {
	switch logical := c.LogicalType().(type) {
	case nil, schema.NoLogicalType:
		if c.PhysicalType() == parquet.Types.FixedLenByteArray {
			return "has binary values"
		}
	case schema.StringLogicalType, schema.EnumLogicalType, schema.JSONLogicalType,
		schema.UUIDLogicalType, schema.NullLogicalType, schema.UnknownLogicalType,
		schema.DecimalLogicalType, schema.IntLogicalType, schema.Float16LogicalType,
		schema.DateLogicalType, schema.TimeLogicalType, schema.TimestampLogicalType:
	default:
		return "has values of type " + logical.String()
	}
	return ""
}

// EachRow calls f with the cells of each row.
func (p *parquetFile) EachRow(columns []int, limit int, f func(row []data.Cell) error) (err error) {
	for group := range p.groups {
		if err := p.eachRowOfGroup(group, columns, limit, f); err != nil {
			return err
		}
	}
	return nil
}

func (p *parquetFile) eachRowOfGroup(group int, columns []int, limit int, f func(row []data.Cell) error) error {
	rows, cursors, err := p.openGroup(group, columns, limit)
	if err != nil {
		return err
	}
	row := make([]data.Cell, len(columns))
	for range rows {
		if err := nextCells(row, cursors); err != nil {
			return err
		}
		if err := f(row); err != nil {
			return err
		}
	}
	return nil
}

// openGroup opens the columns of a row group and returns their number of rows.
func (p *parquetFile) openGroup(group int, columns []int, limit int) (rows int64, cursors []cursor, err error) {
	defer catch(&err)
	reader := p.reader.RowGroup(group)
	for _, k := range columns {
		chunk, err := reader.Column(p.leaves[k])
		if err != nil {
			return 0, nil, describeParquet(err)
		}
		cursors = append(cursors, newParquetCursor(chunk, limit))
	}
	return reader.NumRows(), cursors, nil
}

// nextCells reads a row.
func nextCells(row []data.Cell, cursors []cursor) (err error) {
	defer catch(&err)
	for i, c := range cursors {
		if row[i], err = c.next(); err != nil {
			return describeParquet(err)
		}
	}
	return nil
}

func describeParquet(err error) error {
	if strings.Contains(err.Error(), "exceeds configured limit") {
		return errPageTooLong
	}
	return errDamaged
}

// cursor reads the cells of a column in order.
type cursor interface {
	next() (data.Cell, error)
}

// chunkReader decodes values of one page. levels has the definition level of each value or null.
type chunkReader[T any] interface {
	file.ColumnChunkReader
	ReadBatchInPage(batch int64, values []T, levels, repetitions []int16) (total int64, read int, err error)
}

// chunkCursor is the cursor of a column chunk. Values may be parts of the page, so they are converted
// before the next ones are decoded.
type chunkCursor[T any] struct {
	chunk   chunkReader[T]
	convert func(T) data.Cell
	values  []T
	levels  []int16
	defined int16 // the level of a value that is not null
	level   int   // the next one
	value   int   // the next one
}

func newChunkCursor[T any](chunk chunkReader[T], convert func(T) data.Cell) cursor {
	return &chunkCursor[T]{chunk: chunk, convert: convert, defined: chunk.Descriptor().MaxDefinitionLevel(),
		values: make([]T, 0, batchRows), levels: make([]int16, 0, batchRows)}
}

func (c *chunkCursor[T]) next() (cell data.Cell, err error) {
	if c.level == len(c.levels) {
		if err := c.decode(); err != nil {
			return cell, err
		}
	}
	c.level++
	if c.levels[c.level-1] < c.defined {
		return cell, nil
	}
	c.value++
	return c.convert(c.values[c.value-1]), nil
}

// decode decodes the next values.
func (c *chunkCursor[T]) decode() error {
	c.level, c.value = 0, 0
	c.values, c.levels = c.values[:batchRows], c.levels[:batchRows]
	total, read, err := c.chunk.ReadBatchInPage(batchRows, c.values, c.levels, nil)
	switch {
	case err != nil:
		return err
	case total == 0:
		return errors.Join(errDamaged, c.chunk.Err()) // fewer values than rows
	}
	c.levels, c.values = c.levels[:total], c.values[:read]
	if c.defined == 0 {
		clear(c.levels) // the library writes none
	}
	return nil
}

// newParquetCursor returns the cursor of a column whose type refusedParquetType admits.
func newParquetCursor(chunk file.ColumnChunkReader, limit int) cursor {
	logical := chunk.Descriptor().LogicalType()
	switch chunk := chunk.(type) {
	case *file.BooleanColumnChunkReader:
		return newChunkCursor(chunk, func(v bool) data.Cell { return data.Cell{Kind: data.TruthCell, True: v} })
	case *file.Int32ColumnChunkReader:
		return newChunkCursor(chunk, convertInt[int32](logical))
	case *file.Int64ColumnChunkReader:
		return newChunkCursor(chunk, convertInt[int64](logical))
	case *file.Int96ColumnChunkReader:
		return newChunkCursor(chunk, func(v parquet.Int96) data.Cell { return data.Cell{Kind: data.TimeCell, Time: v.ToTime().UTC()} })
	case *file.Float32ColumnChunkReader:
		return newChunkCursor(chunk, func(v float32) data.Cell { return floatCell(float64(v), 32) })
	case *file.Float64ColumnChunkReader:
		return newChunkCursor(chunk, func(v float64) data.Cell { return floatCell(v, 64) })
	case *file.ByteArrayColumnChunkReader:
		return newChunkCursor(chunk, convertBytes[parquet.ByteArray](logical, limit))
	case *file.FixedLenByteArrayColumnChunkReader:
		return newChunkCursor(chunk, convertBytes[parquet.FixedLenByteArray](logical, limit))
	}
	panic(errDamaged)
}

// convertInt returns the conversion of whole numbers.
func convertInt[T int32 | int64](logical schema.LogicalType) func(T) data.Cell {
	switch l := logical.(type) {
	case schema.DecimalLogicalType:
		return func(v T) data.Cell { return decimalCell(fmt.Sprint(v), int(l.Scale())) }
	case schema.DateLogicalType:
		return func(v T) data.Cell { return dayCell(int64(v)) }
	case schema.TimeLogicalType:
		unit := nanoseconds(l.TimeUnit())
		return func(v T) data.Cell { return clockCell(int64(v) * unit) }
	case schema.TimestampLogicalType:
		unit := nanoseconds(l.TimeUnit())
		return func(v T) data.Cell { return timeCell(int64(v), unit) }
	case schema.IntLogicalType:
		if !l.IsSigned() {
			return func(v T) data.Cell {
				if v32, ok := any(v).(int32); ok {
					return uintCell(uint64(uint32(v32)))
				}
				return uintCell(uint64(v))
			}
		}
	}
	return func(v T) data.Cell { return intCell(int64(v)) }
}

// convertBytes returns the conversion of bytes.
func convertBytes[T ~[]byte](logical schema.LogicalType, limit int) func(T) data.Cell {
	switch l := logical.(type) {
	case schema.DecimalLogicalType:
		return func(v T) data.Cell { return decimalCell(bigEndian(v).String(), int(l.Scale())) }
	case schema.Float16LogicalType:
		return func(v T) data.Cell { return floatCell(float64(float16.FromLEBytes(v).Float32()), 32) }
	case schema.UUIDLogicalType:
		return func(v T) data.Cell {
			return wordCell(fmt.Sprintf("%x-%x-%x-%x-%x", v[:4], v[4:6], v[6:8], v[8:10], v[10:16]), limit)
		}
	}
	return func(v T) data.Cell { return wordCell(v, limit) }
}

// bigEndian returns the number in two's complement. A decimal has at most 76 digits, so longer bytes
// are damaged.
func bigEndian(v []byte) *big.Int {
	const longest = 32
	if len(v) > longest {
		panic(errDamaged)
	}
	n := new(big.Int).SetBytes(v)
	if len(v) > 0 && v[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(v))))
	}
	return n
}

func nanoseconds(unit schema.TimeUnitType) int64 {
	switch unit {
	case schema.TimeUnitMillis:
		return 1_000_000
	case schema.TimeUnitMicros:
		return 1000
	}
	return 1
}

// dayCell is a number of days since 1970.
func dayCell(days int64) data.Cell {
	return data.Cell{Kind: data.DateCell, Time: time.Unix(days*24*60*60, 0).UTC()}
}

// timeCell is a number of units of nanoseconds since 1970.
func timeCell(v, unit int64) data.Cell {
	perSecond := 1_000_000_000 / unit
	return data.Cell{Kind: data.TimeCell, Time: time.Unix(v/perSecond, v%perSecond*unit).UTC()}
}
