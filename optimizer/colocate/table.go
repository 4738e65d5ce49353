package colocate

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"trainopt/optimizer/schedule/place"
)

// columns lists the columns of an app after n_APP: the first is read by place.ReadSamples. Beside the three measures and
// their intervals, alone_ is the throughput of a container alone in operations/s, without foreign programs.
var columns = []string{"rps_", "rps_lo_", "rps_hi_", "cpu_", "cpu_lo_", "cpu_hi_", "wall_", "wall_lo_", "wall_hi_", "alone_"}

// cells returns the numbers of columns.
func (r *Row) cells(app int) []float64 {
	out := make([]float64, 0, len(columns))
	for _, e := range []Estimate{r.RPS[app], r.CPU[app], r.Wall[app]} {
		out = append(out, e.Mean, e.Lo, e.Hi)
	}
	return append(out, r.Alone[app])
}

// WriteRows writes a table as CSV. An empty cell is a value that does not exist.
func WriteRows(w io.Writer, apps []string, rows []Row) error {
	out := csv.NewWriter(w)
	var head []string
	for _, app := range apps {
		head = append(head, "n_"+app)
	}
	for _, app := range apps {
		for _, c := range columns {
			head = append(head, c+app)
		}
	}
	out.Write(append(head, "cycles", "foreign", "steal", "flags"))
	for i := range rows {
		r := &rows[i]
		var line []string
		for _, k := range r.Counts {
			line = append(line, strconv.Itoa(int(k)))
		}
		for a := range apps {
			for _, v := range r.cells(a) {
				line = append(line, cell(v))
			}
		}
		var flags []string
		for name, set := range map[string]bool{"disturbed": r.Disturbed, "wide": r.Wide, "definition": r.Cycles == 0} {
			if set {
				flags = append(flags, name)
			}
		}
		slices.Sort(flags)
		out.Write(append(line, strconv.Itoa(r.Cycles), cell(r.Foreign), cell(r.Steal), strings.Join(flags, " ")))
	}
	out.Flush()
	return out.Error()
}

// cell formats a number with four digits after the point, or more if it is small.
func cell(v float64) string {
	switch {
	case math.IsNaN(v):
		return ""
	case v != 0 && math.Abs(v) < 0.01:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return strconv.FormatFloat(v, 'f', 4, 64)
}

// ReadRows reads a table of WriteRows for the given apps; its columns may be in any order. The error names the line.
func ReadRows(in io.Reader, apps []string) ([]Row, error) {
	r := csv.NewReader(in)
	head, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("head: %w", err)
	}
	at := map[string]int{}
	for i, name := range head {
		at[name] = i
		if app, ok := strings.CutPrefix(name, "n_"); ok && !slices.Contains(apps, app) {
			return nil, fmt.Errorf("it has an app %s, the specification has %s", app, strings.Join(apps, ", "))
		}
	}
	wanted := []string{"cycles", "foreign", "steal", "flags"}
	for _, app := range apps {
		wanted = append(wanted, "n_"+app)
		for _, c := range columns {
			wanted = append(wanted, c+app)
		}
	}
	for _, name := range wanted {
		if _, ok := at[name]; !ok {
			return nil, fmt.Errorf("no column %s: not a table of `optimize profile colocate` for these apps", name)
		}
	}
	var rows []Row
	for {
		line, err := r.Read()
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		row, err := parseRow(line, at, apps)
		if err != nil {
			n, _ := r.FieldPos(0)
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		rows = append(rows, row)
	}
}

// parseRow reads one line.
func parseRow(line []string, at map[string]int, apps []string) (row Row, err error) {
	number := func(name string) float64 {
		text := line[at[name]]
		if text == "" || err != nil {
			return math.NaN()
		}
		v, e := strconv.ParseFloat(text, 64)
		if e != nil || !(v >= 0) || math.IsInf(v, 1) {
			err = fmt.Errorf("%s %q: want a number that is not negative", name, text)
		}
		return v
	}
	count := func(name string, most float64) int {
		v := number(name)
		if err == nil && !(v == math.Trunc(v) && v <= most) {
			err = fmt.Errorf("%s %q: want a whole number up to %v", name, line[at[name]], most)
		}
		return int(v)
	}
	for _, app := range apps {
		row.Counts = append(row.Counts, uint8(count("n_"+app, 255)))
		var v []float64
		for _, c := range columns {
			v = append(v, number(c+app))
		}
		row.RPS = append(row.RPS, Estimate{v[0], v[1], v[2]})
		row.CPU = append(row.CPU, Estimate{v[3], v[4], v[5]})
		row.Wall = append(row.Wall, Estimate{v[6], v[7], v[8]})
		row.Alone = append(row.Alone, v[9])
		if err == nil && row.Counts[len(row.Counts)-1] > 0 && math.IsNaN(v[0]) {
			err = fmt.Errorf("rps_%s is empty", app)
		}
	}
	row.Cycles, row.Foreign, row.Steal = count("cycles", 1<<30), number("foreign"), number("steal")
	flags := strings.Fields(line[at["flags"]])
	row.Wide, row.Disturbed = slices.Contains(flags, "wide"), slices.Contains(flags, "disturbed")
	return row, err
}

// Samples returns rows as measurements of package place.
func Samples(apps []string, rows []Row) *place.Samples {
	s := &place.Samples{Apps: apps}
	for _, r := range rows {
		rps := make([]float64, len(apps))
		for a := range rps {
			rps[a] = r.RPS[a].Mean
		}
		s.Counts, s.RPS = append(s.Counts, r.Counts), append(s.RPS, rps)
	}
	return s
}
