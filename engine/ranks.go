package engine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/dptrain/dptrain/engine/internal/state"
	"github.com/dptrain/dptrain/internal/device/simd"
	"github.com/dptrain/dptrain/internal/random"
	"github.com/dptrain/dptrain/internal/ranks"
	"github.com/dptrain/dptrain/internal/setting"
	"github.com/dptrain/dptrain/noise"
)

// A run on several ranks. All ranks have one key, so all draw the same lot and the same noise. Each
// computes the records of its shard, and then the integers of all ranks are added. Each adds the noise to its
// part of the elements and updates its part of the weights and of the optimizer's state, and they gather the
// weights (package lot). Bounds and statistics are computed by all. Rank 0 has the files.
//
// Ranks agree before the sums are added, after the ledger has the lot, and before the next lot. An error
// of one rank is then the error of all, and none waits for another.

// checkRanks refuses what several ranks cannot compute with the bits of one.
func (c *Config) checkRanks() error {
	if c.Ranks == nil {
		return nil
	}
	m := &c.Mechanism
	switch {
	case c.RankTimeout < 0:
		return setting.Errorf("RankTimeout", "%v: give a time above 0, or 0 for the default", setting.With("RankTimeout", c.RankTimeout))
	case m.NonPrivate:
		return setting.Errorf("Mechanism.NonPrivate", "a run without privacy (%v) adds floating-point numbers, so its result would depend on the number of ranks: train it in one process", setting.Named("Mechanism.NonPrivate"))
	case m.Arithmetic == FloatArithmetic:
		return setting.Errorf("Mechanism.Arithmetic", "%v on several ranks: sums of floating-point numbers depend on the number of ranks; use %v",
			setting.With("Mechanism.Arithmetic", string(FloatArithmetic)), setting.With("Mechanism.Arithmetic", string(ExactArithmetic)))
	case c.Device.Name == "gorgonia":
		return setting.Errorf("Device.Name", "device %s is not available on several ranks: use %v", c.Device.Name, setting.With("Device.Name", "cpu"))
	}
	return nil
}

// rankCount returns the number of ranks.
func (c *Config) rankCount() int {
	if c.Ranks == nil {
		return 1
	}
	return c.Ranks.Size()
}

// rank returns the number of this process.
func (c *Config) rank() int {
	if c.Ranks == nil {
		return 0
	}
	return c.Ranks.Rank()
}

// followsRankZero reports whether another rank has the files.
func (c *Config) followsRankZero() bool { return c.Ranks != nil && c.Ranks.Rank() > 0 }

// newSource returns the source of a run: of its seed, or of a key from the operating system, which on
// all ranks is that of rank 0.
func (c *Config) newSource() (*noise.Source, error) {
	if c.Seed != nil {
		return noise.NewSeeded(*c.Seed), nil
	}
	source, err := noise.New()
	if c.Ranks == nil {
		return source, err
	}
	if err := ranks.Agree(c.Ranks, err); err != nil {
		return nil, err
	}
	key := random.KeyOf(source)
	if err := c.takeFromRankZero(key[:]); err != nil {
		return nil, err
	}
	return random.NewKeyed(key), nil
}

// rankTimer sets how long the ranks wait for one another.
type rankTimer struct {
	of      ranks.Communicator
	timeout time.Duration // of Config
	began   time.Time     // the current lot
	longest time.Duration // of the lots so far
}

// The rule of Config.RankTimeout.
const (
	shortestRankTimeout = time.Minute
	lotsPerRankTimeout  = 5
	patienceBetweenLots = 10
)

func (t *rankTimer) inLots() time.Duration {
	if t.timeout > 0 {
		return t.timeout
	}
	return max(shortestRankTimeout, lotsPerRankTimeout*t.longest)
}

func (t *rankTimer) startLot() {
	t.began = time.Now()
	if t.longest > 0 {
		t.of.SetTimeout(t.inLots())
	}
}

func (t *rankTimer) endLot() {
	t.longest = max(t.longest, time.Since(t.began))
	t.waitBetweenLots()
}

func (t *rankTimer) waitBetweenLots() { t.of.SetTimeout(patienceBetweenLots * t.inLots()) }

// StartupTimeout returns how long ranks with this RankTimeout wait for one another before the first lot.
func (c Config) StartupTimeout() time.Duration {
	return patienceBetweenLots * (&rankTimer{timeout: c.RankTimeout}).inLots()
}

