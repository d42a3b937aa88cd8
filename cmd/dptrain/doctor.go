package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/dptrain/dptrain/cuda"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/internal/memory"
	"github.com/dptrain/dptrain/internal/simd"
	"github.com/dptrain/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/noise"
	"github.com/spf13/cobra"
)

// newDevices asks the driver only when the command runs.
func newDevices(term *terminal.Terminal) *cobra.Command {
	type row struct {
		Name  string `json:"name"`
		About string `json:"about"`
	}
	return &cobra.Command{
		Use: "devices", Short: "List the devices of this build and host",
		Example: "  dptrain train --device cpu", Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			list, reason := engine.Devices()
			var rows []row
			var names []string
			for _, d := range list {
				rows, names = append(rows, row{d.Name, d.Description}), append(names, d.Name)
			}
			shown := map[string]any{"devices": rows}
			if reason != nil {
				shown["no_gpu"] = reason.Error()
			}
			return term.Print(shown, strings.Join(names, "\n"), func(w io.Writer) {
				for _, r := range rows {
					fmt.Fprintf(w, "%s\t%s\n", r.Name, r.About)
				}
				if reason != nil {
					fmt.Fprintf(w, "no GPU\t%v\n", reason)
				}
			})
		},
	}
}

// finding is one line of doctor's report.
type finding struct {
	What   string `json:"what"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Advice string `json:"advice,omitempty"`
}

func newDoctor(term *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Say what works on this host, what does not, and what to install",
		Example: "  dptrain doctor", Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			all := []finding{cpuFinding(), memoryFinding(), entropyFinding(), driverFinding()}
			all = append(all, libraryFindings()...)
			ok := true
			for _, f := range all {
				ok = ok && f.OK
			}
			return term.Print(map[string]any{"ok": ok, "findings": all}, fmt.Sprint(ok), func(w io.Writer) {
				for _, f := range all {
					mark := "works"
					if !f.OK {
						mark = "missing"
					}
					fmt.Fprintf(w, "%s\t%s\t%s\n", f.What, mark, f.Detail)
					if f.Advice != "" {
						fmt.Fprintf(w, "\t\t%s\n", f.Advice)
					}
				}
			})
		},
	}
}

func cpuFinding() finding {
	return finding{What: "processor", OK: true, Detail: fmt.Sprintf("%s, %d threads, %s kernels", runtime.GOARCH, runtime.GOMAXPROCS(0), simd.ISA())}
}

func memoryFinding() finding {
	room := memory.Available()
	if room.LimitedBy == "" {
		return finding{What: "memory", OK: true, Detail: "this system does not tell; a microbatch takes at most half a gigabyte"}
	}
	f := finding{What: "memory", OK: room.Bytes > 1e9, Detail: fmt.Sprintf("%s has room for %.1f GB", room.LimitedBy, float64(room.Bytes)/1e9)}
	if !f.OK {
		f.Advice = "less than 1 GB is free: use a small --microbatch"
	}
	return f
}

func entropyFinding() finding {
	if _, err := noise.New(); err != nil {
		return finding{What: "entropy", Detail: err.Error(), Advice: "private training needs the operating system's generator"}
	}
	return finding{What: "entropy", OK: true, Detail: "the operating system gives keys for noise"}
}

func driverFinding() finding {
	list, reason := engine.Devices()
	var gpus []string
	for _, d := range list {
		if strings.HasPrefix(d.Name, "cuda") {
			gpus = append(gpus, d.Name+": "+d.Description)
		}
	}
	switch {
	case errors.Is(reason, cuda.ErrNotBuilt):
		return finding{What: "GPU", OK: true, Detail: "not in this build, which trains on the CPU", Advice: "`make gpu` builds dptrain for NVIDIA GPUs"}
	case reason != nil:
		return finding{What: "GPU", Detail: reason.Error()}
	}
	return finding{What: "GPU", OK: true, Detail: strings.Join(gpus, "; ")}
}

// libraryFindings tell, of each GPU, what computes its large products and convolutions.
func libraryFindings() (list []finding) {
	gpus, _ := cuda.Devices()
	for _, g := range gpus {
		list = append(list,
			libraryFinding(g, "products", cuda.ProductLibrary, "nvidia-cublas-cu12 brings cuBLASLt"),
			libraryFinding(g, "convolutions", cuda.ConvolutionLibrary, "nvidia-cudnn-cu12 brings cuDNN"))
	}
	return list
}

func libraryFinding(g cuda.Device, work string, library func(int) (string, error), wheel string) finding {
	f := finding{What: work + " on " + g.String(), OK: true}
	said, err := library(g.Ordinal)
	switch {
	case err == nil:
		f.Detail = said + ", and own kernels where they are quicker"
	case errors.Is(err, cuda.ErrNoLibrary):
		f.Detail = err.Error() + "; slower where large ones run on tensor cores"
		f.Advice = "pip install " + wheel
	default:
		f.OK, f.Detail = false, err.Error()
		f.Advice = "own kernels compute all " + work + ", slower where large ones run on tensor cores"
	}
	return f
}
