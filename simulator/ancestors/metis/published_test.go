package metis

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"

	"trainopt/optimizer/schedule/place"
)

var large = flag.Bool("large", false, "compare methods that draw at random on all groups, those on 729 nodes included: a minute")

// isPublished compares the metrics of a placement with the published ones.
func isPublished(t *testing.T, p *place.Problem, s *place.Solution, r publishedResult) {
	t.Helper()
	w := worthOf(t, p, s.Placement)
	if math.Abs(w.MeanRPS-r.RPS) > 1.5e-6 || w.Magnitude != r.Magnitude || float64(w.Instances) != r.Instances ||
		math.Abs(w.SLOShare-r.SLO95) > 1e-6 || float64(w.NodesUsed) != r.NodesUsed {
		t.Errorf("got %+v, want %+v", w, r)
	}
}

func TestRoundRobinAsPublished(t *testing.T) {
	for _, r := range publishedResults(t, "rr") {
		p := metisProblem(t, r.Size, r.Nodes, r.Group)
		s, err := baselines["round-robin"](p, nil)
		if err != nil {
			t.Fatal(err)
		}
		isPublished(t, p, s, r)
	}
}

// mersenne generates the random choices of the published code: NumPy's Mersenne Twister (Matsumoto and Nishimura
// 1998) and its choice of one of n.
type mersenne struct {
	state [624]uint32
	at    int
}

func newMersenne(seed uint32) *mersenne {
	m := &mersenne{at: 624}
	for i := range m.state {
		m.state[i] = seed
		seed = 1812433253*(seed^seed>>30) + uint32(i) + 1
	}
	return m
}

func (m *mersenne) next() uint32 {
	if m.at == len(m.state) {
		for i := range m.state {
			y := m.state[i]&0x80000000 | m.state[(i+1)%624]&0x7fffffff
			m.state[i] = m.state[(i+397)%624] ^ y>>1 ^ (y&1)*0x9908b0df
		}
		m.at = 0
	}
	y := m.state[m.at]
	m.at++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

func (m *mersenne) below(n int) int {
	mask := uint32(n - 1)
	for s := 1; s < 32; s *= 2 {
		mask |= mask >> s
	}
	for {
		if x := m.next() & mask; x < uint32(n) {
			return int(x)
		}
	}
}

func TestMersenneDrawsAsNumpy(t *testing.T) {
	m := newMersenne(5489) // seed of the reference implementation
	if got := m.next(); got != 3499211612 {
		t.Errorf("first number %d, want 3499211612", got)
	}
}

// With the random numbers of the published code, seeded with the batch number, the placements are those published.
func TestParagonAsPublished(t *testing.T) {
	for _, r := range publishedResults(t, "paragon") {
		p := metisProblem(t, r.Size, r.Nodes, r.Group)
		c, err := newCluster(p, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.pick = newMersenne(uint32(r.Group)).below
		s, err := paragonRule{Published: true}.fill(p, c)
		if err != nil {
			t.Fatal(err)
		}
		isPublished(t, p, s, r)
	}
}

// Results drawn with other random numbers lie within the range of ours over seeds.
func TestRandomMethodsAsPublished(t *testing.T) {
	for published, method := range map[string]string{"random": "random", "spread": "balanced", "paragon": "paragon-published"} {
		t.Run(published, func(t *testing.T) {
			for _, r := range publishedResults(t, published) {
				if (r.Size > 400 || r.Group > 1) && !*large {
					continue
				}
				const seeds = 20
				p := metisProblem(t, r.Size, r.Nodes, r.Group)
				sum, squares := 0.0, 0.0
				for seed := range uint64(seeds) {
					s, err := baselines[method](p, rand.New(rand.NewPCG(seed, 1)))
					if err != nil {
						t.Fatal(err)
					}
					x := worthOf(t, p, s.Placement).MeanRPS
					sum, squares = sum+x/seeds, squares+x*x/seeds
				}
				deviation := math.Sqrt(squares - sum*sum)
				if math.Abs(r.RPS-sum) > 4*deviation {
					t.Errorf("%d containers, group %d: published %v, ours %.4f ± %.4f", r.Size, r.Group, r.RPS, sum, deviation)
				}
			}
		})
	}
}
