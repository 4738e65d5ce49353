package conformance

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"trainopt/internal/stat"
)

// pair is one bare and one wrapped run of the same training, in seconds.
type pair struct {
	bare, wrapped float64
	moves         int    // changes of allocation
	plan          string // final allocation
}

// series holds the pairs of one training.
type series struct {
	name  string
	pairs []pair
}

// ratio returns the geometric mean of wrapped/bare over the pairs with a 95 % bootstrap interval over pairs.
func (s series) ratio() (mean, lo, hi float64) { return geometric(s.logs()) }

func (s series) logs() []float64 {
	out := make([]float64, len(s.pairs))
	for i, p := range s.pairs {
		out[i] = math.Log(p.wrapped / p.bare)
	}
	return out
}

func (s series) median(of func(pair) float64) float64 {
	v := make([]float64, len(s.pairs))
	for i, p := range s.pairs {
		v[i] = of(p)
	}
	return stat.Median(v)
}

// overall returns the geometric mean over trainings of their geometric means; each resample draws pairs within each
// training.
func overall(all []series) (mean, lo, hi float64) {
	groups := make([][]float64, len(all))
	for i, s := range all {
		groups[i] = s.logs()
	}
	return geometric(groups...)
}

// geometric returns the exponential of the mean of the group means, with a 95 % percentile bootstrap interval of 4000
// resamples.
func geometric(groups ...[]float64) (mean, lo, hi float64) {
	random := rand.New(rand.NewPCG(1, 2))
	total := 0.0
	for _, g := range groups {
		for _, v := range g {
			total += v / float64(len(g)*len(groups))
		}
	}
	means := make([]float64, 4000)
	for i := range means {
		for _, g := range groups {
			for range g {
				means[i] += g[random.IntN(len(g))] / float64(len(g)*len(groups))
			}
		}
	}
	slices.Sort(means)
	return math.Exp(total), math.Exp(means[len(means)/40]), math.Exp(means[len(means)-1-len(means)/40])
}

// pairsTable formats the benchmark results as a Markdown table.
func pairsTable(all []series) string {
	var b strings.Builder
	b.WriteString("| training | pairs | bare, median | wrapped, median | wrapped / bare | 95 % interval | changes of allocation |\n|---|---|---|---|---|---|---|\n")
	for _, s := range all {
		mean, lo, hi := s.ratio()
		moved, plans := 0, map[string]bool{}
		for _, p := range s.pairs {
			if p.moves > 0 {
				moved++
				plans[cmp.Or(p.plan, "other CPUs and back")] = true
			}
		}
		changes := "none"
		if moved > 0 {
			changes = fmt.Sprintf("%d of %d runs, to %s", moved, len(s.pairs), strings.Join(sortedKeys(plans), " or "))
		}
		fmt.Fprintf(&b, "| %s | %d | %.1f s | %.1f s | %.3f | %.3f–%.3f | %s |\n", s.name, len(s.pairs),
			s.median(func(p pair) float64 { return p.bare }), s.median(func(p pair) float64 { return p.wrapped }), mean, lo, hi, changes)
	}
	if len(all) > 1 {
		mean, lo, hi := overall(all)
		fmt.Fprintf(&b, "| **geometric mean** | | | | **%.3f** | %.3f–%.3f | |\n", mean, lo, hi)
	}
	return b.String()
}

func sortedKeys(m map[string]bool) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
