package monitor

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sort"
	"strconv"
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
	fail := func(err error) error { return fmt.Errorf("write extended.csv in %s: %w", dir, err) }
	decisions, names, err := readDecisions(filepath.Join(dir, "rl_metrics.csv"))
	if err != nil {
		return fail(err)
	}
	f, _, err := OpenRegular(filepath.Join(dir, "log.csv"))
	if errors.Is(err, fs.ErrNotExist) {
		return fail(ErrNoData)
	}
	if err != nil {
		return fail(err)
	}
	defer f.Close()
	rows := newCSVReader(f)
	header, err := rows.Read()
	if err != nil {
		return fail(orNoData(ignoreEOF(err)))
	}
	at := indexOf(header, "time_s")
	if at < 0 {
		return fail(errors.New("log.csv has no column time_s"))
	}
	err = writeWhole(filepath.Join(dir, "extended.csv"), func(w *bufio.Writer) error {
		for _, name := range names {
			header = append(header, "rl_"+name)
		}
		if _, err := w.Write(encodeRow(header)); err != nil {
			return err
		}
		return join(w, rows, len(header)-len(names), at, decisions, len(names))
	})
	if err != nil {
		return fail(err)
	}
	return nil
}

// join copies the rows, each followed by its decision; binary search in decisions, O(rows · log decisions).
func join(w *bufio.Writer, rows *csv.Reader, width, at int, decisions []decision, extra int) error {
	none := make([]string, extra)
	for {
		row, err := rows.Read()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !damagedRow(err):
			return err
		case err != nil, len(row) != width:
			continue // a damaged row, such as half a row at the end
		}
		made := none
		if t, err := strconv.ParseFloat(row[at], 64); err == nil {
			if i := sort.Search(len(decisions), func(i int) bool { return decisions[i].at > t }); i > 0 {
				made = decisions[i-1].fields
			}
		}
		if _, err := w.Write(encodeRow(append(row[:width:width], made...))); err != nil {
			return err
		}
	}
}

// readDecisions reads the decision log and returns its rows in order of time and its column names. A missing file
// yields no decisions.
func readDecisions(path string) ([]decision, []string, error) {
	f, _, err := OpenRegular(path)
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
	at := indexOf(names, "time_s")
	if at < 0 {
		return nil, nil, fmt.Errorf("%s has no column time_s", path)
	}
	var out []decision
	for {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !damagedRow(err) {
			return nil, nil, err
		}
		if err != nil || len(fields) != len(names) {
			continue
		}
		if t, err := strconv.ParseFloat(fields[at], 64); err == nil {
			out = append(out, decision{at: t, fields: fields})
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].at < out[j].at })
	return out, names, nil
}

// damagedRow reports whether an error of a csv.Reader concerns one row only, so that reading can continue behind it.
func damagedRow(err error) bool {
	var syntax *csv.ParseError
	return errors.As(err, &syntax)
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

// indexOf returns the index of name; -1 if absent.
func indexOf(names []string, name string) int {
	for i, n := range names {
		if n == name {
			return i
		}
	}
	return -1
}
