package place

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Limits on the size of a problem.
const (
	maxContainers = 1 << 24
	mostNodes     = 1 << 24
)

// ErrInfeasible reports that no placement satisfies the limits, or that a method found none; the message
// distinguishes the two.
var ErrInfeasible = errors.New("no placement keeps the limits")

// NodeType is a number of identical nodes.
type NodeType struct {
	Name  string
	Count int
	Table *Table  // throughput of containers on the node; all types must have the same apps
	Cost  float64 // cost of a node in use, in any unit; 0 is free
}

// Problem is the placement of a batch of containers on a cluster.
type Problem struct {
	Types []NodeType // nodes are numbered across all types, in order
	Batch []int      // number of containers of each app to be placed
	// Existing contains the running containers, which do not move: one row of counts per node; nil: none.
	Existing [][]uint8
	// Constraints are affinities and anti-affinities between apps. Violations are counted, and methods may minimize
	// or bound them.
	Constraints []Constraint
	// SLO is the minimum throughput, relative to a container alone on a node, at which a container counts as served;
	// 0: 0.95.
	SLO float64
}

// Constraint limits the number of containers of Neighbour beside each container of App on a node (not counting the
// container itself): at most Threshold of them, or at least Threshold if AtLeast is set.
type Constraint struct {
	App, Neighbour int
	AtLeast        bool
	Threshold      int
	Weight         float64 // of a violation; 0: 1
}

// Placement is the number of containers of each app on each node, including existing ones.
type Placement [][]uint8

// Solution is the result of a placement method.
type Solution struct {
	Placement Placement
	Value     float64 // value of the method's objective
	// Bound is an upper bound on the method's objective over all placements, NaN if the method proves none. Gap is
	// (Bound − Value) / |Bound|: 0 when both are 0, NaN without a bound.
	Bound, Gap float64
	Notes      []string
}

// Apps returns the number of apps.
func (p *Problem) Apps() int { return len(p.Batch) }

// Nodes returns the number of nodes.
func (p *Problem) Nodes() int {
	n := 0
	for i := range p.Types {
		n += p.Types[i].Count
	}
	return n
}

// TypeOf returns the type index of each node.
func (p *Problem) TypeOf() []int {
	of := make([]int, 0, p.Nodes())
	for i := range p.Types {
		for range p.Types[i].Count {
			of = append(of, i)
		}
	}
	return of
}

// Containers returns the number of all containers, including existing ones.
func (p *Problem) Containers() int {
	n := sum(p.Batch)
	for _, node := range p.Existing {
		for _, k := range node {
			n += int(k)
		}
	}
	return n
}

// Threshold returns the effective SLO: 0.95 if none is set.
func (p *Problem) Threshold() float64 {
	if p.SLO == 0 {
		return 0.95
	}
	return p.SLO
}

// Validate returns all errors of the problem, joined. If the batch merely exceeds the capacity of the cluster, the
// error wraps ErrInfeasible.
func (p *Problem) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("placement: "+format, args...)) }
	room, nodes := p.validateTypes(wrong)
	containers := 0
	for a, k := range p.Batch {
		if k < 0 || k > maxContainers {
			wrong("%d containers of app %d: want 0 to %d", k, a+1, maxContainers)
			continue
		}
		containers += k
	}
	if len(errs) == 0 && p.Existing != nil {
		if len(p.Existing) != nodes {
			wrong("existing containers of %d nodes, the cluster has %d", len(p.Existing), nodes)
		} else {
			containers += p.validateExisting(wrong)
		}
	}
	for i, c := range p.Constraints {
		if min(c.App, c.Neighbour) < 0 || max(c.App, c.Neighbour) >= len(p.Batch) || c.Threshold < 0 || !(c.Weight >= 0) || math.IsInf(c.Weight, 1) {
			wrong("constraint %d, %+v: want apps 0 to %d, a threshold and a weight that are not negative", i+1, c, len(p.Batch)-1)
		}
	}
	if !(p.SLO >= 0) || math.IsInf(p.SLO, 1) {
		wrong("SLO %v: want a throughput relative to a container alone, 0 for 0.95", p.SLO)
	}
	if len(errs) == 0 && containers > room {
		wrong("%w: %d containers on %d nodes that hold %d", ErrInfeasible, containers, nodes, room)
	}
	return errors.Join(errs...)
}

// validateTypes validates the node types and returns their total capacity in containers and number of nodes.
func (p *Problem) validateTypes(wrong func(string, ...any)) (room, nodes int) {
	if len(p.Types) == 0 {
		wrong("no nodes")
	}
	if len(p.Batch) == 0 {
		wrong("no apps in the batch")
	}
	for i := range p.Types {
		t := &p.Types[i]
		switch {
		case t.Table == nil:
			wrong("node type %q has no throughput table", t.Name)
			continue
		case len(t.Table.Apps()) != len(p.Batch):
			wrong("node type %q knows %d apps, the batch has %d", t.Name, len(t.Table.Apps()), len(p.Batch))
		case p.Types[0].Table != nil && !slices.Equal(t.Table.Apps(), p.Types[0].Table.Apps()):
			wrong("node type %q has apps %q, type %q has %q", t.Name, t.Table.Apps(), p.Types[0].Name, p.Types[0].Table.Apps())
		}
		if t.Count < 0 || t.Count > mostNodes || nodes+t.Count > mostNodes {
			wrong("%d nodes of type %q: want 0 to %d", t.Count, t.Name, mostNodes)
			continue
		}
		if !(t.Cost >= 0) || math.IsInf(t.Cost, 1) {
			wrong("a node of type %q costs %v", t.Name, t.Cost)
		}
		nodes += t.Count
		room += t.Count * t.Table.Capacity()
	}
	return room, nodes
}

// validateExisting validates the existing containers and returns their number.
func (p *Problem) validateExisting(wrong func(string, ...any)) (containers int) {
	typeOf := p.TypeOf()
	for n, counts := range p.Existing {
		if len(counts) != len(p.Batch) {
			wrong("existing containers of node %d: %d apps, the batch has %d", n+1, len(counts), len(p.Batch))
			continue
		}
		size := 0
		for _, k := range counts {
			size += int(k)
		}
		if t := &p.Types[typeOf[n]]; size > t.Table.Capacity() {
			wrong("%d existing containers on node %d of type %q, which holds %d", size, n+1, t.Name, t.Table.Capacity())
		}
		containers += size
	}
	return containers
}
