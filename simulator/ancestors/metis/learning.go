package metis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"trainopt/morl"
	"trainopt/optimizer/schedule/place"
)

// learningOptions are the options of placing a batch. Zero values have the meaning noted.
type learningOptions struct {
	Method string // one of Methods; "" means metis
	// Objective is the learned objective. Sub-schedulers are always trained for the mean throughput, so metis
	// optimises only their batches. The initial thresholds of Metis's programs (a mean throughput of 1 or 0.1 to
	// exceed) apply to that objective only; others start from the worst of the first episodes.
	Objective place.Objective
	Seed      uint64
	// Episodes is the number of episodes; 0 means that of the method: metis 1500 (its program uses 20 000, or 2000
	// for 729 nodes), divide-conquer 8000, vanilla-rl 20 000 (of 800 000), george 8000 (of 62 000).
	Episodes int
	// Released makes divide-conquer what Metis's program runs under that name: metis without entropy, demonstrations
	// and replay.
	Released bool
	// Apart limits each node to one container per app, a hard constraint of george; other methods return an error.
	Apart bool
	// Zones restrict apps to a part of the nodes, soft constraints of george; nil means, for Metis's seven apps, isr
	// on 50 % of the nodes and checksum on 30 %, otherwise none.
	Zones []Zone
	// Budget is the largest share of the batch outside the zones; 0 means 0.05, negative 0. Containers already
	// running are not counted.
	Budget float64
	// Workers is the number of goroutines; 0 means one per processor. Results do not depend on it.
	Workers int
	// Clock returns the time since the start, for the curve; nil means no times.
	Clock func() time.Duration
}

// Zone restricts an app to the first nodes of the cluster, up to a share of them.
type Zone struct {
	App   int
	Share float64 // more than 0, at most 1; the number of nodes is rounded down
}

// learningMethods is the registry of placement methods.
var learningMethods = map[string]func(*task) (*search, error){
	"metis":          (*task).metis,
	"divide-conquer": (*task).divide,
	"vanilla-rl":     (*task).vanilla,
	"george":         (*task).george,
}

// needsModel reports whether a method requires trained sub-schedulers.
func needsModel(method string, released bool) bool {
	return method == "" || method == "metis" || method == "divide-conquer" && released
}

// task is one call of placeByLearning.
type task struct {
	learningOptions
	problem *place.Problem
	model   *model
	kind    []int       // node type by node
	values  [][]float64 // value by node type and pattern
}

// placeByLearning learns to place a batch and returns the best placement found. The model is required by the methods
// for which needsModel returns true; otherwise it is nil. Any number of nodes is supported: trees are padded with leaves of
// capacity 0, and the last group of metis may have fewer than 27 nodes. When ctx is done, it returns its error and
// the best solution so far, nil if none. O(episodes × containers × levels × parameters).
func placeByLearning(ctx context.Context, p *place.Problem, m *model, o learningOptions, progress func(LearningPoint)) (*place.Solution, []LearningPoint, error) {
	s, curve, err := placeWith(ctx, p, m, o, progress)
	if err != nil {
		return s, curve, fmt.Errorf("place by %s: %w", o.method(), err)
	}
	return s, curve, nil
}

func (o learningOptions) method() string {
	return cmp.Or(o.Method, "metis")
}