// buildOnRanks makes a run without its files, and checks that all ranks have the same.
func buildOnRanks(c Config) (*Run, error) {
	if c.Ranks == nil {
		return build(c)
	}
	c.Ranks.SetTimeout(c.StartupTimeout())
	r, err := newUncompiled(c)
	if err := ranks.Agree(c.Ranks, err); err != nil {
		return nil, err
	}
	if err := r.shareIndex(); err != nil {
		return nil, err
	}
	err = r.compile()
	if agreed := ranks.Agree(c.Ranks, err); agreed != nil {
		if err == nil {
			r.network.Executable.Close()
		}
		return nil, agreed
	}
	r.rankTimer = &rankTimer{of: c.Ranks, timeout: c.RankTimeout}
	if err := r.compareRanks(); err != nil {
		r.network.Executable.Close()
		return nil, err
	}
	return r, nil
}

// shareIndex gives all ranks the numbers of the blank examples: each may know those of its own records only.
func (r *Run) shareIndex() error {
	c, index := r.config.Ranks, r.index
	data := fmt.Sprint(index.Records, index.Rows, index.PerRecord)
	if err := ranks.RequireEqual(c, "numbers of records", []byte(data)); err != nil {
		return err
	}
	const bits = 32 // of a word; one rank sets each bit
	words := make([]int64, index.Rows/bits+1)
	if index.Blank != nil {
		index.ForEachRowOf(c.Rank(), c.Size(), func(row int) {
			if index.Blank[row] {
				words[row/bits] |= 1 << (row % bits)
			}
		})
	}
	if err := c.Sum(words); err != nil {
		return err
	}
	index.Blank = nil
	for row := range index.Rows {
		if words[row/bits]>>(row%bits)&1 != 0 {
			if index.Blank == nil {
				index.Blank = make([]bool, index.Rows)
			}
			index.Blank[row] = true
		}
	}
	return nil
}

// compareRanks returns an error if a rank has other settings, data or starting weights than rank 0. The error
// names the setting. It does not state a number of records, which may be private.
func (r *Run) compareRanks() error {
	c := &r.config
	mine, err := r.fingerprint()
	if err := ranks.Agree(c.Ranks, err); err != nil {
		return err
	}
	for _, e := range []struct {
		name  string
		value any
	}{
		{"number of lots", c.Steps}, {"microbatch", r.network.Program.Records}, {"delta", c.Budget.Delta},
		{"device", kindOfDevice(c.Device.Name)}, {"precision", c.Device.Precision},
		{"budget", c.Budget.StopAtEpsilon}, {"accountant", c.Budget.Accountant}, {"seed", seedText(c.Seed)},
		{"program", runtime.GOARCH + " " + programDigest()}, {"kernels", simd.ISA()},
	} {
		mine = append(mine, state.Entry{Name: e.name, Value: fmt.Sprint(e.value)})
	}
	text, err := json.Marshal(mine)
	if err != nil {
		return err
	}
	if text, err = ranks.BroadcastAll(c.Ranks, text); err != nil {
		return err
	}
	var first state.Fingerprint
	if err = json.Unmarshal(text, &first); err == nil {
		err = firstDifference(mine, first)
	}
	if err := ranks.Agree(c.Ranks, err); err != nil {
		return err
	}
	return r.compareWeights()
}

// kindOfDevice returns the name of a device without its number.
func kindOfDevice(name string) string {
	kind, _, _ := strings.Cut(name, ":")
	return kind
}

// programDigest returns a digest of the file of this program, which determines all that it computes on one
// kind of processor; "unknown" where it cannot be read.
var programDigest = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		return "unknown"
	}
	file, err := os.Open(path)
	if err != nil {
		return "unknown"
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "unknown"
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
})

func seedText(seed *uint64) string {
	if seed == nil {
		return "none"
	}
	return fmt.Sprint(*seed)
}

func firstDifference(mine, first state.Fingerprint) error {
	for i, e := range mine {
		if i >= len(first) || first[i].Name != e.Name {
			return fmt.Errorf("it has the setting %s, which rank 0 does not have", e.Name)
		}
		if first[i] != e {
			return fmt.Errorf("its setting %s is %s, and that of rank 0 is %s", e.Name, e.Value, first[i].Value)
		}
	}
	if len(first) > len(mine) {
		return fmt.Errorf("it lacks the setting %s of rank 0", first[len(mine)].Name)
	}
	return nil
}

