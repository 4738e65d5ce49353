package observe

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// stepCost prints the CPU nanoseconds per step of a training that does nothing else: a batch and an optimizer step.
const stepCost = `
import time, torch
n = 200000
optimizer, loader = torch.optim.SGD(), torch.utils.data.DataLoader(range(n), 1)
begun = time.process_time()
for batch in loader: optimizer.step()
print(int((time.process_time() - begun) / n * 1e9))
`

// BenchmarkStep measures the CPU time that the observer adds to a step with a batch of a loader; 0.2 % of a step of 1
// ms is 2000 ns.
func BenchmarkStep(b *testing.B) {
	in, bare, script := benchJob(b, stepCost)
	cost := func(env []string) float64 {
		cmd := exec.Command(pythonPath(), script)
		cmd.Env = env
		out, err := cmd.Output()
		if err != nil {
			b.Fatal(err)
		}
		ns, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		if err != nil {
			b.Fatal(err)
		}
		return ns
	}
	var with, without float64
	for b.Loop() {
		without += cost(bare)
		with += cost(in.Environ(bare))
	}
	b.ReportMetric((with-without)/float64(b.N), "ns/step")
	b.ReportMetric(without/float64(b.N), "bare-ns/step")
}

// BenchmarkStart measures the CPU time that the observer adds to the start of an interpreter, without and with the
// import of a framework.
func BenchmarkStart(b *testing.B) {
	for name, text := range map[string]string{"interpreter": "pass", "framework": "import torch"} {
		b.Run(name, func(b *testing.B) {
			in, bare, script := benchJob(b, text)
			cost := func(env []string) time.Duration {
				cmd := exec.Command(pythonPath(), script)
				cmd.Env = env
				if err := cmd.Run(); err != nil {
					b.Fatal(err)
				}
				return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			}
			cost(in.Environ(bare)) // compiles the module
			var added time.Duration
			for b.Loop() {
				added += cost(in.Environ(bare)) - cost(bare)
			}
			b.ReportMetric(added.Seconds()*1e3/float64(b.N), "ms/start")
		})
	}
}

func benchJob(b *testing.B, text string) (Installation, []string, string) {
	b.Helper()
	if pythonPath() == "" {
		b.Skip("python3 is not installed")
	}
	in, err := Install(b.TempDir(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	fakes, err := filepath.Abs("testdata/fakes")
	if err != nil {
		b.Fatal(err)
	}
	script := filepath.Join(b.TempDir(), "script.py")
	if err := replaceFile(script, []byte(text)); err != nil {
		b.Fatal(err)
	}
	return in, []string{"PATH=/usr/bin:/bin", "HOME=" + b.TempDir(), "PYTHONPATH=" + fakes}, script
}

// BenchmarkPoll measures the time to read the reports of a long training.
func BenchmarkPoll(b *testing.B) {
	dir := b.TempDir()
	lines := make([]string, 20000)
	for i := range lines {
		lines[i] = fmt.Sprintf(`progress "mono":%d,"time":1,"training":1,"step":%d,"epoch":0.5,"samples":9,"step_seconds":0.1,"threads":2`, i+1, i)
	}
	report(b, dir, 1, lines...)
	for b.Loop() {
		r, n := NewReader(dir), 0
		for rows := poll(b, r); len(rows) > 0; rows = poll(b, r) {
			n += len(rows)
		}
		if n != len(lines) {
			b.Fatalf("%d rows", n)
		}
	}
	b.ReportMetric(float64(len(lines))*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkFind measures a search of a training that has saved and reported many checkpoints, each under its own name.
func BenchmarkFind(b *testing.B) {
	const n = 5000
	dir := b.TempDir()
	f := NewCheckpointFinder(CheckpointOptions{Roots: []string{dir}})
	for i := range n {
		path := filepath.Join(dir, fmt.Sprintf("model_%d.pt", i))
		if err := os.WriteFile(path, []byte("state"), 0o600); err != nil {
			b.Fatal(err)
		}
		f.Report(path, time.Now())
	}
	for b.Loop() {
		if found := len(f.Find(time.Now())); found != n {
			b.Fatalf("%d of %d found", found, n)
		}
	}
}
