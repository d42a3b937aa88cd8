package flags

import (
	"testing"

	"github.com/spf13/pflag"
)

// Help has the sections in the order of their definition, wrapped lines, and no hidden flags.
func TestUsages_HasSections(t *testing.T) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.SortFlags = false
	f.Bool("plain", false, "a flag without a section")
	Section(f, "Second letter first", func(f *pflag.FlagSet) {
		f.Int("zeta", 0, "a description that needs more than one line of sixty columns")
		f.Int("alpha", 0, "short")
	})
	Section(f, "Hidden", func(f *pflag.FlagSet) {
		f.Bool("secret", false, "")
		f.Lookup("secret").Hidden = true
	})
	const want = `Second letter first:
      --zeta int    a description that needs more than
                    one line of sixty columns
      --alpha int   short

Other flags:
      --plain   a flag without a section`
	if got := Usages(f, "Flags", 60); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if err := f.Parse([]string{"--alpha", "3"}); err != nil || !f.Changed("alpha") || f.Changed("zeta") {
		t.Errorf("flags of a section are parsed: %v", err)
	}
}

func TestUsages_WithoutSections(t *testing.T) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Bool("plain", false, "about")
	if got, want := Usages(f, "Flags", 80), "Flags:\n      --plain   about"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
