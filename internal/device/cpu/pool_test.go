package cpu

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Every task of every round runs once before run returns, whether helpers spin, sleep or
// outnumber the processors.
func TestPool_RunsEveryTaskOnce(t *testing.T) {
	rounds := 3000
	if testing.Short() {
		rounds = 500
	}
	for _, threads := range []int{1, 2, runtime.GOMAXPROCS(0), 5} {
		p := newPool(threads)
		var ran [40]atomic.Int32
		plain := 0 // written without synchronisation but for the rounds themselves
		task := func(i int, _ *worker) {
			ran[i].Add(1)
			if i == 0 {
				plain++
			}
		}
		for round := range rounds {
			n := 1 + round%len(ran)
			if round%200 == 0 {
				time.Sleep(200 * time.Microsecond) // until helpers sleep
			}
			p.run(n, task)
			if plain != round+1 {
				t.Fatalf("%d threads, round %d: its first task ran %d times in all", threads, round, plain)
			}
			for i := range ran {
				if got := ran[i].Swap(0); (got == 1) != (i < n) || got > 1 {
					t.Fatalf("%d threads, round %d of %d tasks: task %d ran %d times", threads, round, n, i, got)
				}
			}
		}
		p.close()
	}
}

// A task's panic reaches the caller, and the pool stays usable.
func TestPool_PanicReachesCaller(t *testing.T) {
	p := newPool(3)
	defer p.close()
	for range 100 {
		func() {
			defer func() {
				if recover() == nil {
					t.Fatal("the panic was lost")
				}
			}()
			p.run(7, func(i int, _ *worker) {
				if i == 5 {
					panic("five")
				}
			})
		}()
		p.run(7, func(int, *worker) {})
	}
}

// The error for a bug names its position and does not contain Go's message, which may quote
// a number of a record.
func TestRunSteps_RedactsRuntimeErrors(t *testing.T) {
	p := newPool(2)
	defer p.close()
	table, secret := make([]float32, 3), 271828
	bug := func(int, *worker) { table[secret]++ }
	for _, step := range []func(){func() { bug(0, nil) }, func() { p.run(2, bug) }} {
		err := runSteps([]func(){step})
		if err == nil || strings.Contains(err.Error(), "271828") || !strings.Contains(err.Error(), "a bug at pool_test.go:") {
			t.Errorf("the error is %v", err)
		}
	}
	if err := runSteps([]func(){func() { panic("an operation's own words") }}); err == nil || !strings.HasSuffix(err.Error(), "failed: an operation's own words") {
		t.Errorf("the error is %v", err)
	}
}

// The default number of threads is GOMAXPROCS, which respects the limits of a container and
// the user's setting.
func TestNewPool_DefaultsToGOMAXPROCS(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, threads := range []int{1, 3} {
		runtime.GOMAXPROCS(threads)
		p := newPool(0)
		if len(p.workers) != threads {
			t.Errorf("GOMAXPROCS %d: %d threads", threads, len(p.workers))
		}
		p.close()
	}
}
