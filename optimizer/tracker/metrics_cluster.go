package tracker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"trainopt/internal/regular"
	"trainopt/optimizer/cluster"
	"trainopt/optimizer/journal"
)

var (
	clusterUp        = describe("cluster_up", "1 if a scheduler serves the cluster of the state directory, else 0; absent without a cluster.")
	clusterJobs      = describe("cluster_jobs", "Jobs of the cluster by state, ended ones included.", "state")
	clusterDevices   = describe("cluster_devices", "Devices of the cluster by type and state (busy, free), as of the latest event.", "type", "state")
	clusterQueue     = describe("cluster_queue_seconds", "Time since the waiting jobs were submitted, or have lost their devices, in seconds, by quantile q; absent if no job waits.", "q")
	clusterPolicy    = describe("cluster_policy_info", "1 for the policy in force.", "policy")
	clusterDecisions = describe("cluster_decisions_total", "Decisions of the policy.")
	clusterMoves     = describe("cluster_moves_total", "Starts of jobs after their first: moves, changed numbers of devices, and continuations.")

	ofCluster = []*prometheus.Desc{clusterUp, clusterJobs, clusterDevices, clusterQueue, clusterPolicy, clusterDecisions, clusterMoves}
)

// jobStates are the states of jobs that have a series even without a job.
var jobStates = []cluster.State{cluster.Waiting, cluster.Starting, cluster.Running, cluster.Stopping, cluster.Done, cluster.Failed, cluster.Stopped, cluster.Cancelled}

// clusterLog is the state of a cluster from its event log, of which each update reads what is new.
type clusterLog struct {
	dir      string // <state directory>/cluster
	identity fs.FileInfo
	read     int64 // bytes
	served   bool
	policy   string
	types    []cluster.Device
	jobs     map[int]*clusterJob
	decided  int
	moved    int
}

type clusterJob struct {
	state  cluster.State
	since  float64 // Unix seconds of the state waiting
	device string
	where  []int32
}

// update reads the complete lines that were appended. A log that was replaced is read from its start.
func (c *clusterLog) update() error {
	f, err := regular.Open(filepath.Join(c.dir, "events.jsonl"), regular.NoLimit)
	if errors.Is(err, fs.ErrNotExist) {
		*c = clusterLog{dir: c.dir}
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if c.identity == nil || !os.SameFile(c.identity, info) || info.Size() < c.read {
		*c = clusterLog{dir: c.dir, jobs: map[int]*clusterJob{}}
	}
	c.identity = info
	if _, err := f.Seek(c.read, io.SeekStart); err != nil {
		return err
	}
	for lines := bufio.NewReaderSize(f, 64<<10); ; {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF { // a line that is being written is read later
			return nil
		}
		if err != nil {
			return err
		}
		c.read += int64(len(line))
		c.take(line)
	}
}

// take applies a line of the log; one that is no event changes nothing.
func (c *clusterLog) take(line []byte) {
	if bytes.Contains(line[:min(len(line), 80)], []byte(`"kind":"decide"`)) { // the most frequent one, and the longest
		c.decided++
		return
	}
	var e cluster.Event
	if json.Unmarshal(line, &e) != nil {
		return
	}
	j := c.jobs[e.Job]
	if j == nil && e.Job > 0 {
		j = &clusterJob{state: cluster.Waiting, since: e.Time}
		c.jobs[e.Job] = j
	}
	switch e.Kind {
	case cluster.EventServe:
		c.served, c.policy, c.types = true, e.Policy, e.Devices
	case cluster.EventPolicy:
		c.policy = e.Policy
	case cluster.EventDevices:
		c.types = e.Devices
	}
	if j == nil {
		return
	}
	switch e.Kind {
	case cluster.EventStart:
		j.state, j.device, j.where = cluster.Starting, e.Device, e.Where
		if e.Stretch > 1 {
			c.moved++
		}
	case cluster.EventRunning:
		j.state = cluster.Running
	case cluster.EventStop:
		j.state = cluster.Stopping
	case cluster.EventLeft:
		j.state, j.since, j.where = cluster.Waiting, e.Time, nil
	case cluster.EventEnd:
		j.state, j.where = e.State, nil
	}
}

// send sends the values of the cluster; nothing without one.
func (c *clusterLog) send(out chan<- prometheus.Metric, now time.Time) {
	waits, fresh := c.waiting(now)
	if !c.served && fresh == 0 {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	up := 0.0
	if journal.HolderOf(c.dir) != nil {
		up = 1
	}
	gauge(clusterUp, up)
	counts := map[cluster.State]int{cluster.Waiting: fresh}
	for _, j := range c.jobs {
		counts[j.state]++
	}
	for _, s := range jobStates {
		gauge(clusterJobs, float64(counts[s]), string(s))
	}
	if slices.Sort(waits); len(waits) > 0 {
		for _, q := range []float64{0.5, 1} {
			gauge(clusterQueue, waits[int(math.Ceil(q*float64(len(waits))))-1], strconv.FormatFloat(q, 'g', -1, 64))
		}
	}
	if !c.served {
		return
	}
	for _, t := range c.types {
		busy := c.busy(t)
		gauge(clusterDevices, float64(busy), t.Name, "busy")
		gauge(clusterDevices, float64(t.Count-busy), t.Name, "free")
	}
	gauge(clusterPolicy, 1, c.policy)
	out <- prometheus.MustNewConstMetric(clusterDecisions, prometheus.CounterValue, float64(c.decided))
	out <- prometheus.MustNewConstMetric(clusterMoves, prometheus.CounterValue, float64(c.moved))
}

// busy returns the number of devices of a type that jobs hold. Two jobs may share a device.
func (c *clusterLog) busy(t cluster.Device) int {
	held := map[int32]bool{}
	for _, j := range c.jobs {
		for _, n := range j.where {
			if j.device == t.Name && int(n) < t.Count {
				held[n] = true
			}
		}
	}
	return len(held)
}

// waiting returns the seconds for which jobs wait, and the number of those among them that no scheduler has taken yet.
func (c *clusterLog) waiting(now time.Time) (waits []float64, fresh int) {
	at := float64(now.UnixMilli()) / 1000
	for _, j := range c.jobs {
		if j.state == cluster.Waiting {
			waits = append(waits, max(0, at-j.since))
		}
	}
	entries, _ := os.ReadDir(filepath.Join(c.dir, "jobs")) // none if it does not exist
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil || c.jobs[id] != nil {
			continue
		}
		if info, err := os.Stat(filepath.Join(c.dir, "jobs", e.Name(), "spec.json")); err == nil {
			fresh++
			waits = append(waits, max(0, now.Sub(info.ModTime()).Seconds()))
		}
	}
	return waits, fresh
}
