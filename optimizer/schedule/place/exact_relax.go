package place

import (
	"context"
	"fmt"
	"math"
)

const (
	mostPivots = 200_000
	pool       = 64 // number of columns added per pricing pass
)

// relaxation solves the linear relaxation of a program by the primal simplex method with column generation.
type relaxation struct {
	g      *program
	cols   *columns
	basis  *basis
	known  map[[2]int32]bool
	phase  []float64 // phase 1 costs, which count unplaced containers
	rates  []float64
	prices []float64 // prices of the lowest bound
	bound  float64
	pivots int
	looks  int
}

// newRelaxation returns the starting basis: the nodes of each group keep their existing containers, and artificial
// columns cover unplaced containers and violated limits.
func newRelaxation(g *program) *relaxation {
	k := g.rows()
	r := &relaxation{g: g, cols: &columns{rows: k}, known: map[[2]int32]bool{}, rates: make([]float64, k), bound: math.Inf(1), prices: make([]float64, k)}
	count := make([]float64, len(g.groups))
	for n := range g.groups {
		count[n] = float64(len(g.groups[n].nodes))
	}
	r.basis = newBasis(r.cols, g.rhs, count)
	rest := make([]float64, k)
	copy(rest, g.rhs)
	for n := range g.groups {
		j := r.add(n, g.groups[n].floor)
		r.basis.key[n] = j
		for i, v := range r.cols.column(j) {
			rest[i] -= count[n] * v
		}
	}
	// Slacks of limits, and artificial columns for rows that the starting basis violates.
	for i := range k {
		if i >= g.apps {
			r.cols.add(free, 0, 0)[i] = 1
			r.basis.work[i] = int32(r.cols.len() - 1)
			r.phase = append(r.phase, 0)
		}
		if i < g.apps || rest[i] < 0 {
			sign := 1.0
			if rest[i] < 0 {
				sign = -1
			}
			r.cols.add(free, missing, 0)[i] = sign
			r.basis.work[i] = int32(r.cols.len() - 1)
			r.phase = append(r.phase, -1)
		}
	}
	return r
}

const missing = -1 // pattern of artificial columns

// add adds the column of a pattern.
func (r *relaxation) add(group, pattern int) int32 {
	k := &r.g.kinds[r.g.groups[group].kind]
	r.g.column(r.g.groups[group].kind, pattern, r.cols.add(group, pattern, k.value[pattern]))
	r.phase = append(r.phase, 0)
	r.known[[2]int32{int32(group), int32(pattern)}] = true
	return int32(r.cols.len() - 1)
}

// run solves the relaxation in two phases. The error wraps place.ErrInfeasible, or is the context's or that of the
// pivot limit.
func (r *relaxation) run(ctx context.Context) error {
	if err := r.optimise(ctx, r.phase, 0); err != nil {
		return err
	}
	short := 0.0
	for i, j := range r.basis.work {
		if r.cols.pattern[j] == missing {
			short += r.basis.xw[i]
		}
	}
	if short > 1e-6 {
		return fmt.Errorf("%w: even with containers split among nodes, %.3g are left over or beyond a limit", ErrInfeasible, short)
	}
	for j, p := range r.cols.pattern {
		if p == missing {
			r.cols.hi[j] = 0
		}
	}
	return r.optimise(ctx, r.cols.cost, 1)
}

// optimise pivots until no pattern has a positive reduced profit. weight 0 selects phase 1.
func (r *relaxation) optimise(ctx context.Context, cost []float64, weight float64) error {
	for {
		for r.step(cost) {
			if r.pivots++; r.pivots > mostPivots {
				return fmt.Errorf("placement: the simplex method has not ended after %d steps", mostPivots)
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if weight == 0 && r.basis.value(r.phase) > -tiny || !r.pricePatterns(weight) {
			return nil
		}
		cost = r.cols.cost
		if weight == 0 {
			cost = r.phase
		}
	}
}

// step performs one pivot on the column with the largest reduced profit. It returns false if none is positive.
func (r *relaxation) step(cost []float64) bool {
	b := r.basis
	if !b.factor() {
		return false
	}
	b.solve(nil)
	b.prices(cost)
	enters, most := int32(-1), tiny
	for j := range int32(r.cols.len()) {
		if r.cols.hi[j] == 0 {
			continue
		}
		if d := b.reducedProfit(j, cost); d > most {
			enters, most = j, d
		}
	}
	if enters < 0 {
		return false
	}
	b.rate(enters, r.rates)
	return r.leave(enters)
}

// leave performs the ratio test and replaces the leaving column. It returns false if no column can leave.
func (r *relaxation) leave(enters int32) bool {
	b := r.basis
	least, steep := math.Inf(1), 0.0
	at, ofKey := -1, false
	try := func(x, rate float64, i int, key bool) {
		if rate <= pivot {
			return
		}
		ratio := max(x, 0) / rate
		if ratio < least-1e-12 || ratio <= least+1e-12 && rate > steep {
			least, steep, at, ofKey = ratio, rate, i, key
		}
	}
	// Working columns, then the keys whose groups the entering column affects.
	for i, j := range b.work {
		rate := r.rates[i]
		if r.cols.hi[j] == 0 { // fixed at 0 in either direction
			rate = math.Abs(rate)
		}
		try(b.xw[i], rate, i, false)
	}
	group := r.cols.group[enters]
	if group >= 0 {
		try(b.xk[group], b.keyRate(group, group, r.rates), int(group), true)
	}
	for _, j := range b.work {
		if g := r.cols.group[j]; g >= 0 && g != group {
			try(b.xk[g], b.keyRate(g, group, r.rates), int(g), true)
		}
	}
	switch {
	case at < 0:
		return false
	case ofKey:
		b.replaceKey(int32(at), enters)
	default:
		b.work[at] = enters
	}
	return true
}

// pricePatterns prices all patterns, updates the bound and adds the columns with the largest reduced profits. It returns false
// if there are none or the bound is met.
func (r *relaxation) pricePatterns(weight float64) bool {
	g, b := r.g, r.basis
	r.looks++
	// Prices of limits are clipped to be nonnegative, which the Lagrangian bound requires.
	if weight != 0 {
		prices := append([]float64(nil), b.price...)
		for i := g.apps; i < len(prices); i++ {
			prices[i] = max(prices[i], 0)
		}
		g.price(prices, weight)
		if bound := g.bound(prices); bound < r.bound {
			r.bound, r.prices = bound, prices
		}
		if r.bound-b.value(r.cols.cost) <= tiny*max(1, math.Abs(r.bound)) {
			return false
		}
	} else {
		g.price(b.price, weight)
	}
	// Add the best pattern of every group, and further ones with at least half of its reduced profit.
	each, found := max(1, pool/len(g.groups)), false
	for n := range g.groups {
		worth := g.best(n)
		if worth-b.groupPrice[n] <= tiny {
			continue
		}
		level, left := b.groupPrice[n]+0.5*(worth-b.groupPrice[n]), each
		g.groups[n].each(g, func(j int) {
			if left > 0 && (g.kinds[g.groups[n].kind].sums[j] >= worth || left > 1 && g.kinds[g.groups[n].kind].sums[j] > level) && !r.known[[2]int32{int32(n), int32(j)}] {
				r.add(n, j)
				found = true
				left--
			}
		})
	}
	return found
}
