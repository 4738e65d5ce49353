package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// activity is what a process has done since its start.
type activity struct{ reads, writes, wakes int }

// activityOf reads the numbers of system calls that read and write, and of the waits that ended, of all threads.
func activityOf(t *testing.T, pid int) (a activity) {
	t.Helper()
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, path := range append(files, fmt.Sprintf("/proc/%d/io", pid)) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Skipf("the activity of a process is not readable here: %v", err)
		}
		for line := range strings.Lines(string(text)) {
			var n int
			switch name, value, _ := strings.Cut(line, ":"); {
			case name == "syscr":
				fmt.Sscan(value, &a.reads)
			case name == "syscw":
				fmt.Sscan(value, &a.writes)
			case name == "voluntary_ctxt_switches":
				fmt.Sscan(value, &n)
				a.wakes += n
			}
		}
	}
	return a
}

// TestAgentIsIdle bounds what an agent does while its training writes five rows a second. A busy machine can only lower
// these numbers.
func TestAgentIsIdle(t *testing.T) {
	w := newWorld(t)
	a := w.train(1000, 0.2)
	w.progress(50)
	from, before := time.Now(), activityOf(t, a.Process.Pid)
	w.progress(100)
	seconds, after := time.Since(from).Seconds(), activityOf(t, a.Process.Pid)
	per := func(n, of int) float64 { return float64(n-of) / seconds }
	reads, writes, wakes := per(after.reads, before.reads), per(after.writes, before.writes), per(after.wakes, before.wakes)
	t.Logf("per second: %.0f reads, %.0f writes, %.0f waits", reads, writes, wakes)
	if reads > 40 || writes > 25 || wakes > 120 {
		t.Errorf("per second: %.0f reads, %.0f writes, %.0f waits; want at most 40, 25, 120", reads, writes, wakes)
	}
	a.Process.Signal(syscall.SIGINT)
	a.wait()
}

// TestRunsShareQuestions counts the questions of three runs that wait in the queue: one squeue in five seconds.
func TestRunsShareQuestions(t *testing.T) {
	w := newWorld(t)
	bin, squeue := t.TempDir(), "/usr/bin/squeue"
	count := filepath.Join(bin, "count")
	script := fmt.Sprintf("#!/bin/sh\necho x >> %s\nexec %s \"$@\"\n", count, squeue)
	if err := os.WriteFile(filepath.Join(bin, "squeue"), []byte(script), 0o755); err != nil || !exists(squeue) {
		t.Skipf("squeue cannot be replaced: %v", err)
	}
	i := slices.IndexFunc(w.Env, func(kv string) bool { return strings.HasPrefix(kv, "PATH=") })
	env := slices.Clone(w.Env)
	env[i] = "PATH=" + bin + ":" + strings.TrimPrefix(env[i], "PATH=")
	w.Lab = &Lab{Dir: w.Dir, Env: env}
	var agents []*agent
	for range 3 {
		agents = append(agents, w.train(5, 0.2, "--engine-arg=--hold"))
	}
	w.await("all jobs wait", func() bool { return strings.Count(w.slurm("squeue", "-h", "-t", "PD", "-o", "%r"), "JobHeldUser") == 3 })
	asked := func() int { text, _ := os.ReadFile(count); return len(text) / 2 }
	from, before := time.Now(), asked()
	w.await("some questions", func() bool { return asked() >= before+4 })
	if most := int(time.Since(from)/(5*time.Second)) + 2; asked()-before > most {
		t.Errorf("%d questions in %v, want at most %d", asked()-before, time.Since(from).Round(time.Second), most)
	}
	for _, a := range agents {
		a.Process.Signal(syscall.SIGINT)
	}
	for _, a := range agents {
		a.wait()
	}
}
