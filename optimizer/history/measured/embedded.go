package measured

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"

	"trainopt/internal/regular"
	"trainopt/optimizer/history"
)

//go:embed measurements.csv
var measurements []byte

// Embedded returns a new slice of the measurements in the binary, sorted by id. It panics if the embedded file is
// malformed, which a test excludes.
func Embedded() []history.Entry {
	entries, err := parse(bytes.NewReader(measurements))
	if err != nil {
		panic(fmt.Sprintf("embedded measurements.csv: %v", err))
	}
	return entries
}

// columns of the embedded table. Empty cells are unknown. throughput is samples/s, seconds the time of a whole
// training; count is the number of measurements that the figure averages (mean or median), spread their relative
// standard deviation. The model and the source are part of the id.
var columns = []string{"id", "gpu", "gpus", "nodes", "batch", "throughput", "seconds", "count", "spread", "framework"}

// parse reads a table in the format of Format. Errors contain the line number.
func parse(r io.Reader) ([]history.Entry, error) {
	reader := csv.NewReader(r)
	reader.Comment = '#'
	seen := map[string]bool{}
	var out []history.Entry
	err := regular.EachRow(reader, columns, func(v []string) error {
		p, err := parsePoint(v)
		if err != nil {
			return err
		}
		if seen[p.id] {
			return fmt.Errorf("id %q occurs twice", p.id)
		}
		seen[p.id] = true
		e, err := p.entry()
		if err == nil {
			out = append(out, e)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return sortEntries(out)
}

// parsePoint validates one row: a known GPU count of at least one per node, a batch size, and either throughput or
// seconds.
func parsePoint(v []string) (point, error) {
	p := point{id: v[0], gpu: v[1], framework: v[9]}
	var err1, err2 error
	p.gpus, err1 = whole(v[2])
	p.nodes, err2 = whole(v[3])
	errs := []error{err1, err2}
	for i, to := range []*float64{&p.batch, &p.throughput, &p.seconds, &p.count, &p.spread} {
		if v[i+4] == "" {
			continue
		}
		x, err := number(v[i+4])
		if err == nil && !(x > 0 && x < 1e15 && x > 1e-15) {
			err = fmt.Errorf("%s %q, want a positive number or nothing", columns[i+4], v[i+4])
		}
		errs, *to = append(errs, err), x
	}
	if err := errors.Join(errs...); err != nil {
		return p, fmt.Errorf("%q: %w", p.id, err)
	}
	switch {
	case p.gpu == "":
		return p, fmt.Errorf("%q: no gpu", p.id)
	case p.gpus < p.nodes:
		return p, fmt.Errorf("%q: %d GPUs on %d nodes", p.id, p.gpus, p.nodes)
	case p.batch == 0:
		return p, fmt.Errorf("%q: no batch", p.id)
	case (p.throughput > 0) == (p.seconds > 0):
		return p, fmt.Errorf("%q: want either throughput or seconds", p.id)
	}
	return p, nil
}

// Format writes entries as the embedded table, figures rounded to four digits, with their sources as comments at the
// top. The output depends neither on the order of the entries nor on the time of the call: date (YYYY-MM-DD) is the
// date of generation. Entries from a source without a licence are an error: those are never embedded.
func Format(entries []history.Entry, date string) ([]byte, error) {
	sorted, err := sortEntries(slices.Clone(entries))
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	var rows bytes.Buffer
	w := csv.NewWriter(&rows)
	if err := w.Write(columns); err != nil {
		return nil, err
	}
	for _, e := range sorted {
		source, _ := sourceOf(e.ID)
		if o, known := origins[source]; !known || o.Licence == none {
			return nil, fmt.Errorf("format published measurements: %s: its source has no licence to embed it", e.ID)
		}
		used[source] = true
		c := e.Observed
		row := []string{e.ID, c.GPU, short(c.GPUs), strconv.Itoa(c.Nodes), short(c.Batch), fourDigits(e.Throughput), fourDigits(e.Seconds),
			fourDigits(e.UnitCount), fourDigits(e.UnitSpread), ""}
		if e.Seconds > 0 {
			row[9] = e.Job.Framework
		}
		if err := w.Write(row); err != nil {
			return nil, err
		}
	}
	w.Flush()
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Published measurements of trainings, made %s by: go run ./internal/gen measurements\n", date)
	for _, key := range slices.Sorted(maps.Keys(used)) {
		o := origins[key]
		fmt.Fprintf(&out, "# %s: %s; %s @ %s; %s\n", key, o.Title, o.Where, o.Commit, o.Licence)
	}
	out.Write(rows.Bytes())
	return out.Bytes(), w.Error()
}

// fourDigits rounds to four significant digits; NaN (unknown) is "".
func fourDigits(x float64) string {
	if math.IsNaN(x) {
		return ""
	}
	return strconv.FormatFloat(x, 'g', 4, 64)
}
