package weights

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/internal/safetensors"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
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

// counted are the parameters of dense(1), numbers in order.
func counted() []engine.Parameter {
	return []engine.Parameter{
		{Name: "body.weight", Shape: []int{3, 2}, Values: []float32{1, 2, 3, 4, 5, 6}},
		{Name: "body.bias", Shape: []int{2}, Values: []float32{7, 8}},
		{Name: "head.weight", Shape: []int{2, 1}, Values: []float32{9, 10}},
		{Name: "head.bias", Shape: []int{1}, Values: []float32{11}},
	}
}

func written(t *testing.T, parameters []engine.Parameter) io.ReadSeeker {
	t.Helper()
	var file bytes.Buffer
	if err := Write(&file, parameters); err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(file.Bytes())
}

// starting are a network's starting values by its parameters' names.
func starting(t *testing.T, build perexample.Build) map[string][]float32 {
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

func TestWhatIsWrittenStartsANetwork(t *testing.T) {
	file := written(t, counted())
	for range 2 { // wherever the file was read up to
		build, _, err := Load(dense(1), file)
		if err != nil {
			t.Fatal(err)
		}
		got := starting(t, build)
		for _, p := range counted() {
			if !slices.Equal(got[p.Name], p.Values) {
				t.Errorf("%s starts as %v, and %v was written", p.Name, got[p.Name], p.Values)
			}
		}
	}
}

// As PyTorch has them dense weights are turned over; what was not trained is as it starts.
func TestPyTorchsLayout(t *testing.T) {
	var file bytes.Buffer
	if err := WritePyTorch(&file, dense(1), counted()[:2]); err != nil {
		t.Fatal(err)
	}
	tensors, metadata, err := safetensors.Read(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil || metadata["format"] != "pt" {
		t.Fatal(metadata, err)
	}
	for _, x := range tensors {
		if x.Name == "body.weight" && (!slices.Equal(x.Shape, []int{2, 3}) || !slices.Equal(x.Values, []float32{1, 3, 5, 2, 4, 6})) {
			t.Errorf("the body's weight is %v %v", x.Shape, x.Values)
		}
	}
	build, found, err := Load(dense(1), bytes.NewReader(file.Bytes()))
	if err != nil || !strings.Contains(found, "4 of the network's 4 parameters, in PyTorch's") {
		t.Fatal(found, err)
	}
	got, fresh := starting(t, build), starting(t, dense(1))
	for i, p := range counted() {
		want := p.Values
		if i >= 2 {
			want = fresh[p.Name]
		}
		if !slices.Equal(got[p.Name], want) {
			t.Errorf("%s starts as %v, and %v was written", p.Name, got[p.Name], want)
		}
	}
	file.Reset()
	wrong := engine.Parameter{Name: "body.bias", Shape: []int{2}, Values: []float32{1}}
	for _, p := range []engine.Parameter{{Name: "tail", Shape: []int{1}, Values: []float32{1}}, wrong} {
		if err := WritePyTorch(&file, dense(1), []engine.Parameter{p}); err == nil || file.Len() > 0 {
			t.Errorf("%s was written (%v)", p.Name, err)
		}
	}
}

func TestWhatIsExceptedStartsAsItDid(t *testing.T) {
	build, _, err := Load(dense(4), written(t, counted()), "head")
	if err != nil {
		t.Fatal(err)
	}
	got, fresh := starting(t, build), starting(t, dense(4))
	if !slices.Equal(got["body.weight"], counted()[0].Values) || !slices.Equal(got["head.weight"], fresh["head.weight"]) {
		t.Errorf("started from %v", got)
	}
	if build, _, err = Load(dense(1), written(t, counted()), "head.bias"); err != nil {
		t.Fatal(err)
	}
	if got = starting(t, build); got["head.weight"][1] != 10 || got["head.bias"][0] == 11 {
		t.Errorf("started from %v", got)
	}
}

func TestStartRefuses(t *testing.T) {
	for _, c := range []struct {
		build  perexample.Build
		file   io.ReadSeeker
		except []string
		says   string
	}{
		{dense(4), written(t, counted()), nil, "head.weight [2 1] for [2 4]"},
		{dense(1), written(t, counted()[:3]), nil, "missing head.bias"},
		{dense(1), written(t, append(counted(), engine.Parameter{Name: "more", Shape: []int{1}, Values: []float32{1}})), nil, "left over more"},
		{dense(1), written(t, counted()), []string{"hea"}, `"hea" starts anew, and neither network nor file has a layer or parameter of that name: head is the nearest`},
		{dense(1), written(t, counted()), []string{"head", "body.bais"}, "body.bias is the nearest"},
		{dense(1), written(t, append(counted(), engine.Parameter{Name: "more", Shape: []int{1}, Values: []float32{1}})), []string{"more"}, ""},
		{dense(1), strings.NewReader("weights"), nil, "safetensors"},
		{nil, written(t, counted()), nil, "no network is given"},
	} {
		_, _, err := Load(c.build, c.file, c.except...)
		switch {
		case c.says == "" && err != nil:
			t.Error(err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%v does not say %q in one line", err, c.says)
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	for says, parameters := range map[string][]engine.Parameter{
		"body.bias": append(counted(), counted()[1]),
		"1 numbers": {{Name: "w", Shape: []int{3}, Values: []float32{1}}},
	} {
		var file bytes.Buffer
		if err := Write(&file, parameters); err == nil || !strings.Contains(err.Error(), says) || file.Len() > 0 {
			t.Errorf("%v does not say %q, or %d bytes were written", err, says, file.Len())
		}
	}
}

// What was trained in another network is not left out in silence.
func TestWholeRefuses(t *testing.T) {
	for says, trained := range map[string]engine.Parameter{
		"no parameter tail.bias":               {Name: "tail.bias", Shape: []int{1}, Values: []float32{1}},
		"body.bias of shape [2] has 1 numbers": {Name: "body.bias", Shape: []int{2}, Values: []float32{1}},
		"no parameter head.bias of shape [2]":  {Name: "head.bias", Shape: []int{2}, Values: []float32{1, 2}},
	} {
		if whole, err := WithFrozen(dense(1), []engine.Parameter{trained}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %q: %v", err, says, whole)
		}
	}
}

func TestFreezeRefusesWhatIsNotThere(t *testing.T) {
	for _, name := range []string{"tail", "bod", "body.wait"} {
		if _, err := Freeze(dense(1), "head", name)(2); err == nil || !strings.Contains(err.Error(), `"`+name+`" to freeze: the network has body, head`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
