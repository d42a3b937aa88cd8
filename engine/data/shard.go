package data

import (
	"fmt"
	"sync"

	"github.com/dptrain/dptrain/internal/ranks"
)

// Shard selects the examples of a private set that one of several processes reads: those of each Size-th
// record. The zero value selects all.
type Shard struct {
	Rank, Size int
	Examples   int  // consecutive examples in a record, at least 1
	Users      bool // the examples of a user are a record instead
}

func (s Shard) isWhole() bool { return s.Size <= 1 }

// ownsRecord reports whether the process reads a record.
func (s Shard) ownsRecord(record int) bool {
	return s.isWhole() || ranks.Owner(record, s.Size) == s.Rank
}

// owns reports whether the process reads an example. user is its user.
func (s Shard) owns(example int, user int32) bool {
	if s.Users {
		return s.ownsRecord(int(user))
	}
	return s.ownsRecord(example / max(1, s.Examples))
}

// place returns where an example that the process reads lies among those that it reads, where records are not
// users: each Size records before its own have one.
func (s Shard) place(example int) int {
	per := max(1, s.Examples)
	return example/(per*s.Size)*per + example%per
}

// sharded has the examples of the shard of this process, and the length and the users of the whole set.
type sharded struct {
	Set    // of the examples of the shard
	shard  Shard
	length int
	users  []int32
	places []int32 // of the examples in Set, -1: not in the shard; nil unless records are users

	mutex sync.Mutex
	rows  []int // of Read
}

// newSharded returns a set of this length. places is that of sharded.
func newSharded(own Set, shard Shard, length int, users, places []int32) *sharded {
	if !shard.Users {
		places = nil
	}
	return &sharded{Set: own, shard: shard, length: length, users: users, places: places}
}

func (s *sharded) Len() int       { return s.length }
func (s *sharded) Users() []int32 { return s.users }

// Read copies examples of the shard.
func (s *sharded) Read(dst [][]float32, rows []int) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.rows = s.rows[:0]
	for _, row := range rows {
		if row < 0 || row >= s.length || !s.shard.owns(row, s.userOf(row)) {
			return fmt.Errorf("example %d of %d is not in the shard of rank %d", row, s.length, s.shard.Rank)
		}
		if s.places != nil {
			s.rows = append(s.rows, int(s.places[row]))
		} else {
			s.rows = append(s.rows, s.shard.place(row))
		}
	}
	return s.Set.Read(dst, s.rows)
}

func (s *sharded) userOf(row int) int32 {
	if s.users == nil {
		return 0
	}
	return s.users[row]
}

// IsSharded reports whether this process has only a shard of a set, so that it cannot read all examples.
func IsSharded(s Set) bool {
	switch s := s.(type) {
	case *sharded:
		return true
	case *partlyBlank:
		return IsSharded(s.Set)
	case *weighted:
		return IsSharded(s.Set)
	case *withStates:
		return IsSharded(s.Set)
	case *Cropped:
		return IsSharded(s.whole)
	}
	return false
}

// keepShard returns the values of the examples of a shard, size for each example, in memory of its own.
func keepShard[T any](s Shard, values []T, size int) []T {
	own := make([]T, 0, (len(values)/size/s.Size+max(1, s.Examples))*size)
	for i := range len(values) / size {
		if s.owns(i, 0) {
			own = append(own, values[i*size:(i+1)*size]...)
		}
	}
	return own
}
