package launch

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkKeeperIdle reports what one keeper costs while its job runs: resident memory, of it the
// part that is not shared with the file of the program, and the share of one processor over 3 s.
// The program is the test binary here; a larger program has more of its file resident.
func BenchmarkKeeperIdle(b *testing.B) {
	j := start(b, testLocal(), testCommand(b, "sleep"))
	says(b, j, "ready")
	pid := j.Handle().KeeperPID
	for b.Loop() {
		const window = 3 * time.Second
		before := ticks(b, pid)
		time.Sleep(window)
		b.ReportMetric(float64(ticks(b, pid)-before)/100/window.Seconds()*100, "cpu-%")
	}
	b.ReportMetric(statusMiB(b, pid, "VmRSS:"), "rss-MiB")
	b.ReportMetric(statusMiB(b, pid, "RssAnon:"), "anon-MiB")
}

// ticks is the processor time of a process, user and system, in 1/100 s.
func ticks(b *testing.B, pid int) int {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return user + system
}

// BenchmarkStartStop is the time from Start of a job to the end of Stop: all that a restart costs
// besides the job's own start and end.
func BenchmarkStartStop(b *testing.B) {
	for b.Loop() {
		j := start(b, testLocal(), testCommand(b, "exit", "0"))
		<-j.Done()
	}
}

// BenchmarkPump is the output that the keeper can take from a job, in bytes a second.
func BenchmarkPump(b *testing.B) {
	b.SetBytes(100 << 20)
	for b.Loop() {
		j := start(b, testLocal(), testCommand(b, "line", "100"))
		<-j.Done()
	}
}

// BenchmarkPIDs is what one look at the tree costs the agent, without a cgroup.
func BenchmarkPIDs(b *testing.B) {
	for b.Loop() {
		if _, err := tree(os.Getpid()); err != nil {
			b.Fatal(err)
		}
	}
}
