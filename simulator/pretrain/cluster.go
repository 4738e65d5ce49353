package pretrain

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"trainopt/morl"
	"trainopt/optimizer/schedule"
	"trainopt/simulator/cluster"
	"trainopt/simulator/platform"
	"trainopt/simulator/workload"
)

// clusterEnvironment is the environment "cluster": an episode is a stream of jobs on a cluster with several types of
// devices, simulated in rounds, and an action is the choice of the policy that decides until the next decision. The
// rewards are the negative increments of the measures of cluster.Isolated, to which they sum, less their ideal part.
type clusterEnvironment struct {
	ctx      context.Context // interrupts an episode
	draw     func(rng *rand.Rand) (cluster.Config, error)
	isolated *cluster.Isolated
	next     func() (*cluster.DecisionPoint, bool)
	stop     func()
	action   int
	before   [3]float64
	reward   [3]float32
	final    *cluster.Result
	err      error
}

var _ morl.Environment = (*clusterEnvironment)(nil)

// Shape implements morl.Environment.
func (e *clusterEnvironment) Shape() morl.Shape { return clusterShape() }

func clusterShape() morl.Shape {
	return morl.Shape{State: cluster.StateSize(), Actions: len(cluster.Choices), Objectives: cluster.Objectives}
}

// Err returns the failure of an episode.
func (e *clusterEnvironment) Err() error { return e.err }

// Reset draws a cluster with its jobs and simulates up to the first decision.
func (e *clusterEnvironment) Reset(rng *rand.Rand) morl.Observation {
	if e.stop != nil {
		e.stop()
	}
	c, err := e.draw(rng)
	if err == nil {
		e.isolated, err = cluster.RunIsolated(e.ctx, c)
	}
	e.before = [3]float64{}
	e.next, e.stop = iter.Pull(func(yield func(*cluster.DecisionPoint) bool) {
		abandoned := false
		c.Choose = func(p *cluster.DecisionPoint) int {
			if abandoned = !yield(p); abandoned {
				return -1
			}
			return e.action
		}
		if err == nil {
			e.final, err = cluster.Run(e.ctx, c)
		}
		if err != nil && !abandoned {
			e.err = err
		}
	})
	return e.observe().Observation
}

// Step implements morl.Environment.
func (e *clusterEnvironment) Step(action int) morl.Outcome {
	e.action = action
	return e.observe()
}

// observe simulates up to the next decision or the end.
func (e *clusterEnvironment) observe() morl.Outcome {
	p, more := e.next()
	out := morl.Outcome{Reward: e.reward[:], Work: 1, Done: !more}
	now := e.before
	switch {
	case more:
		out.Observation = morl.Observation{State: p.State(), Mask: p.Mask()}
		now = e.isolated.SoFar(p)
	case e.err == nil:
		ideal := e.isolated.Ideal()
		for k, v := range e.isolated.Of(e.final) {
			now[k] = v - ideal[k]
		}
	}
	if !more {
		out.Observation = morl.Observation{State: make([]float32, cluster.StateSize())}
	}
	for k := range now {
		e.reward[k] = float32(e.before[k] - now[k])
	}
	e.before = now
	return out
}

// clusterJudge measures agents on the same clusters and jobs each time, which it draws when it is first asked.
type clusterJudge struct {
	clusterEnvironment // its shape, context and failure
	cases              []clusterCase
	single             [][]float64 // returns of each policy throughout
}

type clusterCase struct {
	config   cluster.Config
	isolated *cluster.Isolated
}

// prepare draws the cases and measures each policy throughout.
func (j *clusterJudge) prepare() {
	rng := rand.New(rand.NewPCG(evaluationSeed, 0xc1))
	for range judgedClusters {
		var c clusterCase
		if c.config, j.err = j.draw(rng); j.err == nil {
			c.isolated, j.err = cluster.RunIsolated(j.ctx, c.config)
		}
		if j.err != nil {
			return
		}
		j.cases = append(j.cases, c)
	}
	for k := range cluster.Choices {
		j.single = append(j.single, j.Return(func([]float32, []bool) int { return k }, 1))
	}
}

// Return returns the mean return of a policy. It is not discounted.
func (j *clusterJudge) Return(policy func(state []float32, mask []bool) int, _ float64) []float64 {
	if j.cases == nil {
		j.prepare()
	}
	out := make([]float64, len(cluster.Objectives))
	for _, c := range j.cases {
		if j.err != nil {
			break
		}
		c.config.Choose = func(p *cluster.DecisionPoint) int { return policy(p.State(), p.Mask()) }
		var r *cluster.Result
		if r, j.err = cluster.Run(j.ctx, c.config); j.err != nil {
			break
		}
		for k, v := range c.isolated.Of(r) {
			out[k] -= v / float64(len(j.cases))
		}
	}
	return out
}

