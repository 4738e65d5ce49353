package resources

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// hierarchy is one mounted cgroup hierarchy from the view of the calling process.
type hierarchy struct {
	version     int      // 1 or 2
	controllers []string // v1: controllers of the mount; v2: controllers available in the own cgroup
	mount       string   // directory of the mount point
	own         string   // directory of the own cgroup, at or below mount
}

func (h hierarchy) has(controller string) bool { return slices.Contains(h.controllers, controller) }

// chain returns the own cgroup and all enclosing cgroups up to the mount point, nearest first.
func (h hierarchy) chain() []string {
	dirs := []string{h.own}
	for d := h.own; d != h.mount && strings.HasPrefix(d, h.mount+"/"); {
		d = filepath.Dir(d)
		dirs = append(dirs, d)
	}
	return dirs
}

// cgroupTree is the file system in which cgroups are created. osTree is that of the kernel; tests substitute a model
// of another kernel.
type cgroupTree interface {
	mkdir(dir string) error
	rmdir(dir string) error
	read(path string) (string, error)
	write(path, value string) error
	subdirs(dir string) ([]string, error)
	writable(path string) bool
}

// osTree is the cgroup file system of the kernel.
type osTree struct{}

func (osTree) mkdir(dir string) error { return os.Mkdir(dir, 0o755) }
func (osTree) rmdir(dir string) error { return unix.Rmdir(dir) }

func (osTree) read(path string) (string, error) {
	b, err := os.ReadFile(path)
	return strings.TrimSpace(string(b)), err
}

// write sets a control file in a single write call, as the kernel requires. It never creates a file.
func (osTree) write(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

func (osTree) subdirs(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var dirs []string
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, filepath.Join(dir, e.Name()))
		}
	}
	return dirs, err
}

func (osTree) writable(path string) bool { return unix.Access(path, unix.W_OK) == nil }

