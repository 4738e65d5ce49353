package report

import (
	"strings"
	"testing"

	"trainopt/sla"
)

func TestFrontMarksWhatMatters(t *testing.T) {
	p := frontPicture(load(t, "finished"))
	for class, want := range map[string]int{`class="offer`: 16, `class="ring"`: 1, `class="diamond"`: 1, `class="cross"`: 1, `class="front"`: 1, `class="whisker"`: 1} {
		if got := strings.Count(string(p.SVG), class); got != want {
			t.Errorf("%s drawn %d times, want %d", class, got, want)
		}
	}
	if !strings.Contains(string(p.SVG), "2\u00a0CPU, 1\u00a0GiB") && !strings.Contains(string(p.SVG), "2 CPU, 1 GiB") {
		t.Error("points do not name their allocation")
	}
}

// TestFrontIsThatOfThePlan checks that the candidates of the last decision are drawn, none if no whole run is predicted,
// and that one that was excluded only as slower than the baseline is not shown as a risk of the SLA.
func TestFrontIsThatOfThePlan(t *testing.T) {
	d := load(t, "finished")
	d.Record.Plan.Candidates[3].Allocation.Threads = 1
	list := frontPoints(d.Record)
	if len(list) != 16 || !strings.Contains(list[3].name, "1\u00a0thread") {
		t.Errorf("%d candidates, the fourth %q", len(list), list[3].name)
	}
	if got := frontPoints(load(t, "nothing").Record); len(got) != 0 {
		t.Errorf("%d candidates without a plan", len(got))
	}
	c := &d.Record.Plan.Candidates[3]
	c.Feasible, c.Slower, c.Breaks = false, true, nil
	if list = frontPoints(d.Record); !list[3].feasible || feasibility(*c) != "feasible, slower" {
		t.Errorf("slower than the baseline: %+v, %s", list[3], feasibility(*c))
	}
	c.Breaks = []sla.Objective{sla.Time}
	if list = frontPoints(d.Record); list[3].feasible || feasibility(*c) != "deadline at risk" {
		t.Errorf("slower, and late: %+v, %s", list[3], feasibility(*c))
	}
}

func TestFirstLaunchIsNoChange(t *testing.T) {
	d := load(t, "nothing")
	d.allocations, _ = readTable(strings.NewReader(headers[allocationsFile] + "\n0.1,0,8,4,,,launch,probe\n20,0,2,4,,,launch,the plan\n30,0,3,4,,,live,behind\n40,0,4,4,,,recommended,advice\n"))
	var classes []string
	for _, m := range moments(d) {
		classes = append(classes, m.Class)
	}
	if got := strings.Join(classes, " "); got != "restart live recommended" {
		t.Errorf("marked %q", got)
	}
}
