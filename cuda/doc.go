// Package cuda runs a plan on NVIDIA GPUs, behind the build tag gpu; without the
// tag it says so and nothing else. Kernels are in cuda/kernels, the driver's
// binding in cuda/driver, and cuda/emu is a device made of software on which
// every test of this package runs.
package cuda
