package optimizer

import (
	"math"
	"testing"

	"trainopt/optimizer/plan"
	"trainopt/sla"
)

// A renewal needs both: a severe violation projected at several looks in a row, and critics that foresaw the pace worse than
// the model alone.
func TestDoubtNeedsAllItsEvidence(t *testing.T) {
	severity := func(x float64) []sla.Verdict { return []sla.Verdict{{Objective: sla.Time, Severity: &x}} }
	for name, c := range map[string]struct {
		shift    float64 // of the critics, where the model is right
		severity float64
		looks    int
		want     bool
	}{
		"missed, critics wrong":          {1.3, 0.5, 3, true},
		"missed, critics right":          {1.0, 0.5, 9, false},
		"missed, critics a little wrong": {1.02, 0.5, 9, false},
		"kept, critics wrong":            {1.3, 0, 9, false},
		"a little missed, critics wrong": {1.3, 0.2, 9, false},
		"missed at two looks only":       {1.3, 0.5, 2, false},
	} {
		var d doubt
		got := false
		for range c.looks {
			d.expect(plan.Plan{Learned: &plan.Learned{Agent: "conditioned", UnitSeconds: 10, Shift: c.shift}}, 50)
			got = d.look(10, severity(c.severity)) != "" || got
		}
		if got != c.want {
			t.Errorf("%s: triggered %v, want %v", name, got, c.want)
		}
	}
	var d doubt // violations with a good look between them are not in a row
	for k := range 9 {
		d.expect(plan.Plan{Learned: &plan.Learned{Agent: "conditioned", UnitSeconds: 10, Shift: 2}}, 50)
		if why := d.look(10, severity(float64(k%3)/2)); why != "" {
			t.Errorf("look %d: %s", k, why)
		}
	}
	d = doubt{}
	d.expect(plan.Plan{}, 50) // the model decided: nothing of the critics to check
	for range 9 {
		if why := d.look(math.NaN(), severity(1)); why != "" {
			t.Error(why)
		}
	}
}
