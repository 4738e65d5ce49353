package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"trainopt/optimizer/journal"
)

// Limits of the footprint of agent and keeper together, as documented.
const (
	promisedPercent = 1.0 // of one core
	promisedMiB     = 64.0
)

// footprint is the resource use of a process.
type footprint struct {
	cpu      time.Duration // user and system time so far
	resident float64       // MiB; shared pages are counted in full
	share    float64       // MiB; shared pages are divided by the number of processes (Pss); 0 if the kernel does not report it
	peak     float64       // MiB; maximum resident size so far
}

// footprintOf reads /proc; it fails for a process that has ended.
func footprintOf(pid int) (footprint, error) {
	var f footprint
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return f, err
	}
	fields := strings.Fields(string(stat)[strings.LastIndex(string(stat), ") ")+2:])
	for _, ticks := range fields[11:13] {
		n, err := strconv.Atoi(ticks)
		if err != nil {
			return f, fmt.Errorf("read %s/stat: %w", proc, err)
		}
		f.cpu += time.Duration(n) * 10 * time.Millisecond
	}
	f.resident, f.peak = mebibytes(proc, "status", "VmRSS:"), mebibytes(proc, "status", "VmHWM:")
	f.share = mebibytes(proc, "smaps_rollup", "Pss:")
	return f, nil
}

// mebibytes returns the value of a line "name number kB" in MiB, 0 if the line is missing.
func mebibytes(proc, file, name string) float64 {
	text, _ := os.ReadFile(filepath.Join(proc, file))
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return n / 1024
		}
	}
	return 0
}

// keeperOf returns the pid of the keeper of the newest job in the only run of a directory, 0 if none is running.
func keeperOf(dir string) int {
	entries, err := journal.List(filepath.Join(dir, ".optimize"))
	if err != nil || len(entries) == 0 {
		return 0
	}
	data, err := os.ReadFile(filepath.Join(entries[0].Dir, "started.json"))
	_, rest, found := strings.Cut(string(data), `"keeper_pid":`)
	if err != nil || !found {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(rest[:strings.IndexAny(rest, ",}\n")]))
	return pid
}

// TestSupervisionIsSmall checks that a real agent and its keeper use less memory than documented once the job has
// settled.
func TestSupervisionIsSmall(t *testing.T) {
	needPython(t)
	if testing.Short() {
		t.Skip("ten seconds of a training")
	}
	if mebibytes("/proc/self", "smaps_rollup", "Pss:") == 0 {
		t.Skip("this kernel does not tell the proportional share of a process")
	}
	w := newWorld(t)
	agent := w.agent("--train", w.write("count.py", counting), "--epochs", "100000", "--quiet", "--planner", "static")
	t.Cleanup(func() { // the job ends before its directory is removed
		_ = agent.Process.Signal(os.Interrupt)
		_ = agent.Wait()
	})
	var small, big footprint
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		var err1, err2 error
		big, err1 = footprintOf(agent.Process.Pid)
		small, err2 = footprintOf(keeperOf(w.dir))
		if err1 != nil || err2 != nil || big.share == 0 || small.share == 0 {
			continue // still starting
		}
		if big.share+small.share < promisedMiB && big.cpu > 0 && big.resident < big.peak-1 { // the memory used for planning has been released
			return
		}
	}
	t.Errorf("agent %.1f MiB (resident %.1f, peak %.1f), keeper %.1f MiB: want below %g together, and less resident than at the start",
		big.share, big.resident, big.peak, small.share, promisedMiB)
}

// BenchmarkSupervision measures agent and keeper while they supervise trainings at 1 Hz: CPU in percent of one core
// (limit: below 1) and total memory in MiB (limit: below 64) in three ways. Pss counts a page shared by both once;
// resident counts it twice; peak is the maximum resident size of each since its start, including planning. Rows arrive
// every 0.1, 0.4 and 1 s, or at the speed of a real network.
func BenchmarkSupervision(b *testing.B) {
	if _, err := exec.LookPath("python3"); err != nil {
		b.Skip("python3 is not installed")
	}
	digits, err := filepath.Abs(filepath.Join("..", "..", "examples", "train_digits.py"))
	if err != nil {
		b.Fatal(err)
	}
	for _, pace := range []string{"0.1", "0.4", "1"} {
		b.Run("row-each-"+pace+"s", func(b *testing.B) { benchSupervision(b, "", "PACE="+pace) })
	}
	b.Run("digits", func(b *testing.B) { benchSupervision(b, digits) })
}

// benchSupervision starts a training under an agent, waits ten seconds for it to settle and measures both processes for
// one minute.
func benchSupervision(b *testing.B, script string, environ ...string) {
	const warm, measure = 10 * time.Second, 60 * time.Second
	for b.Loop() {
		dir, train := b.TempDir(), script
		if train == "" {
			train = filepath.Join(dir, "count.py")
			if err := os.WriteFile(train, []byte(counting), 0o600); err != nil {
				b.Fatal(err)
			}
		}
		cmd := command(b, dir, "--train", train, "--epochs", "100000", "--quiet", "--budget", "100", "--deadline", "10h", "--planner", "static")
		cmd.Env = append(cmd.Env, environ...)
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		time.Sleep(warm)
		pids := []int{cmd.Process.Pid, keeperOf(dir)}
		var before, after [2]footprint
		read := func(into *[2]footprint) {
			for i, pid := range pids {
				var err error
				if into[i], err = footprintOf(pid); err != nil {
					b.Fatal(err)
				}
			}
		}
		read(&before)
		began := time.Now()
		time.Sleep(measure)
		read(&after)
		cpu := after[0].cpu - before[0].cpu + after[1].cpu - before[1].cpu
		b.ReportMetric(100*float64(cpu)/float64(time.Since(began)), "%-of-a-core")
		b.ReportMetric(promisedPercent, "%-promised")
		b.ReportMetric(after[0].share+after[1].share, "Pss-MiB")
		b.ReportMetric(after[0].resident+after[1].resident, "resident-MiB")
		b.ReportMetric(after[0].peak+after[1].peak, "peak-MiB")
		b.ReportMetric(promisedMiB, "MiB-promised")
		_ = cmd.Process.Signal(unix.SIGTERM)
		_ = cmd.Wait()
	}
}
