package run

import (
	"math"
	"os"
	"time"

	"trainopt/monitor"
	"trainopt/monitor/trainlog"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/sla"
)

// tableSizes returns the sizes of the tables of training rows, by name.
func (r *run) tableSizes() map[string]int64 {
	sizes := map[string]int64{}
	for _, name := range []string{"log.csv", "performance_metrics.csv"} {
		if info, err := os.Stat(r.dir.Path(name)); err == nil {
			sizes[name] = info.Size()
		}
	}
	return sizes
}

// rewindTables removes the training rows that an earlier agent has written since it saved its state: they are read again.
func (r *run) rewindTables() {
	for name, size := range r.tableSizes() {
		if saved, ok := r.Tables[name]; ok && saved < size {
			_ = os.Truncate(r.dir.Path(name), saved) // on an error, rows are repeated
		}
	}
}

// append appends a row to a table; a disk error is reported once for all files, and the run continues.
func (r *run) append(t *monitor.Table, v monitor.Values) {
	if err := t.Append(v); err != nil {
		r.warnDiskOnce(err)
	}
}

// tabulate writes a training row to the tables of training rows, or, of several rows, those that are due and the last
// one.
func (r *run) tabulate(row *trainlog.Row, at time.Duration, last bool) {
	for _, t := range []struct {
		table  *monitor.Table
		values func() monitor.Values
	}{{r.tables.Log, func() monitor.Values {
		v := row.Values()
		v["time_s"] = at.Seconds()
		return v
	}}, {r.tables.Performance, func() monitor.Values { return r.performance(row, at) }}} {
		r.appendDue(t.table, last, t.values)
	}
}

// appendDue appends a row to a thinned table if it is due; the last one of several rows is held back in case it is
// the final one.
func (r *run) appendDue(t *monitor.Table, last bool, values func() monitor.Values) {
	if t.Due() {
		r.append(t, values())
	} else if last {
		if err := t.Offer(values()); err != nil {
			r.warnDiskOnce(err)
		}
	}
}

func setInterval(v monitor.Values, name string, i *sla.Interval) {
	if i != nil {
		v[name+"_p5"], v[name+"_p50"], v[name+"_p95"] = i.P5, i.P50, i.P95
	}
}

func allocationValues(v monitor.Values, a resources.Allocation) monitor.Values {
	v["gpus"], v["cpus"], v["memory_gib"] = a.GPUs, a.CPUs, a.Memory
	if a.BatchSize > 0 {
		v["batch_size"] = a.BatchSize
	}
	if a.NumWorkers > 0 {
		v["num_workers"] = a.NumWorkers
	}
	if a.Threads > 0 {
		v["threads"] = a.Threads
	}
	return v
}

// writeSample writes the last sample to the table of samples, and the verdicts.
func (r *run) writeSample() {
	at := r.elapsed()
	v := r.sampler.last.Values()
	v["time_s"], v["gpus"], v["cpus"], v["memory_gib"], v["cost_usd"] = at, r.Current.GPUs, r.granted(r.Current), r.Current.Memory, r.spent()
	delete(v, "gpu_energy_j") // the driver counts from its start, the column from the start of the run
	if r.sampler.haveJ {
		v["gpu_energy_j"] = r.Joules
	}
	if delete(v, "cpu_energy_j"); r.CPUJoules != nil {
		v["cpu_energy_j"] = *r.CPUJoules
	}
	if r.projected.seconds != nil {
		sec, usd := r.projected.seconds, r.projected.cost
		v["projected_s_p5"], v["projected_s"], v["projected_s_p95"] = sec.P5, sec.P50, sec.P95
		v["projected_cost_usd_p5"], v["projected_cost_usd"], v["projected_cost_usd_p95"] = usd.P5, usd.P50, usd.P95
	}
	if r.Progress.Unit != "" && !r.progressLost {
		v["units"] = r.Progress.Done
	}
	if rate, _ := r.currentRate(); r.job != nil {
		v["throughput"] = rate
	}
	r.appendDue(r.tables.Samples, true, func() monitor.Values { return v })
	r.writeVerdicts(at)
}

// writeVerdicts writes each objective when its status changes, and every ten seconds.
func (r *run) writeVerdicts(at time.Duration) {
	for _, v := range r.verdicts {
		last, written := r.written[v.Objective]
		if written && last.status == v.Status && at-last.at < 10*time.Second {
			continue
		}
		r.written[v.Objective] = writtenVerdict{at, v.Status}
		line := monitor.Values{"time_s": at, "objective": v.Objective, "value": v.Value, "limit": v.Limit, "unit": v.Unit, "status": v.Status, "severity": v.Severity}
		setInterval(line, "projected", v.Projected)
		r.append(r.tables.SLA, line)
	}
}

// writtenVerdict is the last written verdict of an objective.
type writtenVerdict struct {
	at     time.Duration
	status sla.Status
}

