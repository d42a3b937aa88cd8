package ranks

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// conform checks a communicator on one rank; all ranks call it. It returns the first violation.
func conform(c Communicator) error {
	for _, check := range []func(Communicator) error{conformSum, conformSum32, conformGather, conformExchange, conformBroadcast, conformAgree, conformEqual} {
		if err := check(c); err != nil {
			return err
		}
	}
	return nil
}

// part returns the values that a rank adds in a round: every rank can compute those of all.
func part(round, rank, n int) []int64 {
	r := rand.New(rand.NewPCG(uint64(round), uint64(rank)))
	values := make([]int64, n)
	for i := range values {
		values[i] = int64(r.Uint64())
	}
	return values
}

func conformSum(c Communicator) error {
	for round, n := range []int{1, 0, 2, 1000, 4097, 3} {
		want := make([]int64, n)
		for rank := range c.Size() {
			for i, v := range part(round, rank, n) {
				want[i] += v
			}
		}
		got := part(round, c.Rank(), n)
		if err := c.Sum(got); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		for i := range want {
			if got[i] != want[i] {
				return fmt.Errorf("round %d: sum %d of %d is %d, want %d", round, i, n, got[i], want[i])
			}
		}
	}
	extreme := []int64{math.MaxInt64, math.MinInt64}
	if err := c.Sum(extreme); err != nil {
		return err
	}
	most, least := int64(math.MaxInt64), int64(math.MinInt64)
	if n := int64(c.Size()); extreme[0] != most*n || extreme[1] != least*n {
		return fmt.Errorf("sums of the largest and the smallest number are %d, want those of Go", extreme)
	}
	return nil
}

func conformSum32(c Communicator) error {
	for _, n := range []int{1, 0, 3, 4097} {
		values := make([]int32, n)
		for i := range values {
			values[i] = int32(math.MaxInt32/c.Size() - i*(c.Rank()+1))
		}
		if err := c.Sum32(values); err != nil {
			return err
		}
		for i, v := range values {
			if want := math.MaxInt32/c.Size()*c.Size() - i*c.Size()*(c.Size()+1)/2; int(v) != want {
				return fmt.Errorf("32-bit sum %d of %d is %d, want %d", i, n, v, want)
			}
		}
	}
	return nil
}

// Parts of all lengths, also none.
func conformGather(c Communicator) error {
	for _, length := range []int{0, 1, 5, 3000} {
		var ends []int
		end := 0
		for rank := range c.Size() {
			if rank != 1 {
				end += length + rank
			}
			ends = append(ends, end)
		}
		b := bytes.Repeat([]byte{99}, end)
		from, to := PartOf(ends, c.Rank())
		for i := from; i < to; i++ {
			b[i] = byte(c.Rank() + 10)
		}
		if err := c.Gather(b, ends); err != nil {
			return err
		}
		for rank := range c.Size() {
			from, to := PartOf(ends, rank)
			for i := from; i < to; i++ {
				if b[i] != byte(rank+10) {
					return fmt.Errorf("byte %d of rank %d is %d after a gathering of %v", i, rank, b[i], ends)
				}
			}
		}
	}
	return nil
}

// Parts of all lengths, also none. What no rank sends stays as it is.
func conformExchange(c Communicator) error {
	for _, length := range []int{0, 1, 5, 70000} {
		var ends []int
		end := 0
		for rank := range c.Size() {
			if rank != 1 {
				end += length + rank
			}
			ends = append(ends, end)
		}
		send := make([]byte, end)
		for to := range c.Size() {
			first, last := PartOf(ends, to)
			for i := first; i < last; i++ {
				send[i] = byte(16*c.Rank() + to + i - first)
			}
		}
		first, last := PartOf(ends, c.Rank())
		own := last - first
		receive := bytes.Repeat([]byte{255}, own*c.Size())
		if err := c.(Exchanger).Exchange(receive, send, ends); err != nil {
			return err
		}
		for rank := range c.Size() {
			for i, got := range receive[rank*own : (rank+1)*own] {
				want := byte(16*rank + c.Rank() + i)
				if rank == c.Rank() {
					want = 255
				}
				if got != want {
					return fmt.Errorf("byte %d from rank %d is %d after an exchange of %v, want %d", i, rank, got, ends, want)
				}
			}
		}
	}
	return nil
}

