package tracker

import (
	"math"
	"net/http"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"trainopt/internal/regular"
	"trainopt/optimizer/journal"
	"trainopt/sla"
)

// retention is the time after the end of a run at which its series end.
const retention = 10 * time.Minute

// The labels of a run's series are its id and the owner of its directory, so that their number is bounded.
var runLabels = []string{"run", "user"}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("optimize_"+name, help, labels, nil)
}

func describeRun(name, help string, more ...string) *prometheus.Desc {
	return describe("run_"+name, help, append(append([]string{}, runLabels...), more...)...)
}

var (
	runs             = describe("runs", "Runs of the state directory by state; interrupted: without an agent and without an end.", "state")
	costUSD          = describeRun("cost_usd", "Cost of the run so far, in USD.")
	elapsedSeconds   = describeRun("elapsed_seconds", "Time of the run so far, in seconds.")
	progressRatio    = describeRun("progress_ratio", "Share of the work that is done; absent if the total amount of work is unknown.")
	predictedSeconds = describeRun("predicted_seconds", "Latest prediction of the time of the whole run, in seconds, by quantile q; absent after its end.", "q")
	predictedCostUSD = describeRun("predicted_cost_usd", "Latest prediction of the cost of the whole run, in USD, by quantile q; absent after its end.", "q")
	slaOK            = describeRun("sla_ok", "1 if the limit is met, or the projection meets it; 0 if it is at risk or missed; absent without data.", "term")
	gpuUtilRatio     = describeRun("gpu_util_ratio", "Mean utilization of the GPUs of the run so far.")
	restartsTotal    = describeRun("restarts_total", "Restarts of the job: moves to another allocation, and failures.")
	queueSeconds     = describeRun("queue_seconds", "Time of waiting for places on an engine, in seconds; absent for a run on this machine.")

	all = append([]*prometheus.Desc{runs, costUSD, elapsedSeconds, progressRatio, predictedSeconds, predictedCostUSD, slaOK, gpuUtilRatio, restartsTotal, queueSeconds}, ofCluster...)
)

// NewMetrics returns a registry with the metrics of the runs and of the cluster in a state directory, which need not
// exist yet. A gathering reads the records that changed since the last one, the last sample of each running run, and what
// was appended to the event log of the cluster.
func NewMetrics(stateDir string, now func() time.Time) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(&collector{index: index{stateDir: stateDir, runs: map[string]*entry{}}, cluster: clusterLog{dir: filepath.Join(stateDir, "cluster")}, now: now, users: map[uint32]string{}})
	return reg
}

// MetricsHandler serves the metrics in the format that the client accepts.
func MetricsHandler(g prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(g, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 30 * time.Second})
}

// collector implements prometheus.Collector.
type collector struct {
	now func() time.Time

	mu      sync.Mutex
	index   index
	cluster clusterLog
	users   map[uint32]string // names by user id
}

// Describe sends the descriptions of all metrics.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range all {
		out <- d
	}
}

// Collect sends the values of all runs that are shown.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if err := c.index.update(now); err != nil {
		out <- prometheus.NewInvalidMetric(runs, err)
		return
	}
	counts := map[string]int{"running": 0, "interrupted": 0, string(journal.Done): 0, string(journal.Failed): 0, string(journal.Stopped): 0}
	for _, e := range c.index.runs {
		if e.state != "" {
			counts[e.state]++
		}
		if e.record != nil {
			c.run(out, e)
		}
	}
	for state, n := range counts {
		out <- prometheus.MustNewConstMetric(runs, prometheus.GaugeValue, float64(n), state)
	}
	if c.cluster.update() == nil { // a log that cannot be read has no series
		c.cluster.send(out, now)
	}
}

