package doctor

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/dptrain/dptrain/internal/ranks"
)

// CheckRanks connects this process with the others of a launch, and adds integers with them. All ranks get the same
// finding. library is the file of the MPI library; "": the first that is found.
func CheckRanks(library string) (rank int, f Finding, err error) {
	c, err := ranks.Open(library)
	if err != nil {
		return 0, f, err
	}
	defer c.Close()
	c.SetTimeout(time.Minute)
	hosts, err := ranks.Hosts(c)
	if err != nil {
		return c.Rank(), f, err
	}
	const values = 1 << 20
	small, err := timeSum(c, 1)
	large, largeErr := timeSum(c, values)
	if err := cmp.Or(err, largeErr); err != nil {
		return c.Rank(), f, err
	}
	f = Finding{What: "mpi ranks", OK: true, Detail: fmt.Sprintf("%d on %s, connected by %v; a sum of 1 number takes %v, of %d numbers %v",
		c.Size(), countHosts(hosts), c, small.Round(time.Microsecond), values, large.Round(10*time.Microsecond))}
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

// countHosts lists the hosts with their numbers of ranks.
func countHosts(ranks []string) string {
	var hosts []string
	count := map[string]int{}
	for _, host := range ranks {
		if count[host]++; count[host] == 1 {
			hosts = append(hosts, host)
		}
	}
	for i, host := range hosts {
		hosts[i] = fmt.Sprintf("%s (%d)", host, count[host])
	}
	return strings.Join(hosts, ", ")
}
