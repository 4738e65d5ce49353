package spot_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"trainopt/optimizer/schedule/capacity"
	"trainopt/simulator/experiment"
	"trainopt/simulator/spot"
)

// waits returns a job of 250 s that loses its machine once.
func waits(t *testing.T, policy string) *spot.Report {
	t.Helper()
	j := capacity.Job{WorkS: 250, DeadlineS: 1000, ChangeoverS: 30, SpotUSDHour: 36, OnDemandUSDHour: 108}
	m := spot.Market{Name: "m", TickS: 100, Zones: []spot.Zone{{Name: "east", Up: []bool{true, true, false, true, true, true, true, true, true, true}}}}
	r := &spot.Report{Policy: policy, Job: j, Market: m, Capacity: "capacity <b>", Prices: "as given", WallS: experiment.Number(math.NaN()), Warnings: []string{"a warning"}}
	for _, method := range spot.Methods() {
		got, err := method.Run(j, m, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if method.Name == policy {
			r.Outcome = got
		}
		if method.Name == "optimum" {
			r.Optimum = &got
		}
		r.Others = append(r.Others, spot.Other{Policy: method.Name, Outcome: got})
	}
	return r
}

func written(t *testing.T, r *spot.Report, format string) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b, format); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestFormats(t *testing.T) {
	r := waits(t, "greedy")
	for format, want := range map[string][]string{
		"text": {"greedy: 4.167 min of work in 16.67 min", "capacity 90 % of the time", "cost               3.10 USD", "on demand alone    8.40 USD", "saved              63.1 %", "optimum            2.80 USD", "met, 9.833 min early",
			"waiting            100 s", "machines started   2", "reclaimed          1", "spot-only", "note: a warning"},
		"csv":  {"from_s,to_s,machine,zone,done_s\n0,200,spot,east,170\n200,300,none,,170\n300,410,spot,east,250\n"},
		"html": {"<!DOCTYPE html>", "capacity &lt;b&gt;", "capacity in east", "Ahead of the straight line", "a warning"},
	} {
		got := written(t, r, format)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: no %q in\n%s", format, w, got)
			}
		}
	}
	if err := r.Write(&bytes.Buffer{}, "pdf"); err == nil || !strings.Contains(err.Error(), "csv, html, json, text") {
		t.Error(err)
	}
}

func TestJSON(t *testing.T) {
	var got struct {
		Schema   int
		Engine   string
		Cost     float64                   `json:"cost_usd"`
		Optimum  float64                   `json:"optimum_cost_usd"`
		Alone    float64                   `json:"on_demand_cost_usd"`
		Elapsed  *float64                  `json:"elapsed_s"`
		Wall     *float64                  `json:"wall_s"`
		Drawn    *struct{}                 `json:"drawn"`
		Timeline []map[string]any          `json:"timeline"`
		Policies []struct{ Policy string } `json:"policies"`
		Warnings []string                  `json:"warnings"`
		Zones    []string                  `json:"zones"`
	}
	if err := json.Unmarshal([]byte(written(t, waits(t, "greedy"), "json")), &got); err != nil {
		t.Fatal(err)
	}
	if got.Schema != 1 || got.Engine != "spot" || math.Abs(got.Cost-3.1) > 1e-9 || math.Abs(got.Optimum-2.8) > 1e-9 || math.Abs(got.Alone-8.4) > 1e-9 || got.Elapsed == nil || *got.Elapsed != 410 ||
		got.Wall != nil || got.Drawn != nil || len(got.Timeline) != 3 || len(got.Policies) != len(spot.Methods()) || len(got.Warnings) != 1 || got.Zones[0] != "east" {
		t.Errorf("%+v", got)
	}
}

// TestNeverDone checks that a job without end has null values and a statement in text.
func TestNeverDone(t *testing.T) {
	j := capacity.Job{WorkS: 500, DeadlineS: 550, ChangeoverS: 100, SpotUSDHour: 1, OnDemandUSDHour: 3}
	m := spot.Market{TickS: 100, Zones: []spot.Zone{{Name: "z", Up: []bool{true, false}}}}
	out, err := spot.Run(capacity.SpotOnly, j, m, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := &spot.Report{Policy: "spot-only", Job: j, Market: m, Outcome: out}
	if got := written(t, r, "text"); !strings.Contains(got, "missed: not done after 3.056 h, 8.333 min of work left") {
		t.Error(got)
	}
	if got := written(t, r, "json"); !strings.Contains(got, `"elapsed_s": null`) || !strings.Contains(got, `"optimum_cost_usd": null`) || !strings.Contains(got, `"missed": true`) {
		t.Error(got)
	}
	written(t, r, "html")
}
