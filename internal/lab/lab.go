// Package lab runs a Slurm cluster of four small nodes on this machine for tests: nodes n0 (a100), n1 (v100), n2 and n3
// (k80) with four fake GPUs each, partitions gpu, fast, cheap and urgent, and accounting. lab.sh is the cluster; `make lab`
// starts the same one for a shell. It is for tests only and contains nothing of the product.
//
//	func TestSubmit(t *testing.T) {
//		l := lab.Require(t)
//		cmd := l.Command(t.Context(), "sbatch", "--parsable", "job.sh")
package lab

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

//go:embed lab.sh
var script string

// Paced is a training in Python whose epochs take its first argument in seconds on a device of speed 1. It saves on SIGUSR1,
// and fails if another life of it runs at the same time.
//
//go:embed paced.py
var Paced string

// Lab is a running cluster.
type Lab struct {
	// Dir contains its files: logs in log, slurm.conf, the exports for a shell in env.
	Dir string
	// Env is the environment of this process with the variables that the commands of Slurm need, and without those of
	// an enclosing job.
	Env []string
}

// variable is the environment variable that asks for the tests with a cluster.
const variable = "TRAINOPT_LAB"

// codeMissing is the exit status of the script if the cluster cannot run on this machine.
const codeMissing = 77

// shared is the cluster of this test binary. The pipe stays open until the process ends, in whatever way; the script
// then stops the cluster if this binary started it and no other one uses it.
var shared struct {
	once    sync.Once
	lab     *Lab
	missing string
	err     error
	pipe    io.WriteCloser
}

// Require returns the cluster in the folder $TRAINOPT_LAB, or in .lab of the repository if that is 1, and starts it if it
// does not run. It skips the test without that variable, if packages are missing, with their names, or if the process is
// not root. A cluster that a test binary has started is stopped when the last test binary that uses it has ended.
func Require(t testing.TB) *Lab {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a Slurm cluster: skipped with -short")
	}
	if os.Getenv(variable) == "" {
		t.Skip("starts a Slurm cluster: skipped without " + variable + "=1 (make lab-test)")
	}
	shared.once.Do(hold)
	switch {
	case shared.missing != "":
		t.Skip(shared.missing)
	case shared.err != nil:
		t.Fatal(shared.err)
	}
	return shared.lab
}

// Command returns a command of Slurm, or any other program, in the environment of the cluster.
func (l *Lab) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	if !strings.ContainsRune(name, filepath.Separator) {
		for _, dir := range []string{"/usr/bin", "/usr/sbin"} {
			if path := filepath.Join(dir, name); exists(path) {
				name = path
				break
			}
		}
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = l.Env
	return cmd
}

// Run runs a command of Slurm and returns its output without surrounding space. It fails the test if the command fails.
func (l *Lab) Run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := l.Command(t.Context(), name, args...).Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(failed.Stderr)))
		}
		t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// hold starts the cluster and holds it for this process.
func hold() {
	dir, err := directory()
	if err != nil {
		shared.err = err
		return
	}
	var said strings.Builder
	cmd := exec.Command("bash", "-c", script, "lab.sh", "hold", dir)
	cmd.Stderr = &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // an interrupt of the tests must not prevent the stop
	cmd.Env = environment(dir)
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		shared.err = fmt.Errorf("start the lab in %s: %w", dir, err)
		return
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == "ready" {
			shared.pipe, shared.lab = in, &Lab{Dir: dir, Env: environment(dir)}
			return
		}
	}
	err = cmd.Wait()
	text := strings.TrimSpace(said.String())
	if cmd.ProcessState.ExitCode() == codeMissing {
		shared.missing = text
		return
	}
	shared.err = fmt.Errorf("start the lab in %s: %v: %s", dir, err, text)
}

// directory returns $TRAINOPT_LAB or .lab beside the go.mod above the working directory.
func directory() (string, error) {
	if dir := os.Getenv(variable); dir != "" && dir != "1" {
		return filepath.Abs(dir)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for !exists(filepath.Join(dir, "go.mod")) {
		if dir == filepath.Dir(dir) {
			return "", errors.New("find the repository: no go.mod above the working directory: set TRAINOPT_LAB to a folder")
		}
		dir = filepath.Dir(dir)
	}
	return filepath.Join(dir, ".lab"), nil
}

// environment returns the environment of this process for the cluster in dir.
func environment(dir string) []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "SLURM_") && !strings.HasPrefix(kv, "SBATCH_") && !strings.HasPrefix(kv, "PATH=") {
			env = append(env, kv)
		}
	}
	return append(env, "PATH="+os.Getenv("PATH")+":/usr/bin:/usr/sbin", "XDG_STATE_HOME="+filepath.Join(dir, "state"), "SLURM_CONF="+filepath.Join(dir, "slurm.conf"),
		"MYSQL_UNIX_PORT="+filepath.Join(dir, "run", "db.sock"))
}
