package report

import (
	"flag"
	"fmt"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"trainopt/cost"
	"trainopt/internal/conformance"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/optimizer/report/page"
	"trainopt/resources"
	"trainopt/sla"
)

var update = flag.Bool("update", false, "write testdata again: the run directories and the expected reports")

// recordings maps names to the run directories of testdata.
var recordings = map[string]func() *recording{
	"finished":   finishedRun,
	"gpu":        gpuRun,
	"failed":     failedRun,
	"unfinished": unfinishedRun,
	"nothing":    nothingRun,
	"hostile":    hostileRun,
	"stopped":    stoppedRun,
	"unsized":    unsizedRun,
}

type recording struct {
	record *journal.Record
	tables map[string]*strings.Builder
	stderr string
}

func (r *recording) line(table string, values ...any) {
	if r.tables == nil {
		r.tables = map[string]*strings.Builder{}
	}
	b := r.tables[table]
	if b == nil {
		b = &strings.Builder{}
		b.WriteString(headers[table] + "\n")
		r.tables[table] = b
	}
	cells := make([]string, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case float64:
			if page.Known(v) {
				cells[i] = fmt.Sprintf("%.6g", v)
			}
		default:
			cells[i] = fmt.Sprint(v)
		}
	}
	b.WriteString(strings.Join(cells, ",") + "\n")
}

var headers = map[string]string{
	samplesFile:        "time_s,gpus,cpus,memory_gib,tree_cpu_percent,tree_memory_gib,tree_read_bytes,tree_write_bytes,procs,host_cpu_percent,host_memory_gib,gpu_util_percent,gpu_memory_gib,gpu_power_w,gpu_energy_j,cost_usd,projected_s,projected_cost_usd",
	performanceFile:    "time_s,epoch,step,epoch_time_s,throughput,train_loss,train_accuracy,test_loss,test_accuracy,gpus,cpus,gpu_util_percent,cpu_util_percent,cost_usd",
	allocationsFile:    "time_s,gpus,cpus,memory_gib,batch_size,num_workers,applied,reason",
	slaFile:            "time_s,objective,value,limit,unit,projected_p5,projected_p50,projected_p95,status,severity",
	"pareto_front.csv": "time_s,gpus,cpus,memory_gib,batch_size,seconds_p5,seconds_p50,seconds_p95,cost_usd_p5,cost_usd_p50,cost_usd_p95,resource,feasible,on_front,chosen",
}

var nan = math.NaN()

func pointer[T any](v T) *T { return &v }

func around(v, down, up float64) sla.Interval {
	return sla.Interval{P5: v * (1 - down), P50: v, P95: v * (1 + up)}
}

// stage is a period of a synthetic run at one allocation.
type stage struct {
	from, to float64 // s
	alloc    resources.Allocation
	epochS   float64
	why      string
	applied  string
}

type script struct {
	stages          []stage
	samples         float64 // per epoch
	cpuHour         float64
	gibHour         float64
	gpuHour         float64
	deadline        float64
	budget          float64
	memory          float64
	cpuUtil         float64 // % of the allocated CPUs
	gpuUtil         float64
	total           float64 // predicted total duration in seconds
	totalUSD        float64
	lossFrom, decay float64
	step            float64 // s between samples; 0 means 1
}

