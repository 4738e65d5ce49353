package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"trainopt/optimizer/history"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/report/page"
)

// calibrationFormats is the registry of the formats of a calibration page.
var calibrationFormats = page.Formats[*history.Calibration]{
	"text":     page.TextOf(calibrationPage),
	"markdown": page.MarkdownOf(calibrationPage),
	"html":     page.HTMLOf(calibrationPictured),
	"json":     calibrationJSON,
	"csv":      page.CSVOf(calibrationLines),
}

// Calibration writes the calibration of the predictions of past runs in one of the formats of a report.
func Calibration(w io.Writer, t *history.Calibration, format string) error {
	return calibrationFormats.Write(w, "calibration", t, format)
}

// fewRuns is the number of scored runs below which coverage is not rated: of ten 90 % intervals, between 7 and 10
// contain the outcome with a probability of 99 %.
const fewRuns = 10

func calibrationPage(t *history.Calibration) page.Document {
	doc := page.Document{Title: "Calibration", Subtitle: "How often predictions were right. A 90 % interval should contain the outcome nine times in ten.",
		Footer: "Scored are finished runs with a prediction of the whole run. Error: actual value relative to the predicted median."}
	doc.Answers = []page.Answer{heldAnswer(t), offAnswer(t), widenAnswer(t)}
	if t.All.Runs == 0 {
		doc.Answers = doc.Answers[:1]
		return doc
	}
	doc.Sections = []page.Section{
		{ID: "families", Title: "By model family", Blocks: []page.Block{{Table: familyTable(t)}}},
	}
	if len(t.Scores) > 0 {
		doc.Sections = append(doc.Sections, page.Section{ID: "quantities", Title: "By quantity", Blocks: []page.Block{{Table: quantityTable(t)}}}, page.Section{ID: "scores", Title: "Predicted and actual", Blocks: []page.Block{{Table: scoreTable(t)}}})
	}
	return doc
}

func heldAnswer(t *history.Calibration) page.Answer {
	a := page.Answer{Question: "Coverage", Light: page.Muted}
	s := t.All.ByQuantity[history.QuantitySeconds]
	switch {
	case t.All.Runs == 0:
		a.Text = "no prediction yet: nothing to score"
	case s.N == 0:
		a.Text = page.Plural(t.All.Runs, "run") + " predicted, none finished: nothing to score"
	default:
		a.Text = fmt.Sprintf("%d of %s of time inside their interval, %s (95 %% CI %s to %s)", s.Inside, page.Plural(s.N, "prediction"), number(s.Share, page.Share), number(s.Lo, page.Share), number(s.Hi, page.Share))
		a.Light = page.Good
		if s.Hi < 0.9 {
			a.Light = page.Bad
			a.Text += "; the intervals are too narrow"
		} else if s.N < fewRuns {
			a.Light = page.Muted
			a.Text += "; too few to judge"
		}
	}
	return a
}

func offAnswer(t *history.Calibration) page.Answer {
	s := t.All.ByQuantity[history.QuantitySeconds]
	if s.N == 0 {
		return page.Answer{Question: "Error", Text: page.NoData, Light: page.Muted}
	}
	return page.Answer{Question: "Error", Text: fmt.Sprintf("median error of time %s, absolute %s; intervals span %.2f×", number(100*s.Bias, change), number(100*s.MedianError, page.Percent), s.Width)}
}

func widenAnswer(t *history.Calibration) page.Answer {
	a := page.Answer{Question: "Next", Text: "intervals are not adjusted"}
	if w := t.All.Widen; math.Abs(float64(w)-1) >= 0.005 {
		a.Text = fmt.Sprintf("intervals of the next prediction are widened %.2f times (on log scale; the factor of each family is listed below)", w)
	}
	return a
}

func familyTable(t *history.Calibration) *page.Table {
	g := &page.Table{Columns: append(page.Left("Family"), page.Right("Predicted", "Scored", "Coverage", "95 % CI", "Abs. error", "Error", "Next ×")...)}
	line := func(l history.FamilyCalibration, name string) {
		s := l.ByQuantity[history.QuantitySeconds]
		cells := page.Row(name, page.Count(float64(l.Runs)), page.Count(float64(l.Scored)), page.NoData, page.NoData, page.NoData, page.NoData, fmt.Sprintf("%.2f", l.Widen))
		if s.N > 0 {
			cells[3].Text, cells[4].Text = number(s.Share, page.Share), number(s.Lo, page.Share)+" to "+number(s.Hi, page.Share)
			cells[5].Text, cells[6].Text = number(100*s.MedianError, page.Percent), number(100*s.Bias, change)
		}
		g.Rows = append(g.Rows, cells)
	}
	for _, l := range t.Families {
		line(l, l.Family)
	}
	line(t.All, "all")
	return g
}

func quantityTable(t *history.Calibration) *page.Table {
	g := &page.Table{Columns: append(page.Left("Quantity"), page.Right("Scored", "Coverage", "Below interval", "Above interval", "Abs. error", "Error", "Spans ×")...)}
	for _, q := range history.Quantities {
		s := t.All.ByQuantity[q]
		if s.N == 0 {
			continue
		}
		g.Rows = append(g.Rows, page.Row(quantityWords[q].name, page.Count(float64(s.N)), number(s.Share, page.Share), page.Count(float64(s.Below)), page.Count(float64(s.Above)),
			number(100*s.MedianError, page.Percent), number(100*s.Bias, change), fmt.Sprintf("%.2f", s.Width)))
	}
	return g
}

var quantityWords = map[history.Quantity]struct {
	name string
	one  func(float64) string
}{
	history.QuantitySeconds:    {"time", page.Duration},
	history.QuantityCostUSD:    {"cost", page.USD},
	history.QuantityThroughput: {"throughput", throughput},
}

