package launch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"trainopt/resources"
)

// startFails starts c and returns the error; no process of the job may be left.
func startFails(t *testing.T, c Command) *StartError {
	t.Helper()
	before := children(t)
	j, err := testLocal().Start(context.Background(), c)
	if err == nil {
		cleanUp(t, j)
		t.Fatal("it started")
	}
	var e *StartError
	if !errors.As(err, &e) {
		t.Fatalf("error is %T (%v), want *StartError", err, err)
	}
	if after := children(t); after > before {
		t.Errorf("%d processes are left of the start", after-before)
	}
	if e.Exit().Reason != StartFailed || e.Exit().Detail == "" {
		t.Errorf("exit = %+v", e.Exit())
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("the error is not one line: %q", err)
	}
	return e
}

func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStartFailures(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	elfOfOther, err := os.ReadFile(selfExe())
	if err != nil {
		t.Fatal(err)
	}
	elfOfOther = elfOfOther[:4096]
	elfOfOther[18], elfOfOther[19] = 0xf7, 0 // e_machine: BPF, which runs no processes
	clear(elfOfOther[40:48])                 // no sections: they are cut off
	clear(elfOfOther[60:64])
	for name, tc := range map[string]struct {
		args   []string
		words  string // part of the error
		advice string
		is     error
	}{
		"missing":               {[]string{filepath.Join(dir, "none.py")}, "no file", "check the name", fs.ErrNotExist},
		"missing, relative":     {[]string{"./none.py"}, "no file", "looked up from", fs.ErrNotExist},
		"not on PATH":           {[]string{"no-such-program-here"}, "no program named", "install it", fs.ErrNotExist},
		"not on PATH, but here": {[]string{"train.sh"}, "no program named", "./train.sh", fs.ErrNotExist},
		"not executable":        {[]string{write(t, filepath.Join(dir, "plain.py"), "#!/bin/sh\n", 0o644)}, "is not executable", "chmod +x", fs.ErrPermission},
		"a directory":           {[]string{dir}, "is a directory", "name the program", fs.ErrPermission},
		"interpreter missing": {[]string{write(t, filepath.Join(dir, "bad"), "#!/no/such/python3 -u\nx\n", 0o755)},
			`interpreter "/no/such/python3"`, "correct the first line", fs.ErrNotExist},
		"Windows line ends": {[]string{write(t, filepath.Join(dir, "crlf"), "#!/bin/sh\r\nexit 0\r\n", 0o755)}, `"/bin/sh\r"`, "Windows", fs.ErrNotExist},
		"interpreter not executable": {[]string{write(t, filepath.Join(dir, "bad2"), "#!"+filepath.Join(dir, "plain.py")+"\n", 0o755)},
			"may not be executed", "correct the first line", fs.ErrPermission},
		"no #! line":          {[]string{write(t, filepath.Join(dir, "text"), "print('hello')\n", 0o755)}, "without a #! line", "name the interpreter", unix.ENOEXEC},
		"empty file":          {[]string{write(t, filepath.Join(dir, "empty"), "", 0o755)}, "is empty", "completely", unix.ENOEXEC},
		"another processor":   {[]string{write(t, filepath.Join(dir, "elf"), string(elfOfOther), 0o755)}, "another processor", "build", unix.ENOEXEC},
		"broken link":         {[]string{link}, `symbolic link to "nowhere"`, "repair", fs.ErrNotExist},
		"path through a file": {[]string{filepath.Join(dir, "plain.py", "x")}, "not a directory", "check the path", unix.ENOTDIR},
		"a device":            {[]string{"/dev/null"}, "not a file that can be executed", "name a program", fs.ErrPermission},
		"too long":            {[]string{selfExe(), strings.Repeat("x", 4<<20)}, "longer than the system allows", "in a file", unix.E2BIG},
	} {
		t.Run(name, func(t *testing.T) {
			c := testCommand(t)
			c.Args = tc.args
			write(t, filepath.Join(c.Dir, "train.sh"), "exit 0\n", 0o755)
			e := startFails(t, c)
			if !strings.Contains(e.Reason, tc.words) || !strings.Contains(e.Advice, tc.advice) || !errors.Is(e, tc.is) || e.Internal {
				t.Errorf("%v\n (%v), want %q, advice %q, %v", e, e.Err, tc.words, tc.advice, tc.is)
			}
			// The next agent finds the same on disk.
			h, err := Find(c.RunDir)
			if err != nil {
				t.Fatal(err)
			}
			if x := waitEnd(t, adopt(t, h)); x.Reason != StartFailed || !strings.Contains(x.Detail, tc.words) {
				t.Errorf("adopted exit = %+v", x)
			}
		})
	}
}

