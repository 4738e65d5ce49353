package place

import (
	"errors"
	"fmt"
	"math"
)

// Objective is the quantity that a method maximizes, the weighted sum
//
//	RPS · MeanRPS + SLO · SLOShare + Vacant · (Worth.Vacant / nodes) − Cost · Worth.Cost − Missed · Magnitude
//
// The zero value is the mean RPS. Vacant is the β of Metis's study of fragmentation; Missed alone is the objective of
// Medea. All terms are sums over nodes, on which the methods rely.
type Objective struct {
	RPS, SLO, Vacant, Cost, Missed float64
}

// orRPS returns the objective with its default: the mean RPS if all weights are 0.
func (o Objective) orRPS() Objective {
	if o == (Objective{}) {
		o.RPS = 1
	}
	return o
}

// Validate returns an error if a weight is not finite. Negative weights are allowed.
func (o Objective) Validate() error {
	for _, w := range []float64{o.RPS, o.SLO, o.Vacant, o.Cost, o.Missed} {
		if math.IsNaN(w) || math.IsInf(w, 0) {
			return fmt.Errorf("placement: objective %+v: weights must be finite", o)
		}
	}
	return nil
}

// Value returns the objective value of metrics on a cluster with the given number of nodes. Means over no containers
// count as 0.
func (o Objective) Value(w Metrics, nodes int) float64 {
	o = o.orRPS()
	v := -o.Cost*w.Cost - o.Missed*w.Magnitude
	if !math.IsNaN(w.MeanRPS) {
		v += o.RPS*w.MeanRPS + o.SLO*w.SLOShare
	}
	if nodes > 0 {
		v += o.Vacant * float64(w.Vacant) / float64(nodes)
	}
	return v
}

// Sums returns the weights of the objective for sums over containers and nodes instead of means.
func (o Objective) Sums(containers, nodes int) Objective {
	o = o.orRPS()
	o.RPS /= float64(max(containers, 1))
	o.SLO /= float64(max(containers, 1))
	o.Vacant /= float64(max(nodes, 1))
	return o
}

// PatternValues returns the contribution of each pattern, by number, to the objective on a node of a type of the
// problem. The sum over all nodes equals Value. O(patterns × (apps + constraints)).
func (p *Problem) PatternValues(o Objective, kind int) []float64 {
	return p.PatternSums(o.Sums(p.Containers(), p.Nodes()), kind)
}

// PatternSums returns the contribution of each pattern to
//
//	RPS · Σ throughput + SLO · containers served + Vacant · empty nodes − Cost · Worth.Cost − Missed · Magnitude
func (p *Problem) PatternSums(o Objective, kind int) []float64 {
	t := p.Types[kind].Table
	values := make([]float64, t.Patterns())
	values[0] = o.Vacant
	for i := 1; i < len(values); i++ {
		v := o.RPS*t.Throughput(i) - o.Cost*p.Types[kind].Cost
		if o.SLO != 0 {
			v += o.SLO * float64(p.Served(t, i))
		}
		if o.Missed != 0 {
			missed, _ := p.Violation(t.Counts(i))
			v -= o.Missed * missed
		}
		values[i] = v
	}
	return values
}

// Limits are constraints on a placement. The zero value imposes none.
type Limits struct {
	MaxViolation *float64 // upper limit on Magnitude; nil: none, 0: the constraints are hard
	SLOShare     float64  // minimum share of containers served; 0: none
	Nodes        int      // maximum number of nodes in use; 0: none
	Cost         float64  // maximum cost; 0: none
}

// Validate returns all invalid limits as a joined error.
func (l Limits) Validate() error {
	var errs []error
	if l.MaxViolation != nil && !(*l.MaxViolation >= 0) {
		errs = append(errs, fmt.Errorf("placement: limit of %v for what is missed: want a number that is not negative", *l.MaxViolation))
	}
	if !(l.SLOShare >= 0 && l.SLOShare <= 1) {
		errs = append(errs, fmt.Errorf("placement: at least a share of %v served: want 0 to 1", l.SLOShare))
	}
	if l.Nodes < 0 {
		errs = append(errs, fmt.Errorf("placement: at most %d nodes", l.Nodes))
	}
	if !(l.Cost >= 0) {
		errs = append(errs, fmt.Errorf("placement: a cost of at most %v", l.Cost))
	}
	return errors.Join(errs...)
}

// slack is the tolerance for rounding of floating-point sums at a limit.
const slack = 1e-9

// Check returns nil if a placement with these metrics satisfies the limits, else an error that wraps ErrInfeasible
// and describes the violation.
func (l Limits) Check(w Metrics) error {
	switch {
	case l.MaxViolation != nil && w.Magnitude > *l.MaxViolation+slack*max(1, *l.MaxViolation):
		return fmt.Errorf("%w: constraints are missed by %v, limit %v", ErrInfeasible, w.Magnitude, *l.MaxViolation)
	case l.SLOShare > 0 && w.SLOShare < l.SLOShare-slack:
		return fmt.Errorf("%w: %v of the containers are served, limit %v", ErrInfeasible, w.SLOShare, l.SLOShare)
	case l.Nodes > 0 && w.NodesUsed > l.Nodes:
		return fmt.Errorf("%w: %d nodes are in use, limit %d", ErrInfeasible, w.NodesUsed, l.Nodes)
	case l.Cost > 0 && w.Cost > l.Cost+slack*l.Cost:
		return fmt.Errorf("%w: a cost of %v, limit %v", ErrInfeasible, w.Cost, l.Cost)
	}
	return nil
}

// row is a limit in additive form: the uses of the patterns of all nodes sum to at most Most.
type row struct {
	Most float64
	Uses [][]float64 // by node type and pattern
}

// Rows returns one row for each limit that is set. O(patterns × (apps + constraints)) each.
func (p *Problem) Rows(l Limits) []row {
	var rows []row
	add := func(most float64, use func(t *NodeType, pattern int) float64) {
		row := row{Most: most, Uses: make([][]float64, len(p.Types))}
		for i := range p.Types {
			row.Uses[i] = make([]float64, p.Types[i].Table.Patterns())
			for j := range row.Uses[i] {
				row.Uses[i][j] = use(&p.Types[i], j)
			}
		}
		rows = append(rows, row)
	}
	if l.MaxViolation != nil {
		add(*l.MaxViolation, func(t *NodeType, pattern int) float64 {
			missed, _ := p.Violation(t.Table.Counts(pattern))
			return missed
		})
	}
	if l.SLOShare > 0 {
		n := float64(p.Containers())
		add(-math.Ceil((l.SLOShare-slack)*n), func(t *NodeType, pattern int) float64 { return -float64(p.Served(t.Table, pattern)) })
	}
	if l.Nodes > 0 {
		add(float64(l.Nodes), func(_ *NodeType, pattern int) float64 { return float64(min(pattern, 1)) })
	}
	if l.Cost > 0 {
		add(l.Cost, func(t *NodeType, pattern int) float64 { return t.Cost * float64(min(pattern, 1)) })
	}
	return rows
}
