package settings

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/setting"
	"github.com/spf13/pflag"
)

// parseFile parses a configuration file without a command line.
func parseFile(text []byte) (*Flags, error) {
	s := newFlags()
	return s, s.parseYAML(text)
}

func newFlags() *Flags {
	s := &Flags{given: map[string]bool{}}
	s.Define(pflag.NewFlagSet("train", pflag.ContinueOnError))
	return s
}

// resolved returns the flags of a command line.
func resolved(t *testing.T, line string) *Flags {
	t.Helper()
	s := newFlags()
	if err := s.set.Parse(strings.Fields(line)); err != nil {
		t.Fatal(err)
	}
	if err := s.Resolve(); err != nil {
		t.Fatal(err)
	}
	return s
}

// A value in a file has the same meaning as on the command line, even if YAML gives it
// another type, and is printed so that it is read back.
func TestConfigFile_ReadsAndPrintsValues(t *testing.T) {
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
			s := newFlags()
			s.given[flag] = true
			f := s.set.Lookup(flag)
			if err := f.Value.Set(v); err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			if err := s.PrintYAML(&text); err != nil {
				t.Fatal(err)
			}
			again, err := parseFile(text.Bytes())
			if err != nil {
				t.Errorf("--%s %q is printed as\n%s\nwhich cannot be read: %v", flag, v, text.Bytes(), err)
				continue
			}
			if got := again.set.Lookup(flag).Value.String(); got != f.Value.String() {
				t.Errorf("--%s %q is read back as %q", flag, f.Value.String(), got)
			}
		}
	}
	s, err := parseFile([]byte("label: 007\nignore: ['a,b', \"c\"]\nvocabulary: [x=1|2]\nseed: null\n"))
	if err != nil || s.Label != "007" || fmt.Sprintf("%q", s.Ignore) != `["a,b" "c"]` || len(s.Vocabulary) != 1 || s.given["seed"] {
		t.Errorf("label %q, ignore %q, vocabulary %q, %v", s.Label, s.Ignore, s.Vocabulary, err)
	}
	if s, err := parseFile([]byte("ignore: a,b\n")); err != nil || fmt.Sprintf("%q", s.Ignore) != `["a" "b"]` {
		t.Errorf("without brackets: ignore %q, %v", s.Ignore, err)
	}
	for text, want := range map[string]string{
		"label: {a: 1}":       "give a value or a list",
		"label: [a, b]":       "give one value, not 2",
		"label: []":           "give one value, not 0",
		"ignore: [[a]]":       "give a list of values",
		"ignore: [a, null]":   "give a list of values",
		"steps: many":         "steps",
		"lable: x":            "did you mean label?",
		"help: true":          "cannot be set in a file",
		"resume: run":         "cannot be set in a file",
		"next: yes":           `"yes" is not true or false`,
		"seed: -1":            "a whole number, 0 or more",
		"- a":                 "each line needs a key and a value",
		"label: x\nlabel: y":  "already defined",
		"lot: 1\n---\nlot: 2": "more than one document",
		"ignore: &a [*a]":     "give a list of values",
		"\t":                  "",
	} {
		if _, err := parseFile([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v does not contain %q", text, err, want)
		}
	}
}

