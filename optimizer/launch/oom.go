package launch

import (
	"os"
	"path"
	"strconv"
	"strings"
)

// oomCounter is a file of the kernel in which a line "oom_kill N" counts processes killed for memory.
type oomCounter string

// wholeMachine counts every such kill on the machine.
const wholeMachine oomCounter = "/proc/vmstat"

// nearestOOMCounter is that of the cgroup in which this process and a job without a cgroup of its own
// live: that of the container, where there is one. It is the machine's where there is no nearer one.
func nearestOOMCounter() oomCounter {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return wholeMachine
	}
	for _, c := range oomCounters(string(text)) {
		if _, ok := c.read(); ok {
			return c
		}
	}
	return wholeMachine
}

// oomCounters lists where the counter may be for a process with these cgroups (the text of
// /proc/self/cgroup), the likelier first.
func oomCounters(cgroups string) []oomCounter {
	var v1, v2 []oomCounter
	for line := range strings.Lines(cgroups) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // number:controllers:path
		if len(fields) != 3 {
			continue
		}
		switch in := fields[2]; {
		case fields[0] == "0" && fields[1] == "":
			v2 = append(v2, oomCounter(path.Join("/sys/fs/cgroup", in, "memory.events")))
		case strings.Contains(","+fields[1]+",", ",memory,"):
			v1 = append(v1, oomCounter(path.Join("/sys/fs/cgroup/memory", in, "memory.oom_control")))
		}
	}
	return append(v1, v2...)
}

// read is the count now; false when the kernel keeps none there.
func (c oomCounter) read() (uint64, bool) {
	text, err := os.ReadFile(string(c))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "oom_kill "); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(rest), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
