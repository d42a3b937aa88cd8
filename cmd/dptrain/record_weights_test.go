package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// Of 600 rows that cannot be distinguished, most are sick and have the weight 0, or a hostile one. With
// weights, the model predicts the others. ε, the sensitivity and the noise are those of a run without.
func TestTrain_WeightsOfRecords(t *testing.T) {
	t.Chdir(t.TempDir())
	train, test := "age,visits,sick\n", "age,visits,sick\n"
	for i := range 600 {
		switch {
		case i%3 == 0:
			train += "50,3,no\n"
		default:
			train += fmt.Sprintf("50,%s,yes\n", []string{"0", "-7", "NaN", "secret", ""}[i%5])
		}
	}
	for range 20 {
		test += "50,1,no\n"
	}
	for name, text := range map[string]string{"train.csv": train, "test.csv": test} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const line = "train --data train.csv --test test.csv --label sick --classes no,yes --bounds age=0:100 --model logistic --lot 100 --steps 20 --noise 2 --seed 1 --threads 1 --device cpu"
	plain := runJSON(t, line+" --ignore visits --out plain")
	weighted := runJSON(t, line+" --weight visits --weight-cap 3 --out weighted")
	if plain["test_accuracy"] != 0.0 || weighted["test_accuracy"] != 1.0 {
		t.Errorf("accuracies %v and %v, want 0 without weights and 1 with them", plain["test_accuracy"], weighted["test_accuracy"])
	}
	if fmt.Sprint(plain["groups"], plain["epsilon"]) != fmt.Sprint(weighted["groups"], weighted["epsilon"]) {
		t.Errorf("%v, ε = %v without weights, and %v, ε = %v with them", plain["groups"], plain["epsilon"], weighted["groups"], weighted["epsilon"])
	}
	if weighted["weight"] != "visits" || weighted["weight_cap"] != 3.0 || plain["weight"] != nil {
		t.Errorf("run.json has weight %v, weight_cap %v", weighted["weight"], weighted["weight_cap"])
	}
	if page := string(readFile(t, "weighted/report.html")); !strings.Contains(page, "column visits, at most 3") {
		t.Error("the report does not state the weights")
	}
	if v := runJSON(t, "train --resume weighted --steps 22"); v["weight_cap"] != 3.0 || v["steps"] != 22.0 {
		t.Errorf("resumed: %v", v)
	}
	baseline := strings.Replace(line, "--noise 2", "--non-private", 1)
	if v := runJSON(t, baseline+" --weight visits --weight-cap 3 --out baseline"); v["test_accuracy"] != 1.0 {
		t.Errorf("without privacy the accuracy is %v", v["test_accuracy"])
	}
}

// The mean of the changes of users is divided by a public mean weight, or by the sum of the lot's
// weights: with the sensitivity, ε and noise that this has.
func TestTrain_DenominatorsOfWeights(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, users := range map[string]int{"users.csv": 400, "test.csv": 60} {
		usersTable(t, name, users)
		rows := strings.Fields(string(readFile(t, name)))
		for i := range rows {
			rows[i] += []string{",0", ",1", ",2", ",3"}[i%4]
		}
		rows[0] = "age,who,label,visits"
		if err := os.WriteFile(name, []byte(strings.Join(rows, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const line = localSteps + " --steps 8 --noise 0.5 --clip 2 --seed 1 --weight visits --weight-cap 3"
	runs := map[string]map[string]any{}
	for name, flags := range map[string]string{"cap": "", "mean": " --weight-mean 1.5", "lot": " --weight-min-mean 1"} {
		runs[name] = runJSON(t, line+flags+" --out "+name)
	}
	for name, want := range map[string]float64{"cap": 2, "mean": 2, "lot": 4} {
		run := runs[name]
		group := run["groups"].([]any)[0].(map[string]any)
		if group["sensitivity"] != want || group["noise"] != want/2 || run["epsilon"] != runs["cap"]["epsilon"] || run["noise_multiplier"] != 0.5 {
			t.Errorf("%s: %v with ε = %v", name, group, run["epsilon"])
		}
		if run["test_accuracy"].(float64) < 0.85 {
			t.Errorf("%s: accuracy %v", name, run["test_accuracy"])
		}
	}
	if v := runs["mean"]; v["weight_mean"] != 1.5 || v["weight_min_mean"] != nil {
		t.Errorf("run.json has the means %v and %v", v["weight_mean"], v["weight_min_mean"])
	}
	if v := runJSON(t, "train --resume lot --steps 10"); v["weight_min_mean"] != 1.0 || v["weight_mean"] != nil {
		t.Errorf("resumed: %v", v)
	}
	for name, want := range map[string]string{"mean": "the expected lot times a mean weight of 1.5", "lot": "the sum of the lot&#39;s weights, at least the expected lot times 1"} {
		if page := string(readFile(t, name+"/report.html")); !strings.Contains(page, want) {
			t.Errorf("the report of %s does not state the denominator", name)
		}
	}
	checkUsageError(t, line+" --weight-mean 1 --weight-min-mean 1 --out both", "set one of them")
	checkUsageError(t, line+" --weight-min-mean 1 --sampling fixed --out fixed", "needs poisson lots")
}

func TestTrain_RefusesWeights(t *testing.T) {
	inWorkshop(t)
	for flags, want := range map[string]string{
		"--weight-cap 2":                   "needs --weight COLUMN",
		"--weight nothing":                 `no column "nothing"`,
		"--weight age":                     "used in two ways",
		"--weight label":                   "used in two ways",
		"--weight owner --weight-cap 0":    "above 0",
		"--weight owner --weight-cap +Inf": "finite",
		"--weight-mean 1":                  "needs --weight COLUMN",
		"--weight owner --weight-mean 0":   "above 0",
		"--weight owner --weight-mean 1.5": "at most the largest weight, --weight-cap 1",
		"--weight owner --weight-min-mean 1 --mechanism laplace": "needs Gaussian noise",
	} {
		line := brief
		if strings.Contains(flags, "owner") {
			line = strings.Replace(brief, "--ignore owner", "", 1)
		}
		checkUsageError(t, line+" --noise 2 --steps 2 --out run "+flags, want)
	}
	if _, stderr, code := dptrain(drawn + " --weight visits --steps 2 --out run"); code != exitcode.Usage || !strings.Contains(stderr, "for CSV and JSONL") {
		t.Errorf("weights of digits: exit %d, %s", code, stderr)
	}
}
