package batsim

import (
	"context"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
	"trainopt/simulator/workload/swf"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patient is the timeout in tests in which the peer responds.
const patient = 2 * time.Minute

// served is the result of a decision process.
type served struct {
	result *queue.Result
	err    error
}

// serve starts a decision process and returns its endpoint and a channel for its result.
func serve(t testing.TB, o ServeOptions) (endpoint string, end <-chan served) {
	t.Helper()
	if o.Idle == 0 {
		o.Idle = patient
	}
	address, done := make(chan net.Addr, 1), make(chan served, 1)
	o.Listening = func(a net.Addr) { address <- a }
	go func() {
		r, err := Serve(t.Context(), "tcp://127.0.0.1:0", o)
		done <- served{r, err}
	}()
	select {
	case a := <-address:
		return "tcp://" + a.String(), done
	case s := <-done:
		t.Fatalf("serve: %v", s.err)
		return "", nil
	}
}

// both connects the two sides and returns the result of each.
func both(t testing.TB, tree *platform.Tree, jobs []order.Job, so ServeOptions, mo SimulateOptions) (simulated, decided *queue.Result) {
	t.Helper()
	endpoint, end := serve(t, so)
	if mo.Idle == 0 {
		mo.Idle = patient
	}
	simulated, err := Simulate(t.Context(), endpoint, tree, jobs, mo)
	s := <-end
	if err != nil || s.err != nil {
		t.Fatalf("simulate: %v; serve: %v", err, s.err)
	}
	return simulated, s.result
}

func example(t testing.TB, name string) *platform.Tree {
	t.Helper()
	tree, err := platform.Example(name)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// learningJobs returns the two jobs of HDeepRM's learning experiment.
func learningJobs() []order.Job {
	j := order.Job{Procs: 1, Request: 5, Run: 5, Ops: 21e9, RequestOps: 21e9, Memory: 8000, Bandwidth: 24}
	k := j
	k.ID = 1
	return []order.Job{j, k}
}

// mini returns the published trace mini and its machine; the test is skipped if the data are absent.
func mini(t testing.TB) (*platform.Tree, []order.Job) {
	t.Helper()
	const data = "../../../shared/data/hdeeprm"
	path := filepath.Join(data, "workloads/mini.swf")
	f, err := os.Open(path)
	if err != nil {
		t.Skipf("the published data are not here: %v", err)
	}
	defer f.Close()
	tree, err := platform.ReadTree(filepath.Join(data, "platforms/mini.json"))
	if err != nil {
		t.Skipf("the published data are not here: %v", err)
	}
	r, err := swf.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	w, err := hdeeprm.Convert(r, hdeeprm.ConvertOptions{Seed: 2009, Reference: tree.Reference, Compat: true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.Convert(hdeeprm.SpeedOptions{Reference: tree.Reference})
	if err != nil {
		t.Fatal(err)
	}
	return tree, c.Jobs
}

// same compares two schedules exactly, optionally with allocations.
func same(t *testing.T, got, want *queue.Result, allocations bool) {
	t.Helper()
	if len(got.Jobs) != len(want.Jobs) {
		t.Fatalf("%d jobs, want %d", len(got.Jobs), len(want.Jobs))
	}
	for i := range want.Jobs {
		g, w := &got.Jobs[i], &want.Jobs[i]
		if g.State != w.State || !alike(g.Start, w.Start) || !alike(g.End, w.End) || allocations && !slices.Equal(g.Cores, w.Cores) {
			t.Fatalf("job %s: state %d from %v to %v on %v, want %d from %v to %v on %v", w.Job.Label(), g.State, g.Start, g.End, g.Cores, w.State, w.Start, w.End, w.Cores)
		}
	}
}

func alike(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// short returns a context with a short timeout, for operations that must not block.
func short(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
