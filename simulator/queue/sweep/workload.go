package sweep

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/ancestors/rlscheduler"
	"trainopt/simulator/platform"
	"trainopt/simulator/workload/swf"
)

// Workload is a set of jobs and the machine for them.
type Workload struct {
	Name string // description for users: "1000 jobs of Lublin's model"
	// Jobs are sorted by ID. Windows are ranges of them.
	Jobs  []order.Job
	Procs int // processors of the machine; on a platform, cores
	// Tree is the platform; nil means equal processors.
	Tree    *platform.Tree
	Options *hdeeprm.Options                   // settings of the agents of a platform; otherwise nil
	Limits  hdeeprm.Limits                     // bounds of observations on a platform
	Profile func(j *order.Job) string          // name of a job's profile in Batsim's tables; nil means unknown
	Dropped map[string]int                     // jobs not simulated, by reason
	Notes   []string                           // warnings for the user
	trace   func() (*rlscheduler.Trace, error) // Jobs as a trace of RLScheduler's simulator
}

// ErrNothing means that no job can be simulated.
var ErrNothing = errors.New("no job can be simulated")

// TraceOptions holds the options of reading a trace.
type TraceOptions struct {
	Procs int // processors of the machine; 0 means those of the trace
	// AsPublished reads the trace as RLScheduler does, which accepts nearly every line; otherwise it is cleaned, see
	// swf.cleanLog.
	AsPublished bool
}

// Load reads a trace in the Standard Workload Format for a machine of equal processors. Submission times are not
// shifted.
func Load(path string, o TraceOptions) (*Workload, error) {
	if o.AsPublished {
		t, err := rlscheduler.Load(path)
		if err != nil {
			return nil, err
		}
		if o.Procs != 0 && o.Procs != t.Procs {
			t.Procs, t.Nodes = o.Procs, o.Procs
		}
		w := &Workload{Jobs: slices.Clone(t.Jobs), Procs: t.Procs, Dropped: map[string]int{}}
		for i := range w.Jobs { // negative requests count in RLScheduler's simulator only
			w.Jobs[i].Request = max(w.Jobs[i].Request, 0)
		}
		if t.Omitted > 0 {
			w.Dropped["no run time or processors"] = t.Omitted
		}
		w.trace = func() (*rlscheduler.Trace, error) { return t, w.tooLarge() }
		if err := w.tooLarge(); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		w.Name = fmt.Sprintf("%d jobs", len(t.Jobs))
		return w, nil
	}
	t, err := swf.Load(path, swf.Options{Procs: o.Procs, KeepSubmit: true, SkipDamaged: true})
	if err != nil {
		return nil, err
	}
	w := &Workload{Name: fmt.Sprintf("%d jobs", len(t.Jobs)), Jobs: t.Jobs, Procs: t.Procs, Dropped: map[string]int{}}
	for reason, c := range t.Dropped {
		w.Dropped[reason] = c.Jobs
		if reason == swf.Damaged || reason == swf.CutOff {
			w.Notes = append(w.Notes, fmt.Sprintf("%s: %d, the first in line %d", reason, c.Jobs, c.Line))
		}
	}
	for _, what := range slices.Sorted(maps.Keys(t.Adjusted)) {
		w.Notes = append(w.Notes, fmt.Sprintf("%s: %d jobs", what, t.Adjusted[what].Jobs))
	}
	slices.Sort(w.Notes)
	slices.SortStableFunc(w.Jobs, func(a, b order.Job) int { return a.ID - b.ID })
	w.equal()
	return w, nil
}

// equal makes the workload available to RLScheduler's simulator.
func (w *Workload) equal() {
	w.trace = func() (*rlscheduler.Trace, error) {
		return &rlscheduler.Trace{Jobs: w.Jobs, Procs: w.Procs, Nodes: w.Procs}, w.tooLarge()
	}
}

