package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"trainopt/optimizer/journal"
)

// program is the program as users build it: the test binary is larger and starts slower.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "optimize")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w: %s", err, out)
	}
	return path, nil
})

// command is a process of the program.
func command(b *testing.B, dir string, args ...string) *exec.Cmd {
	b.Helper()
	path, err := program()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Env = cleanEnviron()
	return cmd
}

// BenchmarkStartup is the time from exec to exit of `optimize version`: what every command pays.
func BenchmarkStartup(b *testing.B) {
	dir := b.TempDir()
	if _, err := program(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := command(b, dir, "version").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// used is the CPU time of a process so far, and its peak resident memory.
func used(pid int) (cpu time.Duration, peakMiB float64) {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	stat, _ := os.ReadFile(filepath.Join(proc, "stat"))
	if i := strings.LastIndex(string(stat), ") "); i > 0 {
		f := strings.Fields(string(stat)[i+2:])
		user, _ := strconv.Atoi(f[11])
		system, _ := strconv.Atoi(f[12])
		cpu = time.Duration(user+system) * 10 * time.Millisecond
	}
	status, _ := os.ReadFile(filepath.Join(proc, "status"))
	for _, line := range strings.Split(string(status), "\n") {
		if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.ParseFloat(strings.Fields(kb)[0], 64)
			peakMiB = n / 1024
		}
	}
	return cpu, peakMiB
}

// BenchmarkSupervision measures the agent and its keeper while they supervise a job at 1 Hz that writes a training row
// every 0.4 s: CPU in percent of one core (promise: below 1), peak resident memory in MiB (promise: below 64).
func BenchmarkSupervision(b *testing.B) {
	if _, err := exec.LookPath("python3"); err != nil {
		b.Skip("python3 is not installed")
	}
	const warm, measure = 5 * time.Second, 30 * time.Second
	for b.Loop() {
		dir := b.TempDir()
		script := filepath.Join(dir, "count.py")
		if err := os.WriteFile(script, []byte(counting), 0o600); err != nil {
			b.Fatal(err)
		}
		cmd := command(b, dir, "--train", script, "--epochs", "100000", "--quiet", "--budget", "100", "--deadline", "10h", "--planner", "static")
		cmd.Env = append(cmd.Env, "PACE=0.4")
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		time.Sleep(warm)
		keeper := keeperOf(b, dir)
		agent0, _ := used(cmd.Process.Pid)
		keeper0, _ := used(keeper)
		time.Sleep(measure)
		agent1, agentMiB := used(cmd.Process.Pid)
		keeper1, keeperMiB := used(keeper)
		b.ReportMetric(100*float64(agent1-agent0+keeper1-keeper0)/float64(measure), "%-of-a-core")
		b.ReportMetric(agentMiB, "agent-MiB")
		b.ReportMetric(keeperMiB, "keeper-MiB")
		_ = cmd.Process.Signal(unix.SIGTERM)
		_ = cmd.Wait()
	}
}

func keeperOf(b *testing.B, dir string) int {
	b.Helper()
	entries, err := journal.List(filepath.Join(dir, ".optimize"))
	if err != nil || len(entries) == 0 {
		b.Fatalf("no run: %v", err)
	}
	data, err := os.ReadFile(filepath.Join(entries[0].Dir, "started.json"))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), `"keeper_pid":`)
	pid, err := strconv.Atoi(strings.TrimSpace(rest[:strings.IndexAny(rest, ",}\n")]))
	if err != nil {
		b.Fatalf("keeper's pid in %s: %v", data, err)
	}
	return pid
}

// BenchmarkWallTime runs the same training bare and wrapped, in pairs of alternating order, and reports by how many
// percent the wrapped one took longer by the training's own clock (median of the pairs; aim: below 0.5), and what is
// added before and after it, in milliseconds.
func BenchmarkWallTime(b *testing.B) {
	if _, err := exec.LookPath("python3"); err != nil {
		b.Skip("python3 is not installed")
	}
	script, err := filepath.Abs(filepath.Join("..", "..", "examples", "train_digits.py"))
	if err != nil {
		b.Fatal(err)
	}
	const pairs, epochs = 7, "20"
	for b.Loop() {
		var slower, added []float64
		for i := range pairs {
			bare := func() (float64, float64) {
				dir := b.TempDir()
				cmd := exec.Command("python3", script, "--epochs", epochs)
				cmd.Dir, cmd.Env = dir, append(cleanEnviron(), "OPTIMIZER_LOG="+filepath.Join(dir, "training.csv"), "OPTIMIZER_CHECKPOINT_DIR="+filepath.Join(dir, "c"))
				return timed(b, cmd, dir)
			}
			wrapped := func() (float64, float64) {
				dir := b.TempDir()
				return timed(b, command(b, dir, "--train", script, "--epochs", epochs, "--planner", "static", "--quiet"), dir)
			}
			var plainTrain, plainAll, ourTrain, ourAll float64
			if i%2 == 0 {
				plainTrain, plainAll = bare()
				ourTrain, ourAll = wrapped()
			} else {
				ourTrain, ourAll = wrapped()
				plainTrain, plainAll = bare()
			}
			slower = append(slower, 100*(ourTrain/plainTrain-1))
			added = append(added, 1000*((ourAll-ourTrain)-(plainAll-plainTrain)))
		}
		b.ReportMetric(middle(slower), "%-slower")
		b.ReportMetric(middle(added), "ms-added")
	}
}

func middle(v []float64) float64 {
	sort.Float64s(v)
	return v[len(v)/2]
}

// timed runs a training and returns its own time (the last time_so_far of its log) and the whole time, in seconds.
func timed(b *testing.B, cmd *exec.Cmd, dir string) (training, whole float64) {
	b.Helper()
	from := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	whole = time.Since(from).Seconds()
	log := filepath.Join(dir, "training.csv")
	if found, _ := filepath.Glob(filepath.Join(dir, ".optimize", "runs", "*", "training.csv")); len(found) == 1 {
		log = found[0]
	}
	data, err := os.ReadFile(log)
	if err != nil {
		b.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	at := -1
	for i, name := range strings.Split(lines[0], ",") {
		if strings.TrimSpace(name) == "time_so_far" {
			at = i
		}
	}
	training, err = strconv.ParseFloat(strings.Split(lines[len(lines)-1], ",")[at], 64)
	if err != nil {
		b.Fatal(err)
	}
	return training, whole
}
