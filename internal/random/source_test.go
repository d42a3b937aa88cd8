package random

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/iotest"
)

func TestNew_SecureAndFresh(t *testing.T) {
	a, err := New()
	if err != nil {
		t.Fatal(err)
	}
	b, err := New()
	if err != nil {
		t.Fatal(err)
	}
	if !a.Secure() || !b.Secure() || KeyOf(a) == KeyOf(b) || KeyOf(a) == (Key{}) {
		t.Error("two fresh sources must be secure and differ")
	}
	if s := NewSeeded(1); s.Secure() || KeyOf(s) == KeyOf(NewSeeded(2)) || KeyOf(s) != KeyOf(NewSeeded(1)) {
		t.Error("a seeded source must be insecure and given by its seed")
	}
	if got := fmt.Sprint(a, NewSeeded(1)); got != "noise.Source(secure) noise.Source(insecure)" {
		t.Errorf("printed as %s", got)
	}
}

func TestNew_EntropyFailure(t *testing.T) {
	broken := errors.New("no entropy")
	if s, err := newFrom(iotest.ErrReader(broken)); s != nil || !errors.Is(err, broken) {
		t.Errorf("got %v, %v", s, err)
	}
	if s, err := newFrom(strings.NewReader("31 bytes are not enough for it.")); s != nil || err == nil {
		t.Errorf("a short read gave %v, %v", s, err)
	}
}

func TestKey_NotPrinted(t *testing.T) {
	s := NewSeeded(0x1234567)
	for _, verb := range []string{"%v", "%+v", "%#v", "%x", "%d", "%s"} {
		for _, v := range []any{s, KeyOf(s), struct{ S *Source }{s}, struct{ K Key }{KeyOf(s)}} {
			out := fmt.Sprintf(verb, v)
			if strings.Contains(out, "1234567") || strings.Contains(out, "19088743") {
				t.Errorf("%s of %T prints the key: %s", verb, v, out)
			}
		}
	}
}

func TestStream_NoncesDiffer(t *testing.T) {
	seen := map[[3]uint32]string{}
	for _, p := range []Purpose{Release, Sampling, ExampleRandomness} {
		for _, lot := range []uint64{0, 1, 1 << 16, 1 << 31, 1 << 32, MaxLots - 1} {
			for _, v := range []uint32{0, 1, 1 << 16, math.MaxUint32} {
				for by := uniformSampler; by <= permuteAndFlipSampler; by++ {
					n, err := Stream{p, lot, v}.nonce(by)
					if err != nil {
						t.Fatal(err)
					}
					name := fmt.Sprint(p, lot, v, by)
					if other, ok := seen[n]; ok {
						t.Errorf("%s and %s share a nonce", name, other)
					}
					seen[n] = name
				}
			}
		}
	}
}

func TestSource_Limits(t *testing.T) {
	s := NewSeeded(1)
	ok := Stream{Purpose: Release}
	draw := func(st Stream, first uint64) error { return s.Normals(make([]float32, 2), st, first) }
	if err := draw(ok, MaxValues-2); err != nil {
		t.Error(err)
	}
	if err := draw(Stream{Sampling, MaxLots - 1, math.MaxUint32}, 0); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"past the last value": draw(ok, MaxValues-1),
		"far past":            draw(ok, math.MaxUint64),
		"no purpose":          draw(Stream{}, 0),
		"unknown purpose":     draw(Stream{Purpose: 4}, 0),
		"lot":                 draw(Stream{Purpose: Release, Lot: MaxLots}, 0),
		"uint64s":             s.Uint64s(make([]uint64, 2), ok, MaxValues-1),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: more than one line: %v", name, err)
		}
	}
}

// The last values of a stream come from the last blocks; the block counter does not wrap.
func TestSource_CounterDoesNotWrap(t *testing.T) {
	if last := uint64(MaxValues)/NormalBatch*batchBlocks - 1; last > math.MaxUint32 {
		t.Errorf("the last batch ends at block %d", last)
	}
	if last := uint64(MaxRounded)/NormalBatch*roundedBlocks - 1; last > math.MaxUint32 {
		t.Errorf("the last batch of rounded values ends at block %d", last)
	}
	if last := uint64(MaxRounded)/2 - 1; last > math.MaxUint32 {
		t.Errorf("the last pair has its further digits at block %d", last)
	}
	if last := uint64(MaxValues)/groupUint64s*lanes - 1; last > math.MaxUint32 {
		t.Errorf("the last group ends at block %d", last)
	}
}
