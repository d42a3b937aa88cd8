//go:build gpu

// Package driver launches kernels on NVIDIA GPUs through the CUDA driver API.
//
// It opens libcuda at run time, so that a program that links this package starts on a host without a driver.
// The functions that this package and gorgonia.org/cu link to are trampolines (trampoline_*.S): each jumps to
// the address in its slot. The first call fills all slots (libcuda.c), from libcuda or, without a driver, with
// functions that return "no device".
//
//	Go method ──▶ C function of calls.c ──▶ trampoline ──▶ libcuda.so.1
//	                    │
//	                    └ makes the device's context current: Go moves goroutines between threads
//
// The environment variable DPTRAIN_LIBCUDA names another file than the system's libcuda.so.1, for example the
// emulated device's.
//
// Each device has one stream, on which work runs in order. A method that is documented as asynchronous
// returns before its work has run, and may report the failure of an earlier call. Synchronize waits for all
// work. A second stream copies while the first one computes, and events order the two.
//
//	d, err := driver.Open(0)
//	k, err := d.Kernel("softmax")           // of the module that LoadModule loaded
//	p, err := d.Alloc(4 * n)
//	err = d.CopyIn(p, bytes)                 // asynchronous
//	err = d.Launch(k, grid, block, driver.Pack(p, int32(n)))
//	err = errors.Join(d.CopyOut(bytes, p), d.Synchronize())
//
// A step of training is hundreds of launches with the same arguments. Capture records them once as a graph,
// and LaunchGraph runs them with one call. Work that a thread sends to the stream while it captures goes to the
// capturing stream instead, so the same methods run and record.
//
// NVIDIA's libraries are opened in the same way (library.go): cuBLASLt for products, cuDNN for convolutions,
// NCCL for the sums of several ranks. Each has a Go file, a C file with the functions and constants that are
// used, and a stand-in in testdata with which the emulated device tests the calls.
package driver
