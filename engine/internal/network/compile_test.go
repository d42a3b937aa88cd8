package network

import (
	"errors"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/device/cpu"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/host/memory"
	"github.com/dptrain/dptrain/models"
	"github.com/dptrain/dptrain/perexample"
)

// A microbatch that does not fit is checkpointed, and halved if the engine chose it. With less memory it is
// refused.
func TestCompile_ShortMemory(t *testing.T) {
	task, err := data.Remarks(data.Schema{Length: 24})
	if err != nil {
		t.Fatal(err)
	}
	words := task.Train.Columns()[0]
	build, err := models.Parse("transformer", models.DataSpec{Shape: words.Shape, Vocabulary: words.Classes, Padded: true, Classes: 2}, 1)
	if err != nil {
		t.Fatal(err)
	}
	index, err := load.NewIndex(task.Train, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	compile := func(microbatch int, room int64) (*Network, error) {
		return Compile(Options{Build: build, Check: func(*perexample.Network) error { return nil }, Train: task.Train, Index: index,
			Event:         sample.Event{Policy: sample.PolicyFixed, Records: index.Records, LotSize: 64},
			RowsPerRecord: 1, Microbatch: microbatch, Norms: true, Exact: true, Optimizer: plan.Optimizer{Kind: plan.SGD},
			opened: cpu.NewDeviceWithin(1, memory.Headroom{Bytes: room, LimitedBy: "the test"})})
	}
	whole, err := compile(64, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	need := int64(whole.Program.Bytes())
	if w := whole.Warning(); w != "" {
		t.Errorf("a warning without need: %s", w)
	}
	given, err := compile(64, need-1)
	if err != nil {
		t.Fatal(err)
	}
	if w := given.Warning(); given.Program.Records != 64 || given.Program.Arena >= whole.Program.Arena || !strings.Contains(w, "computed again") {
		t.Errorf("%d records, %d elements of %d, %q", given.Program.Records, given.Program.Arena, whole.Program.Arena, w)
	}
	chosen, err := compile(0, need-1)
	if err != nil {
		t.Fatal(err)
	}
	if chosen.Program.Records != 32 || chosen.Warning() != "" {
		t.Errorf("%d records are chosen, %q", chosen.Program.Records, chosen.Warning())
	}
	for _, n := range []*Network{whole, given, chosen} {
		if err := n.Executable.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := compile(64, need/2); !errors.Is(err, plan.ErrOutOfMemory) || !strings.Contains(err.Error(), "a microbatch of 64 records") {
		t.Errorf("half of the memory: %v", err)
	}
}
