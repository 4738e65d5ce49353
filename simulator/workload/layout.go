package workload

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// layout describes a trace format: detection and reading. Each format is one entry in layouts.
type layout struct {
	name    string
	tabs    bool     // tab-separated without a header; else CSV with a header
	columns []string // tab-separated: all columns in order; CSV: those that identify the format
	further []string // further columns of CSV, optional

	strict    bool // the first invalid row is an error
	ordered   bool // arrivals must ascend
	ids       bool // rows have ids
	dated     bool // arrivals are dates, read as seconds since 1970
	fromFirst bool // times are relative to the first arrival
	notes     []string

	read func(r *row, j *Job)
}

// layouts are in order of detection: of two that match, the one with more columns comes first.
var layouts = []*layout{
	{ // Gavel's trace files, ten columns
		name: "gavel", tabs: true, strict: true, ordered: true,
		columns: []string{"type", "command", "directory", "flag", "data", "steps", "gpus", "weight", "slo", "arrival"},
		read:    readGavelRow,
	},
	{ // Gavel's older trace files of the Philly cluster, seven columns
		name: "gavel-msr", tabs: true, strict: true, ordered: true,
		columns: []string{"type", "command", "flag", "data", "steps", "arrival", "gpus"},
		read:    readGavelRow,
	},
	{ // Shockwave's trace files, twelve columns
		name: "shockwave", tabs: true, strict: true, ordered: true,
		columns: []string{"type", "command", "directory", "flag", "data", "steps", "gpus", "mode", "weight", "slo", "duration", "arrival"},
		read:    readGavelRow,
	},
	{ // jobs of the Philly cluster with deadlines, of Chronus (SoCC 2021)
		name: "philly-slo", ids: true,
		columns: []string{"job_id", "user", "num_gpu", "submit_time", "iterations", "model_name", "duration", "expect_time_list", "job_type"},
		notes:   []string{"this format contains no unit of time: minutes are assumed", "of several deadlines of a job the first is taken"},
		read:    readPhillySLORow,
	},
	{ // ElasticFlow's traces with deadlines (ASPLOS 2023)
		name: "elasticflow", ids: true, fromFirst: true,
		columns: []string{"job_id", "submit_time", "iteration", "model_name", "ddl", "batch_size", "num_gpu", "duration"},
		further: []string{"best_effort"},
		read:    readElasticFlowRow,
	},
	{ // the Philly cluster's log as one CSV
		name: "philly", dated: true, fromFirst: true,
		columns: []string{"timestamp", "duration", "num_gpus", "gpu_time", "cluster"},
		notes:   []string{"dates are local and without a zone: read as UTC"},
		read:    readPhillyRow,
	},
	{ // Sia's workloads (SOSP 2023): neither steps nor duration
		name:    "sia",
		columns: []string{"name", "time", "application", "num_replicas", "batch_size"},
		read:    readSiaRow,
	},
	{ // our own CSV: every field of a job
		name: "jobs", strict: true, ids: true,
		columns: []string{"id", "type", "arrival_s", "gpus"},
		further: []string{"steps", "seconds", "weight", "slo", "deadline_s", "user", "queue", "mode"},
		read:    readJobsRow,
	},
}

// layoutNamed returns the format of a name, ignoring case.
func layoutNamed(name string) (*layout, error) {
	if i := slices.IndexFunc(layouts, func(l *layout) bool { return strings.EqualFold(l.name, name) }); i >= 0 {
		return layouts[i], nil
	}
	names := make([]string, len(layouts))
	for i, l := range layouts {
		names[i] = l.name
	}
	return nil, fmt.Errorf("format %q is not one of %s", name, strings.Join(names, ", "))
}

// chooseLayout detects the format from the first line unless a name is given.
func chooseLayout(head, name string) (*layout, error) {
	if name != "" {
		return layoutNamed(name)
	}
	if tabs := strings.Count(head, "\t"); tabs > 0 {
		if i := slices.IndexFunc(layouts, func(l *layout) bool { return l.tabs && len(l.columns) == tabs+1 }); i >= 0 {
			return layouts[i], nil
		}
		return nil, fmt.Errorf("%d columns separated by tabs: no format has that many (Gavel's have 10 or 7, Shockwave's 12)", tabs+1)
	}
	header, err := csv.NewReader(strings.NewReader(head)).Read()
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	for _, l := range layouts {
		if !l.tabs && len(l.missing(header)) == 0 {
			return l, nil
		}
	}
	if len(head) > 200 {
		head = strings.ToValidUTF8(head[:200], "") + "…"
	}
	return nil, fmt.Errorf("its first line is not the header of a format that is known: %q", head)
}

// missing returns the columns of the format that a CSV header lacks.
func (l *layout) missing(header []string) []string {
	var out []string
	for _, c := range l.columns {
		if !slices.ContainsFunc(header, func(h string) bool { return columnName(h) == c }) {
			out = append(out, c)
		}
	}
	return out
}

// columnName returns the normalized name of a header cell.
func columnName(header string) string {
	return strings.ToLower(strings.TrimSpace(strings.TrimPrefix(header, "\ufeff")))
}

