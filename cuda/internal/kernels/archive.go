// Package kernels contains the sources of the CUDA kernels, and reads and writes archives of
// compiled kernels. `make gpu` compiles kernels and builds programs that contain an archive of
// them. DIGESTS has the SHA-256 of each image: the same sources give the same bytes everywhere.
package kernels

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// An Image is the kernels compiled for one target: a cubin, or PTX.
type Image struct {
	Name string // for example sm_80.cubin
	Base string // name of a cubin that this one resembles, or ""; used if it is earlier in the archive
	Code []byte
}

// The archive is a zip file with one member per image, so that a program unpacks only the
// image that its GPU needs. Two transforms make cubins compress better. A cubin with a
// base, named in the member's comment, is stored as copies from the base and literals:
// the code of neighbouring architectures is mostly equal. Literals are stored in 16
// columns, because an instruction has 16 bytes and each byte of it has its own statistics.
// PTX is text and is stored as it is. All members are deflated.

var errNoImage = errors.New("there is no image")

func isPTX(name string) bool { return strings.HasSuffix(name, ".ptx") }

// instruction is the size of an instruction, and the unit of the transforms.
const instruction = 16

// WriteArchive writes images to an archive.
func WriteArchive(w io.Writer, images []Image) error {
	z := zip.NewWriter(w)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	code := map[string][]byte{}
	for _, i := range images {
		code[i.Name] = i.Code
		h := &zip.FileHeader{Name: i.Name, Method: zip.Deflate}
		if code[i.Base] != nil {
			h.Comment = i.Base
		}
		stored := i.Code
		switch {
		case isPTX(i.Name): // as it is
		case h.Comment != "":
			stored = encodeDifference(code[i.Base], i.Code)
		default:
			stored = toColumns(i.Code)
		}
		member, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := member.Write(stored); err != nil {
			return fmt.Errorf("%s: %w", i.Name, err)
		}
	}
	return z.Close()
}

func openArchive(archive []byte) (*zip.Reader, error) {
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, fmt.Errorf("archive of kernels: %w", err)
	}
	return z, nil
}

// ReadImage unpacks one image of an archive.
func ReadImage(archive []byte, name string) ([]byte, error) {
	z, err := openArchive(archive)
	if err != nil {
		return nil, err
	}
	code, err := readImage(z, name)
	if err != nil {
		return nil, fmt.Errorf("archive of kernels: %s: %w", name, err)
	}
	return code, nil
}

// NewestImage returns the newest image of an archive that a GPU of this compute capability (90 for
// 9.0) runs: a cubin of its major version, otherwise PTX.
func NewestImage(archive []byte, capability int) ([]byte, error) {
	z, err := openArchive(archive)
	if err != nil {
		return nil, err
	}
	var targets []Target
	for _, member := range z.File {
		architecture := strings.TrimSuffix(strings.TrimSuffix(member.Name, ".cubin"), ".ptx")
		if t := (Target{Architecture: architecture}); t.Capability() > 0 && t.Image() == member.Name {
			targets = append(targets, t)
		}
	}
	t, ok := newest(targets, capability)
	if !ok {
		return nil, fmt.Errorf("archive of kernels: %w for compute capability %d.%d", errNoImage, capability/10, capability%10)
	}
	return ReadImage(archive, t.Image())
}

func readImage(z *zip.Reader, name string) ([]byte, error) {
	for _, f := range z.File {
		if f.Name != name {
			continue
		}
		var base []byte
		failed := make(chan error, 1)
		go func() (err error) { // both are unpacked at the same time
			defer func() { failed <- err }()
			if f.Comment != "" {
				base, err = readImage(z, f.Comment)
			}
			return err
		}()
		stored, err := readMember(f)
		if err := errors.Join(err, <-failed); err != nil {
			return nil, err
		}
		switch {
		case isPTX(name):
			return stored, nil
		case f.Comment != "":
			return decodeDifference(base, stored)
		}
		return fromColumns(stored), nil
	}
	return nil, errNoImage
}

func readMember(f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var content bytes.Buffer
	content.Grow(int(f.UncompressedSize64) + bytes.MinRead)
	_, err = content.ReadFrom(r)
	return content.Bytes(), err
}

// toColumns stores the first bytes of all instructions, then their second bytes, and so
// on; then the bytes after the last whole instruction.
func toColumns(b []byte) []byte {
	rows := len(b) / instruction
	out := make([]byte, 0, len(b))
	for column := range instruction {
		for row := range rows {
			out = append(out, b[row*instruction+column])
		}
	}
	return append(out, b[rows*instruction:]...)
}

func fromColumns(b []byte) []byte {
	rows := len(b) / instruction
	out := make([]byte, len(b))
	for column := range instruction {
		for row, x := range b[column*rows : (column+1)*rows] {
			out[row*instruction+column] = x
		}
	}
	copy(out[rows*instruction:], b[rows*instruction:])
	return out
}

// encodeDifference stores code as: the number of bytes of the operations, the operations,
// the literals in columns. An operation is three varints: how many literal bytes come
// first, where in the base the copy after them begins, how many bytes it has.
func encodeDifference(base, code []byte) []byte {
	const shortest = 4 * instruction // of a copy
	found := map[string]int{}
	for at := 0; at+shortest <= len(base); at += instruction {
		if key := string(base[at : at+shortest]); found[key] == 0 {
			found[key] = at + 1
		}
	}
	var operations, literals []byte
	fresh := 0 // literals since the last copy
	for at := 0; at < len(code); {
		from, length := 0, 0
		if at+shortest <= len(code) {
			from = found[string(code[at:at+shortest])] - 1
		} else {
			from = -1
		}
		if from >= 0 {
			for at+length < len(code) && from+length < len(base) && code[at+length] == base[from+length] {
				length++
			}
			length = length / instruction * instruction
			for _, n := range []int{fresh, from, length} {
				operations = binary.AppendUvarint(operations, uint64(n))
			}
			at, fresh = at+length, 0
			continue
		}
		n := min(instruction, len(code)-at)
		literals = append(literals, code[at:at+n]...)
		at, fresh = at+n, fresh+n
	}
	out := binary.AppendUvarint(nil, uint64(len(operations)))
	return append(append(out, operations...), toColumns(literals)...)
}

func decodeDifference(base, stored []byte) ([]byte, error) {
	size, n := binary.Uvarint(stored)
	if n <= 0 || size > uint64(len(stored)-n) {
		return nil, errors.New("the difference is truncated")
	}
	operations, literals := stored[n:n+int(size)], fromColumns(stored[n+int(size):])
	out := make([]byte, 0, len(base))
	for len(operations) > 0 {
		var v [3]uint64
		for i := range v {
			x, n := binary.Uvarint(operations)
			if n <= 0 {
				return nil, errors.New("an operation is truncated")
			}
			v[i], operations = x, operations[n:]
		}
		if v[0] > uint64(len(literals)) || v[1] > uint64(len(base)) || v[2] > uint64(len(base))-v[1] {
			return nil, errors.New("an operation exceeds its source")
		}
		out = append(append(out, literals[:v[0]]...), base[v[1]:v[1]+v[2]]...)
		literals = literals[v[0]:]
	}
	return append(out, literals...), nil
}
