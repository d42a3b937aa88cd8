package override

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cuda/internal/kernels"
)

// kernelFile makes DPTRAIN_KERNELS name a file with this content.
func kernelFile(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kernels")
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv(kernelsVariable, path)
	return path
}

const sampleCubin, samplePTX = "\x7fELF a cubin", "// a comment\n.version 8.0\n.target sm_90\n"

func TestKernels_Unset(t *testing.T) {
	t.Setenv(kernelsVariable, "")
	t.Setenv(graphVariable, "")
	f, err := Kernels()
	if f != nil || err != nil || f.Mark() != "" {
		t.Errorf("without the variable: %v, %v, mark %q", f, err, f.Mark())
	}
	if lines, err := Describe(); lines != nil || err != nil {
		t.Errorf("without variables: %q, %v", lines, err)
	}
}

func TestKernels_CubinAndPTX(t *testing.T) {
	for _, content := range []string{sampleCubin, samplePTX} {
		path := kernelFile(t, []byte(content))
		f, err := Kernels()
		if err != nil {
			t.Fatal(err)
		}
		image, err := f.Image(90)
		if err != nil || string(image) != content {
			t.Errorf("the image is %q (%v), want %q", image, err, content)
		}
		sum := sha256.Sum256([]byte(content))
		hash := hex.EncodeToString(sum[:])
		if f.Mark() != "-kernels-"+hash[:8] {
			t.Errorf("the mark is %q", f.Mark())
		}
		t.Setenv(graphVariable, "chain")
		lines, err := Describe()
		if err != nil || len(lines) != 2 || !strings.Contains(lines[0], path) || !strings.Contains(lines[0], hash[:12]) || !strings.Contains(lines[1], "DPTRAIN_GRAPH=chain") {
			t.Errorf("the overrides are %q, %v", lines, err)
		}
		// The process reports what it loaded, not what the file contains later.
		if err := os.WriteFile(path, []byte("\x7fELF another"), 0o644); err != nil {
			t.Fatal(err)
		}
		if again, err := Kernels(); again != f || err != nil {
			t.Errorf("a changed file is read again: %v, %v", again, err)
		}
	}
}

// Of an archive the newest image that a GPU can run is chosen.
func TestKernels_Archive(t *testing.T) {
	var archive bytes.Buffer
	var images []kernels.Image
	for _, name := range []string{"sm_80.cubin", "sm_86.cubin", "sm_90.cubin", "compute_80.ptx", "compute_90.ptx", "notes.txt"} {
		images = append(images, kernels.Image{Name: name, Code: []byte(name)})
	}
	if err := kernels.WriteArchive(&archive, images); err != nil {
		t.Fatal(err)
	}
	kernelFile(t, archive.Bytes())
	f, err := Kernels()
	if err != nil {
		t.Fatal(err)
	}
	for arch, want := range map[int]string{80: "sm_80.cubin", 87: "sm_86.cubin", 90: "sm_90.cubin", 100: "compute_90.ptx", 85: "sm_80.cubin"} {
		if image, err := f.Image(arch); err != nil || string(image) != want {
			t.Errorf("compute capability %d: %q, %v; want %s", arch, image, err, want)
		}
	}
	if _, err := f.Image(75); err == nil || !strings.Contains(err.Error(), "DPTRAIN_KERNELS="+f.Path) {
		t.Errorf("an archive without kernels for the GPU: %v", err)
	}
	kernelFile(t, archive.Bytes()[:archive.Len()/2])
	if f, err = Kernels(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Image(90); err == nil {
		t.Error("half an archive has an image")
	}
}

func TestKernels_RefusesOtherFiles(t *testing.T) {
	t.Setenv(kernelsVariable, filepath.Join(t.TempDir(), "absent"))
	if _, err := Kernels(); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "DPTRAIN_KERNELS") {
		t.Errorf("a file that does not exist: %v", err)
	}
	path := kernelFile(t, []byte("__global__ void k() {}"))
	if _, err := Kernels(); err == nil || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
		t.Errorf("a source file: %v", err)
	}
	if _, err := Describe(); err == nil {
		t.Error("Describe accepts a source file")
	}
}

func TestGraphCapture_Separate(t *testing.T) {
	t.Setenv(kernelsVariable, "")
	t.Setenv(graphVariable, "separate")
	if lines, err := Describe(); err != nil || len(lines) != 1 || !strings.Contains(lines[0], "DPTRAIN_GRAPH=separate") {
		t.Errorf("the overrides are %q, %v", lines, err)
	}
}

func TestGraphCapture_RefusesUnknownValues(t *testing.T) {
	for _, value := range []string{"line", "Chain", "1"} {
		t.Setenv(graphVariable, value)
		if _, err := GraphCapture(); err == nil || !strings.HasPrefix(err.Error(), "DPTRAIN_GRAPH="+value+" is unknown: ") {
			t.Errorf("%s: %v", value, err)
		}
	}
}
