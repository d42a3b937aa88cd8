package memory

import (
	"os"
	"path/filepath"
	"testing"
)

const (
	meminfo = "MemTotal: 8000 kB\nMemFree: 10 kB\nAnonPages: 2000 kB\nShmem: 500 kB\nSwapTotal: 900 kB\nSwapFree: 300 kB\nHugetlb: 1000 kB\n"
	free    = (8000 - 1000 - 2000 - 500 + 300) << 10
	swap    = 300 << 10
)

// Each case is the files of a host, and the room that they tell.
func TestLeftUnder(t *testing.T) {
	type files map[string]string
	for name, c := range map[string]struct {
		files files
		want  Room
	}{
		"nothing tells":        {files{}, Room{}},
		"a table that is none": {files{"proc/meminfo": "no such thing\n"}, Room{}},
		"no limit":             {files{"proc/meminfo": meminfo}, Room{free, "this host"}},
		"overdrawn":            {files{"proc/meminfo": "MemTotal: 8 kB\nAnonPages: 9 kB\n"}, Room{0, "this host"}},
		"a limit of addresses": {files{
			"proc/meminfo":     meminfo,
			"proc/self/limits": "Limit                     Soft Limit           Hard Limit           Units\nMax address space         2000000              unlimited            bytes\n",
			"proc/self/status": "Name: dptrain\nVmSize:\t     500 kB\nVmLck:\t 0 kB\n",
		}, Room{2000000 - 500<<10, "this process (ulimit -v)"}},
		"no limit of addresses": {files{
			"proc/meminfo":     meminfo,
			"proc/self/limits": "Max address space         unlimited            unlimited            bytes\n",
			"proc/self/status": "VmSize: 500 kB\n",
		}, Room{free, "this host"}},
		"version 2, no limit": {files{
			"proc/meminfo":                  meminfo,
			"proc/self/cgroup":              "0::/job\n",
			"sys/fs/cgroup/job/memory.max":  "max\n",
			"sys/fs/cgroup/job/memory.stat": "anon 1000\nshmem 200\n",
		}, Room{free, "this host"}},
		"version 2, its cache counts as free, and the host's swap": {files{
			"proc/meminfo":                     meminfo,
			"proc/self/cgroup":                 "0::/job\n",
			"sys/fs/cgroup/job/memory.max":     "1000000\n",
			"sys/fs/cgroup/job/memory.current": "999000\n",
			"sys/fs/cgroup/job/memory.stat":    "anon 1000\nfile 900000\nshmem 200\ninactive_file 800000\n",
		}, Room{1000000 - 1200 + swap, "control group /job"}},
		"version 2, swap of its own": {files{
			"proc/meminfo":                          meminfo,
			"proc/self/cgroup":                      "0::/job\n",
			"sys/fs/cgroup/job/memory.max":          "1000000\n",
			"sys/fs/cgroup/job/memory.swap.max":     "5000\n",
			"sys/fs/cgroup/job/memory.swap.current": "2000\n",
			"sys/fs/cgroup/job/memory.stat":         "anon 1000\nshmem 0\n",
		}, Room{1000000 - 1000 + 3000, "control group /job"}},
		"version 2, the limit of one above": {files{
			"proc/meminfo":                      meminfo,
			"proc/self/cgroup":                  "0::/a/b/c\n",
			"sys/fs/cgroup/a/b/c/memory.max":    "1000000\n",
			"sys/fs/cgroup/a/b/memory.max":      "max\n",
			"sys/fs/cgroup/a/memory.max":        "2000000\n",
			"sys/fs/cgroup/a/memory.swap.max":   "0\n",
			"sys/fs/cgroup/a/memory.stat":       "anon 1950000\nshmem 0\n",
			"sys/fs/cgroup/other/memory.max":    "1\n",
			"sys/fs/cgroup/a/b/c/d/memory.max":  "1\n",
			"sys/fs/cgroup/memory/a/memory.max": "1\n",
		}, Room{50000, "control group /a"}},
		"version 2, in a container": {files{
			"proc/meminfo":                  meminfo,
			"proc/self/cgroup":              "0::/\n",
			"sys/fs/cgroup/memory.max":      "1000000\n",
			"sys/fs/cgroup/memory.swap.max": "0\n",
			"sys/fs/cgroup/memory.stat":     "anon 1000\nshmem 0\n",
		}, Room{999000, "control group /"}},
		"version 1": {files{
			"proc/meminfo":     meminfo,
			"proc/self/cgroup": "5:memory:/job\n2:cpu:/elsewhere\n1:name=systemd:/elsewhere\n0::/\n",
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes":       "1000000\n",
			"sys/fs/cgroup/memory/job/memory.stat":                 "rss 1\nshmem 1\ntotal_cache 700\ntotal_rss 1000\ntotal_shmem 200\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":           "9223372036854771712\n",
			"sys/fs/cgroup/memory/elsewhere/memory.limit_in_bytes": "1\n",
			"sys/fs/cgroup/elsewhere/memory.max":                   "1\n",
		}, Room{1000000 - 1200 + swap, "control group /job"}},
		"version 1, memory and swap together, in a container that sees its path on the host": {files{
			"proc/meminfo":     meminfo,
			"proc/self/cgroup": "5:memory:/docker/0123\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":       "1000000\n",
			"sys/fs/cgroup/memory/memory.memsw.limit_in_bytes": "1100000\n",
			"sys/fs/cgroup/memory/memory.stat":                 "total_rss 1000\ntotal_swap 30000\n",
		}, Room{1100000 - 1000 - 30000, "control group /"}},
		"version 1, no limit": {files{
			"proc/meminfo":     meminfo,
			"proc/self/cgroup": "5:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":       "9223372036854771712\n",
			"sys/fs/cgroup/memory/memory.memsw.limit_in_bytes": "9223372036854771712\n",
			"sys/fs/cgroup/memory/memory.stat":                 "total_rss 1000\n",
		}, Room{free, "this host"}},
	} {
		root := t.TempDir()
		for file, text := range c.files {
			file = filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := leftUnder(root); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// A machine that runs tests has some memory, and tells.
func TestLeft(t *testing.T) {
	if r := Left(); r.Bytes < 1<<20 || r.Of == "" || !r.Holds(r.Bytes) || r.Holds(r.Bytes+1) || !(Room{}).Holds(1<<60) {
		t.Errorf("%+v", r)
	}
}
