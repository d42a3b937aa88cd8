package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/dptrain/dptrain/internal/terminal"
	"github.com/spf13/cobra"
)

// version is set by the linker in a release; otherwise the Go toolchain knows it.
var version string

type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if ok {
		if b.Version == "" {
			b.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Revision = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	if b.Version == "" {
		b.Version = "(devel)"
	}
	return b
}

func newVersion(term *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Say which dptrain this is",
		Example: "  dptrain version\n  dptrain version --json",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			return term.Print(b, b.Version, func(w io.Writer) {
				fmt.Fprintf(w, "dptrain %s, %s, %s\n", b.Version, b.Go, b.Platform)
				if b.Revision != "" {
					fmt.Fprintf(w, "revision %s\n", b.Revision)
				}
			})
		},
	}
}
