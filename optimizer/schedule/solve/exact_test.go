package solve

import (
	"math/big"
	"slices"
	"strconv"
)

// tableau is a linear program in exact arithmetic, the reference where floating-point methods disagree: maximize
// cost·x subject to rows·x ≤ limit, x ≥ 0.
type tableau struct {
	rows  [][]*big.Rat // columns, slacks, a variable that relaxes all limits, limit
	basis []int
}

// ratOf returns the shortest decimal that represents a float64.
func ratOf(v float64) *big.Rat {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(v, 'g', -1, 64))
	return r
}

func rats(n int) []*big.Rat {
	list := make([]*big.Rat, n)
	for k := range list {
		list[k] = new(big.Rat)
	}
	return list
}

// exactly returns the optimal value, or nil when no point is feasible.
func (r *reference) exactly() *big.Rat {
	m, n := len(r.rows), len(r.cost)
	lift, last := n+m, n+m+1
	t := &tableau{basis: make([]int, m)}
	lowest := -1
	for i, row := range r.rows {
		line := rats(last + 1)
		for k, v := range row {
			line[k] = ratOf(v)
		}
		line[n+i].SetInt64(1)
		line[lift].SetInt64(-1)
		line[last] = r.exact[i]
		if line[last] == nil {
			line[last] = ratOf(r.limit[i])
		}
		if line[last].Sign() < 0 && (lowest < 0 || line[last].Cmp(t.rows[lowest][last]) < 0) {
			lowest = i
		}
		t.rows, t.basis[i] = append(t.rows, line), n+i
	}
	if lowest >= 0 {
		price := rats(last + 1)
		price[lift].SetInt64(-1)
		t.pivot(price, lowest, lift)
		if t.run(price, lift+1); price[last].Sign() != 0 {
			return nil
		}
		for i, b := range t.basis {
			for k := 0; b == lift && k < lift; k++ {
				if t.rows[i][k].Sign() != 0 {
					t.pivot(price, i, k)
					break
				}
			}
		}
	}
	price := rats(last + 1)
	for k, v := range r.cost {
		price[k] = ratOf(v)
	}
	for i, b := range t.basis {
		subtract(price, t.rows[i], b)
	}
	t.run(price, lift)
	return price[last].Neg(price[last])
}

// run performs simplex pivots with Bland's rule on the columns below limit until none improves the objective.
func (t *tableau) run(price []*big.Rat, limit int) {
	last := len(price) - 1
	for {
		enter := 0
		for enter < limit && price[enter].Sign() <= 0 {
			enter++
		}
		if enter == limit {
			return
		}
		leave, least := -1, new(big.Rat)
		for i, row := range t.rows {
			if row[enter].Sign() <= 0 {
				continue
			}
			ratio := new(big.Rat).Quo(row[last], row[enter])
			if c := ratio.Cmp(least); leave < 0 || c < 0 || c == 0 && t.basis[i] < t.basis[leave] {
				leave, least = i, ratio
			}
		}
		if leave < 0 {
			panic("no limit")
		}
		t.pivot(price, leave, enter)
	}
}

func (t *tableau) pivot(price []*big.Rat, row, col int) {
	inverse := new(big.Rat).Inv(t.rows[row][col])
	for _, v := range t.rows[row] {
		v.Mul(v, inverse)
	}
	for i, line := range t.rows {
		if i != row {
			subtract(line, t.rows[row], col)
		}
	}
	subtract(price, t.rows[row], col)
	t.basis[row] = col
}

// subtract eliminates column col of line with a multiple of row.
func subtract(line, row []*big.Rat, col int) {
	if line[col].Sign() == 0 {
		return
	}
	factor, product := new(big.Rat).Set(line[col]), new(big.Rat)
	for k, v := range row {
		if v.Sign() != 0 {
			line[k].Sub(line[k], product.Mul(factor, v))
		}
	}
}

// tolerance returns the relative tolerance of levels.
func tolerance(s Sharing) float64 {
	if len(s.Pairs) > 0 {
		return 1e-5
	}
	return 1e-6
}

// unfair checks shares against the definition of weighted max-min fairness in exact arithmetic: no job can gain
// without taking from a job that is no better off. It returns the job whose level could rise by the largest relative
// amount, and that amount. The other jobs keep their throughput, so that rounding errors of low levels, which a much
// faster job could amplify a thousandfold, do not count.
func unfair(s Sharing, weight, done []float64) (who int, by float64) {
	who = -1
	for i, w := range weight {
		if w == 0 {
			continue
		}
		r := newReference(s)
		copy(r.cost, r.done(s, i))
		floor := make([]float64, len(done))
		for k, v := range done {
			if k == i || weight[k] == 0 {
				continue
			}
			if level := w * done[i]; weight[k]*v > level*(1+tolerance(s)) {
				v = level / weight[k]
			}
			floor[k] = v * (1 - 1e-13)
		}
		r.floors(s, floor)
		most, _ := r.exactly().Float64()
		if more := 1 - done[i]/most; most > 0 && more > by {
			who, by = i, more
		}
	}
	return who, by
}

// levelsExactly is levelsByProgram in exact arithmetic.
func levelsExactly(s Sharing, rates func(full []bool) []float64) []float64 {
	level := make([]*big.Rat, len(s.Rate))
	full := make([]bool, len(s.Rate))
	for i := range level {
		level[i] = new(big.Rat)
	}
	keep := func(r *reference, rate []float64) *reference {
		r.exact = map[int]*big.Rat{}
		for i, v := range level {
			r.exact[len(r.rows)] = new(big.Rat).Neg(v)
			r.atLeast(s, i, 0, rate[i])
		}
		return r
	}
	for rate := rates(full); slices.Max(rate) > 0; rate = rates(full) {
		r := keep(newReference(s), rate)
		r.cost[len(r.cost)-1] = 1
		t := r.exactly()
		for i, v := range rate {
			level[i].Add(level[i], new(big.Rat).Mul(t, ratOf(v)))
		}
		for i, v := range rate {
			if v > 0 {
				r := keep(newReference(s), make([]float64, len(rate)))
				copy(r.cost, r.done(s, i))
				full[i] = r.exactly().Cmp(level[i]) <= 0
			}
		}
	}
	levels := make([]float64, len(level))
	for i, v := range level {
		levels[i], _ = v.Float64()
	}
	return levels
}