// placeWith selects the method, applies the options to its search, runs it, and converts the best outcome to a
// solution.
func placeWith(ctx context.Context, p *place.Problem, m *model, o learningOptions, progress func(LearningPoint)) (*place.Solution, []LearningPoint, error) {
	t := &task{learningOptions: o, problem: p, model: m}
	if err := t.check(); err != nil {
		return nil, nil, err
	}
	t.Workers = cmp.Or(o.Workers, runtime.GOMAXPROCS(0))
	t.kind = p.TypeOf()
	for k := range p.Types {
		t.values = append(t.values, p.PatternValues(o.Objective, k))
	}
	s, err := learningMethods[o.method()](t)
	if err != nil {
		return nil, nil, err
	}
	if o.Objective != (place.Objective{}) && o.Objective != (place.Objective{RPS: 1}) {
		s.start = math.NaN()
	}
	if o.Episodes > 0 {
		s.episodes = o.Episodes
	}
	var curve []LearningPoint
	found, err := s.run(ctx, o.Seed, t.Workers, func(p LearningPoint) {
		if o.Clock != nil {
			p.Seconds = o.Clock().Seconds()
		}
		curve = append(curve, p)
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
	if n := len(curve); n > 0 {
		played = curve[n-1].Episode
	}
	solution.Notes = append(solution.Notes, fmt.Sprintf("the best of %d episodes", played))
	if s.price != nil {
		solution.Notes = append(solution.Notes, fmt.Sprintf("outside the zones of their apps: %.1f %% of the batch, of at most %.1f %%", 100*found.cost, 100*s.budget))
	}
	return solution, curve, err
}

// mostLearned is the maximum number of nodes, mostActions that of vanilla RL.
const (
	mostLearned = 6561
	mostActions = 4096
)

// check returns an error for an invalid problem or options.
func (t *task) check() error {
	if err := errors.Join(t.problem.Validate(), t.Objective.Validate()); err != nil {
		return err
	}
	if learningMethods[t.method()] == nil {
		return fmt.Errorf("no such method: want one of %v", slices.Sorted(maps.Keys(learningMethods)))
	}
	if n := t.problem.Nodes(); n < 1 || n > mostLearned {
		return fmt.Errorf("%d nodes: want 1 to %d", n, mostLearned)
	}
	if t.Episodes < 0 || t.Workers < 0 {
		return fmt.Errorf("%d episodes by %d workers: want more than 0", t.Episodes, t.Workers)
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

// threes returns levels of three choices with at least the given number of leaves; up to three leaves form one level.
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

// nodeTree returns a tree whose leaves are the nodes of the problem.
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

// worth returns the objective of patterns on all nodes.
func (t *task) worth(pattern []int) float64 {
	sum := 0.0
	for n, p := range pattern {
		sum += t.values[t.kind[n]][p]
	}
	return sum
}

// finishNodes returns the evaluation of episodes whose leaves are nodes: the value of the patterns, and as cost the
// share of the batch outside its zones. An incomplete episode has the worst value and cost 1.
func (t *task) finishNodes(tr *tree, zones []zone) func([]*episode) []episodeOutcome {
	worst := 0.0 // lower bound of all placements
	for _, k := range t.kind {
		worst += slices.Min(t.values[k])
	}
	return func(episodes []*episode) []episodeOutcome {
		out := make([]episodeOutcome, len(episodes))
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

// zone is the number of first nodes on which an app may run.
type zone struct{ app, nodes int }

// metis implements section IV of the paper: groups of 27 nodes, filled by sub-schedulers.
func (t *task) metis() (*search, error) {
	s, err := t.groups()
	if err != nil {
		return nil, err
	}
	s.entropy, s.demos, s.replay, s.start = 0.1, 31, true, 1
	return s, nil
}

// groups returns a search for the batches of the groups of 27 nodes, without demonstrations and replay. It requires
// empty nodes of one type, and a model for the same apps and capacity. The evaluation of an episode fills all groups
// by the sub-schedulers.
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
	finish := func(episodes []*episode) []episodeOutcome {
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
		out := make([]episodeOutcome, len(episodes))
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

// divide learns the whole tree down to the nodes. The paper does not state the settings; with the rate of metis and
// without entropy, as in the program of that name, policies converge prematurely within a hundred episodes.
func (t *task) divide() (*search, error) {
	if t.Released {
		return t.groups()
	}
	tr := t.nodeTree(threes(len(t.kind))...)
	return &search{tree: tr, batch: t.problem.Batch, rate: 0.002, entropy: 0.03, start: 0.1, update: 10, episodes: 8000, budget: math.Inf(1), finish: t.finishNodes(tr, nil)}, nil
}

// vanilla chooses among all nodes directly.
func (t *task) vanilla() (*search, error) {
	if n := len(t.kind); n > mostActions {
		return nil, fmt.Errorf("%d nodes: one network chooses among at most %d", n, mostActions)
	}
	tr := t.nodeTree(len(t.kind))
	return &search{tree: tr, batch: t.problem.Batch, rate: 0.001, start: 0.1, update: 10, episodes: 20000, budget: math.Inf(1), finish: t.finishNodes(tr, nil)}, nil
}

// george is divide-and-conquer with constraints: hard ones restrict the choices, soft ones have a price that follows
// their violation (PID Lagrangian, morl.PID, in place of the second-order steps of CPO).
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
		tr.limits = slices.Repeat([]uint16{1}, len(tr.start))
	}
	return &search{tree: tr, batch: t.problem.Batch, rate: 0.002, start: 0.1, update: 20, episodes: 8000, entropy: 0.03, budget: max(0, budget),
		price: &morl.PID{Kp: 0.5, Ki: 0.05, Kd: 0.1, Smooth: 0.9, Most: 20}, finish: t.finishNodes(tr, list)}, nil
}

// ParseZones parses APP=SHARE,…; "none" yields an empty, non-nil list.
func ParseZones(text string, apps []string) ([]Zone, error) {
	zones := []Zone{}
	if text == "none" {
		return zones, nil
	}
	for _, part := range strings.Split(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		app := slices.Index(apps, name)
		share, err := strconv.ParseFloat(value, 64)
		switch {
		case app < 0:
			return nil, fmt.Errorf("zones %q: no app %q, want APP=SHARE,… of %s, or none", text, name, strings.Join(apps, ", "))
		case err != nil || !(share > 0 && share <= 1):
			return nil, fmt.Errorf("zones %q: share %q of %s: want more than 0, up to 1", text, value, name)
		case slices.ContainsFunc(zones, func(z Zone) bool { return z.App == app }):
			return nil, fmt.Errorf("zones %q: %s is named twice", text, name)
		}
		zones = append(zones, Zone{App: app, Share: share})
	}
	return zones, nil
}