func conformBroadcast(c Communicator) error {
	for n := range 40 {
		message := bytes.Repeat([]byte{byte(n), 0, 255}, n*n)
		var mine []byte
		if c.Rank() == 0 {
			mine = message
		} else if n%2 == 1 {
			mine = []byte("other")
		}
		got, err := BroadcastAll(c, mine)
		if err != nil {
			return err
		}
		if !bytes.Equal(got, message) {
			return fmt.Errorf("broadcast of %d bytes gave %d others", len(message), len(got))
		}
	}
	return nil
}

var errOfRank = errors.New("the disk is full – Zürich")

func conformAgree(c Communicator) error {
	if err := Agree(c, nil); err != nil {
		return fmt.Errorf("agreement on no error: %w", err)
	}
	for failing := range c.Size() {
		var mine error
		if c.Rank() >= failing {
			mine = errOfRank
		}
		var of *Error
		switch err := Agree(c, mine); {
		case !errors.As(err, &of) || of.Rank != failing:
			return fmt.Errorf("agreement is %v, want the error of rank %d", err, failing)
		case err.Error() != fmt.Sprintf("rank %d: %v", failing, errOfRank):
			return fmt.Errorf("agreement is %q", err)
		case failing == c.Rank() && !errors.Is(err, errOfRank):
			return errors.New("the failing rank does not know its own error")
		default:
			if again := Agree(c, fmt.Errorf("lot 3: %w", err)); again.Error() != "lot 3: "+err.Error() {
				return fmt.Errorf("agreement on an error that was agreed on is %q", again)
			}
		}
	}
	if err := Agree(c, nil); err != nil {
		return fmt.Errorf("agreement after errors: %w", err)
	}
	return nil
}

func conformEqual(c Communicator) error {
	if err := RequireEqual(c, "settings", []byte("1.2")); err != nil {
		return err
	}
	last := c.Size() - 1
	if last == 0 {
		return nil
	}
	for _, other := range []string{"1.3", "", "a longer one"} {
		mine := "1.2"
		if c.Rank() == last {
			mine = other
		}
		want := fmt.Sprintf("rank %d: it has other settings than rank 0", last)
		if err := RequireEqual(c, "settings", []byte(mine)); err == nil || err.Error() != want {
			return fmt.Errorf("version %q of the last rank: %v, want %s", other, err, want)
		}
	}
	return nil
}

// onAll calls f for all ranks of a group and returns their errors.
func onAll(all []Communicator, f func(c Communicator) error) []error {
	errs := make([]error, len(all))
	var done sync.WaitGroup
	for i, c := range all {
		done.Go(func() { errs[i] = f(c) })
	}
	done.Wait()
	return errs
}

func TestGroup_Conforms(t *testing.T) {
	for size := 1; size <= 5; size++ {
		all := NewGroup(size)
		for rank, c := range all {
			if c.Rank() != rank || c.Size() != size {
				t.Fatalf("rank %d of %d states that it is %d of %d", rank, size, c.Rank(), c.Size())
			}
		}
		for range 3 {
			if err := errors.Join(onAll(all, conform)...); err != nil {
				t.Fatalf("%d ranks: %v", size, err)
			}
		}
	}
}

