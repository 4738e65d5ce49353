package serve

import (
	"cmp"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/report"
	"trainopt/optimizer/report/page"
	"trainopt/sla"
)

// runSummary is a run in the list of runs. Times are in seconds, money in USD; an unknown number is null.
type runSummary struct {
	ID             string         `json:"run_id"`
	Name           string         `json:"name"`
	Script         string         `json:"script"`
	Model          string         `json:"model"`
	State          string         `json:"state"`  // running, interrupted, finished, failed, stopped, planned only, unreadable
	Reason         string         `json:"reason"` // of the end, as in run.json; of an unreadable run, the error
	StartedAt      time.Time      `json:"started_at"`
	FinishedAt     *time.Time     `json:"finished_at"`
	Seconds        journal.Number `json:"seconds"`
	CostUSD        journal.Number `json:"cost_usd"`
	BudgetUSD      journal.Number `json:"budget_usd"`
	DeadlineS      journal.Number `json:"deadline_s"`
	Units          journal.Number `json:"units"` // done
	TotalUnits     journal.Number `json:"total_units"`
	Unit           string         `json:"unit"` // epoch or step
	Throughput     journal.Number `json:"throughput"`
	ThroughputUnit string         `json:"throughput_unit"`
	CPUUtil        journal.Number `json:"cpu_util"`
	TakenCPUs      float64        `json:"taken_cpus,omitempty"` // mean number of the allocated CPUs that other programs used
	GPUUtil        journal.Number `json:"gpu_util"`
	PeakMemoryGiB  journal.Number `json:"peak_memory_gib"`
	SLA            string         `json:"sla"`       // met, missed, at-risk, unknown, none
	SLAWords       string         `json:"sla_words"` // "2 of 3 met"
	Allocation     allocation     `json:"allocation"`
	Planner        string         `json:"planner"`
	Preference     string         `json:"preference"`
	WasteUSD       journal.Waste  `json:"waste_usd"`
	Tags           []string       `json:"tags"`
	Note           string         `json:"note"`

	light    page.Light
	slaLight page.Light
	words    string // lower case, for the search
	dir      string
	changed  time.Time // of the run directory
	granted  float64   // CPUs, as in journal.Outcome
}

type allocation struct {
	GPUs      int            `json:"gpus"`
	CPUs      int            `json:"cpus"`
	MemoryGiB journal.Number `json:"memory_gib"`
	BatchSize int            `json:"batch_size"`
	text      string
}

// mostWaste returns the largest cause: causes may overlap, so their sum could count a dollar twice. Unknown if none is known.
func (s *runSummary) mostWaste() float64 {
	w, most := s.WasteUSD, math.NaN()
	for _, n := range []journal.Number{w.Idle, w.InputBound, w.OverProvisioned, w.Restarts, w.Failed} {
		if n.Known() && !(most >= float64(n)) {
			most = float64(n)
		}
	}
	return most
}

// index holds the summaries of all runs of a state directory. A run directory is read again when it has changed: its
// files are replaced by renaming, which changes the time of the directory. Safe for concurrent use.
type index struct {
	stateDir string

	updating sync.Mutex // one update at a time

	mu      sync.Mutex
	runs    []*runSummary // newest first; never changed, only replaced
	byID    map[string]*runSummary
	total   int // run directories, including those not read yet
	version uint64
	updated time.Time     // end of the last update; zero: none
	first   chan struct{} // closed when the first runs can be shown
}

// firstRuns is the number of runs that are read before the first list is shown; the others follow in the background.
const firstRuns = 60

// freshFor is the time for which the index is not updated again.
const freshFor = time.Second

func newIndex(stateDir string) *index {
	return &index{stateDir: stateDir, byID: map[string]*runSummary{}, first: make(chan struct{})}
}

// listing is a state of the index.
type listing struct {
	runs    []*runSummary // newest first; shared, not to be changed
	total   int           // runs, including those not read yet
	version uint64
}

// list returns the runs and starts an update in the background if the last one is older than freshFor. The first call
// waits for the newest runs.
func (x *index) list() listing {
	x.mu.Lock()
	if time.Since(x.updated) > freshFor && x.updating.TryLock() {
		go func() {
			defer x.updating.Unlock()
			x.update()
		}()
	}
	x.mu.Unlock()
	<-x.first
	x.mu.Lock()
	defer x.mu.Unlock()
	return listing{x.runs, x.total, x.version}
}

// run returns the summary of a run as it is now; false if there is no such run.
func (x *index) run(id string) (*runSummary, bool) {
	if id == "" || strings.ContainsAny(id, "/\\") || strings.HasPrefix(id, ".") {
		return nil, false
	}
	dir := filepath.Join(journal.RunsDir(x.stateDir), id)
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return nil, false
	}
	known := x.known(id)
	if known != nil && known.settled() && known.changed.Equal(info.ModTime()) {
		return known, true
	}
	s := summarize(dir, info.ModTime())
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.byID[id] != nil {
		x.byID[id] = s
		x.runs = slices.Clone(x.runs)
		for i := range x.runs {
			if x.runs[i].ID == id {
				x.runs[i] = s
			}
		}
		x.version++
	}
	return s, true
}

