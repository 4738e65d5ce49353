package monitor

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"trainopt/monitor/trainlog"
)

// Tables are the metric tables of a run directory.
type Tables struct {
	Samples      *Table // samples.csv: one row per sampling interval; thinned
	Log          *Table // log.csv: the training rows as read, normalised; thinned
	RL           *Table // rl_metrics.csv: one row per decision
	Allocation   *Table // allocation_history.csv: one row per change of allocation
	Reward       *Table // reward_components.csv: one row per decision
	SLA          *Table // sla_metrics.csv: one row per objective at each change of its status, and every ten seconds
	Pareto       *Table // pareto_front.csv: one row per candidate of a plan
	Performance  *Table // performance_metrics.csv: one row per training row, with the resource use of the machine; thinned
	Optimization *Table // optimization_metrics.csv: one row per run: baseline and result
}

var samplesColumns = []string{"time_s", "gpus", "cpus", "memory_gib", "tree_cpu_percent", "tree_memory_gib", "tree_read_bytes", "tree_write_bytes", "procs",
	"host_cpu_percent", "host_memory_gib", "gpu_util_percent", "gpu_memory_gib", "gpu_power_w", "gpu_energy_j", "cost_usd", "projected_s", "projected_cost_usd",
	"projected_s_p5", "projected_s_p95", "projected_cost_usd_p5", "projected_cost_usd_p95", "units", "throughput", "cpu_energy_j"}

var rlColumns = []string{"time_s", "state", "action", "action_description", "gpus", "cpus", "memory_gib", "batch_size",
	"reward_time", "reward_cost", "reward_resource", "reward_sla", "reward_scalar", "policy",
	"sla_time_met", "sla_cost_met", "sla_throughput_met", "sla_memory_met", "sla_gpu_util_met", "sla_cpu_util_met", "critic_reset",
	"weight_time", "weight_cost", "weight_resource", "weight_sla", "value_time", "value_cost", "value_resource", "value_sla",
	"uncertainty", "agent_action", "fallback"}

var allocationColumns = []string{"time_s", "gpus", "cpus", "memory_gib", "batch_size", "num_workers", "applied", "reason", "threads"}

var rewardColumns = []string{"time_s", "reward_time", "reward_cost", "reward_resource", "reward_sla", "reward_scalar",
	"weight_time", "weight_cost", "weight_resource", "policy"}

var slaColumns = []string{"time_s", "objective", "value", "limit", "unit", "projected_p5", "projected_p50", "projected_p95", "status", "severity"}

var paretoColumns = []string{"time_s", "gpus", "cpus", "memory_gib", "batch_size", "num_workers", "seconds_p5", "seconds_p50", "seconds_p95",
	"cost_usd_p5", "cost_usd_p50", "cost_usd_p95", "resource", "feasible", "on_front", "chosen", "threads"}

var performanceColumns = []string{"time_s", "epoch", "step", "epoch_time_s", "throughput", "train_loss", "train_accuracy", "test_loss", "test_accuracy",
	"gpus", "cpus", "gpu_util_percent", "cpu_util_percent", "cost_usd"}

var optimizationColumns = []string{"run_id", "planner", "preference_time", "preference_cost", "preference_resource",
	"baseline_gpus", "baseline_cpus", "baseline_memory_gib", "baseline_seconds", "baseline_cost_usd", "baseline_throughput", "baseline_compliance",
	"gpus", "cpus", "memory_gib", "seconds", "cost_usd", "throughput", "compliance",
	"seconds_change_pct", "cost_change_pct", "throughput_change_pct", "probe_cost_usd", "restarts"}

// OpenTables creates the tables of a run directory, each with its header, or continues existing ones. The returned
// tables are always usable: an error is a warning that writing currently fails.
func OpenTables(dir string) (*Tables, error) {
	table := func(name string, columns []string) *Table { return newTable(filepath.Join(dir, name), columns...) }
	t := &Tables{
		Samples:      table("samples.csv", samplesColumns),
		Log:          table("log.csv", append([]string{"time_s"}, trainlog.TableColumns()...)),
		RL:           table("rl_metrics.csv", rlColumns),
		Allocation:   table("allocation_history.csv", allocationColumns),
		Reward:       table("reward_components.csv", rewardColumns),
		SLA:          table("sla_metrics.csv", slaColumns),
		Pareto:       table("pareto_front.csv", paretoColumns),
		Performance:  table("performance_metrics.csv", performanceColumns),
		Optimization: table("optimization_metrics.csv", optimizationColumns),
	}
	for _, table := range []*Table{t.Samples, t.Log, t.Performance} { // the others grow with decisions
		table.thin = thinning{rows: thinRows, bytes: thinBytes}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return t, fmt.Errorf("make the run directory for metric tables: %w", err)
	}
	for _, table := range t.All() {
		if err := table.firstWriteError(table.flush()); err != nil { // creates the file with its header
			return t, err
		}
	}
	return t, nil
}

// All returns the tables.
func (t *Tables) All() []*Table {
	return []*Table{t.Samples, t.Log, t.RL, t.Allocation, t.Reward, t.SLA, t.Pareto, t.Performance, t.Optimization}
}

// Close closes all tables.
func (t *Tables) Close() error {
	var errs []error
	for _, table := range t.All() {
		errs = append(errs, table.Close())
	}
	return errors.Join(errs...)
}

// Values returns the columns of samples.csv that a sample provides: tree_…, procs, host_… and gpu_…. GPU utilization
// is the mean over the devices and the other GPU columns are sums; a sum with an unknown term is unknown.
func (s *Sample) Values() Values {
	v := Values{
		"tree_cpu_percent": s.Tree.CPUPercent, "tree_memory_gib": s.Tree.MemoryGiB,
		"tree_read_bytes": s.Tree.ReadBytes, "tree_write_bytes": s.Tree.WriteBytes,
		"host_cpu_percent": s.Host.CPUPercent, "host_memory_gib": s.Host.MemoryGiB, "cpu_energy_j": s.Host.CPUEnergyJ,
		"gpu_util_percent": s.GPUMean(), "gpu_memory_gib": s.gpuSum(func(g *GPUSample) float64 { return g.MemoryGiB }),
		"gpu_power_w":  s.gpuSum(func(g *GPUSample) float64 { return g.PowerW }),
		"gpu_energy_j": s.gpuSum(func(g *GPUSample) float64 { return g.EnergyJ }),
	}
	if s.Tree.Procs > 0 {
		v["procs"] = s.Tree.Procs
	}
	return v
}

// GPUMean returns the mean utilization in % of the devices that report it; NaN if none does.
func (s *Sample) GPUMean() float64 {
	sum, n := 0.0, 0
	for i := range s.GPUs {
		if u := s.GPUs[i].UtilPercent; !math.IsNaN(u) {
			sum += u
			n++
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return sum / float64(n)
}

// gpuSum returns the sum of a value over the devices; NaN if there are none.
func (s *Sample) gpuSum(of func(*GPUSample) float64) float64 {
	if len(s.GPUs) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for i := range s.GPUs {
		sum += of(&s.GPUs[i])
	}
	return sum
}