// play writes the tables of a run with a fixed seed.
func (s script) play(r *recording) (spent, epochs float64) {
	rnd := rand.New(rand.NewSource(7))
	noise := func(scale float64) float64 { return 1 + scale*rnd.NormFloat64() }
	step, epoch := max(1, s.step), 0.0
	for i, st := range s.stages {
		applied := st.applied
		if applied == "" {
			applied = "restart"
		}
		r.line(allocationsFile, st.from, st.alloc.GPUs, st.alloc.CPUs, float64(st.alloc.Memory), st.alloc.BatchSize, "", applied, st.why)
		startup := 1.5
		next := st.from + startup + st.epochS
		hourly := float64(st.alloc.CPUs)*s.cpuHour + float64(st.alloc.Memory)*s.gibHour + float64(st.alloc.GPUs)*s.gpuHour
		for t := st.from; t < st.to; t += step {
			working := t >= st.from+startup
			util, gpu, mem := 4.0, 0.0, 0.08
			if working {
				util, gpu, mem = math.Min(100, s.cpuUtil*noise(.03)), math.Min(100, s.gpuUtil*noise(.05)), s.memory*(0.9+0.1*math.Min(1, (t-st.from)/10))*noise(.01)
			}
			spent += hourly / 3600 * step
			gpuUtil, gpuMem, power := nan, nan, nan
			if st.alloc.GPUs > 0 {
				gpuUtil, gpuMem, power = gpu, 11.5*float64(st.alloc.GPUs)*math.Min(1, .3+mem/s.memory*.7), (90+4.2*gpu)*float64(st.alloc.GPUs)
			}
			left := math.Max(0, 1-t/s.total)
			projected, projectedUSD := nan, nan
			if i > 0 || t > 12 {
				projected, projectedUSD = s.total*(1+.12*left*math.Sin(t*20/s.total)), s.totalUSD*(1+.1*left*math.Sin(t*16/s.total))
				r.line(slaFile, t, "time", t, s.deadline, "s", projected*(1-.15*left), projected, projected*(1+.2*left), "met", 0.0)
				r.line(slaFile, t, "cost", spent, s.budget, "USD", projectedUSD*(1-.15*left), projectedUSD, projectedUSD*(1+.2*left), "met", 0.0)
			}
			r.line(samplesFile, t, st.alloc.GPUs, st.alloc.CPUs, float64(st.alloc.Memory), util*float64(st.alloc.CPUs), mem, t*1000, t*120, 1+st.alloc.CPUs,
				util/2, 3+mem, gpuUtil, gpuMem, power, power*t, spent, projected, projectedUSD)
			for working && next <= t {
				epoch++
				took := st.epochS * noise(.04)
				loss := s.lossFrom*math.Exp(-epoch*s.decay)*noise(.03) + .08
				r.line(performanceFile, t, epoch, "", took, s.samples/took, loss, math.Exp(-.5*loss)*noise(.01), loss*1.15+.02, math.Exp(-.55*loss), st.alloc.GPUs, st.alloc.CPUs, gpuUtil, util, spent)
				next += took
			}
		}
	}
	return spent, epoch
}

func cpus(n int, memory float64) resources.Allocation {
	return resources.Allocation{CPUs: n, Memory: resources.GiB(memory)}
}

// baseRecord returns a record with the fields common to all recordings.
func baseRecord(id, name string) *journal.Record {
	r := journal.NewRecord()
	r.RunID, r.Name, r.Dir = id, name, "/home/ada/digits"
	r.Command = []string{"python3", "train.py", "--note", "two words"}
	r.StartedAt = time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)
	r.Script = journal.Script{Path: "train.py", SHA256: strings.Repeat("3f9a1c07", 8), Framework: pointer("numpy"), Model: pointer("mlp"), Dataset: pointer("digits"),
		UsesGPU: pointer(false), Resumable: pointer(true), Evidence: map[string]string{"framework": "line 3: import numpy as np", "resumable": "line 88: signal.signal(signal.SIGUSR1, save)"}}
	r.Host = journal.Host{Host: resources.Host{CPUs: 8, Memory: 31.3, Notes: []string{"no NVML library: GPUs unknown, counted as none"}}}
	r.Prices = journal.Prices{Rates: cost.Rates{GPUHour: 0, CPUHour: .0425, GiBHour: .0057, Source: "AWS c6i.2xlarge on demand, us-east-1", Dated: "2026-03-01"}}
	r.Preference = plan.Preference{Time: .3333, Cost: .3333, Resource: .3334}
	r.Seed = 42
	r.Enforced = []string{"CPU: affinity to 2 of 8 logical CPUs", "memory: not enforced, no writable cgroup here"}
	return r
}

