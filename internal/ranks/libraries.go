//go:build gpu

package ranks

import (
	"os"
	"os/exec"
	"path/filepath"
)

// names are the files of MPI libraries, the standard ABI first, then MPICH and Open MPI.
var names = []string{"libmpi_abi.so.1", "libmpi_abi.so", "libmpi.so.12", "libmpi.so.40"}

// libraries lists where an MPI library may be: in the installation of the launcher in PATH, which has
// probably started this process, in the active Python environment, and where the linker searches.
func libraries() (paths []string) {
	var prefixes []string
	for _, name := range []string{"mpiexec", "mpirun"} {
		launcher, err := exec.LookPath(name)
		if err != nil || !filepath.IsAbs(launcher) {
			continue
		}
		prefixes = append(prefixes, filepath.Dir(filepath.Dir(launcher)))
		if resolved, err := filepath.EvalSymlinks(launcher); err == nil {
			prefixes = append(prefixes, filepath.Dir(filepath.Dir(resolved)))
		}
	}
	for _, variable := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if prefix := os.Getenv(variable); filepath.IsAbs(prefix) {
			prefixes = append(prefixes, prefix)
		}
	}
	for _, prefix := range prefixes {
		for _, name := range names {
			if file := filepath.Join(prefix, "lib", name); isFile(file) {
				paths = append(paths, file)
			}
		}
	}
	return append(paths, names...)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