// known returns the summary of a run as it was last read; nil if it was not.
func (x *index) known(id string) *runSummary {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.byID[id]
}

// settled reports whether a run changes only together with its directory.
func (s *runSummary) settled() bool { return s.State != "running" }

// update reads new and changed runs, newest first, and publishes the list.
func (x *index) update() {
	entries, _ := os.ReadDir(journal.RunsDir(x.stateDir)) // none in a state directory that does not exist
	x.mu.Lock()
	before := len(x.byID)
	x.mu.Unlock()
	var dirs []string
	for _, e := range slices.Backward(entries) { // ReadDir sorts by name, and names begin with the time
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			dirs = append(dirs, e.Name())
		}
	}
	changed := len(dirs) != before
	runs := make([]*runSummary, 0, len(dirs))
	for i, id := range dirs {
		if i == firstRuns && before == 0 {
			x.publish(runs, len(dirs), true)
		}
		dir := filepath.Join(journal.RunsDir(x.stateDir), id)
		info, err := os.Lstat(dir)
		if err != nil {
			changed = true
			continue
		}
		known := x.known(id)
		if known == nil || !known.changed.Equal(info.ModTime()) || !known.settled() {
			s := summarize(dir, info.ModTime())
			changed = changed || known == nil || !known.changed.Equal(s.changed) || known.State != s.State
			known = s
		}
		runs = append(runs, known)
	}
	x.publish(runs, len(dirs), changed)
}

func (x *index) publish(runs []*runSummary, total int, changed bool) {
	byID := make(map[string]*runSummary, len(runs))
	for _, s := range runs {
		byID[s.ID] = s
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.runs, x.byID, x.total, x.updated = slices.Clone(runs), byID, total, time.Now()
	if changed {
		x.version++
	}
	select {
	case <-x.first:
	default:
		close(x.first)
	}
}

// summarize reads a run directory. A run whose record cannot be read is included with the reason.
func summarize(dir string, changed time.Time) *runSummary {
	id := filepath.Base(dir)
	agent := journal.HolderOf(dir)
	rec, err := journal.ReadRecord(dir)
	if err != nil {
		blank := journal.Blank[runSummary]()
		s := &blank
		s.ID, s.Name, s.State, s.Reason, s.SLA, s.light, s.dir, s.changed = id, id, "unreadable", err.Error(), "none", page.Muted, dir, changed
		if errors.Is(err, fs.ErrNotExist) {
			s.State, s.Reason = "never began", "no record"
			if agent != nil {
				s.State, s.Reason = "running", "starting"
			}
		}
		s.words = strings.ToLower(id + " " + s.State)
		return s
	}
	s := summary(rec, agent)
	s.ID, s.dir, s.changed = id, dir, changed
	if note, err := journal.ReadNote(dir); err == nil && note.Tags != nil {
		s.Tags, s.Note = note.Tags, note.Text
	}
	s.words = strings.ToLower(strings.Join(append([]string{id, s.Name, s.Script, s.Model, s.State, s.Reason, s.Planner, s.Preference, s.Note, s.Allocation.text}, s.Tags...), " "))
	return s
}

// summary returns the summary of a record.
func summary(rec *journal.Record, agent *journal.Holder) *runSummary {
	o := rec.Outcome
	s := &runSummary{Name: rec.Name, Script: rec.Script.Path, StartedAt: rec.StartedAt, FinishedAt: rec.FinishedAt, Seconds: o.Seconds, CostUSD: o.CostUSD,
		Units: o.Epochs, TotalUnits: rec.Training.TotalUnits, Unit: cmp.Or(rec.Training.Unit, "epoch"), Throughput: o.Throughput,
		ThroughputUnit: cmp.Or(o.ThroughputUnit, journal.SamplesPerSecond), CPUUtil: o.CPUUtil, TakenCPUs: o.TakenCPUs, granted: o.GrantedCPUs, GPUUtil: o.GPUUtil, PeakMemoryGiB: o.PeakMemoryGiB,
		Preference: rec.Preference.String(), WasteUSD: rec.Waste, Tags: []string{}}
	if s.Unit == "step" {
		s.Units = o.Steps
	}
	s.BudgetUSD, s.DeadlineS = rec.SLA.LimitOf(sla.Cost), rec.SLA.LimitOf(sla.Time)
	for _, m := range []*string{rec.Training.Model, rec.Script.Model} {
		if m != nil && s.Model == "" {
			s.Model = *m
		}
	}
	s.State, s.light = report.State(rec, agent)
	if rec.Exit != nil && rec.State != journal.Done {
		s.Reason = rec.Exit.Reason
	}
	s.SLAWords, s.slaLight = report.Compliance(rec)
	s.SLA = slaWord(rec)
	s.Allocation.MemoryGiB = journal.Unknown()
	if p := rec.Plan; p != nil {
		a := p.Allocation
		s.Planner, s.Allocation = p.Planner, allocation{a.GPUs, a.CPUs, journal.Number(a.Memory), a.BatchSize, a.String()}
	}
	return s
}
