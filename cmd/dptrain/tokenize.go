package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/internal/tokenizer"
	"github.com/dptrain/dptrain/models/pretrained"
	"github.com/spf13/cobra"
)

// tokenizeFlags are the flags of tokenize.
type tokenizeFlags struct {
	model  string
	length int
}

func newTokenize(term *terminal.Terminal) *cobra.Command {
	set := &tokenizeFlags{}
	cmd := &cobra.Command{
		Use:   "tokenize FILE",
		Short: "Print the ids that a public language model reads of a text",
		Long: `Print the ids of each line of a file, with special tokens: those of the tokenizer.json of a
checkpoint, as train --model hf:DIR --text reads texts. - is standard input. With --json the
output is an object with a list of ids for each line.`,
		Example: `  dptrain tokenize --model hf:minilm notes.txt
  echo "a fine film" | dptrain tokenize --model hf:minilm --length 16 -`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return set.run(term, args[0]) },
	}
	cmd.Flags().StringVar(&set.model, "model", "", "hf:DIR, the folder of the checkpoint, or hf:FILE.gguf")
	cmd.Flags().IntVar(&set.length, "length", 0, "cut the ids of a line to this number (default: no limit)")
	return cmd
}

func (f *tokenizeFlags) run(term *terminal.Terminal, path string) error {
	dir, is := strings.CutPrefix(f.model, "hf:")
	switch {
	case !is || dir == "":
		return exitcode.Usagef("--model %q: give hf:DIR, the folder of a checkpoint with tokenizer.json", f.model)
	case f.length < 0:
		return exitcode.Usagef("--length %d: give a number of ids, or 0 for no limit", f.length)
	}
	t, err := tokenizer.Read(pretrained.TokenizerFile(dir))
	if err != nil {
		return exitcode.Usagef("--model %s: %w", f.model, err)
	}
	in := io.Reader(os.Stdin)
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return exitcode.AsUsage(err)
		}
		defer file.Close()
		in = file
	}
	lines := [][]int32{}
	var text []string
	for reader := bufio.NewReader(in); ; {
		line, err := reader.ReadString('\n')
		if line != "" {
			ids := t.Encode([]int32{}, strings.TrimRight(line, "\r\n"), f.length)
			lines, text = append(lines, ids), append(text, strings.Trim(fmt.Sprint(ids), "[]"))
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return exitcode.AsUsage(err)
		}
	}
	return term.Print(map[string]any{"ids": lines}, strings.Join(text, "\n"), func(w io.Writer) {
		for _, line := range text {
			fmt.Fprintln(w, line)
		}
	})
}
