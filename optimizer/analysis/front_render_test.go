package analysis

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"trainopt/optimizer/plan"
)

func renderedFront(t interface{ Fatal(...any) }, f *front, format string, width int) string {
	var b bytes.Buffer
	if err := f.Render(&b, format, width); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func chooseFour(t *testing.T) *front {
	t.Helper()
	f, err := ChooseFront(four(), balanced)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestText(t *testing.T) {
	text := renderedFront(t, chooseFour(t), "text", 80)
	for _, want := range []string{
		"Pareto front of four\n5 points, 4 on the front\n",
		"Chosen        C: c: 1 h 55 m, $10.25, 25 % of the resources",
		" C ▸  c           1 h 55 m  $10.25       25 %        $0.0151\n",
		"[C] chosen", "·: dominated", "each minute less costs $0.0487",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	_, plot, _ := strings.Cut(text, "cost of the whole job, USD")
	plot, _, _ = strings.Cut(plot, "time of the whole job, hours")
	for _, mark := range []string{"A", "B", "[C]", "D", "·"} {
		if strings.Count(plot, mark) != 1 {
			t.Errorf("%q is %d times in the picture\n%s", mark, strings.Count(plot, mark), plot)
		}
	}
	// The faster point is to the left, the more expensive one above.
	lines := strings.Split(plot, "\n")
	find := func(mark string) (row, column int) {
		for i, l := range lines {
			if at := strings.Index(l, mark); at >= 0 {
				return i, utf8.RuneCountInString(l[:at])
			}
		}
		return -1, -1
	}
	ra, ca := find("A")
	rd, cd := find("D")
	if !(ra < rd && ca < cd) {
		t.Errorf("A at %d,%d and D at %d,%d", ra, ca, rd, cd)
	}
}

// A long front is cut around the chosen point in text, and complete in the other formats.
func TestLongFront(t *testing.T) {
	set := FrontPoints{Subject: "long"}
	for i := range 40 {
		set.Points = append(set.Points, namedPoint(fmt.Sprintf("p%02d", i), at(float64(100+i), 1000/float64(1+i), 1)))
	}
	f, err := ChooseFront(set, plan.Preference{Time: .9, Cost: .1})
	if err != nil || f.Chosen < 1 {
		t.Fatal(err, f.Chosen)
	}
	text, page := renderedFront(t, f, "text", 80), renderedFront(t, f, "html", 0)
	if strings.Count(text, "  p") != mostRows || !strings.Contains(text, "▸  "+f.Points[f.Chosen].Name) || !strings.Contains(text, "faster: --format csv") || !strings.Contains(text, "slower: --format csv") {
		t.Errorf("want %d rows around %s:\n%s", mostRows, f.Points[f.Chosen].Name, text)
	}
	if n := strings.Count(page, "<span>p"); n != 40 || strings.Contains(page, "faster:") {
		t.Errorf("the page has %d rows of 40", n)
	}
}

func TestEveryFormatKeepsItsForm(t *testing.T) {
	f := chooseFour(t)
	var d document
	if err := json.Unmarshal([]byte(renderedFront(t, f, "json", 0)), &d); err != nil || d.Schema != 1 || d.Chosen.Label != "C" || len(d.Points) != 5 || d.FrontSize != 4 || len(d.Trades) != 3 {
		t.Errorf("json: %v %+v", err, d)
	}
	rows, err := csv.NewReader(strings.NewReader(renderedFront(t, f, "csv", 0))).ReadAll()
	if err != nil || len(rows) != 6 || rows[3][0] != "C" || rows[3][16] != "1" {
		t.Errorf("csv: %v %v", err, rows)
	}
	wellFormed(t, renderedFront(t, f, "svg", 0))
	page := renderedFront(t, f, "html", 0)
	for _, want := range []string{"<!DOCTYPE html>", "prefers-color-scheme: dark", "<svg", "each minute less costs", "default-src 'none'"} {
		if !strings.Contains(page, want) {
			t.Errorf("html: no %q", want)
		}
	}
	for _, never := range []string{"<script", "src=", "@import", "url("} {
		if strings.Contains(page, never) {
			t.Errorf("html: %q: the page must need nothing else", never)
		}
	}
	if md := renderedFront(t, f, "markdown", 0); !strings.Contains(md, "| C ▸ | c | 1 h 55 m | $10.25 | 25 % | $0.0151 |") {
		t.Errorf("markdown:\n%s", md)
	}
	if err := f.Render(io.Discard, "pdf", 0); err == nil || !strings.Contains(err.Error(), "csv, html, json, markdown, svg, text") {
		t.Errorf("pdf: %v", err)
	}
}

// Points that may miss the SLA are marked, unless no point meets it.
func TestPointsThatMayBreakTheAgreement(t *testing.T) {
	set := four()
	for i := range set.Points {
		set.Points[i].Feasible = set.Points[i].Name != "a"
	}
	some, err := ChooseFront(set, fastest)
	if err != nil || some.Points[some.Chosen].Name != "b" || some.Infeasible != 1 {
		t.Fatalf("%+v, %v: want b, as a may break the agreement", some, err)
	}
	for i := range set.Points {
		set.Points[i].Feasible = false
	}
	none, err := ChooseFront(set, fastest)
	if err != nil || none.Points[none.Chosen].Name != "a" {
		t.Fatalf("%+v, %v: want a, as nothing keeps the agreement", none, err)
	}
	for format, mark := range map[string]string{"text": "x: may miss", "svg": "offer hollow", "html": "may miss the SLA</span>"} {
		if in := strings.Contains(renderedFront(t, some, format, 80), mark); !in {
			t.Errorf("%s: no %q for a point that may break the agreement", format, mark)
		}
		picture := strings.SplitN(renderedFront(t, none, format, 80), "NOTES", 2)[0]
		if strings.Contains(picture, mark) {
			t.Errorf("%s: %q although all may break it", format, mark)
		}
	}
}

func wellFormed(t interface{ Fatalf(string, ...any) }, text string) {
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("svg is not well-formed: %v\n%s", err, text)
		}
	}
}

func TestHostileNames(t *testing.T) {
	set := four()
	set.Subject = "</title><script>alert(1)</script>\x1b[2J"
	set.Points[3].Name = "\x1b[31mred <b>&amp;\u202e|x`\n"
	set.Notes = []string{"a\nb\x07"}
	f, err := ChooseFront(set, balanced)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"text", "html", "svg", "markdown", "csv"} {
		text := renderedFront(t, f, format, 80)
		for _, never := range []string{"\x1b", "\x07", "\u202e", "<script>alert"} {
			if strings.Contains(text, never) && !(format == "text" && never == "<script>alert") {
				t.Errorf("%s: %q got through", format, never)
			}
		}
	}
	wellFormed(t, renderedFront(t, f, "svg", 0))
}

func TestAnyFrontFitsAnyWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.Float64Range(1e-9, 1e9), rapid.Map(rapid.IntRange(0, 4), func(v int) float64 { return float64(v) }))
		var set FrontPoints
		set.Subject = rapid.StringMatching(`[a-z]{1,60}`).Draw(t, "subject")
		for range rapid.IntRange(1, 90).Draw(t, "n") {
			p := at(number.Draw(t, "seconds"), number.Draw(t, "usd"), rapid.Float64Range(0, 1).Draw(t, "share"))
			p.Name, p.Feasible = rapid.StringMatching(`[a-zé]{1,50}`).Draw(t, "name"), rapid.Bool().Draw(t, "feasible")
			set.Points = append(set.Points, p)
		}
		f, err := ChooseFront(set, balanced)
		if err != nil {
			t.Fatal(err)
		}
		width := rapid.IntRange(50, 130).Draw(t, "width")
		for line := range strings.Lines(renderedFront(t, f, "text", width)) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width && strings.Contains(strings.TrimSpace(line), " ") {
				// only a single word longer than a line may exceed the width
				if longest := longestWord(line); longest < width-11 {
					t.Fatalf("%d columns in %d: %q", n, width, line)
				}
			}
		}
		for _, never := range []string{"NaN", "Inf", "$-0<"} {
			if text := renderedFront(t, f, "svg", 0); strings.Contains(text, never) {
				t.Fatalf("%s in the picture", never)
			}
		}
		wellFormed(t, renderedFront(t, f, "svg", 0))
		if !json.Valid([]byte(renderedFront(t, f, "json", 0))) {
			t.Fatal("not JSON")
		}
	})
}

func longestWord(line string) int {
	most := 0
	for _, w := range strings.Fields(line) {
		most = max(most, utf8.RuneCountInString(w))
	}
	return most
}
