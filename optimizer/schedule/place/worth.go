package place

import (
	"cmp"
	"fmt"
	"math"
)

// Metrics contains the metrics of a placement.
type Metrics struct {
	MeanRPS  float64 // mean relative throughput of a container; NaN without containers
	SLOShare float64 // share of containers with a throughput of at least the SLO; NaN without containers
	// Magnitude is the weighted sum of violations over constraints and containers (Medea's objective). Instances is
	// the number of violating (constraint, container) pairs.
	Magnitude float64
	Instances int
	NodesUsed int
	Cost      float64 // of the nodes in use, in the unit of NodeType.Cost
	Vacant    int     // number of empty nodes
}

// Evaluate computes the metrics of a placement. It returns an error for an invalid placement: an overfull node,
// missing or surplus containers, or existing containers that moved. O(nodes × (apps + constraints)).
func (p *Problem) Evaluate(at Placement) (Metrics, error) {
	if err := p.Validate(); err != nil {
		return Metrics{}, err
	}
	if len(at) != p.Nodes() {
		return Metrics{}, fmt.Errorf("placement on %d nodes, the cluster has %d", len(at), p.Nodes())
	}
	var w Metrics
	apps := len(p.Batch)
	placed, moved := make([]int, apps), make([]int, apps)
	typeOf := p.TypeOf()
	total, served, containers := 0.0, 0, 0
	for n, counts := range at {
		t := &p.Types[typeOf[n]]
		pattern := t.Table.Index(counts)
		if pattern < 0 {
			return Metrics{}, fmt.Errorf("node %d of type %q gets %v, which is no pattern of %d apps and at most %d containers", n+1, t.Name, counts, apps, t.Table.Capacity())
		}
		size := 0
		for a, k := range counts {
			size += int(k)
			placed[a] += int(k)
			if p.Existing != nil {
				if k < p.Existing[n][a] {
					return Metrics{}, fmt.Errorf("node %d has %d containers of app %s, %d run there already and do not move", n+1, k, t.Table.Apps()[a], p.Existing[n][a])
				}
				moved[a] += int(p.Existing[n][a])
			}
		}
		if size == 0 {
			w.Vacant++
			continue
		}
		w.NodesUsed++
		w.Cost += t.Cost
		containers += size
		total += t.Table.Throughput(pattern)
		served += p.Served(t.Table, pattern)
		magnitude, instances := p.Violation(counts)
		w.Magnitude += magnitude
		w.Instances += instances
	}
	// Every container of the batch must be placed exactly once.
	for a, k := range p.Batch {
		if got := placed[a] - moved[a]; got != k {
			return Metrics{}, fmt.Errorf("%d containers of app %s are placed, the batch has %d", got, p.Types[0].Table.Apps()[a], k)
		}
	}
	w.MeanRPS, w.SLOShare = math.NaN(), math.NaN()
	if containers > 0 {
		w.MeanRPS, w.SLOShare = total/float64(containers), float64(served)/float64(containers)
	}
	return w, nil
}

// Served returns the number of containers of a pattern whose throughput is at least the SLO.
func (p *Problem) Served(t *Table, pattern int) int {
	n, slo := 0, p.Threshold()
	rps := t.RPS(pattern)
	for a, k := range t.Counts(pattern) {
		if k > 0 && rps[a] >= slo {
			n += int(k)
		}
	}
	return n
}

// Violation returns the weighted violation of the constraints by the containers of one node, and the number of violating
// (constraint, container) pairs. A container is not its own neighbour. (Garefalakis et al., Medea, EuroSys 2018, as
// formulated by Metis.)
func (p *Problem) Violation(counts []uint8) (magnitude float64, instances int) {
	for i := range p.Constraints {
		c := &p.Constraints[i]
		k := int(counts[c.App])
		if k == 0 {
			continue
		}
		miss := int(counts[c.Neighbour]) - c.Threshold
		if c.Neighbour == c.App {
			miss--
		}
		if c.AtLeast {
			miss = -miss
		}
		if miss <= 0 {
			continue
		}
		weight := cmp.Or(c.Weight, 1)
		magnitude += weight * float64(k*miss)
		instances += k
	}
	return magnitude, instances
}
