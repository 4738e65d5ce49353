package monitor

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sort"
	"strconv"

	"trainopt/internal/regular"
)

// decision is one row of rl_metrics.csv; at is its time_s.
type decision struct {
	at     float64
	fields []string
}

// WriteExtended writes extended.csv in a run directory: each training row of log.csv joined with the columns of the
// last decision of rl_metrics.csv at or before it, named rl_time_s, rl_state, rl_action …; empty before the first
// decision. The file is replaced atomically. The error wraps ErrNoData if log.csv does not exist.
func WriteExtended(dir string) error {
	if err := writeExtended(dir); err != nil {
		return fmt.Errorf("write extended.csv in %s: %w", dir, err)
	}
	return nil
}

func writeExtended(dir string) error {
	decisions, names, err := readDecisions(filepath.Join(dir, "rl_metrics.csv"))
	if err != nil {
		return err
	}
	f, err := regular.Open(filepath.Join(dir, "log.csv"), regular.NoLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNoData
	}
	if err != nil {
		return err
	}
	defer f.Close()
	rows := newCSVReader(f)
	header, err := rows.Read()
	if err != nil {
		return orNoData(ignoreEOF(err))
	}
	at := slices.Index(header, "time_s")
	if at < 0 {
		return errors.New("log.csv has no column time_s")
	}
	return regular.Replace(filepath.Join(dir, "extended.csv"), 0o600, func(w io.Writer) error {
		extended := slices.Clone(header)
		for _, name := range names {
			extended = append(extended, "rl_"+name)
		}
		if _, err := w.Write(encodeRow(extended)); err != nil {
			return err
		}
		return join(w, rows, len(header), at, decisions, len(names))
	})
}

// join copies the rows, each followed by its decision; binary search in decisions, O(rows · log decisions).
func join(w io.Writer, rows *csv.Reader, width, at int, decisions []decision, extra int) error {
	none := make([]string, extra)
	return eachRow(rows, width, func(row []string) error {
		made := none
		if t, err := strconv.ParseFloat(row[at], 64); err == nil {
			if i := sort.Search(len(decisions), func(i int) bool { return decisions[i].at > t }); i > 0 {
				made = decisions[i-1].fields
			}
		}
		_, err := w.Write(encodeRow(append(row[:width:width], made...)))
		return err
	})
}

// readDecisions reads the decision log and returns its rows in order of time and its column names. A missing file
// yields no decisions.
func readDecisions(path string) ([]decision, []string, error) {
	f, err := regular.Open(path, regular.NoLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, rlColumns, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	r := newCSVReader(f)
	names, err := r.Read()
	if err != nil {
		return nil, rlColumns, ignoreEOF(err)
	}
	at := slices.Index(names, "time_s")
	if at < 0 {
		return nil, nil, fmt.Errorf("%s has no column time_s", path)
	}
	var out []decision
	err = eachRow(r, len(names), func(fields []string) error {
		if t, err := strconv.ParseFloat(fields[at], 64); err == nil {
			out = append(out, decision{at: t, fields: fields})
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].at < out[j].at })
	return out, names, nil
}

// eachRow calls take with each row of width fields. It skips damaged rows, such as half a row at the end, and stops at
// the first error of take.
func eachRow(r *csv.Reader, width int, take func(row []string) error) error {
	for {
		row, err := r.Read()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.As(err, new(*csv.ParseError)):
			return err
		case err != nil, len(row) != width:
			continue
		}
		if err := take(row); err != nil {
			return err
		}
	}
}

func newCSVReader(r io.Reader) *csv.Reader {
	c := csv.NewReader(bufio.NewReader(r))
	c.FieldsPerRecord = -1
	return c
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
