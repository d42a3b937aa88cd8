package main

import (
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/cuda"
	"github.com/spf13/cobra"
)

// version overrides the version of the build information: -ldflags "-X main.version=…".
var version string

// buildInfo identifies the program.
type buildInfo struct {
	Version  string    `json:"version"`
	Revision string    `json:"revision,omitempty"`
	Time     time.Time `json:"time,omitzero"` // of the revision
	Modified bool      `json:"modified,omitempty"`
	Kernels  string    `json:"kernels,omitempty"` // SHA-256 of the embedded GPU kernels
	Go       string    `json:"go"`
	Platform string    `json:"platform"`
}

func currentBuild() buildInfo {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	b := newBuildInfo(info)
	if version != "" {
		b.Version = version
	}
	b.Version += cuda.VersionMark()
	b.Kernels = cuda.KernelsDigest()
	b.Go, b.Platform = runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH
	return b
}

func newBuildInfo(info *debug.BuildInfo) (b buildInfo) {
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time, _ = time.Parse(time.RFC3339, s.Value)
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	b.Version = describe(info.Main.Version, b.Revision, b.Modified)
	return b
}

// abbreviated is the length of a revision in a version, as in a Go pseudo-version.
const abbreviated = 12

var (
	releaseVersion = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)
	pseudoVersion  = regexp.MustCompile(`\d{14}-([0-9a-f]{12})$`)
)

// describe returns the version as git describe --tags --always --dirty would: the tag of a
// release, or an abbreviated revision. git describe also names the last tag before a
// revision, which the build information does not contain.
func describe(moduleVersion, revision string, modified bool) string {
	moduleVersion, dirty := strings.CutSuffix(moduleVersion, "+dirty")
	modified = modified || dirty
	described := "(devel)"
	if m := pseudoVersion.FindStringSubmatch(moduleVersion); m != nil {
		described = m[1]
	} else if releaseVersion.MatchString(moduleVersion) {
		described = moduleVersion
	} else if len(revision) >= abbreviated {
		described = revision[:abbreviated]
	}
	if modified {
		described += "-dirty"
	}
	return described
}

func newVersion(term *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of dptrain",
		Example: "  dptrain version\n  dptrain version --json",
		Args:    noArguments,
		RunE:    func(*cobra.Command, []string) error { return printVersion(term) },
	}
}

func printVersion(term *terminal.Terminal) error {
	b := currentBuild()
	return term.Print(b, b.Version, func(w io.Writer) {
		fmt.Fprintf(w, "dptrain %s, %s, %s\n", b.Version, b.Go, b.Platform)
		if b.Revision != "" {
			fmt.Fprintf(w, "revision %s\n", b.Revision)
		}
		if b.Kernels != "" {
			fmt.Fprintf(w, "kernels %s\n", b.Kernels)
		} else {
			fmt.Fprintln(w, "kernels none: this program computes on the CPU")
		}
	})
}

// addVersionFlag makes dptrain --version do what dptrain version does.
func addVersionFlag(root *cobra.Command, term *terminal.Terminal) {
	asked := root.Flags().Bool("version", false, "print the version of dptrain")
	other := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *asked && len(args) == 0 {
			return printVersion(term)
		}
		return other(cmd, args)
	}
}
