package slurm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"trainopt/optimizer/engine"
	"trainopt/resources"
)

// snapshotSeparator follows each column of snapshotFormat. A list of features contains a | of its own.
const snapshotSeparator = "#|"

// snapshotColumns are the columns of squeue --Format, each of unlimited width. No column contains the excluded nodes of a
// job, which are therefore not modelled. The name is the last, since it may contain the separator.
var snapshotColumns = []string{"JobArrayID", "State", "Reason", "UserName", "Partition", "PriorityLong", "SubmitTime", "EligibleTime", "StartTime", "TimeLimit",
	"NumNodes", "NumCPUs", "tres-alloc", "tres-per-node", "OverSubscribe", "Feature", "NodeList", "Name"}

func snapshotFormat() string {
	return strings.Join(snapshotColumns, ":"+snapshotSeparator+",") + ":" + snapshotSeparator
}

// snapshot is a queue that is being read.
type snapshot struct {
	engine.Queue
	countsMemory bool // jobs share the memory of nodes
}

// Queue returns the state of the queue, with the jobs of all users that the site shows: without those of others, which
// PrivateData hides, a prediction is too early. Jobs that are ending are left out, since their resources are about to
// be free.
func (e *Engine) Queue(ctx context.Context, now time.Time) (engine.Queue, error) {
	q := snapshot{Queue: engine.Queue{Now: now}}
	for _, part := range []struct {
		what  string
		argv  []string
		parse func(string, *snapshot) error
	}{
		{"read the configuration", []string{"scontrol", "show", "config"}, readConfig},
		{"list partitions", []string{"scontrol", "--all", "--oneliner", "show", "partition"}, readPartitions},
		{"list nodes", []string{"scontrol", "--all", "--oneliner", "show", "node"}, readNodes},
		{"list the jobs of all users", []string{"squeue", "--all", "--array", "--Format=" + snapshotFormat()}, readJobs},
	} {
		out, err := e.query(ctx, part.argv...)
		if err == nil {
			err = part.parse(out, &q)
		}
		if err != nil {
			return q.Queue, fmt.Errorf("%s: %w", part.what, err)
		}
	}
	return q.Queue, nil
}

// History returns the jobs of all users that ended since a time, as far as the accounting shows them.
func (e *Engine) History(ctx context.Context, since time.Time) (engine.History, error) {
	out, err := e.query(ctx, "sacct", "--allusers", "--allocations", "--duplicates", "--parsable2", "--format="+AccountingFields,
		"--starttime="+since.UTC().Format("2006-01-02T15:04:05"), "--endtime=now")
	if err != nil {
		return engine.History{}, fmt.Errorf("read the history of the queue: %w", err)
	}
	jobs, err := ReadAccounting(strings.NewReader(out))
	if bad := (*BadLines)(nil); err != nil && !errors.As(err, &bad) {
		return engine.History{}, fmt.Errorf("read the history of the queue: %w", err)
	}
	return history(jobs, since), nil
}

// history converts the lives of jobs that ran and were submitted since a time.
func history(jobs []Job, since time.Time) engine.History {
	h := engine.History{Since: since}
	for i := range jobs {
		j := &jobs[i]
		if !j.Ended() || len(j.Nodes) == 0 || j.Start.IsZero() || j.Submit.Before(since) {
			continue
		}
		past := engine.Job{ID: j.ID, User: j.User, Name: engine.TrainingOf(j.Name), Place: placeOf(j.AllocTRES, max(j.NodeCount, 1)), Submitted: j.Submit, Started: j.Start, Ended: j.End}
		past.Place.Partition = j.Partition
		if j.Limit != nil {
			past.Limit = *j.Limit
		}
		h.Jobs = append(h.Jobs, past)
	}
	return h
}

// placeOf divides the resources of all nodes of a job.
func placeOf(tres map[string]float64, nodes int) engine.Place {
	per := func(total float64) int { return int(math.Ceil(min(total, math.MaxInt32) / float64(nodes))) }
	p := engine.Place{Nodes: nodes, CPUs: per(tres["cpu"]), Memory: resources.GiB(tres["mem"] / float64(nodes))}
	gpus, kind := gpusOf(tres)
	p.GPUs, p.GPUType = per(float64(gpus)), kind
	return p
}

