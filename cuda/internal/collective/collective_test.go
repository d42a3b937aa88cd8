//go:build gpu

package collective

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/ranks"
)

// TestOpen_Processes connects three processes with an emulated device each by the stand-in of NCCL: what the
// host sends through the devices arrives, and sums are added in their memory.
func TestOpen_Processes(t *testing.T) {
	devices, err := driver.Devices()
	if err != nil || len(devices) == 0 || !devices[0].Emulated() {
		t.Skip("needs the emulated device: make test-emu PKG=./cuda/internal/collective")
	}
	if os.Getenv("RANK") != "" {
		rank(t)
		return
	}
	library := filepath.Join(t.TempDir(), "libnccl.so.2")
	c := exec.Command("cc", "-O2", "-shared", "-fPIC", "-o", library, "../driver/testdata/libnccl.c", "-ldl")
	if output, err := c.CombinedOutput(); err != nil {
		t.Skipf("the stand-in of NCCL is built with cc: %v\n%s", err, output)
	}
	const size = 3
	var processes [size]*exec.Cmd
	var outputs [size]bytes.Buffer
	port := strconv.Itoa(20000 + os.Getpid()%20000)
	for i := range processes {
		p := exec.Command(os.Args[0], "-test.run=^TestOpen_Processes$", "-test.v")
		p.Env = append(os.Environ(), "DPTRAIN_NCCL="+library, fmt.Sprint("RANK=", i), fmt.Sprint("LOCAL_RANK=", i), fmt.Sprint("WORLD_SIZE=", size),
			"MASTER_ADDR=127.0.0.1", "MASTER_PORT="+port, "TORCHELASTIC_RUN_ID="+t.Name())
		p.Stdout, p.Stderr = &outputs[i], &outputs[i]
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		processes[i] = p
	}
	for i, p := range processes {
		if err := p.Wait(); err != nil || !strings.Contains(outputs[i].String(), "--- PASS") {
			t.Errorf("rank %d: %v\n%s", i, err, &outputs[i])
		}
	}
}

func rank(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	launch, err := ranks.Launched()
	must(err)
	device, err := driver.Open(0)
	must(err)
	c, err := Open(launch, device)
	must(err)
	if c.Rank() != launch.Rank || c.Size() != launch.Size || !strings.HasPrefix(c.String(), "NCCL 2.27.99") {
		t.Errorf("%v is rank %d of %d", c, c.Rank(), c.Size())
	}
	large := bufferBytes/8 + 5 // two turns
	for _, n := range []int{0, 1, 1000, large} {
		values := make([]int64, n)
		for i := range values {
			values[i] = int64(i) << 40 >> c.Rank()
		}
		must(c.Sum(values))
		for i, v := range values {
			if want := int64(i)<<40 + int64(i)<<39 + int64(i)<<38; v != want {
				t.Fatalf("sum %d of %d is %d, want %d", i, n, v, want)
			}
		}
	}
	text := []byte("of another rank")
	if c.Rank() == 0 {
		text = bytes.Repeat([]byte("of rank 0"), 99)
	}
	got, err := ranks.BroadcastAll(c, text)
	must(err)
	if !bytes.Equal(got, bytes.Repeat([]byte("of rank 0"), 99)) {
		t.Errorf("received %q", got)
	}
	var mine error
	if c.Rank() == 2 {
		mine = errors.New("a file is missing")
	}
	if err := ranks.Agree(c, mine); err == nil || err.Error() != "rank 2: a file is missing" {
		t.Errorf("agreed on %v", err)
	}
	sums := []int64{math.MaxInt64, int64(c.Rank()), -7}
	at, err := device.Alloc(24)
	must(err)
	must(device.CopyIn(at, bytesOf(sums)))
	of := c.(*through)
	if !of.IsOn(device) {
		t.Error("it does not reach its device")
	}
	must(errors.Join(of.SumOnDevice(at, 3), of.Wait(), device.CopyOut(bytesOf(sums), at), device.Synchronize()))
	most := int64(math.MaxInt64)
	if want := []int64{3 * most, 3, -21}; !slices.Equal(sums, want) {
		t.Errorf("the sums on the device are %d, want %d", sums, want)
	}
	must(c.Close())
}
