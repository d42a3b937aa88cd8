package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// configured are settings by a configuration file alone.
func configured(text []byte) (*settings, error) {
	s := &settings{given: map[string]bool{}, cmd: &cobra.Command{Use: "train"}}
	s.flags(s.cmd)
	return s, s.configure(text)
}

// What stands in a file means what it means on the command line, whatever YAML
// makes of it, and is printed so that it is read again.
func TestConfigurationsAreTakenAsTheyStand(t *testing.T) {
	for flag, values := range map[string][]string{
		"label":      {"007", "1.0", "0x10", "yes", "null", "~", "2026-01-02", " a ", "#x", "a: b", "'", `"`, "é\n"},
		"data":       {"~/mnist", "*x", "&x", "!x", "%x"},
		"epsilon":    {"1e-05", "0.1", "8"},
		"noise":      {"1e+06"},
		"microbatch": {"auto", "7"},
		"seed":       {"18446744073709551615"},
		"next":       {"true", "false"},
	} {
		for _, v := range values {
			s := &settings{given: map[string]bool{flag: true}, cmd: &cobra.Command{Use: "train"}}
			s.flags(s.cmd)
			f := s.cmd.Flags().Lookup(flag)
			if err := f.Value.Set(v); err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			if err := s.print(&text); err != nil {
				t.Fatal(err)
			}
			again, err := configured(text.Bytes())
			if err != nil {
				t.Errorf("--%s %q is printed as\n%s\nwhich is not read: %v", flag, v, text.Bytes(), err)
				continue
			}
			if got := again.cmd.Flags().Lookup(flag).Value.String(); got != f.Value.String() {
				t.Errorf("--%s %q is read again as %q", flag, f.Value.String(), got)
			}
		}
	}
	s, err := configured([]byte("label: 007\nignore: ['a,b', \"c\"]\nvocabulary: [x=1|2]\nseed: null\n"))
	if err != nil || s.label != "007" || fmt.Sprintf("%q", s.ignore) != `["a,b" "c"]` || len(s.vocabulary) != 1 || s.given["seed"] {
		t.Errorf("label %q, ignore %q, vocabulary %q, %v", s.label, s.ignore, s.vocabulary, err)
	}
	if s, err := configured([]byte("ignore: a,b\n")); err != nil || fmt.Sprintf("%q", s.ignore) != `["a" "b"]` {
		t.Errorf("without brackets: ignore %q, %v", s.ignore, err)
	}
	for text, says := range map[string]string{
		"label: {a: 1}":       "a value or a list",
		"label: [a, b]":       "one value is needed, not 2",
		"label: []":           "one value is needed, not 0",
		"ignore: [[a]]":       "a list of values",
		"ignore: [a, null]":   "a list of values",
		"steps: many":         "steps",
		"lable: x":            "did you mean label?",
		"help: true":          "no place in a file",
		"resume: run":         "no place in a file",
		"next: yes":           `"yes" is not true or false`,
		"seed: -1":            "a whole number, 0 or more",
		"- a":                 "a key and a value on each line",
		"label: x\nlabel: y":  "already defined",
		"lot: 1\n---\nlot: 2": "more than one document",
		"ignore: &a [*a]":     "a list of values",
		"\t":                  "",
	} {
		if _, err := configured([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v does not say %q", text, err, says)
		}
	}
}

// A budget that is given takes the place of a preset's or a file's, whichever way that has it.
func TestBudgetOfAPreset(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("kept.yaml", []byte("noise: 2\nsteps: 9\nstop-at-epsilon: 0.5\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[string]float64{"": 0.5, " --noise 3": 0.5, " --init weights": 0.5, " --epsilon 1": 0, " --stop-at-epsilon 3": 3, " --epsilon 4 --stop-at-epsilon 3": 3} {
		if s := settingsOf(t, "--config kept.yaml"+flags); s.stopAtEpsilon != want {
			t.Errorf("of a file, with%s it stops at %v, want %v", flags, s.stopAtEpsilon, want)
		}
	}
	for flags, want := range map[string]float64{"": 0.5, " --epsilon 1": 0, " --stop-at-epsilon 3": 3, " --epsilon 4 --stop-at-epsilon 3": 3} {
		if s := settingsOf(t, "--preset abadi-mnist-low"+flags); s.stopAtEpsilon != want {
			t.Errorf("with%s it stops at %v, want %v", flags, s.stopAtEpsilon, want)
		}
	}
}

// Whatever the file holds, it is refused by an error or taken; what was taken is
// printed so that it is taken again, and is then the same.
func FuzzConfig(f *testing.F) {
	for _, text := range []string{
		"data: digits\nepsilon: 2\nmodel: mlp:64,act=tanh\nlot: 500\n",
		"ignore: [a, b]\nvocabulary:\n- x=1|2\nseed: 7\nmicrobatch: auto\n",
		"label: &a yes\ntext: *a\nlength: 0x10\nnoise: .inf\n",
		"seed: null\nclip: 1_000\n? epochs\n: 3\n",
		"ignore: &a [*a, &b b, *b]\nlabel: *b\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		first, err := configured(text)
		if err != nil {
			return
		}
		var printed, again bytes.Buffer
		if err := first.print(&printed); err != nil {
			t.Fatal(err)
		}
		second, err := configured(printed.Bytes())
		if err != nil {
			t.Fatalf("%q is printed as\n%s\nwhich is not read: %v", text, printed.Bytes(), err)
		}
		if err := second.print(&again); err != nil || again.String() != printed.String() {
			t.Fatalf("%q is printed as\n%s\nand then as\n%s\n%v", text, printed.Bytes(), again.Bytes(), err)
		}
		first.cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if got := second.cmd.Flags().Lookup(f.Name).Value.String(); first.given[f.Name] && second.given[f.Name] && got != f.Value.String() {
				t.Errorf("--%s was %q and is read again as %q", f.Name, f.Value.String(), got)
			}
		})
	})
}
