package main

import (
	"fmt"
	"io"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/doctor"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/internal/ranks"
	"github.com/spf13/cobra"
)

func newDoctor(term *terminal.Terminal) *cobra.Command {
	var library string
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check what works on this host and what to install",
		Example: `  dptrain doctor
  mpirun -n 4 dptrain doctor --mpi`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if library == anyLibrary {
				library = ""
			}
			launch, err := ranks.Launched()
			if err != nil {
				return exitcode.AsUsage(err)
			}
			var findings []doctor.Finding
			if cmd.Flags().Changed("mpi") && launch.Size > 1 {
				rank, finding, err := doctor.CheckRanks(library)
				if err != nil {
					return exitcode.AsUsage(err)
				}
				if rank > 0 {
					return nil // rank 0 prints
				}
				findings = append(findings, finding)
			}
			return printHostFindings(term, append(doctor.Check(library), findings...))
		},
	}
	cmd.Flags().StringVar(&library, "mpi", "", "connect the ranks that mpirun started, and show their library, its binary interface, their number and their speed; =FILE names the library")
	cmd.Flags().Lookup("mpi").NoOptDefVal = anyLibrary
	return cmd
}

// anyLibrary is the value of --mpi alone.
const anyLibrary = "found"

func printHostFindings(term *terminal.Terminal, findings []doctor.Finding) error {
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
}
