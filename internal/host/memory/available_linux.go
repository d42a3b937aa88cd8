package memory

import (
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

func available() Headroom { return availableUnder("/") }

// availableUnder computes the headroom from the /proc and /sys files below root. Anonymous and
// shared memory can only be moved to swap, so the headroom is the total less their use. It is
// the smallest over the host, the address space limit and every control group of the process.
func availableUnder(root string) Headroom {
	host := readCounters(filepath.Join(root, "proc/meminfo"))
	if host["MemTotal:"] == 0 {
		return Headroom{}
	}
	swap := host["SwapFree:"] << 10
	r := Headroom{(host["MemTotal:"]-host["Hugetlb:"]-host["AnonPages:"]-host["Shmem:"])<<10 + swap, "this host"}
	if most := addressSpaceLimit(filepath.Join(root, "proc/self/limits")); most < unlimited {
		r = smaller(r, Headroom{most - readCounters(filepath.Join(root, "proc/self/status"))["VmSize:"]<<10, "this process (ulimit -v)"})
	}
	groups, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // number:controllers:path
		mount, leaves := "sys/fs/cgroup", availableInCgroupV2
		switch {
		case len(fields) < 3:
			continue
		case fields[1] == "memory":
			mount, leaves = "sys/fs/cgroup/memory", availableInCgroupV1
		case fields[1] != "":
			continue
		}
		// Inside a container, the own group is mounted as the root, but the path can be the host's.
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			r = smaller(r, Headroom{leaves(filepath.Join(root, mount, group), swap), "control group " + group})
			if group == "/" {
				break
			}
		}
	}
	r.Bytes = max(0, r.Bytes)
	return r
}

// smaller returns the smaller of two headrooms, and the first if they are equal.
func smaller(r, other Headroom) Headroom {
	if other.Bytes < r.Bytes {
		return other
	}
	return r
}

// addressSpaceLimit returns the soft limit of the address space (ulimit -v) in bytes.
func addressSpaceLimit(limits string) int64 {
	text, _ := os.ReadFile(limits)
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "Max address space"); found {
			if soft, err := strconv.ParseInt(strings.Fields(rest + " -")[0], 10, 64); err == nil {
				return soft
			}
		}
	}
	return unlimited
}

// unlimited is larger than any memory.
const unlimited = math.MaxInt64 / 4

// availableInCgroupV2 returns the headroom of a control group of version 2, with the swap it can use.
func availableInCgroupV2(folder string, swap int64) int64 {
	in := func(name string) string { return filepath.Join(folder, name) }
	use := readCounters(in("memory.stat"))
	swap = min(swap, max(0, readNumber(in("memory.swap.max"), unlimited)-readNumber(in("memory.swap.current"), 0)))
	return readNumber(in("memory.max"), unlimited) - use["anon"] - use["shmem"] + swap
}

// availableInCgroupV1 is leftIn of version 1, which may limit memory and swap together.
func availableInCgroupV1(folder string, swap int64) int64 {
	in := func(name string) string { return filepath.Join(folder, name) }
	use := readCounters(in("memory.stat"))
	return min(readNumber(in("memory.limit_in_bytes"), unlimited)+swap,
		readNumber(in("memory.memsw.limit_in_bytes"), unlimited)-use["total_swap"]) - use["total_rss"] - use["total_shmem"]
}

// readCounters reads a file whose lines are a name and a number.
func readCounters(file string) map[string]int64 {
	text, _ := os.ReadFile(file)
	c := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 {
			c[fields[0]], _ = strconv.ParseInt(fields[1], 10, 64)
		}
	}
	return c
}

// readNumber reads a file that contains one number. It returns the fallback if the file is
// missing or contains something else, such as "max".
func readNumber(file string, fallback int64) int64 {
	text, _ := os.ReadFile(file)
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return fallback
	}
	return min(n, unlimited)
}
