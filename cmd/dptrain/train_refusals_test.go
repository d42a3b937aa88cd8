package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// With δ of at least one over the number of records, a mechanism may publish a record. A run with
// such a δ is refused or, if the user accepts that, every output warns of it.
func TestTrain_RefusesLargeDelta(t *testing.T) {
	inWorkshop(t)
	for delta, warns := range map[string]bool{"0.001": true, "0.00025": true, "0.0001": false} {
		for _, command := range []string{brief + " --steps 2 --noise 2 --out no", brief + " --steps 2 --noise 2 --dry-run", selecting + " --trials 2 --out no"} {
			if !warns {
				break
			}
			_, stderr, code := dptrain(command + " --delta " + delta)
			if _, err := os.Stat("no"); code != exitcode.Usage || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "permits publishing one record in full") || !strings.Contains(stderr, "--allow-large-delta") || err == nil {
				t.Errorf("%s --delta %s: exit %d, %s", command, delta, code, stderr)
			}
		}
		delta := delta + " --allow-large-delta"
		_, stderr, code := dptrain(brief + " --steps 2 --noise 2 --out run" + delta + " --delta " + delta)
		if code != exitcode.Done || strings.Contains(stderr, "give a smaller --delta") != warns {
			t.Errorf("δ = %s of 4000 records: exit %d, %s", delta, code, stderr)
		}
		if seen := runJSON(t, brief+" --steps 2 --noise 2 --dry-run --delta "+delta); (seen["warning"] != nil) != warns {
			t.Errorf("δ = %s of 4000 records: foreseen with the warning %v", delta, seen["warning"])
		}
	}
}

// Privacy flags on the command line of a non-private run would have no effect and are
// refused. A preset or a file can contain them: it describes the private run.
func TestTrain_NonPrivateRefusesPrivacyFlags(t *testing.T) {
	inWorkshop(t)
	file := "clip: 2\nnoise: 1\ndelta: 1e-5\naccountant: rdp\nproject: 2\nproject-noise: 3\nvalidation-split: 0.1\nvalidation-noise: 3\n"
	for name, text := range map[string]string{"private.yaml": file, "public.yaml": file + "non-private: true\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, flags := range []string{"--clip 2", "--clipping joint", "--allocation dimension", "--noise 1", "--epsilon 2", "--delta 1e-5",
		"--stop-at-epsilon 2", "--accountant rdp", "--validation-split 0.1 --validation-noise 3", "--project 2 --project-noise 3"} {
		typed := flags[strings.LastIndex(flags, "--"):]
		typed, _, _ = strings.Cut(typed, " ")
		for line, want := range map[string]string{
			baseline: "--non-private",
			strings.ReplaceAll(baseline, "--non-private", "--config public.yaml"): "contradicts non-private in public.yaml",
		} {
			_, stderr, code := dptrain(line + " --steps 4 --out run " + flags)
			if code != exitcode.Usage || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, want) || !strings.Contains(stderr, typed+" ") {
				t.Errorf("%s with %s: exit %d, %s", flags, want, code, stderr)
			}
		}
	}
	for i, line := range []string{baseline + " --config private.yaml", strings.ReplaceAll(baseline, "--non-private", "--config public.yaml")} {
		got := runJSON(t, line+" --steps 4 --out run"+strconv.Itoa(i))
		if got["private"] != false || got["validation_noise"] != 0.0 || got["projection_noise"] != 0.0 {
			t.Errorf("%s: private %v, noise %v and %v", line, got["private"], got["validation_noise"], got["projection_noise"])
		}
	}
	if again := runJSON(t, strings.ReplaceAll(baseline, "--non-private", "--config public.yaml --non-private=false")+" --steps 4 --out run"); again["private"] != true {
		t.Error("--non-private=false does not overrule a file")
	}
	if _, stderr, code := dptrain("train --resume run0 --epsilon 3"); code != exitcode.Usage || !strings.Contains(stderr, "--epsilon") {
		t.Errorf("a baseline resumed with a budget: exit %d, %s", code, stderr)
	}
	if j := specOf(t, "--preset abadi-mnist --data digits --non-private"); !j.Config.Mechanism.NonPrivate || j.Config.Projection.Noise != 0 || j.Config.Sampling.Lot != 600 {
		t.Errorf("of lots of %d, the baseline of a preset is private: %v", j.Config.Sampling.Lot, !j.Config.Mechanism.NonPrivate)
	}
}