// compareWeights returns an error if a rank has other weights than rank 0.
func (r *Run) compareWeights() error {
	if err := ranks.Agree(r.config.Ranks, r.network.Executable.SyncState()); err != nil {
		return err
	}
	sum := sha256.New()
	var buffer [4096]byte
	for _, values := range append(r.network.Executable.State().Weights, r.network.Running.All()) {
		for len(values) > 0 {
			n := min(len(values), len(buffer)/4)
			for i, v := range values[:n] {
				binary.LittleEndian.PutUint32(buffer[4*i:], math.Float32bits(v))
			}
			sum.Write(buffer[:4*n])
			values = values[n:]
		}
	}
	return ranks.RequireEqual(r.config.Ranks, "weights", sum.Sum(nil))
}

// RankDurations returns how long each rank has computed its records since this command began, without waiting for
// the others; nil in one process.
func (r *Run) RankDurations() []time.Duration { return r.lot.RankDurations() }

// agreeOnSaved returns the error of any rank, or that the ranks read different checkpoints.
func (c *Config) agreeOnSaved(saved *state.Checkpoint, err error) error {
	if c.Ranks == nil {
		return err
	}
	if err := ranks.Agree(c.Ranks, err); err != nil {
		return err
	}
	found := "none"
	if saved != nil {
		found = fmt.Sprint(saved.Step, saved.Head)
	}
	return ranks.RequireEqual(c.Ranks, "checkpoints", []byte(found))
}

// lotsBetweenComparisons is how often ranks compare their weights.
const lotsBetweenComparisons = 64

// endsOfRuns are the reasons to end that all ranks recognize.
var endsOfRuns = []error{ErrStop, context.Canceled, ErrBudget}

// agreeOnEnd returns nil where err is nil on all ranks. Otherwise it returns on all ranks why one does not go on: one
// of endsOfRuns, or the error of a rank. It replaces votes by their sums.
func (c *Config) agreeOnEnd(err error, votes ...*int64) error {
	if c.Ranks == nil {
		return err
	}
	all := make([]int64, len(endsOfRuns)+len(votes))
	own, failed := err, err
	for i, end := range endsOfRuns {
		if errors.Is(err, end) {
			all[i], failed = 1, nil
		}
	}
	for i, vote := range votes {
		all[len(endsOfRuns)+i] = *vote
	}
	if e := c.Ranks.Sum(all); e != nil {
		return ranks.AfterFailure(failed, e)
	}
	if err := ranks.Agree(c.Ranks, failed); err != nil {
		return err
	}
	for i, end := range endsOfRuns {
		switch {
		case all[i] == 0:
		case errors.Is(own, end):
			return own
		default:
			return end
		}
	}
	for i, vote := range votes {
		*vote = all[len(endsOfRuns)+i]
	}
	return nil
}

// agreeOnSpent returns on all ranks when the ledger of rank 0 on disk has what is released. err is the error of its
// sums, and spent that of the ledger.
func (c *Config) agreeOnSpent(err, spent error) error {
	switch {
	case err == nil:
		return ranks.Agree(c.Ranks, spent)
	case spent != nil:
		return fmt.Errorf("%w; the ledger does not state the cost: %w", err, spent)
	}
	return err
}

// takeFromRankZero replaces values by those of rank 0, which are as many.
func (c *Config) takeFromRankZero(values any) error {
	if c.Ranks == nil {
		return nil
	}
	b, err := binary.Append(nil, binary.LittleEndian, values)
	if err == nil {
		err = c.Ranks.Broadcast(b)
	}
	if err == nil {
		_, err = binary.Decode(b, binary.LittleEndian, values)
	}
	return err
}

// agreeToContinue returns nil where all ranks go on with the next lot. Otherwise it returns on all ranks why
// one does not.
func (r *Run) agreeToContinue(err error) error {
	c := r.config.Ranks
	save := int64(0) // whether rank 0 saves a checkpoint
	if r.checkpoints != nil && err == nil && r.step > r.firstStep {
		var due bool
		if due, err = r.checkpoints.IsDue(r.step); due {
			save = 1
		}
	}
	if err := r.config.agreeOnEnd(err, &save); err != nil {
		return err
	}
	if save > 0 {
		err := r.lot.GatherState()
		if err == nil && r.checkpoints != nil {
			err = r.checkpoints.Begin(r.step)
		}
		if err := ranks.Agree(c, err); err != nil {
			return err
		}
	}
	if r.step > r.firstStep && (r.step%lotsBetweenComparisons == 0 || r.step == r.config.Steps) {
		return r.compareWeights()
	}
	return nil
}
