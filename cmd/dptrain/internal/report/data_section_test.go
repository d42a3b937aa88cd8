package report

import (
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
)

// The folders of a path may identify people. They are left out for the paths of each system, on each system.
func TestDataName_LeavesOutFolders(t *testing.T) {
	for name, want := range map[string]string{
		"digits": "digits", "/home/ann/visits.csv": "visits.csv", "../ann/visits": "visits", "visits/": "visits", "/": "unnamed data", ".": "unnamed data",
		`C:\Users\ann\visits.csv`: "visits.csv", `C:/Users/ann\visits.csv`: "visits.csv", `\\server\ann\visits.csv`: "visits.csv", `ann\visits\`: "visits",
		`C:visits.csv`: "C:visits.csv",
	} {
		s := &summary{Summary: rundir.Summary{Data: name}}
		if got := s.dataName(); got != want {
			t.Errorf("%s is called %s, want %s", name, got, want)
		}
	}
}
