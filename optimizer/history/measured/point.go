package measured

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"trainopt/internal/regular"
	"trainopt/optimizer/history"
)

// point is a measurement as a row of the embedded table, from which an entry is made.
type point struct {
	id            string // "source/model/…"
	gpu           string // name according to gpuName
	gpus, nodes   int
	batch         float64 // samples per step over all GPUs
	framework     string
	machine       string  // "" unknown
	throughput    float64 // samples/s, 0 not measured
	seconds       float64 // of the whole training, 0 not measured
	count, spread float64 // number of measurements averaged; their relative standard deviation, 0 unknown
}

// entry returns the entry of a point. An id with an unknown source or model is an error.
func (p point) entry() (history.Entry, error) {
	e := history.NewEntry(history.Table, p.id)
	source, model := sourceOf(p.id)
	o, known := origins[source]
	if !known {
		return e, fmt.Errorf("%s: source %q is not known", p.id, source)
	}
	if e.Job, known = jobOf(source, model, p.framework); !known {
		return e, fmt.Errorf("%s: model %q of %s is not known", p.id, model, source)
	}
	e.Source = o.words()
	e.Observed.GPU, e.Observed.GPUs, e.Observed.Nodes, e.Observed.Batch = p.gpu, float64(p.gpus), p.nodes, p.batch
	if e.Observed.Machine = p.machine; p.machine == "" {
		e.Observed.Machine = o.Machine
	}
	if p.throughput > 0 {
		e.Throughput, e.Unit, e.UnitTime = p.throughput, "step", p.batch/p.throughput
	}
	if p.seconds > 0 {
		e.Seconds, e.Units, e.Unit, e.UnitTime = p.seconds, 1, "training", p.seconds
	}
	if p.count > 0 {
		e.UnitCount = p.count
	}
	if p.spread > 0 {
		e.UnitSpread = p.spread
	}
	return e, nil
}

// sourceOf returns the key of an id's origin, and the model.
func sourceOf(id string) (source, model string) {
	source, rest, _ := strings.Cut(id, "/")
	model, rest, _ = strings.Cut(rest, "/")
	if source == "elasticflow" && strings.HasPrefix(rest, "t4/") {
		source = elasticFlowT4
	}
	return source, model
}

// entriesOf returns the entries of the points of one file.
func entriesOf(file string, points []point) ([]history.Entry, error) {
	out := make([]history.Entry, 0, len(points))
	for _, p := range points {
		e, err := p.entry()
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		out = append(out, e)
	}
	return out, nil
}

// open opens path, or path with ".gz" appended, decompressed, and returns the name of the opened file.
func open(path string) (io.ReadCloser, string, error) {
	f, err := regular.Open(path, regular.Data)
	if errors.Is(err, fs.ErrNotExist) {
		path += ".gz"
		f, err = regular.Open(path, regular.Data)
	}
	if err != nil {
		return nil, path, err
	}
	b, err := regular.Gunzip(f)
	if err != nil {
		f.Close()
		return nil, path, fmt.Errorf("%s: %w", path, err)
	}
	return struct {
		io.Reader
		io.Closer
	}{b, f}, path, nil
}

// short formats a number without trailing zeros.
func short(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
