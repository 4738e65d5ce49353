package history

import (
	"errors"
	"fmt"
	"math"
	"time"

	"trainopt/monitor/trainlog"
)

// LogOptions control how a log is read. The zero value detects the format and assumes nothing.
type LogOptions struct {
	Format  string            // one of trainlog.Formats; "" detects by content
	Aliases map[string]string // additional column names, defined by the user
	// Assume supplies values for fields that are missing in the log, of the configuration (Observed) and of the job
	// (Job); Notes list the values used. NaN, 0 and "" assume nothing, except that 0 GPUs of an entry created by
	// history.NewEntry means none.
	Assume Entry
}

// trainingLog is the content of one file.
type trainingLog struct {
	Path, Format string
	Rows, Bad    int
	FirstBad     []string // "line 41: 3 fields, want 7"; at most 20
	// Odd counts invalid values and rows on readable lines: impossible values (negative or infinite times, 0 CPUs,
	// 250 %), which are ignored, duplicate rows, repeated headers, decreasing epochs. FirstOdd describes the first
	// ones, at most 40.
	Odd      int
	FirstOdd []string
	// Entries has one entry per training, in the order of the file; the entry of a training at several allocations is
	// followed by those of its segments. Rows and Bad of the trainings add up to those of the Log.
	Entries []Entry
	Notes   []string

	stretches []measured
	epochs    float64 // of the longest training, planned or completed; 0 unknown
}

// measured links an entry without segments of its own to its unit times.
type measured struct {
	entry int // in Log.Entries
	times *samples
	unit  int
}

// maxTrainings is the maximum number of trainings in one file.
const maxTrainings = 4096

// zoneAsWritten is the zone of timestamps without one. It distinguishes them from UTC timestamps, and gives a log the same
// ID on machines in any zone.
var zoneAsWritten = time.FixedZone("as written", 0)

// ReadLog reads a log as a stream: memory does not grow with the number of rows. The path is one that trainlog.Scan
// accepts. Times are in seconds, memory is the log's gigabytes taken as GiB; missing values are NaN or "". The ID of
// an entry is the SHA-256 of the normalised rows: the same training under another name, or in another format with the
// same values, has the same ID.
//
// The error wraps fs.ErrNotExist if the file does not exist, and trainlog.ErrNoData if it has no row.
func ReadLog(path string, o LogOptions) (trainingLog, error) {
	f := file{runs: map[name]*run{}}
	stats, err := trainlog.Scan(path, trainlog.TailOptions{Format: o.Format, Aliases: o.Aliases, Location: zoneAsWritten}, f.row)
	log := trainingLog{Path: path, Format: stats.Format, Rows: stats.Rows, Bad: stats.Bad, Odd: stats.Noted + f.odd.n}
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

// assemble creates entries and notes from the trainings. A repeated training is dropped with a note. Each training
// yields its entries and, per segment, a reference to its unit times for Observations.
func (log *trainingLog) assemble(f *file, stats trainlog.TailStats, o LogOptions) {
	say := &assumptionNotes{assume: o.Assume, said: map[string]int{}, of: map[string]int{}}
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

// skipped describes the number of unparsable lines.
func (log *trainingLog) skipped() string {
	text := fmt.Sprintf("%d of %d rows skipped", log.Bad, log.Rows+log.Bad)
	if len(log.FirstBad) > 0 {
		text += ", first: " + log.FirstBad[0]
	}
	return text
}

// badOf attributes bad lines to trainings: lines with a known number to the training at that place, the others to the
// last one.
func badOf(runs []*run, stats trainlog.TailStats) []int {
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

// name identifies a training within a file.
type name struct{ model, dataset string }

// file assigns rows to trainings.
type file struct {
	runs  map[name]*run // the latest run of each
	at    *run
	order []*run
	odd   anomalies
}

var errTooMany = fmt.Errorf("more than %d trainings in one file: this is not the log of a training", maxTrainings)

// row adds a row to its training, which it creates if necessary.
func (f *file) row(r *trainlog.Row) error {
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

// find returns the training that a row belongs to; nil if the row starts a new one. A row without model and data set
// belongs to the same training as the row before it.
func (f *file) find(r *trainlog.Row) *run {
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
	if u.startsNewRun(r) {
		return nil
	}
	return u
}

// maxWords bounds the number of anomalies that are described; all are counted.
const maxWords = 20

// anomalies counts values that were rejected as impossible.
type anomalies struct {
	n     int
	words []string
}

func (o *anomalies) add(line int, format string, args ...any) {
	if o.n++; len(o.words) < maxWords {
		o.words = append(o.words, trainlog.BadRow{Line: line, Reason: fmt.Sprintf(format, args...)}.String())
	}
}
