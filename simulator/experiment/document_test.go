package experiment

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// TestHours checks that text shows hours, with the unit in the name, and that files contain seconds.
func TestHours(t *testing.T) {
	m := Metric{Name: "jct_s", Unit: "s", Hours: true}
	c := Assemble([]string{"a"}, []Case{{Seed: 1}, {Seed: 2}}, Options{Metrics: []Metric{m}}, [][]map[string]float64{{{"jct_s": 7200}, {"jct_s": 14400}}})
	for format, want := range map[string]string{"text": "\n a 3.00 ", "markdown": "| JCT (h) |", "html": "<h3>JCT (h)</h3>", "csv": "jct_s,a,,10800,", "json": `"mean": 10800`} {
		var b bytes.Buffer
		if err := c.Render(&b, format); err != nil {
			t.Fatal(err)
		}
		if text := regexp.MustCompile(" +").ReplaceAllString(b.String(), " "); !strings.Contains(text, want) {
			t.Errorf("%s lacks %q\n%s", format, want, text)
		}
	}
}

// TestFold checks that text omits the further tables and mentions the formats that contain them.
func TestFold(t *testing.T) {
	one := Assemble([]string{"a"}, []Case{{Seed: 1}}, Options{Title: "one", Metrics: []Metric{{Name: "x"}}}, [][]map[string]float64{{{"x": 1}}})
	c := &Comparison{Title: "all", Tables: []Table{{Title: "by load", Head: []string{"policy", "1"}, Lines: [][]string{{"a", "1"}}}}, Also: []*Comparison{one}, Fold: true}
	for format, there := range map[string]bool{"text": false, "html": true, "markdown": true, "csv": true} {
		var b bytes.Buffer
		if err := c.Render(&b, format); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "one") != there || !there && !strings.Contains(b.String(), "1 further tables") {
			t.Errorf("%s:\n%s", format, b.String())
		}
	}
}

// TestLabel checks that names of metrics are shown as words, with the unit once.
func TestLabel(t *testing.T) {
	for want, m := range map[string]Metric{
		"above optimum": {Name: "above_optimum", Unit: "share"}, "mean JCT (h)": {Name: "mean_jct_s", Unit: "s", Hours: true}, "solve (s)": {Name: "solve_s", Unit: "s"},
		"cost (USD)": {Name: "cost_usd", Unit: "USD"}, "energy (MJ)": {Name: "energy_joules", Unit: "J"}, "SLO share": {Name: "slo_share", Unit: "share"}, "gap points": {Name: "gap_points", Unit: "points"},
	} {
		if got := m.Label(); got != want {
			t.Errorf("%s: %q, want %q", m.Name, got, want)
		}
	}
	if got := (Metric{Name: "gap_points", Unit: "points", Better: Lower}).caption(); got != "in points; lower is better" {
		t.Errorf("caption %q", got)
	}
}
