package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan"
	"trainopt/sla"
)

// Key identifies a training. Runs of the same script on the same kind of machine did the same work if their text and
// arguments differ only in parts that change neither the amount of work nor its cost: comments, a learning rate, a
// seed, an output path.
type Key struct {
	ScriptSHA256 string
	// Likeness is the fingerprint of the script for comparison with other versions of it
	// (inspect.Inspection.Likeness); if "", only identical text matches.
	Likeness string
	// FilesDigest is the hash of the script's modules and configuration files (inspect.Command.FilesDigest); "" matches any.
	FilesDigest string
	Script      string // path of the script; copies at other paths count as the same script
	Command     []string
	// Dir is the working directory, which selects what a program without a script trains, and Built the time at which the file of
	// such a program was last changed: earlier runs may have done other work.
	Dir   string
	Built time.Time
	// Shape of the machine; measurements from a machine of another shape are not used.
	CPUs      float64
	CPUModel  string   // "" matches any
	GPUs      []string // device names
	Described string
	Nodes     int // of each job; 0 means 1
	// Handed are the settings passed to the script. A run with another data set did other work; a run with other epochs
	// did the same work for another length; a run with other threads is not comparable.
	Handed journal.Handed
	// AnyMachine includes runs on other machines, as many as now, for planning for a machine other than this one.
	AnyMachine bool
	// ExcludeRun is the id of a run to exclude, usually the current one.
	ExcludeRun string
	// Shared lists further state directories, whose runs count as those of the first.
	Shared []string
}

// Recalled is the result of Recall: the measurements of earlier runs of the same training.
type Recalled struct {
	Runs         []string // run ids, newest first
	Observations []perf.Observation
	// MeasuredUnit is the unit of work of Observations, "epoch" or "step"; "" if no run reports it.
	MeasuredUnit string
	// Total and Unit are the amount of work, taken from the newest run of the same length that reported it, else from
	// the work that the newest finished run of that length did; 0 and "" without such a run.
	Total float64
	Unit  string
	// Similar are the runs of the same script, or of an earlier version of it, whose arguments or text may have
	// changed the work, ordered by distance, then newest first; at most 8.
	Similar []Similar
	// PeakMemoryGiB is the largest measured peak; NaN if none was measured.
	PeakMemoryGiB float64
	// Baselines are the finished runs of the same length, for sla.Forecast.
	Baselines []sla.Baseline
	// Recurrences are the runs of the same length that finished, or that may have failed to because of their batch
	// size, oldest first.
	Recurrences []plan.Recurrence
	// RestartSeconds and StartupSeconds are the measured durations of restarts and starts, ClosingSeconds those from the last
	// unit of work to the exit.
	RestartSeconds, StartupSeconds, ClosingSeconds []float64
	// Elsewhere maps those of Runs that are in another state directory to it.
	Elsewhere map[string]string
	// Newest are the newest runs of any training in the runs database, at most 500, for the calibration of
	// predictions.
	Newest []Entry
}

// Similar is a run that did nearly the same work.
type Similar struct {
	Run string
	// Distance is the sum of the distances of its arguments (1 is about a factor of two in a number, or a different
	// word) plus 4 times the share of the script's statements that differ.
	Distance     float64
	Changes      []Change
	Observations []perf.Observation
	Unit         string // of Observations; "" unknown
	Job          Job
	BatchSize    float64 // samples per step; NaN unknown
	// StartupSeconds are the measured durations of its starts.
	StartupSeconds []float64
}

const (
	// maxSimilar bounds Recalled.Similar, maxVersions the number of records of other script versions that are read.
	maxSimilar  = 8
	maxVersions = 64
	// leastSimilar is the minimum share of equal statements of two versions of one script; unknownText is the
	// distance assigned to a script at the same path whose text cannot be compared, and to changed modules or configuration
	// files.
	leastSimilar = 0.75
	unknownText  = 0.5
	// maxRuns bounds the number of runs that contribute measurements: the newest runs describe the current machine
	// best.
	maxRuns = 8
	// maxRecurrences bounds Recalled.Recurrences.
	maxRecurrences = 256
	// maxUnused bounds the number of records of the script that are read without contributing to Recalled.Runs or
	// Recalled.Recurrences: in a sweep, each run has other arguments.
	maxUnused = 256
	// maxNewest bounds Recalled.Newest.
	maxNewest = 500
	// recallPatience and recallTimeout bound the delay that the runs database may add to the start of a training: the
	// wait for another writer, and the first scan of a state directory with many runs, which a later call continues.
	recallPatience = 2 * time.Second
	recallTimeout  = 30 * time.Second
	// sharedWithin bounds the delay by the state directory of another project. A first scan that takes longer continues beside the
	// training, for the next one.
	sharedWithin = 5 * time.Second
)