func TestBadCommand(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Command)
		words  string
	}{
		"no arguments":                {func(c *Command) { c.Args = nil }, "empty"},
		"empty name":                  {func(c *Command) { c.Args = []string{""} }, "empty"},
		"NUL in an argument":          {func(c *Command) { c.Args = append(c.Args, "a\x00b") }, "NUL"},
		"NUL in the variables":        {func(c *Command) { c.Env = append(c.Env, "A=a\x00b") }, "NUL"},
		"no run directory":            {func(c *Command) { c.RunDir = "" }, "run directory"},
		"run directory is a file":     {func(c *Command) { c.RunDir = write(t, filepath.Join(t.TempDir(), "f"), "", 0o600) }, "run directory"},
		"working directory missing":   {func(c *Command) { c.Dir += "/none" }, "does not exist"},
		"working directory is a file": {func(c *Command) { c.Dir = write(t, filepath.Join(t.TempDir(), "f"), "", 0o600) }, "not a directory"},
		"impossible allocation":       {func(c *Command) { c.Allocation = resources.Allocation{GPUs: -1} }, "0 CPUs"},
	} {
		t.Run(name, func(t *testing.T) {
			c := testCommand(t, "exit", "0")
			tc.change(&c)
			if e := startFails(t, c); !strings.Contains(e.Reason, tc.words) {
				t.Errorf("%v, want %q", e, tc.words)
			}
		})
	}
}

// The job receives exactly its arguments and its environment, byte by byte, in its directory.
func TestOddNames(t *testing.T) {
	for name, odd := range map[string]string{"spaces": "a b  c", "newline": "a\nb", "UTF-8": "Größe 训练 🚂",
		"not UTF-8": "a\xffb\xfe", "dash": "-rf", "quotes": `a"b'c$d\e`, "star": "*?[a]"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), odd)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Skipf("this file system has no such names: %v", err)
			}
			script := filepath.Join(dir, odd)
			if err := os.Symlink(selfExe(), script); err != nil {
				t.Fatal(err)
			}
			c := testCommand(t)
			c.Args = []string{"./" + odd, asChild, "env", odd, "", "last"}
			c.Dir = dir
			c.Env = []string{"ODD=" + odd, "EMPTY="}
			e := waitEnd(t, start(t, testLocal(), c))
			want := fmt.Sprintf("%q\n%q\narg %q\narg \"\"\narg \"last\"\n", "ODD="+odd, "EMPTY=", odd)
			if got := output(t, c.RunDir, stdoutFile); e.Code != 0 || got != want {
				t.Errorf("exit %+v, stderr %q; the job saw\n%swant\n%s", e, output(t, c.RunDir, stderrFile), got, want)
			}
		})
	}
}

func TestOddRunDirectory(t *testing.T) {
	c := testCommand(t, "exit", "0")
	c.RunDir = filepath.Join(t.TempDir(), "läufe und\nmehr", strings.Repeat("d", 200))
	j := start(t, testLocal(), c)
	waitEnd(t, j)
	h, err := Find(c.RunDir)
	if err != nil {
		t.Fatal(err)
	}
	if e := adopt(t, h).Exit(); e.Reason != Exited {
		t.Errorf("exit = %+v", e)
	}
}

