package solve

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"
	"pgregory.net/rapid"
)

// reference is a linear program written out: maximise cost·x, rows·x ≤ limit, x ≥ 0.
type reference struct {
	cost  []float64
	rows  [][]float64
	limit []float64
}

// columnAt is where the share of job i on kind j stands; pairs follow, then t.
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
	return r
}

func (r *reference) row() []float64 { return make([]float64, len(r.cost)) }

func (r *reference) add(row []float64, limit float64) {
	r.rows = append(r.rows, row)
	r.limit = append(r.limit, limit)
}

// done is what job i gets done per second, as a row.
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

// atLeast adds that job i gets floor + level·t done per second.
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

// dense solves by gonum's dense simplex method; for a handful of jobs.
func (r *reference) dense() (float64, error) {
	m, n := len(r.rows), len(r.cost)
	a := mat.NewDense(m, n+m, nil)
	b := make([]float64, m)
	c := make([]float64, n+m)
	for k, v := range r.cost {
		c[k] = -v
	}
	for i, row := range r.rows {
		sign := 1.0
		if r.limit[i] < 0 {
			sign = -1
		}
		for k, v := range row {
			a.Set(i, k, sign*v)
		}
		a.Set(i, n+i, sign)
		b[i] = sign * r.limit[i]
	}
	v, _, err := lp.Simplex(c, a, b, 1e-10, nil)
	return -v, err
}

// solver is what the programs of this package are compared with; a build with HiGHS uses that.
var solver = (*reference).dense

var largest = 5 // jobs in a comparison

func near(a, b, tolerance float64) bool {
	return math.Abs(a-b) <= tolerance*max(1, math.Abs(a), math.Abs(b))
}

// drawSharing draws clusters and jobs of every awkward kind: no devices, no rates, jobs larger than the cluster, equal jobs.
func drawSharing(t *rapid.T) Sharing {
	J := rapid.IntRange(1, 4).Draw(t, "kinds")
	n := rapid.IntRange(0, largest).Draw(t, "jobs")
	s := Sharing{}
	for range J {
		s.Devices = append(s.Devices, rapid.SampledFrom([]float64{0, 1, 1, 2, 3, 8}).Draw(t, "devices"))
	}
	rate := rapid.OneOf(rapid.SampledFrom([]float64{0, 1, 1, 2, 3}), rapid.Float64Range(0.01, 50))
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

func drawList(t *rapid.T, n int, what string, of ...float64) []float64 {
	return rapid.SliceOfN(rapid.SampledFrom(of), n, n).Draw(t, what)
}

// feasible says what is wrong with shares.
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

// doneBy is what every job gets done per second.
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

func worst(weight, done []float64) float64 {
	least := math.Inf(1)
	for i, w := range weight {
		if w > 0 {
			least = min(least, w*done[i])
		}
	}
	return least
}

func TestMaxMinAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSharing(t)
		n := len(s.Rate)
		weight := drawList(t, n, "weight", 0, 1, 1, 1, 2, 0.01)
		floor := drawList(t, n, "floor", 0, 0, 0, 0, 0.1, 0.5, 2)
		method := rapid.SampledFrom([]func(Sharing, []float64, []float64) (Solution, error){MaxMin, Central}).Draw(t, "method")
		sol, err := method(s, weight, floor)
		r := maxMinReference(s, weight, floor)
		r.add(func() []float64 { row := r.row(); row[len(row)-1] = 1; return row }(), 1e6) // without weights t is unbounded
		want, refErr := solver(r)
		if refErr != nil {
			if !errors.Is(err, ErrInfeasible) {
				t.Fatalf("the reference says %v, not %v (value %g)", refErr, err, sol.Value)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := feasible(s, sol); err != nil {
			t.Fatal(err)
		}
		done := doneBy(s, sol)
		for i, f := range floor {
			if done[i] < f*(1-2e-9) {
				t.Fatalf("job %d gets %.17g done, asked %g", i, done[i], f)
			}
		}
		if want == 1e6 {
			want = 0
		} else if got := worst(weight, done); sol.Value > got*(1+1e-12) {
			t.Fatalf("value %.17g, but the shares give %.17g", sol.Value, got)
		}
		if !near(sol.Value, want, 1e-7) || sol.Gap > promisedGap {
			t.Fatalf("value %.12g with gap %g, reference %.12g", sol.Value, sol.Gap, want)
		}
	})
}
