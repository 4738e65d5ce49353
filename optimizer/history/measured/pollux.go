package measured

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"trainopt/internal/regular"
)

// StepRow is one measured step time.
type StepRow struct {
	Placement []int   // GPUs of each node
	Batch     float64 // per GPU
	Seconds   float64
}

// GPUs returns the number of GPUs on all nodes.
func (r StepRow) GPUs() int {
	n := 0
	for _, g := range r.Placement {
		n += g
	}
	return n
}

// Packed reports whether the nodes are filled one after another, as a job of this size would be placed.
func (r StepRow) Packed(perNode int) bool {
	partly := 0
	for _, g := range r.Placement {
		if g < perNode {
			partly++
		}
	}
	return partly <= 1
}

// readPlacements reads a table of step times with the columns "placement" (the GPUs of each node as digits), "local_bsz"
// and "step_time", in any order; other columns are ignored. Rows whose time is not positive are failed measurements and
// skipped. A table without usable rows is an error.
func readPlacements(r io.Reader) ([]StepRow, error) {
	var out []StepRow
	err := regular.EachRow(csv.NewReader(r), []string{"placement", "local_bsz", "step_time"}, func(v []string) error {
		var s StepRow
		for _, d := range v[0] {
			if d < '1' || d > '9' {
				return fmt.Errorf("placement %q, want digits 1 to 9", v[0])
			}
			s.Placement = append(s.Placement, int(d-'0'))
		}
		if len(s.Placement) == 0 || len(s.Placement) > 64 {
			return fmt.Errorf("placement %q, want 1 to 64 digits", v[0])
		}
		var err error
		if s.Batch, err = number(v[1]); err != nil || !(s.Batch >= 1) {
			return fmt.Errorf("local_bsz %q, want a number from 1", v[1])
		}
		if s.Seconds, err = number(v[2]); err != nil {
			return fmt.Errorf("step_time %q, want seconds", v[2])
		}
		if s.Seconds > 0 {
			out = append(out, s)
		}
		return nil
	})
	if err == nil && len(out) == 0 {
		err = errors.New("no row with a positive step_time")
	}
	return out, err
}

// Progress is the final state of one training at a fixed total batch.
type Progress struct {
	Batch int // total
	// Steps is the number of steps taken, Reference the number of steps at the reference batch that make the same
	// progress.
	Steps, Reference float64
}

// Efficiency returns the mean efficiency of a sample relative to one at the reference batch.
func (p Progress) Efficiency(reference int) float64 {
	return p.Reference / p.Steps * float64(reference) / float64(p.Batch)
}

// readProgress reads the last row of a validation table with columns "progress" (steps of the reference batch) and
// "iteration" (steps taken).
func readProgress(r io.Reader, batch int) (Progress, error) {
	p := Progress{Batch: batch}
	var last []string
	err := regular.EachRow(csv.NewReader(r), []string{"progress", "iteration"}, func(v []string) error { last = v; return nil })
	if err != nil {
		return p, err
	}
	if last == nil {
		return p, errors.New("no rows")
	}
	var err1, err2 error
	p.Reference, err1 = number(last[0])
	p.Steps, err2 = number(last[1])
	if err1 != nil || err2 != nil || !(p.Reference > 0) || !(p.Steps > 0) {
		return p, fmt.Errorf("last line: progress %q, iteration %q, want positive numbers", last[0], last[1])
	}
	return p, nil
}

// PolluxTables are the tables of one model.
type PolluxTables struct {
	Steps    []StepRow
	Progress []Progress // ascending by batch; the first is the reference
}

// LoadPolluxTables reads dir/placements.csv and dir/validation-*.csv or their .gz. The error wraps fs.ErrNotExist for a
// missing table.
func LoadPolluxTables(dir string) (t PolluxTables, err error) {
	if t.Steps, err = LoadPlacements(filepath.Join(dir, "placements.csv")); err != nil {
		return t, err
	}
	t.Progress, err = loadProgress(dir)
	return t, err
}

// LoadPlacements reads a table of step times by placement, or its .gz. The error wraps fs.ErrNotExist for a missing table.
func LoadPlacements(path string) ([]StepRow, error) { return readSteps(path, readPlacements) }

// loadProgress reads the validation tables of a model; their names contain the batch.
func loadProgress(dir string) ([]Progress, error) {
	var out []Progress
	names, err := filepath.Glob(filepath.Join(dir, "validation-*.csv*"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(name), "validation-"), ".")
		batch, err := strconv.Atoi(text)
		if err != nil || batch < 1 {
			return nil, fmt.Errorf("read %s: the name says no batch", name)
		}
		f, name, err := open(name)
		if err != nil {
			return nil, err
		}
		p, err := readProgress(f, batch)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("read %s: no validation-*.csv: %w", dir, fs.ErrNotExist)
	}
	slices.SortFunc(out, func(a, b Progress) int { return a.Batch - b.Batch })
	return out, nil
}
