package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/ancestors/rlscheduler"
	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
)

// Rollout is the name of the policy that searches by rollouts (rlscheduler.NewRollout; on platforms cores.Rollout).
const Rollout = "rollout"

// learnedKind is the name of the agents included in the program, for equal processors (rlscheduler.BuiltinAgent).
const learnedKind = "learned"

// Method is a complete scheduling method.
type Method struct {
	// Policy is one of order.Orders, Rollout, Learned, a pair of hdeeprm ("shortest-high_gflops"), or the display
	// name of agent.
	Policy string
	// Backfill is one of queue.Backfills; "" means the default of the policy, set by Settle.
	Backfill string
	// AsPublished uses the formulas and the event loop of RLScheduler's code; see queue.Config.
	AsPublished bool
	// Placement is one of cores.Placements, for orders on a platform; "" means best.
	Placement string
	// Objective is the objective of placements, a name accepted by ParseObjective; "" means early ends.
	Objective string
	Compat    bool // reproduces HDeepRM's errors, see hdeeprm.Settings
	Seed      uint64
	// Heuristic, if not nil, replaces Policy in RLScheduler's episodes.
	Heuristic *rlscheduler.Heuristic
	Agent     *agent // replaces a named policy; nil means none
	// Progress is called periodically with the number of ended jobs and their total; nil means no reports.
	Progress func(done, total int)
}

// Run is the result of one simulation.
type Run struct {
	*queue.Result
	Method   Method // with defaults filled in
	Window   Window
	Workload *Workload
	Tree     *platform.Tree
	Dropped  map[string]int // dropped jobs by reason, including jobs that exceed the machine
	Counts   *hdeeprm.Counts
	Learned  []hdeeprm.AgentRun // runs in which an agent of HDeepRM learned or was tested
	Actions  []string           // names of the actions numbered in Learned
	Blocked  []float64          // s, times of decisions that ended for lack of cores or memory, in simulations of HDeepRM
}

// kind is the kind of a policy, derived from its name.
type kind uint8

// The kinds of policies.
const (
	Unknown kind = iota
	Order        // one of order.Orders
	search       // Rollout
	builtin      // Learned
	Pair         // a pair of HDeepRM's policies
)

// KindOf returns the kind of a policy name; Unknown may be a file.
func KindOf(policy string) kind {
	if _, ok := order.Orders[policy]; ok {
		return Order
	}
	switch policy {
	case Rollout:
		return search
	case learnedKind:
		return builtin
	}
	if _, err := hdeeprm.ParsePair(policy); err == nil {
		return Pair
	}
	return Unknown
}

// Policies returns the names of all policies for a platform or for equal processors.
func Policies(platform bool) []string {
	if platform {
		var out []string
		for _, j := range hdeeprm.JobPolicies() {
			for _, c := range hdeeprm.CorePolicies() {
				out = append(out, j+"-"+c)
			}
		}
		return slices.Concat(order.OrderNames(), []string{Rollout}, out)
	}
	return append(order.OrderNames(), learnedKind, Rollout)
}

// Settle fills in the defaults of the method for a workload. It returns an error for invalid combinations.
func (m *Method) Settle(w *Workload) error {
	kind := KindOf(m.Policy)
	var errs []error
	switch {
	case m.Heuristic != nil:
		if w.Tree != nil || m.Backfill != "none" && m.Backfill != "rlscheduler" {
			return fmt.Errorf("policy %s: RLScheduler's heuristics are for equal processors, with backfill none or rlscheduler", m.Policy)
		}
		return nil
	case kind == Unknown && m.Agent == nil:
		return fmt.Errorf("policy %q: there is no such policy; there are %s", m.Policy, strings.Join(Policies(w.Tree != nil), ", "))
	case w.Tree == nil && (kind == Pair || m.Agent != nil && m.Agent.Platform()):
		errs = append(errs, fmt.Errorf("policy %s chooses among unequal cores: it needs a platform", m.Policy))
	case w.Tree != nil && (kind == builtin || m.Agent != nil && !m.Agent.Platform()):
		errs = append(errs, fmt.Errorf("policy %s is for equal processors: on a platform want an order such as saf, or a pair such as shortest-high_gflops", m.Policy))
	}
	if w.Tree != nil {
		errs = append(errs, m.settlePlatform(kind))
	} else {
		errs = append(errs, m.settleEqual(kind))
	}
	return errors.Join(errs...)
}

// settleEqual settles a method for equal processors.
func (m *Method) settleEqual(k kind) error {
	episodes := k == search || k == builtin || m.Agent != nil
	if m.Backfill == "" {
		m.Backfill = "easy"
		if episodes {
			m.Backfill = "rlscheduler"
		} else if m.AsPublished {
			m.Backfill = "none"
		}
	}
	switch {
	case m.Placement != "":
		return fmt.Errorf("placement %s: on equal processors there is nothing to place: it needs a platform", m.Placement)
	case !slices.Contains(queue.Backfills(), m.Backfill):
		return fmt.Errorf("backfill %q: unknown, want one of %s", m.Backfill, strings.Join(queue.Backfills(), ", "))
	case episodes && m.Backfill != "none" && m.Backfill != "rlscheduler":
		return fmt.Errorf("backfill %s: %s decides in RLScheduler's episodes: want none or rlscheduler", m.Backfill, m.Policy)
	case m.AsPublished && !episodes && (m.Backfill == "none" || m.Backfill == "rlscheduler"):
		m.Heuristic = &rlscheduler.Heuristic{Name: m.Policy, Order: order.Orders[m.Policy].Published()}
	}
	return nil
}

