package ranks

import (
	"fmt"
	"net"
	"os"
	"strconv"
)

// Launch describes how a process was started, as its environment states it.
type Launch struct {
	Launcher   string // "" without one
	Rank, Size int
	MPI        bool // the launcher connects processes with MPI

	// The rest is known without MPI.
	Local   int    // number among the processes of this host
	Address string // host:port at which rank 0 meets the others
	Run     string // the launcher's name of the run
}

// launchers are the environment variables of launchers, the most specific first: a launcher that was
// started by another one passes on the variables of both. Open MPI's prterun sets OMPI_*; Hydra (MPICH,
// Intel MPI) and Slurm's PMI-2 set PMI_*; srun sets SLURM_STEP_NUM_TASKS, which a batch script does not
// have; torchrun and Kubeflow's trainer set WORLD_SIZE.
var launchers = []struct {
	name, rank, size string
	mpi              bool
}{
	{"Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", true},
	{"mpiexec", "PMI_RANK", "PMI_SIZE", true},
	{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", true},
	{"torchrun", "RANK", "WORLD_SIZE", false},
}

// Launched returns how a launcher started this process. Without a launcher Size is 1.
func Launched() (Launch, error) { return launched(os.LookupEnv) }

func launched(lookup func(string) (string, bool)) (Launch, error) {
	for _, l := range launchers {
		size, hasSize := lookup(l.size)
		rank, hasRank := lookup(l.rank)
		if !hasSize || !hasRank {
			continue
		}
		n, sizeErr := strconv.Atoi(size)
		r, rankErr := strconv.Atoi(rank)
		if sizeErr != nil || rankErr != nil || n < 1 || r < 0 || r >= n {
			return Launch{}, fmt.Errorf("the environment has %s=%s and %s=%s: a rank is a number from 0 below the number of ranks; unset both, or start the ranks with mpirun", l.rank, rank, l.size, size)
		}
		launch := Launch{Launcher: l.name, Rank: r, Size: n, MPI: l.mpi}
		if l.mpi {
			return launch, nil
		}
		return launch, launch.setMeeting(lookup)
	}
	return Launch{Size: 1}, nil
}

// setMeeting sets where the ranks of torchrun meet. Where its agent serves the master's port, they meet at the
// next one.
func (l *Launch) setMeeting(lookup func(string) (string, bool)) error {
	if l.Size == 1 {
		return nil
	}
	host, _ := lookup("MASTER_ADDR")
	port, _ := lookup("MASTER_PORT")
	local, _ := lookup("LOCAL_RANK")
	number, portErr := strconv.Atoi(port)
	at, localErr := strconv.Atoi(local)
	if host == "" || portErr != nil || number < 1 || number > 65534 || localErr != nil || at < 0 {
		return fmt.Errorf("the environment has MASTER_ADDR=%s, MASTER_PORT=%s and LOCAL_RANK=%s: give the host of rank 0, a port and this process's number on its host, as torchrun does", host, port, local)
	}
	if served, _ := lookup("TORCHELASTIC_USE_AGENT_STORE"); served == "True" {
		number++
	}
	l.Local, l.Address = at, net.JoinHostPort(host, strconv.Itoa(number))
	l.Run, _ = lookup("TORCHELASTIC_RUN_ID")
	return nil
}