// finishedRun is a CPU training that met its SLA after probes and restarts.
func finishedRun() *recording {
	out := &recording{record: baseRecord("20260314-092653-train-3f9a1c", "train")}
	r := out.record
	s := script{samples: 9000, cpuHour: .0425, gibHour: .0057, deadline: 240, budget: .01, memory: .62, cpuUtil: 91, total: 176, totalUSD: .0056, lossFrom: 2.2, decay: .09,
		stages: []stage{
			{0, 18, cpus(8, 4), 3.2, "probe: your own configuration", "restart"},
			{18, 33, cpus(1, 4), 10.1, "probe: 1 CPU", "restart"},
			{33, 120, cpus(2, 1), 5.6, "the plan", "restart"},
			{120, 172, cpus(3, 1), 4.2, "falling behind the deadline; restart pays off", "restart"},
		}}
	spent, epochs := s.play(out)
	choice := cpus(2, 1)
	frontCandidates(r, out, choice)
	r.State, r.FinishedAt = journal.Done, pointer(r.StartedAt.Add(172*time.Second))
	r.Exit, r.ExitCode = &journal.Exit{Code: pointer(0), Reason: "exited"}, pointer(0)
	agree(r, 240, .01, 172, spent, false)
	r.Outcome = journal.Outcome{Seconds: 172, ActiveSeconds: 164.2, OverheadSeconds: 5.8, CostUSD: journal.Number(spent), ProbeCostUSD: .00214, Rows: int(epochs), Epochs: journal.Number(epochs), Throughput: 1640,
		GPUUtil: journal.Unknown(), CPUUtil: 89.4, PeakMemoryGiB: .633, Restarts: 3, EnergyJoules: journal.Unknown()}
	r.Overheads = journal.Overheads{StartupSeconds: []journal.Number{1.4, 1.6, 1.5, 1.5}, RestartSeconds: []journal.Number{1.8, 2.1, 1.9}}
	r.Probes = []journal.Probe{
		{Allocation: cpus(8, 4), Rows: 5, Seconds: 18, Throughput: 2810, CostUSD: .0018, PeakMemoryGiB: .63, Units: 4, UnitSeconds: []journal.Number{3.25, 3.18, 3.2, 3.31}, UnitSamples: 9000, CPUUtil: 41, GPUUtil: journal.Unknown(), InJob: true},
		{Allocation: cpus(1, 4), Rows: 1, Seconds: 15, Throughput: 891, CostUSD: .00034, PeakMemoryGiB: .61, Units: 1, UnitSeconds: []journal.Number{10.1}, UnitSamples: 9000, CPUUtil: 98, GPUUtil: journal.Unknown(), InJob: true}}
	r.Measured = append(append([]journal.Probe{}, r.Probes...),
		journal.Probe{Allocation: choice, Rows: 15, Seconds: 87, Throughput: 1610, CostUSD: .0022, PeakMemoryGiB: .633, Units: 14, UnitSeconds: []journal.Number{5.6, 5.5, 5.7}, UnitSamples: 9000, CPUUtil: 91, GPUUtil: journal.Unknown(), InJob: true})
	r.Plan.Prediction = &journal.Prediction{Seconds: sla.Interval{P5: 160, P50: 176, P95: 195}, CostUSD: sla.Interval{P5: .0051, P50: .0056, P95: .0063}, Throughput: around(1620, .08, .07)}
	r.Model = &journal.Model{Form: "amdahl", Params: map[string]journal.Number{"serial_s": 1.98, "parallel_s": 8.1}, Ignored: []string{"memory"},
		Basis: "20 units of work at 3 allocations of this run", Checks: []journal.Check{
			{Allocation: cpus(8, 4), Predicted: sla.Interval{P5: 2.7, P50: 3.1, P95: 3.6}, Measured: 3.22},
			{Allocation: cpus(1, 4), Predicted: sla.Interval{P5: 8.8, P50: 9.5, P95: 10}, Measured: 10.1}}}
	r.Actions = []journal.Action{
		{AtS: 33, Action: -1, Description: "CPUs 1 → 2, memory 4 → 1 GiB", From: cpus(1, 4), To: choice, Reason: "the plan", Applied: "restart"},
		{AtS: 120, Action: 14, Description: "CPUs 2 → 3", From: choice, To: cpus(3, 1), Reason: "falling behind the deadline; the gain of 21 s beats the measured 2 s of a restart", Applied: "restart"},
		{AtS: 150, Action: 13, Description: "CPUs 3 → 2", From: cpus(3, 1), To: choice, Reason: "cheaper, but a restart would cost more than the remaining work gains", Applied: "recommended"}}
	r.Baseline = &journal.Baseline{Allocation: cpus(8, 4), Seconds: sla.Interval{P5: 98, P50: 101, P95: 105}, CostUSD: sla.Interval{P5: .0098, P50: .0102, P95: .0106}, Throughput: around(2790, .04, .03), Compliance: .5}
	r.Comparison = journal.Comparison{Against: pointer("your own configuration (8 CPU, 4 GiB)"), SecondsChangePct: 70.3, CostChangePct: -39.4, ThroughputChangePct: -41.2, ComplianceChangePct: 50, Quality: "questionable",
		SecondsChange: &sla.Interval{P5: 63.8, P50: 70.3, P95: 75.5}, CostChange: &sla.Interval{P5: -41.7, P50: -39.4, P95: -36.9}}
	r.Waste = journal.Waste{Idle: .00107, InputBound: journal.Unknown(), OverProvisioned: .00019, Restarts: .00012, Failed: 0}
	training(r, epochs, int(epochs), .213, .937)
	r.Warnings = []string{"memory is not enforced: no writable cgroup"}
	return out
}

