package memory

import (
	"runtime"
	"testing"
)

// A weak slice has the numbers as long as another slice has them, also if they are aligned to huge pages.
func TestWeakSlice_LeavesMemory(t *testing.T) {
	for _, n := range []int{1, 1000, 3 << 20} {
		s := Zeros[float32](n)
		s[n-1] = 7
		w := WeakTo(s)
		runtime.GC()
		if got := w.Values(); len(got) != n || &got[0] != &s[0] || got[n-1] != 7 {
			t.Errorf("%d numbers: %d are left", n, len(got))
		}
		runtime.KeepAlive(s)
		s = nil
		runtime.GC()
		if n > 1 && w.Values() != nil { // the runtime joins numbers of a few bytes
			t.Errorf("%d numbers are still in memory", n)
		}
	}
	if (WeakSlice[float32]{}).Values() != nil || WeakTo[float32](nil).Values() != nil {
		t.Error("there are numbers in no slice")
	}
}
