package cpu

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// ErrMemory is a lack of memory on the host: a smaller microbatch may fit.
var ErrMemory = errors.New("out of memory")

// fits refuses what is more than the host has at all, which Linux would grant, and
// end the process for when it is used.
func fits(bytes int) error {
	if has := hostMemory(); int64(bytes) > has {
		return fmt.Errorf("%w: %.1f GB are needed, and this host has %.1f GB", ErrMemory, float64(bytes)/1e9, float64(has)/1e9)
	}
	return nil
}

// untold stands for the memory of a host that does not tell: more than such ones have.
const untold = 1 << 42

// hostMemory is the host's memory and what it may swap, in bytes.
func hostMemory() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return untold
	}
	kib := int64(0)
	for line := range strings.Lines(string(text)) {
		var n int64
		for _, what := range []string{"MemTotal", "SwapTotal"} {
			if _, err := fmt.Sscanf(line, what+": %d kB", &n); err == nil {
				kib += n
			}
		}
	}
	if kib == 0 {
		return untold
	}
	return kib << 10
}
