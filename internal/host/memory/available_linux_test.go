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

// Each case has the files of a host and the headroom that they imply.
func TestAvailableUnder_HostAndControlGroups(t *testing.T) {
	type files map[string]string
	for name, c := range map[string]struct {
		files files
		want  Headroom
	}{
		"no files":          {files{}, Headroom{}},
		"malformed meminfo": {files{"proc/meminfo": "no such thing\n"}, Headroom{}},
		"no limit":          {files{"proc/meminfo": meminfo}, Headroom{free, "this host"}},
		"use above total":   {files{"proc/meminfo": "MemTotal: 8 kB\nAnonPages: 9 kB\n"}, Headroom{0, "this host"}},
		"address space limit": {files{
			"proc/meminfo":     meminfo,
			"proc/self/limits": "Limit                     Soft Limit           Hard Limit           Units\nMax address space         2000000              unlimited            bytes\n",
			"proc/self/status": "Name: dptrain\nVmSize:\t     500 kB\nVmLck:\t 0 kB\n",
		}, Headroom{2000000 - 500<<10, "this process (ulimit -v)"}},
		"no address space limit": {files{
			"proc/meminfo":     meminfo,
			"proc/self/limits": "Max address space         unlimited            unlimited            bytes\n",
			"proc/self/status": "VmSize: 500 kB\n",
		}, Headroom{free, "this host"}},
		"version 2, no limit": {files{
			"proc/meminfo":                  meminfo,
			"proc/self/cgroup":              "0::/job\n",
			"sys/fs/cgroup/job/memory.max":  "max\n",
			"sys/fs/cgroup/job/memory.stat": "anon 1000\nshmem 200\n",
		}, Headroom{free, "this host"}},
		"version 2, file cache and host swap count as free": {files{
			"proc/meminfo":                     meminfo,
			"proc/self/cgroup":                 "0::/job\n",
			"sys/fs/cgroup/job/memory.max":     "1000000\n",
			"sys/fs/cgroup/job/memory.current": "999000\n",
			"sys/fs/cgroup/job/memory.stat":    "anon 1000\nfile 900000\nshmem 200\ninactive_file 800000\n",
		}, Headroom{1000000 - 1200 + swap, "control group /job"}},
		"version 2, swap limit of the group": {files{
			"proc/meminfo":                          meminfo,
			"proc/self/cgroup":                      "0::/job\n",
			"sys/fs/cgroup/job/memory.max":          "1000000\n",
			"sys/fs/cgroup/job/memory.swap.max":     "5000\n",
			"sys/fs/cgroup/job/memory.swap.current": "2000\n",
			"sys/fs/cgroup/job/memory.stat":         "anon 1000\nshmem 0\n",
		}, Headroom{1000000 - 1000 + 3000, "control group /job"}},
		"version 2, limit of an ancestor": {files{
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
		}, Headroom{50000, "control group /a"}},
		"version 2, in a container": {files{
			"proc/meminfo":                  meminfo,
			"proc/self/cgroup":              "0::/\n",
			"sys/fs/cgroup/memory.max":      "1000000\n",
			"sys/fs/cgroup/memory.swap.max": "0\n",
			"sys/fs/cgroup/memory.stat":     "anon 1000\nshmem 0\n",
		}, Headroom{999000, "control group /"}},
		"version 1": {files{
			"proc/meminfo":     meminfo,
			"proc/self/cgroup": "5:memory:/job\n2:cpu:/elsewhere\n1:name=systemd:/elsewhere\n0::/\n",
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes":       "1000000\n",
			"sys/fs/cgroup/memory/job/memory.stat":                 "rss 1\nshmem 1\ntotal_cache 700\ntotal_rss 1000\ntotal_shmem 200\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":           "9223372036854771712\n",
			"sys/fs/cgroup/memory/elsewhere/memory.limit_in_bytes": "1\n",
			"sys/fs/cgroup/elsewhere/memory.max":                   "1\n",
		}, Headroom{1000000 - 1200 + swap, "control group /job"}},
		"version 1, joint memory and swap limit, host path inside a container": {files{
			"proc/meminfo":     meminfo,
			"proc/self/cgroup": "5:memory:/docker/0123\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":       "1000000\n",
			"sys/fs/cgroup/memory/memory.memsw.limit_in_bytes": "1100000\n",
			"sys/fs/cgroup/memory/memory.stat":                 "total_rss 1000\ntotal_swap 30000\n",
		}, Headroom{1100000 - 1000 - 30000, "control group /"}},
		"version 1, no limit": {files{
			"proc/meminfo":     meminfo,
			"proc/self/cgroup": "5:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":       "9223372036854771712\n",
			"sys/fs/cgroup/memory/memory.memsw.limit_in_bytes": "9223372036854771712\n",
			"sys/fs/cgroup/memory/memory.stat":                 "total_rss 1000\n",
		}, Headroom{free, "this host"}},
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
		if got := availableUnder(root); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestAvailable_ThisHost(t *testing.T) {
	if r := Available(); r.Bytes < 1<<20 || r.LimitedBy == "" || !r.Fits(r.Bytes) || r.Fits(r.Bytes+1) || !(Headroom{}).Fits(1<<60) {
		t.Errorf("%+v", r)
	}
}
