package lab

// The fault tests run on Slurm while its daemons, the agent and the supervisors of the stretches are killed. They use a
// cluster of their own, since they kill its daemons: that of internal/lab in $TRAINOPT_LAB-faults, or in .lab-faults of
// the repository if that is 1.

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"trainopt/optimizer/engine"
	"trainopt/optimizer/engine/slurm"
	"trainopt/optimizer/journal"
)

var (
	binaryFlag = flag.String("binary", "", "the program; empty: build it")
	longFlag   = flag.Bool("long", false, "also the faults that take minutes: about a quarter of an hour")
	movesFlag  = flag.Int("moves", 3, "kills of TestMoves")
	seedFlag   = flag.Int64("seed", 1, "of the kills of TestMoves")
)

// patience bounds the wait for an event that must come; only a failing test uses it up.
const patience = 3 * time.Minute

//go:embed training.py
var training string

func TestMain(m *testing.M) {
	flag.Parse()
	if dir := os.Getenv(variable); dir == "1" {
		if root, err := filepath.Abs("../.."); err == nil {
			os.Setenv(variable, filepath.Join(root, ".lab-faults"))
		}
	} else if dir != "" {
		os.Setenv(variable, dir+"-faults")
	}
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

var built struct {
	once      sync.Once
	dir, path string
	err       error
}

// binary returns the path of the program.
func binary(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.path = *binaryFlag; built.path != "" {
			return
		}
		if built.dir, built.err = os.MkdirTemp("", "faults"); built.err != nil {
			return
		}
		built.path = filepath.Join(built.dir, "optimize")
		if out, err := exec.Command("go", "build", "-o", built.path, "trainopt/cmd/optimize").CombinedOutput(); err != nil {
			built.err = fmt.Errorf("build the program: %w: %s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

// world is a folder with the training, and the cluster.
type world struct {
	*testing.T
	*Lab
	dir     string
	program string
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, Lab: Require(t), dir: t.TempDir()}
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	w.program = binary(t)
	if err := os.WriteFile(filepath.Join(w.dir, "training.py"), []byte(training), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.Heal(t)
		if t.Failed() {
			w.describe()
		}
		w.slurm("scancel", "--me")
		killBelow(w.dir)
	})
	w.await("all nodes idle", func() bool { // a node that does not respond to a new controller yet is "idle*", and not offered
		if drained := w.slurm("sinfo", "--noheader", "--states=drained", "--format=%N"); drained != "" {
			w.slurm("scontrol", "update", "NodeName="+drained, "State=RESUME") // a controller that lost a start repeated it there
		}
		return w.slurm("sinfo", "--noheader", "--partition=gpu", "--format=%t %D") == "idle 4"
	})
	return w
}

// needLong skips a test that takes minutes.
func needLong(t *testing.T) {
	t.Helper()
	if !*longFlag {
		t.Skip("takes minutes: -long")
	}
}

// killBelow kills the processes of a failed test, which name its folder on their command lines.
func killBelow(dir string) {
	for _, pid := range processesBelow(dir) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// processesBelow returns the processes that name a folder on their command lines.
func processesBelow(dir string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		if data, err := os.ReadFile(path); err == nil && bytes.Contains(data, []byte(dir)) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// slurm runs a command of Slurm whose failure does not matter, and returns its output.
func (w *world) slurm(name string, args ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out, err := w.Command(ctx, name, args...).CombinedOutput()
	if err != nil {
		out = fmt.Appendf(out, " (%v)", err)
	}
	return strings.TrimSpace(string(out))
}

// describe logs what helps to find the cause of a failure.
func (w *world) describe() {
	w.Logf("queue:\n%s", w.slurm("squeue", "--states=all"))
	for _, name := range []string{"agent.err", "journal"} {
		text, _ := os.ReadFile(filepath.Join(w.dir, name))
		w.Logf("%s:\n%s", name, text[max(0, len(text)-4000):])
	}
	for _, pattern := range []string{"stretches.json", "owner.json", "stretches/*/node.json", "stretches/*/supervisor.out"} {
		files, _ := filepath.Glob(filepath.Join(w.dir, ".optimize", "runs", "*", pattern))
		for _, file := range files {
			text, _ := os.ReadFile(file)
			w.Logf("%s:\n%s", file, text)
		}
	}
}

// agent is a process of the program.
type agent struct {
	*exec.Cmd
	w    *world
	done chan struct{}
	code int
}

// start runs the program in the background; its messages are appended to agent.err.
func (w *world) start(args ...string) *agent {
	w.Helper()
	cmd := w.command(args...)
	errs, err := os.OpenFile(filepath.Join(w.dir, "agent.err"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		w.Fatal(err)
	}
	cmd.Stderr = errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	a := &agent{Cmd: cmd, w: w, done: make(chan struct{})}
	if err := errors.Join(cmd.Start(), errs.Close()); err != nil {
		w.Fatal(err)
	}
	go func() {
		cmd.Wait()
		a.code = cmd.ProcessState.ExitCode()
		close(a.done)
	}()
	w.Cleanup(a.kill)
	return a
}

func (w *world) command(args ...string) *exec.Cmd {
	cmd := w.Command(context.Background(), w.program, args...)
	cmd.Dir = w.dir
	cmd.Env = slices.DeleteFunc(slices.Clone(w.Env), func(entry string) bool { return strings.HasPrefix(entry, "OPTIMIZE") })
	return cmd
}

// train starts a training of n units of pace seconds on Slurm.
func (w *world) train(units int, pace float64, flags ...string) *agent {
	w.Helper()
	args := append([]string{"--engine", "slurm", "--billing-hour", "1", "--yes", "--planner", "static", "--cpus", "1:1"}, flags...)
	args = append(args, "--fresh", "--train", "training.py", "--", strconv.Itoa(units), fmt.Sprint(pace))
	return w.start(args...)
}

// kill kills the agent with SIGKILL.
func (a *agent) kill() {
	select {
	case <-a.done:
	default:
		a.Process.Kill()
		<-a.done
	}
}

// wait waits for the end of the agent and returns its exit status.
func (a *agent) wait() int {
	a.w.Helper()
	select {
	case <-a.done:
	case <-time.After(patience):
		a.w.Fatalf("the agent did not end within %v", patience)
	}
	return a.code
}

// await polls until a condition holds.
func (w *world) await(what string, holds func() bool) {
	w.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// runDir returns the folder of the only run.
func (w *world) runDir() string {
	w.Helper()
	dirs, _ := filepath.Glob(filepath.Join(w.dir, ".optimize", "runs", "*"))
	if len(dirs) != 1 {
		w.Fatalf("%d runs, want 1", len(dirs))
	}
	return dirs[0]
}

// record returns the record of the run.
func (w *world) record() *journal.Record {
	w.Helper()
	rec, err := journal.ReadRecord(w.runDir())
	if err != nil {
		w.Fatal(err)
	}
	return rec
}

// said reports whether the agent has printed a text.
func (w *world) said(text string) bool {
	data, _ := os.ReadFile(filepath.Join(w.dir, "agent.err"))
	return strings.Contains(string(data), text)
}

// unit is one line of the training's journal.
type unit struct {
	writer string
	n      int
	at     float64
}

func (w *world) units() []unit {
	text, _ := os.ReadFile(filepath.Join(w.dir, "journal"))
	var all []unit
	for line := range strings.Lines(string(text)) {
		var u unit
		if k, err := fmt.Sscan(line, &u.writer, &u.n, &u.at); k != 3 {
			w.Fatalf("journal: %q: %v", line, err)
		}
		all = append(all, u)
	}
	return all
}

// progress waits until the training has done n units in all.
func (w *world) progress(n int) {
	w.Helper()
	w.await(fmt.Sprintf("unit %d", n), func() bool {
		u := w.units()
		return len(u) > 0 && u[len(u)-1].n >= n
	})
}

// nextWriter waits for the first unit of a process other than those so far.
func (w *world) nextWriter(what string, act func()) {
	w.Helper()
	before := writers(w.units())
	act()
	w.await(what+": the next writer", func() bool { return len(writers(w.units())) > len(before) })
}

// writers returns the processes that wrote the journal, in order of their first unit.
func writers(all []unit) []string {
	var names []string
	for _, u := range all {
		if !slices.Contains(names, u.writer) {
			names = append(names, u.writer)
		}
	}
	return names
}

// oneWriter fails the test if two processes wrote at the same time, or work of more than one unit was lost at a change of
// the writer, or any unit was skipped.
func (w *world) oneWriter() {
	w.Helper()
	all := w.units()
	ended := map[string]bool{}
	for i := 1; i < len(all); i++ {
		before, u := all[i-1], all[i]
		if u.writer == before.writer {
			if u.n != before.n+1 {
				w.Errorf("%s wrote unit %d after %d", u.writer, u.n, before.n)
			}
			continue
		}
		ended[before.writer] = true
		if ended[u.writer] {
			w.Errorf("%s wrote unit %d after %s had begun: two writers at a time", u.writer, u.n, before.writer)
		}
		if u.n < before.n || u.n > before.n+1 {
			w.Errorf("%s began at unit %d, %s had done %d: want a loss of one unit at most", u.writer, u.n, before.writer, before.n)
		}
	}
}

// finished checks the end of a training of n units.
func (w *world) finished(a *agent, units int) *journal.Record {
	w.Helper()
	code := a.wait()
	rec := w.record()
	if code != 0 || rec.State != journal.Done {
		w.Errorf("exit status %d, state %s, %+v; want done", code, rec.State, rec.Exit)
	}
	if all := w.units(); len(all) == 0 || all[len(all)-1].n != units {
		w.Errorf("the journal ends before unit %d", units)
	}
	w.oneWriter()
	return rec
}

// lives returns the lives of the run's jobs from the accounting, once all of them are final.
func (w *world) lives() []engine.Life {
	w.Helper()
	var ids []string
	rec := w.record()
	for _, s := range rec.Stretches {
		if s.ID != "" {
			ids = append(ids, s.ID)
		}
	}
	for _, p := range rec.SiteProbes {
		if p.ID != "" {
			ids = append(ids, p.ID)
		}
	}
	var lives []engine.Life
	w.await("the accounting", func() bool {
		lives = w.account(ids)
		for _, id := range ids {
			if !slices.ContainsFunc(lives, func(l engine.Life) bool { return l.ID == id }) {
				return false
			}
		}
		return !slices.ContainsFunc(lives, func(l engine.Life) bool { return !l.Final })
	})
	return lives
}

func (w *world) account(ids []string) []engine.Life {
	e := slurm.Engine{Run: func(ctx context.Context, c slurm.Command) (slurm.Result, error) {
		cmd := w.Command(ctx, c.Argv[0], c.Argv[1:]...)
		cmd.Env = append(cmd.Env, "TZ=UTC", "LC_ALL=C", "SLURM_TIME_FORMAT=standard")
		out, err := cmd.Output()
		return slurm.Result{Stdout: string(out)}, err
	}}
	lives, _ := e.Account(w.Context(), ids...)
	return lives
}

// bill returns the cost of all lives in USD, at the billing weights of their partitions and 1 USD per unit.
func (w *world) bill() float64 {
	w.Helper()
	place := map[string]engine.Place{}
	rec := w.record()
	for _, s := range rec.Stretches {
		place[s.ID] = s.Place
	}
	for _, p := range rec.SiteProbes {
		place[p.ID] = engine.Place{Partition: p.Place.Partition}
	}
	weights := map[string][2]float64{"gpu": {0.1, 0.01}, "fast": {0.2, 0.02}, "cheap": {0.05, 0.005}, "urgent": {0.4, 0.04}}
	gpus := map[string]float64{"a100": 3, "v100": 2, "k80": 1} // of partition gpu
	total := 0.0
	for _, l := range w.lives() {
		p := weights[place[l.ID].Partition]
		total += l.Elapsed.Hours() * (float64(l.CPUs)*p[0] + float64(l.Memory)*p[1] + float64(l.GPUs)*gpus[l.GPUType])
	}
	return total
}

// paid compares the cost in the record with the bill.
func (w *world) paid() {
	w.Helper()
	rec, bill := w.record(), w.bill()
	if got := float64(rec.Outcome.CostUSD); got < bill*(1-1e-6) || got > bill*(1+1e-6) {
		w.Errorf("cost %g USD, want %g by the accounting: stretches %s", got, bill, toJSON(rec.Stretches))
	}
	for _, s := range rec.Stretches {
		if !s.Confirmed && s.ID != "" && !s.Started.IsZero() {
			w.Errorf("stretch %d is not confirmed by the accounting", s.N)
		}
	}
}

func toJSON(v any) string { data, _ := json.Marshal(v); return string(data) }

// current returns the latest stretch of the run.
func (w *world) current() engine.Stretch {
	w.Helper()
	var s struct{ Stretches []engine.Stretch }
	data, err := os.ReadFile(filepath.Join(w.runDir(), "stretches.json"))
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil || len(s.Stretches) == 0 {
		w.Fatalf("stretches: %v", err)
	}
	return s.Stretches[len(s.Stretches)-1]
}

// node returns the node of the running job, as Slurm names it.
func (w *world) node() string {
	w.Helper()
	name := w.slurm("squeue", "-h", "-j", w.current().ID, "-o", "%N")
	if name == "" {
		w.Fatal("the job runs on no node")
	}
	return name
}

// jobs returns how many jobs were submitted for the run.
func (w *world) jobs() int {
	w.Helper()
	key := "optimize." + filepath.Base(w.runDir()) + "."
	n := 0
	for name := range strings.Lines(w.slurm("squeue", "-h", "--states=all", "-o", "%j")) {
		if strings.HasPrefix(name, key) {
			n++
		}
	}
	return n
}

// do runs a command of Slurm, which must succeed.
func (w *world) do(name string, args ...string) { w.Helper(); w.Lab.Run(w.T, name, args...) }