func TestScriptsOfOtherLanguages(t *testing.T) {
	for name, script := range map[string]string{"sh": "#!/bin/sh\necho from sh; exit 3\n",
		"python3": "#!/usr/bin/env python3\nimport sys\nprint('from python3')\nsys.exit(3)\n"} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(name); err != nil {
				t.Skipf("no %s on this machine", name)
			}
			c := testCommand(t)
			c.Args = []string{write(t, filepath.Join(c.Dir, "my script"), script, 0o755)}
			c.Env = os.Environ()
			e := waitEnd(t, start(t, testLocal(), c))
			if e.Code != 3 || output(t, c.RunDir, stdoutFile) != "from "+name+"\n" {
				t.Errorf("exit %+v, stdout %q, stderr %q", e, output(t, c.RunDir, stdoutFile), output(t, c.RunDir, stderrFile))
			}
		})
	}
}

// No key or token of the job's environment is written to disk.
func TestEnvironmentStaysOffTheDisk(t *testing.T) {
	c := testCommand(t, "sleep")
	c.Env = append(c.Env, "API_KEY=very-secret")
	j := start(t, testLocal(), c)
	says(t, j, "ready")
	files, err := os.ReadDir(c.RunDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.Contains(output(t, c.RunDir, f.Name()), "very-secret") {
			t.Errorf("%s holds the environment", f.Name())
		}
	}
}

// Descriptors inherited by the agent, such as a lock or a pipe of its parent, do not reach keeper and job.
func TestInheritedDescriptorsAreClosed(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETFD, 0); err != nil { // like a descriptor inherited from a shell
		t.Fatal(err)
	}
	j := start(t, testLocal(), testCommand(t, "sleep"))
	says(t, j, "ready")
	w.Close()
	r.SetReadDeadline(time.Now().Add(patience))
	if n, err := r.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d, %v: the pipe is still open in the keeper or the job", n, err)
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", j.Handle().PID))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if n, _ := strconv.Atoi(fd.Name()); n > 2 {
			target, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", j.Handle().PID, n))
			if !strings.HasPrefix(target, "anon_inode:") && !strings.HasPrefix(target, "/sys/fs/cgroup/") { // of the child's Go runtime
				t.Errorf("the job has descriptor %d open: %s", n, target)
			}
		}
	}
}

// An agent limited to 64 descriptors starts jobs one after the other without leaking any.
func TestDescriptorLimit(t *testing.T) {
	poor(t, "descriptors", testCommand(t, "exit", "7"))
}

// Without a free descriptor the error states that, and the next start works.
func TestNoDescriptorLeft(t *testing.T) {
	poor(t, "no-descriptor", testCommand(t, "exit", "7"))
}

// Without a free process the error states that.
func TestProcessLimit(t *testing.T) {
	poor(t, "no-process", testCommand(t, "exit", "7"))
}

// A limit on the size of files limits the stored output, not the keeper.
func TestFileSizeLimit(t *testing.T) {
	poor(t, "file-size", testCommand(t, "flood", "20000", "0"))
}

