package launch

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkKeeperIdle reports the cost of one keeper while its job runs: resident memory, the part of it that is not
// shared with the program's file, and the share of one processor over 3 s. The program is the test binary; a larger
// program has more resident pages of its file.
func BenchmarkKeeperIdle(b *testing.B) {
	j := start(b, testLocal(), testCommand(b, "sleep"))
	says(b, j, "ready")
	pid := j.Handle().KeeperPID
	for b.Loop() {
		const window = 3 * time.Second
		before := processorTime(b, pid)
		time.Sleep(window)
		b.ReportMetric(100*float64(processorTime(b, pid)-before)/float64(window), "cpu-%")
	}
	b.ReportMetric(statusMiB(b, pid, "VmRSS:"), "rss-MiB")
	b.ReportMetric(statusMiB(b, pid, "RssAnon:"), "anon-MiB")
}

// processorTime returns the CPU time used by all threads of a process.
func processorTime(b *testing.B, pid int) time.Duration {
	files, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/schedstat")
	if len(files) == 0 {
		b.Skip("this kernel does not count processor time in nanoseconds")
	}
	var sum time.Duration
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		ns, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(ns)
	}
	return sum
}

// BenchmarkStartStop measures the time from Start of a job to the end of Stop: the cost of a restart, excluding the
// job's own start and end.
func BenchmarkStartStop(b *testing.B) {
	for b.Loop() {
		j := start(b, testLocal(), testCommand(b, "exit", "0"))
		<-j.Done()
	}
}

// BenchmarkPump measures the output that the keeper can copy, in bytes per second.
func BenchmarkPump(b *testing.B) {
	b.SetBytes(100 << 20)
	for b.Loop() {
		j := start(b, testLocal(), testCommand(b, "line", "100"))
		<-j.Done()
	}
}

// BenchmarkPIDs measures the agent's cost of listing the tree once, without a cgroup.
func BenchmarkPIDs(b *testing.B) {
	for b.Loop() {
		if _, err := tree(os.Getpid()); err != nil {
			b.Fatal(err)
		}
	}
}
