package tensorboard

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TensorBoard 2.21's reader (EventAccumulator) decoded these bytes as test/accuracy = 0.5 and
// privacy/epsilon = 2 at step 300. The fields are: a length of 24 and its checksum; wall time
// 1700000000.5; the file version; then step 300 (ac 02), 0.5 (0000003f) and 2 (00000040).
const pinned = `
18000000 00000000 a37f4b22
09 00002040fc54d941 1a 0d 627261696e2e4576656e743a32
2b353110
3c000000 00000000 c8b7a352
09 00004040fc54d941 10 ac02
2a 2e
0a 14 0a 0d 746573742f6163637572616379 15 0000003f
0a 16 0a 0f 707269766163792f657073696c6f6e 15 00000040
0bc908a4`

func TestWriter_Bytes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "tensorboard")
	at := time.Unix(1700000000, 500_000_000)
	w, err := Create(dir, at)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(300, at.Add(500*time.Millisecond), Scalar{"test/accuracy", 0.5}, Scalar{"privacy/epsilon", 2}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	if name := files[0].Name(); !strings.Contains(name, "tfevents") {
		t.Errorf("TensorBoard looks for names with tfevents in them, not %s", name)
	}
	got, err := os.ReadFile(filepath.Join(dir, files[0].Name()))
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Join(strings.Fields(pinned), ""); hex.EncodeToString(got) != want {
		t.Errorf("got  %x\nwant %s", got, want)
	}
}

// The checksum of "123456789" is the check value of CRC-32C, e3069283.
func TestMaskedChecksum_CheckValue(t *testing.T) {
	const c = 0xe3069283
	const turned uint64 = c>>15 | c<<17&0xffffffff
	if got, want := maskedChecksum([]byte("123456789")), uint32(turned+0xa282ead8); got != want {
		t.Errorf("got %x, want %x", got, want)
	}
}

// A second writer for the same folder adds a file and does not change the first.
func TestCreate_SecondFile(t *testing.T) {
	dir := t.TempDir()
	at := time.Unix(1700000000, 0)
	for i := range 2 {
		w, err := Create(dir, at.Add(time.Duration(i)*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		w.Close()
	}
	if files, _ := os.ReadDir(dir); len(files) != 2 {
		t.Errorf("%d files, want 2", len(files))
	}
	if _, err := Create(dir, at); err == nil {
		t.Error("an event file was written over")
	}
}
