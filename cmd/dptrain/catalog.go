package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/models"
	"github.com/spf13/cobra"
)

// catalog is a command that lists what can be named elsewhere. tell gives an entry's
// name, what it is as JSON, and what people read of it.
func catalog[T any](term *terminal.Terminal, use, short, example string, known []T, tell func(T) (name string, row any, text string)) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Example: "  " + example, Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			var names, texts []string
			var rows []any
			for _, k := range known {
				name, row, text := tell(k)
				names, rows, texts = append(names, name), append(rows, row), append(texts, text)
			}
			return term.Print(map[string]any{use: rows}, strings.Join(names, "\n"), func(w io.Writer) {
				io.WriteString(w, strings.Join(texts, ""))
			})
		},
	}
}

func newData(term *terminal.Terminal) *cobra.Command {
	type row struct {
		Name  string `json:"name"`
		What  string `json:"what"`
		Looks string `json:"looks"`
	}
	return catalog(term, "data", "List the data that can be read, and where it is looked for", "dptrain train --data mnist --data-dir ~/mnist", data.Supported(), func(d data.Description) (string, any, string) {
		return d.Name, row{d.Name, d.Summary, d.Source}, fmt.Sprintf("%s\t%s\n\t%s\n", d.Name, d.Summary, d.Source)
	})
}

func newModels(term *terminal.Terminal) *cobra.Command {
	type row struct {
		Name  string `json:"name"`
		Args  string `json:"args"`
		About string `json:"about"`
	}
	return catalog(term, "models", "List the networks that can be trained by name", "dptrain train --model mlp:64,32,act=tanh", models.Supported(), func(m models.Description) (string, any, string) {
		spec := m.Name
		if m.Args != "" {
			spec += ":" + m.Args
		}
		return m.Name, row{m.Name, m.Args, m.Summary}, fmt.Sprintf("%s\t%s\n", spec, m.Summary)
	})
}

func newPresets(term *terminal.Terminal) *cobra.Command {
	type row struct {
		Name   string            `json:"name"`
		About  string            `json:"about"`
		Source string            `json:"source"`
		Result string            `json:"result"`
		Flags  map[string]string `json:"flags"`
	}
	return catalog(term, "presets", "List the published runs that can be repeated", "dptrain train --preset tfp-mnist --data-dir ~/mnist", models.Presets(), func(p models.Preset) (string, any, string) {
		flags := map[string]string{}
		for _, f := range p.Flags {
			flags[f.Name] = f.Value
		}
		return p.Name, row{p.Name, p.Summary, p.Source, p.Result, flags}, fmt.Sprintf("%s\t%s\n\tpublished: %s\n\t%s\n", p.Name, p.Summary, p.Result, p.Source)
	})
}