// An error in a value names the file, the line and the key if the value is from a file, once.
func TestInFile_NamesFileAndKey(t *testing.T) {
	t.Chdir(t.TempDir())
	text := "steps: 9\n\nlot: 7\ndevice: cpu\ngroups:\n  a: {parameters: [fc], clip: 2}\n"
	if err := os.WriteFile("kept.yaml", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	s := resolved(t, "--config kept.yaml --steps 4")
	for _, c := range []struct {
		err  error
		want string
	}{
		{exitcode.Usagef("--lot 7: too large"), "--config kept.yaml: line 3: --lot 7: too large"},
		{exitcode.Usagef("--group: too large"), "--config kept.yaml: line 6: --group: too large"},
		{exitcode.Usagef("--steps 4: too small"), "--steps 4: too small"},
		{exitcode.Usagef("--lots: unknown"), "--lots: unknown"},
		{exitcode.Usagef("--rate 1"), "--rate 1"},
		{setting.Errorf("Sampling.Lot", "%v is too large", setting.With("Sampling.Lot", 7)), "--config kept.yaml: line 3: --lot 7 is too large"},
		{setting.Errorf("Device.Name", "it is too slow"), "--config kept.yaml: line 4: device: it is too slow"},
		{setting.Errorf("Steps", "%v is too small", setting.With("Steps", 4)), "--steps 4 is too small"},
		{errors.New("lot 7 failed"), "lot 7 failed"},
	} {
		if got := Describe(s.InFile(c.err)); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
		if got, want := exitcode.Of(s.InFile(c.err)), exitcode.Of(c.err); got != want {
			t.Errorf("%v has the exit code %d, want %d", c.err, got, want)
		}
	}
	if s.InFile(nil) != nil {
		t.Error("no error became one")
	}
	s = newFlags()
	if err := os.WriteFile("wrong.yaml", []byte("\nsampling: dice\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.set.Set("config", "wrong.yaml")
	if err := s.Resolve(); err == nil || !strings.HasPrefix(err.Error(), "--config wrong.yaml: line 2: --sampling") || exitcode.Of(err) != exitcode.Usage {
		t.Errorf("Resolve: %v", err)
	}
}

// A budget on the command line overrides that of a preset or a file, whichever flag sets it.
func TestResolve_OverridesBudget(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("kept.yaml", []byte("noise: 2\nsteps: 9\nstop-at-epsilon: 0.5\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[string]float64{"": 0.5, " --noise 3": 0.5, " --init weights": 0.5, " --epsilon 1": 0, " --stop-at-epsilon 3": 3, " --epsilon 4 --stop-at-epsilon 3": 3} {
		if s := resolved(t, "--config kept.yaml"+flags); s.StopAtEpsilon != want {
			t.Errorf("file with%s: it stops at %v, want %v", flags, s.StopAtEpsilon, want)
		}
	}
	for flags, want := range map[string]float64{"": 0.5, " --epsilon 1": 0, " --stop-at-epsilon 3": 3, " --epsilon 4 --stop-at-epsilon 3": 3} {
		if s := resolved(t, "--preset abadi-mnist-low"+flags); s.StopAtEpsilon != want {
			t.Errorf("preset with%s: it stops at %v, want %v", flags, s.StopAtEpsilon, want)
		}
	}
}

// A preset sets each of its groups; other clipping on the command line replaces all of them.
func TestResolve_GroupsOfPreset(t *testing.T) {
	for flags, want := range map[string][]string{"": {"fc1=fc1", "fc2=fc2"}, " --clipping flat": nil, " --group all=fc*": {"all=fc*"}} {
		if s := resolved(t, "--preset abadi-mnist"+flags); !slices.Equal(s.Groups, want) {
			t.Errorf("preset with%s: groups %q, want %q", flags, s.Groups, want)
		}
	}
}

// Any file is refused with an error or accepted. What is accepted is printed so that it is
// accepted again with the same values.
func FuzzConfigFile(f *testing.F) {
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
		first, err := parseFile(text)
		if err != nil {
			return
		}
		var printed, again bytes.Buffer
		if err := first.PrintYAML(&printed); err != nil {
			t.Fatal(err)
		}
		second, err := parseFile(printed.Bytes())
		if err != nil {
			t.Fatalf("%q is printed as\n%s\nwhich cannot be read: %v", text, printed.Bytes(), err)
		}
		if err := second.PrintYAML(&again); err != nil || again.String() != printed.String() {
			t.Fatalf("%q is printed as\n%s\nand then as\n%s\n%v", text, printed.Bytes(), again.Bytes(), err)
		}
		first.set.VisitAll(func(f *pflag.Flag) {
			if got := second.set.Lookup(f.Name).Value.String(); first.given[f.Name] && second.given[f.Name] && got != f.Value.String() {
				t.Errorf("--%s was %q and is read back as %q", f.Name, f.Value.String(), got)
			}
		})
	})
}

// An error names the line, the key, and the key that is probably meant. The first line comes first.
func TestConfigFile_Errors(t *testing.T) {
	for text, want := range map[string]string{
		"batch_size: 3":                    "line 1: batch_size is not a setting: did you mean lot?",
		"lot: 3\nmax-grad-norm: 1":         "line 2: max-grad-norm is not a setting: did you mean clip?",
		"momentum: 0.9":                    "line 1: momentum is not a setting: did you mean optimizer: momentum:beta=0.9?",
		"epoch: 3":                         "line 1: epoch is not a setting: did you mean epochs?",
		"a-b-c: 3":                         "line 1: a-b-c is not a setting; dptrain train --help lists all settings",
		"lot: 3\nepochs: x\nbatch_size: 3": `line 2: epochs: "x" is not a number`,
		"lot: {a: 3}":                      "line 1: lot: give a value or a list of values",
	} {
		if _, err := parseFile([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}
