package flags

import (
	"testing"

	"github.com/spf13/cobra"
)

// Integer flags read decimal numbers, also with leading zeros, and no other notation.
func TestReadDecimal(t *testing.T) {
	for text, want := range map[string]int{"010": 10, "-7": -7, "0": 0} {
		n := 0
		cmd := &cobra.Command{Use: "test"}
		cmd.Flags().IntVar(&n, "n", 0, "")
		ReadDecimal(cmd)
		if err := cmd.Flags().Set("n", text); err != nil || n != want {
			t.Errorf("%s is read as %d, %v, want %d", text, n, err, want)
		}
	}
	for _, text := range []string{"0x10", "1_000", "1e3", ""} {
		n := 0
		cmd := &cobra.Command{Use: "test"}
		cmd.Flags().IntVar(&n, "n", 0, "")
		ReadDecimal(cmd)
		if err := cmd.Flags().Set("n", text); err == nil {
			t.Errorf("%q is read as %d", text, n)
		}
	}
}

func TestAlternatives(t *testing.T) {
	if got := Alternatives([]string{"a", "b", "c"}); got != "a, b or c" {
		t.Errorf("got %q", got)
	}
}
