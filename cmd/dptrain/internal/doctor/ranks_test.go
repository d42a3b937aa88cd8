package doctor

import "testing"

func TestCountHosts_CountsRanks(t *testing.T) {
	if got, want := countHosts([]string{"node-2", "node-1", "node-2"}), "node-2 (2), node-1 (1)"; got != want {
		t.Errorf("hosts %q, want %q", got, want)
	}
}
