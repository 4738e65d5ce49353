package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule/order"
	"trainopt/resources"
	"trainopt/simulator/queue"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// gpuNode returns a node with four GPUs of a type, 16 CPUs and 64 GiB.
func gpuNode(name, kind string, partitions ...string) Node {
	return Node{Name: name, Partitions: partitions, CPUs: 16, Memory: 64, GPUs: map[string]int{kind: 4}}
}

// waiting returns a job that was submitted some minutes ago.
func waiting(minutes, gpus int, limit time.Duration) Job {
	return Job{User: "u", Place: Place{GPUs: gpus}, Limit: limit, Submitted: noon.Add(-time.Duration(minutes) * time.Minute)}
}

// running returns a job that has run for half an hour of two hours.
func running(gpus int, nodes ...string) Job {
	j := waiting(60, gpus, 2*time.Hour)
	j.Started, j.Nodes = noon.Add(-30*time.Minute), nodes
	return j
}

// TestByLimits checks the plan by limits, in which every rule of the scheduler is visible.
func TestByLimits(t *testing.T) {
	two := []Node{gpuNode("n0", "a100"), gpuNode("n1", "v100")}
	inParts := []Node{gpuNode("n0", "a100", "gpu"), gpuNode("n1", "v100", "gpu", "urgent")}
	parts := []Partition{{Name: "gpu", Default: true, Tier: 1, Limit: time.Hour}, {Name: "urgent", Tier: 10}}
	place := func(p Place, limit time.Duration) Job { return Job{User: "u", Place: p, Limit: limit} }
	for name, c := range map[string]struct {
		q    Queue
		j    Job
		want time.Duration // from noon
	}{
		"idle":                 {Queue{Nodes: two}, place(Place{GPUs: 4}, time.Hour), 0},
		"busy":                 {Queue{Nodes: two[:1], Running: []Job{running(4, "n0")}}, place(Place{GPUs: 1}, time.Hour), 90 * time.Minute},
		"another type is free": {Queue{Nodes: two, Running: []Job{running(4, "n0")}}, place(Place{GPUs: 1}, time.Hour), 0},
		"type requested":       {Queue{Nodes: two, Running: []Job{running(4, "n0")}}, place(Place{GPUs: 1, GPUType: "a100"}, time.Hour), 90 * time.Minute},
		"CPUs are used up": {Queue{Nodes: two[:1], Running: []Job{{User: "v", Place: Place{CPUs: 16}, Limit: time.Hour, Started: noon, Nodes: []string{"n0"}}}},
			place(Place{GPUs: 1}, time.Hour), time.Hour},
		"memory is used up": {Queue{Nodes: two[:1], Running: []Job{{User: "v", Place: Place{Memory: 60}, Limit: time.Hour, Started: noon, Nodes: []string{"n0"}}}},
			place(Place{Memory: 8}, time.Hour), time.Hour},
		"all memory": {Queue{Nodes: two[:1], Running: []Job{{User: "v", Place: Place{Memory: 1}, Limit: time.Hour, Started: noon, Nodes: []string{"n0"}}}},
			place(Place{Memory: resources.GiB(math.Inf(1))}, time.Hour), time.Hour},
		"exclusive":      {Queue{Nodes: two[:1], Running: []Job{running(1, "n0")}}, Job{User: "u", Exclusive: true, Limit: time.Hour}, 90 * time.Minute},
		"avoided node":   {Queue{Nodes: two, Running: []Job{running(4, "n0")}}, place(Place{GPUs: 1, Avoid: []string{"n1"}}, time.Hour), 90 * time.Minute},
		"two nodes":      {Queue{Nodes: two, Running: []Job{running(4, "n0")}}, place(Place{GPUs: 1, Nodes: 2}, time.Hour), 90 * time.Minute},
		"overdue":        {Queue{Nodes: two[:1], Running: []Job{{User: "v", Place: Place{GPUs: 4}, Limit: time.Hour, Started: noon.Add(-2 * time.Hour), Nodes: []string{"n0"}}}}, place(Place{GPUs: 1}, time.Hour), 30 * time.Second},
		"node is down":   {Queue{Nodes: two[:1], Running: []Job{running(4, "n7")}}, place(Place{GPUs: 4}, time.Hour), 0},
		"behind another": {Queue{Nodes: two[:1], Running: []Job{running(4, "n0")}, Waiting: []Job{waiting(5, 3, 3*time.Hour)}}, place(Place{GPUs: 2}, time.Hour), 90*time.Minute + 3*time.Hour},
		"beside another": {Queue{Nodes: two[:1], Running: []Job{running(4, "n0")}, Waiting: []Job{waiting(5, 3, 3*time.Hour)}}, place(Place{GPUs: 1}, time.Hour), 90 * time.Minute},
		"backfilled":     {Queue{Nodes: two[:1], Running: []Job{running(3, "n0")}, Waiting: []Job{waiting(5, 4, time.Hour)}}, place(Place{GPUs: 1}, 90*time.Minute), 0},
		"too long to backfill": {Queue{Nodes: two[:1], Running: []Job{running(3, "n0")}, Waiting: []Job{waiting(5, 4, time.Hour)}},
			place(Place{GPUs: 1}, 91*time.Minute), 150 * time.Minute},
		"held job ignored": {Queue{Nodes: two[:1], Waiting: []Job{{User: "v", Held: true, Place: Place{GPUs: 4}, Limit: time.Hour}}},
			place(Place{GPUs: 4}, time.Hour), 0},
		"waiting job that fits nowhere ignored": {Queue{Nodes: two[:1], Waiting: []Job{waiting(5, 8, time.Hour)}}, place(Place{GPUs: 4}, time.Hour), 0},
		"not before":                            {Queue{Nodes: two}, Job{User: "u", Limit: time.Hour, NotBefore: noon.Add(20 * time.Minute)}, 20 * time.Minute},
		"by priority":                           {Queue{Nodes: two[:1], Running: []Job{running(4, "n0")}, Waiting: []Job{waiting(5, 4, 3*time.Hour)}}, Job{User: "u", Priority: 7, Place: Place{GPUs: 4}, Limit: time.Hour}, 90 * time.Minute},
		"default partition and its limit": {Queue{Nodes: inParts, Partitions: parts, Running: []Job{running(4, "n0")}, Waiting: []Job{{User: "v", Place: Place{GPUs: 4, Partition: "gpu"}, Submitted: noon.Add(-time.Minute)}}},
			place(Place{GPUs: 4}, time.Hour), time.Hour},
		"partition of higher tier": {Queue{Nodes: inParts, Partitions: parts, Running: []Job{running(4, "n1"), running(4, "n0")}, Waiting: []Job{waiting(5, 4, time.Hour), waiting(4, 4, time.Hour)}},
			place(Place{GPUs: 4, Partition: "urgent"}, time.Hour), 90 * time.Minute},
		"either partition": {Queue{Nodes: inParts, Partitions: parts, Running: []Job{running(4, "n1")}}, place(Place{GPUs: 4, Partition: "urgent,gpu"}, time.Hour), 0},
		// The head of the queue may start in 90 minutes on n0, the second after it; the last one fits beside the head.
		"conservative": {Queue{Nodes: two[:1], Running: []Job{running(2, "n0")}, Waiting: []Job{waiting(5, 3, time.Hour), waiting(4, 2, 3*time.Hour)}},
			place(Place{GPUs: 1}, 3*time.Hour), 0},
		"whole nodes": {Queue{Nodes: two[:1], Running: []Job{running(2, "n0")}, Waiting: []Job{waiting(5, 3, time.Hour)}, Scheduler: Scheduler{WholeNodes: true}},
			place(Place{GPUs: 1}, 3*time.Hour), 90 * time.Minute},
		"conservative keeps the second": {Queue{Nodes: two[:1], Running: []Job{running(2, "n0")}, Waiting: []Job{waiting(5, 3, time.Hour), waiting(4, 4, time.Hour)}},
			place(Place{GPUs: 1}, 3*time.Hour), 210 * time.Minute},
		"EASY delays the second": {Queue{Nodes: two[:1], Running: []Job{running(2, "n0")}, Waiting: []Job{waiting(5, 3, time.Hour), waiting(4, 4, time.Hour)}, Scheduler: Scheduler{Reservations: 1}},
			place(Place{GPUs: 1}, 3*time.Hour), 0},
		"window of ends": {Queue{Nodes: two, Running: []Job{running(3, "n0"), {User: "v", Place: Place{GPUs: 3}, Limit: 2 * time.Hour, Started: noon.Add(-10 * time.Minute), Nodes: []string{"n1"}}},
			Waiting: []Job{waiting(5, 4, time.Hour)}, Scheduler: Scheduler{WholeNodes: true, EndWindow: 30 * time.Minute}}, place(Place{GPUs: 1, GPUType: "a100"}, 100*time.Minute), 0},
		"without windows": {Queue{Nodes: two, Running: []Job{running(3, "n0"), {User: "v", Place: Place{GPUs: 3}, Limit: 2 * time.Hour, Started: noon.Add(-10 * time.Minute), Nodes: []string{"n1"}}},
			Waiting: []Job{waiting(5, 4, time.Hour)}, Scheduler: Scheduler{WholeNodes: true}}, place(Place{GPUs: 1, GPUType: "a100"}, 100*time.Minute), 150 * time.Minute},
		"resolution": {Queue{Nodes: two[:1], Running: []Job{running(3, "n0")}, Waiting: []Job{waiting(5, 4, time.Hour)}, Scheduler: Scheduler{Resolution: time.Hour}},
			place(Place{GPUs: 1}, 61*time.Minute), 150 * time.Minute},
		"beyond the window": {Queue{Nodes: two[:1], Running: []Job{running(3, "n0")}, Waiting: []Job{waiting(5, 4, time.Hour)}, Scheduler: Scheduler{Window: time.Hour}},
			place(Place{GPUs: 1}, 5*time.Hour), 0},
		"beyond the depth": {Queue{Nodes: two[:1], Running: []Job{running(3, "n0")}, Waiting: []Job{waiting(5, 4, time.Hour)}, Scheduler: Scheduler{Depth: 1}},
			place(Place{GPUs: 1}, time.Hour), 150 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			c.q.Now = noon
			p, err := Predict(c.q, c.j, History{}, Options{Draws: 1})
			if err != nil {
				t.Fatal(err)
			}
			if got := p.ByLimits.Sub(noon).Round(time.Second); got != c.want {
				t.Errorf("starts after %v, want %v", got, c.want)
			}
		})
	}
}

