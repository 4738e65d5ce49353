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
	for format, want := range map[string]string{"text": "\n a 3.00 ", "markdown": "| jct (h) |", "html": "<h3>jct (h)</h3>", "csv": "jct_s,a,,10800,", "json": `"mean": 10800`} {
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
