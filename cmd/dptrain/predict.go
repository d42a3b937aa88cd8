package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/spf13/cobra"
)

// prediction is what predict answers.
type prediction struct {
	Examples int      `json:"examples"`
	Out      string   `json:"out"`
	Format   string   `json:"format"`
	Columns  []string `json:"columns"`
	Data     string   `json:"data"`
	Model    string   `json:"model"`
}

// asked is what predict is asked for, and of which data.
type asked struct {
	settings // where data, answers and programs are
	format   string
	scores   bool
}

func newPredict(s *screen) *cobra.Command {
	set := &asked{}
	cmd := &cobra.Command{
		Use:   "predict DIR",
		Short: "Answer by a trained model for new examples",
		Long: `Answer by the model in a run's folder for examples that need no labels: one line an
example, in the order of the file, with the most probable class and its probability, or
with the number that a model of train --target predicts, in its own units.

--data is a CSV or JSONL file with the columns that the model was trained on, in any
order, and with others, which are not read, a label's among them; plain text, an
example a line that is not blank; a NumPy array (.npy), or x, x_test or x_train of
several (.npz or a folder); a picture, or a folder or .zip of pictures, whose names
then begin the lines; or a data set that dptrain data lists, of which the test part
is taken. All is read as it was for training: by the bounds, words and length that
the run's folder says.

Nothing of the training data is read, and answers cost no privacy: each is a function
of the released weights, which the run's ε covers however often they are asked, and of
the features of one example, which whoever asks has brought; so it is where that is a
training record, too. A model of train --non-private has no ε, and its answers may give
its records away. Answers tell of the examples asked about: treat them as those.`,
		Example: `  dptrain predict runs/mine --data new.csv
  dptrain predict runs/mine --data new.jsonl --scores --out answers.jsonl
  dptrain predict runs/pictures --data folder --out answers.csv --device cuda:0
  dptrain predict runs/first --data digits --quiet | head`,
		Args: takesFolder("predict runs/mine --data new.csv"),
		RunE: func(_ *cobra.Command, args []string) error {
			return s.predict(args[0], set)
		},
	}
	f := cmd.Flags()
	f.StringVar(&set.data, "data", "", "the examples: a file, a folder, or a data set by its name")
	f.StringVar(&set.dataDir, "data-dir", "", "where a named data set's files lie")
	f.StringVar(&set.out, "out", "", "the file to write (default: standard output)")
	f.StringVar(&set.format, "format", "", list(sheetFormats)+" (default: jsonl where --out ends so, else csv)")
	f.BoolVar(&set.scores, "scores", false, "add the probability of every class to each line")
	complete(cmd, "format", sheetFormats)
	set.placeFlags(cmd)
	return cmd
}

func (s *screen) predict(dir string, set *asked) error {
	if err := set.settle(s.json); err != nil {
		return err
	}
	b, build, err := trained(dir)
	if err != nil {
		return err
	}
	reply, err := b.reply(set.scores)
	if err != nil {
		return wrong("%s: %w", dir, err)
	}
	if set.out != "" {
		if err := checkOut(set.out, dir, set.data); err != nil {
			return err
		}
	}
	options := data.Options{Dir: set.dataDir, Standardize: b.Standardize, Schema: b.Schema}
	questions, err := patiently(s, "Reading "+set.data, func() (data.Questions, error) {
		return data.OpenQuestions(set.data, options, data.Lesson{Name: b.Data, Shape: b.Shape, Elements: b.Elements})
	})
	if err != nil {
		return asWrong(err)
	}
	e, err := engine.NewEvaluator(build, set.place())
	if err != nil {
		return asWrong(err)
	}
	defer e.Close()
	if err := e.Ready(e.Weights()); err != nil {
		return asFailed(err)
	}
	columns := reply.columns
	if questions.Files != nil {
		columns = slices.Insert(slices.Clone(columns), 0, "file")
	}
	write := func(w io.Writer) error {
		return s.answer(e, questions, reply, newSheet(w, set.format, columns), set.out)
	}
	if set.out == "" {
		return asFailed(write(s.out))
	}
	var told *fault
	switch err := replaceBy(set.out, write); {
	case errors.As(err, &told): // of the answers, and not of the file
		return err
	case errors.Is(err, fs.ErrNotExist):
		return wrong("--out %s: %w", set.out, err)
	case err != nil:
		return asFailed(fmt.Errorf("--out %s: %w", set.out, err))
	}
	answer := prediction{questions.Len(), set.out, set.format, columns, set.data, b.Model}
	return s.show(answer, set.out, func(w io.Writer) {
		fmt.Fprintf(w, "model\t%s\nexamples\t%d\nfile\t%s\n", b.Model, questions.Len(), set.out)
	})
}

// settle checks what was asked for, and fills in what was left out.
func (a *asked) settle(json bool) error {
	if a.data == "" {
		return wrong("--data is missing: name the new examples, as in --data new.csv")
	}
	if json && a.out == "" {
		return wrong("--out is missing: --json leaves no room for answers on standard output; name a file for them, as in --out answers.csv")
	}
	if a.format == "" {
		a.format = sheetFormats[0]
		if strings.HasSuffix(strings.ToLower(a.out), ".jsonl") {
			a.format = "jsonl"
		}
	}
	return oneOf("format", a.format, sheetFormats)
}

