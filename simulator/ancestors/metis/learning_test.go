package metis

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule/place"
)

// pairs returns a table of two apps and two containers per node, where a container runs well only beside one of the
// other app.
func pairs(t testing.TB) *place.Table {
	t.Helper()
	table, err := place.NewTable([]string{"reader", "cache"}, 2, func(counts []uint8, rps []float64) {
		rps[0], rps[1] = 1, 1
		switch {
		case counts[0] == 1 && counts[1] == 1:
			rps[0], rps[1] = 2, 0.9
		case counts[0] == 2 || counts[1] == 2:
			rps[0], rps[1] = 0.5, 0.6
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func problem(table *place.Table, nodes int, batch ...int) *place.Problem {
	return &place.Problem{Types: []place.NodeType{{Count: nodes, Table: table}}, Batch: batch}
}

func TestTanh(t *testing.T) {
	for x := -12.0; x <= 12; x += 0.001 {
		z := []float32{float32(x)}
		tanh(z)
		if want := math.Tanh(float64(float32(x))); math.Abs(float64(z[0])-want) > 5e-7 {
			t.Fatalf("tanh %v = %v, want %v", x, z[0], want)
		}
	}
}

// The gradient equals finite differences of Metis's loss.
func TestGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	p := newPolicy(4, 3, 5, rng)
	l := &lesson{value: 0.7, action: []uint16{2, 0, 1}}
	for range 12 {
		l.x = append(l.x, float32(rng.NormFloat64()))
	}
	const entropy = 0.3
	loss := func() float64 {
		var th inferenceBuffers
		z := th.ask(p, l.x, 3)
		sum := 0.0
		for r, a := range l.action {
			row := z[r*3 : r*3+3]
			softmax(row)
			sum -= math.Log(float64(row[a])) * float64(l.value)
			for _, q := range row {
				sum += entropy * float64(q) * math.Log(float64(q))
			}
		}
		return sum / 3
	}
	learn := newLearner(p, 0.01)
	learn.lane[0].add(l, p, entropy, 1.0/3)
	for _, n := range []struct {
		w, g []float32
	}{{p.first.Params(), learn.lane[0].first.Gradient()}, {p.second.Params(), learn.lane[0].second.Gradient()}} {
		for i := range n.w {
			const h = 1e-2
			was := n.w[i]
			n.w[i] = was + h
			up := loss()
			n.w[i] = was - h
			down := loss()
			n.w[i] = was
			if d := (up - down) / (2 * h); math.Abs(d-float64(n.g[i])) > 2e-3 {
				t.Errorf("derivative %d is %v, by differences %v", i, n.g[i], d)
			}
		}
	}
}

// Every method finds the optimum of a problem of two apps on three nodes: a pair on each.
func TestPlaceFindsOptimum(t *testing.T) {
	table := pairs(t)
	for name, o := range map[string]learningOptions{
		"divide-conquer": {Method: "divide-conquer", Episodes: 1200},
		"vanilla-rl":     {Method: "vanilla-rl", Episodes: 1000},
		"george":         {Method: "george", Episodes: 2500},
	} {
		t.Run(name, func(t *testing.T) {
			p := problem(table, 3, 3, 3)
			s, curve, err := placeByLearning(context.Background(), p, nil, o, nil)
			if err != nil {
				t.Fatal(err)
			}
			w, err := p.Evaluate(s.Placement)
			if err != nil || math.Abs(w.MeanRPS-1.45) > 1e-9 {
				t.Errorf("got %v, %+v, %v; want 1.45", s.Placement, w, err)
			}
			// The policy itself improves, not only the best placement found.
			first, last := meanValue(curve[:10]), meanValue(curve[len(curve)-10:])
			if last < first+0.1 {
				t.Errorf("episodes were worth %v at first and %v in the end", first, last)
			}
		})
	}
}

func meanValue(points []LearningPoint) float64 {
	sum := 0.0
	for _, p := range points {
		sum += p.Value / float64(len(points))
	}
	return sum
}

// Full nodes show the counts of nodes with room, in turn, and lead to them, at every level.
func TestFullNodesLeadToOthers(t *testing.T) {
	tr := equalTree(2, 1, 2, 2)
	tr.start = []uint16{1, 0, 0, 0, 0, 1, 0, 0} // the first and the third leaf are full
	e := &episode{}
	e.begin(tr, []int{1, 0}, nil)
	if want := []int32{1, 1, 3, 3}; !reflect.DeepEqual(e.source, want) {
		t.Errorf("nodes lead to %v, want %v", e.source, want)
	}
	x := e.observe(tr, 0, nil)
	if want := []float32{1, 0, 1, 0, 1, 0}; !reflect.DeepEqual(x, want) {
		t.Errorf("the groups show %v, want %v", x, want)
	}
	e.place(tr, 2)
	if want := []uint16{1, 0, 0, 0, 0, 1, 1, 0}; !reflect.DeepEqual(e.counts, want) {
		t.Errorf("got %v, want %v", e.counts, want)
	}
}

// Rollouts of random policies satisfy every limit, place all containers, and show consistent sums.
func TestRolloutKeepsLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		apps := rapid.IntRange(1, 4).Draw(t, "apps")
		fan := rapid.SliceOfN(rapid.IntRange(1, 3), 1, 3).Draw(t, "fan")
		tr := equalTree(apps, 0, fan...)
		room := 0
		for i := range tr.capacity {
			tr.capacity[i] = uint16(rapid.IntRange(0, 4).Draw(t, "capacity"))
			room += int(tr.capacity[i])
		}
		tr.scalar, tr.rest = rapid.Bool().Draw(t, "scalar"), rapid.Bool().Draw(t, "rest")
		batch := make([]int, apps)
		for a := range batch {
			batch[a] = rapid.IntRange(0, room).Draw(t, "containers")
			room -= batch[a]
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		r := rollout{tree: tr, policies: tr.newPolicies(rng), record: true, greedy: rapid.Bool().Draw(t, "greedy")}
		e := &episode{}
		e.begin(tr, batch, rng)
		r.run([]*episode{e})
		got := make([]int, apps)
		for i, most := range tr.capacity {
			size := 0
			for a := range apps {
				size += int(e.counts[i*apps+a])
				got[a] += int(e.counts[i*apps+a])
			}
			if size > int(most) || size != int(e.size[i]) {
				t.Fatalf("%d containers, counted %d, on a leaf for %d", size, e.size[i], most)
			}
		}
		if !reflect.DeepEqual(got, batch) || e.stuck {
			t.Fatalf("placed %v of %v", got, batch)
		}
		if len(e.steps[0].action) != total(batch) || len(e.steps[0].x) != total(batch)*tr.inputs(0) {
			t.Fatalf("%d steps with %d numbers for %d containers", len(e.steps[0].action), len(e.steps[0].x), total(batch))
		}
	})
}

// Both recipes learn on a small table, and the trained models place well.
func TestTrain(t *testing.T) {
	table := pairs(t)
	for name, o := range map[string]TrainOptions{
		"original": {Recipe: "original", Table: table, Episodes: 4001, Classes: []int{2}, Workers: 2},
		"improved": {Recipe: "improved", Table: table, Episodes: 1280, Lectures: 40, Workers: 2},
	} {
		t.Run(name, func(t *testing.T) {
			m, curve, err := Train(context.Background(), o, nil)
			if err != nil {
				t.Fatal(err)
			}
			first, last := meanValue(curve[:2]), meanValue(curve[len(curve)-4:])
			if last < first+0.05 {
				t.Errorf("episodes were worth %v at first, %v in the end", first, last)
			}
			p := problem(table, 40, 25, 20)
			s, _, err := placeByLearning(context.Background(), p, m, learningOptions{Episodes: 45, Seed: 3}, nil)
			if err != nil {
				t.Fatal(err)
			}
			w, err := p.Evaluate(s.Placement)
			if err != nil || w.MeanRPS < 1 {
				t.Errorf("got %+v, %v", w, err)
			}
		})
	}
}

// Results are bit-identical for one and four goroutines, and for a model read from a file.
func TestWorkersChangeNothing(t *testing.T) {
	table := pairs(t)
	for name, o := range map[string]TrainOptions{
		"original": {Recipe: "original", Table: table, Episodes: 401, Classes: []int{2}},
		"improved": {Recipe: "improved", Table: table, Episodes: 128, Lectures: 10},
	} {
		t.Run(name, func(t *testing.T) {
			var files [2]bytes.Buffer
			var placed [2]*place.Solution
			for i := range files {
				o.Workers = 1 + 3*i
				m, _, err := Train(context.Background(), o, nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := m.Save(&files[i]); err != nil {
					t.Fatal(err)
				}
				if i == 1 {
					if m, err = LoadModel(bytes.NewReader(files[i].Bytes())); err != nil {
						t.Fatal(err)
					}
				}
				if placed[i], _, err = placeByLearning(context.Background(), problem(table, 40, 25, 20), m, learningOptions{Episodes: 45, Workers: 1 + 3*i, Seed: 3}, nil); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(files[0].Bytes(), files[1].Bytes()) {
				t.Error("one and four goroutines give different models")
			}
			if !reflect.DeepEqual(placed[0].Placement, placed[1].Placement) {
				t.Error("one and four goroutines place differently")
			}
		})
	}
}

// Metis updates after episodes 200, 400 and so on, counted from 0.
func TestUntilUpdate(t *testing.T) {
	var at []int
	for done := 0; done < 650; {
		done += untilUpdate(done, 200, 650)
		at = append(at, done)
	}
	if want := []int{201, 401, 601, 650}; !reflect.DeepEqual(at, want) {
		t.Errorf("updates after %v episodes, want %v", at, want)
	}
}

// loaded returns a cluster of two node types with running containers; one node is full.
func loaded(t *testing.T) *place.Problem {
	large, err := place.NewTable([]string{"reader", "cache"}, 3, func(counts []uint8, rps []float64) {
		rps[0], rps[1] = 0.7, 0.7
		if counts[0] > 0 && counts[1] > 0 {
			rps[0] = 1.5
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return &place.Problem{
		Types: []place.NodeType{{Name: "small", Count: 3, Table: pairs(t), Cost: 1}, {Name: "large", Count: 2, Table: large, Cost: 2}},
		Batch: []int{4, 3}, Existing: [][]uint8{{2, 0}, {0, 1}, {0, 0}, {1, 0}, {0, 0}},
	}
}

// Node types and running containers are taken into account; every objective can be learned, including negative ones
// and with constraints.
func TestPlaceLoadedCluster(t *testing.T) {
	for _, method := range []string{"vanilla-rl", "divide-conquer", "george"} {
		for name, objective := range map[string]place.Objective{"rps": {}, "cost": {Cost: 1}, "vacant": {Vacant: 3}, "dear": {RPS: 1, Cost: 100}} {
			t.Run(method+"/"+name, func(t *testing.T) {
				p, o := loaded(t), learningOptions{Method: method, Objective: objective, Episodes: 400, Seed: 1}
				if method == "george" {
					o.Zones = []Zone{{App: 1, Share: 0.8}} // excludes the last node for caches
					o.Budget = -1
				}
				s, curve, err := placeByLearning(context.Background(), p, nil, o, nil)
				if err != nil {
					t.Fatal(err)
				}
				w, err := p.Evaluate(s.Placement)
				if err != nil {
					t.Fatal(err)
				}
				if got, want := objective.Value(w, p.Nodes()), curve[len(curve)-1].Best; math.Abs(got-want) > 1e-9*math.Abs(want) {
					t.Errorf("the placement is worth %v, the best was %v", got, want)
				}
				if method == "george" && s.Placement[4][1] > 0 {
					t.Errorf("a cache outside its zone: %v", s.Placement)
				}
				if s, err := place.Exact(context.Background(), p, objective, place.Limits{}, place.ExactSettings{Gap: -1}); err != nil {
					t.Error(err)
				} else if got := objective.Value(w, p.Nodes()); method != "george" && got < s.Value-0.1*math.Abs(s.Value) {
					t.Errorf("worth %v, the best is %v", got, s.Value)
				}
			})
		}
	}
}

// Running containers outside a zone do not count against the budget.
func TestZoneOfWhatRuns(t *testing.T) {
	p := loaded(t)
	p.Existing[4], p.Batch = []uint8{0, 2}, []int{3, 3}
	o := learningOptions{Method: "george", Zones: []Zone{{App: 1, Share: 0.8}}, Budget: -1, Episodes: 200}
	if s, _, err := placeByLearning(context.Background(), p, nil, o, nil); err != nil || s.Placement[4][1] != 2 {
		t.Errorf("got %v, %v", s, err)
	}
}

// The threshold of good episodes is Metis's best / range; for negative objectives it is also below the best. It never
// decreases when a better episode is found.
func TestEnough(t *testing.T) {
	l := &learning{best: 1.1, width: 1.02}
	if got := l.goodThreshold(); math.Abs(got-1.1/1.02) > 1e-15 {
		t.Errorf("got %v, want %v", got, 1.1/1.02)
	}
	rapid.Check(t, func(t *rapid.T) {
		l := &learning{search: &search{replay: true}, best: rapid.Float64Range(-3, 3).Draw(t, "start"), width: widestFactor}
		for range 8 {
			before, value := l.goodThreshold(), l.best+rapid.Float64Range(-0.1, 0.2).Draw(t, "more")
			l.remember(&episode{}, 100, episodeOutcome{value: value}, 0, true)
			if now := l.goodThreshold(); now < before-1e-12 || now > l.best || l.width > widestFactor || l.width < 1 {
				t.Fatalf("an episode of %v: good from %v on, before %v; best %v, width %v", value, now, before, l.best, l.width)
			}
		}
	})
}

func TestLoadDamaged(t *testing.T) {
	m, _, err := Train(context.Background(), TrainOptions{Table: pairs(t), Episodes: 64, Lectures: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := m.Save(&b); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < b.Len(); i += 7 {
		bad := bytes.Clone(b.Bytes())
		bad[i] ^= 4
		if _, err := LoadModel(bytes.NewReader(bad)); !errors.Is(err, errCorrupt) && !errors.Is(err, errNewer) {
			t.Fatalf("byte %d changed: %v", i, err)
		}
		if _, err := LoadModel(bytes.NewReader(b.Bytes()[:i])); !errors.Is(err, errCorrupt) {
			t.Fatalf("cut at byte %d: %v", i, err)
		}
	}
}

// FuzzLoad checks that LoadModel returns a model or an error for any input.
func FuzzLoad(f *testing.F) {
	m, _, err := Train(context.Background(), TrainOptions{Table: pairs(f), Episodes: 64, Lectures: 2}, nil)
	if err != nil {
		f.Fatal(err)
	}
	var b bytes.Buffer
	if err := m.Save(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(modelMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := LoadModel(bytes.NewReader(data)); (m == nil) == (err == nil) {
			t.Fatalf("model %v, error %v", m, err)
		}
	})
}

func TestLearningRefuses(t *testing.T) {
	table := pairs(t)
	for name, c := range map[string]struct {
		p    *place.Problem
		o    learningOptions
		want string
	}{
		"no model":   {problem(table, 3, 1, 1), learningOptions{}, "no model"},
		"types":      {loaded(t), learningOptions{Method: "metis"}, "nodes of 2 types"},
		"load":       {&place.Problem{Types: problem(table, 2).Types, Batch: []int{1, 1}, Existing: [][]uint8{{0, 1}, {0, 0}}}, learningOptions{Method: "divide-conquer", Released: true}, "containers run already"},
		"method":     {problem(table, 3, 1, 1), learningOptions{Method: "luck"}, "no such method"},
		"too many":   {problem(table, 3, 9, 1), learningOptions{Method: "vanilla-rl"}, "10 containers on 3 nodes"},
		"limits":     {problem(table, 3, 1, 1), learningOptions{Method: "vanilla-rl", Apart: true}, "only kept by george"},
		"infeasible": {problem(table, 3, 4, 1), learningOptions{Method: "george", Apart: true}, "no placement keeps the limits"},
		"zone":       {problem(table, 3, 1, 1), learningOptions{Method: "george", Zones: []Zone{{2, 0.5}}}, "want an app from 0 to 1"},
		"budget": {problem(table, 3, 2, 2), learningOptions{Method: "george", Zones: []Zone{{0, 0.1}}, Budget: -1, Episodes: 20},
			"none of 20 episodes did"},
	} {
		t.Run(name, func(t *testing.T) {
			var m *model
			if name == "types" || name == "load" {
				m = pretrained()
			}
			if _, _, err := placeByLearning(context.Background(), c.p, m, c.o, nil); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if _, _, err := Train(context.Background(), TrainOptions{Recipe: "luck", Episodes: -1, Classes: []int{99}}, nil); err == nil ||
		!strings.Contains(err.Error(), "recipe") || !strings.Contains(err.Error(), "class 99") || !strings.Contains(err.Error(), "-1 episodes") {
		t.Errorf("training options without sense: %v", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if _, _, err := placeByLearning(ctx, problem(table, 3, 1, 1), nil, learningOptions{Method: "vanilla-rl"}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	ctx, stop = context.WithCancel(context.Background())
	s, curve, err := placeByLearning(ctx, problem(table, 3, 1, 1), nil, learningOptions{Method: "vanilla-rl"}, func(p LearningPoint) {
		if p.Episode > 50 {
			stop()
		}
	})
	if !errors.Is(err, context.Canceled) || s == nil || len(s.Placement) != 3 || len(curve) < 4 || len(curve) > 7 {
		t.Errorf("cancelled after 50 episodes: %+v, %d points, %v", s, len(curve), err)
	}
}

// Metis reaches 1.179 with its sub-schedulers alone for the first group of 200 containers, and medians of 1.162,
// 1.092 and 1.028 over 30 groups of 200, 300 and 400 after minutes of learning. For 200 containers the optima are
// 1.2445 and, on average, 1.2331.
func TestPretrained(t *testing.T) {
	m := pretrained()
	if got := firstEpisodes(t, m, 200, 1); got < 1.2 {
		t.Errorf("group 0: the first episode has %.4f, want 1.2", got)
	}
	for size, want := range map[int]float64{200: 1.19, 300: 1.12, 400: 1.06} {
		if got := firstEpisodes(t, m, size, 10); got < want {
			t.Errorf("%d containers: the first episodes have %.4f in the mean, want %v", size, got, want)
		}
	}
}

// BenchmarkMetis learns the batches of the thirds of 81 nodes for groups 0 to 2 of 200 containers, and reports the
// mean throughput. Metis has a median of 1.162 in 8 minutes, and 1.1803 for group 0 after 926 s; the mean optimum of
// 30 groups is 1.2331.
func BenchmarkMetis(b *testing.B) {
	batches, err := place.MetisBatches(200)
	if err != nil {
		b.Fatal(err)
	}
	for range b.N {
		sum := 0.0
		for g := range 3 {
			_, curve, err := placeByLearning(context.Background(), problem(place.MetisTable(), 81, batches[g]...), pretrained(), learningOptions{Seed: 1, Episodes: 500}, nil)
			if err != nil {
				b.Fatal(err)
			}
			sum += curve[len(curve)-1].Best
		}
		b.ReportMetric(sum/3, "RPS")
		b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/3, "s/group")
	}
}
