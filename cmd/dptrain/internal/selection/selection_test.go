package selection

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/spf13/pflag"
)

const columns = " --data people.csv --test test.csv --label label --classes no,yes --bounds age=0:100 --vocabulary colour=red|blue"

// writeTables changes to a directory with training data and test data. The label depends
// mostly on the colour.
func writeTables(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, rows := range map[string]int{"people.csv": 4000, "test.csv": 400} {
		var b strings.Builder
		b.WriteString("age,colour,owner,label\n")
		for i := range rows {
			label := []string{"no", "yes"}[i%2]
			if i%20 == 7 {
				label = "no"
			}
			b.WriteString(strings.Join([]string{[]string{"20", "60"}[i/2%2], []string{"red", "blue"}[i%2], string(rune('a' + i/5%20)), label}, ",") + "\n")
		}
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// specOf returns the specification of train with some flags.
func specOf(t *testing.T, line string) *settings.Spec {
	t.Helper()
	flags, set := &settings.Flags{}, pflag.NewFlagSet("train", pflag.ContinueOnError)
	flags.Define(set)
	if err := set.Parse(strings.Fields(line)); err != nil {
		t.Fatal(err)
	}
	if err := flags.Resolve(); err != nil {
		t.Fatal(err)
	}
	options, err := flags.DataOptions()
	if err != nil {
		t.Fatal(err)
	}
	task, err := data.Open(flags.Data, options)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := settings.New(flags, task)
	if err == nil {
		err = spec.Calibrate()
	}
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// The directory of the runs is removed, however they end.
func TestBest_RemovesItsFiles(t *testing.T) {
	writeTables(t)
	j := specOf(t, "--ignore owner --model logistic --steps 1 --noise 1 --accountant rdp"+columns)
	stopped, stop := context.WithCancel(context.Background())
	stop()
	if _, _, err := Best(stopped, []*settings.Spec{j}, Distribution{Name: negativeBinomial, Shape: 1, Mean: 3}, "runs"); !errors.Is(err, context.Canceled) {
		t.Errorf("a stopped selection: %v", err)
	}
	// The Poisson distribution sometimes draws 0 runs. With mean 1.01, 60 draws in a row are
	// above 0 with probability 1e-12.
	none := false
	for range 60 {
		best, _, err := Best(context.Background(), []*settings.Spec{j}, Distribution{Name: poisson, Mean: 1.01}, "runs")
		if err == nil && len(best.Parameters) == 0 {
			t.Fatal("a selection without an outcome")
		}
		if err != nil {
			none = strings.Contains(err.Error(), "nothing was selected")
			break
		}
	}
	if !none {
		t.Error("no draw was 0")
	}
	if _, err := os.Stat("runs"); err == nil {
		t.Error("the directory of the runs is left")
	}
}

// The best run is selected, by public test data or by the released result on records held
// out. With mean 16, no run draws a setting that can learn with probability 2e-6.
func TestBest_SelectsBestRun(t *testing.T) {
	writeTables(t)
	for _, heldOut := range []string{"", " --validation-split 0.1 --validation-noise 0.01"} {
		flags := "--ignore owner --model logistic --lot 100 --steps 10 --noise 0.1 --accountant rdp" + heldOut + columns
		poor, good := specOf(t, strings.NewReplacer("--ignore owner", "--ignore owner,colour", " --vocabulary colour=red|blue", "").Replace(flags)), specOf(t, flags)
		best, index, err := Best(context.Background(), []*settings.Spec{poor, good, good, good, good, good}, Distribution{Name: poisson, Mean: 16}, "runs")
		if err != nil || index == 0 || *best.Accuracy < 0.9 || best.Score < 0.9 || (best.Deviation > 0) != (heldOut != "") {
			t.Errorf("%s: setting %d with accuracy %v, score %v ± %v: %v", heldOut, index, *best.Accuracy, best.Score, best.Deviation, err)
		}
	}
}

// A run whose ledger states a higher cost than planned is not released.
func TestCheckReleases_RefusesHigherCost(t *testing.T) {
	writeTables(t)
	const flags = "--ignore owner --model logistic --steps 3 --accountant rdp" + columns
	planned, actual := specOf(t, flags+" --noise 2"), specOf(t, flags+" --noise 1.99")
	for _, test := range []struct {
		runs, plans *settings.Spec
		refused     bool
	}{{planned, planned, false}, {planned, actual, false}, {actual, planned, true}} {
		c := test.runs.Config
		c.Files.CheckpointFolder, c.Files.Ledger = "", filepath.Join(t.TempDir(), "ledger.jsonl")
		run, err := engine.New(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(run.Train(context.Background(), nil), run.Close()); err != nil {
			t.Fatal(err)
		}
		if err := checkReleases(test.plans, c.Files.Ledger); (err != nil) != test.refused {
			t.Errorf("noise %v with a plan of %v: %v", c.Mechanism.NoiseMultiplier, test.plans.Config.Mechanism.NoiseMultiplier, err)
		}
	}
}