func TestTrain_RefusesInvalidFlags(t *testing.T) {
	t.Chdir(t.TempDir())
	table(t, "t.csv", 20)
	if err := os.Link("t.csv", "link.csv"); err != nil {
		t.Fatal(err)
	}
	array(t, "wide/x_train.npy", "|u1", "(2, 2049)", make([]float64, 2*2049)...)
	array(t, "wide/y_train.npy", "|u1", "(2,)", 0, 1)
	for _, c := range []struct{ flags, want string }{
		{"--data mnits", "mnist"},
		{"--data mnist", "--data-dir"},
		{"--data t.csv --label label --classes no,yes --bounds age=0:100 --ignore owner", "colour"},
		{"--lot 0", "--lot"},
		{"--data t.csv --label label --classes no,yes --bounds age=0:100 --vocabulary colour=red --record user:owner --user-examples 0", "--user-examples 0: give at least 1"},
		{"--user-examples -1", "needs --record user:COLUMN"},
		{"--lot 1000000", "--lot"},
		{"--lot 0x10", "a whole number"},
		{"--rate 1.5", "--rate"},
		{"--rate 0", "--rate"},
		{"--rate 0.1 --lot 5", "--lot"},
		{"--clip 0", "--clip"},
		{"--clip -1", "--clip"},
		{"--clip Inf", "--clip"},
		{"--noise 0 --project 5", "--noise 0: give a finite multiplier above 0"},
		{"--noise -1 --validation-split 0.1", "--noise -1: give a finite multiplier above 0"},
		{"--noise Inf", "--noise +Inf: give a finite multiplier above 0"},
		{"--clipping adaptive --lot 1", "--lot"},
		{"--noise 1 --epsilon 1", "--epsilon"},
		{"--epsilon 0", "--epsilon"},
		{"--delta 0", "--delta"},
		{"--delta 1", "--delta"},
		{"--model mlpp", "mlp"},
		{"--model mlp:0", "mlp"},
		{"--optimizer adma", "adam"},
		{"--schedule lineer:1@2", "linear"},
		{"--model mlp:6 --lr-of fx2=2", "the nearest is fc2"},
		{"--model mlp:6 --lr-of fc1=2,fc1.bias=3", "names fc1.bias twice"},
		{"--lr-of =2", "LAYER=FACTOR"},
		{"--lr-of fc1", "LAYER=FACTOR"},
		{"--lr-of fc1=0", "--freeze"},
		{"--lr-of fc1=Inf", "above 0"},
		{"--decay-of matrixes --optimizer adamw", "matrices"},
		{"--decay-of matrices", "no weight decay"},
		{"--steps 0", "--steps"},
		{"--epochs 0", "--epochs"},
		{"--record usr", "--record"},
		{"--record user:owner", "label"},
		{"--record microbatch:0", "--record"},
		{"--record microbatch:50000 --validation-split 0.1", "of 1 records holds out 0: at least one"},
		{"--sampling poison", "poisson"},
		{"--clipping flatt", "flat"},
		{"--device cuda:0", "CUDA"},
		{"--device cup", "cpu"},
		{"--preset tfp", "tfp-mnist"},
		{"--preset abadi-cifar10 --data digits", "use --standardize=false"},
		{"--preset abadi-cifar10 --data digits --standardize=false", "--freeze conv1,conv2 needs --init"},
		{"--config none.yaml", "none.yaml"},
		{"--microbatch 0", "--microbatch"},
		{"--init none.safetensors", "--init"},
		{"--accountant pdl", "pld"},
		{"--accountant gdp", "(--noise)"},
		{"--lr -1", "--lr"},
		{"--lr Inf", "--lr"},
		{"--epsilon Inf", "finite"},
		{"--data t.csv --test ./t.csv --label label --classes no,yes", "is the file of the training data: "},
		{"--data t.csv --test link.csv --label label --classes no,yes", "is the file of the training data: "},
		{"--seed -1", "a whole number, 0 or more"},
		{"--ema 1", "average"},
		{"--lott 5", "--lot"},
		{"--metrics-addr nonsense", "--metrics-addr"},
		{"--metrics-addr :0", "--metrics-addr"},
		{"--metrics-addr :99999", "--metrics-addr"},
		{"--metrics-addr 192.0.2.1:9", "--metrics-remote"},
		{"--metrics-addr 0.0.0.0:9", "--metrics-remote"},
		{"--validation-split 0", "a share above 0 and below 1"},
		{"--validation-split 1", "a share above 0 and below 1"},
		{"--validation-split -0.1", "a share above 0 and below 1"},
		{"--validation-split NaN", "a share above 0 and below 1"},
		{"--validation-split 0.1 --accountant zcdp --epsilon 1e30 --delta 0.4 --allow-large-delta", "; give --validation-noise"},
		{"--project 5 --accountant zcdp --epsilon 1e30 --delta 0.4 --allow-large-delta", "; give --project-noise"},
		{"--validation-split 1e-9", "at least one"},
		{"--validation-split 0.999999", "at least one"},
		{"--validation-noise 3", "--validation-split"},
		{"--validation-split 0.1 --validation-noise 0", "--validation-noise"},
		{"--validation-split 0.1 --validation-noise Inf", "--validation-noise"},
		{"--validation-split 0.1 --validation-noise 3 --non-private", "--non-private"},
		{"--project 0", "--project 0"},
		{"--project -1", "--project -1"},
		{"--project 785", "784"},
		{"--project 5 --data wide --classes 2", "at most 2048"},
		{"--project 5 --project-noise 0", "--project-noise"},
		{"--project 5 --project-noise -1", "--project-noise"},
		{"--project 5 --project-noise NaN", "--project-noise"},
		{"--project 5 --project-noise 1e200", "noise"},
		{"--project-noise 3", "needs --project"},
		{"--augment turn", "use flip or shift:P"},
		{"--augment shift:28", "from 1 to 27 pixels"},
		{"--augment flip --views 0", "--views 0: give at least 1"},
		{"--augment flip --views 100000", "at most 4096"},
		{"--views 4", "needs --crop or --augment"},
		{"--augment flip --data remarks", "not pictures"},
		{"--project 5 --project-noise 3 --non-private", "--non-private"},
		{"--project 5 --model digits-cnn", "pictures"},
		{"--project 5 --data remarks", "indices"},
		{"--project 5 --model lstm --data remarks", "indices"},
	} {
		stdout, stderr, code := dptrain("train --out run " + c.flags)
		if code != exitcode.Usage || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "dptrain: ") || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", c.flags, code, stdout, stderr)
		}
		if left, _ := filepath.Glob("run*"); len(left) > 0 {
			t.Fatalf("%s: left %v behind", c.flags, left)
		}
	}
}

// Whole numbers are decimal, in a configuration file too.
func TestTrain_DecimalNumbers(t *testing.T) {
	inWorkshop(t)
	if err := os.WriteFile("run.yaml", []byte("steps: 010\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	v := runJSON(t, "train --config run.yaml --lot 0100 --seed 011 --print-config")
	if v["steps"] != 10.0 || v["lot"] != 100.0 || v["seed"] != 11.0 {
		t.Errorf("steps 010, lot 0100 and seed 011 are %v, %v and %v", v["steps"], v["lot"], v["seed"])
	}
	if stdout, stderr, _ := dptrain("train --seed 18446744073709551615 --print-config"); !strings.Contains(stdout, "seed: 18446744073709551615\n") {
		t.Errorf("the largest seed is\n%s%s", stdout, stderr)
	}
}