// tooLarge returns an error for the first job that requests more processors than the machine has.
func (w *Workload) tooLarge() error {
	for i := range w.Jobs {
		if j := &w.Jobs[i]; j.Procs > w.Procs {
			return fmt.Errorf("job %s asks for %d processors, the machine has %d", j.Label(), j.Procs, w.Procs)
		}
	}
	return nil
}

// Generate draws a workload for a machine of equal processors.
func Generate(l swf.Lublin) (*Workload, error) {
	jobs, err := l.Generate()
	if err != nil {
		return nil, err
	}
	procs := cmp.Or(l.Procs, 128)
	w := &Workload{Name: fmt.Sprintf("%d jobs of Lublin's model", len(jobs)), Jobs: jobs, Procs: procs, Dropped: map[string]int{}}
	if l.Load > 0 {
		w.Name += fmt.Sprintf(" at a load of %g", l.Load)
	}
	w.equal()
	return w, nil
}

// Prepare returns the workload and the platform that options of HDeepRM describe.
func Prepare(o *hdeeprm.Options, l hdeeprm.LaunchOptions) (*Workload, error) {
	e, err := o.Prepare(l)
	if err != nil {
		return nil, err
	}
	w := &Workload{Name: fmt.Sprintf("%d jobs", len(e.Jobs)), Jobs: e.Jobs, Procs: e.Tree.Cores, Tree: e.Tree, Options: o, Limits: e.Limits,
		Profile: e.Profile, Dropped: map[string]int{}, Notes: e.Warnings}
	maps.Copy(w.Dropped, e.Dropped)
	return w, nil
}

// GenerateOn draws a workload for the platform of options: jobs of Lublin's model that require 4 to 24 GB/s per core,
// distributed as in HDeepRM, and 0.5 to 4 GB of memory per core, at most the memory per core of the smallest node.
func GenerateOn(o *hdeeprm.Options, l swf.Lublin) (*Workload, error) {
	tree, warning, err := o.ReadPlatform()
	if err != nil {
		return nil, err
	}
	l.Procs = tree.Cores
	w, err := Generate(l)
	if err != nil {
		return nil, err
	}
	least := math.Inf(1)
	for _, n := range tree.Nodes {
		cores := 0
		for _, p := range tree.Processors[n.First : n.First+n.Processors] {
			cores += p.Cores
		}
		least = math.Min(least, n.Memory/float64(cores))
	}
	rng := rand.New(rand.NewPCG(l.Seed, 1))
	for i := range w.Jobs {
		j := &w.Jobs[i]
		j.Ops, j.RequestOps = j.Run*tree.Reference*1e9, j.Request*tree.Reference*1e9
		j.Bandwidth, j.Memory = float64(4+4*rng.IntN(6)), math.Min(least, 500*float64(int(1)<<rng.IntN(4)))
	}
	w.Tree, w.Options, w.Limits, w.trace = tree, o, hdeeprm.LimitsOf(w.Jobs), nil
	w.Notes = append(w.Notes, o.Warnings...)
	if warning != "" {
		w.Notes = append(w.Notes, warning)
	}
	return w, nil
}

// Window is a range of a workload: Length jobs from index Start on. The zero value means all jobs.
type Window struct{ Start, Length int }

// String describes the window for users.
func (w Window) String() string {
	if w == (Window{}) {
		return "all jobs"
	}
	return fmt.Sprintf("jobs %d to %d", w.Start, w.Start+w.Length-1)
}

// Settle replaces the zero value by the whole range. It returns an error for a window outside of the workload.
func (w *Workload) Settle(p Window) (Window, error) {
	n := len(w.Jobs)
	if n == 0 {
		return p, ErrNothing
	}
	if p == (Window{}) {
		return Window{0, n}, nil
	}
	if p.Start < 0 || p.Length < 1 || p.Start+p.Length > n {
		return p, fmt.Errorf("jobs %d to %d: there are the jobs 0 to %d", p.Start, p.Start+p.Length-1, n-1)
	}
	return p, nil
}