// TestRefused checks requests and queues that cannot be predicted.
func TestRefused(t *testing.T) {
	nodes := []Node{gpuNode("n0", "a100", "gpu")}
	parts := []Partition{{Name: "gpu", Default: true}}
	for want, c := range map[string]struct {
		q Queue
		j Job
	}{
		"no time": {Queue{Nodes: nodes}, Job{}},
		"no node": {Queue{Now: noon}, Job{}},
		"other":   {Queue{Now: noon, Nodes: append(nodes, nodes...)}, Job{}},
		"1 CPUs, 5 GPUs of type a100 per node: 0 nodes of partition gpu can run it, want 1": {Queue{Now: noon, Nodes: nodes, Partitions: parts}, Job{Place: Place{GPUs: 5, GPUType: "a100"}}},
		"0 nodes of the cluster": {Queue{Now: noon, Nodes: nodes}, Job{Place: Place{GPUs: 1, GPUType: "h100"}}},
		"want 2":                 {Queue{Now: noon, Nodes: nodes}, Job{Place: Place{Nodes: 2}}},
		"partition cpu":          {Queue{Now: noon, Nodes: nodes, Partitions: parts}, Job{Place: Place{Partition: "cpu"}}},
		"features big":           {Queue{Now: noon, Nodes: nodes}, Job{Features: []string{"big"}}},
	} {
		if _, err := Predict(c.q, c.j, History{}, Options{Draws: 1}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// past returns ended jobs of a user that ran for shares of a limit of two hours, submitted a day ago.
func past(user, name string, shares ...float64) []Job {
	var out []Job
	for _, s := range shares {
		started := noon.Add(-24 * time.Hour)
		out = append(out, Job{User: user, Name: name, Place: Place{GPUs: 1}, Limit: 2 * time.Hour, Submitted: started, Started: started,
			Ended: started.Add(time.Duration(s * 2 * float64(time.Hour)))})
	}
	return out
}

// TestPredict predicts the end of one running job from histories of different kinds.
func TestPredict(t *testing.T) {
	same := slices.Repeat([]float64{0.5}, 100)
	long := slices.Repeat([]float64{1}, 100)
	for name, c := range map[string]struct {
		history  []Job
		from, to time.Duration // bounds of the median
		width    time.Duration // the largest distance of the 5th from the 95th percentile
	}{
		// The job has run for 30 of 120 minutes, and ends at 60 by its history.
		"same user and name":  {past("u", "", same...), 27 * time.Minute, 33 * time.Minute, 25 * time.Minute},
		"same user":           {past("u", "other", same...), 27 * time.Minute, 33 * time.Minute, 89 * time.Minute},
		"name before user":    {append(past("u", "other", long...), past("u", "", same...)...), 27 * time.Minute, 33 * time.Minute, 89 * time.Minute},
		"user before others":  {append(past("v", "", long...), past("u", "other", same...)...), 27 * time.Minute, 33 * time.Minute, 89 * time.Minute},
		"outlasted its past":  {past("u", "", slices.Repeat([]float64{0.1}, 100)...), 5 * time.Minute, 85 * time.Minute, 90 * time.Minute},
		"reaches its limit":   {past("u", "", long...), 90 * time.Minute, 90 * time.Minute, 30 * time.Minute},
		"without any history": {nil, 20 * time.Minute, 70 * time.Minute, 90 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			q := Queue{Now: noon, Nodes: []Node{gpuNode("n0", "a100")}, Running: []Job{running(4, "n0")}}
			h := History{Jobs: c.history, Since: noon.Add(-1e6 * time.Hour)} // no arrivals
			p, err := Predict(q, Job{User: "w", Place: Place{GPUs: 1}, Limit: time.Hour}, h, Options{Draws: 1000})
			if err != nil {
				t.Fatal(err)
			}
			if wait := p.P50.Sub(noon); wait < c.from || wait > c.to {
				t.Errorf("median %v, want %v to %v", wait, c.from, c.to)
			}
			if width := p.P95.Sub(p.P5); width > c.width || width < 0 {
				t.Errorf("interval %v, want at most %v", width, c.width)
			}
			if p.Observed != len(c.history) {
				t.Errorf("%d observations, want %d", p.Observed, len(c.history))
			}
		})
	}
}

// TestArrivals checks that jobs of a higher tier that arrive later delay a waiting job, and others do not.
func TestArrivals(t *testing.T) {
	q := Queue{Now: noon, Nodes: []Node{gpuNode("n0", "a100", "gpu", "urgent")}, Running: []Job{running(4, "n0")},
		Partitions: []Partition{{Name: "gpu", Default: true}, {Name: "urgent", Tier: 1}}}
	wait := func(partition string) time.Duration {
		var h History
		for i := range 200 { // one every 7 minutes, of 30 minutes each on all GPUs
			at := noon.Add(-time.Duration(i+1) * 7 * time.Minute)
			h.Jobs = append(h.Jobs, Job{User: "v", Place: Place{GPUs: 4, Partition: partition}, Limit: time.Hour, Submitted: at, Started: at, Ended: at.Add(30 * time.Minute)})
		}
		p, err := Predict(q, Job{User: "u", Place: Place{GPUs: 4}, Limit: time.Hour}, h, Options{Horizon: 24 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if p.P50.IsZero() {
			return math.MaxInt64
		}
		return p.P50.Sub(noon)
	}
	if w := wait("gpu"); w > 90*time.Minute {
		t.Errorf("arrivals of the same tier delay the job to %v, want at most 90m", w)
	}
	if w := wait("urgent"); w < 3*time.Hour {
		t.Errorf("arrivals of a higher tier that use up the cluster delay the job to %v only", w)
	}
}

// TestSameSeedSamePrediction requires a prediction that is independent of the number of processors.
func TestSameSeedSamePrediction(t *testing.T) {
	q, h := busyQueue(16, 40)
	j := Job{User: "u1", Name: "a", Place: Place{GPUs: 2}, Limit: time.Hour}
	predict := func(seed uint64) Prediction {
		p, err := Predict(q, j, h, Options{Seed: seed, Waiting: true, Draws: 50})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	a := predict(1)
	before := runtime.GOMAXPROCS(1)
	b := predict(1)
	runtime.GOMAXPROCS(before)
	if a.start != b.start || !slices.Equal(a.Waiting, b.Waiting) {
		t.Errorf("equal seeds give %v and %v", a, b)
	}
	if c := predict(2); slices.Equal(a.Waiting, c.Waiting) {
		t.Error("different seeds give equal predictions")
	}
	for i, w := range a.Waiting {
		if w.P5.After(w.P50) || w.P50.After(w.P95) || w.P5.Before(q.Now) {
			t.Errorf("waiting job %d: %v, %v, %v", i, w.P5, w.P50, w.P95)
		}
	}
}

// busyQueue returns a cluster of nodes of 8 GPUs that is full, with n waiting jobs and a history of 2000 jobs.
func busyQueue(nodes, n int) (Queue, History) {
	r := rand.New(rand.NewPCG(7, 7))
	q := Queue{Now: noon, Scheduler: Scheduler{Interval: 30 * time.Second, WholeNodes: true}}
	draw := func() Job {
		limit := []time.Duration{time.Hour, 4 * time.Hour, 12 * time.Hour, 24 * time.Hour}[r.IntN(4)]
		gpus := []int{1, 1, 2, 4, 8}[r.IntN(5)]
		return Job{User: fmt.Sprint("u", r.IntN(8)), Name: string(rune('a' + r.IntN(3))), Limit: limit,
			Place: Place{GPUs: gpus, CPUs: 4 * gpus, Memory: resources.GiB(16 * gpus), Nodes: 1 + r.IntN(8)/7}}
	}
	for i := range nodes {
		name := fmt.Sprintf("n%03d", i)
		q.Nodes = append(q.Nodes, Node{Name: name, CPUs: 64, Memory: 512, GPUs: map[string]int{"a100": 8}})
		for range 4 {
			j := draw()
			j.Place.GPUs, j.Place.Nodes, j.Nodes = 2, 1, []string{name}
			j.Started = noon.Add(-time.Duration(r.Float64() * float64(j.Limit)))
			j.Submitted = j.Started
			q.Running = append(q.Running, j)
		}
	}
	for i := range n {
		j := draw()
		j.Submitted = noon.Add(-time.Duration(n-i) * time.Minute)
		q.Waiting = append(q.Waiting, j)
	}
	var h History
	for i := range 2000 {
		j := draw()
		j.Submitted = noon.Add(-time.Duration(i) * 5 * time.Minute)
		j.Started = j.Submitted
		j.Ended = j.Started.Add(time.Duration(r.Float64() * r.Float64() * float64(j.Limit)))
		h.Jobs = append(h.Jobs, j)
	}
	return q, h
}

// TestString checks the sentence.
func TestString(t *testing.T) {
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	for want, p := range map[string]Prediction{
		"starts 14:10 (13:50–15:30): 3 jobs ahead":                     {start: start{at(110 + 20), at(130), at(210)}, Ahead: 3},
		"starts now: no job ahead":                                     {start: start{at(0), at(0), at(0)}},
		"starts 13:00 (12:00–Mar 3 12:00): 1 job ahead":                {start: start{at(0), at(60), at(24 * 60)}, Ahead: 1},
		"starts 13:00 (12:00–later): 1 job ahead":                      {start: start{at(0), at(60), time.Time{}}, Ahead: 1},
		"start not within the horizon of the prediction: no job ahead": {start: start{P5: at(0)}},
	} {
		p.Now = noon
		if strings.HasPrefix(want, "starts 14:10") {
			p.P5 = at(110)
		}
		if got := p.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestArrivalPriority checks where a new job is placed in queues ordered by age and by user.
func TestArrivalPriority(t *testing.T) {
	job := func(user string, minutes int, priority float64) Job {
		return Job{User: user, Priority: priority, Submitted: noon.Add(-time.Duration(minutes) * time.Minute)}
	}
	for name, c := range map[string]struct {
		waiting []Job
		want    float64
	}{
		"empty":         {nil, 0},
		"equal":         {[]Job{job("a", 3, 5), job("b", 2, 5)}, 5},
		"by age":        {[]Job{job("a", 3, 9), job("b", 2, 5), job("b", 1, 4)}, 4},
		"by user":       {[]Job{job("b", 3, 1), job("a", 2, 9), job("a", 1, 8)}, 8},
		"held ignored":  {[]Job{{User: "a", Held: true}, job("a", 3, 5)}, 5},
		"no other jobs": {[]Job{job("b", 3, 1), job("c", 2, 9)}, 1},
	} {
		if got := (&Queue{Waiting: c.waiting}).arrivalPriority("a"); got != c.want {
			t.Errorf("%s: %g, want %g", name, got, c.want)
		}
	}
}

// TestUrn checks draws of run lengths above an age, and that they are removed by reset.
func TestUrn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shares := rapid.SliceOfN(rapid.Float64Range(0, 1), 0, 20).Draw(t, "shares")
		q := Queue{Now: noon}
		h := History{Jobs: past("u", "a", shares...)}
		r := newRuns(&q, &h)
		groups := []int32{r.group(&Job{User: "u", Name: "a"}), r.group(&Job{User: "u", Name: "b"}), r.group(&Job{User: "v"})}
		u := newUrn(r)
		u.reset(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)))
		for _, g := range groups {
			above := rapid.Float64Range(0, 1).Draw(t, "above")
			if s := u.draw(g, above); !(s > above || s == 1) || s > 1 {
				t.Fatalf("drawn %g above %g", s, above)
			}
			if p := u.survival(g, above); !(p >= 0 && p <= 1) {
				t.Fatalf("probability %g", p)
			}
		}
		u.reset(u.rand)
		for g, added := range u.added {
			if len(added) > 0 {
				t.Fatalf("group %d keeps %v", g, added)
			}
		}
	})
}

// TestUrnDrawsTogether requires that draws for jobs without history are correlated within a simulation: it is unknown
// whether the user's jobs are short, not whether some are.
func TestUrnDrawsTogether(t *testing.T) {
	r := newRuns(&Queue{Now: noon}, &History{})
	g := r.group(&Job{User: "u", Name: "a"})
	u := newUrn(r)
	var between, within float64
	const n = 2000
	for seed := range uint64(n) {
		u.reset(rand.New(rand.NewPCG(seed, 0)))
		a, b := u.draw(g, 0), u.draw(g, 0)
		within += math.Abs(a - b)
		u.reset(rand.New(rand.NewPCG(seed, 1)))
		between += math.Abs(a - u.draw(g, 0))
	}
	if within > 0.8*between {
		t.Errorf("mean distance %g in one simulation, %g between two", within/n, between/n)
	}
}

// TestPlanIsThatOfTheDefinition compares the plan by limits with a search through all seconds in order of rank, which is
// the definition of conservative backfilling.
func TestPlanIsThatOfTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := Queue{Now: noon}
		for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			q.Nodes = append(q.Nodes, Node{Name: fmt.Sprint("n", i), CPUs: rapid.IntRange(1, 6).Draw(t, "CPUs"), Memory: 4, GPUs: map[string]int{"k": rapid.IntRange(0, 3).Draw(t, "GPUs")}})
		}
		job := func(i int) Job {
			return Job{Submitted: noon.Add(time.Duration(i-100) * time.Second), Limit: time.Duration(rapid.IntRange(1, 12).Draw(t, "limit")) * time.Second,
				Place: Place{CPUs: rapid.IntRange(1, 4).Draw(t, "cpus"), GPUs: rapid.IntRange(0, 2).Draw(t, "gpus"), Nodes: rapid.IntRange(1, 2).Draw(t, "count"), Memory: resources.GiB(rapid.IntRange(0, 4).Draw(t, "memory"))}}
		}
		for i := range rapid.IntRange(0, 12).Draw(t, "jobs") {
			q.Waiting = append(q.Waiting, job(i))
		}
		target := job(100)
		c, err := newCluster(&q, &target, &History{})
		if err != nil {
			t.Skip("the request fits nowhere")
		}
		s := newSimulation(c)
		s.byLimits, s.all, s.horizon = true, true, 1e6
		s.run(rand.New(rand.NewPCG(0, 0)))
		want := definition(q.Nodes, append(slices.Clone(q.Waiting), target))
		for i, id := range append(slices.Clone(c.simulated), c.target) {
			if id < 0 {
				continue
			}
			if got := s.started[id]; got != float64(want[i]) {
				t.Fatalf("job %d starts at %g, want %d", i, got, want[i])
			}
		}
		for i, f := range s.free {
			if f < 0 {
				t.Fatalf("resource %d is %d", i, f)
			}
		}
	})
}

