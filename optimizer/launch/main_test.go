package launch

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"trainopt/resources"
)

// The test binary also serves as keeper, jobs and agents of its tests.
const (
	asKeeper = "__keeper"
	asChild  = "__child"
	asAgent  = "__agent"

	asPoorAgent = "__poor-agent" // with a resource limit

	asWokenKeeper    = "__woken-keeper"    // does not look at the control file by itself
	asSlowKeeper     = "__slow-keeper"     // sleeps before it is the keeper
	asSlowTrampoline = "__slow-trampoline" // a keeper whose trampoline sleeps
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case asWokenKeeper:
			keeperTick = 3 * patience
			os.Exit(KeeperMain(os.Args[2:]))
		case asKeeper:
			os.Exit(KeeperMain(os.Args[2:]))
		case asSlowKeeper:
			time.Sleep(patience)
			os.Exit(KeeperMain(os.Args[2:]))
		case asSlowTrampoline:
			if len(os.Args) > 2 {
				time.Sleep(patience)
			}
			os.Exit(KeeperMain(os.Args[2:]))
		case asChild:
			os.Exit(childMain(os.Args[2:]))
		case asPoorAgent:
			os.Exit(poorAgentMain(os.Args[2:]))
		case asAgent:
			os.Exit(agentMain(os.Args[2:]))
		}
	}
	for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGINT} {
		if signal.Ignored(sig) { // under nohup or in the background of a script; signals caught here have their default action in the processes of the tests
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	os.Setenv("GORACE", noRaceSleep) // otherwise each keeper built with -race waits a second before it exits
	goleak.VerifyTestMain(m)
}

const noRaceSleep = "atexit_sleep_ms=0"

// patience bounds the waits of a test; it expires only if the test fails.
const patience = 2 * time.Minute

// quick shortens the timeouts of the orderly end for tests.
var quick = endTimeouts{Linger: 300 * time.Millisecond, Clear: 500 * time.Millisecond, KillWait: patience}

func testLocal() Local {
	return Local{Self: []string{selfExe(), asKeeper}, pace: quick}
}

func selfExe() string {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return exe
}

// testCommand is a command that runs this binary with one of the behaviours of childMain.
func testCommand(t testing.TB, args ...string) Command {
	t.Helper()
	dir := t.TempDir()
	return Command{
		Args:       append([]string{selfExe(), asChild}, args...),
		Dir:        dir,
		Env:        []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GORACE=" + noRaceSleep, "OPTIMIZER_RUN_ID=" + filepath.Base(filepath.Dir(dir)) + strconv.Itoa(os.Getpid())},
		RunDir:     filepath.Join(dir, "run"),
		Allocation: resources.Allocation{CPUs: 1},
		Grace:      patience,
	}
}

// start starts c and ensures that none of its processes outlives the test.
func start(t testing.TB, l Local, c Command) *job {
	t.Helper()
	j, err := l.Start(context.Background(), c)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	cleanUp(t, j)
	return j.(*job)
}

func cleanUp(t testing.TB, j Job) {
	t.Cleanup(func() {
		if _, err := j.Stop(context.Background(), 0); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Errorf("clean up: %v", err)
		}
		j.Close()
		if words := output(t, j.Handle().RunDir, keeperLog); strings.Contains(words, "DATA RACE") || strings.Contains(words, "goroutine ") {
			t.Errorf("the keeper says: %s", words)
		}
	})
}

// waitEnd waits for the end of a job, with a generous timeout.
func waitEnd(t testing.TB, j Job) Exit {
	t.Helper()
	select {
	case <-j.Done():
		return j.Exit()
	case <-time.After(patience):
		t.Fatalf("the job did not end; stdout: %q", output(t, j.Handle().RunDir, stdoutFile))
		return Exit{}
	}
}

func output(t testing.TB, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(data)
}

// says waits until the job has printed a line that begins with word, and returns the rest of it.
func says(t testing.TB, j Job, word string) string {
	t.Helper()
	return said(t, j.Handle().RunDir, word)
}

