package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"trainopt/cost"
	"trainopt/internal/conformance"
	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/sla"
)

// full sets every field of a value: pointers, one element in every list and map.
func full(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		full(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		full(v.Index(0))
	case reflect.Map:
		e := reflect.New(v.Type().Elem()).Elem()
		full(e)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), e)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 11, 20, 22, 0, 0, 0, time.UTC)))
			return
		}
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				full(f)
			}
		}
	case reflect.String:
		v.SetString(map[reflect.Type]string{
			reflect.TypeFor[State](): "done", reflect.TypeFor[sla.Objective](): "time", reflect.TypeFor[sla.Status](): "met",
		}[v.Type()])
		if v.String() == "" {
			v.SetString("text")
		}
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.Float64:
		v.SetFloat(0.25)
	case reflect.Bool:
		v.SetBool(true)
	}
}

func fullRecord() *Record {
	var r Record
	full(reflect.ValueOf(&r).Elem())
	r.Schema, r.Altered = Schema, false
	r.Exit.Reason = "exited"
	r.Actions[0].Applied = "live"
	r.Plan.Options[0].Prefer = "time"
	// A record contains only a part of these domain types.
	g := r.Host.GPUs[0]
	r.Host = Host{resources.Host{CPUs: r.Host.CPUs, CPUModel: r.Host.CPUModel, Memory: r.Host.Memory, GPUs: []resources.GPU{{UUID: g.UUID, Name: g.Name, Memory: g.Memory}},
		Described: r.Host.Described, Notes: r.Host.Notes}}
	r.Prices.Assumed = ""
	r.SLA.TimeMax = 90 * time.Minute
	p := r.Plan.Plan
	r.Plan.Plan = plan.Plan{Allocation: p.Allocation, Planner: p.Planner, Reason: p.Reason, Binding: p.Binding, Candidates: p.Candidates, Options: p.Options}
	return &r
}

