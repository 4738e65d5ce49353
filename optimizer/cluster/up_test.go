package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"trainopt/optimizer/engine"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/run"
	"trainopt/optimizer/schedule"
)

// drill is a server without agents, on two nodes of a type, whose jobs hold a node each.
type drill struct {
	*server
	t     *testing.T
	clock *setClock
	site  *nodes
	all   engine.Offer
	now   engine.Offer
	first map[int][]int32 // where the jobs are at the beginning
}

// newDrill starts a job on each of some nodes, in this order. They keep their work as stated.
func newDrill(t *testing.T, on []string, keeps []bool) *drill {
	t.Helper()
	d := &drill{t: t, first: map[int][]int32{}, clock: &setClock{wall: time.Now(), monotonic: time.Hour}}
	d.all = engine.Offer{Partition: "gpu", Default: true, GPUType: "a100", GPUs: 2, CPUs: 8, Memory: 16, Nodes: 2, Names: []string{"n0", "n1"}}
	d.now = d.all
	var err error
	if d.site, err = NewNodes("slurm", nil, []engine.Offer{d.all}, func(context.Context) ([]engine.Offer, error) { return []engine.Offer{d.now}, nil }, nil, nil); err != nil {
		t.Fatal(err)
	}
	s, _ := memoryServer(t)
	d.server = s
	s.Agent.Clock, s.clock, s.Round, s.jobs, s.Site, s.info.Devices = d.clock, newClock(d.clock), time.Minute, map[int]*live{}, d.site, d.site.Devices()
	s.rates = newLearner(d.site.Devices(), 60)
	if s.scheduler, err = newScheduler(s.options("fifo"), s.now()); err != nil {
		t.Fatal(err)
	}
	s.beginUp()
	for i, node := range on {
		d.submit(i + 1)
		d.runsOn(s.jobs[i+1], node)
	}
	if actions := d.decide(); len(actions) != len(on) {
		t.Fatalf("%+v: want %d starts", actions, len(on))
	}
	for i, keeps := range keeps {
		l := s.jobs[i+1]
		s.scheduler.Worked(s.now(), l.ID, 1, math.NaN(), 0)
		s.scheduler.Keeps(l.ID, &keeps)
		s.rates.observe(l.ID, l.Device, 2, 10, 3)
		d.first[l.ID] = l.Where
	}
	return d
}

// submit adds a job of a whole node.
func (d *drill) submit(id int) {
	d.t.Helper()
	at := d.clock.wall
	l := &live{Job: &Job{Schema: schema, ID: id, Name: "x", Total: 1e6, Run: fmt.Sprint("r", id), Submitted: at}, moving: math.NaN(),
		spec: &Spec{Submitted: at, Min: 2, Config: run.Config{Train: fmt.Sprint(id)}}}
	d.jobs[id] = l
	d.rates.enter(l.Job, l.spec, "")
	if err := d.scheduler.Admit(d.server.now(), l.Job, l.spec); err != nil {
		d.t.Fatal(err)
	}
}

// runsOn writes what the supervisor of a job records on its node.
func (d *drill) runsOn(l *live, node string) {
	d.t.Helper()
	dir := filepath.Join(journal.RunsDir(d.StateDir), l.Run)
	for name, v := range map[string]any{
		"stretches.json":        map[string]any{"schema": 2, "stretches": []engine.Stretch{{N: 1}}},
		"stretches/1/node.json": map[string]any{"schema": 2, "phase": "running", "node": node},
	} {
		path := filepath.Join(dir, name)
		data, err := json.Marshal(v)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
			d.t.Fatal(err)
		}
	}
}

// drain drains a node, and the server believes it.
func (d *drill) drain(node string) {
	d.t.Helper()
	d.now.Nodes, d.now.Down = 1, []string{node}
	d.now.Names = slices.DeleteFunc(slices.Clone(d.all.Names), func(name string) bool { return name == node })
	d.read(settledReadings)
}

// read takes what is up.
func (d *drill) read(times int) {
	d.t.Helper()
	for range times {
		up, err := d.site.Up(d.t.Context())
		if err != nil {
			d.t.Fatal(err)
		}
		d.takeUp(up)
		d.clock.pass(15 * time.Second)
	}
}

// decide decides, without carrying it out.
func (d *drill) decide() []action {
	d.t.Helper()
	actions, err := d.scheduler.Step(d.server.now())
	if err != nil {
		d.t.Fatal(err)
	}
	return actions
}

