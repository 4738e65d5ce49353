package observe_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"trainopt/optimizer/observe"
)

// far is the time within which a process must react, however busy the machine is.
const far = 2 * time.Minute

// job is the directory of a job with the module and its lease.
type job struct {
	t    *testing.T
	dir  string
	last int // step of the last event
}

func newJob(t *testing.T) *job {
	t.Helper()
	j := &job{t: t, dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(j.dir, "optimize_lease.py"), observe.Python(), 0o600); err != nil {
		t.Fatal(err)
	}
	return j
}

// grant replaces the lease.
func (j *job) grant(n int, until float64, epoch int) {
	j.t.Helper()
	text := fmt.Sprintf(`{"n": %d, "until": %.3f, "epoch": %d}`, n, until, epoch)
	temporary := filepath.Join(j.dir, "lease.new")
	if err := os.WriteFile(temporary, []byte(text), 0o600); err != nil {
		j.t.Fatal(err)
	}
	if err := os.Rename(temporary, filepath.Join(j.dir, "lease.json")); err != nil {
		j.t.Fatal(err)
	}
}

// process is a running script.
type process struct {
	*exec.Cmd
	t     *testing.T
	lines *bufio.Scanner
	errs  strings.Builder
}

// start runs a script of testdata with further environment variables and waits until it is ready.
func (j *job) start(python, script string, env []string, args ...string) *process {
	j.t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", script))
	if err != nil {
		j.t.Fatal(err)
	}
	p := &process{Cmd: exec.Command(python, append([]string{path}, args...)...), t: j.t}
	p.Env = append(os.Environ(), "PYTHONPATH="+j.dir, "PYTHONDONTWRITEBYTECODE=1")
	p.Env = append(p.Env, env...)
	out, err := p.StdoutPipe()
	if err != nil {
		j.t.Fatal(err)
	}
	p.Stderr = &p.errs
	if err := p.Start(); err != nil {
		j.t.Fatal(err)
	}
	kill := time.AfterFunc(far, func() { p.Process.Kill() })
	j.t.Cleanup(func() { kill.Stop(); p.Process.Kill() })
	p.lines = bufio.NewScanner(out)
	return p
}

// ready waits for the first line.
func (p *process) ready() *process {
	p.t.Helper()
	if !p.lines.Scan() {
		p.t.Fatalf("no output: %s", &p.errs)
	}
	return p
}

// end returns the last line of output and the exit code.
func (p *process) end() (last string, code int) {
	p.t.Helper()
	for p.lines.Scan() {
		last = p.lines.Text()
	}
	err := p.Wait()
	if p.ProcessState == nil {
		p.t.Fatal(err)
	}
	if p.ProcessState.ExitCode() == 1 {
		p.t.Fatalf("%v: %s", err, &p.errs)
	}
	return last, p.ProcessState.ExitCode()
}

func python(t *testing.T) string {
	t.Helper()
	p, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	return p
}

func (j *job) leased(more ...string) []string {
	return append([]string{"OPTIMIZER_LEASE=" + filepath.Join(j.dir, "lease.json")}, more...)
}

// events returns the names of the reported events in order, progress left out, and sets last to the last step.
func (j *job) events() string {
	j.t.Helper()
	f, err := os.Open(filepath.Join(j.dir, "lease.jsonl"))
	if err != nil {
		j.t.Fatal(err)
	}
	defer f.Close()
	var names []string
	for d := json.NewDecoder(f); ; {
		var line struct {
			Event   string
			Seconds *float64
			Step    int
			Epoch   int
		}
		if err := d.Decode(&line); err == io.EOF {
			return strings.Join(names, " ")
		} else if err != nil {
			j.t.Fatal(err)
		}
		j.last = line.Step
		if timed := line.Event == "load" || line.Event == "save"; timed != (line.Seconds != nil) {
			j.t.Errorf("%+v: only load and save have seconds", line)
		}
		if line.Event != "progress" {
			names = append(names, line.Event)
		}
	}
}

func (j *job) state() string {
	text, _ := os.ReadFile(filepath.Join(j.dir, "state"))
	return string(text)
}

func now() float64 { return float64(time.Now().UnixMilli()) / 1000 }

// TestWithoutLeaseDataPassesThrough: no lease, no reports, no handlers.
func TestWithoutLeaseDataPassesThrough(t *testing.T) {
	j := newJob(t)
	p := j.start(python(t), "loop.py", nil, filepath.Join(j.dir, "state"), "7", "0", "3").ready()
	if last, code := p.end(); last != "steps 21 ended False" || code != 0 {
		t.Errorf("%q, exit %d; want 21 steps and exit 0", last, code)
	}
	if _, err := os.Stat(filepath.Join(j.dir, "lease.jsonl")); err == nil {
		t.Error("reports were written without a lease")
	}
	p = j.start(python(t), "loop.py", nil, filepath.Join(j.dir, "state"), "100000", "0.01").ready()
	p.Process.Signal(syscall.SIGUSR1)
	p.end()
	if s := p.ProcessState.Sys().(syscall.WaitStatus); !s.Signaled() || s.Signal() != syscall.SIGUSR1 {
		t.Errorf("SIGUSR1 without a lease: %v, want its default action", p.ProcessState)
	}
}