// A rank that waits returns when another one aborts, or leaves, or calls something else.
func TestGroup_WaitingRanksFail(t *testing.T) {
	for name, test := range map[string]struct {
		last func(Communicator) error
		want string
	}{
		"abort": {func(c Communicator) error { c.Abort("out of memory"); return nil }, "rank 2: out of memory"},
		"leave": {Communicator.Close, "rank 2: it has left the run"},
		"other": {func(c Communicator) error { return c.Broadcast(make([]byte, 7)) }, "Broadcast of 7 values"},
		"size":  {func(c Communicator) error { return c.Sum(make([]int64, 4)) }, "Sum of 4 values"},
	} {
		all := NewGroup(3)
		errs := onAll(all, func(c Communicator) error {
			if c.Rank() == 2 {
				time.Sleep(time.Millisecond) // others usually wait
				return test.last(c)
			}
			return c.Sum(make([]int64, 3))
		})
		for rank, err := range errs[:2] {
			if err == nil || !strings.Contains(err.Error(), test.want) && !strings.Contains(err.Error(), "rank 2 calls") && !strings.Contains(err.Error(), fmt.Sprintf("rank %d calls", rank)) {
				t.Errorf("%s: rank %d waits and gets %v, want %s", name, rank, err, test.want)
			}
		}
		if err := all[0].Sum(nil); err == nil {
			t.Errorf("%s: the group works afterwards", name)
		}
	}
}

// A rank that makes no call in time is named on all others. A timeout that is not over changes nothing.
func TestGroup_NamesUnresponsive(t *testing.T) {
	for missing := range 3 {
		all := NewGroup(3)
		released := make(chan struct{})
		errs := onAll(all, func(c Communicator) error {
			c.SetTimeout(time.Hour)
			if err := c.Sum(make([]int64, 3)); err != nil {
				return err
			}
			c.SetTimeout(20 * time.Millisecond)
			if c.Rank() == missing {
				<-released
				return c.Sum(make([]int64, 3))
			}
			err := c.Sum(make([]int64, 3))
			if again := c.Broadcast(nil); again != err {
				err = fmt.Errorf("a later call returns %w", again)
			}
			if c.Rank() == (missing+2)%3 {
				close(released)
			}
			return Agree(c, fmt.Errorf("lot 3: %w", err))
		})
		want := fmt.Sprintf("lot 3: rank %d: the others have waited for it for 20ms: it is stopped, or much slower than they are", missing)
		for rank, err := range errs {
			var late *Unresponsive
			if !errors.As(err, &late) || late.Reporter == missing || len(late.Ranks) != 1 || late.Ranks[0] != missing {
				t.Errorf("rank %d of those that wait for %d: %+v", rank, missing, late)
			}
			if rank != missing && err.Error() != want {
				t.Errorf("rank %d gets %q, want %q", rank, err, want)
			}
		}
	}
}

func TestLaunched_FromEnvironment(t *testing.T) {
	for _, test := range []struct {
		environment map[string]string
		want        Launch
		invalid     bool
	}{
		{nil, Launch{Size: 1}, false},
		{map[string]string{"PMI_RANK": "1", "PMI_SIZE": "4"}, Launch{Launcher: "mpiexec", Rank: 1, Size: 4, MPI: true}, false},
		{map[string]string{"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"}, Launch{Launcher: "Open MPI's mpirun", Rank: 3, Size: 4, MPI: true}, false},
		{map[string]string{"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"}, Launch{Launcher: "srun", Rank: 0, Size: 2, MPI: true}, false},
		{map[string]string{"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, Launch{Size: 1}, false},            // a batch script, without srun
		{map[string]string{"RANK": "0", "WORLD_SIZE": "2"}, Launch{Launcher: "torchrun", Size: 2}, true}, // no LOCAL_RANK
		{map[string]string{"RANK": "0", "WORLD_SIZE": "1"}, Launch{Launcher: "torchrun", Size: 1}, false},
		{map[string]string{"RANK": "private"}, Launch{Size: 1}, false},
		{map[string]string{"PMI_RANK": "4", "PMI_SIZE": "4"}, Launch{}, true},
		{map[string]string{"PMI_RANK": "0", "PMI_SIZE": "0"}, Launch{}, true},
		{map[string]string{"PMI_RANK": "-1", "PMI_SIZE": "2"}, Launch{}, true},
		{map[string]string{"RANK": "first", "WORLD_SIZE": "2"}, Launch{}, true},
	} {
		got, err := launched(func(name string) (string, bool) { value, ok := test.environment[name]; return value, ok })
		if got != test.want || (err != nil) != test.invalid {
			t.Errorf("%v: %+v, %v; want %+v", test.environment, got, err, test.want)
		}
	}
}
