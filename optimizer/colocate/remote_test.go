package colocate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"trainopt/optimizer/engine"
)

// hereEngine runs jobs as processes of this machine.
type hereEngine struct {
	engine.Engine // other methods are not called
	jobs          []*exec.Cmd
	requests      []engine.Request
	ended         chan struct{}
}

func (e *hereEngine) Submit(_ context.Context, r engine.Request) (string, error) {
	out, err := os.Create(r.Output)
	if err != nil {
		return "", err
	}
	defer out.Close()
	cmd := exec.Command(r.Argv[0], r.Argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = r.Dir, r.Env, out, out
	e.jobs, e.requests, e.ended = append(e.jobs, cmd), append(e.requests, r), make(chan struct{})
	if err := cmd.Start(); err != nil {
		return "", err
	}
	go func(ended chan struct{}) { cmd.Wait(); close(ended) }(e.ended)
	return "1", nil
}

func (e *hereEngine) Cancel(context.Context, string) error {
	syscall.Kill(e.jobs[len(e.jobs)-1].Process.Pid, syscall.SIGTERM)
	<-e.ended
	return nil
}

func (e *hereEngine) List(context.Context, ...string) ([]engine.Status, error) {
	select {
	case <-e.ended:
		return []engine.Status{{State: engine.Ended, Raw: "FAILED"}}, nil
	default:
		return []engine.Status{{State: engine.Running}}, nil
	}
}

func remoteOf(t *testing.T, spec string) (*Remote, *hereEngine) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "apps.yaml"), spec)
	e := &hereEngine{}
	return &Remote{Engine: e, Self: os.Args[0], Spec: filepath.Join(dir, "apps.yaml"), Dir: dir, Env: append(os.Environ(), "COLOCATE_TEST_JOB=1"), Extra: []string{"--partition=x"}}, e
}

// A job measures until the cycles are enough, and is then cancelled with its programs.
func TestRemoteMeasures(t *testing.T) {
	r, e := remoteOf(t, "warmup: 50ms\nwindow: 1s\napps:\n"+byOutput+byEach)
	var got []cycle
	if err := r.Measure(t.Context(), []uint8{1, 0}, func(c cycle) bool { got = append(got, c); return len(got) == 2 }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || !(got[0].RPS[0] > 0) || !math.IsNaN(got[0].RPS[1]) {
		t.Errorf("%+v", got)
	}
	if extra := e.requests[0].Extra; !slices.Equal(extra, []string{"--exclusive", "--partition=x"}) {
		t.Errorf("%q", extra)
	}
	if left := children(t); len(left) > 0 {
		t.Errorf("left running: %q", left)
	}
}

// The error of a job is that of its program.
func TestRemoteFails(t *testing.T) {
	r, _ := remoteOf(t, "apps:\n- name: a\n  command: 'echo no memory; exit 3'\n  operations: {output: '(1)'}\n")
	r.Seed = 1
	err := r.Measure(t.Context(), []uint8{1}, func(cycle) bool { return false })
	if err == nil || !strings.Contains(err.Error(), "job 1 ended, FAILED") || !strings.Contains(err.Error(), "no memory") {
		t.Errorf("%v", err)
	}
}

func TestRemoteInterrupted(t *testing.T) {
	r, _ := remoteOf(t, "warmup: 50ms\nwindow: 1s\napps:\n"+byOutput)
	ctx, cancel := context.WithCancel(t.Context())
	if err := r.Measure(ctx, []uint8{1}, func(cycle) bool { cancel(); return false }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if left := children(t); len(left) > 0 {
		t.Errorf("left running: %q", left)
	}
}

func TestCycleRoundTrip(t *testing.T) {
	c := cycle{RPS: []float64{0.5, math.NaN()}, CPU: []float64{1, math.NaN()}, Wall: []float64{0.25, math.NaN()}, Alone: []float64{9, math.NaN()}, Foreign: 0.5}
	line, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var got cycle
	if err := json.Unmarshal(line, &got); err != nil {
		t.Fatal(err)
	}
	again, _ := json.Marshal(got)
	if !bytes.Equal(line, again) || got.RPS[0] != 0.5 || !math.IsNaN(got.RPS[1]) || got.Foreign != 0.5 {
		t.Errorf("%s: %+v", line, got)
	}
}

func TestParseCounts(t *testing.T) {
	if got, err := parseCounts(formatCounts([]uint8{1, 0, 255}), 3); err != nil || !slices.Equal(got, []uint8{1, 0, 255}) {
		t.Errorf("%v %v", got, err)
	}
	for _, bad := range []string{"", "1", "1,-1,2", "1,2,256"} {
		if _, err := parseCounts(bad, 3); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
