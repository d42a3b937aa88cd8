package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
)

// TestFullDisk runs the tests of small disks if it has permission to mount one.
func TestFullDisk(t *testing.T) {
	child := exec.Command(os.Args[0], "-test.run=^Test(Export)?OnSmallDisk$", "-test.v")
	child.Env = append(os.Environ(), "DPTRAIN_SMALL_DISK="+t.TempDir())
	child.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := child.CombinedOutput()
	var failed *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &failed):
		t.Skipf("no disk of its own can be mounted here: %v", err)
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skipf("no disk of its own can be mounted here:\n%s", out)
	}
}

// TestOnSmallDisk trains on a disk that becomes full after more and more pages. Each time
// the run succeeds, or ends with one line that reports the full disk. The ledger contains all
// lots that any other file on the disk shows. When there is space again, the run can be
// resumed to its end.
func TestOnSmallDisk(t *testing.T) {
	dir := os.Getenv("DPTRAIN_SMALL_DISK")
	if dir == "" {
		t.Skip("the child of TestFullDisk")
	}
	t.Chdir(dir)
	table(t, "people.csv", 400)
	table(t, "test.csv", 40)
	if err := os.Mkdir("disk", 0o755); err != nil {
		t.Fatal(err)
	}
	const pages = 100
	page := os.Getpagesize()
	if err := syscall.Mount("none", "disk", "tmpfs", 0, fmt.Sprint("size=", pages*page)); err != nil {
		t.Skip(err)
	}
	const line = "train --ignore owner --model logistic --lot 20 --steps 12 --noise 1 --delta 1e-5 --accountant rdp --out disk/run" + columns
	complaints := map[string]bool{}
	ended := 0
	for free := 0; free < pages && ended < 2; free++ {
		if free > 16 {
			free += 4
		}
		os.RemoveAll("disk/run")
		if err := os.WriteFile("disk/ballast", make([]byte, (pages-free)*page), 0o600); err != nil {
			t.Fatal(err)
		}
		_, stderr, code := dptrain(line + " --quiet")
		if code == exitcode.Done {
			ended++
		} else if code != exitcode.Failed || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "no space left on device") {
			t.Fatalf("with %d pages free: exit %d, %s", free, code, stderr)
		}
		complaints[stderr] = true
		if least := visibleLots(t, "disk/run"); least > 0 {
			h, err := ledger.Read("disk/run/ledger.jsonl")
			if err != nil || h.LotCount() < least {
				t.Fatalf("with %d pages free the ledger holds %d lots, and %d are visible (%v)", free, h.LotCount(), least, err)
			}
		}
		if err := os.Remove("disk/ballast"); err != nil {
			t.Fatal(err)
		}
		again := "train --resume disk/run --quiet"
		if _, err := os.Stat("disk/run/" + rundir.ConfigFile); errors.Is(err, fs.ErrNotExist) {
			again = line + " --quiet" // the run did not start
			if _, err := os.Stat("disk/run"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("with %d pages free: a run that never began left its folder: %v", free, err)
			}
		}
		if _, stderr, code := dptrain(again); code != exitcode.Done {
			t.Fatalf("with %d pages free, and then room, %s: exit %d, %s", free, again, code, stderr)
		}
		report, err := ledger.Verify("disk/run/ledger.jsonl")
		if err != nil || !report.Ended || report.Lots < 12 || visibleLots(t, "disk/run") != 12 {
			t.Fatalf("with %d pages free, and then room: %+v, %d lots visible, %v", free, report, visibleLots(t, "disk/run"), err)
		}
	}
	if ended == 0 || len(complaints) < 5 {
		t.Errorf("%d runs ended well; complaints %v", ended, complaints)
	}
	for c := range complaints {
		t.Log(c)
	}

	// On a disk without space for a directory, no command reports a usage error.
	if err := os.Mkdir("none", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, none := range []struct {
		flags         uintptr
		options, want string
	}{{0, "nr_inodes=1", "no space left on device"}, {syscall.MS_RDONLY, "", "read-only file system"}} {
		if err := syscall.Mount("none", "none", "tmpfs", none.flags, none.options); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{
			strings.ReplaceAll(line, "disk/run", "none/run"),
			"tune --trials 2 --ignore owner --model logistic --lot 20 --steps 1 --epsilon 9 --delta 1e-5 --out none/run" + columns,
			"export disk/run --out none/model.safetensors",
			"budget curve --rate 0.1 --noise 1 --steps 3 --delta 1e-5 --out none/curve.svg",
			"man --out none/man",
		} {
			if _, stderr, code := dptrain(command + " --quiet"); code != exitcode.Failed || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, none.want) {
				t.Errorf("%s: exit %d, %s", command, code, stderr)
			}
		}
		if err := syscall.Unmount("none", 0); err != nil {
			t.Fatal(err)
		}
	}
}

// A disk that becomes full leaves the folder of an older export as it is.
func TestExportOnSmallDisk(t *testing.T) {
	if os.Getenv("DPTRAIN_SMALL_DISK") == "" {
		t.Skip("the child of TestFullDisk")
	}
	withCheckpoint(t, "bert")
	if err := os.Mkdir("disk", 0o755); err != nil {
		t.Fatal(err)
	}
	const pages = 100
	page := os.Getpagesize()
	if err := syscall.Mount("none", "disk", "tmpfs", 0, fmt.Sprint("size=", pages*page)); err != nil {
		t.Skip(err)
	}
	defer syscall.Unmount("disk", 0)
	for run, classes := range map[string]string{"older": "sad,happy", "newer": "happy,sad"} {
		line := strings.Replace(onTexts, "sad,happy", classes, 1) + "--steps 1 --model hf:ck --out " + run
		if _, stderr, code := dptrain(line); code != exitcode.Done {
			t.Fatal(stderr)
		}
	}
	runJSON(t, "export older --format hf --out disk/hf")
	var s syscall.Statfs_t
	if err := syscall.Statfs("disk", &s); err != nil {
		t.Fatal(err)
	}
	names := []string{"disk/hf/config.json", "disk/hf/model.safetensors", "disk/hf/tokenizer.json"}
	before := map[string]string{}
	for _, name := range names {
		before[name] = string(readFile(t, name))
	}
	if err := os.WriteFile("disk/ballast", make([]byte, int(s.Bavail-1)*int(s.Bsize)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, code := dptrain("export newer --format hf --out disk/hf --overwrite")
	if code != exitcode.Failed || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "no space left on device") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	for _, name := range names {
		if string(readFile(t, name)) != before[name] {
			t.Errorf("%s is that of the newer run", name)
		}
	}
}
