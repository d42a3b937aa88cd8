// Package ranks connects the processes that compute one run together. They are its ranks, numbered from 0.
//
//	c, err := ranks.Open("")     // MPI, in a process that mpirun or srun started
//	all := ranks.NewGroup(4)     // four goroutines of one process
//
// Every rank makes the same calls in the same order. Ranks add integers only, so the sums have the same
// bits for every number of ranks and every order in which a library adds.
//
// MPI is opened at run time, which needs the build tag gpu and cgo. Without them Open returns
// [ErrNotBuilt].
package ranks

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Communicator is one rank's connection to the others. It serves one goroutine.
type Communicator interface {
	Rank() int
	Size() int
	// Sum replaces values by their sums over all ranks, which pass equally many. Sums wrap around
	// like Go's.
	Sum(values []int64) error
	// Sum32 is Sum of values whose sums fit, in half of the bytes.
	Sum32(values []int32) error
	// Gather gives b the part of each rank: that of rank k ends at ends[k], and begins where that of rank
	// k−1 ends. All ranks have the same ends.
	Gather(b []byte, ends []int) error
	// Broadcast replaces b by rank 0's, which has the same length.
	Broadcast(b []byte) error
	// SetTimeout limits how long later calls wait for other ranks; 0, as at the start: without limit. A call that
	// waits longer ends the run: it and all later calls return one [Unresponsive] on every rank that makes
	// calls.
	SetTimeout(limit time.Duration)
	// Abort ends the run on all ranks, also on those that wait for this one. Goroutines of one process
	// get an error with the reason. MPI ends the processes, this one too; the caller has
	// printed the reason.
	Abort(reason string)
	// Close leaves the run. All ranks call it, and nothing else afterwards.
	Close() error
	// Transport names what connects the ranks, such as mpi or nccl.
	Transport() string
	// String describes the transport and its library.
	String() string
}

// Exchanger is a communicator that sends each rank bytes of its own.
type Exchanger interface {
	// OnSeveralHosts reports, with one answer on all ranks, whether bytes travel through a network: then an exchange
	// waits, and the processors can compute meanwhile. On one host it takes the time of the processors.
	OnSeveralHosts() bool
	// Exchange sends each rank a part of send: that for rank k ends at ends[k], and begins where that for rank
	// k−1 ends. From each rank it receives n bytes, the length of this rank's own part: those of rank k are
	// receive[k·n : (k+1)·n]. It neither reads nor writes the part of this rank for itself. All ranks have the same
	// ends.
	Exchange(receive, send []byte, ends []int) error
}

// ErrNotBuilt means that this binary cannot open MPI.
var ErrNotBuilt = errors.New("this build has no MPI; build dptrain with `make gpu`, which also works on hosts without a GPU, or start one process without mpirun")

// Error is the error of one rank, as all ranks get it.
type Error struct {
	Rank int
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("rank %d: %v", e.Rank, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// Unresponsive means that ranks did not make a call in time: they are stopped, compute without end, or their
// hosts are not reachable.
type Unresponsive struct {
	Ranks    []int // ascending
	Reporter int   // the lowest rank that makes calls, which reports the error
	Timeout  time.Duration
}

func (e *Unresponsive) Error() string {
	names := make([]string, len(e.Ranks))
	for i, rank := range e.Ranks {
		names[i] = strconv.Itoa(rank)
	}
	switch len(names) {
	case 0:
		return fmt.Sprintf("all ranks wait for one another for %v: the connection between them delivers nothing", e.Timeout)
	case 1:
		return fmt.Sprintf("rank %s: the others have waited for it for %v: it is stopped, or much slower than they are", names[0], e.Timeout)
	}
	return fmt.Sprintf("ranks %s: the others have waited for them for %v: they are stopped, or much slower", strings.Join(names, ", "), e.Timeout)
}

// AfterFailure returns the error of a rank with an error of its own, which may be nil, whose call failed.
func AfterFailure(own, call error) error {
	switch {
	case own == nil:
		return call
	case errors.Is(own, call):
		return own
	}
	return fmt.Errorf("%w; then %w", own, call)
}

// Agree returns nil where err is nil on all ranks. Otherwise it returns an [Error] on all ranks: that of
// the lowest rank whose err is not nil. Other ranks know the text of the error, but not its type. An err
// that wraps an Error was agreed on before: it is returned as it is. A nil communicator is that of a process
// alone.
func Agree(c Communicator, err error) error {
	if c == nil {
		return err
	}
	text := ""
	lengths := make([]int64, c.Size())
	if err != nil {
		text = err.Error()
		lengths[c.Rank()] = int64(len(text)) + 1
	}
	if sumErr := c.Sum(lengths); sumErr != nil {
		return AfterFailure(err, sumErr)
	}
	first := slices.IndexFunc(lengths, func(n int64) bool { return n > 0 })
	if first < 0 {
		return nil
	}
	letters := make([]int64, lengths[first]-1)
	if first == c.Rank() {
		for i := range letters {
			letters[i] = int64(text[i])
		}
	}
	if sumErr := c.Sum(letters); sumErr != nil {
		return AfterFailure(err, sumErr)
	}
	var agreed *Error
	if errors.As(err, &agreed) {
		return err
	}
	if first != c.Rank() {
		message := make([]byte, len(letters))
		for i, l := range letters {
			message[i] = byte(l)
		}
		err = errors.New(string(message))
	}
	return &Error{first, err}
}

// RequireEqual returns an error on all ranks if a rank has other bytes than rank 0. what names them, in the
// plural.
func RequireEqual(c Communicator, what string, b []byte) error {
	first, err := BroadcastAll(c, b)
	if err != nil {
		return err
	}
	if !bytes.Equal(first, b) {
		err = fmt.Errorf("it has other %s than rank 0", what)
	}
	return Agree(c, err)
}

// BroadcastAll returns the bytes of rank 0, whose number the other ranks need not know.
func BroadcastAll(c Communicator, b []byte) ([]byte, error) {
	var length [8]byte
	binary.LittleEndian.PutUint64(length[:], uint64(len(b)))
	if err := c.Broadcast(length[:]); err != nil {
		return nil, err
	}
	all := make([]byte, binary.LittleEndian.Uint64(length[:]))
	if c.Rank() == 0 {
		copy(all, b)
	}
	return all, c.Broadcast(all)
}

// Owner returns the rank of several that computes a record. It depends on the record alone, so that a rank needs its
// own records only.
func Owner(record, size int) int { return record % size }

// hostBytes is how much of a host's name the ranks exchange.
const hostBytes = 64

// Hosts returns the name of each rank's host.
func Hosts(c Communicator) ([]string, error) {
	own, err := os.Hostname()
	if err := Agree(c, err); err != nil {
		return nil, err
	}
	names, ends := make([]byte, hostBytes*c.Size()), make([]int, c.Size())
	copy(names[hostBytes*c.Rank():hostBytes*(c.Rank()+1)], own)
	for i := range ends {
		ends[i] = hostBytes * (i + 1)
	}
	if err := c.Gather(names, ends); err != nil {
		return nil, err
	}
	hosts := make([]string, c.Size())
	for i := range hosts {
		hosts[i] = string(bytes.TrimRight(names[hostBytes*i:hostBytes*(i+1)], "\x00"))
	}
	return hosts, nil
}