func scoreTable(t *history.Calibration) *page.Table {
	g := &page.Table{Columns: append(page.Left("Run", "Family", "Quantity"), page.Right("Predicted", "Actual", "Error")...), Long: true}
	for _, s := range t.Scores {
		words := quantityWords[s.Quantity]
		l := page.Good
		if s.Side != 0 {
			l = page.Bad
		}
		g.Rows = append(g.Rows, with(page.Row(s.Run, s.Family, words.name, interval(s.Predicted, words.one), words.one(s.Realised), change(100*math.Expm1(s.LogError))), l))
	}
	return g
}

// calibrationPictured returns the calibration page with its charts.
func calibrationPictured(t *history.Calibration) page.Document {
	doc := calibrationPage(t)
	if t.All.ByQuantity[history.QuantitySeconds].N > 0 {
		doc.Pictures = []page.Picture{ratioChart(t).Picture(), pitChart(t).Picture()}
	}
	return doc
}

// times returns the scores of run times, oldest first.
func times(t *history.Calibration) []history.Score {
	var out []history.Score
	for i := len(t.Scores) - 1; i >= 0; i-- {
		if t.Scores[i].Quantity == history.QuantitySeconds {
			out = append(out, t.Scores[i])
		}
	}
	return out
}

// ratioChart shows the time of each run relative to its predicted median, with the interval.
func ratioChart(t *history.Calibration) *page.Chart {
	ratio := func(v float64) string { return fmt.Sprintf("%.3f", v) }
	came := page.Series{Name: "actual / predicted median", Class: "s1", One: ratio}
	for k, s := range times(t) {
		x := float64(k + 1)
		came.Points = append(came.Points, page.Point{X: x, Y: s.Realised / s.Predicted.P50})
		came.Band = append(came.Band, page.Band{X: x, Lo: s.Predicted.P5 / s.Predicted.P50, Hi: s.Predicted.P95 / s.Predicted.P50})
	}
	return &page.Chart{ID: "ratio", Title: "Actual time relative to the prediction, by run", X: page.Axis{Name: "scored run, oldest first"}, Y: page.Axis{Name: "×"},
		Series: []page.Series{came}, Levels: []page.Level{{Name: "as predicted", Value: 1, Class: "base"}}}
}

// pitBins is the number of bars of the PIT histogram.
const pitBins = 10

// pitChart is the histogram of the probability integral transform, the quantile of each outcome in its predictive
// distribution: flat if calibrated, U-shaped if the intervals are too narrow, hump-shaped if they are too wide.
func pitChart(t *history.Calibration) *page.Chart {
	scores := times(t)
	var bars [pitBins]float64
	for _, s := range scores {
		bars[min(int(s.PIT*pitBins), pitBins-1)]++
	}
	line := page.Series{Name: "runs", Class: "s2", Step: true, Area: true, One: page.Count}
	for k, n := range bars {
		line.Points = append(line.Points, page.Point{X: float64(100 * k / pitBins), Y: n})
	}
	line.Points = append(line.Points, page.Point{X: 100, Y: bars[pitBins-1]})
	return &page.Chart{ID: "pit", Title: "Position of outcomes in the predicted distributions", X: page.Axis{Name: "percentile of the prediction"}, Y: page.Axis{Name: "runs", Zero: true},
		Series: []page.Series{line}, Levels: []page.Level{{Name: "calibrated", Value: float64(len(scores)) / pitBins, Class: "base"}}}
}

// calibrationJSON writes the coverage overall and by family and every single score as one object, schema 1. Unknown
// numbers are null.
func calibrationJSON(w io.Writer, t *history.Calibration) error {
	type score struct {
		Run      string           `json:"run"`
		At       *time.Time       `json:"at"`
		Family   string           `json:"family"`
		Quantity history.Quantity `json:"quantity"`
		P5       journal.Number   `json:"p5"`
		P50      journal.Number   `json:"p50"`
		P95      journal.Number   `json:"p95"`
		Realised journal.Number   `json:"realised"`
		Inside   bool             `json:"inside_90"`
		Z        journal.Number   `json:"z"`
		PIT      journal.Number   `json:"pit"`
	}
	out := struct {
		Schema   int                         `json:"schema"`
		All      history.FamilyCalibration   `json:"all"`
		Families []history.FamilyCalibration `json:"families"`
		Scores   []score                     `json:"scores"`
	}{Schema: 1, All: t.All, Families: append([]history.FamilyCalibration{}, t.Families...), Scores: []score{}}
	for _, s := range t.Scores {
		line := score{Run: s.Run, Family: s.Family, Quantity: s.Quantity, P5: journal.Number(s.Predicted.P5), P50: journal.Number(s.Predicted.P50),
			P95: journal.Number(s.Predicted.P95), Realised: journal.Number(s.Realised), Inside: s.Side == 0, Z: journal.Number(s.Z), PIT: journal.Number(s.PIT)}
		if !s.At.IsZero() {
			line.At = &s.At
		}
		out.Scores = append(out.Scores, line)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(out)
}

// calibrationLines returns one score per line.
func calibrationLines(t *history.Calibration) [][]string {
	out := [][]string{{"run", "at", "family", "quantity", "p5", "p50", "p95", "realised", "inside_90", "z", "pit"}}
	for _, s := range t.Scores {
		at := ""
		if !s.At.IsZero() {
			at = s.At.Format(time.RFC3339)
		}
		out = append(out, []string{s.Run, at, s.Family, string(s.Quantity), plain(s.Predicted.P5), plain(s.Predicted.P50), plain(s.Predicted.P95),
			plain(s.Realised), strconv.FormatBool(s.Side == 0), plain(s.Z), plain(s.PIT)})
	}
	return out
}
