//go:build gpu

package driver

import (
	"encoding/hex"
	"errors"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"
)

// TestNCCL_Ranks runs two processes with a device each: sums, a broadcast, sums and bytes of parts, and the end of a
// rank while the other waits for it.
func TestNCCL_Ranks(t *testing.T) {
	d := device(t)
	if !d.Emulated() {
		t.Skip("two processes may not share a GPU")
	}
	if id, err := hex.DecodeString(os.Getenv("DPTRAIN_TEST_NCCL_ID")); err == nil && len(id) > 0 {
		leaveEarly(t, d, id)
		return
	}
	n := opened(t, d, "DPTRAIN_NCCL", "libnccl", OpenNCCL)
	id, err := n.NewID()
	must(t, err)
	other := exec.Command(os.Args[0], "-test.run=^TestNCCL_Ranks$")
	other.Env = append(os.Environ(), "DPTRAIN_TEST_NCCL_ID="+hex.EncodeToString(id))
	output := &strings.Builder{}
	other.Stdout, other.Stderr = output, output
	must(t, other.Start())
	must(t, n.Join(id, 0, 2))
	values := []int64{1 << 40, -3, math.MaxInt64 - 9}
	if got, want := exchange(t, d, n, values, n.Sum), []int64{1<<40 + 10, 7, math.MinInt64}; !slices.Equal(got, want) {
		t.Errorf("the sums are %d, want %d", got, want)
	}
	exchange(t, d, n, values, func(p Pointer, count int) error { return n.Broadcast(p, 8*count) })
	if got, want := exchangeParts(t, d, n, 1, 2, 30, 99), []int64{11, 12, 30, 40}; !slices.Equal(got, want) {
		t.Errorf("after the parts: %d, want %d", got, want)
	}
	must(t, other.Wait())
	began := time.Now()
	p := allocated(t, d, values)
	must(t, n.Sum(p, len(values)))
	if err := n.Wait(0); err == nil || !strings.Contains(err.Error(), "waiting for the other ranks failed: remote process exited") {
		t.Errorf("%v, want the end of the other rank", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it is noticed after %v", took)
	}
	n.Abort()
	if t.Failed() {
		t.Log(output)
	}
}

// leaveEarly is rank 1: it adds 10 to each number, receives rank 0's and leaves.
func leaveEarly(t *testing.T, d *Device, id []byte) {
	n, err := OpenNCCL(d)
	must(t, err)
	must(t, n.Join(id, 1, 2))
	exchange(t, d, n, []int64{10, 10, 10}, n.Sum)
	got := exchange(t, d, n, make([]int64, 3), func(p Pointer, count int) error { return n.Broadcast(p, 8*count) })
	if want := []int64{1 << 40, -3, math.MaxInt64 - 9}; !slices.Equal(got, want) {
		t.Errorf("received %d, want %d", got, want)
	}
	if got, want := exchangeParts(t, d, n, 10, 10, 99, 40), []int64{11, 12, 30, 40}; !slices.Equal(got, want) {
		t.Errorf("after the parts: %d, want %d", got, want)
	}
	n.Close()
}

// exchangeParts returns values, of which every second belongs to rank 1: the first two are added, and then each rank
// gives the other one its parts.
func exchangeParts(t *testing.T, d *Device, n *NCCL, values ...int64) []int64 {
	t.Helper()
	p := allocated(t, d, values)
	parts := []Part{{p, 8, 0}, {p + 8, 8, 1}, {p + 16, 8, 0}, {p + 24, 8, 1}}
	must(t, errors.Join(n.SumParts(parts[:2]), n.Wait(0)))
	must(t, errors.Join(n.BroadcastParts(parts), n.Wait(0)))
	result := make([]int64, len(values))
	must(t, errors.Join(d.CopyOut(int64Bytes(result), p), d.Synchronize()))
	return result
}

func allocated(t *testing.T, d *Device, values []int64) Pointer {
	p, err := d.Alloc(8 * len(values))
	must(t, err)
	t.Cleanup(func() { d.Free(p) })
	must(t, errors.Join(d.CopyIn(p, int64Bytes(values)), d.Synchronize()))
	return p
}

func int64Bytes(x []int64) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 8*len(x)) }

// exchange returns values after a call of all ranks.
func exchange(t *testing.T, d *Device, n *NCCL, values []int64, call func(Pointer, int) error) []int64 {
	t.Helper()
	p := allocated(t, d, values)
	must(t, errors.Join(call(p, len(values)), n.Wait(0)))
	result := make([]int64, len(values))
	must(t, errors.Join(d.CopyOut(int64Bytes(result), p), d.Synchronize()))
	return result
}

// A version that is too old, one that does not start, and none are reported.
func TestNCCL_Refusals(t *testing.T) {
	d := device(t)
	t.Setenv("DPTRAIN_NCCL", "none")
	_, err := OpenNCCL(d)
	cannotServe(t, err, "NCCL was not found", true)
	if !d.Emulated() {
		return
	}
	t.Setenv("DPTRAIN_NCCL", standIn(t, "libnccl"))
	t.Setenv("DPTRAIN_TWIN", "old")
	_, err = OpenNCCL(d)
	cannotServe(t, err, "NCCL 2.3.7", false)
	t.Setenv("DPTRAIN_TWIN", "no start")
	n, err := OpenNCCL(d)
	must(t, err)
	id, err := n.NewID()
	must(t, err)
	cannotServe(t, n.Join(id, 0, 1), "NCCL connects no ranks: unhandled system error", false)
	n.Close()
}
