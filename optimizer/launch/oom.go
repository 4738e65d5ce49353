package launch

import (
	"os"
	"path"
	"strconv"
	"strings"
)

// oomCounter is a kernel file in which a line "oom_kill N" counts the processes killed for lack of memory.
type oomCounter string

// wholeMachine counts every such kill on the machine.
const wholeMachine oomCounter = "/proc/vmstat"

// nearestOOMCounter returns the counter of the cgroup of this process, in which a job without its own cgroup also
// runs: that of the container, if any. Without one it returns wholeMachine.
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

// oomCounters lists the possible counters of a process with these cgroups (the text of /proc/self/cgroup), the
// likelier first.
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

// read returns the current count; false if the kernel keeps none in this file.
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
