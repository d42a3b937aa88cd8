package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/dptrain/dptrain/internal/device/plan"
)

func newTestCheckpoint(average bool, slots int) *Checkpoint {
	c := &Checkpoint{Run: Fingerprint{{"records", "60"}}, Step: 7, Head: "abc", Bounds: []float64{0.5}, Sizes: []int{3, 1}, Average: average, Slots: slots, Projection: 2 * slots}
	c.Memory = newState(c)
	if slots > 0 {
		c.Directions = make([]float32, c.Projection)
	}
	x := float32(1)
	for _, v := range append(c.arrays(), c.Directions) {
		for i := range v {
			v[i] = x
			x = -x * 1.5
		}
	}
	return c
}

// newState allocates the state that a checkpoint describes.
func newState(c *Checkpoint) (s plan.State) {
	for _, n := range c.Sizes {
		s.Weights = append(s.Weights, make([]float32, n))
		if c.Average {
			s.Average = append(s.Average, make([]float32, n))
		}
		slots := make([][]float32, c.Slots)
		for i := range slots {
			slots[i] = make([]float32, n)
		}
		s.Slots = append(s.Slots, slots)
	}
	return s
}

// readWholeCheckpoint reads a file with its state.
func readWholeCheckpoint(file []byte) (*Checkpoint, error) {
	c, err := readCheckpoint(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, err
	}
	err = c.Load(newState(c))
	c.numbers = nil
	return c, err
}

func encodeCheckpoint(t testing.TB, c *Checkpoint) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := c.write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A checkpoint reads back unchanged, and damage at every position is detected.
func TestCheckpoint_RoundTripAndDamage(t *testing.T) {
	for _, average := range []bool{false, true} {
		for slots := range 3 {
			c := newTestCheckpoint(average, slots)
			file := encodeCheckpoint(t, c)
			got, err := readWholeCheckpoint(file)
			if err != nil || !reflect.DeepEqual(got, c) {
				t.Fatalf("%+v, %v; want %+v", got, err, c)
			}
			for cut := range file {
				if _, err := readWholeCheckpoint(file[:cut]); !errors.Is(err, ErrDamaged) {
					t.Fatalf("cut to %d bytes: %v", cut, err)
				}
			}
			for at := range file {
				bad := bytes.Clone(file)
				bad[at] ^= 0x10
				if _, err := readWholeCheckpoint(bad); !errors.Is(err, ErrDamaged) {
					t.Fatalf("byte %d changed: %v", at, err)
				}
			}
		}
	}
}

// Content that no run writes is damage even if its checksum is correct.
func TestCheckpoint_RefusesImpossibleContent(t *testing.T) {
	seal := func(magic, header string, length int, number float32) []byte {
		file := append(binary.LittleEndian.AppendUint64([]byte(magic), uint64(length)), header...)
		file = binary.LittleEndian.AppendUint32(file, math.Float32bits(number))
		sum := sha256.Sum256(file)
		return append(file, sum[:]...)
	}
	const sound = `{"step":0,"sizes":[1],"average":false,"slots":0}`
	if _, err := readWholeCheckpoint(seal(magic, sound, len(sound), 0)); err != nil {
		t.Fatal(err)
	}
	files := [][]byte{
		seal(magic, sound, len(sound), float32(math.NaN())),
		seal(magic, sound, 1<<62, 0),
		seal("dptrain checkpoint 9\n", sound, len(sound), 0),
	}
	for _, header := range []string{
		`{"step":-1,"sizes":[1],"average":false,"slots":0}`,
		`{"step":0,"sizes":[2],"average":false,"slots":0}`,
		`{"step":0,"sizes":[2,-1],"average":false,"slots":0}`,
		`{"step":0,"sizes":[1,0],"average":false,"slots":0}`,
		`{"step":0,"sizes":[],"average":false,"slots":-1,"projection":1}`,
		`{"step":0,"sizes":[2],"average":false,"slots":0,"projection":-1}`,
		`{"step":0,"sizes":[1],"average":false,"slots":0,"key":1}`,
	} {
		files = append(files, seal(magic, header, len(header), 0))
	}
	for _, file := range files {
		if _, err := readWholeCheckpoint(file); !errors.Is(err, ErrDamaged) {
			t.Errorf("%q: %v", file, err)
		}
	}
	if err := newTestCheckpoint(true, 1).CheckSizes(newTestCheckpoint(true, 1)); err != nil {
		t.Error(err)
	}
	for i, change := range []func(c *Checkpoint){
		func(c *Checkpoint) { c.Sizes[1]++ }, func(c *Checkpoint) { c.Slots++ }, func(c *Checkpoint) { c.Average = false }, func(c *Checkpoint) { c.Projection++ },
	} {
		c := newTestCheckpoint(true, 1)
		if change(c); !errors.Is(c.CheckSizes(newTestCheckpoint(true, 1)), ErrDamaged) {
			t.Errorf("change %d was not detected", i)
		}
	}
}

// No file makes the parser panic or allocate without bound, and what it accepts is written back
// as the same numbers. The fuzzed bytes follow the magic line and get a correct checksum.
func FuzzCheckpoint(f *testing.F) {
	for _, c := range []*Checkpoint{newTestCheckpoint(false, 0), newTestCheckpoint(true, 2)} {
		file := encodeCheckpoint(f, c)
		f.Add(file[len(magic) : len(file)-sha256.Size])
	}
	f.Add(make([]byte, 8)) // no header
	huge := binary.LittleEndian.AppendUint64(nil, 80)
	f.Add(append(huge, `{"run":null,"step":0,"sizes":[4611686018427387904,4],"average":true,"slots":2}  `...))
	f.Add(append(binary.LittleEndian.AppendUint64(nil, 67), `{"run":null,"step":0,"sizes":[1],"projection":4611686018427387904}  `...))
	f.Fuzz(func(t *testing.T, body []byte) {
		file := append([]byte(magic), body...)
		sum := sha256.Sum256(file)
		c, err := readWholeCheckpoint(append(file, sum[:]...))
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("error %v", err)
			}
			return
		}
		again, err := readWholeCheckpoint(encodeCheckpoint(t, c))
		if err != nil || !reflect.DeepEqual(again.Memory, c.Memory) || !slices.Equal(again.Directions, c.Directions) || again.Step != c.Step {
			t.Fatalf("read back as %+v, %v; want %+v", again, err, c)
		}
	})
}

// A checkpoint is due after its interval, or after enough lots where writing takes a small share of the time.
func TestWriter_IsDue(t *testing.T) {
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	for _, c := range []struct {
		begun              time.Time
		duration, interval time.Duration
		lots               int
		want               bool
	}{
		{ago(time.Second), 0, time.Hour, 10, true},
		{ago(time.Second), 0, time.Hour, 9, false},
		{ago(time.Second), time.Minute, time.Hour, 300, false},
		{ago(time.Hour), time.Hour, time.Hour, 1, true},
	} {
		w := Writer{begun: c.begun, duration: c.duration, interval: c.interval, maxLostLots: 10}
		if w.isDue(c.lots) != c.want {
			t.Errorf("a checkpoint of %d lots, which takes %v, is due after %v: %v, want %v", c.lots, c.duration, time.Since(c.begun), !c.want, c.want)
		}
	}
}
