package engine

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"trainopt/internal/stat"
	"trainopt/simulator/queue"
	"trainopt/simulator/workload/swf"
)

// world is a simulated past of a queue: jobs in order of submission with their starts and ends.
type world struct {
	nodes     []Node
	scheduler Scheduler
	jobs      []Job
}

// at returns what could be known when job i was submitted: the queue without it, and the jobs that had ended by then.
func (w *world) at(i int) (Queue, History) {
	now := w.jobs[i].Submitted
	q := Queue{Now: now, Nodes: w.nodes, Scheduler: w.scheduler}
	var h History
	for k, j := range w.jobs {
		switch {
		case k == i || j.Submitted.After(now) || j.Submitted.Equal(now) && k > i:
		case !j.Ended.After(now):
			j.Nodes = nil
			h.Jobs = append(h.Jobs, j)
		case j.Started.Before(now):
			j.Ended = time.Time{}
			q.Running = append(q.Running, j)
		default:
			j.Started, j.Ended, j.Nodes = time.Time{}, time.Time{}, nil
			q.Waiting = append(q.Waiting, j)
		}
	}
	return q, h
}

// score is the quality of predictions for jobs that, by the limits of the jobs before them, could not start at once.
type score struct {
	jobs, inside      int
	errors            []float64 // of the median, absolute, s
	byLimits, runOnly []float64 // of the plan by limits, with all jobs and with the running ones only
	wait, width       []float64 // s
}

// soon is the planned wait up to which a prediction is not counted, since any method predicts it.
const soon = time.Minute

// assess predicts every step-th job from first on at its submission. Jobs planned to start soon are not counted.
func (w *world) assess(t *testing.T, s *score, first, step int, o Options) {
	t.Helper()
	for i := first; i < len(w.jobs); i += step {
		q, h := w.at(i)
		j := w.jobs[i]
		actual := j.Started
		j.Started, j.Ended, j.Nodes = time.Time{}, time.Time{}, nil
		o.Seed = uint64(i)
		p, err := Predict(q, j, h, o)
		if err != nil {
			t.Fatalf("job %d: %v", i, err)
		}
		if p.ByLimits.Sub(q.Now) <= soon {
			continue
		}
		q.Waiting = nil
		only, err := Predict(q, j, History{}, Options{Draws: 1})
		if err != nil {
			t.Fatal(err)
		}
		s.jobs++
		if !actual.Before(p.P5) && !actual.After(p.P95) {
			s.inside++
		}
		distance := func(t time.Time) float64 { return math.Abs(t.Sub(actual).Seconds()) }
		s.errors = append(s.errors, distance(p.P50))
		s.byLimits = append(s.byLimits, distance(p.ByLimits))
		s.runOnly = append(s.runOnly, distance(only.ByLimits))
		s.wait = append(s.wait, actual.Sub(q.Now).Seconds())
		s.width = append(s.width, p.P95.Sub(p.P5).Seconds())
	}
}

func (s *score) String() string {
	minutes := func(v []float64) float64 { return stat.Median(v) / 60 }
	return fmt.Sprintf("%d jobs: coverage %.1f %%; median error %.1f min, by limits %.1f min (ratio %.2f), by limits of running jobs %.1f min (ratio %.2f); median wait %.1f min, interval %.1f min",
		s.jobs, 100*s.coverage(), minutes(s.errors), minutes(s.byLimits), s.ratio(), minutes(s.runOnly), minutes(s.errors)/minutes(s.runOnly), minutes(s.wait), minutes(s.width))
}

func (s *score) coverage() float64 { return float64(s.inside) / float64(s.jobs) }
func (s *score) ratio() float64    { return stat.Median(s.errors) / stat.Median(s.byLimits) }

// check requires the properties that the predictions promise.
func (s *score) check(t *testing.T) {
	t.Helper()
	t.Log(s)
	if s.jobs < 100 {
		t.Fatalf("%d jobs had to wait, want 100 or more", s.jobs)
	}
	if c := s.coverage(); c < 0.85 || c > 0.95 {
		t.Errorf("coverage %.3f, want 0.85 to 0.95", c)
	}
	if r := s.ratio(); r > 0.5 {
		t.Errorf("median error is %.2f of that of the plan by limits, want 0.5 or less", r)
	}
}

