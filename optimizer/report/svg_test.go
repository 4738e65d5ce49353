package report

import (
	"strings"
	"testing"
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

// TestLastDecisionIsDrawn checks that the last of several decisions in a table is drawn, and the plan if there is no
// table.
func TestLastDecisionIsDrawn(t *testing.T) {
	head := headers[paretoFile] + "\n"
	line := func(at, cpus string) string { return at + ",0," + cpus + ",1,,1,2,3,1,2,3,.5,1,1,0\n" }
	for name, c := range map[string]struct {
		table string
		want  int
	}{
		"one":                            {line("33", "1") + line("33", "2") + line("33", "4"), 3},
		"each row at its own moment":     {line("33.1", "1") + line("33.2", "2") + line("33.3", "4"), 3},
		"again at once":                  {line("33.1", "1") + line("33.2", "2") + line("33.3", "1") + line("33.4", "2"), 2},
		"later, of other allocations":    {line("33", "1") + line("33", "2") + line("60", "4"), 1},
		"without times, the whole table": {line("", "1") + line("", "2"), 2},
	} {
		d := load(t, "nothing")
		d.pareto, _ = readTable(strings.NewReader(head + c.table))
		if got := len(frontPoints(d)); got != c.want {
			t.Errorf("%s: %d offers, want %d", name, got, c.want)
		}
	}
	d := load(t, "nothing")
	d.pareto, _ = readTable(strings.NewReader(strings.TrimSpace(head) + ",threads\n" + strings.ReplaceAll(line("33", "2")+line("33.1", "2"), "0\n", "0,\n") + strings.Replace(line("33.2", "2"), "0\n", "0,1\n", 1)))
	if list := frontPoints(d); len(list) != 2 || !strings.Contains(list[1].name, "1\u00a0thread") {
		t.Errorf("a candidate of other threads: %+v", list)
	}
	d = load(t, "finished")
	d.pareto = &table{}
	if got := len(frontPoints(d)); got != 16 {
		t.Errorf("%d offers of the plan, want 16", got)
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
