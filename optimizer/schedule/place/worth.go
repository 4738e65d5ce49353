package place

import (
	"fmt"
	"math"
)

// Worth is what a placement is worth.
type Worth struct {
	MeanRPS  float64 // throughput a container, relative to one alone; the mean over all containers, NaN when there are none
	SLOShare float64 // of containers whose throughput is at least the SLO, NaN when there are none
	// Magnitude is the weighted sum over constraints and containers of by how much a constraint is missed (Medea's objective);
	// Instances is the number of (constraint, container) that miss one.
	Magnitude float64
	Instances int
	NodesUsed int
	Cost      float64
	Vacant    int // nodes left empty
}

// Evaluate computes what a placement is worth; the error says what is wrong with it: a node that is too full, containers that
// are missing or too many, existing ones that moved. O(nodes × (apps + constraints)).
func (p *Problem) Evaluate(at Placement) (Worth, error) {
	if err := p.Validate(); err != nil {
		return Worth{}, err
	}
	if len(at) != p.Nodes() {
		return Worth{}, fmt.Errorf("placement on %d nodes, the cluster has %d", len(at), p.Nodes())
	}
	var w Worth
	apps := len(p.Batch)
	placed, moved := make([]int, apps), make([]int, apps)
	typeOf := p.TypeOf()
	total, served, containers := 0.0, 0, 0
	for n, counts := range at {
		t := &p.Types[typeOf[n]]
		pattern := t.Table.Index(counts)
		if pattern < 0 {
			return Worth{}, fmt.Errorf("node %d of type %q gets %v, which is no pattern of %d apps and at most %d containers", n+1, t.Name, counts, apps, t.Table.Capacity())
		}
		size := 0
		for a, k := range counts {
			size += int(k)
			placed[a] += int(k)
			if p.Existing != nil {
				if k < p.Existing[n][a] {
					return Worth{}, fmt.Errorf("node %d has %d containers of app %s, %d run there already and do not move", n+1, k, t.Table.Apps()[a], p.Existing[n][a])
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
		magnitude, instances := p.Missed(counts)
		w.Magnitude += magnitude
		w.Instances += instances
	}
	for a, k := range p.Batch {
		if got := placed[a] - moved[a]; got != k {
			return Worth{}, fmt.Errorf("%d containers of app %s are placed, the batch has %d", got, p.Types[0].Table.Apps()[a], k)
		}
	}
	w.MeanRPS, w.SLOShare = math.NaN(), math.NaN()
	if containers > 0 {
		w.MeanRPS, w.SLOShare = total/float64(containers), float64(served)/float64(containers)
	}
	return w, nil
}

// Served is how many containers of a pattern have at least the SLO's throughput.
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

// Missed is by how much the containers of one node miss the constraints, weighted, and how many (constraint, container) do. A
// container does not count as its own neighbour. (Garefalakis et al., Medea, EuroSys 2018, as Metis wrote it down.)
func (p *Problem) Missed(counts []uint8) (magnitude float64, instances int) {
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
		weight := c.Weight
		if weight == 0 {
			weight = 1
		}
		magnitude += weight * float64(k*miss)
		instances += k
	}
	return magnitude, instances
}
