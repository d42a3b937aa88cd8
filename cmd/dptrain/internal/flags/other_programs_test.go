package flags

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestEquivalent(t *testing.T) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Int("lot", 0, "")
	f.String("optimizer", "", "")
	for _, name := range []string{"out", "sampling", "seed", "data"} {
		f.String(name, "", "")
	}
	for name, want := range map[string]string{
		"batch-size": "lot", "batch_size": "lot", "BATCH_SIZE": "lot",
		"momentum":         "optimizer momentum:beta=0.9",
		"o":                "out",
		"poisson_sampling": "sampling", "noise_generator": "seed", "data_loader": "data",
		"lr":    "", // not a name of another flag
		"sigma": "", // f has no --noise
		"":      "",
	} {
		if got := Equivalent(f, name); got != want {
			t.Errorf("Equivalent(%q) is %q, want %q", name, got, want)
		}
	}
}

// A name is written as Equivalent looks it up.
func TestEquivalents_AreNormalized(t *testing.T) {
	for name := range equivalents {
		if name != strings.ReplaceAll(strings.ToLower(name), "_", "-") {
			t.Errorf("%q is never found", name)
		}
	}
}
