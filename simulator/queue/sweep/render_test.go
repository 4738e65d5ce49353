package sweep

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
	"trainopt/simulator/workload/swf"
)

func simulated(t *testing.T, policy string) *RunView {
	t.Helper()
	w, err := Generate(swf.Lublin{Jobs: 40, Procs: 16, Seed: 2, Load: 0.9})
	if err != nil {
		t.Fatal(err)
	}
	r, err := w.Run(t.Context(), Method{Policy: policy}, Window{})
	if err != nil {
		t.Fatal(err)
	}
	return &RunView{Run: r, Source: "x<y>.swf", WallS: math.NaN(), Notes: []string{"last"}}
}

func written(t *testing.T, r *RunView, format string) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b, format); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestFormats(t *testing.T) {
	for format, want := range map[string][]string{
		"text": {"saf on 16 equal processors", "EASY backfilling", "40, all ended", "note: last"},
		"csv":  {"id,submit_s,start_s,end_s,procs,state,wait_s,bounded_slowdown,allocated"},
		"html": {"<!DOCTYPE html>", "Jobs on cores", "Waiting jobs", "Utilization over time", "Jobs with the largest slowdown", "x&lt;y&gt;.swf"},
		"json": {`"schema": 1`, `"energy_joules": null`, `"wall_s": null`},
	} {
		got := written(t, simulated(t, "saf"), format)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s lacks %q\n%.600s", format, w, got)
			}
		}
		if got != written(t, simulated(t, "saf"), format) {
			t.Errorf("%s differs from run to run", format)
		}
	}
	if err := simulated(t, "saf").Write(&bytes.Buffer{}, "xml"); err == nil || !strings.Contains(err.Error(), "csv, html, json, text") {
		t.Errorf("an unknown format: %v", err)
	}
}

// TestJSONAndCSVAgree checks that both contain every job with equal times.
func TestJSONAndCSVAgree(t *testing.T) {
	r := simulated(t, "sjf")
	r.Jobs[7].State, r.Jobs[7].Start, r.Jobs[7].End = queue.Rejected, math.NaN(), math.NaN()
	var d struct {
		Jobs []struct {
			ID        string
			Start     *float64 `json:"start_s"`
			Allocated *string
			State     string
		}
	}
	if err := json.Unmarshal([]byte(written(t, r, "json")), &d); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(written(t, r, "csv"))).ReadAll()
	if err != nil || len(rows) != 41 || len(d.Jobs) != 40 {
		t.Fatalf("%d rows, %d jobs: %v", len(rows), len(d.Jobs), err)
	}
	for i, j := range d.Jobs {
		start := ""
		if j.Start != nil {
			start = cell(*j.Start)
		}
		if row := rows[i+1]; row[0] != j.ID || row[2] != start || row[5] != j.State || j.Allocated != nil {
			t.Errorf("job %d: %v and %+v", i, row, j)
		}
	}
	if d.Jobs[7].Start != nil || rows[8][7] != "" {
		t.Errorf("what never started has times: %+v, %v", d.Jobs[7], rows[8])
	}
}

// TestLevel checks that the integral of a line equals that of the quantity shown.
func TestLevel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "n")
		var c []change
		sum := 0.0
		for range n {
			a := rapid.Float64Range(0, 9000).Draw(t, "from")
			b := a + rapid.Float64Range(0, 1000).Draw(t, "long")
			c = append(c, change{a, 2}, change{b, -2})
			sum += 2 * (b - a)
		}
		got := 0.0
		for _, p := range level(c, 0, 10000, 1) {
			got += p.Y * 10000 / shownSteps
		}
		if math.Abs(got-sum) > 1e-6*(1+sum) {
			t.Fatalf("%v, want %v", got, sum)
		}
	})
}

// TestBoxes checks that every job has as many cores as requested, and that no core has two jobs simultaneously.
func TestBoxes(t *testing.T) {
	r := simulated(t, "saf")
	checkBoxes(t, r.Result)
}

