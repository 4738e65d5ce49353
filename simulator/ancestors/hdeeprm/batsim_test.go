package hdeeprm

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"trainopt/optimizer/schedule/order"
)

// batsimPublished returns the path of a file of the published data; it skips the test if the file does not exist.
func batsimPublished(t *testing.T, path string) string {
	t.Helper()
	full := filepath.Join("../../../../shared/data/hdeeprm", path)
	if _, err := os.Stat(full); err != nil {
		t.Skipf("the published data are not here: %v", err)
	}
	return full
}

// various contains every type of profile, in the vocabularies of versions 1, 3 and 5.
const various = `{
 "nb_res": 4, "description": "passed over",
 "jobs": [
  {"id": 7, "subtime": 10, "walltime": 12.5, "res": 4, "profile": "hom", "user": "ann"},
  {"id": 3, "subtime": 5.5, "walltime": -1, "res": 2, "profile": "total"},
  {"id": 1, "subtime": 5.5, "res": 2, "profile": "par"},
  {"id": 2, "subtime": 0, "res": 1, "profile": "wait"},
  {"id": 4, "subtime": 0, "res": 1, "profile": "twice"},
  {"id": 5, "subtime": 0, "res": 4, "profile": "spread"},
  {"id": 6, "subtime": 0, "res": 1, "profile": "io"},
  {"id": 8, "subtime": 0, "res": 1, "profile": "mixed"},
  {"id": 9, "subtime": 0, "res": 1, "profile": "trace"},
  {"id": 10, "subtime": 0, "res": 2, "profile": "talk"},
  {"id": 11, "subtime": 0, "res": 1, "profile": "io"}
 ],
 "profiles": {
  "hom": {"type": "parallel_homogeneous", "cpu": 8e9, "com": 0, "req_time": 5, "req_ops": 1e10, "mem": 8000, "mem_bw": 24, "ret": 1},
  "total": {"type": "msg_par_hg_tot", "cpu": 8e9, "com": 4},
  "par": {"type": "parallel", "cpu": [1e9, 3e9], "com": [0, 0, 0, 0]},
  "wait": {"type": "DelayProfile", "delay": 20.25, "extra_data": "{\"mem\": 100, \"mem_bw\": 4}"},
  "twice": {"type": "composed", "repeat": 2, "seq": ["hom", "hom"]},
  "spread": {"type": "ParallelTaskHomogeneousProfile", "cpu": 8e9, "com": 0, "generation_strategy": "DefinedAmountsSpreadUniformly"},
  "io": {"type": "ParallelTaskOnStorageHomogeneousProfile", "bytes_to_read": 1e6, "bytes_to_write": 1, "storage": "pfs"},
  "mixed": {"type": "SequentialCompositionProfile", "seq": ["hom", "wait"]},
  "trace": {"type": "TraceReplayProfile", "trace_type": "SMPI", "filename": "x"},
  "talk": {"type": "parallel_homogeneous", "cpu": 0, "com": 1e6}
 }
}`

func TestBatsimConvert(t *testing.T) {
	w, err := ReadWorkload(strings.NewReader(various))
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.Convert(SpeedOptions{Reference: 2})
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for i := range c.Jobs {
		j := &c.Jobs[i]
		fmt.Fprintf(&got, "%d %s: submit %v procs %d run %v request %v limit %v ops %v of %v mem %v bw %v\n", j.ID, c.Profile(j), j.Submit, j.Procs, j.Run, j.Request,
			j.Limit, j.Ops, j.RequestOps, j.Memory, j.Bandwidth)
	}
	const want = `2 wait: submit 0 procs 1 run 20.25 request 20.25 limit 0 ops 0 of 0 mem 100 bw 4
4 twice: submit 0 procs 1 run 16 request 16 limit 0 ops 3.2e+10 of 3.2e+10 mem 8000 bw 24
5 spread: submit 0 procs 4 run 1 request 1 limit 0 ops 2e+09 of 2e+09 mem 0 bw 0
3 total: submit 5.5 procs 2 run 2 request 2 limit 0 ops 4e+09 of 4e+09 mem 0 bw 0
1 par: submit 5.5 procs 2 run 1.5 request 1.5 limit 0 ops 3e+09 of 3e+09 mem 0 bw 0
7 hom: submit 10 procs 4 run 4 request 5 limit 12.5 ops 8e+09 of 1e+10 mem 8000 bw 24
`
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
	const account = `dropped 1: profile composed of work and delays; dropped 1: profile of communication alone; ` +
		`dropped 2: profile of type "parallel_homogeneous_pfs"; dropped 1: profile of type "smpi"; ` +
		`changed 1: communication left out; changed 1: cores of unequal work: all get that of the one with most; ` +
		`changed 2: it ends with an error: counted as a success`
	if got := c.Summary(); got != account {
		t.Errorf("got  %s\nwant %s", got, account)
	}
}

