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
)

// program builds the binary as users do and returns its path; the test binary is larger and starts more slowly.
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

// command returns an unstarted process of the binary.
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

// BenchmarkStartup measures the time from exec to exit of `optimize version`, the fixed cost of every command.
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

// BenchmarkWallTime runs the same training bare and wrapped, in pairs of alternating order. It reports the overhead in
// percent by the training's own clock (median of the pairs; target: below 0.5) and the time added before and after the
// training in milliseconds.
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

// timed runs a training and returns its own time (the last time_so_far of its log) and the total time, in seconds.
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