func checkBoxes(t *testing.T, r *queue.Result) {
	t.Helper()
	all := boxes(r)
	cores := map[int]int{}
	for i, a := range all {
		cores[a.job] += a.to - a.from
		for _, b := range all[:i] {
			if a.from < b.to && b.from < a.to && a.at < b.end && b.at < a.end {
				t.Fatalf("two jobs at once: %+v, %+v", a, b)
			}
		}
	}
	for i := range r.Jobs {
		if r.Jobs[i].State == queue.Completed && cores[i] != r.Jobs[i].Job.Procs {
			t.Errorf("job %d has %d cores, wants %d", i, cores[i], r.Jobs[i].Job.Procs)
		}
	}
}

// TestBandwidth checks the amount and the duration of oversubscription by two jobs on one processor.
func TestBandwidth(t *testing.T) {
	tree, err := platform.Example("learning")
	if err != nil {
		t.Fatal(err)
	}
	job := order.Job{Procs: 1, Bandwidth: 24}
	r := &RunView{Run: &Run{Tree: tree, Result: &queue.Result{Procs: 4, Jobs: []queue.Outcome{
		{Job: &job, State: queue.Completed, Start: 0, End: 10, Cores: []int32{2}}, {Job: &job, State: queue.Completed, Start: 4, End: 6, Cores: []int32{3}}}}}}
	over := overuse(r)
	p := tree.ProcessorOf[2]
	want := (48 - tree.Processors[p].Bandwidth) * 2
	if math.Abs(over[p].excess-want) > 1e-9 || want <= 0 || over[1-p].excess != 0 {
		t.Errorf("%+v, want %v GB too much on processor %d", over, want, p)
	}
	checkBoxes(t, r.Result)
	if c, ok := bandwidthChart(r); !ok || len(c.Series) != 1 {
		t.Errorf("%+v, %v", c, ok)
	}
}

// TestDense checks that many jobs are drawn as shares, and that the page remains small.
func TestDense(t *testing.T) {
	w, err := Generate(swf.Lublin{Jobs: 20000, Procs: 64, Seed: 2, Load: 0.9})
	if err != nil {
		t.Fatal(err)
	}
	run, err := w.Run(t.Context(), Method{Policy: "saf"}, Window{})
	if err != nil {
		t.Fatal(err)
	}
	if got := written(t, &RunView{Run: run}, "html"); len(got) > 2<<20 || !strings.Contains(got, "too many jobs for boxes") {
		t.Errorf("%d bytes", len(got))
	}
}

// TestPoliciesAreDescribed checks that every policy is listed with a description, in at most 100 columns.
func TestPoliciesAreDescribed(t *testing.T) {
	list := PolicyList()
	text := list.Text()
	for _, n := range queue.Backfills() {
		if described[n] == "" {
			t.Errorf("backfill %s is not described", n)
		}
	}
	for _, n := range hdeeprm.JobPolicies() {
		if described["job "+n] == "" {
			t.Errorf("job policy %s is not described", n)
		}
	}
	for _, n := range hdeeprm.CorePolicies() {
		if described["core "+n] == "" {
			t.Errorf("core policy %s is not described", n)
		}
	}
	for _, n := range append(queue.Placements(), order.OrderNames()...) {
		if !strings.Contains(text, "\n  "+n+" ") {
			t.Errorf("%s is not listed", n)
		}
	}
	for _, line := range strings.Split(text, "\n") {
		if len([]rune(line)) > 100 {
			t.Errorf("wider than 100: %s", line)
		}
	}
	// A heading of two lines in text is one in JSON, and no part of the entry before it.
	data, err := json.Marshal(list)
	if err != nil || !strings.Contains(string(data), `{"group":"Placements (--placement): where an order's jobs run on a platform","name":"random","text":"any cores"}`) ||
		!strings.Contains(string(data), `Bosque 2019). The job policy:","name":"random"`) {
		t.Errorf("%v: %s", err, data)
	}
}