// Recall returns the measurements that the runs of a state directory, and of the shared ones, made of a training. It
// selects the runs through the runs databases, and falls back to reading every run if a database is not usable. A missing
// directory or an unreadable run is not an error; the notes name the runs of stateDir that were left out, and the shared
// directories that did not answer in time.
func Recall(stateDir string, key Key) (Recalled, []string) {
	mine := runsIn(stateDir, key)
	all, newest := mine.found, mine.newest
	shared, silent := sharedRuns(key.Shared, func(dir string) stateRuns { return runsIn(dir, key) })
	for _, s := range shared {
		newest = append(newest, s.newest[:min(len(s.newest), maxNewest-len(newest))]...)
		all = append(all, s.found...)
	}
	if len(key.Shared) > 0 { // run ids start with the time
		slices.SortStableFunc(all, func(a, b earlier) int { return cmp.Compare(b.id, a.id) })
	}
	out, left := recall(all, key)
	out.Newest = newest
	return out, slices.Concat(mine.notes, silent, left)
}

// stateRuns are the runs of a training in a state directory, and the newest runs of any training there.
type stateRuns struct {
	found  []earlier
	newest []Entry
	notes  []string
}

// runsIn selects the runs of a training in a state directory; none if the directory is missing.
func runsIn(dir string, key Key) (out stateRuns) {
	if _, err := os.Stat(journal.RunsDir(dir)); errors.Is(err, fs.ErrNotExist) {
		return out
	}
	found, newest, notes, err := candidates(dir, key)
	if err != nil {
		notes = append(notes, fmt.Sprintf("%v: every run is read instead", err))
		if found, err = everyRun(dir); err != nil {
			notes = append(notes, fmt.Sprintf("recall earlier runs in %s: %v", dir, err))
		}
	}
	return stateRuns{found, newest, notes}
}

// sharedRuns returns the runs of the state directories of other projects. The file system of one may not answer: it is left
// out, and named in the notes, after sharedWithin.
func sharedRuns(dirs []string, runs func(dir string) stateRuns) (list []stateRuns, notes []string) {
	for _, dir := range dirs {
		s, err := awaitResult(sharedWithin, func() (stateRuns, error) { return runs(dir), nil })
		if err != nil {
			notes = append(notes, fmt.Sprintf("the runs of another project in %s are left out: %v", dir, err))
			continue
		}
		for i := range s.found {
			s.found[i].elsewhere = dir
		}
		list = append(list, s)
	}
	return list, notes
}

// earlier is an earlier run whose record is read on demand.
type earlier struct {
	id      string
	version bool // selected by path or entry point of its script: another version of it
	read    func() (*journal.Record, error)
	// elsewhere is the state directory of a run of another project; "" for one of this project.
	elsewhere string
}

// candidates returns, newest first, the runs of the key's script and of its other versions according to the runs
// database, and those that cannot be read; and the newest runs of any training.
func candidates(stateDir string, key Key) (found []earlier, newest []Entry, notes []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), recallTimeout)
	defer cancel()
	db, err := open(ctx, stateDir, recallPatience)
	if err != nil {
		return nil, nil, nil, err
	}
	defer db.Close()
	runs, err := db.syncRuns(ctx)
	if err != nil {
		return nil, nil, db.Notes(), err
	}
	versions, err := db.runsOfScript(ctx, key.Script)
	if err != nil {
		return nil, nil, db.Notes(), err
	}
	for _, r := range runs {
		same := key.ScriptSHA256 != "" && r.scriptSHA256 == key.ScriptSHA256
		switch {
		case r.problem != "":
			found = append(found, earlier{id: r.id, read: func() (*journal.Record, error) { return nil, errors.New(r.problem) }})
		case same || versions[r.id]:
			dir := filepath.Join(journal.RunsDir(stateDir), r.id)
			found = append(found, earlier{id: r.id, version: !same, read: func() (*journal.Record, error) { return journal.ReadVerified(dir) }})
		}
	}
	newest, err = db.Entries(Filter{Kinds: []Kind{Run}, Limit: maxNewest})
	notes = db.Notes()
	if err != nil {
		notes = append(notes, fmt.Sprintf("how earlier predictions held is not known: %v", err))
	}
	return found, newest, notes, nil
}

