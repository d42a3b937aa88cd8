package team

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/dptrain/dptrain/engine/internal/state"
	"github.com/dptrain/dptrain/internal/random"
	"github.com/dptrain/dptrain/internal/ranks"
	"github.com/dptrain/dptrain/noise"
)

// Team is the ranks of a run as one of them sees them. A nil Team is a run in one process.
type Team struct {
	ranks   ranks.Communicator
	timeout time.Duration // that the user set; 0: from the longest lot
	began   time.Time     // the current lot
	longest time.Duration // of the lots so far
}

// The rule of the time that ranks wait for one another.
const (
	shortestTimeout     = time.Minute
	lotsPerTimeout      = 5
	patienceBetweenLots = 10
)

// New returns the team of a rank, nil in one process. A timeout of 0 follows from the longest lot.
func New(of ranks.Communicator, timeout time.Duration) *Team {
	if of == nil {
		return nil
	}
	t := &Team{ranks: of, timeout: timeout}
	t.waitBetweenLots()
	return t
}

// StartupTimeout returns how long ranks wait for one another before the first lot.
func StartupTimeout(timeout time.Duration) time.Duration {
	return patienceBetweenLots * (&Team{timeout: timeout}).inLots()
}

func (t *Team) inLots() time.Duration {
	if t.timeout > 0 {
		return t.timeout
	}
	return max(shortestTimeout, lotsPerTimeout*t.longest)
}

func (t *Team) waitBetweenLots() { t.ranks.SetTimeout(patienceBetweenLots * t.inLots()) }

// StartLot limits the time that the ranks wait for one another in a lot.
func (t *Team) StartLot() {
	if t == nil {
		return
	}
	t.began = time.Now()
	if t.longest > 0 {
		t.ranks.SetTimeout(t.inLots())
	}
}

// EndLot lets the ranks wait longer, until the next StartLot.
func (t *Team) EndLot() {
	if t == nil {
		return
	}
	t.longest = max(t.longest, time.Since(t.began))
	t.waitBetweenLots()
}

// Agree returns the error of any rank, on all ranks.
func (t *Team) Agree(err error) error {
	if t == nil {
		return err
	}
	return ranks.Agree(t.ranks, err)
}

// NewSource returns a source whose key is from the operating system and, on several ranks, that of rank 0.
func NewSource(of ranks.Communicator) (*noise.Source, error) {
	source, err := noise.New()
	if of == nil {
		return source, err
	}
	if err := ranks.Agree(of, err); err != nil {
		return nil, err
	}
	key := random.KeyOf(source)
	if err := takeFromRankZero(of, key[:]); err != nil {
		return nil, err
	}
	return random.NewKeyed(key), nil
}

// TakeFromRankZero replaces values, a slice or a pointer whose numbers have a fixed size, by those of rank 0.
func (t *Team) TakeFromRankZero(values any) error {
	if t == nil {
		return nil
	}
	return takeFromRankZero(t.ranks, values)
}

func takeFromRankZero(of ranks.Communicator, values any) error {
	bytes, err := binary.Append(nil, binary.LittleEndian, values)
	if err == nil {
		err = of.Broadcast(bytes)
	}
	if err == nil {
		_, err = binary.Decode(bytes, binary.LittleEndian, values)
	}
	return err
}

// Sum replaces values by their sums over all ranks.
func (t *Team) Sum(values []int64) error {
	if t == nil {
		return nil
	}
	return t.ranks.Sum(values)
}

// AgreeOnSpent returns on all ranks when the ledger of rank 0 on disk has what is released: the other ranks wait for
// it. err is the error of its sums, and spent that of the ledger.
func (t *Team) AgreeOnSpent(err, spent error) error {
	switch {
	case err == nil:
		return t.Agree(spent)
	case spent != nil:
		return fmt.Errorf("%w; the ledger does not state the cost: %w", err, spent)
	}
	return err
}

// AgreeOnCheckpoint returns the error of any rank that reads the newest checkpoint, or that the ranks read
// different ones.
func AgreeOnCheckpoint(of ranks.Communicator, saved *state.Checkpoint, err error) error {
	if of == nil {
		return err
	}
	if err := ranks.Agree(of, err); err != nil {
		return err
	}
	found := "none"
	if saved != nil {
		found = fmt.Sprint(saved.Step, saved.Head)
	}
	return ranks.RequireEqual(of, "checkpoints", []byte(found))
}

// Vote returns on all ranks why one of them does not go on: the first of causes that the err of any rank
// wraps, or the error of the lowest rank. Where none has a reason, marked reports whether any rank marks the
// vote. A rank whose own err wraps the cause gets its err.
func (t *Team) Vote(err error, mark bool, causes ...error) (marked bool, agreed error) {
	if t == nil {
		return mark, err
	}
	own := err
	votes := make([]int64, len(causes)+1)
	if mark {
		votes[len(causes)] = 1
	}
	for i, cause := range causes {
		if errors.Is(err, cause) {
			votes[i], err = 1, nil
		}
	}
	if e := t.ranks.Sum(votes); e != nil {
		return false, ranks.AfterFailure(err, e)
	}
	if err := t.Agree(err); err != nil {
		return false, err
	}
	for i, cause := range causes {
		switch {
		case votes[i] == 0:
		case errors.Is(own, cause):
			return false, own
		default:
			return false, cause
		}
	}
	return votes[len(causes)] > 0, nil
}
