package morl_test

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"trainopt/morl"
)

func TestPIDByHand(t *testing.T) {
	// Limit 10: errors are in tenths. Kp 2, Ki 1, Kd 3.
	p := morl.PID{Kp: 2, Ki: 1, Kd: 3}
	for i, c := range []struct{ cost, want float64 }{
		{20, 2*1 + 1},               // e 1, I 1, no change yet
		{30, 2*2 + 3 + 3*1},         // e 2, I 3, ΔJ 10 = one limit
		{10, 0 + 3},                 // decreasing costs have no derivative term
		{0, max(0, -2+2)},           // e −1, I 2
		{math.NaN(), max(0, -2+2)},  // no data: unchanged
		{10, 0 + 2 + 3*1},           // increase by 10
		{-1000, 0},                  // I is bounded by 0 …
		{15, 2*0.5 + 0.5 + 3*101.5}, // … so that a new violation has an immediate effect; at most 100
	} {
		want := min(100, c.want)
		if got := p.Update(c.cost, 10); math.Abs(got-want) > 1e-12 {
			t.Fatalf("update %d: λ = %g, want %g", i, got, want)
		}
	}
}

func TestPIDDoesNotWindUp(t *testing.T) {
	p := morl.PID{Ki: 1, Most: 5}
	λ := 0.0
	for range 1000 {
		λ = p.Update(3, 1)
	}
	if λ != 5 {
		t.Fatalf("λ = %g, want its bound", λ)
	}
	for range 10 {
		λ = p.Update(0, 1)
	}
	if λ != 0 {
		t.Fatalf("λ = %g ten kept updates after a long violation, want 0", λ)
	}
	p = morl.PID{Kp: 100, Ki: 0.1, Most: 5}
	for range 1000 { // at the bound by the proportional term: the integral must not grow
		p.Update(3, 1)
	}
	if l := p.Update(1, 1); l > 0.21 {
		t.Fatalf("λ = %g when the limit is just met, want what the first violation added, 0.2", l)
	}
}

func TestPIDIsNeverNegative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := rapid.Float64Range(0, 10)
		p := morl.PID{Kp: g.Draw(t, "p"), Ki: g.Draw(t, "i"), Kd: g.Draw(t, "d"), Smooth: rapid.Float64Range(0, 0.99).Draw(t, "smooth"), Most: 7}
		for _, cost := range rapid.SliceOf(rapid.Float64()).Draw(t, "costs") {
			if l := p.Update(cost, rapid.Float64Range(-5, 5).Draw(t, "limit")); !(l >= 0 && l <= 7) {
				t.Fatalf("λ = %g", l)
			}
		}
	})
}

// bandit plays a softmax policy over two actions with rewards 1 and 0 and costs 1 and 0, which follows the exact
// gradient of its Lagrangian; the cost must be at most limit. It returns the cost of each round.
func bandit(p *morl.PID, limit float64, rounds int) (costs []float64) {
	logit := 0.0
	for range rounds {
		cost := 1 / (1 + math.Exp(-logit))
		costs = append(costs, cost)
		w := morl.Constrained([]float32{1, 0}, []float64{0, p.Update(cost, limit)})
		logit += 2 * cost * (1 - cost) * (float64(w[0]) - float64(w[1]))
	}
	return costs
}

// judge returns the mean of the second half, and the mean excess over the limit.
func judge(costs []float64, limit float64) (late, over float64) {
	for i, c := range costs {
		if i >= len(costs)/2 {
			late += c / float64(len(costs)-len(costs)/2)
		}
		over += max(0, c-limit) / float64(len(costs))
	}
	return late, over
}

func TestConstrainedBandit(t *testing.T) {
	for _, limit := range []float64{0.1, 0.3, 0.6} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			damped, over := judge(bandit(&morl.PID{}, limit, 2000), limit)
			_, plain := judge(bandit(&morl.PID{Ki: 0.1}, limit, 2000), limit)
			t.Logf("mean cost %.4f, excess %.5f, by integral alone %.5f", damped, over, plain)
			if math.Abs(damped-limit) > 0.02*limit {
				t.Errorf("mean cost %.4f, want the limit %g", damped, limit)
			}
			if over > 0.5*plain {
				t.Errorf("excess %.5f, integral ascent alone %.5f: want less than half", over, plain)
			}
		})
	}
}

