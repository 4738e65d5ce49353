package learned

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"time"

	"trainopt/morl"
	"trainopt/optimizer/schedule/place"
)

// PlaceOptions say how to place a batch. Zeros have the meaning that is noted.
type PlaceOptions struct {
	Method string // a name in Methods; "" is metis
	// Objective is what is learned. Sub-schedulers are trained for the mean throughput whatever it is, so that metis only chooses what
	// they get. What Metis's programs start from (a mean throughput of 1 or 0.1 to do better than) is for that alone; others start
	// from the worst of the first episodes.
	Objective place.Objective
	Seed      uint64
	// Episodes are played; 0: the number of the method: metis 1500 (its program names 20 000, 2000 for 729 nodes), divide-conquer
	// 8000, vanilla-rl 20 000 (of 800 000), george 8000 (of 62 000).
	Episodes int
	// Released makes divide-conquer what Metis's program runs under that name: metis without entropy, demonstrations and replay.
	Released bool
	// Apart lets a node hold at most one container of an app, a hard constraint of george; others refuse it.
	Apart bool
	// Zones are apps that may run on some nodes only, soft constraints of george; nil: for Metis's seven apps isr on 50 % of the nodes
	// and checksum on 30 %, for others none.
	Zones []Zone
	// Budget is the share of the batch that may be outside the apps' zones; 0: 0.05, negative: 0. What runs already does not count.
	Budget float64
	// Rate is that of Adam; 0: the method's: metis and vanilla-rl as Metis's program (0.015 and 0.001), others ours.
	Rate float64
	// Entropy is its weight in what is maximised; 0: the method's, negative: 0.
	Entropy float64
	// Workers is the number of goroutines, 0: one a processor. Results do not depend on it.
	Workers int
	// Clock tells the time since the start, for the curve; nil: no times.
	Clock func() time.Duration
}

// Zone says that an app may run on a share of the nodes only, the first ones.
type Zone struct {
	App   int
	Share float64 // more than 0, at most 1; nodes are rounded down
}

// methods are the ways to place.
var methods = map[string]func(*task) (*search, error){
	"metis":          (*task).metis,
	"divide-conquer": (*task).divide,
	"vanilla-rl":     (*task).vanilla,
	"george":         (*task).george,
}

// Methods are the names of the ways to place.
func Methods() []string { return slices.Sorted(maps.Keys(methods)) }

// NeedsModel says whether a method places with trained sub-schedulers.
func NeedsModel(method string, released bool) bool {
	return method == "" || method == "metis" || method == "divide-conquer" && released
}

// task is one call of Place.
type task struct {
	PlaceOptions
	problem *place.Problem
	model   *Model
	kind    []int       // of each node
	values  [][]float64 // of patterns, by kind
}

// Place learns to place a batch and gives the best placement met. Model is for the methods that NeedsModel names, else nil. Any number
// of nodes is served: trees are filled up with leaves that hold nothing, and the last group of metis may have less than 27 nodes.
// When ctx is done, the error is its, and the solution is the best so far, nil when there is none. O(episodes × containers × levels × parameters).
func Place(ctx context.Context, p *place.Problem, m *Model, o PlaceOptions, progress func(Point)) (*place.Solution, *Curve, error) {
	s, curve, err := placeWith(ctx, p, m, o, progress)
	if err != nil {
		return s, curve, fmt.Errorf("place by %s: %w", o.method(), err)
	}
	return s, curve, nil
}

func (o PlaceOptions) method() string {
	if o.Method == "" {
		return "metis"
	}
	return o.Method
}

func placeWith(ctx context.Context, p *place.Problem, m *Model, o PlaceOptions, progress func(Point)) (*place.Solution, *Curve, error) {
	t := &task{PlaceOptions: o, problem: p, model: m}
	if err := t.check(); err != nil {
		return nil, nil, err
	}
	if o.Workers == 0 {
		t.Workers = runtime.GOMAXPROCS(0)
	}
	t.kind = p.TypeOf()
	for k := range p.Types {
		t.values = append(t.values, p.PatternValues(o.Objective, k))
	}
	s, err := methods[o.method()](t)
	if err != nil {
		return nil, nil, err
	}
	if o.Objective != (place.Objective{}) && o.Objective != (place.Objective{RPS: 1}) {
		s.start = math.NaN()
	}
	if o.Episodes > 0 {
		s.episodes = o.Episodes
	}
	if o.Rate > 0 {
		s.rate = float32(o.Rate)
	}
	if o.Entropy != 0 {
		s.entropy = float32(max(0, o.Entropy))
	}
	curve := &Curve{}
	found, err := s.run(ctx, o.Seed, t.Workers, func(p Point) {
		if o.Clock != nil {
			p.Seconds = o.Clock().Seconds()
		}
		curve.Points = append(curve.Points, p)
		if progress != nil {
			progress(p)
		}
	})
	if err != nil && found.broken {
		return nil, curve, err
	}
	if found.broken {
		return nil, curve, fmt.Errorf("%w: none of %d episodes did", place.ErrInfeasible, s.episodes)
	}
	solution := &place.Solution{Bound: math.NaN(), Gap: math.NaN()}
	for n, pattern := range found.pattern {
		solution.Placement = append(solution.Placement, slices.Clone(p.Types[t.kind[n]].Table.Counts(pattern)))
	}
	played := 0
	if n := len(curve.Points); n > 0 {
		played = curve.Points[n-1].Episode
	}
	solution.Notes = append(solution.Notes, fmt.Sprintf("the best of %d episodes", played))
	if s.price != nil {
		solution.Notes = append(solution.Notes, fmt.Sprintf("outside the zones of their apps: %.1f %% of the batch, of at most %.1f %%", 100*found.cost, 100*s.budget))
	}
	return solution, curve, err
}