func TestRecordsFitTheSchema(t *testing.T) {
	running := fullRecord()
	running.Exit, running.ExitCode, running.FinishedAt, running.Model, running.Baseline, running.Plan.Prediction = nil, nil, nil, nil, nil, nil
	bare := &Record{Schema: 1, State: Planned} // made without NewRecord: lists must still be lists
	odd := NewRecord()
	odd.Preference.Time, odd.Outcome.CostUSD = math.NaN(), Number(math.Inf(1))
	odd.Plan = &Plan{Plan: plan.Plan{Candidates: []plan.Candidate{{Chance: math.NaN(), Throughput: sla.Interval{P5: 1, P50: 2, P95: math.Inf(1)}}}}}
	odd.Prices.CPUHour, odd.Host.Memory = cost.USD(math.NaN()), resources.GiB(math.Inf(1))
	nan := math.NaN()
	odd.SLA.Verdicts = []sla.Verdict{{Objective: sla.Time, Status: sla.Unknown, Value: &nan}}
	for name, r := range map[string]*Record{"new": NewRecord(), "full": fullRecord(), "running": running, "bare": bare, "not numbers": odd} {
		data, err := r.Encode()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := conformance.ValidateRecord(data); err != nil {
			t.Errorf("%s: %v\n%s", name, err, data)
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	cases := map[string]struct{ change, want string }{
		"a word where a number belongs": {`s/"restarts": 3/"restarts": "three"/`, "outcome.restarts"},
		"an unknown state":              {`s/"state": "done"/"state": "finished"/`, "state"},
		"a field that is gone":          {`s/"run_id": "text",//`, "run_id"},
		"a list that is null":           {`s/"command": \["text"\]/"command": null/`, "command"},
		"another schema":                {`s/"schema": 1/"schema": 2/`, "schema"},
		"a date that is none":           {`s/2026-11-20T22:00:00Z/yesterday/`, "started_at"},
		"a status that is none":         {`s/"status": "met"/"status": "fine"/`, "sla.verdicts.0.status"},
	}
	good, err := fullRecord().Encode()
	must(t, err)
	space := regexp.MustCompile(`\[\s+"text"\s+\]`)
	for name, c := range cases {
		p := strings.Split(c.change, "/")
		text := space.ReplaceAllString(string(good), `["text"]`)
		bad := strings.Replace(text, strings.ReplaceAll(p[1], `\`, ""), p[2], 1)
		if bad == text {
			t.Errorf("%s: the change does not apply", name)
			continue
		}
		if err := conformance.ValidateRecord([]byte(bad)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want a complaint about %q", name, err, c.want)
		}
	}
	if err := conformance.ValidateRecord([]byte("{")); err == nil {
		t.Error("half a document is valid")
	}
}

// section6 contains every path that run.json must have, as documented.
const section6 = `schema run_id name command script.path script.sha256 script.framework script.model script.dataset script.uses_gpu script.resumable
started_at finished_at state exit.code exit.signal exit.reason host.cpus host.memory_gib host.gpus.uuid host.gpus.name host.gpus.memory_gib
sla.deadline_s sla.budget_usd sla.min_throughput sla.max_memory_gib sla.min_gpu_util sla.min_cpu_util
sla.verdicts.objective sla.verdicts.limit sla.verdicts.value sla.verdicts.projected.p5 sla.verdicts.projected.p50 sla.verdicts.projected.p95
sla.verdicts.unit sla.verdicts.status sla.verdicts.severity sla.compliance prices.gpu_hour prices.cpu_hour prices.gib_hour prices.source prices.dated
preference.time preference.cost preference.resource
probes.allocation probes.rows probes.seconds probes.throughput probes.cost_usd probes.peak_memory_gib
plan.allocation.gpus plan.allocation.gpu_ids plan.allocation.cpus plan.allocation.memory_gib plan.allocation.batch_size plan.allocation.num_workers
plan.planner plan.reason plan.binding plan.prediction.seconds.p5 plan.prediction.cost_usd.p50 plan.prediction.throughput.p95
plan.candidates.allocation plan.candidates.seconds plan.candidates.cost_usd plan.candidates.resource plan.candidates.feasible plan.candidates.on_front
actions.at_s actions.action actions.description actions.from actions.to actions.reason actions.applied
critic_resets.at_s critic_resets.policy critic_resets.trigger
outcome.seconds outcome.active_seconds outcome.overhead_seconds outcome.cost_usd outcome.probe_cost_usd outcome.rows outcome.epochs outcome.throughput
outcome.gpu_util outcome.cpu_util outcome.peak_memory_gib outcome.restarts outcome.energy_joules
comparison.against comparison.seconds_change_pct comparison.cost_change_pct comparison.throughput_change_pct comparison.compliance_change_pct
waste_usd.idle waste_usd.input_bound waste_usd.over_provisioned waste_usd.restarts waste_usd.failed warnings`

func TestContractFieldsAreThere(t *testing.T) {
	data, err := fullRecord().Encode()
	must(t, err)
	var doc any
	must(t, json.Unmarshal(data, &doc))
	for _, path := range strings.Fields(section6) {
		at := doc
		for _, key := range strings.Split(path, ".") {
			if list, ok := at.([]any); ok {
				at = list[0]
			}
			next, ok := at.(map[string]any)[key]
			if !ok {
				t.Errorf("%s is missing", path)
				break
			}
			at = next
		}
	}
}

// TestSchemaDescribesEveryField fails for a field of Record that run.schema.json lacks.
func TestSchemaDescribesEveryField(t *testing.T) {
	var whole map[string]any
	text, err := os.ReadFile("run.schema.json")
	must(t, err)
	must(t, json.Unmarshal(text, &whole))
	data, err := fullRecord().Encode()
	must(t, err)
	var doc any
	must(t, json.Unmarshal(data, &doc))
	var walk func(path string, s map[string]any, v any)
	walk = func(path string, s map[string]any, v any) {
		if either, ok := s["anyOf"].([]any); ok {
			s = either[0].(map[string]any)
		}
		if ref, ok := s["$ref"].(string); ok {
			s = whole["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
		}
		switch v := v.(type) {
		case map[string]any:
			properties, _ := s["properties"].(map[string]any)
			for key, e := range v {
				sub, ok := properties[key].(map[string]any)
				if !ok {
					if sub, ok = s["additionalProperties"].(map[string]any); !ok {
						t.Errorf("%s.%s is not in the schema", path, key)
						continue
					}
				}
				walk(path+"."+key, sub, e)
			}
		case []any:
			walk(path, s["items"].(map[string]any), v[0])
		}
	}
	walk("record", whole, doc)
}

func TestNewRecordClaimsNothing(t *testing.T) {
	data, err := NewRecord().Encode()
	must(t, err)
	var doc map[string]any
	must(t, json.Unmarshal(data, &doc))
	for path, v := range map[string]any{
		"cost": doc["outcome"].(map[string]any)["cost_usd"], "deadline": doc["sla"].(map[string]any)["deadline_s"],
		"price": doc["prices"].(map[string]any)["gpu_hour"], "loss": doc["training"].(map[string]any)["train_loss"],
		"waste": doc["waste_usd"].(map[string]any)["idle"], "memory": doc["host"].(map[string]any)["memory_gib"],
	} {
		if v != nil {
			t.Errorf("%s is %v although nobody measured it, want null", path, v)
		}
	}
	if strings.Contains(string(data), "null") && doc["warnings"] == nil {
		t.Error("lists are null")
	}
	if p := Blank[Probe](); p.Seconds.Known() || p.UnitSeconds == nil {
		t.Errorf("blank probe %+v", p)
	}
}

func TestRecordComesBack(t *testing.T) {
	r := onDisk(t)
	want := fullRecord()
	want.Outcome.CostUSD = Unknown()
	want.Comparison.Basis = BasisThisRun                       // required for a settled record: two allocations were measured
	want.Outcome.Restarts = len(want.Overheads.RestartSeconds) // all were timed
	want.Measured = append(want.Measured, want.Measured[0])
	want.Measured[1].Allocation.CPUs++
	want.Measured[0].LiveCut, want.Measured[1].LiveCut = false, false
	want.Plan.Candidates[0].Seconds = sla.Interval{P5: 1.0 / 3, P50: 2.0 / 3, P95: 1e300}
	must(t, r.WriteRecord(want))
	got, err := ReadRecord(r.Dir())
	must(t, err)
	if got.Outcome.CostUSD.Known() {
		t.Errorf("unknown cost came back as %v", got.Outcome.CostUSD)
	}
	got.Outcome.CostUSD, want.Outcome.CostUSD = 0, 0
	want.Plan.Candidates[0].Seconds = sla.Interval{P5: 0.333333333, P50: 0.666666667, P95: 1e300}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if want.Plan.Candidates[0].OnFront != true || want.Plan.Allocation.GPUIDs[0] != "text" {
		t.Error("writing changed the record")
	}
}

// TestAlteredRecord requires that no change of a written run.json is read silently, and that a record of an earlier version,
// which has no checksum, is read without a warning.
func TestAlteredRecord(t *testing.T) {
	r := onDisk(t)
	must(t, r.WriteRecord(fullRecord()))
	whole, err := os.ReadFile(r.Path(RecordFile))
	must(t, err)
	if rec, err := ReadVerified(r.Dir()); err != nil || rec.Altered || slices.Contains(rec.Warnings, alteredWarning) {
		t.Fatalf("as written: %v", err)
	}
	last := bytes.LastIndexByte(whole, ',')
	for name, data := range map[string][]byte{
		"a number":       bytes.Replace(whole, []byte(`"cost_usd": 0.25`), []byte(`"cost_usd": 0.05`), 1),
		"the state":      bytes.Replace(whole, []byte(`"state": "done"`), []byte(`"state": "failed"`), 1),
		"the checksum":   bytes.Replace(whole, []byte(`"checksum": "`), []byte(`"checksum": "0`), 1),
		"no checksum":    bytes.Replace(whole, whole[last:len(whole)-3], []byte(`, "checksum": null`), 1),
		"a member added": append(bytes.TrimSuffix(bytes.Clone(whole), []byte("\n}\n")), ", \"x\": 1}"...),
		"white space":    bytes.ReplaceAll(whole, []byte("\n"), nil),
		"duplicate keys": bytes.Replace(whole, []byte("{"), []byte(`{"schema": 1, "schema": 1, "seed": 7, `), 1),
	} {
		if bytes.Equal(data, whole) {
			t.Fatalf("%s: not changed", name)
		}
		must(t, r.WriteFile(RecordFile, data))
		rec, err := ReadRecord(r.Dir())
		if err != nil || !rec.Altered || rec.Warnings[0] != alteredWarning {
			t.Errorf("%s: read silently (%v)", name, err)
		}
		var d *Damage
		if _, err := ReadVerified(r.Dir()); !errors.As(err, &d) {
			t.Errorf("%s: verified: %v", name, err)
		}
	}
	for n := range whole[:len(whole)-2] { // the last bytes are "}\n"
		if n%97 != 0 {
			continue
		}
		must(t, r.WriteFile(RecordFile, whole[:n]))
		if _, err := ReadRecord(r.Dir()); err == nil {
			t.Errorf("cut off after %d of %d bytes: read", n, len(whole))
		}
	}
	must(t, r.WriteFile(RecordFile, append(bytes.Clone(whole[:last]), "\n}\n"...)))
	if rec, err := ReadVerified(r.Dir()); err != nil || rec.Altered {
		t.Errorf("of an earlier version: %v", err)
	}
}

func TestReadRecordKeepsAbsentNumbersUnknown(t *testing.T) {
	r := onDisk(t)
	must(t, r.WriteFile(RecordFile, []byte(`{"schema": 1, "run_id": "a", "outcome": {"rows": 4}}`)))
	rec, err := ReadRecord(r.Dir())
	must(t, err)
	if rec.Outcome.CostUSD.Known() || rec.SLA.TimeMax != 0 || rec.SLA.Compliance.Known() || rec.Prices.Known() || rec.Outcome.Rows != 4 {
		t.Errorf("absent numbers became %+v", rec.Outcome)
	}
}

// TestDomainTypes checks the JSON of the domain types in a record, in both directions.
func TestDomainTypes(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		v    any // encodes to text
		text string
		into any // pointer to the value that text decodes to
	}{
		"unit prices": {Prices{cost.Rates{CPUHour: 0.5, Source: "list", Dated: "2026-01-02", Assumed: "the GPU"}},
			`{"gpu_hour":0,"cpu_hour":0.5,"gib_hour":0,"instance_hour":null,"source":"list","dated":"2026-01-02"}`,
			&Prices{cost.Rates{CPUHour: 0.5, Source: "list", Dated: "2026-01-02"}}},
		"a machine": {Prices{cost.Rates{Instance: 1.0 / 3}},
			`{"gpu_hour":0,"cpu_hour":0,"gib_hour":0,"instance_hour":0.333333333,"source":"","dated":""}`, &Prices{cost.Rates{Instance: 0.333333333}}},
		"limits": {SLA{Spec: sla.Spec{TimeMax: 90500 * time.Millisecond, MemoryMaxGiB: 2}, Hash: "ab", Compliance: Number(nan)},
			`{"deadline_s":90.5,"budget_usd":null,"min_throughput":null,"max_memory_gib":2,"min_gpu_util":null,"min_cpu_util":null,"hash":"ab","verdicts":[],"compliance":null}`,
			nil},
		"a host": {Host{resources.Host{CPUs: 1.5, CPUIDs: []int{0, 1}, Memory: resources.GiB(nan), GPUs: []resources.GPU{{Index: 1, UUID: "u", Name: "T4", Memory: 16, Driver: "5"}}}},
			`{"cpus":1.5,"memory_gib":null,"gpus":[{"uuid":"u","name":"T4","memory_gib":16}]}`, nil},
		"a plan": {Plan{Plan: plan.Plan{Allocation: resources.Allocation{CPUs: 1, Memory: 1}, Planner: "model", Reason: "r", Binding: "none", Predicted: true, Learned: &plan.Learned{}}, AtS: 4},
			`{"allocation":{"gpus":0,"gpu_ids":[],"cpus":1,"memory_gib":1,"batch_size":null,"num_workers":null},"planner":"model","reason":"r","binding":"none","at_s":4,"prediction":null,"candidates":[],"options":[]}`,
			nil},
	} {
		data, err := json.Marshal(c.v)
		if err != nil || string(data) != c.text {
			t.Errorf("%s: %s, %v; want %s", name, data, err, c.text)
			continue
		}
		got := reflect.New(reflect.TypeOf(c.v))
		if err := json.Unmarshal(data, got.Interface()); err != nil || c.into != nil && !reflect.DeepEqual(got.Interface(), c.into) {
			t.Errorf("%s: decoded %+v, %v; want %+v", name, got, err, c.into)
		}
		if again, err := json.Marshal(got.Interface()); err != nil || string(again) != c.text {
			t.Errorf("%s: encoded again %s, %v; want %s", name, again, err, c.text)
		}
	}
}

// TestUnknownPrices: a price that is null or absent stays unknown.
func TestUnknownPrices(t *testing.T) {
	for text, known := range map[string]bool{`{}`: false, `{"gpu_hour":1,"cpu_hour":null,"gib_hour":1}`: false, `{"gpu_hour":0,"cpu_hour":1,"gib_hour":1}`: true} {
		var p Prices
		must(t, json.Unmarshal([]byte(text), &p))
		if p.Known() != known || p.Instance != 0 {
			t.Errorf("%s: %+v, known %t; want %t", text, p.Rates, p.Known(), known)
		}
	}
}

// TestRecordedRunsComeBack decodes and encodes the recorded runs of the reports, byte for byte except for live_cut, which
// they predate.
func TestRecordedRunsComeBack(t *testing.T) {
	files, err := filepath.Glob("../report/testdata/*/run.json")
	must(t, err)
	if len(files) < 5 {
		t.Fatalf("only %d recorded runs", len(files))
	}
	added := regexp.MustCompile(`,\n +"live_cut": false`)
	for _, file := range files {
		want, err := os.ReadFile(file)
		must(t, err)
		rec := NewRecord()
		must(t, json.Unmarshal(want, rec))
		got, err := rec.Encode()
		must(t, err)
		got = added.ReplaceAll(got, nil)
		if string(got) != string(want) {
			t.Errorf("%s changed: %s", file, firstDifference(string(want), string(got)))
		}
	}
}

// firstDifference returns the first lines in which two texts differ.
func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d: %q, want %q", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

// TestNeededCPUs: the utilization is that of the CPUs which the job had, by a quota too.
func TestNeededCPUs(t *testing.T) {
	for _, c := range []struct {
		outcome   Outcome
		allocated int
		want      float64
	}{
		{Outcome{CPUUtil: 50}, 2, 1},
		{Outcome{CPUUtil: 50, TakenCPUs: 0.5}, 2, 1.5},
		{Outcome{CPUUtil: 40, GrantedCPUs: 2.5}, 2, 1},
	} {
		if have := c.outcome.NeededCPUs(c.allocated); math.Abs(have-c.want) > 1e-9 {
			t.Errorf("%g %% of %d: %g, want %g", float64(c.outcome.CPUUtil), c.allocated, have, c.want)
		}
	}
}

// TestRealisedSeconds: a wait for places counts only if the prediction includes it.
func TestRealisedSeconds(t *testing.T) {
	of := func(s float64) *float64 { return &s }
	for name, c := range map[string]struct {
		queued     *float64
		prediction *Prediction
		want       Number
	}{
		"without a queue":              {nil, &Prediction{}, 10_800},
		"predicted before the wait":    {of(7200), &Prediction{}, 3600},
		"predicted after the wait":     {of(7200), &Prediction{AtS: 7300, QueueSeconds: of(7200)}, 10_800},
		"predicted between two waits":  {of(7200), &Prediction{AtS: 6300, QueueSeconds: of(6000)}, 9600},
		"of an earlier version, later": {of(7200), &Prediction{AtS: 7300}, 10_800},
		"not predicted":                {of(7200), nil, 3600},
	} {
		rec := NewRecord()
		rec.Outcome.Seconds, rec.Outcome.QueueSeconds, rec.Plan = 10_800, c.queued, &Plan{AtS: 9000, Prediction: c.prediction}
		if got := rec.RealisedSeconds(); got != c.want {
			t.Errorf("%s: %v s, want %v", name, got, c.want)
		}
	}
}
