package main

import (
	"fmt"
	"io"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/doctor"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/spf13/cobra"
)

func newDoctor(term *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Check what works on this host and what to install",
		Example: "  dptrain doctor", Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			findings := doctor.Check()
			ok := true
			for _, f := range findings {
				ok = ok && f.OK
			}
			return term.Print(map[string]any{"ok": ok, "findings": findings}, fmt.Sprint(ok), func(w io.Writer) {
				for _, f := range findings {
					status := "works"
					if !f.OK {
						status = "missing"
					}
					fmt.Fprintf(w, "%s\t%s\t%s\n", f.What, status, f.Detail)
					if f.Advice != "" {
						fmt.Fprintf(w, "\t\t%s\n", f.Advice)
					}
				}
			})
		},
	}
}
