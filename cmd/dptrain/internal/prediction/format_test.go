package prediction

import (
	"math"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/engine/data"
)

func TestNewFormat_RejectsOutputsThatAreNotFinite(t *testing.T) {
	m := rundir.Manifest{Targets: 1, Schema: data.Schema{Target: "y", Bounds: map[string]data.Bounds{"y": {0, 90}}}}
	f, err := NewFormat(m, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if cells, err := f.AppendCells(nil, []float32{float32(v)}); err != ErrNotFinite {
			t.Errorf("%v is written as %v, %v", v, cells, err)
		}
	}
}

func TestNewFormat_TargetWithoutBounds(t *testing.T) {
	m := rundir.Manifest{Targets: 1, Schema: data.Schema{Target: "y"}}
	if _, err := NewFormat(m, false); err == nil || !strings.Contains(err.Error(), `no bounds of "y"`) {
		t.Errorf("without bounds: %v", err)
	}
}