// definition returns the starts of jobs in order, in seconds: each the earliest one that leaves those before it in
// place, on the first nodes that are free; −1 if no nodes can run it.
func definition(nodes []Node, jobs []Job) []int {
	const end = 400
	type amount struct{ cpus, gpus, memory int }
	free := make([][end]amount, len(nodes))
	for i, n := range nodes {
		for t := range end {
			free[i][t] = amount{n.CPUs, n.GPUs["k"], int(n.Memory)}
		}
	}
	starts := make([]int, len(jobs))
	for k, j := range jobs {
		length := int(j.Limit.Seconds())
		starts[k] = -1
		for t := 0; t+length < end && starts[k] < 0; t++ {
			var on []int
			for i := range nodes {
				fits := len(on) < j.Place.Nodes
				for _, f := range free[i][t : t+length] {
					fits = fits && f.cpus >= j.Place.CPUs && f.gpus >= j.Place.GPUs && f.memory >= int(j.Place.Memory)
				}
				if fits {
					on = append(on, i)
				}
			}
			if len(on) < j.Place.Nodes {
				continue
			}
			starts[k] = t
			for _, i := range on {
				for x := t; x < t+length; x++ {
					f := &free[i][x]
					f.cpus, f.gpus, f.memory = f.cpus-j.Place.CPUs, f.gpus-j.Place.GPUs, f.memory-int(j.Place.Memory)
				}
			}
		}
	}
	return starts
}