// hierarchies returns the mounted cgroup hierarchies and the caller's cgroup in each, from self/mountinfo and
// self/cgroup. A machine without cgroups yields none and no error.
func hierarchies(r Roots, t cgroupTree) ([]hierarchy, error) {
	mounts, err := os.ReadFile(r.proc("self", "mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("find the cgroup mounts: %w", err)
	}
	member, err := os.ReadFile(r.proc("self", "cgroup"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("find the own cgroup: %w", err)
	}
	paths := membership(string(member))
	var found []hierarchy
	for _, line := range strings.Split(string(mounts), "\n") {
		m, ok := parseCgroupMount(line)
		if !ok {
			continue
		}
		mount, ok := r.cgroupMount(m.point)
		if !ok {
			continue
		}
		h := hierarchy{version: m.version, controllers: m.controllers, mount: mount}
		h.own = ownDir(mount, m.root, paths[m.key()], t)
		if m.version == 2 {
			c, err := t.read(filepath.Join(h.own, "cgroup.controllers"))
			if err != nil {
				continue // not usable, or hidden
			}
			h.controllers = strings.Fields(c)
		} else if _, err := t.read(filepath.Join(h.own, "cgroup.procs")); err != nil {
			continue
		}
		if !slices.ContainsFunc(found, func(o hierarchy) bool { return o.mount == h.mount }) {
			found = append(found, h)
		}
	}
	return found, nil
}

// membership parses self/cgroup into paths by controller list; the v2 entry has the empty key.
func membership(text string) map[string]string {
	paths := map[string]string{}
	for _, line := range strings.Split(text, "\n") {
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 {
			continue
		}
		controllers := strings.Split(f[1], ",")
		slices.Sort(controllers)
		paths[strings.Join(controllers, ",")] = f[2]
	}
	return paths
}

// cgroupMount is one cgroup entry of mountinfo.
type cgroupMount struct {
	version     int
	root, point string
	controllers []string // v1, sorted
}

func (m cgroupMount) key() string { return strings.Join(m.controllers, ",") }

// v1Controllers are the mount options that name a controller.
var v1Controllers = []string{"blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "hugetlb",
	"memory", "misc", "net_cls", "net_prio", "perf_event", "pids", "rdma"}

// parseCgroupMount parses one line of mountinfo (proc(5)); ok is false for other file systems.
func parseCgroupMount(line string) (m cgroupMount, ok bool) {
	before, after, found := strings.Cut(line, " - ")
	head, tail := strings.Fields(before), strings.Fields(after)
	if !found || len(head) < 6 || len(tail) < 1 {
		return m, false
	}
	m.root, m.point = UnescapeMount(head[3]), filepath.Clean(UnescapeMount(head[4]))
	switch tail[0] {
	case "cgroup2":
		m.version = 2
		return m, true
	case "cgroup":
		m.version = 1
	default:
		return m, false
	}
	if len(tail) < 3 {
		return m, false
	}
	for _, o := range strings.Split(tail[2], ",") {
		if slices.Contains(v1Controllers, o) || strings.HasPrefix(o, "name=") {
			m.controllers = append(m.controllers, o)
		}
	}
	slices.Sort(m.controllers)
	return m, len(m.controllers) > 0
}

// UnescapeMount decodes the octal escapes of mountinfo (\040 is a space).
func UnescapeMount(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// ownDir returns the directory of a cgroup path under a mount that exposes the hierarchy from root. In a container
// the path may lie outside the mounted part; the result is then the mount point.
func ownDir(mount, root, path string, t cgroupTree) string {
	if path == "" || strings.HasPrefix(path, "/..") {
		return mount
	}
	if strings.HasPrefix(root, "/..") {
		root = "/"
	}
	rel, err := filepath.Rel(root, path)
	if err != nil || rel == "." || strings.HasPrefix(rel, "..") {
		return mount
	}
	dir := filepath.Join(mount, rel)
	if _, err := t.read(filepath.Join(dir, "cgroup.procs")); errors.Is(err, fs.ErrNotExist) {
		return mount
	}
	return dir
}

// unlimited is the lowest value that v1 reports for no limit (the greatest multiple of a 64 KiB page below 2^63); any
// value from it on means no limit.
const unlimited = uint64(1)<<63 - 1<<16

// readLimit reads a control file that contains a byte count or "max"; ok is false if it sets no limit or cannot be
// read.
func readLimit(t cgroupTree, path string) (bytes uint64, ok bool) {
	s, err := t.read(path)
	if err != nil || s == "max" || s == "-1" {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n >= unlimited {
		return 0, false
	}
	return n, true
}

// readQuota returns the CPU bandwidth limit of one cgroup directory in CPUs; ok is false without a limit.
func readQuota(t cgroupTree, version int, dir string) (cpus float64, ok bool) {
	var quota, period string
	if version == 2 {
		s, err := t.read(filepath.Join(dir, "cpu.max"))
		if err != nil {
			return 0, false
		}
		quota, period, _ = strings.Cut(s, " ")
	} else {
		q, err1 := t.read(filepath.Join(dir, "cpu.cfs_quota_us"))
		p, err2 := t.read(filepath.Join(dir, "cpu.cfs_period_us"))
		if err1 != nil || err2 != nil {
			return 0, false
		}
		quota, period = q, p
	}
	q, err1 := strconv.ParseFloat(quota, 64)
	p, err2 := strconv.ParseFloat(period, 64)
	if err1 != nil || err2 != nil || q <= 0 || p <= 0 {
		return 0, false
	}
	return q / p, true
}

// readKey returns one number of a flat keyed file such as memory.stat.
func readKey(text, key string) (n uint64, ok bool) {
	for _, line := range strings.Split(text, "\n") {
		if k, v, found := strings.Cut(line, " "); found && k == key {
			n, err := strconv.ParseUint(strings.TrimSpace(v), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// groupPIDs returns the processes of a cgroup and all its descendants, in ascending order.
func groupPIDs(t cgroupTree, dir string) ([]int, error) {
	text, err := t.read(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, f := range strings.Fields(text) {
		if pid, err := strconv.Atoi(f); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	subs, err := t.subdirs(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, sub := range subs {
		more, err := groupPIDs(t, sub)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		pids = append(pids, more...)
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

// removeTree removes a cgroup and all its descendants, deepest first. A missing cgroup is not an error.
func removeTree(t cgroupTree, dir string) error {
	subs, err := t.subdirs(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, sub := range subs {
		if err := removeTree(t, sub); err != nil {
			return err
		}
	}
	if err := t.rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove cgroup %s: %w", dir, err)
	}
	return nil
}
