package profile

import (
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
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

// ReadPlacements reads a table of step times with the columns "placement" (the GPUs of each node as digits),
// "local_bsz" and "step_time", in any order; other columns are ignored. Rows whose time is not positive are failed
// measurements and skipped. A table without usable rows is an error.
func ReadPlacements(r io.Reader) ([]StepRow, error) {
	rows, col, err := readTable(r, "placement", "local_bsz", "step_time")
	if err != nil {
		return nil, err
	}
	var out []StepRow
	for i, row := range rows {
		line := i + 2
		var s StepRow
		for _, d := range row[col[0]] {
			if d < '1' || d > '9' {
				return nil, fmt.Errorf("line %d: placement %q, want digits 1 to 9", line, row[col[0]])
			}
			s.Placement = append(s.Placement, int(d-'0'))
		}
		if len(s.Placement) == 0 || len(s.Placement) > 64 {
			return nil, fmt.Errorf("line %d: placement %q, want 1 to 64 digits", line, row[col[0]])
		}
		if s.Batch, err = number(row[col[1]]); err != nil || !(s.Batch >= 1) {
			return nil, fmt.Errorf("line %d: local_bsz %q, want a number from 1", line, row[col[1]])
		}
		if s.Seconds, err = number(row[col[2]]); err != nil {
			return nil, fmt.Errorf("line %d: step_time %q, want seconds", line, row[col[2]])
		}
		if s.Seconds > 0 {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no row with a positive step_time")
	}
	return out, nil
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

// ReadProgress reads the last row of a validation table with columns "progress" (steps of the reference batch) and
// "iteration" (steps taken).
func ReadProgress(r io.Reader, batch int) (Progress, error) {
	rows, col, err := readTable(r, "progress", "iteration")
	if err != nil {
		return Progress{}, err
	}
	if len(rows) == 0 {
		return Progress{}, errors.New("no rows")
	}
	p := Progress{Batch: batch}
	last := rows[len(rows)-1]
	p.Reference, err = number(last[col[0]])
	if err == nil {
		p.Steps, err = number(last[col[1]])
	}
	if err != nil || !(p.Reference > 0) || !(p.Steps > 0) {
		return Progress{}, fmt.Errorf("last line: progress %q, iteration %q, want positive numbers", last[col[0]], last[col[1]])
	}
	return p, nil
}

// number parses a finite number.
func number(s string) (float64, error) {
	x, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err == nil && (math.IsNaN(x) || math.IsInf(x, 0)) {
		err = fmt.Errorf("%q is not a finite number", s)
	}
	return x, err
}

// readTable reads a CSV with a header and returns its rows and the indices of the wanted columns.
func readTable(r io.Reader, want ...string) (rows [][]string, col []int, err error) {
	reader := csv.NewReader(r)
	all, err := reader.ReadAll()
	if err != nil {
		return nil, nil, err
	}
	if len(all) == 0 {
		return nil, nil, errors.New("empty, want a header line")
	}
	for _, w := range want {
		i := slices.Index(all[0], w)
		if i < 0 {
			return nil, nil, fmt.Errorf("no column %q in the header %q", w, strings.Join(all[0], ","))
		}
		col = append(col, i)
	}
	return all[1:], col, nil
}

// open opens path, or path with ".gz" added if it does not exist, and decompresses names that end in ".gz".
func open(path string) (io.ReadCloser, error) {
	f, err := regular.Open(path, regular.Data)
	if errors.Is(err, fs.ErrNotExist) {
		path += ".gz"
		f, err = regular.Open(path, regular.Data)
	}
	if err != nil || !strings.HasSuffix(path, ".gz") {
		return f, err
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("decompress %s: %w", path, err)
	}
	return struct {
		io.Reader
		io.Closer
	}{z, f}, nil
}

// PolluxTables are the tables of one model.
type PolluxTables struct {
	Steps    []StepRow
	Progress []Progress // ascending by batch; the first is the reference
}

// LoadPolluxTables reads dir/placements.csv and dir/validation-*.csv or their .gz.
func LoadPolluxTables(dir string) (PolluxTables, error) {
	var t PolluxTables
	f, err := open(filepath.Join(dir, "placements.csv"))
	if err != nil {
		return t, err
	}
	defer f.Close()
	if t.Steps, err = ReadPlacements(f); err != nil {
		return t, fmt.Errorf("read %s: %w", filepath.Join(dir, "placements.csv"), err)
	}
	t.Progress, err = loadProgress(dir)
	return t, err
}

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
		f, err := open(name)
		if err != nil {
			return nil, err
		}
		p, err := ReadProgress(f, batch)
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
