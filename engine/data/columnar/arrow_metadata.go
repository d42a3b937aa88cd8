package columnar

import (
	"encoding/binary"
	"io"

	flatbuffers "github.com/google/flatbuffers/go"
)

// The library allocates what the metadata of a file announce: fields, children, buffers. Memory that
// does not exist ends the process, and no recovery helps. So the counts are compared with the length
// of the metadata before the library reads them. Positions of the members are those of Arrow's
// format/File.fbs, Schema.fbs and Message.fbs. A reference out of range panics; see catch.

// Limits of the metadata of a file.
const (
	maxMetadataBytes = 64 << 20
	maxFields        = 1 << 20 // nested ones included
	maxFieldDepth    = 64
)

// arrowMetadata checks the metadata of an Arrow file.
type arrowMetadata struct {
	file   io.ReaderAt
	size   int64
	footer flatbuffers.Table
	fields int
	text   int // bytes of names and of the metadata of fields
}

// checkFooter reads the last part of a file and checks the schema and all dictionaries.
func (m *arrowMetadata) checkFooter() error {
	const end = 4 + len(arrowMagic) // the length of the footer, and the magic bytes
	tail := make([]byte, end)
	if _, err := m.file.ReadAt(tail, m.size-int64(end)); err != nil || string(tail[4:]) != arrowMagic {
		return errDamaged
	}
	footer, err := m.read(m.size-int64(end), -int64(int32(binary.LittleEndian.Uint32(tail))))
	if err != nil {
		return err
	}
	m.footer = flatbuffers.Table{Bytes: footer, Pos: flatbuffers.GetUOffsetT(footer)}
	schema, present := member(m.footer, 1)
	if !present {
		return errDamaged
	}
	for _, field := range tables(schema, 1) {
		m.checkField(field, 0)
	}
	m.checkTexts(schema, 2)
	for i := range vector(m.footer, 2, blockBytes) {
		if err := m.checkBlock(2, i); err != nil {
			return err
		}
	}
	return nil
}

// read reads length bytes before or after a position.
func (m *arrowMetadata) read(at, length int64) ([]byte, error) {
	if length < 0 {
		at, length = at+length, -length
	}
	if length < 8 || length > maxMetadataBytes || at < 0 || length > m.size-at {
		return nil, errDamaged
	}
	b := make([]byte, length)
	if _, err := m.file.ReadAt(b, at); err != nil {
		return nil, errDamaged
	}
	return b, nil
}

func (m *arrowMetadata) checkField(field flatbuffers.Table, depth int) {
	if m.fields++; m.fields > maxFields || depth > maxFieldDepth {
		panic(errDamaged)
	}
	if o := offset(field, 0); o != 0 {
		m.text += len(field.ByteVector(o + field.Pos))
	}
	const union = 14
	if kind, present := member(field, 3); present && field.GetByteSlot(4+2*2, 0) == union {
		vector(kind, 1, 4)
	}
	for _, child := range tables(field, 5) {
		m.checkField(child, depth+1)
	}
	m.checkTexts(field, 6)
}

// checkTexts checks the pairs of names and texts in a member.
func (m *arrowMetadata) checkTexts(t flatbuffers.Table, slot int) {
	for _, pair := range tables(t, slot) {
		for slot := range 2 {
			if o := offset(pair, slot); o != 0 {
				m.text += len(pair.ByteVector(o + pair.Pos))
			}
		}
		if m.fields++; m.fields > maxFields || m.text > maxMetadataBytes {
			panic(errDamaged)
		}
	}
}

const blockBytes = 24 // offset, length of the metadata, length of the body

// checkBlock checks the metadata of the block i of the footer's member 2, the dictionaries, or 3, the
// batches.
func (m *arrowMetadata) checkBlock(slot, i int) error {
	if i >= vector(m.footer, slot, blockBytes) {
		return errDamaged
	}
	block := m.footer.Bytes[int(m.footer.Vector(offset(m.footer, slot)))+blockBytes*i:]
	b, err := m.read(int64(binary.LittleEndian.Uint64(block)), int64(int32(binary.LittleEndian.Uint32(block[8:]))))
	if err != nil {
		return err
	}
	prefix := 4
	if binary.LittleEndian.Uint32(b) == 0xffffffff { // since version 0.15
		prefix = 8
	}
	b = b[prefix:]
	header, present := member(flatbuffers.Table{Bytes: b, Pos: flatbuffers.GetUOffsetT(b)}, 2)
	if !present {
		return errDamaged
	}
	if slot == 2 { // the batch of a dictionary
		if header, present = member(header, 1); !present {
			return errDamaged
		}
	}
	vector(header, 1, 16)
	buffers := vector(header, 2, 16)
	counts := vector(header, 4, 8)
	for k := range counts {
		at := int(header.Vector(offset(header, 4))) + 8*k
		if n := binary.LittleEndian.Uint64(b[at:]); n > uint64(buffers) {
			return errDamaged
		}
	}
	return nil
}

// offset returns the place of a member in a table; 0 if it has none.
func offset(t flatbuffers.Table, slot int) flatbuffers.UOffsetT {
	return flatbuffers.UOffsetT(t.Offset(flatbuffers.VOffsetT(4 + 2*slot)))
}

// member returns a member that is a table.
func member(t flatbuffers.Table, slot int) (child flatbuffers.Table, present bool) {
	o := offset(t, slot)
	if o == 0 {
		return child, false
	}
	return flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(o + t.Pos)}, true
}

// vector returns the number of elements of a member. It panics if they do not fit into the metadata.
func vector(t flatbuffers.Table, slot, bytes int) int {
	o := offset(t, slot)
	if o == 0 {
		return 0
	}
	n, start := t.VectorLen(o), int(t.Vector(o))
	if n < 0 || start > len(t.Bytes) || n > (len(t.Bytes)-start)/bytes {
		panic(errDamaged)
	}
	return n
}

// tables returns the elements of a member, which are tables.
func tables(t flatbuffers.Table, slot int) (all []flatbuffers.Table) {
	for i := range vector(t, slot, 4) {
		at := t.Vector(offset(t, slot)) + flatbuffers.UOffsetT(4*i)
		all = append(all, flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(at)})
	}
	return all
}