// habit is how the jobs of one user with one name behave.
type habit struct {
	user, name string
	place      Place
	limit      time.Duration
	share      float64 // median run length as a share of the limit
	spread     float64 // standard deviation of its logarithm
	failing    float64 // probability of an end within the first hundredth
	weight     float64 // relative frequency
}

// drawShare draws a run length as a share of the limit, 1 for a job that reaches it.
func (b *habit) drawShare(r *rand.Rand) float64 {
	if b.fails(r) {
		return 0.01 * r.Float64()
	}
	return b.usualShare(r)
}

// fails draws whether a job ends early.
func (b *habit) fails(r *rand.Rand) bool { return r.Float64() < b.failing }

// usualShare draws the share of a job that does not fail.
func (b *habit) usualShare(r *rand.Rand) float64 {
	return min(b.share*math.Exp(b.spread*r.NormFloat64()), 1)
}

// habits draws eight users with two to four kinds of jobs each.
func habits(r *rand.Rand) []habit {
	var out []habit
	for u := range 8 {
		usual := 0.05 + 0.75*r.Float64() // how far the user overestimates
		for n := range 2 + r.IntN(3) {
			gpus := []int{1, 1, 1, 2, 2, 4}[r.IntN(6)]
			b := habit{user: fmt.Sprint("user", u), name: fmt.Sprint("job", n), limit: time.Duration([]int{1, 2, 4, 8, 12, 24}[r.IntN(6)]) * time.Hour}
			b.place = Place{GPUs: gpus, CPUs: 4 * gpus, Memory: 8, GPUType: []string{"", "", "", "", "a100", "v100"}[r.IntN(6)]}
			if gpus == 4 && b.place.GPUType == "" && r.IntN(2) == 0 {
				b.place.Nodes = 2
			}
			b.share = min(usual*math.Exp(0.5*r.NormFloat64()), 1)
			b.spread, b.failing, b.weight = 0.05+0.5*r.Float64(), 0.15*r.Float64(), r.ExpFloat64()
			out = append(out, b)
		}
	}
	return out
}

// gpuWorld simulates n jobs of synthetic users on eight nodes of GPUs of three types, at a load.
func gpuWorld(seed uint64, n int, load float64) *world {
	r := rand.New(rand.NewPCG(seed, 99))
	w := &world{scheduler: Scheduler{Interval: 30 * time.Second, WholeNodes: true}}
	for i, kind := range []string{"a100", "a100", "v100", "v100", "v100", "k80", "k80", "k80"} {
		w.nodes = append(w.nodes, gpuNode(fmt.Sprint("n", i), kind))
	}
	kinds := habits(r)
	total, work := 0.0, map[string]float64{} // GPU-seconds by type, of all under ""
	for _, b := range kinds {
		total += b.weight
	}
	var shares []float64
	for range n {
		x := r.Float64() * total
		k := 0
		for ; k < len(kinds)-1 && x >= kinds[k].weight; k++ {
			x -= kinds[k].weight
		}
		b := &kinds[k]
		w.jobs = append(w.jobs, Job{User: b.user, Name: b.name, Place: b.place, Limit: b.limit})
		shares = append(shares, b.drawShare(r))
		x = shares[len(shares)-1] * b.limit.Seconds() * float64(b.place.GPUs*max(b.place.Nodes, 1))
		if work[""] += x; b.place.GPUType != "" {
			work[b.place.GPUType] += x
		}
	}
	gap := max(work[""]/32, work["a100"]/8, work["v100"]/12) / float64(n) / load
	at := noon
	for i := range w.jobs {
		at = at.Add(time.Duration(gap * r.ExpFloat64() * float64(time.Second))).Truncate(time.Second)
		w.jobs[i].Submitted = at
	}
	(&slurmLike{world: w, shares: shares}).run()
	return w
}

// slurmLike runs the jobs of a world as Slurm does: by priority after each event, and every interval by backfilling
// with reservations of whole nodes. It is written for simplicity and shares no code with the package.
type slurmLike struct {
	*world
	shares  []float64
	now     time.Time
	waiting []int
	running []int
}

