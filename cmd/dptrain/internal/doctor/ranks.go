package doctor

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/dptrain/dptrain/internal/ranks"
)

// hostBytes is how much of a host's name the ranks exchange.
const hostBytes = 64

// CheckRanks connects this process with the others of a launch, and adds integers with them. All ranks get the same
// finding. library is the file of the MPI library; "": the first that is found.
func CheckRanks(library string) (rank int, f Finding, err error) {
	c, err := ranks.Open(library)
	if err != nil {
		return 0, f, err
	}
	defer c.Close()
	c.SetTimeout(time.Minute)
	host, _ := os.Hostname()
	names, ends := make([]byte, hostBytes*c.Size()), make([]int, c.Size())
	copy(names[hostBytes*c.Rank():hostBytes*(c.Rank()+1)], host)
	for i := range ends {
		ends[i] = hostBytes * (i + 1)
	}
	if err := c.Gather(names, ends); err != nil {
		return c.Rank(), f, err
	}
	const values = 1 << 20
	small, err := timeSum(c, 1)
	large, largeErr := timeSum(c, values)
	if err := cmp.Or(err, largeErr); err != nil {
		return c.Rank(), f, err
	}
	f = Finding{What: "mpi ranks", OK: true, Detail: fmt.Sprintf("%d on %s, connected by %v; a sum of 1 number takes %v, of %d numbers %v",
		c.Size(), hostsOf(names), c, small.Round(time.Microsecond), values, large.Round(10*time.Microsecond))}
	return c.Rank(), f, nil
}

// timeSum returns the shortest time of some sums.
func timeSum(c ranks.Communicator, values int) (shortest time.Duration, err error) {
	for range 5 {
		began := time.Now()
		if err := c.Sum(make([]int64, values)); err != nil {
			return 0, err
		}
		if took := time.Since(began); shortest == 0 || took < shortest {
			shortest = took
		}
	}
	return shortest, nil
}

// hostsOf lists the hosts with their numbers of ranks.
func hostsOf(names []byte) string {
	var hosts []string
	count := map[string]int{}
	for ; len(names) > 0; names = names[hostBytes:] {
		host := string(bytes.TrimRight(names[:hostBytes], "\x00"))
		if count[host]++; count[host] == 1 {
			hosts = append(hosts, host)
		}
	}
	for i, host := range hosts {
		hosts[i] = fmt.Sprintf("%s (%d)", host, count[host])
	}
	return strings.Join(hosts, ", ")
}