// readConfig reads the parameters of the scheduler from scontrol show config.
func readConfig(text string, q *snapshot) error {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(line, "="); ok {
			values[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	if len(values) == 0 {
		return errors.New("scontrol: output without a parameter")
	}
	parameters := map[string]int{}
	for _, p := range strings.Split(values["SchedulerParameters"], ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if n, err := strconv.Atoi(value); err == nil && n >= 0 {
			parameters[name] = n
		}
	}
	parameter := func(name string, standard int) time.Duration {
		if n, ok := parameters[name]; ok {
			standard = n
		}
		return time.Duration(standard)
	}
	q.Scheduler = engine.Scheduler{
		Interval:   parameter("bf_interval", 30) * time.Second,
		Window:     parameter("bf_window", 24*60) * time.Minute,
		Resolution: parameter("bf_resolution", 60) * time.Second,
		Depth:      int(parameter("bf_max_job_test", 500)),
		WholeNodes: true,
		EndWindow:  30 * time.Second,
		Latency:    reaction,
	}
	if values["SchedulerType"] == "sched/builtin" {
		q.Scheduler.Interval = 1000 * 24 * time.Hour // never
	}
	if !strings.Contains(strings.ToUpper(values["SelectTypeParameters"]), "MEMORY") {
		return nil // memory is not allocated
	}
	q.countsMemory = true
	if limit := values["DefMemPerNode"]; limit == "UNLIMITED" || limit == "0" {
		q.Scheduler.DefaultMemory = resources.GiB(math.Inf(1))
	} else if mb, err := wholeNumber(limit); err == nil {
		q.Scheduler.DefaultMemory = resources.GiB(float64(mb) / 1024)
	}
	return nil
}

// reaction is the longest time by which Slurm reacts to an end or a submission without load.
const reaction = 2 * time.Second

// properties reads a line of scontrol --oneliner. Values may contain spaces.
func properties(line string) map[string]string {
	out := map[string]string{}
	last := ""
	for _, word := range strings.Fields(line) {
		name, value, ok := strings.Cut(word, "=")
		if ok && name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_:/") == "" {
			last = name
			if _, have := out[name]; !have {
				out[name] = value
			}
		} else if last != "" {
			out[last] += " " + word
		}
	}
	return out
}

// readPartitions reads scontrol show partition.
func readPartitions(text string, q *snapshot) error {
	for line := range strings.Lines(text) {
		p := properties(line)
		name := p["PartitionName"]
		if name == "" || p["State"] != "UP" && p["State"] != "" {
			continue
		}
		part := engine.Partition{Name: name, Default: p["Default"] == "YES", Tier: 1}
		if tier, err := strconv.Atoi(p["PriorityTier"]); err == nil {
			part.Tier = tier
		}
		for _, limit := range []string{p["DefaultTime"], p["MaxTime"]} {
			d, err := parseLimit(known(limit))
			if err != nil {
				return fmt.Errorf("scontrol: partition %s: %w", name, err)
			}
			if part.Limit == 0 {
				part.Limit = d
			}
		}
		q.Partitions = append(q.Partitions, part)
	}
	if len(q.Partitions) == 0 {
		return errors.New("scontrol: output without a partition that is up")
	}
	return nil
}

// closed are the states of nodes on which no job starts.
var closed = []string{"DOWN", "DRAIN", "DRAINED", "DRAINING", "ERROR", "FAIL", "FAILING", "FUTURE", "INVAL", "INVALID_REG", "MAINTENANCE", "NOT_RESPONDING", "NO_RESPOND",
	"PERFCTRS", "POWERING_DOWN", "REBOOT", "REBOOT_REQUESTED", "REBOOT_ISSUED", "RESERVED", "UNKNOWN", "BLOCKED"}

// readNodes reads scontrol show node. Nodes on which no job starts are left out.
func readNodes(text string, q *snapshot) error {
	for line := range strings.Lines(text) {
		p := properties(line)
		if p["NodeName"] == "" || isClosed(p["State"]) {
			continue
		}
		n, err := readNode(p)
		if err != nil {
			return fmt.Errorf("scontrol: node %s: %w", p["NodeName"], err)
		}
		if !q.countsMemory {
			n.Memory = resources.GiB(math.Inf(1))
		}
		q.Nodes = append(q.Nodes, n)
	}
	if len(q.Nodes) == 0 {
		return errors.New("scontrol: output without a node that accepts jobs")
	}
	return nil
}

// isClosed reports whether one of the parts of a state, such as IDLE+DRAIN or DOWN*, excludes new jobs.
func isClosed(state string) bool {
	if strings.HasSuffix(state, "*") || strings.HasSuffix(state, "$") {
		return true
	}
	return slices.ContainsFunc(strings.FieldsFunc(state, func(r rune) bool { return r == '+' || r < 'A' || r > '_' }), func(part string) bool {
		return slices.Contains(closed, part)
	})
}

func readNode(p map[string]string) (engine.Node, error) {
	n := engine.Node{Name: p["NodeName"], Weight: 1, GPUs: map[string]int{}}
	if weight, err := strconv.Atoi(p["Weight"]); err == nil {
		n.Weight = weight
	}
	n.Partitions = list(p["Partitions"])
	n.Features = list(p["ActiveFeatures"])
	cpus := p["CPUEfctv"]
	if cpus == "" {
		cpus = p["CPUTot"]
	}
	var err error
	if n.CPUs, err = wholeNumber(cpus); err != nil {
		return n, err
	}
	mb, err := wholeNumber(p["RealMemory"])
	if err != nil {
		return n, err
	}
	if reserved, err := wholeNumber(p["MemSpecLimit"]); err == nil {
		mb -= reserved
	}
	n.Memory = resources.GiB(float64(mb) / 1024)
	all, err := parseGRES(known(p["Gres"]))
	if err != nil {
		return n, err
	}
	for _, r := range all {
		if r.name == "gpu" {
			n.GPUs[r.kind] += r.count
		}
	}
	return n, nil
}

// list returns the items of a list; nil for an unknown one.
func list(text string) []string {
	if text = known(text); text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// readJobs reads the output of squeue with snapshotFormat. Lines with too few columns, such as the rest of a name with
// a line break, are skipped.
func readJobs(text string, q *snapshot) error {
	var at map[string]int
	for line := range strings.Lines(text) {
		cells := strings.SplitN(strings.TrimRight(line, "\r\n"), snapshotSeparator, len(snapshotColumns))
		if at == nil {
			if len(cells) < len(snapshotColumns) {
				break
			}
			at = map[string]int{}
			for i, name := range snapshotColumns {
				at[name] = i
			}
			continue
		}
		if len(cells) < len(snapshotColumns) {
			continue
		}
		cell := func(name string) string { return known(cells[at[name]]) }
		j, running, err := readJob(cell, q.Now)
		if err != nil {
			return fmt.Errorf("squeue: job %s: %w", cell("JobArrayID"), err)
		}
		switch s := state(cell("State")); {
		case running && s != engine.Ending && s != engine.Ended:
			q.Running = append(q.Running, j)
		case s == engine.Pending:
			q.Waiting = append(q.Waiting, j)
		}
	}
	if at == nil {
		return fmt.Errorf("squeue: output without the %d columns that were requested", len(snapshotColumns))
	}
	return nil
}

// open are the reasons of a waiting job whose start depends only on resources and on the jobs ahead of it.
var open = []string{"", "Resources", "Priority", "BeginTime", "None", "Prolog"}

// readJob converts a line of squeue, and reports whether the job has nodes.
func readJob(cell func(column string) string, now time.Time) (j engine.Job, running bool, err error) {
	j = engine.Job{ID: cell("JobArrayID"), User: cell("UserName"), Name: engine.TrainingOf(strings.TrimSuffix(cell("Name"), snapshotSeparator)), Exclusive: cell("OverSubscribe") == "NO"}
	var errs [9]error
	j.Nodes, errs[0] = expandHosts(cell("NodeList"))
	j.Limit, errs[1] = parseLimit(cell("TimeLimit"))
	j.Submitted, errs[2] = parseTime(cell("SubmitTime"))
	eligible, err := parseTime(cell("EligibleTime"))
	errs[3] = err
	start, err := parseTime(cell("StartTime"))
	errs[4] = err
	if running = len(j.Nodes) > 0; running {
		j.Started = start
	} else {
		j.Held = !slices.Contains(open, cell("Reason"))
		if eligible.After(now) {
			j.NotBefore = eligible
		}
	}
	nodes, _, _ := strings.Cut(cell("NumNodes"), "-")
	count, err := wholeNumber(nodes)
	errs[5] = err
	tres, err := parseTRES(cell("tres-alloc"), mebibyte)
	errs[6] = err
	j.Place = placeOf(tres, max(count, 1))
	if j.Place.CPUs == 0 {
		j.Place.CPUs, errs[7] = wholeNumber(cell("NumCPUs"))
		j.Place.CPUs /= max(count, 1)
	}
	if j.Place.GPUs == 0 {
		j.Place.GPUs, j.Place.GPUType, errs[8] = gpusPerNode(cell("tres-per-node"))
	}
	j.Place.Partition = cell("Partition")
	if f := cell("Feature"); !strings.ContainsAny(f, "|[](){}*!") { // alternatives are not modelled
		j.Features = list(strings.ReplaceAll(f, "&", ","))
	}
	if p, err := strconv.ParseFloat(cell("PriorityLong"), 64); err == nil {
		j.Priority = p
	}
	return j, running, errors.Join(errs[:]...)
}

// gpusPerNode reads the GPUs in resources per node such as gres:gpu:a100:2 or gres/gpu:2, which squeue shows also on
// sites whose accounting does not record GPUs.
func gpusPerNode(text string) (n int, kind string, err error) {
	all, err := parseGRES(strings.ReplaceAll(text, "gres:", ""))
	for _, r := range all {
		if r.name == "gpu" {
			n, kind = n+r.count, r.kind
		}
	}
	return n, kind, err
}