func (s *slurmLike) run() {
	next, dirty := 0, false
	tick := s.jobs[0].Submitted
	for next < len(s.jobs) || len(s.waiting)+len(s.running) > 0 {
		s.now = time.Time{}
		consider := func(t time.Time) {
			if s.now.IsZero() || t.Before(s.now) {
				s.now = t
			}
		}
		if next < len(s.jobs) {
			consider(s.jobs[next].Submitted)
		}
		for _, i := range s.running {
			consider(s.jobs[i].Ended)
		}
		if dirty {
			consider(tick)
		}
		before := len(s.running)
		s.running = slices.DeleteFunc(s.running, func(i int) bool { return !s.jobs[i].Ended.After(s.now) })
		changed := len(s.running) < before
		for ; next < len(s.jobs) && !s.jobs[next].Submitted.After(s.now); next++ {
			s.waiting = append(s.waiting, next)
			changed = true
		}
		if changed {
			s.inOrder()
			dirty = true
		}
		if dirty && !s.now.Before(tick) {
			s.backfill()
			dirty = false
			tick = s.now.Add(s.scheduler.Interval)
		} else if dirty && tick.Before(s.now) {
			tick = s.now
		}
	}
}

// fits reports whether a job fits a node at a time when the running jobs end by their limits.
func (s *slurmLike) fits(j *Job, n *Node, at time.Time) bool {
	cpus, memory, gpus := n.CPUs, n.Memory, 0
	for kind, count := range n.GPUs {
		if j.Place.GPUType == "" || j.Place.GPUType == kind {
			gpus += count
		}
	}
	for _, i := range s.running {
		r := &s.jobs[i]
		if slices.Contains(r.Nodes, n.Name) && (r.Started.Add(r.Limit).After(at) || at.Equal(s.now)) {
			cpus, memory, gpus = cpus-r.Place.CPUs, memory-r.Place.Memory, gpus-r.Place.GPUs
		}
	}
	return cpus >= j.Place.CPUs && memory >= j.Place.Memory && gpus >= j.Place.GPUs
}

func (s *slurmLike) start(i int, on []string) {
	j := &s.jobs[i]
	j.Started, j.Nodes = s.now, on
	j.Ended = s.now.Add(time.Duration(s.shares[i] * float64(j.Limit))).Truncate(time.Second)
	s.running = append(s.running, i)
}

func (s *slurmLike) inOrder() {
	for len(s.waiting) > 0 {
		j := &s.jobs[s.waiting[0]]
		on := s.free(j)
		if on == nil {
			return
		}
		s.start(s.waiting[0], on)
		s.waiting = s.waiting[1:]
	}
}

// free returns the nodes of a job if it could start now, whatever is reserved; nil otherwise.
func (s *slurmLike) free(j *Job) []string {
	var on []string
	for k := range s.nodes {
		if len(on) < max(j.Place.Nodes, 1) && s.fits(j, &s.nodes[k], s.now) {
			on = append(on, s.nodes[k].Name)
		}
	}
	if len(on) < max(j.Place.Nodes, 1) {
		return nil
	}
	return on
}

func (s *slurmLike) backfill() {
	if !slices.ContainsFunc(s.waiting, func(i int) bool { return s.free(&s.jobs[i]) != nil }) {
		return
	}
	type reservation struct {
		node     string
		from, to time.Time
	}
	var reserved []reservation
	var left []int
	for _, i := range s.waiting {
		j := &s.jobs[i]
		times := []time.Time{s.now}
		for _, r := range s.running {
			times = append(times, s.jobs[r].Started.Add(s.jobs[r].Limit))
		}
		for _, r := range reserved {
			times = append(times, r.to)
		}
		slices.SortFunc(times, time.Time.Compare)
		for _, at := range times {
			if at.Before(s.now) {
				continue
			}
			var on []string
			for k := range s.nodes {
				name := s.nodes[k].Name
				taken := slices.ContainsFunc(reserved, func(r reservation) bool {
					return r.node == name && r.from.Before(at.Add(j.Limit)) && r.to.After(at)
				})
				if !taken && len(on) < max(j.Place.Nodes, 1) && s.fits(j, &s.nodes[k], at) {
					on = append(on, name)
				}
			}
			if len(on) < max(j.Place.Nodes, 1) {
				continue
			}
			if at.Equal(s.now) {
				s.start(i, on)
			} else {
				for _, name := range on {
					reserved = append(reserved, reservation{name, at, at.Add(j.Limit)})
				}
				left = append(left, i)
			}
			break
		}
	}
	s.waiting = left
}