// said waits until the job of a run directory has printed a line that begins with word, and returns the rest of the line.
func said(t testing.TB, runDir, word string) string {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for line := range strings.Lines(output(t, runDir, stdoutFile)) {
			if rest, ok := strings.CutPrefix(line, word); ok && strings.HasSuffix(rest, "\n") {
				return strings.TrimSpace(rest)
			}
		}
	}
	t.Fatalf("the job did not say %q; stdout %q, stderr %q", word, output(t, runDir, stdoutFile), output(t, runDir, stderrFile))
	return ""
}

func saysPID(t testing.TB, j Job, word string) process {
	t.Helper()
	pid, err := strconv.Atoi(says(t, j, word))
	if err != nil {
		t.Fatal(err)
	}
	s, err := readStat(pid)
	if err != nil {
		t.Fatalf("process %d that the job started: %v", pid, err)
	}
	return s.process
}

func mustEnd(t testing.TB, p process, what string) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if !p.alive() {
			return
		}
	}
	t.Errorf("%s (pid %d) is still alive", what, p.PID)
	p.signal(unix.SIGKILL)
}

// childMain implements the behaviours of the jobs in these tests.
func childMain(args []string) int {
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	number := func(i int) int { n, _ := strconv.Atoi(arg(i)); return n }
	switch arg(0) {
	case "exit":
		return number(1)
	case "sleep":
		fmt.Println("ready")
		time.Sleep(3 * patience)
	case "env":
		for _, v := range os.Environ() {
			fmt.Printf("%q\n", v)
		}
		for _, a := range args[1:] {
			fmt.Printf("arg %q\n", a)
		}
	case "term": // prints when SIGTERM arrives, exits with the code
		caught := make(chan os.Signal, 1)
		signal.Notify(caught, unix.SIGTERM)
		fmt.Println("ready")
		<-caught
		fmt.Println("term", Monotonic().Nanoseconds())
		time.Sleep(time.Duration(number(2)) * time.Millisecond)
		return number(1)
	case "deaf":
		signal.Ignore(unix.SIGTERM, unix.SIGUSR1)
		fmt.Println("ready")
		time.Sleep(3 * patience)
	case "save": // a resumable script
		caught := make(chan os.Signal, 1)
		signal.Notify(caught, unix.SIGUSR1, unix.SIGTERM)
		fmt.Println("ready")
		if <-caught == unix.SIGUSR1 {
			fmt.Println("saved")
			return number(1)
		}
		fmt.Println("terminated")
		return 1
	case "die":
		dieOf(syscall.Signal(number(1)))
	case "double": // starts a daemon through a child that exits, and continues
		c := exec.Command(selfExe(), asChild, "daemon", "0")
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Run(); err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println("ready")
		time.Sleep(3 * patience)
	case "daemon": // leaves a process in another session that ignores SIGTERM, and exits
		c := exec.Command(selfExe(), asChild, "deaf")
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println("daemon", c.Process.Pid)
		return number(1)
	case "worker": // leaves a worker of its group that holds stdout, and exits
		c := exec.Command(selfExe(), asChild, arg(2))
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Start(); err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println("worker", c.Process.Pid)
		if arg(3) == "wait" {
			c.Wait()
		}
		return number(1)
	case "late": // leaves a worker that has output to print
		c := exec.Command(selfExe(), asChild, "later", arg(1))
		c.Stdout = os.Stdout
		c.Start()
	case "later":
		time.Sleep(time.Duration(number(1)) * time.Millisecond)
		fmt.Println("late words")
	case "chatter": // prints lines with a short pause after each, and exits with the code
		for i := range number(1) {
			fmt.Println("chatter", i)
			time.Sleep(20 * time.Millisecond)
		}
		return number(2)
	case "flood":
		flood(number(1), number(2))
	case "line":
		block := strings.Repeat("x", 1<<20)
		for range number(1) {
			io.WriteString(os.Stderr, block)
		}
		fmt.Fprintln(os.Stderr)
		if arg(2) == "stay" {
			fmt.Println("ready")
			time.Sleep(3 * patience)
		}
	case "eat": // allocates memory, in MiB
		held, err := unix.Mmap(-1, 0, number(1)<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		for i := 0; i < len(held); i += 4096 {
			held[i] = 1
		}
		time.Sleep(time.Duration(number(2)) * time.Millisecond)
	case "feed": // a worker allocates memory; main detects its death and exits with the code
		if err := exec.Command(selfExe(), asChild, "eat", arg(2), "0").Run(); err == nil {
			return 0
		}
		return number(1)
	case "burners":
		var all []*exec.Cmd
		for range number(1) {
			c := exec.Command(selfExe(), asChild, "burn", arg(2))
			c.Start()
			all = append(all, c)
		}
		for _, c := range all {
			c.Wait()
		}
	case "rewrite": // replaces a file repeatedly by two versions of different length
		for i := 0; ; i++ {
			v := map[string]any{"Schema": fileSchema, "N": i, "Pad": strings.Repeat("x", 4096*(i%2)), "Same": i}
			data, err := json.Marshal(v)
			if err == nil {
				err = writeFile(arg(1), data, i%3 == 0)
			}
			if err != nil {
				fmt.Println(err)
				return 1
			}
			if i == 1 {
				fmt.Println("ready")
			}
		}
	case "burn": // uses processor time, in ms
		for used := time.Duration(0); used < time.Duration(number(1))*time.Millisecond; {
			var ru unix.Rusage
			if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
				return 1
			}
			used = time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
		}
	default:
		fmt.Fprintf(os.Stderr, "unknown behaviour %q\n", args)
		return 99
	}
	return 0
}

