// Package columnar reads Parquet, Arrow and Feather files with the Arrow library of the Apache
// project. Importing it is enough:
//
//	import _ "github.com/dptrain/dptrain/engine/data/columnar"
//
// Package data then opens such files like CSV: a column becomes the text that a CSV file has, so one
// schema describes both. A program that does not import this package does not contain the library.
//
// A file is read row group by row group or batch by batch, and within a row group page by page. A
// page may have 256 MiB, a batch 1 GiB. The library panics where a file contradicts itself; every
// call into it recovers from that, and the file is reported as damaged.
package columnar

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/engine/data"
)

func init() {
	data.RegisterColumnar(data.Parquet, openParquet)
	data.RegisterColumnar(data.Arrow, openArrow)
}

// column is a column of a file, without its values.
type column struct {
	name string
	// refused is the reason why the column cannot be read; "" if it can.
	refused string
}

// columns implements a part of data.ColumnarFile.
type columns []column

// Columns returns the names, and the reasons why some columns cannot be read.
func (c columns) Columns() (names, refused []string) {
	for _, column := range c {
		names, refused = append(names, column.name), append(refused, column.refused)
	}
	return names, refused
}

// errDamaged replaces the messages of the library about pages and batches: they may depend on what
// the file contains.
var errDamaged = errors.New("the file is damaged, or has an encoding or a compression that is not read; write it again, for example with pandas.DataFrame.to_parquet")

// catch turns a panic into errDamaged. An error of the caller passes.
func catch(err *error) {
	if value := recover(); value != nil {
		if tooLarge, ok := value.(sizeError); ok {
			*err = tooLarge
			return
		}
		*err = errDamaged
	}
}

// sizeError reports a page or a batch that is too large.
type sizeError string

func (e sizeError) Error() string { return string(e) }

// requireMagic returns an error unless the file begins with one of the given bytes.
func requireMagic(f io.ReaderAt, format string, magic ...string) error {
	head := make([]byte, 8)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	head = head[:n]
	for _, m := range magic {
		if bytes.HasPrefix(head, []byte(m)) {
			return nil
		}
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return fmt.Errorf("%s files are compressed inside; decompress this one with gunzip", format)
	case bytes.HasPrefix(head, []byte("FEA1")):
		return errors.New("version 1 of Feather is not read; write it again with pandas.DataFrame.to_feather, which writes version 2")
	case bytes.HasPrefix(head, []byte("\xff\xff\xff\xff")):
		return errors.New("Arrow streams are not read; write an Arrow file, with pyarrow.ipc.new_file for example")
	case bytes.HasPrefix(head, []byte("PARE")):
		return errors.New("encrypted Parquet is not read; decrypt the file")
	}
	return fmt.Errorf("the file does not begin like a %s file; correct its name, or write it again", format)
}

// oneLine removes line feeds from a message of the library.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// intCell is a whole number.
func intCell(v int64) data.Cell {
	return data.Cell{Kind: data.NumberCell, Text: strconv.FormatInt(v, 10)}
}

// uintCell is a whole number.
func uintCell(v uint64) data.Cell {
	return data.Cell{Kind: data.NumberCell, Text: strconv.FormatUint(v, 10)}
}

// floatCell is a number with the shortest text that has its bits; NaN has no value.
func floatCell(v float64, bits int) data.Cell {
	if v != v {
		return data.Cell{}
	}
	return data.Cell{Kind: data.NumberCell, Text: strconv.FormatFloat(v, 'g', -1, bits)}
}

// decimalCell is the number digits / 10^scale.
func decimalCell(digits string, scale int) data.Cell {
	if scale <= 0 {
		return data.Cell{Kind: data.NumberCell, Text: digits + "e" + strconv.Itoa(-scale)}
	}
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	if missing := scale + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	cut := len(digits) - scale
	return data.Cell{Kind: data.NumberCell, Text: sign + digits[:cut] + "." + digits[cut:]}
}

// wordCell is a text of at most limit bytes.
func wordCell[T ~string | ~[]byte](v T, limit int) data.Cell {
	if len(v) > limit {
		return data.Cell{Kind: data.LongCell}
	}
	return data.Cell{Kind: data.WordCell, Text: strings.Clone(string(v))}
}

// clockCell is a time of the day in nanoseconds.
func clockCell(nanoseconds int64) data.Cell {
	const second = 1_000_000_000
	s, rest := nanoseconds/second, nanoseconds%second
	text := fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
	if rest != 0 {
		text += strings.TrimRight(fmt.Sprintf(".%09d", rest), "0")
	}
	return data.Cell{Kind: data.WordCell, Text: text}
}