// run sends the values of one run.
func (c *collector) run(out chan<- prometheus.Metric, e *entry) {
	rec, labels := e.record, []string{e.record.RunID, c.userName(e.uid)}
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, more ...string) {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			out <- prometheus.MustNewConstMetric(d, kind, v, append(labels[:2:2], more...)...)
		}
	}
	o, sample := &rec.Outcome, map[string]float64(nil)
	if !rec.Over() {
		sample = regular.LastRow(filepath.Join(e.dir, "samples.csv"))
	}
	send(costUSD, prometheus.GaugeValue, newer(o.CostUSD, sample, "cost_usd"))
	send(elapsedSeconds, prometheus.GaugeValue, newer(o.Seconds, sample, "time_s"))
	send(progressRatio, prometheus.GaugeValue, progress(rec))
	send(gpuUtilRatio, prometheus.GaugeValue, float64(o.GPUUtil)/100)
	send(restartsTotal, prometheus.CounterValue, float64(o.Restarts))
	if o.QueueSeconds != nil {
		send(queueSeconds, prometheus.GaugeValue, *o.QueueSeconds)
	}
	for _, v := range rec.SLA.Verdicts {
		switch v.Status {
		case sla.Met:
			send(slaOK, prometheus.GaugeValue, 1, string(v.Objective))
		case sla.AtRisk, sla.Violated:
			send(slaOK, prometheus.GaugeValue, 0, string(v.Objective))
		}
	}
	if !rec.Over() {
		seconds, usd := prediction(rec, sample)
		for i, quantile := range []string{"0.05", "0.5", "0.95"} {
			send(predictedSeconds, prometheus.GaugeValue, seconds[i], quantile)
			send(predictedCostUSD, prometheus.GaugeValue, usd[i], quantile)
		}
	}
}

// newer returns a value that only grows from the record or the last sample, which is written more often.
func newer(recorded journal.Number, sample map[string]float64, column string) float64 {
	if v, ok := sample[column]; ok && !(v < float64(recorded)) {
		return v
	}
	return float64(recorded)
}

// progress returns the share of the work that is done, NaN if it is unknown.
func progress(rec *journal.Record) float64 {
	done := rec.Outcome.Epochs
	if !done.Known() {
		done = rec.Outcome.Steps
	}
	if total := float64(rec.Training.TotalUnits); total > 0 {
		return math.Min(1, float64(done)/total)
	}
	return math.NaN()
}

// prediction returns the 5, 50 and 95 % quantiles of the whole run's seconds and cost: of the latest sample, where it has
// them, otherwise of the verdicts, otherwise of the plan; NaN if unknown.
func prediction(rec *journal.Record, sample map[string]float64) (seconds, usd [3]float64) {
	of := func(objective sla.Objective, column string, planned func(*journal.Prediction) sla.Interval) [3]float64 {
		none := math.NaN()
		if p50, ok := sample[column]; ok {
			out := [3]float64{none, p50, none}
			for i, suffix := range map[int]string{0: "_p5", 2: "_p95"} {
				if v, ok := sample[column+suffix]; ok {
					out[i] = v
				}
			}
			return out
		}
		for _, v := range rec.SLA.Verdicts {
			if p := v.Projected; v.Objective == objective && p != nil {
				return [3]float64{p.P5, p.P50, p.P95}
			}
		}
		if rec.Plan != nil && rec.Plan.Prediction != nil {
			p := planned(rec.Plan.Prediction)
			return [3]float64{p.P5, p.P50, p.P95}
		}
		return [3]float64{none, none, none}
	}
	return of(sla.Time, "projected_s", func(p *journal.Prediction) sla.Interval { return p.Seconds }),
		of(sla.Cost, "projected_cost_usd", func(p *journal.Prediction) sla.Interval { return p.CostUSD })
}

// userName returns the name of a user, its number if it has none.
func (c *collector) userName(uid uint32) string {
	name, ok := c.users[uid]
	if !ok {
		name = strconv.FormatUint(uint64(uid), 10)
		if u, err := user.LookupId(name); err == nil {
			name = u.Username
		}
		c.users[uid] = name
	}
	return name
}