// TestEASYIsThatOfOrder compares the plan by limits on one node with the scheduler of equal processors.
func TestEASYIsThatOfOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		procs := rapid.IntRange(1, 16).Draw(t, "procs")
		q := Queue{Now: noon, Nodes: []Node{{Name: "n", CPUs: procs}}, Scheduler: Scheduler{Reservations: 1}}
		var jobs []order.Job
		for i := range rapid.IntRange(1, 20).Draw(t, "jobs") {
			p, l := rapid.IntRange(1, procs).Draw(t, "procs"), rapid.IntRange(1, 30).Draw(t, "limit")
			jobs = append(jobs, order.Job{ID: i + 1, Procs: p, Run: float64(l), Request: float64(l), Deadline: math.NaN()})
			q.Waiting = append(q.Waiting, Job{Place: Place{CPUs: p}, Limit: time.Duration(l) * time.Second, Submitted: noon.Add(time.Duration(i-100) * time.Second)})
		}
		result, err := queue.Run(context.Background(), queue.Config{Procs: procs, Jobs: jobs, Backfill: "easy"})
		if err != nil {
			t.Fatal(err)
		}
		c, err := newCluster(&q, &Job{NotBefore: noon.Add(50 * time.Hour)}, &History{})
		if err != nil {
			t.Fatal(err)
		}
		s := newSimulation(c)
		s.byLimits, s.all, s.horizon = true, true, 1e6
		s.run(rand.New(rand.NewPCG(0, 0)))
		for i, id := range c.simulated {
			if got, want := s.started[id], result.Jobs[i].Start; got != want {
				t.Fatalf("job %d starts at %g, want %g", i, got, want)
			}
		}
	})
}