// TestLeaseEnds checks the ways in which a lease ends, and that the work continues from the saved state.
func TestLeaseEnds(t *testing.T) {
	for name, end := range map[string]func(*job, *process){
		"until":   func(j *job, _ *process) { j.grant(1, now()-1, 1) },
		"SIGUSR1": func(_ *job, p *process) { p.Process.Signal(syscall.SIGUSR1) },
		"SIGTERM": func(_ *job, p *process) { p.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			j.grant(0, now()+3600, 1)
			state := filepath.Join(j.dir, "state")
			p := j.start(python(t), "loop.py", j.leased("OPTIMIZER_STRETCH=1"), state, "1000000", "0.005").ready()
			time.Sleep(100 * time.Millisecond)
			end(j, p)
			last, code := p.end()
			if !strings.HasSuffix(last, "ended True") || code != 75 {
				t.Fatalf("%q, exit %d; want an end of the lease and exit 75", last, code)
			}
			if got, want := j.events(), "load start stop save leave"; got != want {
				t.Errorf("events %q, want %q", got, want)
			}
			var steps int
			fmt.Sscanf(last, "steps %d", &steps)
			if want := fmt.Sprintf(`{"step": %d}`, steps); j.state() != want {
				t.Errorf("saved %s, want %s", j.state(), want)
			}
			// The next stretch makes the rest.
			j.grant(0, now()+3600, 2)
			p = j.start(python(t), "loop.py", j.leased("OPTIMIZER_STRETCH=2"), state, "3", "0.001").ready()
			if last, code := p.end(); last != "steps 3 ended False" || code != 0 {
				t.Errorf("next stretch: %q, exit %d", last, code)
			}
			if want := fmt.Sprintf(`{"step": %d}`, steps+3); j.state() != want {
				t.Errorf("saved %s, want %s", j.state(), want)
			}
			if !strings.HasSuffix(j.events(), "load start save complete") {
				t.Errorf("events %q do not end with complete", j.events())
			}
			if j.last != steps+3 {
				t.Errorf("step %d reported at the end, want %d of both stretches", j.last, steps+3)
			}
		})
	}
}

// TestClocksApart: a lease ends when it ends for the scheduler, whatever the clocks of the file system, of the scheduler and of
// this machine show.
func TestClocksApart(t *testing.T) {
	for _, apart := range []float64{-600, 600} {
		j, begun := newJob(t), time.Now()
		at := now() + apart // the scheduler's clock
		path := filepath.Join(j.dir, "lease.json")
		if err := os.WriteFile(path, fmt.Appendf(nil, `{"n": 1, "until": %.3f, "at": %.3f, "epoch": 1}`, at+3, at), 0o600); err != nil {
			t.Fatal(err)
		}
		p := j.start(python(t), "loop.py", j.leased(), filepath.Join(j.dir, "state"), "1000000", "0.005").ready()
		last, code := p.end()
		if took := time.Since(begun); code != 75 || !strings.HasSuffix(last, "ended True") || took < 2*time.Second {
			t.Errorf("%g s: %q, exit %d after %v; want the end of the lease after 3 s", apart, last, code, took)
		}
		if left, _ := filepath.Glob(path + ".clock*"); len(left) > 0 {
			t.Errorf("files are left: %v", left)
		}
	}
}

// TestSilentScheduler: a job whose lease is not renewed continues until it ends, and no longer. A torn or missing file
// changes nothing.
func TestSilentScheduler(t *testing.T) {
	j := newJob(t)
	until := time.Now().Add(1500 * time.Millisecond)
	j.grant(0, float64(until.UnixMilli())/1000, 1)
	p := j.start(python(t), "loop.py", j.leased(), filepath.Join(j.dir, "state"), "1000000", "0.005").ready()
	os.WriteFile(filepath.Join(j.dir, "lease.json"), []byte(`{"n": 1, "unt`), 0o600)
	time.Sleep(250 * time.Millisecond)
	os.Remove(filepath.Join(j.dir, "lease.json"))
	last, code := p.end()
	if code != 75 || !strings.HasSuffix(last, "ended True") || time.Now().Before(until) {
		t.Errorf("%q, exit %d, %v before the end of the lease", last, code, time.Until(until))
	}
}

// TestFenced: a process of an earlier stretch exits without saving, whether it iterates or saves.
func TestFenced(t *testing.T) {
	j := newJob(t)
	j.grant(0, now()+3600, 4)
	p := j.start(python(t), "loop.py", j.leased(), filepath.Join(j.dir, "state"), "1000000", "0.005").ready()
	j.grant(0, now()+3600, 5)
	if _, code := p.end(); code != 75 {
		t.Errorf("iterating: exit %d, want 75", code)
	}
	// The process learns of the other stretch only when it saves: its only batch is long.
	p = j.start(python(t), "loop.py", j.leased("OPTIMIZER_STRETCH=4"), filepath.Join(j.dir, "state"), "0", "0").ready()
	if _, code := p.end(); code != 75 {
		t.Errorf("saving: exit %d, want 75", code)
	}
	if j.state() != "" {
		t.Errorf("the fenced process saved %s", j.state())
	}
	if got := j.events(); strings.Contains(got, "save") || strings.Count(got, "stop") != 2 {
		t.Errorf("events %q", got)
	}
}

