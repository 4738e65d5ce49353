package history

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
)

const tableHeader = "id,gpu,gpus,nodes,batch,throughput,seconds,count,spread,framework\n"

func TestEmbeddedIsWhole(t *testing.T) {
	entries := Published()
	got := map[string]int{}
	for _, e := range entries {
		checkEntry(t, e.ID, e)
		source, _, _ := strings.Cut(e.ID, "/")
		got[source]++
	}
	if want := "map[elasticflow:114 gavel:172 mlperf:103 pollux:410]"; fmt.Sprint(got) != want {
		t.Errorf("entries by source %v, want %s", got, want)
	}
	if len(measurements) > 120_000 {
		t.Errorf("%d bytes, want at most 120,000", len(measurements))
	}
	if len(IrregularCurves(entries)) > 0 {
		t.Errorf("irregular: %v", IrregularCurves(entries))
	}
	entries[0].ID = "changed"
	if Published()[0].ID == "changed" {
		t.Error("Published shares its slice")
	}
}

// TestEmbeddedIsWhatTheTablesSay requires that the embedded figures equal those of the original tables after
// rounding.
func TestEmbeddedIsWhatTheTablesSay(t *testing.T) {
	tables := load(t)
	near := func(got, want float64) bool {
		return math.IsNaN(got) && math.IsNaN(want) || math.Abs(got/want-1) <= 5e-4
	}
	for _, e := range Published() {
		if strings.HasPrefix(e.ID, "mlperf/") {
			continue
		}
		w, there := tables[e.ID]
		if !there || e.Source != w.Source || !near(e.Throughput, w.Throughput) || !near(e.UnitTime, w.UnitTime) ||
			!near(e.UnitCount, w.UnitCount) || !near(e.UnitSpread, w.UnitSpread) ||
			fmt.Sprint(e.Job, e.Observed) != fmt.Sprint(w.Job, w.Observed) {
			t.Errorf("got  %+v\nwant %+v", e, w)
		}
	}
}

// TestEmbeddedMedians requires that a median lies within its submissions and counts their submitters, and that the
// median of a single submission equals it.
func TestEmbeddedMedians(t *testing.T) {
	submissions := map[string][]Entry{}
	key := func(e Entry) string {
		return fmt.Sprint(e.Job.Model, e.Observed.GPU, e.Observed.GPUs, e.Observed.Nodes, e.Observed.Batch)
	}
	for id, e := range load(t) {
		if strings.HasPrefix(id, "mlperf-v5.0/") {
			submissions[key(e)] = append(submissions[key(e)], e)
		}
	}
	found := 0
	for _, e := range Published() {
		if !strings.HasPrefix(e.ID, "mlperf/") {
			continue
		}
		of := submissions[key(e)]
		found += len(of)
		lo, hi, submitters := math.Inf(1), 0.0, map[string]bool{}
		for _, s := range of {
			lo, hi = min(lo, s.Seconds), max(hi, s.Seconds)
			submitters[strings.Split(s.ID, "/")[2]] = true
		}
		if e.Seconds < lo*(1-5e-4) || e.Seconds > hi*(1+5e-4) || e.UnitCount != float64(len(submitters)) || (e.UnitSpread > 0) != (len(submitters) > 1) {
			t.Errorf("%s: %g s, %g submitters, spread %g; submissions took %g to %g s, of %d", e.ID, e.Seconds, e.UnitCount, e.UnitSpread, lo, hi, len(submitters))
		}
	}
	if found != 201 {
		t.Errorf("%d submissions in medians, want all 201", found)
	}
}