// everyRun returns all runs of a state directory, without the runs database.
func everyRun(stateDir string) ([]earlier, error) {
	entries, err := journal.List(stateDir)
	var found []earlier
	for _, e := range entries {
		found = append(found, earlier{id: e.ID, read: func() (*journal.Record, error) { return journal.ReadVerified(e.Dir) }})
	}
	return found, err
}

// recall collects the measurements of the given runs, which are ordered newest first. It stops once both maxRuns and
// maxRecurrences are reached, or after maxUnused records of the script that contributed to neither, so that long histories cost
// bounded time.
func recall(found []earlier, key Key) (Recalled, []string) {
	out := Recalled{PeakMemoryGiB: math.NaN()}
	var notes []string
	versions, unused := 0, 0
	for _, p := range found {
		enough := len(out.Runs) >= maxRuns
		if enough && len(out.Recurrences) >= maxRecurrences || unused >= maxUnused {
			break
		}
		if p.version {
			versions++
		}
		if p.id == key.ExcludeRun || p.version && (enough || versions > maxVersions) {
			continue
		}
		rec, err := p.read()
		if err != nil {
			if !enough && p.elsewhere == "" && !errors.Is(err, fs.ErrNotExist) { // a run that is just starting has no record yet
				notes = append(notes, leftOut(p.id, err))
			}
			continue
		}
		unused += own(rec, key) // unless it contributes
		rel, ok := relate(rec, key)
		if !ok || rec.State == journal.Running {
			continue
		}
		if !rel.sameWork {
			if rel.sameButCPU && rel.sameLength {
				out.takeTotal(rec)
			}
			out.addSimilar(rec, rel)
			continue
		}
		uses := len(out.Runs) + len(out.Recurrences)
		if x, ok := recurrence(rec); ok && rel.sameLength && len(out.Recurrences) < maxRecurrences {
			out.Recurrences = append(out.Recurrences, x)
		}
		if !enough && add(&out, rec, rel.sameLength) {
			out.Runs = append(out.Runs, rec.RunID)
			if p.elsewhere != "" {
				if out.Elsewhere == nil {
					out.Elsewhere = map[string]string{}
				}
				out.Elsewhere[rec.RunID] = p.elsewhere
			}
		}
		if len(out.Runs)+len(out.Recurrences) > uses {
			unused -= own(rec, key)
		}
	}
	slices.Reverse(out.Recurrences)
	slices.SortStableFunc(out.Similar, func(a, b Similar) int { return cmp.Compare(a.Distance, b.Distance) })
	out.Similar = out.Similar[:min(len(out.Similar), maxSimilar)]
	return out, notes
}

// own returns 1 for a run of the key's very script, and 0 for others.
func own(rec *journal.Record, key Key) int {
	if key.ScriptSHA256 != "" && rec.Script.SHA256 == key.ScriptSHA256 {
		return 1
	}
	return 0
}

// recurrence returns time, cost and energy of a run. ok is false if the outcome contains no information about its
// batch size: only runs that finished, or that ended by budget, deadline or out of memory, do.
func recurrence(rec *journal.Record) (x plan.Recurrence, ok bool) {
	if !rec.Outcome.Seconds.Known() || rec.Exit == nil {
		return x, false
	}
	seconds := float64(rec.Outcome.Seconds)
	if q := rec.Outcome.QueueSeconds; q != nil { // the batch size did not cause the wait for places
		seconds = max(0, seconds-*q)
	}
	x = plan.Recurrence{Seconds: seconds, USD: cost.USD(rec.Outcome.CostUSD), Joules: float64(rec.Outcome.EnergyJoules), Reached: rec.State == journal.Done}
	switch last := len(rec.Measured) - 1; {
	case rec.Plan != nil:
		x.Allocation = rec.Plan.Allocation
	case last >= 0: // the run ended before a plan was made
		x.Allocation = rec.Measured[last].Allocation
	}
	if b := rec.Training.BatchSize; x.Allocation.BatchSize == 0 && b.Known() && b >= 1 {
		x.Allocation.BatchSize = int(b) // the script's default, as reported by its log
	}
	return x, x.Reached || slices.Contains([]string{"budget", "deadline", "oom"}, rec.Exit.Reason)
}

