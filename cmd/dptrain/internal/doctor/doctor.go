// Package doctor checks what a host offers for training: the processor, memory, the random
// generator, and the GPUs with their libraries.
package doctor

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/cuda"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/internal/device/simd"
	"github.com/dptrain/dptrain/internal/host/memory"
	"github.com/dptrain/dptrain/internal/ranks"
	"github.com/dptrain/dptrain/noise"
)

// Finding is the result of one check.
type Finding struct {
	What   string `json:"what"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Advice string `json:"advice,omitempty"`
}

// Check runs all checks. library is the file of the MPI library; "": the first that is found.
func Check(library string) []Finding {
	findings := []Finding{checkProcessor(), checkMemory(), checkEntropy(), checkMPI(library), checkGPU()}
	if overrides, err := cuda.Overrides(); err != nil {
		findings = append(findings, Finding{What: "GPU overrides", Detail: err.Error()})
	} else if len(overrides) > 0 {
		findings = append(findings, Finding{What: "GPU overrides", OK: true, Detail: strings.Join(overrides, "; "), Advice: "unset the variables to train with what dptrain was built with"})
	}
	gpus, _ := cuda.Devices()
	for _, gpu := range gpus {
		findings = append(findings,
			checkLibrary(gpu, "products", cuda.ProductLibrary, "nvidia-cublas-cu12", "cuBLASLt"),
			checkLibrary(gpu, "convolutions", cuda.ConvolutionLibrary, "nvidia-cudnn-cu12", "cuDNN"),
			checkNCCL(gpu))
	}
	return findings
}

func checkProcessor() Finding {
	return Finding{What: "processor", OK: true, Detail: fmt.Sprintf("%s, %d threads, %s kernels", runtime.GOARCH, runtime.GOMAXPROCS(0), simd.ISA())}
}

func checkMemory() Finding {
	free := memory.Available()
	if free.LimitedBy == "" {
		return Finding{What: "memory", OK: true, Detail: "unknown on this system; a microbatch takes at most half a gigabyte"}
	}
	f := Finding{What: "memory", OK: free.Bytes > 1e9, Detail: fmt.Sprintf("%s has %.1f GB free", free.LimitedBy, float64(free.Bytes)/1e9)}
	if !f.OK {
		f.Advice = "less than 1 GB is free: use a small --microbatch"
	}
	return f
}

func checkEntropy() Finding {
	if _, err := noise.New(); err != nil {
		return Finding{What: "entropy", Detail: err.Error(), Advice: "private training requires the operating system's random generator"}
	}
	return Finding{What: "entropy", OK: true, Detail: "the operating system's random generator provides keys for the noise"}
}

func checkMPI(path string) Finding {
	library, err := ranks.Find(path)
	switch {
	case err != nil && path != "" && !errors.Is(err, ranks.ErrNotBuilt):
		return Finding{What: "mpi", Detail: err.Error(), Advice: "name the library of the mpirun that starts the ranks"}
	case errors.Is(err, ranks.ErrNotBuilt):
		return Finding{What: "mpi", OK: true, Detail: "not supported by this build, which trains in one process", Advice: "build dptrain with `make gpu` to train on several processes and hosts"}
	case err != nil:
		return Finding{What: "mpi", OK: true, Detail: err.Error(), Advice: "pip install mpich installs a library and mpirun"}
	}
	return Finding{What: "mpi", OK: true, Detail: library}
}

func checkGPU() Finding {
	devices, reason := engine.Devices()
	var gpus []string
	for _, d := range devices {
		if strings.HasPrefix(d.Name, "cuda") {
			gpus = append(gpus, d.Name+": "+d.Description)
		}
	}
	switch {
	case errors.Is(reason, cuda.ErrNotBuilt):
		return Finding{What: "GPU", OK: true, Detail: "not supported by this build, which trains on the CPU", Advice: "build dptrain with `make gpu` to use NVIDIA GPUs"}
	case reason != nil:
		return Finding{What: "GPU", Detail: settings.Describe(reason)}
	}
	return Finding{What: "GPU", OK: true, Detail: strings.Join(gpus, "; ")}
}

// checkNCCL looks for the library that connects the GPUs of several ranks. One rank needs none.
func checkNCCL(gpu cuda.Device) Finding {
	f := Finding{What: "several ranks with " + gpu.String(), OK: true}
	library, err := cuda.CommunicationLibrary(gpu.Ordinal)
	if err != nil {
		f.Detail = err.Error() + "; the sums of ranks travel through the memory of the hosts"
		f.Advice = "pip install nvidia-nccl-cu12 installs NCCL"
		return f
	}
	f.Detail = library
	return f
}

// checkLibrary checks the library that a GPU uses for one kind of work. version loads the
// library. wheel is the Python package that contains it.
func checkLibrary(gpu cuda.Device, work string, version func(int) (string, error), wheel, library string) Finding {
	f := Finding{What: work + " on " + gpu.String(), OK: true}
	loaded, err := version(gpu.Ordinal)
	switch {
	case err == nil:
		f.Detail = loaded + ", and dptrain's own kernels where they are faster"
	case errors.Is(err, cuda.ErrNoLibrary):
		f.Detail = err.Error() + "; large " + work + " are slower without it"
		f.Advice = fmt.Sprintf("pip install %s installs %s", wheel, library)
	default:
		f.OK, f.Detail = false, err.Error()
		f.Advice = "dptrain's own kernels compute all " + work + "; large ones are slower"
	}
	return f
}
