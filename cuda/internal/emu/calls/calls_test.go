// Package calls tests the emulated device as a program sees it, through the functions
// of CUDA's driver alone.
package calls

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// build makes the library and the program that calls it.
func build(t *testing.T) (folder, program string) {
	t.Helper()
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip("no g++")
	}
	if testing.Short() {
		t.Skip("compiles the emulated device")
	}
	folder, err := filepath.Abs(filepath.Join("..", "..", "..", "..", ".cache", "cuda", "calls"))
	if err != nil {
		t.Fatal(err)
	}
	library := exec.Command("go", "run", "../build", "-o", folder, "testdata/calls.cu")
	library.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := library.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program = filepath.Join(t.TempDir(), "calls")
	if out, err := exec.Command("g++", "-std=c++17", "-O1", "-Wall", "-pthread", "-o", program, "testdata/calls.cc", "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return folder, program
}

func TestEmulator_Calls(t *testing.T) {
	folder, program := build(t)
	for _, build := range []string{"checked", "fast"} {
		library := filepath.Join(folder, build, "libcuda.so.1")
		for _, test := range []struct {
			name      string
			variables []string
		}{
			{name: "handles"},
			{name: "memory", variables: []string{"DPTRAIN_EMU_MEMORY=1M"}},
			{name: "lateness"},
			{name: "launches"},
			{name: "launches", variables: []string{"DPTRAIN_EMU_THREADS=1", "CUDA_LAUNCH_BLOCKING=1"}},
			{name: "launches", variables: []string{"DPTRAIN_EMU_THREADS=5", "DPTRAIN_EMU_ORDER=3"}},
			{name: "lanes"},
			{name: "lanes", variables: []string{"DPTRAIN_EMU_ORDER=reverse"}},
			{name: "lanes", variables: []string{"DPTRAIN_EMU_ORDER=1"}},
			{name: "graphs"},
			{name: "errors"},
			{name: "threads"},
			{name: "lost", variables: []string{"DPTRAIN_EMU_LOST=3"}},
		} {
			t.Run(build+"/"+test.name, func(t *testing.T) {
				call := exec.Command(program, library, test.name)
				call.Env = append(os.Environ(), test.variables...)
				if out, err := call.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
		crash := exec.Command(program, library, "crash")
		err := crash.Run()
		if status, ok := crash.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGSEGV {
			t.Errorf("%s: a fault of the host itself ends with %v", build, err)
		}
	}
}