func TestParseRefuses(t *testing.T) {
	good := "pollux/bert/t4/1x1/b4,T4,1,1,4,8.785,,2,0.01,\n"
	for name, c := range map[string]struct{ text, want string }{
		"empty":                  {"", "empty, want a header"},
		"other publishedColumns": {"id,gpu\n", `no column "gpus"`},
		"fields":                 {tableHeader + "pollux/bert/t4/1x1/b4,T4\n", "line 2: wrong number of fields"},
		"twice":                  {"# note\n" + tableHeader + good + good, `line 4: id "pollux/bert/t4/1x1/b4" occurs twice`},
		"unknown source":         {tableHeader + strings.Replace(good, "pollux", "guess", 1), `line 2: guess/bert/t4/1x1/b4: source "guess" is not known`},
		"unknown model":          {tableHeader + strings.Replace(good, "bert", "bart", 1), `model "bart" of pollux is not known`},
		"no GPU":                 {tableHeader + strings.Replace(good, "T4", "", 1), "no gpu"},
		"fewer GPUs":             {tableHeader + strings.Replace(good, ",1,1,4,", ",1,2,4,", 1), "1 GPUs on 2 nodes"},
		"NaN":                    {tableHeader + strings.Replace(good, "8.785", "NaN", 1), "not a finite number"},
		"negative":               {tableHeader + strings.Replace(good, "8.785", "-8", 1), `throughput "-8", want a positive number or nothing`},
		"zero for unknown":       {tableHeader + strings.Replace(good, ",8.785,,", ",8.785,0,", 1), `seconds "0", want a positive number or nothing`},
		"no figure":              {tableHeader + strings.Replace(good, "8.785", "", 1), "want either throughput or seconds"},
		"two figures":            {tableHeader + strings.Replace(good, "8.785,", "8.785,3", 1), "want either throughput or seconds"},
		"no batch":               {tableHeader + strings.Replace(good, ",4,8.785", ",,8.785", 1), "no batch"},
		"GPUs not a number":      {tableHeader + strings.Replace(good, ",1,1,4", ",one,1,4", 1), `"one", want a whole number from 1`},
		"an open quote":          {tableHeader + `"pollux` + "\n", "line 2"},
		"GPUs not whole":         {tableHeader + strings.Replace(good, ",1,1,4", ",1.5,1,4", 1), "want a whole number from 1"},
		"spread with a sign":     {tableHeader + strings.Replace(good, "0.01", "-0.01", 1), "spread"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parsePublished(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
	if entries, err := parsePublished(strings.NewReader(tableHeader + good)); err != nil || len(entries) != 1 {
		t.Errorf("the good row: %v, %v", entries, err)
	}
}

func TestFormatRefusesWhatHasNoLicence(t *testing.T) {
	for _, id := range []string{"sia/bert/rtx/1x1/b4", "mlperf-v4.1/bert/Dell/x", "elsewhere/bert/t4/1x1/b4"} {
		_, err := FormatPublished([]Entry{NewEntry(Table, id)}, "2026-01-01")
		if err == nil || !strings.Contains(err.Error(), id+": its source has no licence") {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// FuzzParse requires that parsed entries survive a round trip through FormatPublished, and that no input makes Parse panic.
func FuzzParse(f *testing.F) {
	f.Add(tableHeader + "pollux/bert/t4/1x1/b4,T4,1,1,4,8.785,,2,0.01,\n")
	f.Add("# note\n" + tableHeader + "mlperf/bert/h100/8x8/g4608,H100,64,8,4608,,52.77,1,,pytorch\n")
	f.Add(tableHeader + "gavel/lm/k80/8x1/b5,K80,8,1,40,384.3,,,,\nelasticflow/yolov3/t4/1/g64,T4,1,1,64,28.04,,,,\n")
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := parsePublished(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, e := range entries {
			if e.ID == "" || e.Observed.GPU == "" || !(e.Throughput > 0) && !(e.Seconds > 0) || e.Observed.GPUs < float64(e.Observed.Nodes) {
				t.Fatalf("parsed %+v", e)
			}
		}
		first, err := FormatPublished(entries, "2026-01-01")
		if err != nil {
			return // a source without a licence
		}
		again, err := parsePublished(bytes.NewReader(first))
		if err != nil {
			t.Fatalf("what FormatPublished wrote is refused: %v\n%s", err, first)
		}
		second, err := FormatPublished(again, "2026-01-01")
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%v\n%s\n%s", err, first, second)
		}
	})
}