// performance returns the values of a training row for the table of performance, with the utilization of the segment.
func (r *run) performance(row *trainlog.Row, at time.Duration) monitor.Values {
	get := func(c trainlog.Column) float64 { v, _ := row.Value(c); return v }
	seg := r.Progress.Current()
	line := monitor.Values{"time_s": at, "epoch": get(trainlog.Epoch), "step": get(trainlog.Step), "epoch_time_s": get(trainlog.EpochTime),
		"throughput": get(trainlog.Throughput), "train_loss": get(trainlog.TrainLoss), "train_accuracy": get(trainlog.TrainAccuracy),
		"test_loss": get(trainlog.TestLoss), "test_accuracy": get(trainlog.TestAccuracy), "gpus": r.Current.GPUs, "cpus": r.Current.CPUs, "cost_usd": r.spent()}
	if seg != nil {
		line["gpu_util_percent"], line["cpu_util_percent"] = mean(seg.GPUSum, seg.GPUN), mean(seg.CPUSum, seg.CPUN)
	}
	return line
}

func (r *run) noteAllocation(a resources.Allocation, applied, reason string) {
	r.append(r.tables.Allocation, allocationValues(monitor.Values{"time_s": r.elapsed(), "applied": applied, "reason": reason}, a))
}

// writeFront appends every candidate of a plan to the table of the Pareto front.
func (r *run) writeFront(p plan.Plan) {
	for _, c := range p.Candidates {
		v := allocationValues(monitor.Values{"time_s": r.elapsed(), "resource": c.Resource, "feasible": c.Feasible, "on_front": c.OnFront,
			"chosen": c.Allocation.Same(p.Allocation)}, c.Allocation)
		setInterval(v, "seconds", &c.Seconds)
		setInterval(v, "cost_usd", &c.CostUSD)
		r.append(r.tables.Pareto, v)
	}
}

// state returns the decision state of 21 numbers (simulator/training).
func (r *run) state() perf.State {
	in := perf.StateInput{Allocation: r.Current, Limits: r.Limits, GPUUtil: r.sampler.last.GPUMean(),
		CPUUtil: r.cpuUtil(), MemoryGiB: r.sampler.last.Tree.MemoryGiB,
		Done: r.Progress.Done, Total: r.Progress.Total, Throughput: r.throughput(), Elapsed: r.elapsed().Seconds(), SpentUSD: r.spent(),
		Spec: r.Config.SLA, Verdicts: r.verdicts, Probing: r.Phase == probing}
	if b := r.rec.Baseline; b != nil {
		in.ReferenceSeconds, in.ReferenceUSD, in.ReferenceSamples = b.Seconds.P50, b.CostUSD.P50, b.Throughput.P50
	}
	return perf.BuildState(in)
}

// writeDecision writes one line of the decision log.
func (r *run) writeDecision(a journal.Action) {
	at := r.elapsed()
	state, reward, w := r.state(), r.reward(a.To), r.Config.Preference
	scalar := w.Time*reward.Time + w.Cost*reward.Cost + w.Resource*reward.Resource + reward.SLA
	line := monitor.Values{"time_s": at, "state": state[:], "action": a.Action, "action_description": a.Description,
		"gpus": a.To.GPUs, "cpus": a.To.CPUs, "memory_gib": a.To.Memory, "policy": r.Config.Planner, "critic_reset": r.critics.replaced,
		"reward_time": reward.Time, "reward_cost": reward.Cost, "reward_resource": reward.Resource, "reward_sla": reward.SLA, "reward_scalar": scalar}
	if a.To.BatchSize > 0 {
		line["batch_size"] = a.To.BatchSize
	}
	if l := r.plan.Learned; l != nil {
		learnedValues(line, l)
	}
	for _, v := range r.verdicts {
		if v.Status != sla.Unknown {
			line["sla_"+string(v.Objective)+"_met"] = v.Status == sla.Met
		}
	}
	r.critics.replaced = false
	r.append(r.tables.RL, line)
	r.append(r.tables.Reward, monitor.Values{"time_s": at, "reward_time": reward.Time, "reward_cost": reward.Cost, "reward_resource": reward.Resource,
		"reward_sla": reward.SLA, "reward_scalar": scalar, "weight_time": w.Time, "weight_cost": w.Cost, "weight_resource": w.Resource, "policy": r.Config.Planner})
}

// learnedValues adds the values of a learning agent: the weights of the decision, the critics' expectation for the
// remaining run (relative to the baseline) and its uncertainty, the agent's own action, and the reason of a fallback
// to the model.
func learnedValues(line monitor.Values, l *plan.Learned) {
	if l.Fallback != "" {
		line["fallback"] = l.Fallback
	}
	if l.Agent == "" { // the agent was not evaluated
		return
	}
	line["policy"] = "morl: " + l.Agent
	line["agent_action"] = l.Action
	var sum float64
	for i, name := range perf.Objectives {
		line["weight_"+name], line["value_"+name] = l.Weights[i], l.Value[i]
		sum += l.Weights[i] * l.Weights[i] * l.Spread[i] * l.Spread[i]
	}
	line["uncertainty"] = math.Sqrt(sum)
}

// reward returns the vector reward per unit of work at an allocation.
func (r *run) reward(a resources.Allocation) perf.Reward {
	unit := math.NaN()
	if r.model != nil {
		unit = r.model.UnitSeconds(a).P50
	}
	return perf.RewardOf(perf.RewardInput{UnitSeconds: unit, USDPerHour: float64(r.Rates.Hourly(a)), Allocation: a, Limits: r.Limits,
		Verdicts: r.verdicts})
}