// TestRanksStopAtTheSameStep runs ranks of different speed, without any synchronisation of their own, and ends the
// lease at random times.
func TestRanksStopAtTheSameStep(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 6 {
		world, seconds, wait := 2+random.IntN(2), []string{"0", "0.002", "0.05"}[round%3], time.Duration(random.IntN(1200))*time.Millisecond
		t.Run(fmt.Sprintf("%d ranks of %s s", world, seconds), func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			j.grant(0, now()+3600, 1)
			var ranks []*process
			for r := range world {
				env := j.leased("OPTIMIZER_STRETCH=1", fmt.Sprint("RANK=", r), fmt.Sprint("WORLD_SIZE=", world), "MASTER_PORT=29500")
				ranks = append(ranks, j.start(python(t), "loop.py", env, filepath.Join(j.dir, "state"), "7", seconds, "1000000000"))
			}
			for _, p := range ranks {
				p.ready()
			}
			time.Sleep(wait)
			if round%2 == 0 {
				j.grant(0, 0, 1)
			} else {
				for _, p := range ranks {
					p.Process.Signal(syscall.SIGTERM)
				}
			}
			first := ""
			for r, p := range ranks {
				last, code := p.end()
				if code != 75 {
					t.Fatalf("rank %d: %q, exit %d", r, last, code)
				}
				if first == "" {
					first = last
				}
				if last != first {
					t.Errorf("rank %d: %q, rank 0: %q", r, last, first)
				}
			}
		})
	}
}

// TestTorchRanksStopAtTheSameStep does so for torch.distributed.
func TestTorchRanksStopAtTheSameStep(t *testing.T) {
	if testing.Short() {
		t.Skip("imports torch twice")
	}
	p := python(t)
	if exec.Command(p, "-c", "import torch.distributed as d; assert d.is_gloo_available() if hasattr(d, 'is_gloo_available') else True").Run() != nil {
		t.Skip("no torch with gloo")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	j := newJob(t)
	j.grant(0, now()+3600, 1)
	var ranks []*process
	for r := range 2 {
		ranks = append(ranks, j.start(p, "ddp.py", j.leased(fmt.Sprint("RANK=", r), "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", fmt.Sprint("MASTER_PORT=", port), "OMP_NUM_THREADS=1")))
	}
	for _, p := range ranks {
		p.ready()
	}
	time.Sleep(time.Second)
	j.grant(0, 0, 1)
	a, codeA := ranks[0].end()
	b, codeB := ranks[1].end()
	if a != b || codeA != 75 || codeB != 75 || !strings.HasSuffix(a, "ended True") {
		t.Errorf("rank 0: %q (exit %d), rank 1: %q (exit %d)", a, codeA, b, codeB)
	}
}

// TestGavelIterator runs a loop with the calls of Gavel's workloads, interrupted once.
func TestGavelIterator(t *testing.T) {
	j := newJob(t)
	j.grant(0, now()+3600, 1)
	p := j.start(python(t), "gavel.py", j.leased(), j.dir, "1000000").ready()
	if got := p.lines.Text(); got != "ready 5 toy" {
		t.Errorf("%q: the iterator lacks the attributes of the loader", got)
	}
	time.Sleep(200 * time.Millisecond)
	j.grant(0, 0, 1)
	last, code := p.end()
	var steps int
	fmt.Sscanf(last, "steps %d", &steps)
	if code != 75 || !strings.HasSuffix(last, "done False batches [0]") {
		t.Fatalf("%q, exit %d; want the first batch only, and no end of the work", last, code)
	}
	j.grant(0, now()+3600, 2)
	p = j.start(python(t), "gavel.py", j.leased(), j.dir, fmt.Sprint(steps+12)).ready()
	if last, code := p.end(); last != fmt.Sprintf("steps %d done True batches [0]", steps+12) || code != 0 {
		t.Errorf("next stretch: %q after %d steps, exit %d", last, steps, code)
	}
	if got, want := j.events(), "load start stop save leave load start complete save"; got != want {
		t.Errorf("events %q, want %q", got, want)
	}
}

// TestFullDiskDoesNotStopTheTraining: neither reports nor the agreement can be written.
func TestFullDiskDoesNotStopTheTraining(t *testing.T) {
	j := newJob(t)
	j.grant(0, now()+3600, 1)
	// A directory in the place of a file fails for every user, as a full disk does.
	for _, name := range []string{"lease.jsonl", "agreed-1--.json"} {
		if err := os.Mkdir(filepath.Join(j.dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p := j.start(python(t), "loop.py", j.leased("RANK=0", "WORLD_SIZE=2"), filepath.Join(j.dir, "state"), "50", "0").ready()
	if last, code := p.end(); last != "steps 50 ended False" || code != 0 {
		t.Errorf("%q, exit %d", last, code)
	}
}
