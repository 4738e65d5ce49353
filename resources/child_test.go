package resources

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sink keeps the busy loops from being empty.
var sink atomic.Int64

// The test binary is its own child: with RESOURCES_CHILD set it runs the named part.
func TestMain(m *testing.M) {
	if part := os.Getenv("RESOURCES_CHILD"); part != "" {
		childMain(part)
		return
	}
	os.Exit(m.Run())
}

// childMain applies the recipe and execs itself first, like a job's first process, then runs the part.
func childMain(part string) {
	if text := os.Getenv("RESOURCES_RECIPE"); text != "" {
		var r Recipe
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			fmt.Println("failed:", err)
			os.Exit(9)
		}
		for _, f := range r.Apply() {
			fmt.Println("failed:", f)
		}
		os.Unsetenv("RESOURCES_RECIPE")
		err := syscall.Exec("/proc/self/exe", os.Args, os.Environ())
		fmt.Println("failed:", err)
		os.Exit(9)
	}
	fmt.Println("ready")
	switch part {
	case "busy": // three threads that burn CPU
		runtime.GOMAXPROCS(3)
		for range 3 {
			go func() {
				runtime.LockOSThread()
				for x := 0; ; x++ {
					sink.Store(int64(x))
				}
			}()
		}
		time.Sleep(time.Minute)
	case "choose": // a CPU of the machine of stdin
		var proc string
		fmt.Scan(&proc)
		e, err := NewEnforcer(EnforceOptions{Allocation: Allocation{CPUs: 1}, Roots: Roots{Proc: proc, Cgroup: proc}})
		if err != nil {
			fmt.Println("failed:", err)
			return
		}
		fmt.Println(e.s.CPUIDs)
		time.Sleep(time.Minute)
		e.Release()
	case "sleep":
		time.Sleep(time.Minute)
	case "tree": // a child and a grandchild that leave the process group
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), "RESOURCES_CHILD=sleep")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			fmt.Println("failed:", err)
		}
		fmt.Println("child", cmd.Process.Pid)
		time.Sleep(time.Minute)
	case "eat": // touches the number of MiB of each line of stdin, and keeps them
		var keep [][]byte
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			var mib int
			fmt.Sscan(in.Text(), &mib)
			b, err := unix.Mmap(-1, 0, mib<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
			if err != nil {
				fmt.Println("refused:", err)
				continue
			}
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			keep = append(keep, b)
			fmt.Println("ate", mib)
		}
		runtime.KeepAlive(keep)
	}
}

// child is a process started under a recipe.
type child struct {
	*exec.Cmd
	t   *testing.T
	out *bufio.Scanner
	in  interface{ Write([]byte) (int, error) }
	end sync.Once
	err error
}

// wait reaps the child once, from any goroutine.
func (c *child) wait() error {
	c.end.Do(func() { c.err = c.Cmd.Wait() })
	return c.err
}

// startChild waits until the child runs its part with the whole recipe applied.
func startChild(t *testing.T, part string, r Recipe) *child {
	t.Helper()
	c := startChildRaw(t, part, r)
	if line := c.line(); line != "ready" {
		t.Fatalf("the child said %q, want ready", line)
	}
	return c
}

func startChildRaw(t *testing.T, part string, r Recipe) *child {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "RESOURCES_CHILD="+part, "RESOURCES_RECIPE="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{Cmd: cmd, t: t, out: bufio.NewScanner(out), in: in}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = c.wait() })
	return c
}

// line waits for the child's next line; empty if it has ended.
func (c *child) line() string {
	if c.out.Scan() {
		return c.out.Text()
	}
	return ""
}

func (c *child) ask(text string) string {
	fmt.Fprintln(c.in, text)
	return c.line()
}

// cpuShare returns the number of CPUs that the process used over d.
func (c *child) cpuShare(d time.Duration) float64 {
	c.t.Helper()
	begin := time.Now() // first, so that a pause of this process makes the result smaller
	before := c.cpuTime()
	time.Sleep(d)
	return (c.cpuTime() - before) / time.Since(begin).Seconds()
}

func (c *child) cpuTime() float64 {
	c.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Process.Pid))
	if err != nil {
		c.t.Fatal(err)
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	var user, system float64
	fmt.Sscan(f[11], &user)
	fmt.Sscan(f[12], &system)
	return (user + system) / 100
}

// affinity returns the mask of the process, as os.sched_getaffinity would.
func (c *child) affinity() []int {
	c.t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(c.Process.Pid, &set); err != nil {
		c.t.Fatal(err)
	}
	return members(set)
}