// each calls take for every row; the row is valid until the call returns.
func (l *layout) each(r io.Reader, take func(*row) error) error {
	if l.tabs {
		return l.eachTabbed(r, take)
	}
	counted := &lineCounter{in: r}
	rows := csv.NewReader(counted)
	rows.FieldsPerRecord = -1
	rows.ReuseRecord = true
	header, err := rows.Read()
	if err != nil {
		return fmt.Errorf("header: %w", err)
	}
	if missing := l.missing(header); len(missing) > 0 {
		return fmt.Errorf("the header has no column %s, which format %s has", strings.Join(missing, ", "), l.name)
	}
	out := newRow(header)
	expected, _ := rows.FieldPos(0) // line of the next row, unless preceded by blank lines
	for fields := header; ; {
		expected++
		for _, f := range fields {
			expected += strings.Count(f, "\n")
		}
		fields, err = rows.Read()
		line := counted.lines() + 1
		if err == nil {
			line, _ = rows.FieldPos(0)
		} else if err != io.EOF {
			return err
		}
		for ; expected < line; expected++ {
			if err := take(out.next(expected, nil)); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err := take(out.next(line, fields)); err != nil {
			return err
		}
	}
}

// lineCounter counts the lines read, because the CSV reader skips blank ones silently.
type lineCounter struct {
	in   io.Reader
	ends int
	last byte
}

func (c *lineCounter) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	if n > 0 {
		c.ends += bytes.Count(p[:n], []byte{'\n'})
		c.last = p[n-1]
	}
	return n, err
}

// lines returns the number of lines, valid after the whole input has been read.
func (c *lineCounter) lines() int {
	if c.last == '\n' {
		return c.ends
	}
	return c.ends + 1
}

const maxLine = 1 << 20 // bytes

// eachTabbed is each for tab-separated formats.
func (l *layout) eachTabbed(r io.Reader, take func(*row) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 1<<16), maxLine)
	out := newRow(l.columns)
	n := 0
	for lines.Scan() {
		n++
		text := lines.Text()
		if n == 1 {
			text = strings.TrimPrefix(text, "\ufeff")
		}
		if err := take(out.next(n, strings.Split(text, "\t"))); err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d: longer than %d bytes", n+1, maxLine)
	}
	return lines.Err()
}

// row is a row of a trace. problem contains the first problem found in it, described without its values so that
// reasons can be counted.
type row struct {
	line    int
	fields  []string
	column  map[string]int
	columns int
	names   map[string]string // interned strings, so that a job does not retain its row
	problem string
}

// newRow returns a row with the columns of a header; of duplicate columns the first counts.
func newRow(header []string) *row {
	r := &row{column: map[string]int{}, columns: len(header), names: map[string]string{}}
	for i, h := range header {
		if _, twice := r.column[columnName(h)]; !twice {
			r.column[columnName(h)] = i
		}
	}
	return r
}

// next sets the row to the next line and checks its number of columns.
func (r *row) next(line int, fields []string) *row {
	r.line, r.fields, r.problem = line, fields, ""
	if len(fields) != r.columns {
		r.problem = fmt.Sprintf("%d columns, want %d", len(fields), r.columns)
	}
	return r
}

func (r *row) empty() bool {
	return !slices.ContainsFunc(r.fields, func(f string) bool { return strings.TrimSpace(f) != "" })
}

// fail records a problem unless the row already has one.
func (r *row) fail(problem string) {
	r.problem = cmp.Or(r.problem, problem)
}

// text returns a field without surrounding spaces; "" if the file has no such column.
func (r *row) text(column string) string {
	i, ok := r.column[column]
	if !ok || i >= len(r.fields) {
		return ""
	}
	return strings.TrimSpace(r.fields[i])
}

// name returns a field whose values are shared by many rows.
func (r *row) name(column string) string {
	s := r.text(column)
	kept, ok := r.names[s]
	if !ok {
		kept = strings.Clone(s)
		r.names[kept] = kept
	}
	return kept
}

// number returns a finite number; NaN if the field is empty.
func (r *row) number(column string) float64 {
	s := r.text(column)
	if s == "" {
		return math.NaN()
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
		r.fail(column + " is not a number")
	}
	return x
}

// whole returns an integer, which may be written "1.0".
func (r *row) whole(column string) int {
	x := r.number(column)
	if math.IsNaN(x) {
		r.fail("no " + column)
		return 0
	}
	if x != math.Trunc(x) || math.Abs(x) > 1<<53 {
		r.fail(column + " is not a whole number")
		return 0
	}
	return int(x)
}

// nonNegative returns a number; negative values mean NaN, no value.
func (r *row) nonNegative(column string) float64 {
	if x := r.number(column); !(x < 0) {
		return x
	}
	return math.NaN()
}

// date returns the seconds since 1970 of a date without a time zone.
func (r *row) date(column string) float64 {
	s := r.text(column)
	if s == "" {
		return math.NaN()
	}
	t, err := time.Parse(time.DateTime, s)
	if err != nil {
		r.fail(column + " is not a date")
		return math.NaN()
	}
	return float64(t.Unix())
}
