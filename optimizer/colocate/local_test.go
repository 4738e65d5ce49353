package colocate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets a test start this binary as a job, and as a measurement that is killed.
func TestMain(m *testing.M) {
	if os.Getenv("COLOCATE_TEST_JOB") != "" {
		os.Exit(RunCycles(os.Args[2:]))
	}
	if path := os.Getenv("COLOCATE_TEST_SPEC"); path != "" {
		spec, err := ParseSpec(strings.NewReader(path))
		if err == nil {
			var l *local
			if l, err = NewLocal(spec, "/", 1); err == nil {
				err = l.Measure(context.Background(), []uint8{1}, func(cycle) bool { return false })
			}
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// specOf returns a specification of apps that count in small windows.
func specOf(t *testing.T, apps string) *Spec {
	t.Helper()
	all, err := usable()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(apps, "load:") && len(all) < 2 {
		t.Skip("a load generator requires a second CPU")
	}
	s, err := ParseSpec(strings.NewReader(fmt.Sprintf("cpus: %d\nwarmup: 100ms\nwindow: 1s\napps:\n%s", all[0], apps)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Programs that count by the clock, in each of the four ways to read operations.
const (
	byOutput  = "- name: lines\n  command: 'n=0; while :; do n=$((n+1)); echo done $n; sleep 0.02; done'\n  operations: {output: 'done (\\d+)'}\n"
	byEach    = "- name: each\n  command: 'while :; do echo tick; sleep 0.02; done'\n  ready: {output: tick}\n  operations: {output: tick, counts: each}\n"
	byEnd     = "- name: end\n  command: 'n=0; trap \"echo did \\$n; exit\" INT; while :; do n=$((n+1)); sleep 0.02; done'\n  operations: {end: 'did (\\d+)'}\n"
	byCounter = "- name: counter\n  command: 'n=0; while :; do n=$((n+1)); echo $n > {dir}/new; mv {dir}/new {dir}/count; sleep 0.02; done'\n" +
		"  ready: {command: 'cat {dir}/count'}\n  load: {command: 'sleep 1000'}\n  operations: {counter: 'cat {dir}/count'}\n"
	byLog = "- name: log\n  command: 'n=0; echo epoch,train_loss > {dir}/l.csv; while :; do n=$((n+1)); echo $n,0.5 >> {dir}/l.csv; sleep 0.02; done'\n  operations: {log: '{dir}/l.csv'}\n"
)

// measure runs cycles of a pattern.
func measure(t *testing.T, spec *Spec, counts []uint8, cycles int) ([]cycle, error) {
	t.Helper()
	l, err := NewLocal(spec, t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var got []cycle
	err = l.Measure(t.Context(), counts, func(c cycle) bool {
		got = append(got, c)
		return len(got) == cycles
	})
	return got, err
}

// children returns the living children of this process, without the shells that guard it.
func children(t *testing.T) (out []string) {
	t.Helper()
	for _, pid := range descendants(os.Getpid())[1:] {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && len(text) > 0 && !strings.Contains(string(text), "read -r what group") {
			out = append(out, strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return out
}

func TestLocalReadsOperations(t *testing.T) {
	for name, app := range map[string]string{"output": byOutput, "each": byEach, "end": byEnd, "counter": byCounter, "log": byLog} {
		t.Run(name, func(t *testing.T) {
			got, err := measure(t, specOf(t, app), []uint8{2}, 2)
			if err != nil || len(got) != 2 {
				t.Fatal(err, got)
			}
			for _, c := range got {
				if !(c.RPS[0] > 0) || !(c.Wall[0] > 0) || !(c.Alone[0] > 0) || !(c.Foreign >= 0 && c.Foreign <= 1) {
					t.Errorf("%+v", c)
				}
			}
			if left := children(t); len(left) > 0 {
				t.Errorf("left running: %q", left)
			}
		})
	}
}

// A pattern of several apps: absent apps have no values.
func TestLocalMeasuresPattern(t *testing.T) {
	got, err := measure(t, specOf(t, byOutput+byEach+byEnd), []uint8{1, 0, 1}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if c := got[0]; !(c.RPS[0] > 0) || c.RPS[1] == c.RPS[1] || !(c.RPS[2] > 0) {
		t.Errorf("%+v", c)
	}
}

func TestLocalFailures(t *testing.T) {
	app := func(command, operations string) string {
		return "- name: a\n  command: '" + command + "'\n  operations: {" + operations + "}\n"
	}
	for name, c := range map[string]struct{ apps, want string }{
		"ends early":           {app("echo no such file; exit 3", "output: '(1)'"), "the command of a ended early, exit status 3: no such file"},
		"no program":           {"- name: a\n  command: [/no/such/program]\n  operations: {end: '(1)'}\n", "start the command of a: "},
		"reports nothing":      {app("sleep 1000", "output: '(1)'"), "a reported operations 0 times in a window of 1 s"},
		"no match at the end":  {app("sleep 0.1; echo all done", "end: 'did (1)'"), "no line matches did (1)"},
		"the counter fails":    {app("sleep 1000", "counter: 'echo broken >&2; exit 1'"), "run the counter of a: exit status 1: broken"},
		"the counter is words": {app("sleep 1000", "counter: 'echo none'"), "no number matches"},
		"never ready":          {app("sleep 1000", "counter: 'echo 1'") + "  ready: {command: 'false', timeout: 100ms}\n", "a is not ready after 100ms"},
		"no line is ready":     {app("sleep 1000", "counter: 'echo 1'") + "  ready: {output: started, timeout: 100ms}\n", "no line of its output matches started"},
		"nothing is done":      {app("sleep 1000", "counter: 'echo 5'"), "a completed no operation in a window of 1 s alone"},
		"the load ends":        {app("sleep 1000", "counter: 'echo 5'") + "  load: {command: 'echo refused'}\n", "the load generator of a ended early, exit status 0: refused"},
		"the counter falls":    {app("echo 9 > {dir}/c; sleep 1000", "counter: 'cat {dir}/c; echo 1 > {dir}/c'"), "the counter of a fell from 9 to 1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := measure(t, specOf(t, c.apps), []uint8{1}, 1)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("want %q: %v", c.want, err)
			}
			if left := children(t); len(left) > 0 {
				t.Errorf("left running: %q", left)
			}
		})
	}
}

// The end of the context ends all processes, those that left their group included.
func TestLocalInterrupted(t *testing.T) {
	dir := t.TempDir()
	spec := specOf(t, "- name: a\n  command: 'setsid sh -c \"echo \\$\\$ > "+dir+"/pid; exec sleep 1000\" & n=0; while :; do n=$((n+1)); echo $n; sleep 0.02; done'\n"+
		"  ready: {command: 'test -s "+dir+"/pid'}\n  operations: {output: '(.*)'}\n")
	l, err := NewLocal(spec, t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	if err := l.Measure(ctx, []uint8{1}, func(cycle) bool { cancel(stopped); return false }); !errors.Is(err, stopped) {
		t.Errorf("%v", err)
	}
	text, _ := os.ReadFile(dir + "/pid")
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && !strings.Contains(string(stat), ") Z ") {
		t.Errorf("left running: %s", stat)
	}
	if left := children(t); len(left) > 0 {
		t.Errorf("left running: %q", left)
	}
}

// Programs end with this process also if it is killed: a shell's children are not its own.
func TestKilledMeasurementLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	spec := "apps:\n- name: a\n  command: 'sh -c \"echo \\$\\$ > " + dir + "/pid; exec sleep 1000\"; true'\n  ready: {command: 'test -s " + dir + "/pid'}\n  operations: {counter: 'echo 1'}\n"
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "COLOCATE_TEST_SPEC="+spec, "TMPDIR="+dir)
	out, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			t.Log(s.Text())
		}
	}()
	pid := 0
	wait := func(what string, until func() bool) {
		t.Helper()
		for range 3000 {
			if until() {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Fatal(what)
	}
	wait("the program did not start", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "pid"))
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return pid > 0
	})
	cmd.Process.Kill()
	cmd.Wait()
	wait("the program outlives the measurement", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ") || syscall.Kill(pid, 0) != nil
	})
}

// The CPUs of the node and of load generators are those of this machine and disjoint.
func TestNewLocalRefuses(t *testing.T) {
	all, err := usable()
	if err != nil {
		t.Fatal(err)
	}
	first := strconv.Itoa(all[0])
	for want, head := range map[string]string{
		"CPUs [8000]: not usable here":   "cpus: 8000\n" + minimal,
		"load: CPUs [" + first + "] are": "cpus: " + first + "\n" + minimal + "  load: {command: x, cpus: " + first + "}\n",
	} {
		spec, err := ParseSpec(strings.NewReader(head))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := NewLocal(spec, "/", 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

// Processes run on the CPUs they are given, and this process keeps its own.
func TestSpawnerPins(t *testing.T) {
	all, err := usable()
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSpawner()
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for _, id := range all {
		out, err := s.output(t.Context(), command{name: "grep", argv: []string{"grep", "Cpus_allowed_list", "/proc/self/status"}, cpus: []int{id}})
		if fields := strings.Fields(out); err != nil || fields[1] != strconv.Itoa(id) {
			t.Errorf("CPU %d: %q %v", id, out, err)
		}
	}
	if now, _ := usable(); len(now) != len(all) {
		t.Errorf("this process may use %v, before %v", now, all)
	}
}

// A paused program is stopped with its processes in other sessions; its load generator is ended and started again, since
// one that keeps a rate would catch up.
func TestPauseStopsAll(t *testing.T) {
	dir := t.TempDir()
	spec := specOf(t, "- name: a\n  command: 'setsid sh -c \"echo \\$\\$ > "+dir+"/pid; while :; do sleep 0.01; done\" & while :; do sleep 0.01; done'\n"+
		"  ready: {command: 'test -s "+dir+"/pid'}\n  load: {command: 'echo $$ >> "+dir+"/loads; exec sleep 1000'}\n  operations: {counter: 'echo 1'}\n")
	l, err := NewLocal(spec, t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := &session{local: l, window: spec.Window}
	c, err := s.newContainer(&spec.Apps[0], 0)
	if err != nil {
		t.Fatal(err)
	}
	s.containers = []*container{c}
	defer s.close()
	if err := c.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(dir + "/pid")
	if err != nil {
		t.Fatal(err)
	}
	worker := strings.TrimSpace(string(text))
	until := func(what string, done func() bool) {
		t.Helper()
		for range 3000 {
			if done() {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Fatal(what)
	}
	stopped := func() bool {
		stat, err := os.ReadFile("/proc/" + worker + "/stat")
		return err == nil && strings.Contains(string(stat), ") T ")
	}
	loads := func() int {
		text, _ := os.ReadFile(dir + "/loads")
		return strings.Count(string(text), "\n")
	}
	for round := range 2 {
		if err := c.resume(); err != nil {
			t.Fatal(err)
		}
		until("the worker is still stopped", func() bool { return !stopped() })
		until("no load generator is started", func() bool { return loads() == round+1 })
		load := c.load
		c.pause()
		until("the worker is not stopped", stopped)
		if !load.ended() {
			t.Error("the load generator is still running")
		}
	}
}

// The example with programs of Debian packages can be measured.
func TestExample(t *testing.T) {
	for _, program := range []string{"redis-server", "redis-cli", "sqlite3", "bzip2", "pv"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("install redis-server redis-tools sqlite3 python3-sklearn bzip2 pv: ", err)
		}
	}
	if err := exec.Command("/usr/bin/python3", "-c", "import sklearn").Run(); err != nil {
		t.Skip("install python3-sklearn: ", err)
	}
	text, err := os.ReadFile("../../examples/colocate.yaml")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := ParseSpec(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if all, _ := usable(); !slices.Contains(all, 0) || !slices.Contains(all, 1) {
		t.Skipf("the example requires the CPUs 0 and 1 of %v", all)
	}
	got, err := measure(t, spec, []uint8{1, 1, 1, 1}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for a, name := range spec.Names() {
		if !(got[0].RPS[a] > 0) {
			t.Errorf("%s: %+v", name, got[0])
		}
	}
}

// This process leaves the CPUs of the node to the programs while it measures.
func TestObserverLeavesTheNode(t *testing.T) {
	all, err := usable()
	if err != nil || len(all) < 2 {
		t.Skip("requires two CPUs: ", all, err)
	}
	l, err := NewLocal(specOf(t, byOutput), t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if now, err := usable(); err != nil || !slices.Equal(now, all[1:]) {
		t.Errorf("%v, %v", now, err)
	}
	var node []int
	if err := l.spawner.do(l.cpus, func() (err error) { node, err = usable(); return err }); err != nil || !slices.Equal(node, all[:1]) {
		t.Errorf("%v, %v", node, err)
	}
	l.Close()
	if now, err := usable(); err != nil || !slices.Equal(now, all) {
		t.Errorf("%v, %v", now, err)
	}
}

// On a quiet node, where only the kernel works beside the programs, throughputs are those observed.
func TestAverageOfQuietNode(t *testing.T) {
	a, b := &container{}, &container{}
	s := &session{local: &local{cpus: []int{0}}, of: [][]*container{{a}, {b}}}
	results := []reading{{Ops: 100, CPU: 0.2, Wall: 1, Demand: 0.4}, {Ops: 10, CPU: 0.7, Wall: 1, Demand: 1}}
	for taken, want := range map[float64]float64{0: 100, 0.04: 100, 0.1: 125} {
		got := s.average([]*container{a, b}, results, taken)
		if rate := got[0].rate(); rate < want-1e-6 || rate > want+1e-6 {
			t.Errorf("%v of the node taken: %v operations/s, want %v", taken, rate, want)
		}
		if rate := got[1].rate(); rate != 10 {
			t.Errorf("%v of the node taken: %v operations/s, want 10", taken, rate)
		}
	}
}