func training(r *journal.Record, total float64, rows int, loss, accuracy float64) {
	r.Training = journal.Training{Model: pointer("mlp-784-128-10"), ModelParams: 101770, ModelLayers: 2, Dataset: pointer("digits"), DataCount: 9000, DataSizeMB: 6.7, BatchSize: 64,
		TotalUnits: journal.Number(total), Unit: "epoch", TrainLoss: journal.Number(loss), TrainAccuracy: journal.Number(accuracy), TestLoss: journal.Number(loss * 1.2), TestAccuracy: journal.Number(accuracy - .012)}
	r.Log = journal.Log{Path: "log.csv", Format: "csv", Rows: rows, BadRows: 1, Bad: []string{"line 17: 3 fields, want 14"}}
}

func agree(r *journal.Record, deadline, budget, seconds, spent float64, running bool) {
	r.SLA.Spec = sla.Spec{TimeMax: time.Duration(deadline * float64(time.Second)), CostMaxUSD: budget, ThroughputMin: 1500}
	r.SLA.Hash, r.SLA.Compliance = "9c1f27ab03d4e5f6", 1
	v := []sla.Verdict{
		{Objective: sla.Time, Limit: deadline, Value: &seconds, Unit: "s", Status: sla.Met, Severity: pointer(0.0)},
		{Objective: sla.Cost, Limit: budget, Value: &spent, Unit: "USD", Status: sla.Met, Severity: pointer(0.0)},
		{Objective: sla.Throughput, Limit: 1500, Value: pointer(1640.0), Unit: "samples/s", Status: sla.Met, Severity: pointer(0.0)},
	}
	if running {
		v[0].Projected, v[1].Projected = &sla.Interval{P5: 160, P50: 178, P95: 205}, &sla.Interval{P5: .0052, P50: .0058, P95: .0066}
	}
	r.SLA.Verdicts = v
}