// TestInterval requires that backfilling waits for its next pass, and that jobs in order of priority do not.
func TestInterval(t *testing.T) {
	q := Queue{Now: noon, Nodes: []Node{gpuNode("n0", "a100")}, Scheduler: Scheduler{Interval: 10 * time.Minute}}
	p, err := Predict(q, Job{Place: Place{GPUs: 1}, Limit: time.Hour}, History{}, Options{})
	if err != nil || !p.P95.Equal(noon) {
		t.Errorf("first in an idle cluster: %v, %v; want now", p, err)
	}
	long := running(3, "n0")
	long.Limit = 100 * time.Hour
	q.Running, q.Waiting = []Job{long}, []Job{waiting(5, 4, time.Hour)}
	p, err = Predict(q, Job{Place: Place{GPUs: 1}, Limit: time.Minute}, History{}, Options{})
	if err != nil || p.P5.Sub(noon) > 2*time.Minute || p.P95.Sub(noon) < 8*time.Minute || p.P95.Sub(noon) > 10*time.Minute {
		t.Errorf("backfilled: %v to %v, %v; want uniform in 10 min", p.P5, p.P95, err)
	}
}

func BenchmarkPredict(b *testing.B) {
	for _, c := range []struct{ nodes, waiting int }{{16, 20}, {16, 200}, {128, 500}} {
		q, h := busyQueue(c.nodes, c.waiting)
		b.Run(fmt.Sprintf("nodes=%d,waiting=%d", c.nodes, c.waiting), func(b *testing.B) {
			for range b.N {
				if _, err := Predict(q, Job{User: "u1", Name: "a", Place: Place{GPUs: 2}, Limit: time.Hour}, h, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestStarvation requires that a job that submissions of a higher tier keep from starting is predicted in bounded time.
func TestStarvation(t *testing.T) {
	q := Queue{Now: noon, Nodes: []Node{{Name: "n", Partitions: []string{"gpu", "urgent"}, CPUs: 1}}, Partitions: []Partition{{Name: "gpu", Default: true}, {Name: "urgent", Tier: 1}}}
	q.Running = []Job{{User: "v", Limit: time.Hour, Started: noon, Nodes: []string{"n"}}}
	var h History
	for i := range 5000 { // one a minute of an hour each
		at := noon.Add(-time.Duration(i+1) * time.Minute)
		h.Jobs = append(h.Jobs, Job{User: "v", Place: Place{Partition: "urgent"}, Limit: time.Hour, Submitted: at, Started: at, Ended: at.Add(59 * time.Minute)})
	}
	p, err := Predict(q, Job{User: "u", Limit: time.Hour}, h, Options{Draws: 2})
	if err != nil {
		t.Fatal(err)
	}
	if !p.P5.IsZero() {
		t.Errorf("starts %v, want beyond the horizon", p.P5)
	}
}
