package engine

import (
	"context"
	"errors"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/sample"
)

// panickingRule is a clipping rule that panics once, in the third call after left is set to 3.
type panickingRule struct{ left *int }

func (b panickingRule) Factor(norm, bound float64) float64 {
	if *b.left--; *b.left == 0 {
		panic("a bug of the user's")
	}
	return bound / norm
}

// Where the caller recovers from a panic of the user's code, records that were summed before it
// must not be counted twice.
func TestPanic_EndsRun(t *testing.T) {
	left := 0
	c := testConfig(t)
	c.Microbatch, c.Sampling.Policy = 1, sample.PolicyFixed
	c.Mechanism.Clipping = clip.Flat(clip.Constant(1), panickingRule{&left})
	r := newRun(t, c)
	before := flatWeights(t, r)
	left = 3 // New calls the rule, too
	func() {
		defer func() {
			if recover() == nil {
				t.Fatal("the rule did not panic")
			}
		}()
		r.Train(context.Background(), nil)
	}()
	if err := r.Train(context.Background(), nil); !errors.Is(err, errPanicked) {
		t.Errorf("error %v, want %v", err, errPanicked)
	}
	if r.StepsDone() != 0 || relativeDistance(before, flatWeights(t, r)) != 0 {
		t.Error("a lot was released after the panic")
	}
}

// panickingSet is a set that panics from one of its reads on.
type panickingSet struct {
	data.Set
	left int
}

func (b *panickingSet) Read(dst [][]float32, rows []int) error {
	if b.left--; b.left < 0 {
		panic("a bug of the user's")
	}
	return b.Set.Read(dst, rows)
}

// panicValue returns the value with which f panics.
func panicValue(f func()) (p any) {
	defer func() { p = recover() }()
	f()
	return nil
}

// A panic in the user's data set reaches the user. It leaves no file of a run that did not
// begin, a complete ledger and checkpoint of one that did, and no thread.
func TestPanic_InDataReachesCaller(t *testing.T) {
	const bug = "a bug of the user's"
	threads := runtime.NumGoroutine()
	c := checkpointedConfig(t)
	c.Train = &panickingSet{Set: c.Train}
	if p := panicValue(func() { New(c) }); p != bug {
		t.Errorf("New panicked with %v", p)
	}
	requireNoFiles(t, c)
	c = checkpointedConfig(t)
	c.Device.Threads, c.Mechanism.NoiseMultiplier, c.Mechanism.NoiseMultiplierAt = 3, 0, func(int) float64 { panic(bug) }
	if p := panicValue(func() { New(c) }); p != bug {
		t.Errorf("New panicked with %v", p)
	}
	requireNoFiles(t, c)

	for name, of := range map[string]struct {
		c    Config
		lots int // before the panic
	}{"projection": {projectionConfig(t), 0}, "lots": {checkpointedConfig(t), 2}} {
		whole, set := of.c.Train, &panickingSet{of.c.Train, math.MaxInt}
		c := of.c
		c.Train, c.Sampling.Policy, c.Microbatch, c.Device.Threads = set, sample.PolicyFixed, 6, 3
		r, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		set.left = 2*of.lots + of.lots/2 // in a lot's second microbatch
		if p := panicValue(func() { r.Train(context.Background(), nil) }); p != bug {
			t.Errorf("%s: Train panicked with %v", name, p)
		}
		set.left = math.MaxInt
		if err := r.Train(context.Background(), nil); !errors.Is(err, errPanicked) {
			t.Errorf("%s: then %v", name, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		report, err := ledger.Verify(c.Files.Ledger)
		if err != nil || !report.Ended || report.Lots != of.lots {
			t.Errorf("%s: the ledger contains %+v: %v", name, report, err)
		}
		c.Train = whole
		if r, err = Resume(c); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		trainRun(t, r, nil)
		if r.StepsDone() != c.Steps {
			t.Errorf("%s: the resumed run made %d lots", name, r.StepsDone())
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}

	c = validationConfig(t, 2)
	set := &panickingSet{c.Validation.Set, math.MaxInt}
	c.Validation.Set = set
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	trainRun(t, r, nil)
	set.left = 0
	if p := panicValue(func() { r.Validate() }); p != bug {
		t.Errorf("Validate panicked with %v", p)
	}
	if lots := readLedger(t, c.Files.Ledger).LotCount(); lots != c.Steps {
		t.Errorf("the ledger contains %d lots", lots)
	}
	set.left = math.MaxInt
	if _, err := r.Validate(); err != nil { // nothing was released before
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}

	for range 1000 {
		if runtime.NumGoroutine() <= threads {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%d goroutines are left, and %d were there", runtime.NumGoroutine(), threads)
}