// frontCandidates adds a plan with candidates of 1 to 8 CPUs whose speed follows Amdahl's law.
func frontCandidates(r *journal.Record, out *recording, choice resources.Allocation) {
	p := &journal.Plan{AtS: 33, Plan: plan.Plan{Allocation: choice, Planner: "model", Reason: "cheapest allocation that meets the deadline with 95 % probability",
		Binding: "none: all agreed limits have room"}}
	best := math.Inf(1)
	for n := 8; n >= 1; n-- {
		for _, mem := range []float64{1, 4} {
			sec := 20 + 26*(1.98+8.1/float64(n))
			money := .0016 + (sec-33)/3600*(float64(n)*.0425+mem*.0057)
			c := plan.Candidate{Allocation: cpus(n, mem), Seconds: around(sec, .08, .1), CostUSD: around(money, .08, .1), Throughput: around(279000/sec, .1, .08),
				Resource: (float64(n)/8 + mem/31.3) / 2, Feasible: sec*1.1 < 240 && money*1.1 < .01, Chance: 1 / (1 + math.Exp((sec-255)/15)), OnFront: mem == 1 && money < best}
			if mem == 1 && money < best {
				best = money
			}
			if !c.Feasible {
				c.Breaks = []sla.Objective{sla.Time}
				if money*1.1 >= .01 {
					c.Breaks, c.Chance = []sla.Objective{sla.Cost}, .6
				}
			}
			p.Candidates = append(p.Candidates, c)
			out.line("pareto_front.csv", 33.0, 0, n, mem, "", c.Seconds.P5, c.Seconds.P50, c.Seconds.P95, c.CostUSD.P5, c.CostUSD.P50, c.CostUSD.P95, c.Resource, c.Feasible, c.OnFront, c.Allocation.Same(choice))
		}
	}
	option := func(prefer string, n int) {
		var chosen, c plan.Candidate
		for _, x := range p.Candidates {
			if x.Allocation.Same(choice) {
				chosen = x
			}
			if x.Allocation.Same(cpus(n, 1)) {
				c = x
			}
		}
		pct := func(a, b float64) *float64 { return pointer(100 * (a/b - 1)) }
		p.Options = append(p.Options, plan.Option{Prefer: prefer, Candidate: c, SecondsPct: pct(c.Seconds.P50, chosen.Seconds.P50),
			CostPct: pct(c.CostUSD.P50, chosen.CostUSD.P50), ResourcePct: pct(c.Resource, chosen.Resource)})
	}
	option("time", 8)
	option("cost", 2)
	option("resource", 2)
	option("balanced", 2)
	r.Plan = p
}

