package pretrained

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/device/cpu"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/device/plan/stepbits"
	"github.com/dptrain/dptrain/internal/format/gguf"
	"github.com/dptrain/dptrain/internal/format/safetensors"
	"github.com/dptrain/dptrain/internal/format/safetensors/safetensorstest"
	"github.com/dptrain/dptrain/internal/half"
)

// inHalves copies a checkpoint of testdata twice: with numbers of a format of 16 bits, and with the same numbers as float32.
func inHalves(t *testing.T, folder string, f half.Format) (narrow, wide string) {
	t.Helper()
	narrow, wide = filepath.Join(t.TempDir(), folder), filepath.Join(t.TempDir(), folder)
	for _, dir := range []string{narrow, wide} {
		if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", folder))); err != nil {
			t.Fatal(err)
		}
	}
	var tensors []safetensors.Tensor
	for _, file := range []string{weightsFile, "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"} {
		some, err := readTensors(filepath.Join(narrow, file))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		tensors = append(tensors, some...)
	}
	os.Remove(filepath.Join(narrow, indexFile))
	os.Remove(filepath.Join(wide, indexFile))
	cut := safetensorstest.WriteHalves(t, filepath.Join(narrow, weightsFile), f, tensors)
	content, err := written(cut)
	if err == nil {
		err = os.WriteFile(filepath.Join(wide, weightsFile), content, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return narrow, wide
}

// halfStep returns the bits of a private step of a checkpoint on three examples, and which frozen matrices do not have 16 bits.
func halfStep(t *testing.T, model string, fuse bool) (bits []uint32, wide []string) {
	t.Helper()
	m, err := Parse(model)
	if err != nil {
		t.Fatal(err)
	}
	_, frozen, private := compiledFrozen(t, m, 3)
	program, err := plan.LowerTraining(private, plan.TrainingOptions{Norms: true, Output: !fuse})
	if err != nil {
		t.Fatal(err)
	}
	if fuse {
		program.FuseVocabularyLoss(1)
	}
	program.KeepHalf()
	for _, b := range program.Buffers {
		if slices.Contains(frozen, b.Name) && b.Shape.Dims() == 2 && !b.Half {
			wide = append(wide, b.Name)
		}
	}
	e, err := cpu.New(program, plan.Optimizer{Kind: plan.SGD}, false, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	r := rand.New(rand.NewPCG(5, 6))
	for k := range private.Inputs {
		in := e.Input(k)
		for i := range in {
			switch {
			case k == 0 && m.picture != nil:
				in[i] = r.Float32()
			case k == 0:
				in[i] = float32(1 + r.IntN(15))
			default:
				in[i] = float32(r.IntN(testClasses))
			}
		}
	}
	return stepbits.Of(t, program, e), wide
}

// A checkpoint of 16-bit numbers gives the bits of the same numbers as float32, and its frozen matrices are kept as 16 bits.
func TestHalves_SameBitsAsFloat32(t *testing.T) {
	for _, c := range [][2]string{
		{"bert", ",train=bias"}, {"bert", ",lora=2"}, {"bert", ",train=head"}, {"bert-masked", ",lora=2"},
		{"distilbert", ",lora=2"}, {"roberta", ",train=bias"},
		{"gpt2", ",lora=2"}, {"gpt2-next", ",train=bias"}, {"gpt2-next", ",lora=2"},
		{"llama", ",lora=2"}, {"llama-next", ",lora=2"}, {"llama-next", ",train=head"}, {"qwen2-next", ",train=bias"},
		{"gemma2-next", ",lora=2"}, {"gemma3-next", ",lora=2"}, {"vit", ",lora=2"}, {"deit", ",train=bias"},
	} {
		folder, options := c[0], c[1]
		for _, f := range []half.Format{half.BFloat16, half.Float16} {
			t.Run(fmt.Sprint(folder, options, " format ", f), func(t *testing.T) {
				narrow, wide := inHalves(t, folder, f)
				for _, fuse := range []bool{false, strings.HasSuffix(folder, "-next")} {
					got, rest := halfStep(t, narrow+options, fuse)
					want, all := halfStep(t, wide+options, fuse)
					if !slices.Equal(got, want) {
						t.Errorf("fused %v: other bits", fuse)
					}
					// Tokens and positions of pictures are added, and not looked up.
					rest = slices.DeleteFunc(rest, func(name string) bool {
						return strings.HasSuffix(name, "_token") || strings.HasPrefix(name, "vit.embeddings.position") || strings.HasPrefix(name, "deit.embeddings.position")
					})
					if len(rest) > 0 || len(all) < 10 {
						t.Errorf("fused %v: %v do not have 16 bits; of float32 there are %d matrices", fuse, rest, len(all))
					}
				}
			})
		}
	}
}

// ggufInHalves writes the GGUF file of testdata twice: with numbers of a format of 16 bits, and with the same numbers as
// float32. Each tensor stays in its place, so that there are gaps behind those of 16 bits.
func ggufInHalves(t *testing.T, f half.Format) (narrow, wide string) {
	t.Helper()
	whole, err := os.ReadFile("testdata/llama.gguf")
	if err != nil {
		t.Fatal(err)
	}
	header, err := gguf.Read(bytes.NewReader(whole), int64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	// The description of a tensor ends with its type and its offset.
	kinds, end := map[string]int{}, 0
	for _, x := range header.Tensors {
		kinds[x.Name] = bytes.Index(whole, append(binary.LittleEndian.AppendUint64(nil, uint64(len(x.Name))), x.Name...)) + 8 + len(x.Name) + 4 + 8*len(x.Shape)
		end = max(end, kinds[x.Name]+12)
	}
	const alignment = 32
	numbers := (end + alignment - 1) / alignment * alignment
	halves, floats := slices.Clone(whole), slices.Clone(whole)
	for _, x := range header.Tensors {
		values, err := header.Values(x)
		if err != nil {
			t.Fatal(err)
		}
		at := numbers + int(binary.LittleEndian.Uint64(whole[kinds[x.Name]+4:]))
		binary.LittleEndian.PutUint32(halves[kinds[x.Name]:], map[half.Format]uint32{half.Float16: 1, half.BFloat16: 30}[f])
		for i, v := range values {
			bits := f.BitsOf(v)
			binary.LittleEndian.PutUint16(halves[at+2*i:], bits)
			binary.LittleEndian.PutUint32(floats[at+4*i:], math.Float32bits(f.Value(bits)))
		}
	}
	narrow, wide = filepath.Join(t.TempDir(), "narrow.gguf"), filepath.Join(t.TempDir(), "wide.gguf")
	for file, text := range map[string][]byte{narrow: halves, wide: floats} {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return narrow, wide
}

// A GGUF file of 16-bit numbers gives the bits of the same numbers as float32, also where rows have other places in the network.
func TestHalves_SameBitsAsFloat32InGGUF(t *testing.T) {
	for _, f := range []half.Format{half.BFloat16, half.Float16} {
		narrow, wide := ggufInHalves(t, f)
		got, rest := halfStep(t, narrow+",lora=2", false)
		want, all := halfStep(t, wide+",lora=2", false)
		if !slices.Equal(got, want) || len(rest) > 0 || len(all) < 10 {
			t.Errorf("format %d: same bits %v; %v do not have 16 bits, of float32 there are %d matrices", f, slices.Equal(got, want), rest, len(all))
		}
	}
}
