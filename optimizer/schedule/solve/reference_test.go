package solve

import (
	"fmt"
	"math"
	"math/big"

	"pgregory.net/rapid"
)

// reference is a linear program in explicit form: maximize cost·x subject to rows·x ≤ limit, x ≥ 0.
type reference struct {
	cost  []float64
	rows  [][]float64
	limit []float64
	exact map[int]*big.Rat // limits of rows that are not representable as float64
}

// newReference builds the program of a sharing without an objective. The columns are the shares of the jobs by kind,
// then those of the pairs, then t.
func newReference(s Sharing) *reference {
	J, n := len(s.Devices), len(s.Rate)
	r := &reference{cost: make([]float64, (n+len(s.Pairs))*J+1)}
	for j, d := range s.Devices {
		row := r.row()
		for i := range s.Rate {
			row[i*J+j] = s.Scale[i]
		}
		for q, p := range s.Pairs {
			row[(n+q)*J+j] = s.Scale[p.A]
		}
		r.add(row, d)
	}
	for i := range s.Rate {
		row := r.row()
		for j := range J {
			row[i*J+j] = 1
			for q, p := range s.Pairs {
				if p.A == i || p.B == i {
					row[(n+q)*J+j] = 1
				}
			}
		}
		r.add(row, 1)
	}
	row := r.row()
	row[len(row)-1] = 1
	r.add(row, unbounded)
	return r
}

func (r *reference) row() []float64 { return make([]float64, len(r.cost)) }

func (r *reference) add(row []float64, limit float64) {
	r.rows = append(r.rows, row)
	r.limit = append(r.limit, limit)
}

// done returns the throughput of job i as a row.
func (r *reference) done(s Sharing, i int) []float64 {
	row := r.row()
	J, n := len(s.Devices), len(s.Rate)
	for j := range J {
		row[i*J+j] = s.Rate[i][j]
		for q, p := range s.Pairs {
			if p.A == i {
				row[(n+q)*J+j] = p.RateA[j]
			}
			if p.B == i {
				row[(n+q)*J+j] = p.RateB[j]
			}
		}
	}
	return row
}

// atLeast adds the constraint that the throughput of job i is at least floor + level·t.
func (r *reference) atLeast(s Sharing, i int, floor, level float64) {
	row := r.done(s, i)
	for k := range row {
		row[k] = -row[k]
	}
	row[len(row)-1] = level
	r.add(row, -floor)
}

func maxMinReference(s Sharing, weight, floor []float64) *reference {
	r := newReference(s)
	r.cost[len(r.cost)-1] = 1
	for i := range s.Rate {
		if weight[i] > 0 {
			r.atLeast(s, i, 0, 1/weight[i])
		}
	}
	r.floors(s, floor)
	return r
}

func (r *reference) floors(s Sharing, floor []float64) {
	for i, f := range floor {
		if f > 0 {
			r.atLeast(s, i, f, 0)
		}
	}
}

// dense solves small programs by the simplex method on a full tableau. Bland's rule guarantees termination.
func (r *reference) dense() (float64, error) {
	m, n := len(r.rows), len(r.cost)
	width := n + 2*m + 1 // columns, slacks, artificials, limits
	table := make([][]float64, m)
	basis := make([]int, m)
	first := make([]float64, width) // phase 1: negated sum of the artificials
	for i, row := range r.rows {
		table[i] = make([]float64, width)
		copy(table[i], row)
		table[i][n+i], table[i][width-1] = 1, r.limit[i]
		basis[i] = n + i
		if r.limit[i] < 0 {
			for k := range table[i] {
				table[i][k] = -table[i][k]
			}
			table[i][n+m+i] = 1
			basis[i] = n + m + i
			first[n+m+i] = -1
		}
	}
	if v := bland(table, basis, first, width-1); v < -1e-7 {
		return 0, fmt.Errorf("no feasible point: %g missing", -v)
	}
	for i, b := range basis { // artificials at 0 must not enter the basis again
		for k := 0; b >= n+m && k < n+m; k++ {
			if math.Abs(table[i][k]) > 1e-9 {
				pivot(table, i, k)
				basis[i], b = k, k
			}
		}
	}
	return bland(table, basis, append(append([]float64{}, r.cost...), make([]float64, width-n)...), n+m), nil
}