// mostLearned bounds what is learned on, mostActions the nodes that vanilla RL chooses among.
const (
	mostLearned = 6561
	mostActions = 4096
)

func (t *task) check() error {
	if err := errors.Join(t.problem.Validate(), t.Objective.Validate()); err != nil {
		return err
	}
	if methods[t.method()] == nil {
		return fmt.Errorf("no such method: want one of %v", Methods())
	}
	if n := t.problem.Nodes(); n < 1 || n > mostLearned {
		return fmt.Errorf("%d nodes: want 1 to %d", n, mostLearned)
	}
	if t.Episodes < 0 || t.Workers < 0 {
		return fmt.Errorf("%d episodes by %d workers: want more than 0", t.Episodes, t.Workers)
	}
	if !(t.Rate >= 0 && t.Rate <= 10) || !(math.Abs(t.Entropy) <= 1e6) {
		return fmt.Errorf("a rate of %v, entropy weight %v: want a rate from 0 to 10, a finite weight", t.Rate, t.Entropy)
	}
	if t.method() != "george" && (t.Apart || t.Zones != nil || t.Budget != 0) {
		return errors.New("limits on where containers go are only kept by george")
	}
	for i, k := range t.problem.Batch {
		if k > math.MaxUint16/2 {
			return fmt.Errorf("%d containers of app %d: want at most %d", k, i+1, math.MaxUint16/2)
		}
	}
	return nil
}

// threes are levels of three choices that lead to at least so many leaves; fewer than four are one level.
func threes(leaves int) []int {
	if leaves <= 3 {
		return []int{leaves}
	}
	fan := []int{3}
	for n := 3; n < leaves; n *= 3 {
		fan = append(fan, 3)
	}
	return fan
}

// nodeTree is a tree whose leaves are the nodes of the problem.
func (t *task) nodeTree(fan ...int) *tree {
	apps := len(t.problem.Batch)
	out := equalTree(apps, 0, fan...)
	out.start = make([]uint16, len(out.capacity)*apps)
	for n, k := range t.kind {
		out.capacity[n] = uint16(t.problem.Types[k].Table.Capacity())
		if t.problem.Existing != nil {
			for a, c := range t.problem.Existing[n] {
				out.start[n*apps+a] = uint16(c)
			}
		}
	}
	return out
}

// worth is the objective of patterns on all nodes.
func (t *task) worth(pattern []int) float64 {
	sum := 0.0
	for n, p := range pattern {
		sum += t.values[t.kind[n]][p]
	}
	return sum
}

// finishNodes judges episodes whose leaves are nodes.
func (t *task) finishNodes(tr *tree, zones []zone) func([]*episode) []outcome {
	worst := 0.0 // no placement is worth less
	for _, k := range t.kind {
		worst += slices.Min(t.values[k])
	}
	return func(episodes []*episode) []outcome {
		out := make([]outcome, len(episodes))
		counts := make([]uint8, tr.apps)
		for i, e := range episodes {
			o := &out[i]
			if o.broken = e.stuck; o.broken {
				o.value, o.cost = worst, 1
				continue
			}
			for n, k := range t.kind {
				for a := range counts {
					counts[a] = uint8(e.counts[n*tr.apps+a])
				}
				o.pattern = append(o.pattern, t.problem.Types[k].Table.Index(counts))
				for _, z := range zones {
					if n >= z.nodes {
						placed := e.counts[n*tr.apps+z.app] - tr.start[n*tr.apps+z.app]
						o.cost += float64(placed) / float64(max(total(t.problem.Batch), 1))
					}
				}
			}
			o.value = t.worth(o.pattern)
		}
		return out
	}
}

// zone are the first nodes, on which an app may run.
type zone struct{ app, nodes int }

// metis is section IV of the paper: groups of 27 nodes that sub-schedulers fill.
func (t *task) metis() (*search, error) {
	s, err := t.groups()
	if err != nil {
		return nil, err
	}
	s.entropy, s.demos, s.replay, s.start = 0.1, 31, true, 1
	return s, nil
}

