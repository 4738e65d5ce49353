package history

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
)

//go:embed measurements.csv
var measurements []byte

// Published returns a new slice of the measurements in the binary, sorted by id. Third parties made them on their
// machines with their scripts: they are a prior and a test set of predictions, not measurements of the user's job. They
// are thinned and rounded to four digits by "go run ./internal/gen measurements --data DIR", from sources whose licence
// permits it: Gavel (MIT), and Pollux, ElasticFlow and MLPerf Training v5.0 (Apache-2.0). LoadPublished also reads those
// without a licence: Sia and MLPerf Training v4.1. An id is the same in both, except for MLPerf, of which the binary
// contains medians:
//
//	pollux/bert/t4/4x2/b12           4 GPUs on each of 2 nodes, 12 samples per GPU and step
//	sia/bert/rtx/1+4/b12             1 GPU on one node, 4 on another
//	sia/bert/azure/r12n5/b12         12 GPUs on 5 nodes, distribution unknown
//	gavel/resnet50/v100/4x1/b64
//	elasticflow/bert/a100/8/g64      8 GPUs, 64 samples per step over all of them
//	mlperf-v5.0/llama2_70b_lora/Dell/XE9680  one submission
//	mlperf/llama2_70b_lora/h100/8x1/g8       the median over submitters
//
// Throughput is samples/s. An entry of MLPerf has only Seconds, the time of a whole training to its target quality;
// its single unit is "training". The times were computed from the published logs and are not official MLPerf results.
//
// Published panics if the embedded file is malformed, which a test excludes.
func Published() []Entry {
	entries, err := parsePublished(bytes.NewReader(measurements))
	if err != nil {
		panic(fmt.Sprintf("embedded measurements.csv: %v", err))
	}
	return entries
}

// publishedColumns of the embedded table. Empty cells are unknown. throughput is samples/s, seconds the time of a whole
// training; count is the number of measurements that the figure averages (mean or median), spread their relative
// standard deviation. The model and the source are part of the id.
var publishedColumns = []string{"id", "gpu", "gpus", "nodes", "batch", "throughput", "seconds", "count", "spread", "framework"}

// parsePublished reads a table in the format of FormatPublished. Errors contain the line number.
func parsePublished(r io.Reader) ([]Entry, error) {
	reader := csv.NewReader(r)
	reader.Comment = '#'
	seen := map[string]bool{}
	var out []Entry
	err := regular.EachRow(reader, publishedColumns, func(v []string) error {
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
func parsePoint(v []string) (measurement, error) {
	p := measurement{id: v[0], gpu: v[1], framework: v[9]}
	var err1, err2 error
	p.gpus, err1 = parseWhole(v[2])
	p.nodes, err2 = parseWhole(v[3])
	errs := []error{err1, err2}
	for i, to := range []*float64{&p.batch, &p.throughput, &p.seconds, &p.count, &p.spread} {
		if v[i+4] == "" {
			continue
		}
		x, err := parseNumber(v[i+4])
		if err == nil && !(x > 0 && x < 1e15 && x > 1e-15) {
			err = fmt.Errorf("%s %q, want a positive number or nothing", publishedColumns[i+4], v[i+4])
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

// FormatPublished writes entries as the embedded table, figures rounded to four digits, with their sources as comments at the
// top. The output depends neither on the order of the entries nor on the time of the call: date (YYYY-MM-DD) is the
// date of generation. Entries from a source without a licence are an error: those are never embedded.
func FormatPublished(entries []Entry, date string) ([]byte, error) {
	sorted, err := sortEntries(slices.Clone(entries))
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	var rows bytes.Buffer
	w := csv.NewWriter(&rows)
	if err := w.Write(publishedColumns); err != nil {
		return nil, err
	}
	for _, e := range sorted {
		source, _ := sourceOf(e.ID)
		if o, known := origins[source]; !known || o.Licence == noLicence {
			return nil, fmt.Errorf("format published measurements: %s: its source has no licence to embed it", e.ID)
		}
		used[source] = true
		c := e.Observed
		row := []string{e.ID, c.GPU, shortest(c.GPUs), strconv.Itoa(c.Nodes), shortest(c.Batch), fourDigits(e.Throughput), fourDigits(e.Seconds),
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
