package memory

import (
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

func left() Room { return leftUnder("/") }

// leftUnder reads the files that the kernel shows under a folder. Nothing but swap takes
// anonymous and shared memory, so that the room is what the others leave, in the host
// and in every control group that the process is in.
func leftUnder(root string) Room {
	host := counts(filepath.Join(root, "proc/meminfo"))
	if host["MemTotal:"] == 0 {
		return Room{}
	}
	swap := host["SwapFree:"] << 10
	r := Room{(host["MemTotal:"]-host["Hugetlb:"]-host["AnonPages:"]-host["Shmem:"])<<10 + swap, "this host"}
	if most := addresses(filepath.Join(root, "proc/self/limits")); most < unlimited {
		r = least(r, Room{most - counts(filepath.Join(root, "proc/self/status"))["VmSize:"]<<10, "this process (ulimit -v)"})
	}
	groups, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // number:controllers:path
		mount, leaves := "sys/fs/cgroup", leftIn
		switch {
		case len(fields) < 3:
			continue
		case fields[1] == "memory":
			mount, leaves = "sys/fs/cgroup/memory", leftInFirst
		case fields[1] != "":
			continue
		}
		// A container sees its own group as the root, and may see the path from the host's.
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			r = least(r, Room{leaves(filepath.Join(root, mount, group), swap), "control group " + group})
			if group == "/" {
				break
			}
		}
	}
	r.Bytes = max(0, r.Bytes)
	return r
}

// least is the smaller of two, and the first of equal ones.
func least(r, other Room) Room {
	if other.Bytes < r.Bytes {
		return other
	}
	return r
}

// addresses is how many bytes of addresses a process may have.
func addresses(limits string) int64 {
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

// unlimited is more than any memory.
const unlimited = math.MaxInt64 / 4

// leftIn is what a group of version 2 leaves, of memory and the host's free swap.
func leftIn(folder string, swap int64) int64 {
	in := func(name string) string { return filepath.Join(folder, name) }
	use := counts(in("memory.stat"))
	swap = min(swap, max(0, number(in("memory.swap.max"), unlimited)-number(in("memory.swap.current"), 0)))
	return number(in("memory.max"), unlimited) - use["anon"] - use["shmem"] + swap
}

// leftInFirst is leftIn of version 1, which may limit memory and swap together.
func leftInFirst(folder string, swap int64) int64 {
	in := func(name string) string { return filepath.Join(folder, name) }
	use := counts(in("memory.stat"))
	return min(number(in("memory.limit_in_bytes"), unlimited)+swap,
		number(in("memory.memsw.limit_in_bytes"), unlimited)-use["total_swap"]) - use["total_rss"] - use["total_shmem"]
}

// counts reads lines of a name and a number.
func counts(file string) map[string]int64 {
	text, _ := os.ReadFile(file)
	c := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 {
			c[fields[0]], _ = strconv.ParseInt(fields[1], 10, 64)
		}
	}
	return c
}

// number reads a file of one number; of another, as "max" is, and of one that is not
// there, it is what is said.
func number(file string, otherwise int64) int64 {
	text, _ := os.ReadFile(file)
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return otherwise
	}
	return min(n, unlimited)
}