// TestConstrainedTreasure requires that a submarine finds treasure within an agreed mean number of moves: with the
// optimal policy for the weights of the multiplier, fed with the mean of the last 20 dives, the limit is kept.
func TestConstrainedTreasure(t *testing.T) {
	front := knownFront(t, "deep-sea-treasure", 1)
	for _, limit := range []float64{4, 8, 15} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			dive := func(p *morl.PID) (costs []float64, treasure float64) {
				var dives []float64
				λ := 0.0
				for range 4000 {
					w := morl.Constrained([]float32{1, 0}, []float64{0, λ})
					at := front[0]
					for _, v := range front {
						if float64(w[0])*v[0]+float64(w[1])*v[1] > float64(w[0])*at[0]+float64(w[1])*at[1] {
							at = v
						}
					}
					dives = append(dives, -at[1])
					mean := 0.0
					for _, c := range dives[max(0, len(dives)-20):] {
						mean += c / float64(min(20, len(dives)))
					}
					costs = append(costs, mean)
					treasure += at[0] / 4000
					λ = p.Update(mean, limit)
				}
				return costs, treasure
			}
			costs, treasure := dive(&morl.PID{})
			damped, over := judge(costs, limit)
			costs, _ = dive(&morl.PID{Ki: 0.1})
			_, plain := judge(costs, limit)
			t.Logf("mean time %.3f, treasure %.2f, excess %.4f, by integral alone %.4f", damped, treasure, over, plain)
			if damped > 1.05*limit {
				t.Errorf("mean time %.3f, agreed %g", damped, limit)
			}
			if over > plain {
				t.Errorf("excess %.4f, integral ascent alone %.4f", over, plain)
			}
		})
	}
}

func TestConstrainedWeightsSumToOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := preference(t, "w")
		lambda := rapid.SliceOfN(rapid.Float64Range(0, 100), len(w), len(w)).Draw(t, "λ")
		var sum float64
		for _, v := range morl.Constrained(w, lambda) {
			if v < 0 {
				t.Fatal("a negative weight")
			}
			sum += float64(v)
		}
		if math.Abs(sum-1) > 1e-5 {
			t.Fatalf("they sum to %g", sum)
		}
	})
}

func preference(t *rapid.T, label string) []float32 {
	raw := rapid.SliceOfN(rapid.Float32Range(0, 1), 2, 6).Draw(t, label)
	raw[0] += 0.01
	var sum float32
	for _, v := range raw {
		sum += v
	}
	for i := range raw {
		raw[i] /= sum
	}
	return raw
}

func TestWeightsByHand(t *testing.T) {
	for name, c := range map[string]struct {
		weights    morl.Weights
		preference []float32
		severity   []float64
		want       []float32
	}{
		"nothing at risk":   {morl.Weights{}, []float32{0.6, 0.2, 0.2}, []float64{0, 0, 0}, []float32{0.6, 0.2, 0.2}},
		"no severities":     {morl.Weights{}, []float32{0.6, 0.2, 0.2}, nil, []float32{0.6, 0.2, 0.2}},
		"one certain":       {morl.Weights{Floor: -1}, []float32{0.6, 0.2, 0.2}, []float64{0, 1, 0}, []float32{0.6 / 1.8, 1 / 1.8, 0.2 / 1.8}},
		"half":              {morl.Weights{Kappa: 2, Floor: -1}, []float32{0.5, 0.5}, []float64{0.5, 0}, []float32{2. / 3, 1. / 3}},
		"all alike":         {morl.Weights{Floor: -1}, []float32{0.6, 0.4}, []float64{1, 1}, []float32{0.6, 0.4}},
		"none wanted":       {morl.Weights{Floor: -1}, []float32{1, 0}, []float64{0, 1}, []float32{1, 0}},
		"none wanted, risk": {morl.Weights{Floor: 0.2}, []float32{1, 0}, []float64{0, 1}, []float32{0.5, 0.5}},
	} {
		t.Run(name, func(t *testing.T) {
			for i, v := range c.weights.Target(c.preference, c.severity) {
				if math.Abs(float64(v-c.want[i])) > 1e-6 {
					t.Fatalf("weight %d: %g, want %v", i, v, c.want)
				}
			}
		})
	}
}

func TestWeightsMoveSlowlyAndComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := morl.Weights{Kappa: rapid.Float64Range(0.1, 10).Draw(t, "κ"), Rate: rapid.Float64Range(0.02, 0.5).Draw(t, "rate")}
		p := preference(t, "preference")
		var now []float32
		severities := rapid.SliceOfN(rapid.SliceOfN(rapid.Float64Range(-0.5, 1.5), len(p), len(p)), 0, 20).Draw(t, "severities")
		for len(severities) < 80 {
			severities = append(severities, make([]float64, len(p)))
		}
		for _, s := range severities {
			next := c.Next(now, p, s)
			var sum float64
			for i, v := range next {
				from := p[i]
				if now != nil {
					from = now[i]
				}
				if math.Abs(float64(v-from)) > c.Rate+1e-6 || v < 0 {
					t.Fatalf("weight %d: %g after %g", i, v, from)
				}
				sum += float64(v)
			}
			if math.Abs(sum-1) > 1e-4 {
				t.Fatalf("weights sum to %g", sum)
			}
			now = next
		}
		for i, v := range now {
			if v != p[i] {
				t.Fatalf("%v, nothing is at risk any more: want %v", now, p)
			}
		}
	})
}