// cpuWorld simulates n jobs by the model of Lublin and Feitelson under EASY backfilling on equal processors, where every
// job belongs to one of the habits and its limit follows from its run length. Run lengths are scaled to the load.
func cpuWorld(t *testing.T, seed uint64, n int, load float64) *world {
	t.Helper()
	const procs = 128
	jobs, err := swf.Lublin{Jobs: n, Procs: procs, Seed: seed}.Generate()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(seed, 77))
	kinds := habits(r)
	work := 0.0
	for _, j := range jobs {
		work += j.Run * float64(j.Procs)
	}
	stretch := load * procs * (jobs[n-1].Submit - jobs[0].Submit) / work
	w := &world{nodes: []Node{{Name: "all", CPUs: procs}}, scheduler: Scheduler{Reservations: 1}}
	for i := range jobs {
		j, b := &jobs[i], &kinds[r.IntN(len(kinds))]
		share := b.usualShare(r)
		j.Request = math.Ceil(j.Run*stretch/share/60) * 60
		if j.Run = math.Ceil(share * j.Request); b.fails(r) {
			j.Run = math.Ceil(0.01 * r.Float64() * j.Request)
		}
		j.Limit = j.Request
		w.jobs = append(w.jobs, Job{ID: fmt.Sprint(j.ID), User: b.user, Name: b.name, Place: Place{CPUs: j.Procs}, Limit: time.Duration(j.Request) * time.Second})
	}
	result, err := queue.Run(context.Background(), queue.Config{Procs: procs, Jobs: jobs, Backfill: "easy"})
	if err != nil {
		t.Fatal(err)
	}
	at := func(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }
	for i, o := range result.Jobs {
		j := &w.jobs[i]
		j.Submitted, j.Started, j.Ended, j.Nodes = at(jobs[i].Submit), at(o.Start), at(o.End), []string{"all"}
	}
	slices.SortStableFunc(w.jobs, func(a, b Job) int { return a.Submitted.Compare(b.Submitted) })
	return w
}

// TestPredictionsOfGPUCluster assesses predictions on clusters that Slurm's method schedules.
func TestPredictionsOfGPUCluster(t *testing.T) {
	assessWorlds(t, func(seed uint64) *world { return gpuWorld(seed, 900, 0.75) })
}

// TestPredictionsOfBatchSystem assesses predictions on machines that EASY backfilling schedules.
func TestPredictionsOfBatchSystem(t *testing.T) {
	assessWorlds(t, func(seed uint64) *world { return cpuWorld(t, seed, 900, 0.85) })
}

// worlds is the number of simulated pasts. One of them is a small sample, since the waits of its jobs depend on one another.
var seedBase = uint64(5000)
var worlds = flag.Int("worlds", 24, "simulated pasts on which predictions are assessed")

// assessWorlds assesses the predictions in all worlds together.
func assessWorlds(t *testing.T, build func(seed uint64) *world) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	var all score
	for seed := range uint64(*worlds) {
		var one score
		build(seed+seedBase).assess(t, &one, 400, 10, Options{Draws: 100})
		if one.jobs > 0 {
			t.Logf("seed %d: %s", seed, &one)
		}
		all = score{all.jobs + one.jobs, all.inside + one.inside, append(all.errors, one.errors...), append(all.byLimits, one.byLimits...),
			append(all.runOnly, one.runOnly...), append(all.wait, one.wait...), append(all.width, one.width...)}
	}
	all.check(t)
}

// TestWorldIsSound requires that no simulated past uses more than its nodes have, and that no job starts early.
func TestWorldIsSound(t *testing.T) {
	w := gpuWorld(3, 300, 0.9)
	type change struct {
		at   time.Time
		node string
		gpus int
	}
	var changes []change
	for i, j := range w.jobs {
		if j.Started.Before(j.Submitted) || j.Ended.Before(j.Started) || j.Ended.Sub(j.Started) > j.Limit {
			t.Fatalf("job %d: submitted %v, started %v, ended %v", i, j.Submitted, j.Started, j.Ended)
		}
		for _, n := range j.Nodes {
			changes = append(changes, change{j.Started, n, j.Place.GPUs}, change{j.Ended, n, -j.Place.GPUs})
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.gpus, b.gpus)) })
	used := map[string]int{}
	for _, c := range changes {
		if used[c.node] += c.gpus; used[c.node] > 4 {
			t.Fatalf("%d GPUs used of %s at %v", used[c.node], c.node, c.at)
		}
	}
}