// sameMachine reports whether a host has the description, CPU count and GPU models of the key.
func sameMachine(h journal.Host, key Key) bool {
	if h.Described != key.Described || h.CPUs != key.CPUs || len(h.GPUs) != len(key.GPUs) {
		return false
	}
	for i, g := range h.GPUs {
		if g.Name != key.GPUs[i] {
			return false
		}
	}
	return true
}

// observations returns the timed segments of a run as observations of an earlier run.
func observations(rec *journal.Record) []perf.Observation {
	out := rec.Observations()
	for i := range out {
		out[i].Recalled = true
	}
	return out
}

// total returns the amount of work of a run: the reported total, else the work done when it finished; 0 unknown.
func total(rec *journal.Record) (units float64, unit string) {
	switch t, done := &rec.Training, workDone(&rec.Outcome); {
	case t.TotalUnits.Known() && t.TotalUnits > 0:
		return float64(t.TotalUnits), t.Unit
	case rec.State == journal.Done && done.Known() && done > 0:
		return float64(done), t.Unit
	}
	return 0, ""
}

// takeTotal takes the amount of work of a run of the same length, unless that of a newer one is known.
func (r *Recalled) takeTotal(rec *journal.Record) {
	if units, unit := total(rec); r.Total == 0 && units > 0 {
		r.Total, r.Unit = units, unit
	}
}

// addSimilar adds a run that did nearly the same work, if any segment of it was timed.
func (r *Recalled) addSimilar(rec *journal.Record, rel relation) {
	s := Similar{Run: rec.RunID, Distance: rel.distance, Changes: rel.changes, Observations: observations(rec), Unit: rec.Training.Unit,
		Job: jobOf(rec), BatchSize: float64(rec.Training.BatchSize)}
	for _, v := range rec.Overheads.StartupSeconds {
		s.StartupSeconds = append(s.StartupSeconds, float64(v))
	}
	if len(s.Observations) > 0 {
		r.Similar = append(r.Similar, s)
	}
}

// add merges the measurements of a run of the same work into out. It reports whether the run contributed a segment
// that ran without a live CPU cut; overheads and baselines are taken only from such runs.
func add(out *Recalled, rec *journal.Record, sameLength bool) bool {
	seen := observations(rec)
	if len(seen) > 0 && out.MeasuredUnit == "" {
		out.MeasuredUnit = rec.Training.Unit
	}
	if rec.Training.Unit != "" && rec.Training.Unit != out.MeasuredUnit { // the unit of the newest run takes precedence
		seen = nil
	}
	out.Observations = append(out.Observations, seen...)
	for _, o := range seen {
		if p := o.PeakMemoryGiB; !math.IsNaN(p) && !math.IsInf(p, 0) && !(p <= out.PeakMemoryGiB) {
			out.PeakMemoryGiB = p
		}
	}
	if sameLength {
		out.takeTotal(rec)
	}
	if !slices.ContainsFunc(seen, func(o perf.Observation) bool { return !o.LiveCut }) {
		return false
	}
	for _, v := range rec.Overheads.RestartSeconds {
		out.RestartSeconds = append(out.RestartSeconds, float64(v))
	}
	for _, v := range rec.Overheads.StartupSeconds {
		out.StartupSeconds = append(out.StartupSeconds, float64(v))
	}
	if v := rec.Overheads.ClosingSeconds; v != nil && v.Known() {
		out.ClosingSeconds = append(out.ClosingSeconds, float64(*v))
	}
	if rec.State == journal.Done && sameLength && rec.Outcome.Seconds.Known() {
		out.Baselines = append(out.Baselines, sla.Baseline{
			Time:    time.Duration(float64(rec.Outcome.Seconds) * float64(time.Second)),
			CostUSD: float64(rec.Outcome.CostUSD), Throughput: float64(rec.Outcome.SamplesPerSecond()),
			MemoryGiB: float64(rec.Outcome.PeakMemoryGiB), GPUUtilPct: float64(rec.Outcome.GPUUtil), CPUUtilPct: float64(rec.Outcome.CPUUtil)})
	}
	return true
}