func gpuRun() *recording {
	out := &recording{record: baseRecord("20260402-181500-resnet50-77aa01", "resnet50")}
	r := out.record
	gpus := func(n int) resources.Allocation {
		return resources.Allocation{GPUs: n, CPUs: 8 * n, Memory: resources.GiB(30 * n), BatchSize: 256 * n, NumWorkers: 4 * n}
	}
	s := script{samples: 50000, cpuHour: .04, gibHour: .004, gpuHour: 2.5, deadline: 3600, budget: 20, memory: 21, cpuUtil: 34, gpuUtil: 86, total: 3190, totalUSD: 15.2, lossFrom: 4.5, decay: .03, step: 20,
		stages: []stage{{0, 140, gpus(8), 20, "probe: your own configuration", ""}, {140, 300, gpus(1), 96, "probe: 1 GPU", ""}, {300, 2000, gpus(4), 33, "the plan", ""},
			{2000, 3240, gpus(6), 24, "behind the deadline", ""}}}
	spent, epochs := s.play(out)
	r.Command, r.Script.Path, r.Script.Framework, r.Script.Model, r.Script.Dataset = []string{"python3", "resnet50.py"}, "resnet50.py", pointer("pytorch"), pointer("resnet"), pointer("cifar10")
	r.Script.UsesGPU = pointer(true)
	r.Host = journal.Host{Host: resources.Host{CPUs: 96, Memory: 1100}}
	for i := range 8 {
		r.Host.GPUs = append(r.Host.GPUs, resources.GPU{UUID: fmt.Sprintf("GPU-0000000%d-aaaa-bbbb-cccc-000000000000", i), Name: "NVIDIA A100-SXM4-40GB", Memory: 40})
	}
	r.Prices = journal.Prices{Rates: cost.Rates{GPUHour: 2.5, CPUHour: .04, GiBHour: .004, Source: "AWS p4d.24xlarge on demand", Dated: "2026-03-01"}}
	r.State, r.FinishedAt = journal.Done, pointer(r.StartedAt.Add(3240*time.Second))
	r.Exit, r.ExitCode = &journal.Exit{Code: pointer(0), Reason: "exited"}, pointer(3)
	r.Outcome = journal.Outcome{Seconds: 3240, ActiveSeconds: 3190, OverheadSeconds: 41, CostUSD: journal.Number(spent), ProbeCostUSD: 1.05, Rows: int(epochs), Epochs: journal.Number(epochs), Throughput: 1660,
		GPUUtil: 84.1, CPUUtil: 33.2, PeakMemoryGiB: 21.4, Restarts: 3, EnergyJoules: 5.6e6}
	r.Overheads.RestartSeconds = []journal.Number{13, 14, 14}
	agree(r, 3600, 10, 3240, spent, false)
	r.SLA.Verdicts[1].Status, r.SLA.Verdicts[1].Severity, r.SLA.Compliance = sla.Violated, pointer(spent/10-1), .75
	r.SLA.CostMaxUSD = 10
	r.SLA.Verdicts = append(r.SLA.Verdicts, sla.Verdict{Objective: sla.GPUUtil, Limit: 70, Value: pointer(84.1), Unit: "%", Status: sla.Met, Severity: pointer(0.0)})
	r.SLA.GPUUtilMinPct = 70
	r.Plan = &journal.Plan{Plan: plan.Plan{Allocation: gpus(4), Planner: "model", Reason: "on the knee of time and cost", Binding: "deadline"}, AtS: 300,
		Prediction: &journal.Prediction{Seconds: around(3190, .08, .09), CostUSD: around(9.6, .07, .08), Throughput: around(1500, .05, .05)}}
	for n := 1; n <= 8; n++ {
		for b := range 3 {
			sec := (1500 + 11000/float64(n)) * (1 + .12*float64(b))
			money := sec / 3600 * float64(n) * 2.94
			c := plan.Candidate{Allocation: gpus(n), Seconds: around(sec, .08, .09), CostUSD: around(money, .08, .09), Resource: float64(n) / 8, Feasible: sec < 3600, Chance: .5, OnFront: b == 0}
			c.Allocation.BatchSize = 256 * n / (1 + b)
			r.Plan.Candidates = append(r.Plan.Candidates, c)
			out.line("pareto_front.csv", 300.0, n, 8*n, 30*n, c.Allocation.BatchSize, c.Seconds.P5, c.Seconds.P50, c.Seconds.P95, c.CostUSD.P5, c.CostUSD.P50, c.CostUSD.P95, c.Resource, c.Feasible, c.OnFront, n == 4 && b == 0)
		}
	}
	r.Actions = []journal.Action{{AtS: 2000, Action: -1, Description: "GPUs 4 → 6", From: gpus(4), To: gpus(6), Reason: "behind the deadline", Applied: "restart"}}
	for n, seconds := range map[int]journal.Number{8: 20, 1: 96} {
		p := journal.Blank[journal.Probe]()
		p.Allocation, p.Rows, p.Units, p.UnitSeconds, p.InJob = gpus(n), 2, 2, []journal.Number{seconds, seconds}, true
		r.Measured = append(r.Measured, p)
	}
	slices.SortFunc(r.Measured, func(a, b journal.Probe) int { return b.Allocation.GPUs - a.Allocation.GPUs })
	r.Baseline = &journal.Baseline{Allocation: gpus(8), Seconds: around(2290, .03, .03), CostUSD: around(15.1, .03, .03), Throughput: around(2480, .02, .02), Compliance: .75}
	r.Comparison = journal.Comparison{Against: pointer("your own configuration"), SecondsChangePct: 41.5, CostChangePct: 3.1, ThroughputChangePct: -33, ComplianceChangePct: 0,
		SecondsChange: &sla.Interval{P5: 37.4, P50: 41.5, P95: 45.9}, CostChange: &sla.Interval{P5: -.4, P50: 3.1, P95: 6.6}}
	r.Waste = journal.Waste{Idle: .4, InputBound: .77, OverProvisioned: .11, Restarts: .14, Failed: journal.Unknown()}
	training(r, epochs, int(epochs), .21, .935)
	return out
}

