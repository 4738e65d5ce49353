package resources

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Roots contains the roots of the kernel's file systems. The zero value means /proc and /sys/fs/cgroup; tests and
// offline inspection use recorded trees.
type Roots struct {
	Proc   string `json:"proc,omitempty"`
	Cgroup string `json:"cgroup,omitempty"`
}

const (
	procRoot   = "/proc"
	cgroupRoot = "/sys/fs/cgroup"
)

func (r Roots) proc(elem ...string) string {
	root := cmp.Or(r.Proc, procRoot)
	return filepath.Join(append([]string{root}, elem...)...)
}

// cgroupMount maps a mount point of the kernel into the tree of r; ok is false if r is a recorded tree without that
// mount.
func (r Roots) cgroupMount(mountPoint string) (dir string, ok bool) {
	if r.Cgroup == "" {
		return mountPoint, true
	}
	rel, err := filepath.Rel(cgroupRoot, mountPoint)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", false
	}
	return filepath.Join(r.Cgroup, rel), true
}

// allowedCPUs returns the affinity mask of the calling process from status.
func (r Roots) allowedCPUs() ([]int, error) {
	path := r.proc("self", "status")
	status, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the CPU affinity: %w", err)
	}
	_, after, ok := strings.Cut(string(status), "\nCpus_allowed_list:")
	if !ok {
		return nil, fmt.Errorf("read the CPU affinity: %s has no Cpus_allowed_list", path)
	}
	list, _, _ := strings.Cut(after, "\n")
	ids, err := ParseCPUList(list)
	if err != nil {
		return nil, fmt.Errorf("read the CPU affinity from %s: %w", path, err)
	}
	return ids, nil
}

// maxCPUs bounds a CPU list: the kernel supports at most 8192 logical CPUs on any architecture.
const maxCPUs = 8192

// ParseCPUList parses the kernel's list format, "0-3,8,10-11", to distinct ids in ascending order. The empty list is
// valid and yields nil. The error quotes the list and the part that is not valid.
func ParseCPUList(s string) ([]int, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return nil, nil
	}
	var in [maxCPUs]bool
	last := -1
	for _, part := range strings.Split(s, ",") {
		lo, hi, ranged := strings.Cut(part, "-")
		a, err := strconv.Atoi(lo)
		if err != nil {
			return nil, fmt.Errorf("CPU list %q: %q is not a number", s, lo)
		}
		b := a
		if ranged {
			if b, err = strconv.Atoi(hi); err != nil {
				return nil, fmt.Errorf("CPU list %q: %q is not a number", s, hi)
			}
		}
		if a < 0 || b < a || b >= maxCPUs {
			return nil, fmt.Errorf("CPU list %q: %q is not a range within 0-%d", s, part, maxCPUs-1)
		}
		for i := a; i <= b; i++ {
			in[i] = true
		}
		last = max(last, b)
	}
	var ids []int
	for i := 0; i <= last; i++ {
		if in[i] {
			ids = append(ids, i)
		}
	}
	return ids, nil
}

// formatCPUList formats ascending ids in the kernel's list format.
func formatCPUList(ids []int) string {
	var b strings.Builder
	for i := 0; i < len(ids); {
		j := i
		for j+1 < len(ids) && ids[j+1] == ids[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(ids[i]))
		if j > i {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(ids[j]))
		}
		i = j + 1
	}
	return b.String()
}

// initialPIDs is the link of the initial PID namespace, whose inode is a constant of the kernel (PROC_PID_INIT_INO).
const initialPIDs = "pid:[4026531836]"

// PIDNamespace reports whether this process is in a PID namespace other than the initial one, as in most containers.
func (r Roots) PIDNamespace() bool {
	link, err := os.Readlink(r.proc("self", "ns", "pid"))
	return err == nil && link != initialPIDs
}
