package rlscheduler

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"trainopt/morl/network"
	"trainopt/optimizer/schedule/order"
)

// agentTrace returns n jobs for 64 processors with a load above 1.
func agentTrace(n int, seed uint64) *Trace {
	rng := rand.New(rand.NewPCG(seed, 1))
	t := &Trace{Procs: 64, Nodes: 64}
	clock := 0.0
	for i := range n {
		run := math.Ceil(math.Exp(3 + 2*rng.NormFloat64()))
		t.Jobs = append(t.Jobs, order.Job{ID: i + 1, Submit: clock, Run: run, Request: run + float64(i)/1e4, Procs: 1 + rng.IntN(40), User: -1, Group: -1, Executable: -1})
		clock += math.Floor(100 * rng.ExpFloat64())
	}
	return t
}

func TestPublishedSightKnownAnswer(t *testing.T) {
	tr := &Trace{Procs: 10, Nodes: 10, Jobs: []order.Job{
		{Submit: 0, Run: 100, Request: 100, Procs: 8, Memory: 2, User: 1, Group: 4, Executable: -1},
		{Submit: 0, Run: 400, Request: 200, Procs: 10, Memory: 8, User: 4, Group: -1, Executable: 3},
		{Submit: 0, Run: 50, Request: 800, Procs: 2, User: 2, Group: 1, Executable: 6},
		{Submit: 90000, Run: 50, Request: 50, Procs: 2},
	}}
	e := tr.Episode(0, 4, false)
	see, err := newObserver(tr, publishedSight)
	if err != nil {
		t.Fatal(err)
	}
	see.begin(tr.Jobs)
	e.Start(0) // the others arrive: the third fits beside it, the second does not
	for len(e.Waiting()) < 2 {
		e.advance()
	}
	const most, least = 1 - 1e-5, 1e-5
	want := []float32{
		0, 0.5, most, most, most, most, 0.5, least,
		0, most, 0.2, most, 0.5, 0.25, most, most,
	}
	if got := see.observe(e).X; !slices.Equal(got, want) || !slices.Equal(see.shown, []int{1, 2}) {
		t.Errorf("seen of jobs %v:\n%v, want\n%v", see.shown, got, want)
	}
	e.Start(2)
	e.clock = 4320
	if got := see.observe(e).X; len(got) != 8 || got[0] != 0.1 {
		t.Errorf("after 4,320 s: %v, want a wait of 0.1", got)
	}
	e.clock = 50000
	if got := see.observe(e).X; got[0] != most {
		t.Errorf("after 50,000 s: %v, want a wait of %v", got, most)
	}
}

// If more jobs wait than there are rows, the shortest and the smallest are shown alternately; a plain implementation
// is the reference.
func TestShownAreTheShortestAndTheSmallest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(100, 400).Draw(t, "jobs")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
		tr := &Trace{Procs: 64, Nodes: 64}
		for i := range n {
			tr.Jobs = append(tr.Jobs, order.Job{ID: i, Submit: float64(i / 3), Run: 1000, Request: float64(1 + rng.IntN(50)), Procs: 1 + rng.IntN(64)})
		}
		e := tr.Episode(0, n, rng.IntN(2) == 0)
		see, err := newObserver(tr, wideSight)
		if err != nil {
			t.Fatal(err)
		}
		see.begin(tr.Jobs)
		for len(e.Waiting()) > 0 {
			see.observe(e)
			want := slices.Clone(e.Waiting())
			if len(want) > agentRows {
				short, small := slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(want))
				slices.SortStableFunc(short, func(a, b int) int { return cmp.Compare(tr.Jobs[a].Request, tr.Jobs[b].Request) })
				slices.SortStableFunc(small, func(a, b int) int { return tr.Jobs[a].Procs - tr.Jobs[b].Procs })
				want = want[:0]
				for i := range short {
					for _, k := range []int{short[i], small[i]} {
						if len(want) < agentRows && !slices.Contains(want, k) {
							want = append(want, k)
						}
					}
				}
			}
			if !slices.Equal(see.shown, want) {
				t.Fatalf("%d wait: shown %v, want %v", len(e.Waiting()), see.shown, want)
			}
			e.Start(see.shown[rng.IntN(len(see.shown))])
		}
	})
}

// An agent that prefers small values of the request feature makes the same decisions as SJF.
func TestAgentOfOneWeightIsSJF(t *testing.T) {
	tr := agentTrace(900, 3)
	for sight, feature := range map[observationKind]int{publishedSight: 1, wideSight: 0} {
		shape, err := sight.Shape()
		if err != nil {
			t.Fatal(err)
		}
		l, err := network.NewLearner(shape, network.PolicyConfig{Policy: "kernel", Hidden: []int{}}, 1)
		if err != nil {
			t.Fatal(err)
		}
		params := l.Networks()[0].Params()
		clear(params)
		params[feature] = -1
		d, err := newDecider(tr, sight, l.Policy())
		if err != nil {
			t.Fatal(err)
		}
		for _, backfill := range []bool{false, true} {
			got := d.play(tr, 100, 700, backfill, nil)
			want := play(tr.Episode(100, 700, backfill), sjf.Player(tr.Jobs[100:800]))
			if math.Abs(got.BoundedSlowdown-want.BoundedSlowdown) > 0.01*want.BoundedSlowdown {
				t.Errorf("%s, backfill %v: %v, SJF reaches %v", sight, backfill, got, want)
			}
		}
	}
}