// bland maximizes cost over the tableau; only columns below limit may enter.
func bland(table [][]float64, basis []int, cost []float64, limit int) float64 {
	last := len(cost) - 1
	for {
		enter := -1
		for k := 0; k < limit && enter < 0; k++ {
			gain := cost[k]
			for i, b := range basis {
				gain -= cost[b] * table[i][k]
			}
			if gain > 1e-9 {
				enter = k
			}
		}
		leave := -1
		for i := range table {
			if enter >= 0 && table[i][enter] > 1e-9 {
				if leave < 0 {
					leave = i
					continue
				}
				a, b := table[i][last]*table[leave][enter], table[leave][last]*table[i][enter]
				if a < b || a == b && basis[i] < basis[leave] {
					leave = i
				}
			}
		}
		if leave < 0 {
			value := 0.0
			for i, b := range basis {
				value += cost[b] * table[i][last]
			}
			return value
		}
		pivot(table, leave, enter)
		basis[leave] = enter
	}
}

func pivot(table [][]float64, row, col int) {
	inverse := 1 / table[row][col]
	for k := range table[row] {
		table[row][k] *= inverse
	}
	for i := range table {
		if f := table[i][col]; i != row && f != 0 {
			for k, v := range table[row] {
				table[i][k] -= f * v
			}
		}
	}
}

// solver is the reference solver. Builds with the tag highs replace it by HiGHS.
var solver = (*reference).dense

// solverSlack is the relative distance below the reference optimum at which a floor still counts as feasible.
var solverSlack = 1e-11

// unbounded is an upper bound on t for programs in which no job has a weight.
const unbounded = 1e6

var largest = 5 // maximum number of jobs in comparisons with the reference

func near(a, b, tolerance float64) bool {
	return math.Abs(a-b) <= tolerance*max(1, math.Abs(a), math.Abs(b))
}

// drawSharing draws clusters and jobs including degenerate ones: no devices, no rates, jobs larger than the cluster,
// equal jobs.
func drawSharing(t *rapid.T) Sharing {
	J := rapid.IntRange(1, 4).Draw(t, "kinds")
	n := rapid.IntRange(0, largest).Draw(t, "jobs")
	s := Sharing{}
	for range J {
		s.Devices = append(s.Devices, rapid.SampledFrom([]float64{0, 1, 1, 2, 3, 8}).Draw(t, "devices"))
	}
	rate := rapid.OneOf(rapid.SampledFrom([]float64{0, 1, 1, 2, 3}), rapid.Map(rapid.Float64Range(0.1, 20), func(v float64) float64 { return math.Round(v*1000) / 1000 }))
	for i := range n {
		if i > 0 && rapid.IntRange(0, 3).Draw(t, "equal") == 0 {
			s.Rate, s.Scale = append(s.Rate, s.Rate[i-1]), append(s.Scale, s.Scale[i-1])
			continue
		}
		s.Rate = append(s.Rate, rapid.SliceOfN(rate, J, J).Draw(t, "rate"))
		s.Scale = append(s.Scale, rapid.SampledFrom([]float64{1, 1, 2, 4}).Draw(t, "scale"))
	}
	return s
}

// drawFloors draws floors that are often infeasible. Without pairs they may leave no slack.
func drawFloors(t *rapid.T, s Sharing) []float64 {
	if len(s.Pairs) > 0 {
		return drawList(t, len(s.Rate), "floor", 0, 0, 0, 0, 0.0971, 0.5133, 1.937)
	}
	return drawList(t, len(s.Rate), "floor", 0, 0, 0, 0, 0.1, 0.5, 2)
}

func drawList(t *rapid.T, n int, what string, of ...float64) []float64 {
	return rapid.SliceOfN(rapid.SampledFrom(of), n, n).Draw(t, what)
}