func failedRun() *recording {
	out := &recording{record: baseRecord("20260315-110000-train-c0ffee", "train")}
	r := out.record
	s := script{samples: 9000, cpuHour: .0425, gibHour: .0057, deadline: 240, budget: .01, memory: 3.9, cpuUtil: 88, total: 176, totalUSD: .0056, lossFrom: 2.2, decay: .09,
		stages: []stage{{0, 41, cpus(4, 4), 4.4, "your own configuration", "restart"}}}
	spent, epochs := s.play(out)
	r.State, r.FinishedAt = journal.Failed, pointer(r.StartedAt.Add(41*time.Second))
	r.Exit, r.ExitCode = &journal.Exit{Signal: pointer("SIGKILL"), Reason: "oom", Detail: "memory.events: oom_kill 0 → 1"}, pointer(5)
	agree(r, 240, .01, 41, spent, false)
	for i := range r.SLA.Verdicts[:2] {
		r.SLA.Verdicts[i].Status, r.SLA.Verdicts[i].Severity = sla.Unknown, nil
	}
	r.Outcome.Seconds, r.Outcome.CostUSD, r.Outcome.PeakMemoryGiB, r.Outcome.Rows, r.Outcome.Epochs, r.Outcome.CPUUtil = 41, journal.Number(spent), 3.98, int(epochs), journal.Number(epochs), 86
	r.Waste.Failed = journal.Number(spent)
	training(r, 40, int(epochs), 1.1, .6)
	delete(out.tables, slaFile)
	for i := range 30 {
		out.stderr += fmt.Sprintf("\rstep %d\rstep %d of 30\n", i, i+1)
	}
	out.stderr += "Traceback (most recent call last):\n  File \"train.py\", line 12, in <module>\n    grow()\n\x1b[31mMemoryError\x1b[0m\n"
	return out
}

func unfinishedRun() *recording {
	out := &recording{record: baseRecord("20260316-070000-train-beef01", "train")}
	r := out.record
	s := script{samples: 9000, cpuHour: .0425, gibHour: .0057, deadline: 170, budget: .01, memory: .62, cpuUtil: 91, total: 178, totalUSD: .0058, lossFrom: 2.2, decay: .09,
		stages: []stage{{0, 18, cpus(8, 4), 3.2, "probe: your own configuration", "restart"}, {18, 77, cpus(2, 1), 5.6, "the plan", "restart"}}}
	spent, epochs := s.play(out)
	frontCandidates(r, out, cpus(2, 1))
	r.State = journal.Running
	agree(r, 170, .01, 77, spent, true)
	r.SLA.Verdicts[0].Status, r.SLA.Verdicts[0].Severity = sla.AtRisk, pointer(.047)
	r.Plan.Prediction = &journal.Prediction{Seconds: sla.Interval{P5: 160, P50: 176, P95: 195}, CostUSD: sla.Interval{P5: .0051, P50: .0056, P95: .0063}}
	r.Outcome.Seconds, r.Outcome.CostUSD, r.Outcome.Rows, r.Outcome.Epochs, r.Outcome.CPUUtil, r.Outcome.PeakMemoryGiB = 77, journal.Number(spent), int(epochs), journal.Number(epochs), 89, .63
	training(r, 40, int(epochs), .6, .8)
	torn := out.tables[performanceFile] // the machine stopped while writing a line
	torn.WriteString("78,16,,5.")
	return out
}

func nothingRun() *recording {
	r := journal.NewRecord()
	r.RunID, r.StartedAt = "20260317-000000-run-000000", time.Date(2026, 3, 17, 0, 0, 0, 0, time.UTC)
	return &recording{record: r}
}

// stoppedRun was stopped at its deadline by a version that reported its limits as met and compared it with its
// baseline.
func stoppedRun() *recording {
	out := finishedRun()
	r := out.record
	r.RunID, r.State = "20260319-080000-train-d00d1e", journal.Stopped
	r.Exit, r.ExitCode = &journal.Exit{Signal: pointer("SIGTERM"), Reason: "deadline", Detail: "died of SIGTERM; stopped on request"}, pointer(4)
	agree(r, 172.3, .01, 172, float64(r.Outcome.CostUSD), false)
	r.Training.TotalUnits = 60
	r.Checkpoint = &journal.Checkpoint{Path: "out/ckpt.pt", AtS: 150.2, Units: 26, RiskSeconds: 21.8, RiskUnits: 5}
	return out
}

