package metis

import (
	"math"

	"trainopt/optimizer/schedule/place"
)

// pricing computes prices from a table.
type pricing struct {
	table  *place.Table
	values []float64 // by pattern
	weight []float64 // scratch
}

func newPricing(table *place.Table) *pricing {
	p := &pricing{table: table, values: make([]float64, table.Patterns()), weight: make([]float64, table.Patterns())}
	for i := range p.values {
		p.values[i] = table.Throughput(i)
	}
	return p
}

// solve returns the prices of the apps at which nodes hold perNode containers of each app in the mean, if each node
// draws its pattern with probability proportional to exp((value − prices) / softness). This is the dual of package
// exact's linear program, smoothed by the entropy of the patterns. It is solved by Newton's method with line search,
// for softness decreasing from at least 1. O(steps × patterns × apps²).
func (p *pricing) solve(perNode []float64, softness float64) []float64 {
	n := len(perNode)
	prices := make([]float64, n)
	mean, hess := make([]float64, n), make([]float64, n*n)
	for tau := max(1, softness); ; tau = max(tau/2, softness) {
		for range 12 {
			value := p.moments(prices, perNode, tau, mean, hess)
			gap := 0.0
			for a := range mean {
				mean[a] -= perNode[a]
				gap = max(gap, math.Abs(mean[a]))
				hess[a*n+a] += 1e-6
			}
			if gap < 1e-3 || tau > softness && gap < 1e-2 {
				break
			}
			step := solveSymmetric(hess, mean, n)
			// The gradient of the dual is perNode − mean, and its second derivative the covariance C / tau, so a
			// Newton step raises prices by tau·C⁻¹·(mean − perNode).
			scale := 1.0
			slope := 0.0
			for a := range step {
				slope -= tau * step[a] * mean[a]
			}
			trial := make([]float64, n)
			for range 20 {
				for a := range trial {
					trial[a] = prices[a] + scale*tau*step[a]
				}
				if p.dual(trial, perNode, tau) <= value+1e-4*scale*slope {
					break
				}
				scale /= 2
			}
			copy(prices, trial)
		}
		if tau <= softness {
			return prices
		}
	}
}

// dual returns the smoothed dual objective per node.
func (p *pricing) dual(prices, perNode []float64, tau float64) float64 {
	most := math.Inf(-1)
	for i, v := range p.values {
		for a, k := range p.table.Counts(i) {
			v -= prices[a] * float64(k)
		}
		p.weight[i] = v
		most = max(most, v)
	}
	sum := 0.0
	for _, w := range p.weight {
		if d := (w - most) / tau; d > -30 {
			sum += math.Exp(d)
		}
	}
	d := most + tau*math.Log(sum)
	for a, b := range perNode {
		d += prices[a] * b
	}
	return d
}

// moments computes the mean and covariance of the counts under prices, and returns the dual objective. Patterns whose
// probability is below e⁻²⁵ of the largest are skipped.
func (p *pricing) moments(prices, perNode []float64, tau float64, mean, cov []float64) float64 {
	d := p.dual(prices, perNode, tau)
	most := math.Inf(-1)
	for _, w := range p.weight {
		most = max(most, w)
	}
	clear(mean)
	clear(cov)
	sum, n := 0.0, len(mean)
	for i, w := range p.weight {
		e := (w - most) / tau
		if e < -25 {
			continue
		}
		e = math.Exp(e)
		sum += e
		counts := p.table.Counts(i)
		for a, k := range counts {
			if k == 0 {
				continue
			}
			x := e * float64(k)
			mean[a] += x
			for b := a; b < n; b++ {
				cov[a*n+b] += x * float64(counts[b])
			}
		}
	}
	for a := range mean {
		mean[a] /= sum
	}
	for a := range mean {
		for b := a; b < n; b++ {
			cov[a*n+b] = cov[a*n+b]/sum - mean[a]*mean[b]
			cov[b*n+a] = cov[a*n+b]
		}
	}
	return d
}

// solveSymmetric solves m x = y for a positive definite m by Cholesky decomposition.
func solveSymmetric(m, y []float64, n int) []float64 {
	l := make([]float64, n*n)
	x := append([]float64(nil), y...)
	for i := range n {
		for j := 0; j <= i; j++ {
			s := m[i*n+j]
			for k := range j {
				s -= l[i*n+k] * l[j*n+k]
			}
			if i == j {
				l[i*n+i] = math.Sqrt(max(s, 1e-12))
			} else {
				l[i*n+j] = s / l[j*n+j]
			}
		}
	}
	for i := range n {
		for k := range i {
			x[i] -= l[i*n+k] * x[k]
		}
		x[i] /= l[i*n+i]
	}
	for i := n - 1; i >= 0; i-- {
		for k := i + 1; k < n; k++ {
			x[i] -= l[k*n+i] * x[k]
		}
		x[i] /= l[i*n+i]
	}
	return x
}

// advice returns, by pattern and app, the logarithm of the probability that a node with this pattern, complete in all
// preceding apps, receives one more container of the app; −Inf for a full node. It is computed backward over apps and
// patterns. O(patterns × apps).
func (p *pricing) advice(prices []float64, tau float64) []float32 {
	t, n := p.table, len(p.table.Apps())
	patterns := t.Patterns()
	after := make([]float64, patterns)
	for i, v := range p.values {
		for a, k := range t.Counts(i) {
			v -= prices[a] * float64(k)
		}
		after[i] = v / tau
	}
	out := make([]float32, patterns*n)
	now := make([]float64, patterns)
	for a := n - 1; a >= 0; a-- {
		for i := patterns - 1; i >= 0; i-- {
			j := t.Plus(i, a)
			if j < 0 {
				now[i] = after[i]
				out[i*n+a] = float32(math.Inf(-1))
				continue
			}
			now[i] = logSum(after[i], now[j])
			out[i*n+a] = float32(now[j] - now[i])
		}
		after, now = now, after
	}
	return out
}

func logSum(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if b-a < -30 {
		return a
	}
	return a + math.Log1p(math.Exp(b-a))
}
