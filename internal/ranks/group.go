package ranks

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// group is what the goroutines of one process share.
type group struct {
	mutex   sync.Mutex
	changed *sync.Cond // a call is complete, or failed
	size    int
	calls   uint64 // complete calls of all ranks
	arrived int    // ranks that made the current call
	present []bool // [rank]: it made the current call
	current *meeting
	failure error // of all later calls
}

// meeting is a call that all ranks make together.
type meeting struct {
	name   string
	length int
	sums   []int64
	sums32 []int32
	bytes  []byte
	sent   [][]byte // [rank]: of Exchange
}

type member struct {
	*group
	rank    int
	timeout time.Duration
	closed  bool
}

// NewGroup returns the communicators of goroutines of one process.
func NewGroup(size int) []Communicator {
	g := &group{size: size, present: make([]bool, size)}
	g.changed = sync.NewCond(&g.mutex)
	all := make([]Communicator, size)
	for i := range all {
		all[i] = &member{group: g, rank: i}
	}
	return all
}

func (m *member) Rank() int { return m.rank }

func (m *member) Size() int { return m.size }

func (m *member) Transport() string { return "goroutines" }

func (m *member) String() string { return "goroutines" }

func (m *member) SetTimeout(limit time.Duration) { m.timeout = limit }

func (m *member) Sum(values []int64) error {
	done, err := m.meet("Sum", len(values), func(now *meeting) {
		if now.sums == nil {
			now.sums = make([]int64, len(values))
		}
		for i, v := range values {
			now.sums[i] += v
		}
	})
	if err == nil {
		copy(values, done.sums)
	}
	return err
}

func (m *member) Sum32(values []int32) error {
	done, err := m.meet("Sum32", len(values), func(now *meeting) {
		if now.sums32 == nil {
			now.sums32 = make([]int32, len(values))
		}
		for i, v := range values {
			now.sums32[i] += v
		}
	})
	if err == nil {
		copy(values, done.sums32)
	}
	return err
}

func (m *member) Gather(b []byte, ends []int) error {
	done, err := m.meet("Gather", len(b), func(now *meeting) {
		if now.bytes == nil {
			now.bytes = slices.Clone(b)
		}
		from, to := PartOf(ends, m.rank)
		copy(now.bytes[from:to], b[from:to])
	})
	if err == nil {
		copy(b, done.bytes)
	}
	return err
}

// OnSeveralHosts returns true, so that goroutines exchange as ranks on several hosts do.
func (m *member) OnSeveralHosts() bool { return true }

func (m *member) Exchange(receive, send []byte, ends []int) error {
	done, err := m.meet("Exchange", len(send), func(now *meeting) {
		if now.sent == nil {
			now.sent = make([][]byte, m.size)
		}
		now.sent[m.rank] = slices.Clone(send)
	})
	if err != nil {
		return err
	}
	from, to := PartOf(ends, m.rank)
	for rank, sent := range done.sent {
		if rank != m.rank {
			copy(receive[rank*(to-from):], sent[from:to])
		}
	}
	return nil
}

// PartOf returns, for the ends of Gather and Exchange, where the part of a rank begins and ends.
func PartOf(ends []int, rank int) (from, to int) {
	if rank > 0 {
		from = ends[rank-1]
	}
	return from, ends[rank]
}

func (m *member) Broadcast(b []byte) error {
	done, err := m.meet("Broadcast", len(b), func(now *meeting) {
		if m.rank == 0 {
			now.bytes = append([]byte{}, b...)
		}
	})
	if err == nil {
		copy(b, done.bytes)
	}
	return err
}

// meet waits until all ranks have made a call. add adds this rank's part.
func (m *member) meet(name string, length int, add func(*meeting)) (*meeting, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.failure != nil {
		return nil, m.failure
	}
	if m.arrived == 0 {
		m.current = &meeting{name: name, length: length}
	}
	now := m.current
	if now.name != name || now.length != length {
		return nil, m.fail(fmt.Errorf("rank %d calls %s of %d values while others call %s of %d", m.rank, name, length, now.name, now.length))
	}
	add(now)
	m.present[m.rank] = true
	if m.arrived++; m.arrived == m.size {
		m.arrived = 0
		clear(m.present)
		m.calls++
		m.changed.Broadcast()
		return now, nil
	}
	if m.timeout > 0 {
		defer m.failAfter(m.timeout, m.calls).Stop()
	}
	for call := m.calls; m.calls == call; m.changed.Wait() {
		if m.failure != nil {
			return nil, m.failure
		}
	}
	return now, nil
}

// failAfter ends all calls if a call is not complete in time.
func (m *member) failAfter(limit time.Duration, call uint64) *time.Timer {
	return time.AfterFunc(limit, func() {
		m.mutex.Lock()
		defer m.mutex.Unlock()
		if m.calls != call {
			return
		}
		late := &Unresponsive{Timeout: limit, Reporter: slices.Index(m.present, true)}
		for rank, present := range m.present {
			if !present {
				late.Ranks = append(late.Ranks, rank)
			}
		}
		m.fail(late)
	})
}

// fail ends all calls, the waiting ones too. The caller has locked the group.
func (m *member) fail(err error) error {
	if m.failure == nil {
		m.failure = err
		m.changed.Broadcast()
	}
	return m.failure
}

func (m *member) Abort(reason string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.fail(&Error{m.rank, errors.New(reason)})
}

// Close makes the calls of ranks that go on fail.
func (m *member) Close() error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	m.fail(&Error{m.rank, errors.New("it has left the run")})
	return nil
}