// unsizedRun finished 300 steps of an unknown total at the baseline configuration, on a machine billed as a whole.
func unsizedRun() *recording {
	out := &recording{record: baseRecord("20260320-101500-gpt-5ca1ed", "gpt")}
	r := out.record
	s := script{samples: nan, cpuHour: .0425, gibHour: .0057, memory: .02, cpuUtil: 91, total: 60, totalUSD: .005, lossFrom: 2.2, decay: .09,
		stages: []stage{{0, 60, cpus(2, 1), 3, "baseline", "launch"}}}
	spent, steps := s.play(out)
	delete(out.tables, slaFile)
	out.line(slaFile)
	r.State, r.FinishedAt = journal.Done, pointer(r.StartedAt.Add(60*time.Second))
	r.Exit, r.ExitCode = &journal.Exit{Code: pointer(0), Reason: "exited"}, pointer(0)
	r.Prices.Instance = .34
	r.Outcome.Seconds, r.Outcome.CostUSD, r.Outcome.Rows, r.Outcome.PeakMemoryGiB = 60, journal.Number(spent), int(steps), .02
	r.Outcome.Steps = journal.Number(steps)
	r.Outcome.Throughput, r.Outcome.ThroughputUnit, r.Outcome.Restarts = .333, "steps/s", 1
	p := journal.Blank[journal.Probe]()
	p.Allocation, p.Rows, p.Seconds, p.Throughput, p.ThroughputUnit, p.InJob = cpus(2, 1), 5, 60, .333, "steps/s", true
	p.Units, p.UnitSeconds = 3, []journal.Number{3, 3.1, 2.9}
	r.Measured = []journal.Probe{p}
	r.Baseline = &journal.Baseline{Allocation: cpus(2, 1), Seconds: around(117, .05, .05), CostUSD: around(.01, .05, .05), Throughput: around(.333, .05, .05), Compliance: journal.Unknown()}
	r.Comparison.SecondsChangePct, r.Comparison.CostChangePct, r.Comparison.Quality = -48.9, -48.9, "excellent"
	frontCandidates(r, out, cpus(2, 1))
	r.Plan.Prediction = &journal.Prediction{Seconds: around(3, .1, .1), CostUSD: around(.0001, .1, .1), Throughput: around(.333, .1, .1)}
	training(r, nan, int(steps), 1.9, nan)
	r.Training.Unit, r.Training.TotalUnits = "step", journal.Unknown()
	return out
}

// hostileRun has names and log text crafted to break out of every format.
func hostileRun() *recording {
	out := failedRun()
	r := out.record
	evil := `<script>alert(1)</script>"'><img src=https://evil.example/x onerror=alert(2)> | **bold** ` + "`x` [a](javascript:alert(3)) \x1b[31mred\x1b[0m \u202egnp.exe\nsecond line"
	r.RunID, r.Name, r.Dir, r.Script.Path = "20260318-000000-evil-000000", evil, evil, evil
	r.Command = []string{evil}
	r.Script.Framework, r.Script.Evidence = &evil, map[string]string{"framework": evil}
	r.Exit.Detail = evil
	out.stderr = evil + "\n\x1b]0;title\x07\x9b2J" + strings.Repeat("long", 2000) + "\n"
	r.Warnings, r.Enforced, r.Host.Notes, r.Log.Bad = []string{evil}, []string{evil}, []string{evil}, []string{evil}
	r.Host.GPUs = []resources.GPU{{UUID: evil, Name: evil, Memory: 1}}
	r.Training.Model = &evil
	r.Actions = []journal.Action{{AtS: 10, Description: evil, Reason: evil, Applied: "live", From: cpus(1, 1), To: cpus(2, 1)}}
	r.Prices.Source = evil
	frontCandidates(r, out, cpus(2, 1))
	r.Plan.Reason, r.Plan.Binding, r.Plan.Planner = evil, evil, evil
	out.tables[allocationsFile].WriteString(`20,0,2,4,,,live,"` + strings.ReplaceAll(evil, `"`, `""`) + "\"\n")
	return out
}

// TestRecordings writes testdata with -update; otherwise it checks that the recordings are complete.
func TestRecordings(t *testing.T) {
	for name, make := range recordings {
		dir := filepath.Join("testdata", name)
		if *update {
			rec := make()
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			data, err := rec.record.Encode()
			if err != nil {
				t.Fatal(err)
			}
			files := map[string]string{journal.RecordFile: string(data)}
			for table, b := range rec.tables {
				files[table] = b.String()
			}
			if rec.stderr != "" {
				files["job.stderr"] = rec.stderr
			}
			for file, text := range files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		data, err := os.ReadFile(filepath.Join(dir, journal.RecordFile))
		if err != nil {
			t.Fatal(err)
		}
		if err := conformance.ValidateRecord(data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
