package kernels

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func TestArchive_ReturnsWhatWasWritten(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.IntN(4))
		}
		return b
	}
	base := random(5003)
	changed := bytes.Clone(base)
	copy(changed[1600:], random(50))
	moved := bytes.Join([][]byte{changed[:800], random(32), changed[800:], random(7)}, nil)
	images := []Image{
		{Name: "empty.cubin"},
		{Name: "base.cubin", Code: base},
		{Name: "changed.cubin", Base: "base.cubin", Code: changed},
		{Name: "moved.cubin", Base: "changed.cubin", Code: moved},
		{Name: "unlike.cubin", Base: "base.cubin", Code: random(100)},
		{Name: "code.ptx", Code: random(300)},
	}
	var archive bytes.Buffer
	if err := WriteArchive(&archive, images); err != nil {
		t.Fatal(err)
	}
	for _, i := range images {
		got, err := ReadImage(archive.Bytes(), i.Name)
		if err != nil || !bytes.Equal(got, i.Code) {
			t.Errorf("%s: %d bytes (%v), want %d", i.Name, len(got), err, len(i.Code))
		}
	}
	if _, err := ReadImage(archive.Bytes(), "other.cubin"); err == nil {
		t.Error("an image that is not in the archive is read")
	}
	if _, err := ReadImage(archive.Bytes()[:archive.Len()/2], "base.cubin"); err == nil {
		t.Error("half an archive is read")
	}
}

func TestDecodeDifference_RefusesWhatItsSourcesLack(t *testing.T) {
	for _, stored := range [][]byte{nil, {9}, {1, 0}, {3, 1, 0, 0}, {3, 0, 9, 0}, {3, 0, 4, 5}} {
		if code, err := decodeDifference(make([]byte, 8), stored); err == nil {
			t.Errorf("%v becomes %v", stored, code)
		}
	}
}
