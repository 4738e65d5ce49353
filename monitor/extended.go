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
	"strings"

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
	rows := bufio.NewReader(f)
	first, err := rows.ReadString('\n')
	if err != nil && first == "" {
		return orNoData(ignoreEOF(err))
	}
	header, err := newCSVReader(strings.NewReader(first)).Read()
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

// join copies the rows, each followed by its decision; binary search in decisions, O(rows · log decisions). The rows are
// lines as encodeRow writes them, which are not decoded: a log may have many.
func join(w io.Writer, rows *bufio.Reader, width, at int, decisions []decision, extra int) error {
	made := make([][]byte, 1, 1+len(decisions)) // the end of a line before the first decision, and after each
	made[0] = []byte(strings.Repeat(",", extra) + "\n")
	for _, d := range decisions {
		made = append(made, append([]byte{','}, encodeRow(d.fields)...))
	}
	for {
		line, err := rows.ReadString('\n')
		if err != nil && line == "" {
			return ignoreEOF(err)
		}
		line = strings.TrimRight(line, "\r\n")
		fields, time := cells(line, at)
		if fields != width { // damaged, such as half a row at the end
			continue
		}
		i := 0
		if t, err := strconv.ParseFloat(time, 64); err == nil {
			i = sort.Search(len(decisions), func(i int) bool { return decisions[i].at > t })
		}
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
		if _, err := w.Write(made[i]); err != nil {
			return err
		}
	}
}

// cells returns the number of cells of a line of CSV, and the text of the one at an index.
func cells(line string, at int) (n int, text string) {
	quoted, from := false, 0
	for i := 0; i <= len(line); i++ {
		switch {
		case i == len(line) || line[i] == ',' && !quoted:
			if n == at {
				text = line[from:i]
			}
			n, from = n+1, i+1
		case line[i] == '"':
			quoted = !quoted
		}
	}
	return n, text
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
