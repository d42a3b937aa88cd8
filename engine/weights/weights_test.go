package weights

import (
	"bytes"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/internal/format/safetensors"
	"github.com/dptrain/dptrain/internal/half"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

func dense(out int) perexample.Build {
	return func(batch int) (*perexample.Network, error) {
		n := layer.NewBuilder(batch, 1)
		h := layer.Dense(n, n.Input("x", 3), "body", 2, layer.Tanh)
		prediction := layer.Dense(n, h, "head", out, layer.Identity)
		n.SetLoss(layer.SquaredError(n, prediction, n.Input("y", out)), prediction)
		return n.Network()
	}
}

// numbered returns parameters of dense(1) with the values 1, 2, 3, …
func numbered() []engine.Parameter {
	return []engine.Parameter{
		{Name: "body.weight", Shape: []int{3, 2}, Values: []float32{1, 2, 3, 4, 5, 6}},
		{Name: "body.bias", Shape: []int{2}, Values: []float32{7, 8}},
		{Name: "head.weight", Shape: []int{2, 1}, Values: []float32{9, 10}},
		{Name: "head.bias", Shape: []int{1}, Values: []float32{11}},
	}
}

func writtenFile(t *testing.T, parameters []engine.Parameter) io.ReadSeeker {
	t.Helper()
	var file bytes.Buffer
	if err := Write(&file, parameters); err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(file.Bytes())
}

// initialValues returns a network's initial values by parameter name.
func initialValues(t *testing.T, build perexample.Build) map[string][]float32 {
	t.Helper()
	net, err := build.ForBatch(2)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string][]float32{}
	for _, p := range net.Params {
		values[p.Name()] = p.Value().Data().([]float32)
	}
	return values
}

func TestLoad_WrittenFile(t *testing.T) {
	file := writtenFile(t, numbered())
	for range 2 { // independently of the position in the file
		build, _, err := Load(dense(1), file)
		if err != nil {
			t.Fatal(err)
		}
		got := initialValues(t, build)
		for _, p := range numbered() {
			if !slices.Equal(got[p.Name], p.Values) {
				t.Errorf("%s is %v, want %v", p.Name, got[p.Name], p.Values)
			}
		}
	}
}

