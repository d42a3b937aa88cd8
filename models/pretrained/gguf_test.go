package pretrained

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/tokenizer"
	"github.com/dptrain/dptrain/models/layer"
)

var (
	realFile     = flag.String("gguf", "", "GGUF file whose logits are compared with those of -expected")
	realExpected = flag.String("expected", "", "what testdata/real_file.py prints for the file of -gguf")
)

// A real file has the ids of the package tokenizers, and the logits of its dequantized numbers in float64.
func TestGGUF_RealFile(t *testing.T) {
	if *realFile == "" {
		t.Skip("no -gguf FILE")
	}
	var want struct {
		Text        string
		IDs         []int32
		First, Last []float32
		Loss        float64
	}
	text, err := os.ReadFile(*realExpected)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Read(*realFile)
	if err != nil {
		t.Fatal(err)
	}
	if ids := tok.Encode(nil, want.Text, 0); !slices.Equal(ids, want.IDs) {
		t.Fatalf("ids %v, want %v", ids, want.IDs)
	}
	m, err := Parse(*realFile)
	if err != nil {
		t.Fatal(err)
	}
	b := layer.NewBuilder(1, 1)
	y := m.NextIDs(b, b.Input("ids", len(want.IDs)), tok.Count())
	b.SetLoss(layer.CrossEntropy(b, y, b.Input("label", len(want.IDs))), y)
	net, err := b.Network()
	if err != nil {
		t.Fatal(err)
	}
	g, err := m.Generator(net)
	if err != nil {
		t.Fatal(err)
	}
	var loss float64
	for i, id := range want.IDs {
		logits, err := g.Next(int(id))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			compareLogits(t, "first", logits, want.First)
		}
		if i == len(want.IDs)-1 {
			compareLogits(t, "last", logits, want.Last)
			break
		}
		loss += logSumExp(logits) - float64(logits[want.IDs[i+1]])
	}
	if loss /= float64(len(want.IDs) - 1); math.Abs(loss-want.Loss) > 1e-4 {
		t.Errorf("the mean loss is %v, want %v", loss, want.Loss)
	}
}

// Files of Llama 3.1 have what divides the frequencies.
func TestGGUF_Llama3Frequencies(t *testing.T) {
	c, err := readGGUFConfig("testdata/llama3.gguf")
	if err != nil {
		t.Fatal(err)
	}
	want := layer.RotaryScaling{Factor: 8, Low: 1, High: 4, Steps: 8192}
	if r := c.decoder.rotation; r.Base != 500000 || r.Scaling != want {
		t.Errorf("angles %v, want scaling %v", r, want)
	}
	scaling, _ := c.transformersConfig()["rope_scaling"].(map[string]any)
	if scaling["rope_type"] != "llama3" || scaling["factor"] != 8.0 {
		t.Errorf("config.json has the scaling %v", scaling)
	}
	text, err := os.ReadFile("testdata/llama3.gguf")
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other.gguf")
	eight, nine := []byte{0, 0, 0, 0x41}, []byte{0, 0, 0x10, 0x41}
	if err := os.WriteFile(other, bytes.ReplaceAll(text, eight, nine), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readGGUFConfig(other); err == nil || !strings.Contains(err.Error(), "is not that of Llama 3.1 or 3.2") {
		t.Errorf("other numbers: %v", err)
	}
}

func compareLogits(t *testing.T, which string, got, want []float32) {
	t.Helper()
	var off float64
	for i := range want {
		off = max(off, math.Abs(float64(got[i]-want[i])))
	}
	t.Logf("the largest error of the %s logits is %g", which, off)
	if len(got) != len(want) || off > 1e-3 {
		t.Errorf("the %s logits have an error of %g", which, off)
	}
}

func logSumExp(x []float32) float64 {
	largest, sum := float64(slices.Max(x)), 0.0
	for _, v := range x {
		sum += math.Exp(float64(v) - largest)
	}
	return largest + math.Log(sum)
}