// answer writes a line for each of the questions.
func (s *screen) answer(e *engine.Evaluator, q data.Questions, reply reply, lines *sheet, out string) error {
	ctx, stop := untilInterrupted()
	defer stop()
	pace := s.pace(q.Len(), out != "")
	defer pace.bar.hide()
	var cells []any
	err := e.Answer(e.Weights(), q.Set, func(i int, output []float32) error {
		if errors.Is(ctx.Err(), context.Canceled) {
			return interruptedAt(i, q.Len(), out)
		}
		if cells = cells[:0]; q.Files != nil {
			cells = append(cells, q.Files[i])
		}
		var err error
		if cells, err = reply.of(cells, output); err != nil {
			return wrong("example %d, counted from 0: %w", i, err)
		}
		if err = errors.Join(lines.write(cells), pace.show(i+1)); err != nil {
			err = &fault{exitFailed, err}
		}
		return err
	})
	if err != nil {
		return asWrong(err)
	}
	return lines.flush()
}

func interruptedAt(done, all int, out string) error {
	written := "the lines written are not all"
	if out != "" {
		written = out + " was not written"
	}
	return &fault{exitInterrupted, fmt.Errorf("interrupted after %d of %d examples: %s", done, all, written)}
}

// pace tells how far a long answer has come.
type pace struct {
	screen      *screen
	bar         *bar // nil where there is no terminal, or answers go to it
	all         int
	began, told time.Time
}

// pace begins one; beside says whether the terminal is free for it.
func (s *screen) pace(all int, beside bool) *pace {
	p := &pace{screen: s, all: all, began: time.Now(), told: time.Now()}
	if _, shared := terminal(s.out); beside || !shared {
		p.bar = s.bar(all)
	}
	return p
}

// show is a bar's, or a line at a tenth where nothing was seen for long.
func (p *pace) show(done int) error {
	if p.bar == nil && done%max(1, p.all/10) == 0 && done < p.all && time.Since(p.told) >= patience {
		p.told = time.Now()
		p.screen.note("example %d/%d, %s", done, p.all, strings.Join(p.words(done), ", "))
	}
	return p.bar.show(done, func() []string { return p.words(done) })
}

// words are the time left and the speed.
func (p *pace) words(done int) []string {
	took := time.Since(p.began)
	return []string{timeLeft(took, done, p.all-done), speed(float64(done) / took.Seconds())}
}

// reply turns what a network answers to an example into the cells of a line: texts and
// float32s.
type reply struct {
	columns []string
	of      func(cells []any, output []float32) ([]any, error)
}

var errNotFinite = errors.New("what the model answers is not finite: the example has numbers far beyond those that it was trained on, or its training diverged")

// reply is the model's: a class, or a number.
func (b built) reply(scores bool) (reply, error) {
	if b.Targets > 0 {
		return b.number(scores)
	}
	if b.Schema.Next || len(b.Labels) > 0 {
		return reply{}, errors.New("the model answers every step of an example, as one of the language does, and predict writes one answer an example; dptrain export DIR --format onnx writes it for programs that want all of them")
	}
	names := b.ClassNames
	if len(names) != b.Classes {
		names = make([]string, b.Classes)
		for i := range names {
			names[i] = strconv.Itoa(i)
		}
	}
	columns := []string{"class", "probability"}
	if scores {
		for _, name := range names {
			columns = append(columns, "probability:"+name)
		}
	}
	shares := make([]float64, len(names))
	return reply{columns, func(cells []any, output []float32) ([]any, error) {
		best, err := softmax(shares, output)
		if err != nil {
			return nil, err
		}
		cells = append(cells, names[best], float32(shares[best]))
		if scores {
			for _, p := range shares {
				cells = append(cells, float32(p))
			}
		}
		return cells, nil
	}}, nil
}

// number is the reply of a model that predicts one, in its own units.
func (b built) number(scores bool) (reply, error) {
	name := b.Schema.Target
	bounds, bounded := b.Schema.Bounds[name]
	switch {
	case scores:
		return reply{}, errors.New("the model predicts a number, which has no probability: leave out --scores")
	case b.Targets != 1 || !bounded:
		return reply{}, fmt.Errorf("model.json tells of %d numbers to predict and bounds of none of them", b.Targets)
	}
	return reply{[]string{name}, func(cells []any, output []float32) ([]any, error) {
		if len(output) != 1 {
			return nil, fmt.Errorf("the model answers with %d numbers, and one is predicted", len(output))
		}
		v := float32(bounds.Value(float64(output[0])))
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, errNotFinite
		}
		return append(cells, v), nil
	}}, nil
}

// softmax gives each class its probability, and the first of the most probable ones.
func softmax(shares []float64, scores []float32) (best int, err error) {
	if len(scores) != len(shares) {
		return 0, fmt.Errorf("the model answers with %d scores, and has %d classes", len(scores), len(shares))
	}
	for i, v := range scores {
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return 0, errNotFinite
		}
		if v > scores[best] {
			best = i
		}
	}
	sum := 0.0
	for i, v := range scores {
		shares[i] = math.Exp(float64(v) - float64(scores[best]))
		sum += shares[i]
	}
	for i := range shares {
		shares[i] /= sum
	}
	return best, nil
}