// PyTorch stores dense weights transposed. Parameters that were not trained have their initial
// values.
func TestWritePyTorch_Layout(t *testing.T) {
	var file bytes.Buffer
	if err := WritePyTorch(&file, dense(1), numbered()[:2]); err != nil {
		t.Fatal(err)
	}
	tensors, metadata, err := safetensors.Read(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil || metadata["format"] != "pt" {
		t.Fatal(metadata, err)
	}
	for _, x := range tensors {
		if x.Name == "body.weight" && (!slices.Equal(x.Shape, []int{2, 3}) || !slices.Equal(x.Values, []float32{1, 3, 5, 2, 4, 6})) {
			t.Errorf("body.weight is %v %v", x.Shape, x.Values)
		}
	}
	build, found, err := Load(dense(1), bytes.NewReader(file.Bytes()))
	if err != nil || !strings.Contains(found, "4 of the network's 4 parameters, in PyTorch's") {
		t.Fatal(found, err)
	}
	got, fresh := initialValues(t, build), initialValues(t, dense(1))
	for i, p := range numbered() {
		want := p.Values
		if i >= 2 {
			want = fresh[p.Name]
		}
		if !slices.Equal(got[p.Name], want) {
			t.Errorf("%s is %v, want %v", p.Name, got[p.Name], want)
		}
	}
	file.Reset()
	wrong := engine.Parameter{Name: "body.bias", Shape: []int{2}, Values: []float32{1}}
	for _, p := range []engine.Parameter{{Name: "tail", Shape: []int{1}, Values: []float32{1}}, wrong} {
		if err := WritePyTorch(&file, dense(1), []engine.Parameter{p}); err == nil || file.Len() > 0 {
			t.Errorf("WritePyTorch accepted %s (%v)", p.Name, err)
		}
	}
}

func TestLoad_ExceptedLayersKeepInitialValues(t *testing.T) {
	build, _, err := Load(dense(4), writtenFile(t, numbered()), "head")
	if err != nil {
		t.Fatal(err)
	}
	got, fresh := initialValues(t, build), initialValues(t, dense(4))
	if !slices.Equal(got["body.weight"], numbered()[0].Values) || !slices.Equal(got["head.weight"], fresh["head.weight"]) {
		t.Errorf("initial values %v", got)
	}
	if build, _, err = Load(dense(1), writtenFile(t, numbered()), "head.bias"); err != nil {
		t.Fatal(err)
	}
	if got = initialValues(t, build); got["head.weight"][1] != 10 || got["head.bias"][0] == 11 {
		t.Errorf("initial values %v", got)
	}
}

func TestLoad_Refuses(t *testing.T) {
	for _, c := range []struct {
		build  perexample.Build
		file   io.ReadSeeker
		except []string
		want   string
	}{
		{dense(4), writtenFile(t, numbered()), nil, "head.weight [2 1] instead of [2 4]"},
		{dense(1), writtenFile(t, numbered()[:3]), nil, "missing head.bias"},
		{dense(1), writtenFile(t, append(numbered(), engine.Parameter{Name: "more", Shape: []int{1}, Values: []float32{1}})), nil, "not in the network more"},
		{dense(1), writtenFile(t, numbered()), []string{"hea"}, `neither the network nor the file has a layer or parameter "hea" to exclude; did you mean head?`},
		{dense(1), writtenFile(t, numbered()), []string{"head", "body.bais"}, "did you mean body.bias?"},
		{dense(1), writtenFile(t, append(numbered(), engine.Parameter{Name: "more", Shape: []int{1}, Values: []float32{1}})), []string{"more"}, ""},
		{dense(1), strings.NewReader("weights"), nil, "safetensors"},
		{nil, writtenFile(t, numbered()), nil, "no network is given"},
	} {
		_, _, err := Load(c.build, c.file, c.except...)
		switch {
		case c.want == "" && err != nil:
			t.Error(err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("error %v, want %q in one line", err, c.want)
		}
	}
}

func TestWrite_Refuses(t *testing.T) {
	for want, parameters := range map[string][]engine.Parameter{
		"body.bias": append(numbered(), numbered()[1]),
		"1 values":  {{Name: "w", Shape: []int{3}, Values: []float32{1}}},
	} {
		var file bytes.Buffer
		if err := Write(&file, parameters); err == nil || !strings.Contains(err.Error(), want) || file.Len() > 0 {
			t.Errorf("error %v, want %q; %d bytes written, want 0", err, want, file.Len())
		}
	}
}

// The file of WriteWithFrozen is that of the parameters of WithFrozen, also where frozen ones have 16 bits.
func TestWriteWithFrozen_SameFile(t *testing.T) {
	drawn := perexample.NewInitialValue(func(into []float32) { copy(into, []float32{1, -0.5, 2}) }, 3, 1).StoredAs(half.BFloat16,
		func(into []uint16) { copy(into, []uint16{0x3f80, 0xbf00, 0x4000}) })
	build := func(batch int) (*perexample.Network, error) {
		net, err := dense(1)(batch)
		if err != nil {
			return nil, err
		}
		p := G.NewMatrix(net.Loss.Graph(), tensor.Float32, G.WithShape(3, 1), G.WithName("drawn"))
		net.Params = append(net.Params, p)
		return net, G.Let(p, drawn)
	}
	trained := numbered()[:1]
	others := []engine.Parameter{{Name: "other", Shape: []int{2}, Values: []float32{7, 8}}}
	var want, got bytes.Buffer
	bits := drawn.SharedHalf()
	if err := WriteWithFrozen(&got, build, trained, others...); err != nil || drawn.IsInMemory() {
		t.Errorf("error %v, float32 in memory: %v", err, drawn.IsInMemory())
	}
	runtime.KeepAlive(bits)
	all, err := WithFrozen(build, trained)
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(&want, append(all, others...)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("another file of %d bytes, want %d", got.Len(), want.Len())
	}
}

// Parameters trained in another network are not omitted silently.
func TestWithFrozen_Refuses(t *testing.T) {
	for want, trained := range map[string]engine.Parameter{
		"no parameter tail.bias":               {Name: "tail.bias", Shape: []int{1}, Values: []float32{1}},
		"body.bias of shape [2] has 1 numbers": {Name: "body.bias", Shape: []int{2}, Values: []float32{1}},
		"no parameter head.bias of shape [2]":  {Name: "head.bias", Shape: []int{2}, Values: []float32{1, 2}},
	} {
		if whole, err := WithFrozen(dense(1), []engine.Parameter{trained}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q: %v", err, want, whole)
		}
	}
}

func TestFreeze_RefusesUnknownLayers(t *testing.T) {
	for _, name := range []string{"tail", "bod", "body.wait"} {
		if _, err := Freeze(dense(1), "head", name)(2); err == nil || !strings.Contains(err.Error(), `"`+name+`" to freeze; it has body, head`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