// feasible returns an error that describes a violated constraint, or nil.
func feasible(s Sharing, sol Solution) error {
	used := make([]float64, len(s.Devices))
	time := make([]float64, len(s.Rate))
	if len(sol.X) != len(s.Rate) {
		return fmt.Errorf("%d rows of shares for %d jobs", len(sol.X), len(s.Rate))
	}
	for i, row := range sol.X {
		for j, x := range row {
			if !(x >= 0) {
				return fmt.Errorf("share %g of job %d on kind %d", x, i, j)
			}
			used[j] += s.Scale[i] * x
			time[i] += x
		}
	}
	for q, row := range sol.Pairs {
		for j, x := range row {
			if !(x >= 0) {
				return fmt.Errorf("share %g of pair %d on kind %d", x, q, j)
			}
			used[j] += s.Scale[s.Pairs[q].A] * x
			time[s.Pairs[q].A] += x
			time[s.Pairs[q].B] += x
		}
	}
	for i, v := range time {
		if v > 1+1e-12 {
			return fmt.Errorf("job %d has %.17g of its time", i, v)
		}
	}
	for j, v := range used {
		if v > s.Devices[j]*(1+1e-12) {
			return fmt.Errorf("%.17g of %g devices of kind %d", v, s.Devices[j], j)
		}
	}
	return nil
}

// doneBy returns the throughput of every job.
func doneBy(s Sharing, sol Solution) []float64 {
	done := make([]float64, len(s.Rate))
	for i, row := range sol.X {
		for j, x := range row {
			done[i] += x * s.Rate[i][j]
		}
	}
	for q, row := range sol.Pairs {
		for j, x := range row {
			done[s.Pairs[q].A] += x * s.Pairs[q].RateA[j]
			done[s.Pairs[q].B] += x * s.Pairs[q].RateB[j]
		}
	}
	return done
}

// toleranceOf returns the relative tolerance of optimal values, which is larger with pairs because floors may be
// missed by more.
func toleranceOf(s Sharing) float64 {
	if len(s.Pairs) > 0 {
		return 2e-5
	}
	return promisedGap
}

// slackOf returns the tolerance on floors.
func slackOf(s Sharing) float64 {
	if len(s.Pairs) > 0 {
		return slackPairsGap
	}
	return slackGap
}

func worst(weight, done []float64) float64 {
	least := math.Inf(1)
	for i, w := range weight {
		if w > 0 {
			least = min(least, w*done[i])
		}
	}
	return least
}

// drawPairs adds pairs: either of classes of jobs with equal rates, or a few with arbitrary rates.
func drawPairs(t *rapid.T, s *Sharing) {
	n, J := len(s.Rate), len(s.Devices)
	rates := func() []float64 {
		return rapid.SliceOfN(rapid.SampledFrom([]float64{0, 0.4, 0.7, 1, 2}), J, J).Draw(t, "pair")
	}
	known := map[[2]int][2][]float64{}
	byClass := rapid.Bool().Draw(t, "by class")
	class := make([]int, n)
	for i := range class {
		for class[i] < i && !(equal(s.Rate[class[i]], s.Rate[i]) && s.Scale[class[i]] == s.Scale[i]) {
			class[i]++
		}
	}
	for b := range n {
		for a := range b {
			if s.Scale[a] != s.Scale[b] || !byClass && rapid.Bool().Draw(t, "apart") {
				continue
			}
			ra, rb := rates(), rates()
			if byClass {
				x, y := min(class[a], class[b]), max(class[a], class[b])
				two, seen := known[[2]int{x, y}]
				if !seen {
					if x == y {
						rb = ra
					}
					two = [2][]float64{ra, rb}
					known[[2]int{x, y}] = two
				}
				ra, rb = two[0], two[1]
				if class[a] != x {
					ra, rb = rb, ra
				}
			}
			s.Pairs = append(s.Pairs, Pair{A: a, B: b, RateA: ra, RateB: rb})
		}
	}
}
