package doctor

import "testing"

func TestHostsOf_CountsRanks(t *testing.T) {
	names := make([]byte, 3*hostBytes)
	for i, host := range []string{"node-2", "node-1", "node-2"} {
		copy(names[i*hostBytes:], host)
	}
	if got, want := hostsOf(names), "node-2 (2), node-1 (1)"; got != want {
		t.Errorf("hosts %q, want %q", got, want)
	}
}