// dieOf ends this process by a signal. It first resets the signal's action by a system call, bypassing the runtime's
// handler.
func dieOf(sig syscall.Signal) {
	unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	var byDefault [32]byte // struct sigaction: SIG_DFL, no flags, empty mask
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&byDefault)), 0, 8, 0, 0)
	unix.Kill(os.Getpid(), sig)
	time.Sleep(patience)
}

// flood prints n lines on stderr in blocks of a hundred, at rate lines per second (0: as fast as possible).
func flood(n, rate int) {
	w := bufio.NewWriter(os.Stderr)
	began := time.Now()
	for i := range n {
		fmt.Fprintf(w, "line %d of the flood, as long as a line of a training log usually is\n", i)
		if i%100 == 99 {
			w.Flush()
			if rate > 0 {
				time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(rate))))
			}
		}
	}
	w.Flush()
}

// agentMain is an agent process: it starts the command given as JSON, prints the handle, waits for the end and prints
// the exit.
func agentMain(args []string) int {
	var c Command
	if err := json.Unmarshal([]byte(args[0]), &c); err != nil {
		fmt.Println(err)
		return 1
	}
	j, err := testLocal().Start(context.Background(), c)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	out := json.NewEncoder(os.Stdout)
	out.Encode(j.Handle())
	<-j.Done()
	out.Encode(j.Exit())
	return 0
}

// agent starts an agent in its own process and group, and returns it with the handle of its job.
func agent(t testing.TB, c Command) (*exec.Cmd, Handle) {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	a := exec.Command(selfExe(), asAgent, string(text))
	a.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := a.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(); err != nil {
		t.Fatal(err)
	}
	var h Handle
	if err := json.NewDecoder(out).Decode(&h); err != nil {
		a.Process.Kill()
		a.Wait()
		t.Fatalf("the agent did not say what it started: %v", err)
	}
	t.Cleanup(func() { a.Process.Kill(); a.Wait() })
	return a, h
}

func adopt(t testing.TB, h Handle) *job {
	t.Helper()
	j, err := testLocal().Adopt(context.Background(), h)
	if err != nil {
		t.Fatalf("adopt: %v", err)
	}
	cleanUp(t, j)
	return j.(*job)
}