// poor runs a part of a test in an agent process with a resource limit; root has no limit on processes, so it then
// runs as an unprivileged user.
func poor(t *testing.T, what string, c Command) {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	exe := selfExe()
	a := exec.Command(exe, asPoorAgent, what, string(text))
	if os.Getuid() == 0 && what == "no-process" {
		exe = forNobody(t, c)
		a.Path, a.Args[0] = exe, exe
		a.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := a.CombinedOutput()
	switch a.ProcessState.ExitCode() {
	case 0:
	case 77:
		t.Skip(strings.TrimSpace(string(out)))
	default:
		t.Errorf("%v: %s", err, out)
	}
}

// forNobody makes the test binary and the job's directory accessible to an ordinary user.
func forNobody(t *testing.T, c Command) string {
	for dir := c.Dir; strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(selfExe())
	if err != nil {
		t.Fatal(err)
	}
	return write(t, filepath.Join(c.Dir, "agent"), string(data), 0o755)
}

func poorAgentMain(args []string) int {
	var c Command
	if err := json.Unmarshal([]byte(args[1]), &c); err != nil {
		fmt.Println(err)
		return 1
	}
	if err := map[string]func(Command) error{"descriptors": fewDescriptors, "no-descriptor": noDescriptor, "no-process": noProcess, "file-size": smallFiles}[args[0]](c); err != nil {
		fmt.Println(err)
		if errors.Is(err, errors.ErrUnsupported) {
			return 77
		}
		return 1
	}
	return 0
}

func limit(resource int, n uint64) error {
	return unix.Setrlimit(resource, &unix.Rlimit{Cur: n, Max: n})
}

func openDescriptors() int {
	names, _ := os.ReadDir("/proc/self/fd")
	return len(names)
}

func runOnce(c Command) (Exit, error) {
	j, err := testLocal().Start(context.Background(), c)
	if err != nil {
		return Exit{}, err
	}
	defer j.Close()
	<-j.Done()
	return j.Exit(), nil
}

func fewDescriptors(c Command) error {
	if err := limit(unix.RLIMIT_NOFILE, 64); err != nil {
		return err
	}
	before := 0
	for i := range 12 {
		if e, err := runOnce(c); err != nil || e.Code != 7 {
			return fmt.Errorf("start %d: %+v, %w", i, e, err)
		}
		if i == 0 {
			before = openDescriptors()
		}
	}
	if after := openDescriptors(); after > before {
		return fmt.Errorf("%d descriptors are open after 12 jobs, %d after one", after, before)
	}
	return nil
}

func smallFiles(c Command) error {
	if err := limit(unix.RLIMIT_FSIZE, 64<<10); err != nil {
		return err
	}
	e, err := runOnce(c)
	if err != nil || e.Code != 0 || !strings.Contains(e.Detail, "could not be written") {
		return fmt.Errorf("exit %+v, %v: want code 0 and the loss in words", e, err)
	}
	return nil
}

func noDescriptor(c Command) error {
	if err := limit(unix.RLIMIT_NOFILE, 64); err != nil {
		return err
	}
	var held []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		held = append(held, f)
	}
	for _, spare := range []int{0, 2, 4, 6} { // it may fail at any point
		for len(held) > 0 && 64-openDescriptors() < spare-1 {
			held[len(held)-1].Close()
			held = held[:len(held)-1]
		}
		_, err := runOnce(c)
		var e *StartError
		if !errors.As(err, &e) || !errors.Is(err, unix.EMFILE) || !strings.Contains(e.Advice, "ulimit -n") || !e.Internal {
			return fmt.Errorf("with %d descriptors to spare: %v, want a StartError with EMFILE and advice", spare, err)
		}
	}
	for _, f := range held {
		f.Close()
	}
	if e, err := runOnce(c); err != nil || e.Code != 7 {
		return fmt.Errorf("after they were closed: %+v, %w", e, err)
	}
	return nil
}

func noProcess(c Command) error {
	warmThreads() // the runtime cannot create any under the limit
	if err := limit(unix.RLIMIT_NPROC, 1); err != nil {
		return err
	}
	_, err := runOnce(c)
	var e *StartError
	if err == nil {
		return fmt.Errorf("this user has no limit on processes: %w", errors.ErrUnsupported)
	}
	if !errors.As(err, &e) || !errors.Is(err, unix.EAGAIN) || !strings.Contains(e.Advice, "ulimit -u") {
		return fmt.Errorf("%v, want a StartError with EAGAIN and advice", err)
	}
	return nil
}

// warmThreads makes the runtime keep some idle threads.
func warmThreads() {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			runtime.LockOSThread()
			unix.Nanosleep(&unix.Timespec{Nsec: 20e6}, nil)
			runtime.UnlockOSThread()
		})
	}
	wg.Wait()
}

func TestLookup(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	write(t, filepath.Join(a, "plain"), "", 0o644)
	write(t, filepath.Join(b, "plain"), "", 0o755)
	write(t, filepath.Join(b, "second"), "", 0o644)
	if err := os.Mkdir(filepath.Join(a, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=/nowhere", "PATH=" + a + ":" + b}
	for name, tc := range map[string]struct {
		name, want string
		err        error
	}{
		"with a slash":             {"./x", "./x", nil},
		"the executable one":       {"plain", b + "/plain", nil},
		"only one not executable":  {"second", b + "/second", nil},
		"a directory is not meant": {"dir", "", fs.ErrNotExist},
		"nowhere":                  {"none", "", fs.ErrNotExist},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := lookup(tc.name, env)
			if got != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("lookup(%q) = %q, %v; want %q, %v", tc.name, got, err, tc.want, tc.err)
			}
		})
	}
}

