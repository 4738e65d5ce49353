package resources

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// machine expands a recorded machine of testdata/machines into a temporary directory.
func machine(t testing.TB, name string) Roots {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "machines", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	r := Roots{Proc: filepath.Join(root, "proc"), Cgroup: filepath.Join(root, "cgroup")}
	if err := os.MkdirAll(r.Cgroup, 0o755); err != nil {
		t.Fatal(err)
	}
	var path string
	files := map[string]string{}
	for _, line := range strings.SplitAfter(string(text), "\n") {
		if p, ok := strings.CutPrefix(line, "-- "); ok {
			path = strings.TrimSuffix(strings.TrimSpace(p), " --")
			files[path] = ""
		} else if path != "" {
			files[path] += line
		}
	}
	for path, content := range files {
		full := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// kernelModel models the kernel on a recorded tree for the writes of this package: control files appear in a new
// cgroup, and the writes that the kernel rejects are rejected.
type kernelModel struct {
	osTree
	root     string
	readOnly bool
	denied   func(rel string) bool // no write permission
	writes   []string              // "path: value", in order
}

func (k *kernelModel) rel(path string) string {
	rel, err := filepath.Rel(k.root, path)
	if err != nil {
		panic(err)
	}
	return rel
}

func (k *kernelModel) writable(path string) bool {
	return !k.readOnly && (k.denied == nil || !k.denied(k.rel(path)))
}

func (k *kernelModel) mkdir(dir string) error {
	if k.readOnly {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: unix.EROFS}
	}
	if !k.writable(filepath.Dir(dir)) {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: unix.EACCES}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	files := map[string]string{"cgroup.procs": ""}
	add := func(name, value string) { files[name] = value }
	if handed, err := k.read(filepath.Join(filepath.Dir(dir), "cgroup.subtree_control")); err == nil {
		add("cgroup.controllers", handed)
		add("cgroup.subtree_control", "")
		add("cgroup.type", "domain")
		add("cgroup.kill", "")
		add("cpu.stat", "usage_usec 1500000\nuser_usec 1500000")
		for _, c := range strings.Fields(handed) {
			switch c {
			case "cpu":
				add("cpu.max", "max 100000")
			case "cpuset":
				add("cpuset.cpus", "")
			case "memory":
				add("memory.max", "max")
				add("memory.high", "max")
				add("memory.peak", "3221225472")
				add("memory.stat", "anon 1073741824\nfile 2147483648\nshmem 536870912")
				add("memory.events", "low 0\nhigh 3\nmax 7\noom 1\noom_kill 2")
			}
		}
	} else {
		for _, c := range strings.Split(strings.Split(k.rel(dir), "/")[0], ",") {
			switch c {
			case "cpu":
				add("cpu.cfs_quota_us", "-1")
				add("cpu.cfs_period_us", "100000")
			case "cpuacct":
				add("cpuacct.usage", "2500000000")
			case "cpuset":
				add("cpuset.cpus", "")
				add("cpuset.mems", "")
			case "memory":
				add("memory.limit_in_bytes", "9223372036854771712")
				add("memory.soft_limit_in_bytes", "9223372036854771712")
				add("memory.max_usage_in_bytes", "3221225472")
				add("memory.stat", "rss 1\nshmem 1\ntotal_rss 1073741824\ntotal_shmem 536870912")
				add("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2")
			}
		}
	}
	for name, value := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (k *kernelModel) rmdir(dir string) error {
	if procs, err := k.read(filepath.Join(dir, "cgroup.procs")); err != nil {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: unix.ENOENT}
	} else if procs != "" {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: unix.EBUSY}
	}
	if subs, _ := k.subdirs(dir); len(subs) > 0 {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: unix.EBUSY}
	}
	return os.RemoveAll(dir)
}

func (k *kernelModel) write(path, value string) error {
	fail := func(errno unix.Errno) error { return &fs.PathError{Op: "write", Path: path, Err: errno} }
	if _, err := os.Stat(path); err != nil {
		return err
	}
	if k.readOnly {
		return fail(unix.EROFS)
	}
	if !k.writable(path) {
		return fail(unix.EACCES)
	}
	k.writes = append(k.writes, k.rel(path)+": "+value)
	dir := filepath.Dir(path)
	switch filepath.Base(path) {
	case "cgroup.subtree_control":
		procs, _ := k.read(filepath.Join(dir, "cgroup.procs"))
		if procs != "" && dir != k.root { // only the machine's root is exempt
			return fail(unix.EBUSY)
		}
		now, _ := k.read(path)
		on := slices.DeleteFunc(strings.Fields(now), func(c string) bool { return c == value[1:] })
		if value[0] == '+' {
			on = append(on, value[1:])
		}
		if value == "+cpu" { // its files appear in the cgroups below
			subs, _ := k.subdirs(dir)
			for _, sub := range subs {
				if err := os.WriteFile(filepath.Join(sub, "cpu.max"), []byte("max 100000"), 0o644); err != nil {
					return err
				}
			}
		}
		value = strings.Join(on, " ")
	case "memory.oom_control": // only the switch is written
		now, _ := k.read(path)
		_, rest, _ := strings.Cut(now, "\n")
		value = "oom_kill_disable " + value + "\n" + rest
	case "cpu.cfs_quota_us":
		child, _ := strconv.Atoi(value)
		above, _ := k.read(filepath.Join(filepath.Dir(dir), "cpu.cfs_quota_us"))
		if parent, err := strconv.Atoi(above); err == nil && parent > 0 && child > parent {
			return fail(unix.EINVAL)
		}
	case "cgroup.kill":
		subs, _ := k.subdirs(dir)
		for _, d := range append(subs, dir) {
			if err := os.WriteFile(filepath.Join(d, "cgroup.procs"), nil, 0o644); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(path, []byte(value), 0o644)
}

// modelEnforcer returns an enforcer on a recorded machine with the kernel model.
func modelEnforcer(t *testing.T, name string, a Allocation, l Limits) (*enforcer, *kernelModel) {
	t.Helper()
	r := machine(t, name)
	k := &kernelModel{root: r.Cgroup}
	return enforceOn(t, r, k, a, l), k
}

func enforceOn(t *testing.T, r Roots, k *kernelModel, a Allocation, l Limits) *enforcer {
	t.Helper()
	e, err := NewEnforcer(EnforceOptions{RunID: "r1", Allocation: a, Limits: l, Roots: r, tree: k})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// groupsLeft returns the run's cgroups that remain in a tree.
func groupsLeft(t *testing.T, root string) (left []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), groupPrefix) {
			left = append(left, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// diff compares two lists of lines and fails with the differences.
func diff(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s (-want +got):\n- %s\n+ %s", what, strings.Join(want, "\n- "), strings.Join(got, "\n+ "))
	}
}

func mention(t *testing.T, lines []string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, w) }) {
			t.Errorf("nothing says %q in:\n  %s", w, strings.Join(lines, "\n  "))
		}
	}
}