// note records the returns of single policies in an agent file.
func (j *clusterJudge) note(m *morl.Meta) {
	if b, err := json.Marshal(j.single); err == nil {
		m.Notes[noteSingle] = string(b)
	}
}

// certainty is the factor of the standard deviation over critics in ClusterChooser.
const certainty = 2.0

// judgedClusters is the number of episodes on which an agent is measured.
const judgedClusters = 24

// clusterWorld returns the environment "cluster".
func clusterWorld(o *Options, c morl.Config, r recipe) (*world, error) {
	if c.Resets.Mode == "evidence" {
		return nil, fmt.Errorf("resets on evidence need an agreement that can be violated: %s has none", o.Env)
	}
	ctx, cancel := context.WithCancel(context.Background())
	env := clusterEnvironment{ctx: ctx, draw: func(rng *rand.Rand) (cluster.Config, error) { return drawCluster(rng, &trainedClusters) }}
	judge := &clusterJudge{clusterEnvironment: env}
	w := measuredWorld(&env, judge, []float64{-2, -2, -2}, c, r)
	w.note, w.failed, w.close = judge.note, judge.Err, cancel
	return w, nil
}

// clusterKind is a distribution of clusters and their jobs.
type clusterKind struct {
	counts    []int      // numbers of devices of a type
	load      [2]float64 // mean work that arrives, relative to the capacity
	amplitude float64    // largest relative change of the load
	period    [2]float64 // hours between equal phases of the load
	diurnal   bool       // the load changes as a sine, else between two values
	hours     [2]float64 // largest duration of a job
	jobs      int
}

// Clusters on which agents are trained, and others on which they are compared.
var (
	trainedClusters = clusterKind{counts: []int{0, 8, 12, 16}, load: [2]float64{0.4, 1}, amplitude: 0.8, period: [2]float64{4, 24},
		hours: [2]float64{4, 24}, jobs: 150}
	unseenClusters = clusterKind{counts: []int{4, 6, 10, 14, 20}, load: [2]float64{0.3, 1.1}, amplitude: 0.9, period: [2]float64{8, 30}, diurnal: true,
		hours: [2]float64{3, 30}, jobs: 200}
)

// DrawnClusters draw a cluster with jobs by seed: "training" as the environment "cluster" does, with other seeds, and
// "unseen" from a distribution on which no agent is trained: other numbers of devices, loads that change otherwise and
// further, more jobs.
var DrawnClusters = map[string]func(seed uint64) (cluster.Config, error){
	"training": func(seed uint64) (cluster.Config, error) {
		return drawCluster(rand.New(rand.NewPCG(seed, 0xc2)), &trainedClusters)
	},
	"unseen": func(seed uint64) (cluster.Config, error) {
		return drawCluster(rand.New(rand.NewPCG(seed, 0xc3)), &unseenClusters)
	},
}

// drawCluster draws a cluster and its jobs.
func drawCluster(rng *rand.Rand, k *clusterKind) (cluster.Config, error) {
	between := func(of [2]float64) float64 { return of[0] * math.Pow(of[1]/of[0], rng.Float64()) }
	names, counts, sorted := []string{"k80", "p100", "v100"}, []int{0, 0, 0}, []int{0, 0, 0}
	for sorted[1] == 0 || sorted[2] < 8 { // at least two types, and jobs ask for up to 8 devices
		for i := range counts {
			counts[i] = k.counts[rng.IntN(len(k.counts))]
		}
		sorted = slices.Sorted(slices.Values(counts))
	}
	machines, err := platform.Parse(fmt.Sprintf("k80=%d,p100=%d,v100=%d", counts[0], counts[1], counts[2]), names)
	if err != nil {
		return cluster.Config{}, err
	}
	prices, err := platform.Prices("gavel")
	if err != nil {
		return cluster.Config{}, err
	}
	machines.Price(prices)
	c := cluster.Config{Devices: cluster.Devices(machines), Preemption: schedule.Preemption{Seconds: 30}, Backlog: -1, Seed: rng.Int64()}
	c.Jobs = drawJobs(rng, k, c.Devices, between)
	return c, nil
}