// check compares the number of devices, and which jobs have their first leases, and none other has any.
func (d *drill) check(when string, devices int, leases ...int) {
	d.t.Helper()
	held := map[int][]int32{}
	for _, r := range d.scheduler.engine.Running() {
		held[r.A.ID] = r.Where
	}
	for _, id := range leases {
		if !slices.Equal(held[id], d.first[id]) {
			d.t.Errorf("%s: job %d has the lease %v, want %v", when, id, held[id], d.first[id])
		}
	}
	if n := d.scheduler.Devices[0].Count; n != devices || d.info.Down["a100"] != 4-devices || len(held) != len(leases) {
		d.t.Errorf("%s: %d devices, %d down, leases %v; want %d, and those of %v", when, n, d.info.Down["a100"], held, devices, leases)
	}
}

// runsStill checks that a job is in its first life, on devices that are not lost.
func (d *drill) runsStill(when string, id int) {
	d.t.Helper()
	if l := d.jobs[id]; d.lost(l) || l.State != Running || l.Stretch != 1 {
		d.t.Errorf("%s: job %d is %s in life %d on %v, lost: %v", when, id, l.State, l.Stretch, l.Where, d.lost(l))
	}
}

// TestDrainedNode: on two nodes of a type, each with a job, one is drained. Its job leaves, and the other one keeps its lease and
// continues, whichever numbers their devices have. Once the node is resumed, all is as before.
func TestDrainedNode(t *testing.T) {
	for _, drained := range []string{"n0", "n1"} {
		for _, on := range [][]string{{"n0", "n1"}, {"n1", "n0"}} { // as the engine has chosen the nodes
			t.Run(fmt.Sprintf("%s of %v", drained, on), func(t *testing.T) {
				lost := slices.Index(on, drained) + 1
				// The policy would give the devices of the later job to the earlier one.
				d := newDrill(t, on, []bool{true, lost == 2})
				d.drain(drained)
				if actions := d.decide(); len(actions) != 1 || actions[0].Job != lost || actions[0].Do != schedule.Stop || !d.lost(d.jobs[lost]) {
					t.Fatalf("%+v: want that job %d leaves", actions, lost)
				}
				d.check("drained", 2, 3-lost)
				d.runsStill("drained", 3-lost)
				absent := d.absent
				d.setAbsent(nil)
				d.beginUp() // as the next server would
				if !slices.EqualFunc(d.absent, absent, slices.Equal) {
					t.Errorf("absent are %v, and %v for the next server", absent, d.absent)
				}
				d.takeResult(result{lost, 1, run.Result{Code: run.CodeTryAgain}})
				sim, err := d.future(d.server.now())
				if err != nil {
					t.Fatal(err)
				}
				sim.Log = func(e Event) {
					if e.Kind == EventStart && slices.ContainsFunc(e.Where, func(g int32) bool { return slices.Contains(d.first[lost], g) }) {
						t.Errorf("simulated: job %d starts on %v, whose node is down", e.Job, e.Where)
					}
				}
				if _, err := sim.Run(t.Context()); err != nil {
					t.Error(err)
				}
				for range 6 {
					d.read(1)
					if actions := d.decide(); len(actions) > 0 {
						t.Fatalf("%+v while the node is down", actions)
					}
				}
				d.check("down", 2, 3-lost)
				d.runsStill("down", 3-lost)

				d.now = d.all
				d.read(1)
				if actions := d.decide(); len(actions) != 1 || actions[0].Job != lost || actions[0].Do != schedule.Start {
					t.Fatalf("%+v: want that job %d continues", actions, lost)
				}
				d.check("resumed", 4, 1, 2)
				d.runsStill("resumed", 3-lost)
			})
		}
	}
}

