package main

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	mathrand "math/rand/v2"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/modelfile"
	"github.com/dptrain/dptrain/internal/tokenizer"
	"github.com/dptrain/dptrain/models"
	"github.com/dptrain/dptrain/models/pretrained"
	"github.com/spf13/cobra"
)

// generateFlags are the flags of generate.
type generateFlags struct {
	prompt, stop      string
	length, number    int
	temperature, topP float64
	seed              uint64

	count       int // of synthetic records
	format, out string
}

func newGenerate(term *terminal.Terminal) *cobra.Command {
	set := &generateFlags{}
	cmd := &cobra.Command{
		Use:   "generate DIR",
		Short: "Write texts with a language model that was trained with --next",
		Long: `Write texts with the decoder of a run, which train --model hf:DIR --next fine-tuned. A text ends
at the id that ends texts in training, after --length ids, or in front of --stop.

Texts cost no additional privacy, however many are written: they are a function of the released
weights, which the run's ε covers. A model of train --non-private has no ε, and its texts may
contain its training records.

With --count the run was trained with --text '*' on the rows of a table, and each text is read as a
row. A row that does not have the form of the training texts, or that has a number or a date
outside the bounds or a word outside the vocabulary, is dropped; the number of these is printed.`,
		Example: `  dptrain generate runs/speakers --prompt "ROMEO:"
  dptrain generate runs/speakers --number 100 --temperature 0.8 --top-p 0.95 --json
  dptrain generate runs/people --count 1000 --format jsonl --out synthetic.jsonl`,
		Args: oneRunDir("generate runs/speakers"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return set.run(term, args[0], cmd.Flags().Changed)
		},
	}
	f := cmd.Flags()
	f.StringVar(&set.prompt, "prompt", "", "how each text begins")
	f.IntVar(&set.length, "length", 100, "the largest number of ids behind the prompt")
	f.IntVar(&set.number, "number", 1, "how many texts")
	f.Float64Var(&set.temperature, "temperature", 1, "divides the logits: 0 takes the most probable id, and large numbers give surprising texts")
	f.Float64Var(&set.topP, "top-p", 1, "draw from the most probable ids that have this probability together (Holtzman et al. 2020)")
	f.StringVar(&set.stop, "stop", "", "end a text in front of this one")
	f.IntVar(&set.count, "count", 0, "write this number of synthetic records, for a run on the rows of a table")
	f.StringVar(&set.format, "format", "csv", "with --count: csv or jsonl")
	f.StringVar(&set.out, "out", "", "with --count: the file to write (default: standard output)")
	f.Uint64Var(&set.seed, "seed", 0, "write the same texts again (default: a random seed)")
	return cmd
}

func (f *generateFlags) run(term *terminal.Terminal, dir string, given func(flag string) bool) error {
	switch {
	case given("count"):
		if err := f.checkRecords(given); err != nil {
			return err
		}
	case given("format") || given("out"):
		return exitcode.Usagef("--format and --out are for the records of --count N; add it, or drop them")
	}
	switch {
	case f.length < 1 || f.number < 1:
		return exitcode.Usagef("--length %d, --number %d: both need at least 1", f.length, f.number)
	case !(f.temperature >= 0) || math.IsInf(f.temperature, 1):
		return exitcode.Usagef("--temperature %v: give 0 or a positive number", f.temperature)
	case !(f.topP > 0 && f.topP <= 1):
		return exitcode.Usagef("--top-p %v: give a number above 0 and at most 1", f.topP)
	}
	if !given("seed") {
		var seed [8]byte
		rand.Read(seed[:])
		f.seed = binary.LittleEndian.Uint64(seed[:])
	}
	w, err := newWriter(dir)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	r := mathrand.New(mathrand.NewPCG(f.seed, 0))
	if given("count") {
		if !given("length") {
			f.length = w.schema.Length
		}
		return f.writeRecords(term, w, r)
	}
	texts := []string{}
	for range f.number {
		text, err := w.write(f, r)
		if err != nil {
			return exitcode.AsUsage(err)
		}
		if texts = append(texts, text); !term.JSON {
			fmt.Fprintln(term.Out, text)
		}
	}
	if !term.JSON {
		return nil
	}
	return term.Print(map[string]any{"texts": texts, "seed": f.seed}, "", func(io.Writer) {})
}

// writer writes texts with a generator.
type writer struct {
	generator *pretrained.Generator
	tokenizer *tokenizer.Tokenizer
	pieces    []string
	end       int
	begin     []int32 // what each text begins with
	schema    data.Schema
	drawer    idDrawer
}

func newWriter(dir string) (*writer, error) {
	file, err := modelfile.Read(dir)
	if err != nil {
		return nil, err
	}
	checkpoint, err := models.Pretrained(file.Model)
	if err != nil {
		return nil, err
	}
	public := file.Schema.Tokenizer
	if checkpoint == nil || public == nil || public.End == nil {
		return nil, fmt.Errorf("%s is not a language model of train --model hf:DIR --next: its network is %s; only those write texts", dir, file.Model)
	}
	net, err := file.Build(1)
	if err != nil {
		return nil, err
	}
	w := &writer{end: *public.End, schema: file.Schema}
	if w.generator, err = checkpoint.Generator(net); err != nil {
		return nil, err
	}
	if w.tokenizer, err = tokenizer.Read(public.File); err != nil {
		return nil, err
	}
	if w.begin = w.tokenizer.Encode(nil, "", 0); len(w.begin) == 0 {
		w.begin = []int32{int32(w.end)}
	}
	w.pieces, err = w.tokenizer.Pieces()
	return w, err
}

// write returns one text, with the prompt.
func (w *writer) write(f *generateFlags, r *mathrand.Rand) (string, error) {
	ids := w.begin
	if prompt := w.tokenizer.Encode(nil, f.prompt, 0); f.prompt != "" {
		if !slices.Equal(w.begin, prompt[:min(len(w.begin), len(prompt))]) {
			prompt = append(slices.Clip(w.begin), prompt...)
		}
		ids = prompt
	}
	if most := w.generator.MaxSteps(); len(ids) >= most {
		return "", fmt.Errorf("--prompt has %d ids, and the checkpoint reads at most %d; shorten it", len(ids), most)
	}
	w.generator.Reset()
	var logits []float32
	var err error
	for _, id := range ids {
		if logits, err = w.generator.Next(int(id)); err != nil {
			return "", err
		}
	}
	text := []byte{}
	for range f.length {
		id := w.drawer.draw(logits[:min(len(logits), len(w.pieces))], f.temperature, f.topP, r)
		if id == w.end {
			break
		}
		text = append(text, w.pieces[id]...)
		if at := strings.Index(string(text), f.stop); f.stop != "" && at >= 0 {
			text = text[:at]
			break
		}
		if w.generator.Steps() == w.generator.MaxSteps() {
			break
		}
		if logits, err = w.generator.Next(id); err != nil {
			return "", err
		}
	}
	return f.prompt + strings.ToValidUTF8(string(text), "\ufffd"), nil
}