// Every episode has one step per selected job, and the only reward at its end.
func TestAgentEnvironmentRewards(t *testing.T) {
	tr := agentTrace(600, 4)
	for name, c := range map[string]struct {
		from Sequence
		s    agentSettings
	}{
		"published": {Sequence{Length: 64}, agentSettings{}},
		"wide":      {Sequence{Length: 64, Backfill: true, Starts: []int{0, 9, 500}}, agentSettings{Sight: wideSight, Metric: "wait"}},
		"relative":  {Sequence{Length: 64}, agentSettings{Relative: true}},
		"filtered":  {Sequence{Length: 64, Low: 2, High: 30}, agentSettings{Metric: "utilization"}},
		"pieces":    {Sequence{Length: 64, Pieces: 10, Starts: []int{0, 300}}, agentSettings{}},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := newAgentEnvironment(tr, c.from, c.s)
			if err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(5) {
				rng := rand.New(rand.NewPCG(seed, 5))
				o, done := a.Reset(rng)
				if sjf := a.simulate(a.jobs).BoundedSlowdown; c.from.High > 0 && (sjf <= c.from.Low || sjf >= c.from.High) {
					t.Errorf("a sequence of slowdown %v passed", sjf)
				}
				if !slices.IsSortedFunc(a.jobs, func(x, y order.Job) int { return cmp.Compare(x.Submit, y.Submit) }) || len(a.jobs) != 64 {
					t.Fatalf("%d jobs, in order of submission or not", len(a.jobs))
				}
				reward := 0.0
				for !done {
					if reward != 0 {
						t.Fatal("a reward before the end")
					}
					o, reward, done = a.Step(rng.IntN(len(o.X) / a.see.features))
				}
				m := measure(a.e)
				if m.Jobs != 64 {
					t.Fatalf("%d jobs have started", m.Jobs)
				}
				want := -metrics[c.s.Metric](m)
				if c.s.Relative {
					want /= a.simulate(a.jobs).BoundedSlowdown
				}
				if reward != want {
					t.Errorf("reward %v, want %v", reward, want)
				}
			}
		})
	}
}

func TestUnseen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := &Trace{Jobs: make([]order.Job, 300)}
		starts := rapid.SliceOfN(rapid.IntRange(0, 299), 0, 5).Draw(t, "starts")
		length, want := rapid.IntRange(1, 80).Draw(t, "length"), rapid.IntRange(1, 60).Draw(t, "want")
		free := unseen(tr, starts, length, want)
		for s := range 300 - want + 1 {
			apart := true
			for _, o := range starts {
				apart = apart && (s+want <= o || s >= o+length)
			}
			if apart != slices.Contains(free, s) {
				t.Fatalf("start %d shares jobs: %v; it is listed: %v", s, !apart, apart)
			}
		}
	})
}

func TestAgentRefused(t *testing.T) {
	tr := agentTrace(100, 1)
	for name, c := range map[string]struct {
		from Sequence
		s    agentSettings
	}{
		"long":   {Sequence{Length: 200}, agentSettings{}},
		"start":  {Sequence{Length: 10, Starts: []int{95}}, agentSettings{}},
		"sight":  {Sequence{Length: 10}, agentSettings{Sight: "x"}},
		"metric": {Sequence{Length: 10}, agentSettings{Metric: "x"}},
		"pieces": {Sequence{Length: 10, Pieces: -1}, agentSettings{}},
	} {
		if _, err := newAgentEnvironment(tr, c.from, c.s); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// BenchmarkAgentSteps measures decisions per second of an untrained policy of 961 parameters on one core, including
// observation and simulation. RLScheduler's simulator alone starts about 4,100 jobs per second without backfilling.
func BenchmarkAgentSteps(b *testing.B) {
	tr := agentTrace(2000, 1)
	shape, _ := publishedSight.Shape()
	l, err := network.NewLearner(shape, network.PolicyConfig{Policy: "kernel"}, 1)
	if err != nil {
		b.Fatal(err)
	}
	p := l.Policy()
	a, err := newAgentEnvironment(tr, Sequence{}, agentSettings{})
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	done, rows := true, 0
	var o network.Observation
	for b.Loop() {
		if done {
			o, _ = a.Reset(rng)
		}
		rows += len(o.X) / 8
		action, _ := p.Sample(o, rng)
		o, _, done = a.Step(action)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
	b.ReportMetric(float64(rows)/float64(b.N), "rows/decision")
}