// groups is a search over what the groups of 27 nodes get, with no demonstrations and no replay.
func (t *task) groups() (*search, error) {
	switch {
	case t.model == nil:
		return nil, errors.New("no model of trained sub-schedulers")
	case len(t.problem.Types) != 1:
		return nil, fmt.Errorf("nodes of %d types: sub-schedulers are trained for one", len(t.problem.Types))
	case t.problem.Containers() > total(t.problem.Batch):
		return nil, errors.New("containers run already: sub-schedulers are trained for nodes that are empty")
	}
	table := t.problem.Types[0].Table
	if !slices.Equal(table.Apps(), t.model.apps) || table.Capacity() != t.model.capacity {
		return nil, fmt.Errorf("apps %q, %d containers a node: the model is for %q, %d", table.Apps(), table.Capacity(), t.model.apps, t.model.capacity)
	}
	nodes := len(t.kind)
	cells := (nodes + cellNodes - 1) / cellNodes
	tr := equalTree(len(t.problem.Batch), 0, threes(cells)...)
	sizes := make([]int, cells)
	for c := range sizes {
		sizes[c] = min(cellNodes, nodes-c*cellNodes)
		tr.capacity[c] = uint16(sizes[c] * table.Capacity())
	}
	finish := func(episodes []*episode) []outcome {
		var all []*cell
		for _, e := range episodes {
			for c, n := range sizes {
				batch := make([]int, tr.apps)
				for a := range batch {
					batch[a] = int(e.counts[c*tr.apps+a])
				}
				all = append(all, &cell{nodes: n, batch: batch})
			}
		}
		t.model.fill(all, table, t.Workers)
		out := make([]outcome, len(episodes))
		for i := range out {
			for _, c := range all[i*cells : (i+1)*cells] {
				out[i].pattern = append(out[i].pattern, c.pattern...)
			}
			out[i].value = t.worth(out[i].pattern)
		}
		return out
	}
	return &search{tree: tr, batch: t.problem.Batch, rate: 0.015, start: 0.1, update: 10, episodes: 1500, budget: math.Inf(1), finish: finish}, nil
}

// divide learns the whole tree down to the nodes. The paper does not say with what settings; at the rate of metis and without
// entropy, as in the program that has its name, policies settle within a hundred episodes on what they met first.
func (t *task) divide() (*search, error) {
	if t.Released {
		return t.groups()
	}
	tr := t.nodeTree(threes(len(t.kind))...)
	return &search{tree: tr, batch: t.problem.Batch, rate: 0.002, entropy: 0.03, start: 0.1, update: 10, episodes: 8000, budget: math.Inf(1), finish: t.finishNodes(tr, nil)}, nil
}

// vanilla chooses among all nodes at once.
func (t *task) vanilla() (*search, error) {
	if n := len(t.kind); n > mostActions {
		return nil, fmt.Errorf("%d nodes: one network chooses among at most %d", n, mostActions)
	}
	tr := t.nodeTree(len(t.kind))
	return &search{tree: tr, batch: t.problem.Batch, rate: 0.001, start: 0.1, update: 10, episodes: 20000, budget: math.Inf(1), finish: t.finishNodes(tr, nil)}, nil
}

// george is divide-and-conquer with constraints: hard ones are kept by the choices that there are, soft ones have a price that
// follows what they cost (PID Lagrangian, morl.PID, in place of the second-order steps of CPO).
func (t *task) george() (*search, error) {
	zones := t.Zones
	if apps := t.problem.Types[0].Table.Apps(); zones == nil && slices.Equal(apps, place.MetisApps()) {
		zones = []Zone{{6, 0.5}, {2, 0.3}}
	}
	var list []zone
	for _, z := range zones {
		if z.App < 0 || z.App >= len(t.problem.Batch) || !(z.Share > 0 && z.Share <= 1) {
			return nil, fmt.Errorf("zone %+v: want an app from 0 to %d, a share of the nodes up to 1", z, len(t.problem.Batch)-1)
		}
		list = append(list, zone{z.App, int(z.Share * float64(len(t.kind)))})
	}
	budget := t.Budget
	switch {
	case math.IsNaN(budget) || budget > 1:
		return nil, fmt.Errorf("a budget of %v: want at most 1", budget)
	case budget == 0:
		budget = 0.05
	}
	tr := t.nodeTree(threes(len(t.kind))...)
	if t.Apart {
		for a, k := range t.problem.Batch {
			if k > len(t.kind) {
				return nil, fmt.Errorf("%w: %d containers of app %d on %d nodes, at most one on each", place.ErrInfeasible, k, a+1, len(t.kind))
			}
		}
		tr.limits = make([]uint16, len(tr.start))
		for i := range tr.limits {
			tr.limits[i] = 1
		}
	}
	return &search{tree: tr, batch: t.problem.Batch, rate: 0.002, start: 0.1, update: 20, episodes: 8000, entropy: 0.03, budget: max(0, budget),
		price: &morl.PID{Kp: 0.5, Ki: 0.05, Kd: 0.1, Smooth: 0.9, Most: 20}, finish: t.finishNodes(tr, list)}, nil
}
