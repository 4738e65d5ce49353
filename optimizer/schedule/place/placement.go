package place

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// mostContainers and mostNodes bound a problem.
const (
	mostContainers = 1 << 24
	mostNodes      = 1 << 24
)

// ErrInfeasible says that no placement keeps the limits, or that a method found none; the message says which.
var ErrInfeasible = errors.New("no placement keeps the limits")

// NodeType is so many equal nodes.
type NodeType struct {
	Name  string
	Count int
	Table *Table  // how fast containers are on it; the apps are those of every other type
	Cost  float64 // of a node that is in use, in whatever unit; 0 is free
}

// Problem is a batch of containers for a cluster.
type Problem struct {
	Types []NodeType // nodes are numbered through all types, in order
	Batch []int      // containers of each app that are to be placed
	// Existing is what runs already and does not move, one row of counts a node; nil is nothing.
	Existing [][]uint8
	// Constraints are wishes of apps about their neighbours; they are counted, and methods may minimise or bound them.
	Constraints []Constraint
	// SLO is the throughput of a container, relative to one alone, from which on it counts as served; 0 is 0.95.
	SLO float64
}

// Constraint is a wish of each container of App about the containers of Neighbour on its node (others than itself): at most
// Threshold of them, or at least that many when AtLeast is set.
type Constraint struct {
	App, Neighbour int
	AtLeast        bool
	Threshold      int
	Weight         float64 // of a violation; 0 is 1
}

// Placement is the number of containers of each app on each node, existing ones included.
type Placement [][]uint8

// Solution is what a method found.
type Solution struct {
	Placement Placement
	Value     float64 // of the method's objective
	// Bound is what no placement exceeds in the method's objective, NaN when it proves nothing. Gap is (Bound − Value) / |Bound|, 0
	// when both are 0; NaN without a bound.
	Bound, Gap float64
	Notes      []string
}

// Apps is the number of apps.
func (p *Problem) Apps() int { return len(p.Batch) }

// Nodes is the number of nodes.
func (p *Problem) Nodes() int {
	n := 0
	for i := range p.Types {
		n += p.Types[i].Count
	}
	return n
}

// TypeOf is by node the number of its type.
func (p *Problem) TypeOf() []int {
	of := make([]int, 0, p.Nodes())
	for i := range p.Types {
		for range p.Types[i].Count {
			of = append(of, i)
		}
	}
	return of
}

// Containers is the number of all containers, existing ones included.
func (p *Problem) Containers() int {
	n := sum(p.Batch)
	for _, node := range p.Existing {
		for _, k := range node {
			n += int(k)
		}
	}
	return n
}

// Threshold is the SLO that holds: 0.95 where none is set.
func (p *Problem) Threshold() float64 {
	if p.SLO == 0 {
		return 0.95
	}
	return p.SLO
}

// Validate names all that is wrong. Where nothing is but that the batch is too large for the cluster, the error wraps ErrInfeasible.
func (p *Problem) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("placement: "+format, args...)) }
	room, nodes := p.validateTypes(wrong)
	containers := 0
	for a, k := range p.Batch {
		if k < 0 || k > mostContainers {
			wrong("%d containers of app %d: want 0 to %d", k, a+1, mostContainers)
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
