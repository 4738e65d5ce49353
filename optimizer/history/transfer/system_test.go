package transfer

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"trainopt/optimizer/history"
)

// scaled returns runs of several trainings on one to eight GPUs, of which odd selects those that took three times as
// long.
func scaled(trainings int, odd func(k int) bool) []history.Entry {
	var out []history.Entry
	for k := range trainings * 12 {
		e := history.NewEntry(history.Run, fmt.Sprintf("run-%04d", k))
		e.Job.Model, e.Job.Dataset, e.Job.Family, e.Job.Params = fmt.Sprint("net", k/12), "data", "family", 1e6*float64(1+k/12)
		n := math.Exp2(float64(k % 4))
		e.Observed.GPU, e.Observed.GPUs, e.Observed.Nodes, e.Observed.Batch = "T4", n, 1, n*math.Exp2(float64(4+k/4%3))
		e.Throughput = 100 * math.Pow(n, 0.9) * math.Pow(e.Observed.Batch/n/16, 0.3)
		if odd(k) {
			e.Throughput /= 3
		}
		out = append(out, e)
	}
	return out
}

// TestAnswersShareWhatIsSolved requires that estimates on the same points share one factorisation, so that forty
// configurations do not cost forty times one.
func TestAnswersShareWhatIsSolved(t *testing.T) {
	m := New(scaled(3, func(int) bool { return false }), Options{})
	for n := range 40 {
		q := Query{Config: history.Config{GPU: "A100 40GB", GPUs: float64(n + 1), Nodes: 1, Batch: 64}}
		q.Job.Model, q.Job.Dataset = "net1", "data"
		if _, err := m.Predict(q, Throughput); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(m.tables[Throughput].far.systems.order); n != 1 {
		t.Errorf("%d systems were solved for 40 answers on the same points, want 1", n)
	}
	for _, what := range []Quantity{UnitRate, Trainings, HostMemory, GPUMemory} {
		if m.tables[what].variance != nil {
			t.Errorf("%s was learned, and nobody asked for it", what)
		}
	}
}

// TestAnswersDoNotDependOnOthers requires bit-identical estimates whatever was asked before or concurrently, also
// after a cached system was evicted and solved again.
func TestAnswersDoNotDependOnOthers(t *testing.T) {
	entries := scaled(40, func(k int) bool { return k%29 == 5 }) // more points than one estimate uses
	ask := func(m *Model, k int) Estimate {
		q := Query{Config: history.Config{GPU: "T4", GPUs: math.Exp2(float64(k % 5)), Nodes: 1, Batch: math.Exp2(float64(5 + k%4))}}
		q.Job.Model, q.Job.Family, q.Job.Dataset, q.Job.Params = fmt.Sprint("net", k), "family", "data", 1e6*float64(1+k)
		e, err := m.Predict(q, Throughput)
		if err != nil {
			t.Error(err)
		}
		return e
	}
	const questions = mostSystems + 16
	m := New(entries, Options{})
	var all [questions]Estimate
	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			for k := worker; k < questions; k += 4 {
				all[k] = ask(m, k)
			}
		})
	}
	wait.Wait()
	if n := max(len(m.tables[Throughput].systems.order), len(m.tables[Throughput].far.systems.order)); n > mostSystems {
		t.Errorf("%d systems are kept, want at most %d", n, mostSystems)
	}
	for _, k := range []int{0, 7, questions - 1} {
		if got := ask(New(entries, Options{}), k); got.Value != all[k].Value {
			t.Errorf("question %d: %+v alone, %+v among others", k, got.Value, all[k].Value)
		}
		if got := ask(m, k); got.Value != all[k].Value {
			t.Errorf("question %d again: %+v, was %+v", k, got.Value, all[k].Value)
		}
	}
}

// TestOddPointsAreSolvedAsIfTheyWereFactorized requires that the inverse updated with additional variances of odd
// points equals the inverse of the full matrix.
func TestOddPointsAreSolvedAsIfTheyWereFactorized(t *testing.T) {
	m := New(scaled(3, func(k int) bool { return k == 5 || k == 18 }), Options{})
	table := m.tables[Throughput]
	table.learned.Do(table.learn)
	var points []*point
	for i := range table.points {
		points = append(points, &table.points[i])
	}
	s := table.prepare(points)
	n := len(points)
	k := mat.NewSymDense(n, append([]float64(nil), s.prior...))
	s = table.systemOf(points)
	if len(s.odd) != 2 {
		t.Fatalf("%d odd points, want 2", len(s.odd))
	}
	for _, o := range s.odd {
		k.SetSym(o.at, o.at, k.At(o.at, o.at)+o.extra)
	}
	var c mat.Cholesky
	if !c.Factorize(k) {
		t.Fatal("not positive definite")
	}
	var want mat.VecDense
	if err := c.SolveVecTo(&want, mat.NewVecDense(n, s.residual)); err != nil {
		t.Fatal(err)
	}
	for i, got := range s.solve(s.residual) {
		if math.Abs(got-want.AtVec(i)) > 1e-7*(1+math.Abs(want.AtVec(i))) {
			t.Errorf("point %d: %g, want %g", i, got, want.AtVec(i))
		}
	}
}

// TestInvert requires that the product with the matrix is the identity, and an error for matrices that are not
// positive definite.
func TestInvert(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(rt, "n")
		b := rapid.SliceOfN(rapid.Float64Range(-1, 1), n*n, n*n).Draw(rt, "b")
		a, inverse := make([]float64, n*n), make([]float64, n*n)
		for i := range n {
			for l := range n {
				for k := range n {
					a[i*n+l] += b[i*n+k] * b[l*n+k]
				}
			}
			a[i*n+i]++
		}
		copy(inverse, a)
		if !invert(inverse, n) {
			rt.Fatal("refused")
		}
		for i := range n {
			for l := range n {
				sum := 0.0
				for k := range n {
					sum += a[i*n+k] * inverse[max(k, l)*n+min(k, l)]
				}
				if want := map[bool]float64{true: 1}[i == l]; math.Abs(sum-want) > 1e-9 {
					rt.Fatalf("%d, %d: %g", i, l, sum)
				}
			}
		}
	})
	if invert([]float64{1, 0, 2, 1}, 2) {
		t.Error("an indefinite matrix was inverted")
	}
}