// TestDrainedNodeKeepsItsJob: a job that must not be interrupted runs on when its node is drained: it keeps its devices, not those of
// another node, and nothing else starts there after its end.
func TestDrainedNodeKeepsItsJob(t *testing.T) {
	for _, on := range [][]string{{"n0", "n1"}, {"n1", "n0"}} {
		t.Run(fmt.Sprint(on), func(t *testing.T) {
			stays := slices.Index(on, "n0") + 1
			d := newDrill(t, on, []bool{stays != 1, stays != 2})
			d.submit(3)
			d.drain("n0")
			for range 6 {
				if actions := d.decide(); len(actions) > 0 {
					t.Fatalf("%+v while both jobs run", actions)
				}
				d.read(1)
			}
			d.check("drained", 4, 1, 2)
			d.runsStill("drained", stays)
			d.takeResult(result{stays, 1, run.Result{Code: run.CodeDone}})
			d.read(1)
			if actions := d.decide(); len(actions) > 0 {
				t.Fatalf("%+v once the node is empty", actions)
			}
			d.check("empty", 2, 3-stays)
			d.runsStill("empty", 3-stays)
			d.now = d.all
			d.read(1)
			if actions := d.decide(); len(actions) != 1 || actions[0].Job != 3 || !slices.Equal(actions[0].Where, d.first[stays]) {
				t.Fatalf("%+v: want that job 3 starts on %v", actions, d.first[stays])
			}
		})
	}
}

// TestChooseAbsent: absent are first the devices of jobs on nodes that are down, then free ones, on whole servers as far as possible,
// then those of jobs that wait in the queue of the engine, and the last others only if there are no more.
func TestChooseAbsent(t *testing.T) {
	const perServer = 2
	kinds := map[rune]holding{'d': onDownNode, '.': unheld, 'q': queues, 'r': runs, 'b': bound}
	for _, c := range []struct {
		held, before string // x: absent before
		missing      int
		want         []int32
	}{
		{"....", "    ", 2, []int32{2, 3}},
		{"....", "xx  ", 2, []int32{0, 1}},
		{"....", "xx  ", 1, []int32{1}},
		{"..rr", "    ", 2, []int32{0, 1}},
		{"rr..", "    ", 2, []int32{2, 3}},
		{"ddrr", "    ", 2, []int32{0, 1}},
		{"rrdd", "xx  ", 2, []int32{2, 3}},
		{"dr..", "    ", 2, []int32{0, 3}}, // the other job of the server keeps its device
		{"dr.r", "    ", 2, []int32{0, 2}},
		{".r..", "x  x", 2, []int32{2, 3}}, // once it is possible, a whole server
		{"d.....", "    xx", 2, []int32{0, 1}},
		{"qqrr", "    ", 2, []int32{0, 1}},
		{"rrqr", "    ", 2, []int32{2, 3}},
		{"rrrr", "    ", 2, []int32{2, 3}},
		{"rrr", "   ", 1, []int32{2}},
		{"rq", "  ", 2, []int32{0, 1}},
		{"b...", "    ", 1, []int32{1}}, // the job of the node keeps its device
		{"bbrr", "    ", 0, nil},
	} {
		var held []holding
		before := make([]bool, len(c.held))
		for g, k := range c.held {
			held = append(held, kinds[k])
			before[g] = c.before[g] == 'x'
		}
		if got := chooseAbsent(held, before, perServer, c.missing); !slices.Equal(got, c.want) {
			t.Errorf("%q, before %q: %v, want %v", c.held, c.before, got, c.want)
		}
	}
}

// onNodes are nodes that hold each job.
type onNodes struct {
	Site
	names []string
}

func (n onNodes) On(string, bool) []string { return n.names }

// TestHoldings: a job of several nodes holds as many devices of one that is down as the node has.
func TestHoldings(t *testing.T) {
	no, yes := false, true
	for name, c := range map[string]struct {
		on   []string
		job  Job
		want []holding
	}{
		"one of two nodes":   {[]string{"n0", "n1"}, Job{State: Running, Keeps: &yes}, []holding{onDownNode, onDownNode, runs, runs}},
		"keeps no work":      {[]string{"n0", "n1"}, Job{State: Running, Keeps: &no}, []holding{bound, bound, runs, runs}},
		"not known yet":      {[]string{"n1"}, Job{State: Starting}, []holding{bound, bound, bound, bound}},
		"leaves":             {[]string{"n1"}, Job{State: Stopping}, []holding{onDownNode, onDownNode, onDownNode, onDownNode}},
		"on another node":    {[]string{"n0"}, Job{State: Running}, []holding{runs, runs, runs, runs}},
		"nodes are unknown":  {nil, Job{State: Running}, []holding{runs, runs, runs, runs}},
		"waits in the queue": {[]string{"n1"}, Job{State: Starting, Queued: true}, []holding{queues, queues, queues, queues}},
	} {
		c.job.Where = []int32{0, 1, 2, 3}
		s := &server{Config: Config{Site: onNodes{names: c.on}}}
		if got := s.holdingsOf(&live{Job: &c.job}, []string{"n1"}); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
