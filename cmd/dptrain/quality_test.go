package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/modelfile"
)

// writeVisits writes rows with a label that depends on two columns by chance.
func writeVisits(t *testing.T, name string, rows int) (labels []int) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(rows), 7))
	var b strings.Builder
	b.WriteString("age,colour,sick\n")
	for range rows {
		age, colour, label := r.Float64(), r.IntN(2), 0
		if r.Float64() < 0.15+0.4*age+0.3*float64(colour) {
			label = 1
		}
		labels = append(labels, label)
		fmt.Fprintf(&b, "%.4f,%s,%s\n", 100*age, []string{"red", "blue"}[colour], []string{"no", "yes"}[label])
	}
	if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return labels
}

const visitsSchema = " --label sick --classes no,yes --bounds age=0:100 --vocabulary colour=red|blue"

// The measures in run.json are those that predict's probabilities of the test rows give.
func TestTrain_MeasuresTestData(t *testing.T) {
	t.Chdir(t.TempDir())
	writeVisits(t, "visits.csv", 800)
	labels := writeVisits(t, "more.csv", 300)
	run := runJSON(t, "train --data visits.csv --test more.csv --model logistic --lot 100 --steps 40 --lr 1 --epsilon 4 --device cpu --out run"+visitsSchema)
	cells := cellsOf(t, runText(t, "predict run --data more.csv --scores --device cpu"))
	probabilities := make([]float64, len(labels))
	yes := 0
	for i, cell := range cells["probability:yes"] {
		probabilities[i], _ = strconv.ParseFloat(cell, 64)
		yes += labels[i]
	}
	if got, want := run["baseline"].(float64), float64(max(yes, len(labels)-yes))/float64(len(labels)); math.Abs(got-want) > 1e-12 {
		t.Errorf("baseline %v, want %v", got, want)
	}
	right, pairs := 0.0, 0.0
	for i, a := range labels {
		for j, b := range labels {
			if a == 1 && b == 0 {
				pairs++
				if probabilities[i] > probabilities[j] {
					right++
				}
			}
		}
	}
	roc := run["roc"].(map[string]any)
	one := roc["classes"].([]any)[0].(map[string]any)
	if auc := one["auc"].(float64); math.Abs(auc-right/pairs) > 2e-3 || roc["examples"].(float64) != 300 {
		t.Errorf("AUC %v of %v examples, want %v", auc, roc["examples"], right/pairs)
	}
	examples := 0.0
	for _, bin := range run["calibration"].([]any) {
		b := bin.(map[string]any)
		count, sum, hits := 0.0, 0.0, 0.0
		tenth := math.Floor(10 * b["predicted"].(float64))
		for i, p := range probabilities {
			if math.Floor(10*p) == tenth {
				count, sum, hits = count+1, sum+p, hits+float64(labels[i])
			}
		}
		if b["examples"].(float64) != count || math.Abs(b["predicted"].(float64)-sum/count) > 1e-3 || math.Abs(b["observed"].(float64)-hits/count) > 1e-9 {
			t.Errorf("%v, want %v examples, predicted %v, observed %v", b, count, sum/count, hits/count)
		}
		examples += count
	}
	if examples != 300 {
		t.Errorf("the bins have %v examples", examples)
	}
	page := string(readFile(t, "run/report.html"))
	for _, want := range []string{"Calibration", "log-odds of yes", "colour = blue", "a number from 0 to 100", "more.csv, public, 300 examples", "can be picked out with 1% false alarms"} {
		if !strings.Contains(page, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	text := runText(t, "eval run --device cpu")
	counts := run["confusion"].([]any)[1].([]any)
	if want := fmt.Sprintf("yes %v %v", counts[0], counts[1]); !strings.Contains(strings.Join(strings.Fields(text), " "), want) || !strings.Contains(text, "predicted yes") {
		t.Errorf("eval prints %q, which lacks %q", text, want)
	}
}

// Columns that are 0 in every row have weights of noise alone, whose deviation is the one that run.json
// states. A deviation that is measured on 400 weights has a relative error of 3.5%: a correct result is
// off by 20% with a probability below 10^-7.
func TestTrain_StatesNoiseInWeights(t *testing.T) {
	t.Chdir(t.TempDir())
	const columns = 400
	var b strings.Builder
	var bounds []string
	for i := range columns {
		fmt.Fprintf(&b, "c%d,", i)
		bounds = append(bounds, fmt.Sprintf("c%d=-1:1", i))
	}
	b.WriteString("sick\n")
	for i := range 200 {
		b.WriteString(strings.Repeat("0,", columns) + []string{"no\n", "yes\n"}[i%2])
	}
	if err := os.WriteFile("visits.csv", []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, flags := range []string{"--optimizer momentum --lr 0.5", "--optimizer sgd --lr 3 --schedule cosine --ema 0.8", "--optimizer adam --lr 0.1"} {
		run := runJSON(t, "train --data visits.csv --label sick --classes no,yes --bounds "+strings.Join(bounds, ",")+" --model logistic --lot 50 --steps 30 --epsilon 1 --device cpu --out run "+flags)
		noise := run["linear"].(map[string]any)["noise"].(map[string]any)
		tensors, err := modelfile.ReadWeights("run/model.safetensors")
		if err != nil {
			t.Fatal(err)
		}
		squares := 0.0
		for _, w := range tensors {
			if len(w.Values) == 2*columns {
				for i := range columns {
					d := float64(w.Values[2*i+1]) - float64(w.Values[2*i])
					squares += d * d / columns
				}
			}
		}
		if measured, stated := math.Sqrt(squares), noise["all"].(float64); !(math.Abs(stated/measured-1) < 0.2) {
			t.Errorf("%s: run.json states a deviation of %v, and the weights have %v", flags, stated, measured)
		}
		if err := os.RemoveAll("run"); err != nil {
			t.Fatal(err)
		}
	}
}

// Of many classes eval lists the most frequent mistakes.
func TestWriteConfusion_ManyClasses(t *testing.T) {
	confusion := make([][]int, 9)
	for i := range confusion {
		confusion[i] = make([]int, 9)
		confusion[i][(i+1)%9] = 10 * i
	}
	var b strings.Builder
	writeConfusion(&b, nil, confusion)
	if got := b.String(); !strings.HasPrefix(got, "mistakes\t80 examples of class 8 predicted as 0\n\t70 examples of class 7") || strings.Count(got, "\n") != 5 {
		t.Errorf("%q", got)
	}
}