// The recipe applies to the job from its first instruction.
func TestRecipeHoldsBeforeTheJobBegins(t *testing.T) {
	c := testCommand(t, "sleep")
	c.Allocation = resources.Allocation{CPUs: 1}
	j := start(t, testLocal(), c)
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(j.Handle().PID, &set); err != nil {
		t.Fatal(err)
	}
	if set.Count() != 1 {
		t.Errorf("the job may use %d CPUs, want 1; %q", set.Count(), j.Enforced())
	}
	if !slices.ContainsFunc(j.Enforced(), func(s string) bool { return strings.Contains(s, "CPU") }) {
		t.Errorf("Enforced() = %q says nothing of CPUs", j.Enforced())
	}
}

func TestApplyLive(t *testing.T) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil || all.Count() < 2 {
		t.Skip("this machine gives us one CPU only")
	}
	c := testCommand(t, "worker", "0", "sleep", "wait")
	j := start(t, testLocal(), c)
	worker := saysPID(t, j, "worker ")
	not, err := j.Apply(resources.Allocation{CPUs: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("not applied: %q", not)
	for _, pid := range []int{j.Handle().PID, worker.PID} {
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(pid, &set); err != nil || set.Count() != 2 {
			t.Errorf("process %d may use %d CPUs (%v), want 2", pid, set.Count(), err)
		}
	}
	j.Close()
	next := adopt(t, j.Handle())
	if not, err := next.Apply(resources.Allocation{CPUs: 1}); err != nil {
		t.Errorf("after adoption: %q, %v", not, err)
	}
	if _, err := next.Stop(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	unix.Wait4(j.Handle().KeeperPID, nil, 0, nil)
	if _, err := next.Apply(resources.Allocation{CPUs: 1}); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("Apply after the end: %v, want os.ErrProcessDone", err)
	}
}

// forking is an enforcer of a job that starts a process during the first change.
type forking struct {
	enforcer
	updated [][]int
}

func (f *forking) PIDs() ([]int, bool) {
	return []int{os.Getpid(), os.Getppid()}[:min(1+len(f.updated), 2)], true
}

func (f *forking) Update(_ resources.Allocation, pids []int) ([]string, error) {
	f.updated = append(f.updated, pids)
	return []string{"a part is not applied"}, nil
}

func (f *forking) State() []byte { return []byte("{}") }

// TestApplyToNewProcesses: a change includes the processes that start while it is made, each once, and reports each part that
// is not applied once.
func TestApplyToNewProcesses(t *testing.T) {
	f := &forking{}
	j := &job{dir: t.TempDir(), done: make(chan struct{}), enforce: f}
	not, err := j.Apply(resources.Allocation{CPUs: 1})
	if want := [][]int{{os.Getpid()}, {os.Getppid()}}; err != nil || len(not) != 1 || !reflect.DeepEqual(f.updated, want) {
		t.Errorf("updated %v, not applied %q, %v; want %v", f.updated, not, err, want)
	}
}

// TestStartWithoutSpace: a start for which there is no disk space, or no quota, is reported with this reason.
func TestStartWithoutSpace(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{unix.ENOSPC: "no space is left", unix.EDQUOT: "the disk quota is used up"} {
		f := shortage("write job.stdout", &fs.PathError{Op: "write", Path: "job.stdout", Err: errno})
		if text := f.String(); !strings.HasPrefix(text, want) || !strings.Contains(text, "free disk space") {
			t.Errorf("%v: %q, want %q, and the advice", errno, text, want)
		}
		if err := f.err(nil, time.Now()); !errors.Is(err, errno) {
			t.Errorf("%v is not %v", err, errno)
		}
	}
}
