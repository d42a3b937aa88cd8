package ranks

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// freeAddress returns a free address of this host.
func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// All ranks get the bytes of rank 0, in any order of their starts, while others connect as well.
func TestExchange(t *testing.T) {
	const size = 5
	shared := bytes.Repeat([]byte{0, 1, 255}, 43)
	at := freeAddress(t)
	var done sync.WaitGroup
	for rank := range size {
		done.Go(func() {
			time.Sleep(time.Duration(size-rank) * 20 * time.Millisecond) // rank 0 is the last
			var mine []byte
			if rank == 0 {
				mine = shared
			}
			got, err := Launch{Rank: rank, Size: size, Address: at, Run: "a run"}.Exchange(mine)
			if err != nil || !bytes.Equal(got, shared) {
				t.Errorf("rank %d: %v, %v", rank, got, err)
			}
		})
	}
	for _, stranger := range []string{"", "GET / HTTP/1.1\r\nHost: a\r\n\r\n" + strings.Repeat("x", 100), "dptrain\n"} {
		done.Go(func() {
			for range 20 {
				if c, err := net.Dial("tcp", at); err == nil {
					c.Write([]byte(stranger))
					c.Close()
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	done.Wait()
}

// Ranks of another run, of another size and with a number that is taken or too large are not served: rank 0
// waits for its own.
func TestExchange_OtherRuns(t *testing.T) {
	defer func(before time.Duration) { meetingTime = before }(meetingTime)
	meetingTime = 400 * time.Millisecond
	at := freeAddress(t)
	others := []Launch{
		{Rank: 1, Size: 3, Run: "this"}, {Rank: 1, Size: 2, Run: "another"}, {Rank: 2, Size: 2, Run: "this"},
	}
	failed := make([]error, len(others)+1)
	var done sync.WaitGroup
	for i, l := range append(others, Launch{Size: 2, Run: "this"}) {
		l.Address = at
		done.Go(func() { _, failed[i] = l.Exchange([]byte("secret")) })
	}
	done.Wait()
	for i, err := range failed {
		if err == nil {
			t.Errorf("process %d is served", i)
		}
	}
	if err := failed[len(others)]; err == nil || !strings.Contains(err.Error(), "0 of 1 other ranks have connected to rank 0 at "+at) {
		t.Errorf("rank 0 reports %v", err)
	}
	if err := failed[1]; err == nil || !strings.Contains(err.Error(), "rank 1 gets no answer of rank 0 at "+at) {
		t.Errorf("rank 1 reports %v", err)
	}
	if err := errors.Join(failed...); strings.Contains(err.Error(), "secret") {
		t.Error("an error contains the bytes")
	}
}

func TestLaunched_TorchrunMeetsAtMaster(t *testing.T) {
	environment := map[string]string{"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "node-0", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "abc"}
	lookup := func(name string) (string, bool) { value, ok := environment[name]; return value, ok }
	want := Launch{Launcher: "torchrun", Rank: 5, Size: 8, Local: 1, Address: "node-0:29500", Run: "abc"}
	if got, err := launched(lookup); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	environment["TORCHELASTIC_USE_AGENT_STORE"], want.Address = "True", "node-0:29501"
	if got, err := launched(lookup); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for name, value := range map[string]string{"MASTER_PORT": "0", "MASTER_ADDR": "", "LOCAL_RANK": "-1"} {
		before := environment[name]
		environment[name] = value
		if _, err := launched(lookup); err == nil || !strings.Contains(err.Error(), name+"="+value) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
		environment[name] = before
	}
}