// drawJobs draws jobs of some of Gavel's types, on one device or several, whose work arrives at the drawn load.
func drawJobs(rng *rand.Rand, k *clusterKind, devices []schedule.DeviceType, between func([2]float64) float64) []workload.Job {
	table := workload.GavelTable()
	shares := make([]float64, len(workload.Templates)) // a few types have most of the jobs
	for i := range shares {
		shares[i] = math.Exp(2 * rng.NormFloat64())
	}
	longest, several := between(k.hours), 0.5*rng.Float64()
	jobs := make([]workload.Job, k.jobs)
	var work float64 // device-seconds, mean over the types of device
	all := 0
	for _, d := range devices {
		all += d.Count
	}
	for i := range jobs {
		j := &jobs[i]
		*j = workload.Job{ID: i, GPUs: 1, Weight: 1, SLO: math.NaN(), Deadline: math.NaN(), Seconds: 3600 * between([2]float64{0.2, longest})}
		t := workload.Templates[draw(rng, shares)]
		if t.Distributed && rng.Float64() < several {
			j.GPUs = []int{2, 4, 4, 8}[rng.IntN(4)]
		}
		j.Type = t.Type
		rate := table.Alone("v100", j.Type, j.GPUs)
		j.Steps = j.Seconds * rate
		capacity := 0.0 // of the cluster for the job, relative to that of V100
		for _, d := range devices {
			capacity += float64(d.Count) * table.Alone(d.Name, j.Type, j.GPUs) / rate
		}
		work += float64(j.GPUs) * j.Seconds / capacity
	}
	mean := work / float64(k.jobs) / (k.load[0] + (k.load[1]-k.load[0])*rng.Float64()) // seconds between arrivals
	period, amplitude, phase, at := 3600*between(k.period), k.amplitude*rng.Float64(), rng.Float64(), 0.0
	for i := range jobs {
		change := math.Sin(2 * math.Pi * (at/period + phase))
		if !k.diurnal {
			change = math.Copysign(1, change)
		}
		at += rng.ExpFloat64() * mean / (1 + amplitude*change)
		jobs[i].Arrival = at
	}
	return jobs
}

// draw returns an index with a probability in proportion to its share.
func draw(rng *rand.Rand, shares []float64) int {
	sum := 0.0
	for _, s := range shares {
		sum += s
	}
	left := sum * rng.Float64()
	return max(0, min(len(shares)-1, slices.IndexFunc(shares, func(s float64) bool { left -= s; return left < 0 })))
}

// noteSingle is the note of an agent file with the mean returns of each of cluster.Choices throughout, on the clusters on
// which the agent was measured.
const noteSingle = "single"

// ClusterChooser returns the choices of the agent in a file for a preference, for cluster.Config.Choose of one run at a
// time. The agent leaves the single policy that was best for the preference where it was trained only if its critics
// agree: their mean advantage exceeds its standard deviation over them, times certainty.
func ClusterChooser(file []byte, preference string) (func(*cluster.DecisionPoint) int, error) {
	by, err := cluster.ParsePreference(preference)
	if err != nil {
		return nil, err
	}
	meta, a, err := morl.ReadFile(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	if s := clusterShape(); meta.Env != "cluster" || meta.Shape.State != s.State || meta.Shape.Actions != s.Actions {
		return nil, fmt.Errorf("an agent of the environment %s with %d state numbers and %d actions: want cluster, %d and %d", meta.Env, meta.Shape.State, meta.Shape.Actions, s.State, s.Actions)
	}
	var w []float32
	for _, v := range by.Weights {
		w = append(w, float32(v))
	}
	single, critics := singlePolicy(meta.Notes[noteSingle], by.Weights), morl.Valuer(nil)
	if single >= 0 {
		critics, _ = a.(morl.Valuer)
	}
	return func(p *cluster.DecisionPoint) int {
		o := morl.Observation{State: p.State(), Mask: p.Mask()}
		if critics == nil || !o.Mask[single] {
			return a.Act(o, w, false)
		}
		return agreed(critics.Values(o, w), w, single, o.Mask)
	}, nil
}

// singlePolicy returns the policy with the best returns of a note for a preference; −1: the note has none.
func singlePolicy(note string, weights []float64) int {
	var returns [][]float64
	if json.Unmarshal([]byte(note), &returns) != nil || len(returns) != len(cluster.Choices) {
		return -1
	}
	best, most := -1, math.Inf(-1)
	for k, r := range returns {
		u := 0.0
		for i, w := range weights {
			u += w * r[i]
		}
		if u > most {
			best, most = k, u
		}
	}
	return best
}

// agreed returns the action with the largest mean advantage over one of them, if the critics agree on it, else that one.
func agreed(critics [][]float32, w []float32, over int, mask []bool) int {
	best, most := over, 0.0
	for a := range mask {
		var mean, squares float64
		for _, q := range critics {
			d := 0.0
			for i, v := range w {
				d += float64(v * (q[a*len(w)+i] - q[over*len(w)+i]))
			}
			mean += d / float64(len(critics))
			squares += d * d / float64(len(critics))
		}
		deviation := math.Sqrt(max(0, squares-mean*mean) * float64(len(critics)) / max(1, float64(len(critics)-1)))
		if mask[a] && mean > most && mean > certainty*deviation {
			best, most = a, mean
		}
	}
	return best
}
