// Package logs turns training logs of any framework into entries of the runs database.
//
// A log may hold one training, one at several allocations (an entry of the whole, and one of the stretch at each, whose Parent
// it is), or several trainings, one after the other or in turns. It is read once, row by row, and nothing of it is kept but
// what the entries say and a bounded sample of the times: memory does not grow with its rows.
//
// It is no judge of trainings: optimizer/analysis compares them, and package monitor knows the formats.
//
//	log, err := logs.Read("log-cifar10-resnet50.csv", logs.Options{})
//	for _, e := range log.Entries {
//		fmt.Println(e.Job.Model, e.Observed.GPUs, e.Units, e.Unit, e.UnitTime, e.CostUSD)
//	}
package logs

import (
	"errors"
	"fmt"
	"math"
	"time"

	"trainopt/monitor"
	"trainopt/optimizer/history"
)

// Options say how to read a log. The zero value detects everything and assumes nothing.
type Options struct {
	Format  string            // one of monitor.Formats; "" detects by content
	Aliases map[string]string // column names of the user's
	// Assume fills what the log does not say of where it ran (Observed) and what was trained (Job); Notes say what was filled
	// in. NaN, 0 and "" assume nothing, but 0 GPUs of an entry that history.NewEntry made is "none".
	Assume history.Entry
}

// Log is what one file gave.
type Log struct {
	Path, Format string
	Rows, Bad    int
	FirstBad     []string // "line 41: 3 fields, want 7"; at most 20
	// Odd is how many values and rows were odd, though their lines could be read: values that cannot be (negative or infinite
	// times, 0 CPUs, 250 %) and were not taken, duplicate rows, repeated headers, epochs that go back. FirstOdd has the first in
	// words, at most 40.
	Odd      int
	FirstOdd []string
	// Entries are one for each training, in the order of the file; one that ran at several allocations is followed by its
	// stretches. Rows of the trainings add up to Rows; Bad too.
	Entries []history.Entry
	Notes   []string

	stretches []measured
	epochs    float64 // of the longest training, planned or done; 0 unknown
}

// measured is the stretch that an entry without stretches of its own tells of.
type measured struct {
	entry int // in Log.Entries
	times *samples
	unit  int
}

// maxTrainings bounds how many trainings one file may hold.
const maxTrainings = 4096

// written is the zone of timestamps that have none, so that they are told from those that say UTC, and the same log gives the
// same ID everywhere.
var written = time.FixedZone("as written", 0)

// Read reads a log, streaming: memory does not grow with its rows. The path is what monitor.Scan takes. Times are in seconds, memory in the log's gigabytes taken as
// GiB; what a log does not say is NaN or "". An entry's ID is the SHA-256 of the normalised rows: the same training under
// another name, or in another format that says the same, is the same entry.
//
// The error wraps fs.ErrNotExist when there is no file and monitor.ErrNoData when it has no row.
func Read(path string, o Options) (Log, error) {
	f := file{runs: map[name]*run{}}
	stats, err := monitor.Scan(path, monitor.TailOptions{Format: o.Format, Aliases: o.Aliases, Location: written}, f.row)
	log := Log{Path: path, Format: stats.Format, Rows: stats.Rows, Bad: stats.Bad, Odd: stats.Noted + f.odd.n}
	for _, b := range stats.FirstBad {
		log.FirstBad = append(log.FirstBad, b.String())
	}
	for _, b := range stats.FirstNoted {
		log.FirstOdd = append(log.FirstOdd, b.String())
	}
	log.FirstOdd = append(log.FirstOdd, f.odd.words...)
	switch {
	case errors.Is(err, errTooMany):
		return log, fmt.Errorf("read training log %s: %w", path, err)
	case err != nil:
		return log, err
	}
	log.assemble(&f, stats, o)
	return log, nil
}

// assemble makes the entries of what was read.
func (log *Log) assemble(f *file, stats monitor.TailStats, o Options) {
	say := newRemarks(o.Assume)
	if log.Bad > 0 {
		log.Notes = append(log.Notes, log.skipped())
	}
	bad := badOf(f.order, stats)
	seen := map[string]bool{}
	trainings := 0
	for i, u := range f.order {
		say.thisIs = i + 1
		entries, stretches := u.entries(log.Path, log.Format, say)
		if seen[entries[0].ID] {
			say.note("holds the same training twice")
			continue
		}
		seen[entries[0].ID] = true
		trainings++
		entries[0].Bad = bad[i]
		unit := u.unit()
		for k, s := range stretches {
			at := len(log.Entries) + len(entries) - len(stretches) + k
			log.stretches = append(log.stretches, measured{entry: at, times: s.unitTimes(unit), unit: unit})
		}
		log.Entries = append(log.Entries, entries...)
		if n := u.job.Epochs; n > 0 {
			log.epochs = math.Max(log.epochs, n)
		} else if u.epoch > 0 {
			log.epochs = math.Max(log.epochs, u.epoch)
		}
	}
	if trainings > 1 {
		log.Notes = append(log.Notes, fmt.Sprintf("holds %d trainings", trainings))
	}
	log.Notes = append(log.Notes, say.notes(len(f.order))...)
}

// skipped says how many lines gave no row.
func (log *Log) skipped() string {
	text := fmt.Sprintf("%d of %d rows skipped", log.Bad, log.Rows+log.Bad)
	if len(log.FirstBad) > 0 {
		text += ", first: " + log.FirstBad[0]
	}
	return text
}

// badOf credits bad lines to trainings: those whose line is known to the one that stood there, the others to the last.
func badOf(runs []*run, stats monitor.TailStats) []int {
	bad := make([]int, len(runs))
	if len(runs) == 0 {
		return bad
	}
	for _, b := range stats.FirstBad {
		at := 0
		for at+1 < len(runs) && runs[at+1].firstLine <= b.Line {
			at++
		}
		bad[at]++
	}
	bad[len(runs)-1] += stats.Bad - len(stats.FirstBad)
	return bad
}

// name is what tells the trainings of one file from one another.
type name struct{ model, dataset string }

// file sorts rows into trainings.
type file struct {
	runs  map[name]*run // the last one of each
	at    *run
	order []*run
	odd   oddities
}

var errTooMany = fmt.Errorf("more than %d trainings in one file: this is not the log of a training", maxTrainings)

func (f *file) row(r *monitor.Row) error {
	if u := f.find(r); u != nil {
		f.at = u
	} else if len(f.order) == maxTrainings {
		return errTooMany
	} else {
		f.at = newRun(r)
		f.order = append(f.order, f.at)
	}
	was := name{f.at.job.Model, f.at.job.Dataset}
	f.at.take(r, &f.odd)
	if is := (name{f.at.job.Model, f.at.job.Dataset}); is != was || f.at.rows == 1 {
		f.runs[is] = f.at
	}
	return nil
}

// find is the training that a row belongs to; nil when it begins one. A row that does not say its model or data set belongs to
// the training before it.
func (f *file) find(r *monitor.Row) *run {
	u := f.at
	if u == nil {
		return nil
	}
	differs := func(said, known string) bool { return said != "" && known != "" && said != known }
	if differs(r.Model, u.job.Model) || differs(r.Dataset, u.job.Dataset) {
		if u = f.runs[name{r.Model, r.Dataset}]; u == nil {
			return nil
		}
	}
	if u.beginsAnew(r) {
		return nil
	}
	return u
}