// settlePlatform settles a method for a platform. Pairs and agents of HDeepRM include the placement and exclude
// backfilling; rollouts require EASY and choose the placement; orders combine with any backfilling and placement.
func (m *Method) settlePlatform(k kind) error {
	if k == Pair || m.Agent != nil {
		m.Backfill = cmp.Or(m.Backfill, "none")
		if m.Backfill != "none" {
			return fmt.Errorf("backfill %s: pairs and agents of HDeepRM pass over no job: want none, or an order such as saf", m.Backfill)
		}
		if m.Placement != "" {
			return fmt.Errorf("placement %s: %s says itself where jobs run", m.Placement, m.Policy)
		}
		return nil
	}
	m.Backfill, m.Placement = cmp.Or(m.Backfill, "easy"), cmp.Or(m.Placement, "best")
	if k == search && (m.Backfill != "easy" || m.Placement != "best") {
		return fmt.Errorf("policy %s: on a platform it tries placements itself, with backfill easy", m.Policy)
	}
	if !slices.Contains(queue.CoreBackfills(), m.Backfill) {
		return fmt.Errorf("backfill %q: on a platform want one of %s", m.Backfill, strings.Join(queue.CoreBackfills(), ", "))
	}
	if !slices.Contains(queue.Placements(), m.Placement) {
		return fmt.Errorf("placement %q: unknown, want one of %s", m.Placement, strings.Join(queue.Placements(), ", "))
	}
	_, _, err := ParseObjective(m.Objective)
	return err
}

// aims maps the names of objectives, HDeepRM's and a short one, to those of agents and of placements.
var aims = []struct {
	name, short string
	agent       hdeeprm.Objective
	place       queue.Objective
}{
	{"avg_job_slowdown", "slowdown", hdeeprm.Slowdown, queue.Slowdown},
	{"makespan", "finish", hdeeprm.Makespan, queue.Finish},
	{"avg_job_completion", "completion", hdeeprm.Completion, queue.Slowdown},
	{"avg_utilization", "utilization", hdeeprm.Utilization, queue.Finish},
	{"energy_consumption", "energy", hdeeprm.Energy, queue.Energy},
	{"edp", "edp", hdeeprm.EnergyDelay, queue.Energy},
}

// ParseObjective returns the objectives with the given HDeepRM or short name: the reward of agents, and the closest
// objective of placements. "" means avg_job_slowdown for agents and early ends for placements.
func ParseObjective(name string) (hdeeprm.Objective, queue.Objective, error) {
	if name == "" {
		return hdeeprm.Slowdown, queue.Finish, nil
	}
	var known []string
	for _, a := range aims {
		if name == a.name || name == a.short {
			return a.agent, a.place, nil
		}
		known = append(known, a.name)
	}
	return 0, 0, fmt.Errorf("objective %q: unknown, want one of %s", name, strings.Join(known, ", "))
}

// Run simulates a window of the workload. When ctx is cancelled, it returns the partial result, which may be nil,
// with the error.
func (w *Workload) Run(ctx context.Context, m Method, p Window) (*Run, error) {
	if err := m.Settle(w); err != nil {
		return nil, err
	}
	p, err := w.Settle(p)
	if err != nil {
		return nil, err
	}
	r := &Run{Method: m, Window: p, Workload: w, Tree: w.Tree}
	switch {
	case m.Agent != nil && w.Tree != nil:
		err = r.agent(ctx)
	case m.Agent != nil || m.Heuristic != nil || w.Tree == nil && (m.Policy == Rollout || m.Policy == learnedKind):
		err = r.episode(ctx)
	case w.Tree != nil && KindOf(m.Policy) == Pair:
		err = r.pair(ctx)
	case w.Tree != nil:
		err = r.order(ctx)
	default:
		r.Result, err = queue.Run(ctx, queue.Config{Procs: w.Procs, Jobs: w.Jobs[p.Start : p.Start+p.Length], Order: m.Policy,
			Backfill: m.Backfill, AsPublished: m.AsPublished, Progress: m.Progress})
	}
	if r.Result == nil {
		return nil, err
	}
	r.CountDropped()
	if n := len(r.Jobs); err == nil && n > 0 && r.Dropped[neverFits] == n {
		return nil, fmt.Errorf("%w: %d jobs are %s", ErrNothing, n, neverFits)
	}
	return r, err
}

// CountDropped sets Dropped to the jobs dropped from the workload plus those rejected in the run.
func (r *Run) CountDropped() {
	r.Dropped = maps.Clone(r.Workload.Dropped)
	if r.Dropped == nil {
		r.Dropped = map[string]int{}
	}
	for i := range r.Jobs {
		if r.Jobs[i].State == queue.Rejected {
			r.Dropped[neverFits]++
		}
	}
}

// neverFits is the reason for rejections at submission.
const neverFits = "larger than the machine or need more memory than it has"