// Job names that are not numbers are kept beside the index in the workload.
func TestConvertOfNamedJobs(t *testing.T) {
	w := &BatsimWorkload{Jobs: []BatsimJob{{ID: "w1!b", Submit: 3, Resources: 1, Profile: "p"}, {ID: "7", Submit: 1, Resources: 1, Profile: "p"}},
		Profiles: map[string]batsimProfile{"p": {Type: delay, Seconds: 0.5}}}
	c, err := w.Convert(SpeedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a, b := c.Jobs[0], c.Jobs[1]
	if a.ID != 1 || a.Name != "7" || b.ID != 0 || b.Name != "w1!b" || a.Request != 1 {
		t.Errorf("got %+v and %+v", a, b)
	}
}

func TestBatsimConvertWithMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		w    BatsimWorkload
		o    SpeedOptions
		want string
	}{
		"no profile": {BatsimWorkload{Jobs: []BatsimJob{{ID: "a", Resources: 1, Profile: "p"}}}, SpeedOptions{}, `job "a": profile: there is no profile "p"`},
		"of itself": {BatsimWorkload{Jobs: []BatsimJob{{ID: "a", Resources: 1, Profile: "p"}},
			Profiles: map[string]batsimProfile{"p": {Type: composed, Sequence: []string{"p"}}}}, SpeedOptions{}, `"p" is composed of itself`},
		"cores": {BatsimWorkload{Jobs: []BatsimJob{{ID: "a", Resources: 3, Profile: "p"}},
			Profiles: map[string]batsimProfile{"p": {Type: parallel, CPU: []float64{1, 2}}}}, SpeedOptions{}, `job "a": res: 3 cores, but cpu of profile "p" has 2 numbers`},
		"speed": {BatsimWorkload{}, SpeedOptions{Reference: -1}, "reference speed of -1"},
		"large": {BatsimWorkload{Jobs: []BatsimJob{{ID: "a", Resources: 1, Profile: "p"}},
			Profiles: map[string]batsimProfile{"p": {Type: composed, Sequence: []string{"q"}, Repeat: 9}, "q": {Type: homogeneous, CPU: []float64{1e308}}}},
			SpeedOptions{}, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := c.w.Convert(c.o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// Round trip in either vocabulary.
func TestThereAndBack(t *testing.T) {
	w, err := ReadWorkload(strings.NewReader(various))
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []int{3, 5} {
		var b bytes.Buffer
		if err := w.Write(&b, version); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		again, err := ReadWorkload(&b)
		if err != nil {
			t.Fatalf("version %d: %v\n%s", version, err, text)
		}
		if !reflect.DeepEqual(again, w) {
			t.Errorf("version %d: got %+v\nwant %+v\n%s", version, again, w, text)
		}
		if five := strings.Contains(text, "DelayProfile"); five != (version == 5) {
			t.Errorf("version %d: %s", version, text)
		}
	}
	if err := w.Write(new(bytes.Buffer), 4); err == nil {
		t.Error("version 4 was written")
	}
}

// TestShadowedFields requires that a field of extra_data that the profile contains with another value is kept, over
// writing and reading too.
func TestShadowedFields(t *testing.T) {
	w, err := ReadWorkload(strings.NewReader(`{"jobs": [], "profiles": {"p": {"type": "delay", "delay": 4, "note": 1, "same": 7,
		"extra_data": "{\"delay\": 5, \"note\": 2, \"same\": 7, \"more\": 3}"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		p := w.Profiles["p"]
		var shadowed map[string]int
		var text string
		err := errors.Join(json.Unmarshal(p.Extra["extra_data"], &text), json.Unmarshal([]byte(text), &shadowed))
		if want := map[string]int{"delay": 5, "note": 2}; err != nil || p.Seconds != 4 || string(p.Extra["note"]) != "1" || string(p.Extra["same"]) != "7" ||
			string(p.Extra["more"]) != "3" || !maps.Equal(shadowed, want) {
			t.Errorf("%v s, %s (%v); want 4 s and %v in extra_data", p.Seconds, p.Extra, err, want)
		}
		var b bytes.Buffer
		if err := w.Write(&b, 5); err != nil {
			t.Fatal(err)
		}
		if w, err = ReadWorkload(&b); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReadWithMistakes(t *testing.T) {
	job := func(fields string) string {
		return `{"jobs": [` + fields + `], "profiles": {"p": {"type": "delay", "delay": 1}}}`
	}
	profile := func(fields string) string { return `{"jobs": [], "profiles": {"x": ` + fields + `}}` }
	for name, c := range map[string]struct{ text, want string }{
		"not JSON":      {`{"jobs"`, "unexpected EOF"},
		"two documents": {job("") + "{}", "something follows"},
		"no jobs":       {`{"profiles": {}}`, "jobs and profiles must be there"},
		"nb_res":        {`{"nb_res": -4, "jobs": [], "profiles": {}}`, "nb_res: -4, want at least 0"},
		"no id":         {job(`{"subtime": 1, "res": 1, "profile": "p"}`), "job number 0: id is missing"},
		"no res":        {job(`{"id": 1, "subtime": 1, "profile": "p"}`), `job "1": res is missing`},
		"res 0":         {job(`{"id": 1, "subtime": 1, "res": 0, "profile": "p"}`), `job "1": res: 0, want at least 1`},
		"res 1.5":       {job(`{"id": 1, "subtime": 1, "res": 1.5, "profile": "p"}`), `job "1": res: 1.5, want a whole number`},
		"subtime":       {job(`{"id": "a", "subtime": -1, "res": 1, "profile": "p"}`), `job "a": subtime: -1`},
		"words":         {job(`{"id": "a", "subtime": "soon", "res": 1, "profile": "p"}`), `job "a": subtime: "soon", want a number`},
		"walltime":      {job(`{"id": "a", "subtime": 0, "res": 1, "profile": "p", "walltime": 0}`), `job "a": walltime: 0`},
		"profile":       {job(`{"id": "a", "subtime": 0, "res": 1, "profile": "q"}`), `job "a": profile: there is no profile "q"`},
		"twice":         {job(`{"id": 1, "subtime": 0, "res": 1, "profile": "p"}, {"id": "1", "subtime": 0, "res": 1, "profile": "p"}`), `job "1": id: there are two`},
		"not an object": {job(`3`), "job number 0: want an object"},
		"no type":       {profile(`{}`), `profile "x": type is missing`},
		"no delay":      {profile(`{"type": "delay"}`), `profile "x": delay is missing`},
		"delay":         {profile(`{"type": "delay", "delay": -2}`), `profile "x": delay: -2`},
		"cpu":           {profile(`{"type": "parallel_homogeneous", "cpu": [1, 2], "com": 0}`), `want one number each`},
		"com":           {profile(`{"type": "parallel", "cpu": [1, 2], "com": [0, 0, 0]}`), "com: 3 numbers for 2 cores, want 4"},
		"negative":      {profile(`{"type": "parallel", "cpu": [1, -2]}`), "cpu: number 1 is -2"},
		"strategy":      {profile(`{"type": "parallel_homogeneous", "cpu": 1, "com": 0, "generation_strategy": "even"}`), `generation_strategy: "even"`},
		"ret":           {profile(`{"type": "delay", "delay": 1, "ret": 1.5}`), "ret: 1.5, want a whole number"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ReadWorkload(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	many := `{"jobs": [` + strings.Repeat(`{"id": 1},`, 40) + `{"id": 1}], "profiles": {}}`
	if _, err := ReadWorkload(strings.NewReader(many)); err == nil || strings.Count(err.Error(), "\n") != shown || !strings.Contains(err.Error(), "more") {
		t.Errorf("many mistakes: got %v, want %d and how many more", err, shown)
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.json.gz")
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(various)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if w, err := loadWorkload(path); err != nil || len(w.Jobs) != 11 {
		t.Errorf("got %v", err)
	}
	if _, err := loadWorkload(path + "x"); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a file that is not there: got %v", err)
	}
}

func TestPublishedWorkload(t *testing.T) {
	w, err := loadWorkload(batsimPublished(t, "workloads/learning.json"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.Convert(SpeedOptions{Reference: 4.2})
	if err != nil {
		t.Fatal(err)
	}
	j := c.Jobs[1]
	if w.Resources != 4 || len(c.Jobs) != 2 || j.Procs != 1 || j.Ops != 21e9 || j.RequestOps != 21e9 || j.Request != 5 || j.Run != 5 || j.Memory != 8000 || j.Bandwidth != 24 {
		t.Errorf("got %+v", j)
	}
}

// Jobs are converted to a workload and back.
func TestFromJobs(t *testing.T) {
	jobs := []order.Job{
		{ID: 0, Submit: 1, Procs: 2, Run: 3, Request: 4, Ops: 6e9, RequestOps: 8e9, Memory: 10, Bandwidth: 4},
		{ID: 1, Submit: 2, Procs: 1, Run: 3, Request: 4, Ops: 6e9, RequestOps: 8e9, Memory: 10, Bandwidth: 4},
		{ID: 2, Submit: 2, Procs: 1, Run: 7, Request: 9, Limit: 8},
	}
	w := FromJobs(jobs, 4)
	if len(w.Profiles) != 2 {
		t.Errorf("%d profiles, want 2: jobs with the same work share one", len(w.Profiles))
	}
	c, err := w.Convert(SpeedOptions{Reference: 2})
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range c.Jobs {
		if !math.IsNaN(got.Deadline) || got.User != -1 {
			t.Errorf("job %d: %+v, want no deadline and no user", i, got)
		}
		got.Deadline, got.User, got.Group, got.Executable = 0, 0, 0, 0
		if got != jobs[i] {
			t.Errorf("got %+v, want %+v", got, jobs[i])
		}
	}
}

func TestStat(t *testing.T) {
	w, err := ReadWorkload(strings.NewReader(various))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]float64{"size min": 1, "size max": 4, "size mean": 20.0 / 11, "size median": 1, "size p95": 4,
		"req_time max": 5, "mem max": 8000, "mem_bw p99": 22} {
		field, stat, _ := strings.Cut(key, " ")
		if got, err := w.Stat(field, stat); err != nil || math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: got %v, %v, want %v", key, got, err, want)
		}
	}
	if _, err := w.Stat("color", "min"); err == nil || !strings.Contains(err.Error(), "req_time") {
		t.Errorf("an unknown field: got %v", err)
	}
	if _, err := w.Stat("size", "mode"); err == nil || !strings.Contains(err.Error(), "median") {
		t.Errorf("an unknown statistic: got %v", err)
	}
	if _, err := new(BatsimWorkload).Stat("size", "min"); err == nil {
		t.Error("a workload without jobs has a smallest")
	}
}

// FuzzRead checks that any accepted workload converts to valid jobs and survives a round trip in both versions.
func FuzzRead(f *testing.F) {
	f.Add(various)
	f.Add(`{"jobs": [{"id": "a", "subtime": 1e300, "res": 2, "profile": ""}], "profiles": {"": {"type": "x", "y": [1]}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		w, err := ReadWorkload(strings.NewReader(text))
		if err != nil {
			return
		}
		c, err := w.Convert(SpeedOptions{})
		if err == nil {
			for _, j := range c.Jobs {
				if j.Procs < 1 || !(j.Submit >= 0) || !(j.Run >= 0) || !(j.Request >= 0) {
					t.Fatalf("job %+v", j)
				}
			}
		}
		for _, version := range []int{3, 5} {
			var b bytes.Buffer
			if err := w.Write(&b, version); err != nil {
				t.Fatal(err)
			}
			again, err := ReadWorkload(bytes.NewReader(b.Bytes()))
			if err != nil {
				t.Fatalf("version %d, written and read again: %v\n%s", version, err, b.Bytes())
			}
			if len(again.Jobs) != len(w.Jobs) || len(again.Profiles) != len(w.Profiles) {
				t.Fatalf("version %d: %d jobs and %d profiles, want %d and %d", version, len(again.Jobs), len(again.Profiles), len(w.Jobs), len(w.Profiles))
			}
		}
	})
}

// Summary returns the account in one line; "" if nothing was dropped or adjusted.
func (c *conversion) Summary() string {
	var parts []string
	for _, m := range []struct {
		verb   string
		counts map[string]int
	}{{"dropped", c.Dropped}, {"changed", c.Adjusted}} {
		for _, reason := range slices.Sorted(maps.Keys(m.counts)) {
			parts = append(parts, fmt.Sprintf("%s %d: %s", m.verb, m.counts[reason], reason))
		}
	}
	return strings.Join(parts, "; ")
}
