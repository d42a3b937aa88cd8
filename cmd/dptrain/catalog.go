package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/cuda"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/models"
	"github.com/spf13/cobra"
)

// newCatalog returns a command that lists names that other commands accept. describe returns
// the name, the JSON object and the text of an entry.
func newCatalog[T any](term *terminal.Terminal, use, short, example string, entries []T,
	describe func(T) (name string, row any, text string)) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Example: "  " + example, Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			var names, texts []string
			var rows []any
			for _, entry := range entries {
				name, row, text := describe(entry)
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
	return newCatalog(term, "data", "List the data sets and file types, and where dptrain looks for them", "dptrain train --data mnist --data-dir ~/mnist", data.Supported(), func(d data.Description) (string, any, string) {
		source := d.Source.Naming(settings.AsFlag)
		return d.Name, row{d.Name, d.Summary, source}, fmt.Sprintf("%s\t%s\n\t%s\n", d.Name, d.Summary, source)
	})
}

func newModels(term *terminal.Terminal) *cobra.Command {
	type row struct {
		Name  string `json:"name"`
		Args  string `json:"args"`
		About string `json:"about"`
	}
	return newCatalog(term, "models", "List the networks for --model", "dptrain train --model mlp:64,32,act=tanh", models.Supported(), func(m models.Description) (string, any, string) {
		spec := m.Name
		if m.Args != "" {
			spec += ":" + m.Args
		}
		return m.Name, row{m.Name, m.Args, m.Summary}, fmt.Sprintf("%s\t%s\n", spec, m.Summary)
	})
}

// presetResult is the JSON object of a result of a preset.
type presetResult struct {
	Accuracy   string  `json:"accuracy"`
	Epsilon    float64 `json:"epsilon"`
	Delta      float64 `json:"delta"`
	Accountant string  `json:"accountant"`
	ByPLD      float64 `json:"epsilon_pld,omitempty"`
	Remark     string  `json:"remark,omitempty"`
}

// describe writes a result as a line of text.
func (r presetResult) describe() string {
	text := fmt.Sprintf("%s at ε = %s, δ = 1e-5 (%s", r.Accuracy, number.RoundUp(r.Epsilon), r.Accountant)
	if r.ByPLD > 0 {
		text += "; pld: " + number.RoundUp(r.ByPLD)
	}
	if text += ")"; r.Remark != "" {
		text += ", " + r.Remark
	}
	return text
}

func newPresets(term *terminal.Terminal) *cobra.Command {
	type row struct {
		Name      string         `json:"name"`
		About     string         `json:"about"`
		Source    string         `json:"source"`
		Result    string         `json:"result"`
		Published presetResult   `json:"published"`
		Reached   presetResult   `json:"reached"`
		Flags     map[string]any `json:"flags"` // a string, or a list for a flag that is repeated
	}
	return newCatalog(term, "presets", "List the presets: settings of published runs, the published results, and what they reach here", "dptrain train --preset tfp-mnist --data-dir ~/mnist", models.Presets(), func(p models.Preset) (string, any, string) {
		flags := map[string]any{}
		for _, f := range p.Flags {
			switch earlier := flags[f.Name].(type) {
			case nil:
				flags[f.Name] = f.Value
			case string:
				flags[f.Name] = []string{earlier, f.Value}
			case []string:
				flags[f.Name] = append(earlier, f.Value)
			}
		}
		published := presetResult{p.Published.Accuracy, p.Published.Epsilon, 1e-5, p.Published.Accountant, 0, p.Published.Remark}
		reached := presetResult{p.Reached.Accuracy, p.Reached.Epsilon, 1e-5, p.Reached.Accountant, p.ByPLD, p.Reached.Remark}
		return p.Name, row{p.Name, p.Summary, p.Source, published.describe(), published, reached, flags},
			fmt.Sprintf("%s\t%s\n\tpublished: %s\n\there: %s\n\t%s\n", p.Name, p.Summary, published.describe(), reached.describe(), p.Source)
	})
}

// newDevices lists the devices. It does not load the GPU driver before the command runs.
func newDevices(term *terminal.Terminal) *cobra.Command {
	type row struct {
		Name  string `json:"name"`
		About string `json:"about"`
	}
	return &cobra.Command{
		Use: "devices", Short: "List the devices of this build and host",
		Example: "  dptrain train --device cpu", Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			devices, reason := engine.Devices()
			var rows []row
			var names []string
			for _, d := range devices {
				rows, names = append(rows, row{d.Name, d.Description}), append(names, d.Name)
			}
			overrides, err := cuda.Overrides()
			if err != nil {
				return exitcode.AsUsage(err)
			}
			value := map[string]any{"devices": rows}
			if len(overrides) > 0 {
				value["overrides"] = overrides
			}
			if reason != nil {
				value["no_gpu"] = settings.Describe(reason)
			}
			return term.Print(value, strings.Join(names, "\n"), func(w io.Writer) {
				for _, r := range rows {
					fmt.Fprintf(w, "%s\t%s\n", r.Name, r.About)
				}
				if reason != nil {
					fmt.Fprintf(w, "no GPU\t%s\n", settings.Describe(reason))
				}
				for _, o := range overrides {
					fmt.Fprintf(w, "cuda\t%s\n", o)
				}
			})
		},
	}
}
