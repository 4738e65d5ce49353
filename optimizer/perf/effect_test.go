package perf

import (
	"math"
	"testing"
)

// earlierRun is a recalled run at cpus(4) with the given effects, such as one argument at a multiple of its present
// value.
func earlierRun(seconds float64, effects ...Effect) Observation {
	o := repeated(cpus(4), seconds, 8)
	o.Recalled, o.Effects = true, effects
	return o
}

func byArgument(times, sd float64) Effect {
	return Effect{Name: "width", Level: -sd * math.Log2(times), Reference: cpus(4)}
}

// The width of an effect equals its level, known offsets are subtracted, and effects of one name are fitted jointly.
func TestEffects(t *testing.T) {
	half := func(o ...Observation) (middle, width float64) {
		p := mustFit(t, o, FitOptions{}).UnitSeconds(cpus(4))
		return p.P50, math.Log(p.P95/p.P5) / 2 / 1.645
	}
	plain, narrow := half(earlierRun(2))
	middle, wide := half(earlierRun(2, byArgument(2, 0.5)))
	if math.Abs(plain/2-1) > 0.1 || math.Abs(middle/2-1) > 0.15 {
		t.Errorf("2 s measured: %.2f predicted without an effect, %.2f with one", plain, middle)
	}
	if want := math.Hypot(narrow, 0.5); math.Abs(wide/want-1) > 0.15 {
		t.Errorf("sd %.2f with an effect of 0.5, %.2f without: want %.2f", wide, narrow, want)
	}
	e := byArgument(2, 0.1)
	e.Offset = math.Log(2)
	if middle, _ := half(earlierRun(2, e)); math.Abs(middle-1) > 0.1 {
		t.Errorf("%.2f s predicted, want 1: the earlier run is known to be twice as slow", middle)
	}
	// Seconds are proportional to the argument at 2 and 4 times its value; at its own value a unit takes one second.
	middle, learned := half(earlierRun(2, byArgument(2, 0.5)), earlierRun(4, byArgument(4, 0.5)))
	if _, two := half(earlierRun(2, byArgument(2, 0.5)), earlierRun(2, Effect{Name: "other", Level: 1})); learned > two || middle > 1.45 || middle < 0.7 {
		t.Errorf("%.2f s predicted with sd %.2f from two values of one argument, want about 1 s", middle, learned)
	}
	// The run's own measurement decides.
	own := repeated(cpus(4), 7, 8)
	if middle, width := half(earlierRun(2, byArgument(2, 0.5)), own); math.Abs(middle/7-1) > 0.1 || width > 0.2 {
		t.Errorf("%.2f s with sd %.2f where 7 s was measured", middle, width)
	}
}

// An effect with a slope is wider away from its reference.
func TestEffectByWidth(t *testing.T) {
	e := byArgument(2, 0.5)
	e.Slope = 0.25
	var obs []Observation
	for _, c := range []int{1, 2, 4, 8} {
		o := repeated(cpus(c), 2+6/float64(c), 8)
		o.Recalled, o.Effects = true, []Effect{e}
		obs = append(obs, o)
	}
	m := mustFit(t, obs, FitOptions{})
	spread := func(c int) float64 { p := m.UnitSeconds(cpus(c)); return math.Log(p.P95 / p.P5) }
	if spread(1) < 1.1*spread(4) {
		t.Errorf("log-width %.2f at 4 CPUs, the reference, %.2f at 1", spread(4), spread(1))
	}
}
