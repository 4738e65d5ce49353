package history

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

	"gonum.org/v1/gonum/stat"

	"trainopt/internal/regular"
)

// stepFamilies lists the models of Pollux and Sia, which are subfolders of their tables.
var stepFamilies = []string{"bert", "cifar10", "deepspeech2", "imagenet", "ncf"}

// stepMachine is a machine with measured step times.
type stepMachine struct {
	file    string // infix of its file names, "-rtx"
	name    string // in ids
	gpu     string
	machine string // "" as in its origin
}

var (
	polluxMachines = []stepMachine{{"", "t4", "T4", ""}}
	// siaMachines: the paper does not name the GPU of its Azure machines.
	siaMachines = []stepMachine{
		{"-aws", "aws", "T4", "aws:g4dn.12xlarge"}, {"-azure", "azure", "azure (unnamed)", "sia:azure"},
		{"-dgx", "dgx", "A100 40GB", "sia:dgx"}, {"-dgx-ext", "dgx-ext", "A100 40GB", "sia:dgx"},
		{"-quad", "quad", "RTX 6000", "sia:quad"}, {"-rtx", "rtx", "RTX 2080 Ti", "sia:rtx"},
	}
)

func loadPollux(dir string) ([]Entry, error) {
	return loadSteps(filepath.Join(dir, "pollux-profiles"), "pollux", polluxMachines)
}

func loadSia(dir string) ([]Entry, error) {
	return loadSteps(filepath.Join(dir, "sia-profiles"), "sia", siaMachines)
}

// loadSteps reads the step times of all families on the given machines; missing tables are skipped.
func loadSteps(dir, source string, machines []stepMachine) ([]Entry, error) {
	var all []Entry
	for _, family := range stepFamilies {
		for _, m := range machines {
			placed, err1 := LoadPlacements(filepath.Join(dir, family, "placements"+m.file+".csv"))
			scaled, err2 := readTable(filepath.Join(dir, family, "scalability"+m.file+".csv"), readScalability)
			if err := errors.Join(present(err1), present(err2)); err != nil {
				return nil, err
			}
			entries, err := entriesOf(dir, stepPoints(source+"/"+family+"/"+m.name, m, mergeSteps(placedRows(placed), scaled)))
			if err != nil {
				return nil, err
			}
			all = append(all, entries...)
		}
	}
	return all, nil
}

// present returns nil for the error of a table that is missing.
func present(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// stepRow is one measured step time.
type stepRow struct {
	place       string // of the id: "4x2", "1+4", "r7n6"
	gpus, nodes int
	local       float64 // samples per GPU
	seconds     float64
}

// placedRows converts rows of placements, whose nodes are named in ascending order of their GPUs.
func placedRows(table []StepRow) []stepRow {
	rows := make([]stepRow, 0, len(table))
	for _, s := range table {
		slices.Sort(s.Placement)
		rows = append(rows, stepRow{placeName(s.Placement), s.GPUs(), len(s.Placement), s.Batch, s.Seconds})
	}
	return rows
}

// placeName returns "4x2" for 4 GPUs on each of 2 nodes, "1+4" for unequal numbers.
func placeName(placement []int) string {
	if first, last := placement[0], placement[len(placement)-1]; first == last {
		return fmt.Sprintf("%dx%d", first, len(placement))
	}
	parts := make([]string, len(placement))
	for i, g := range placement {
		parts[i] = strconv.Itoa(g)
	}
	return strings.Join(parts, "+")
}

// readScalability reads a table with the columns num_nodes, num_replicas (GPUs over all nodes), local_bsz and
// step_time, in any order. Rows with a non-positive time are failed measurements and are left out.
func readScalability(r io.Reader) ([]stepRow, error) {
	var out []stepRow
	err := regular.EachRow(csv.NewReader(r), []string{"num_nodes", "num_replicas", "local_bsz", "step_time"}, func(v []string) error {
		nodes, err1 := parseWhole(v[0])
		gpus, err2 := parseWhole(v[1])
		local, err3 := parseWhole(v[2])
		seconds, err4 := parseNumber(v[3])
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			return fmt.Errorf("num_nodes, num_replicas, local_bsz, step_time: %w", err)
		}
		row := stepRow{gpus: gpus, nodes: nodes, local: float64(local), seconds: seconds}
		if row.gpus < row.nodes {
			return fmt.Errorf("%d replicas on %d nodes, want one on each at least", row.gpus, row.nodes)
		}
		row.place = fmt.Sprintf("r%dn%d", row.gpus, row.nodes)
		if row.gpus%row.nodes == 0 {
			row.place = fmt.Sprintf("%dx%d", row.gpus/row.nodes, row.nodes)
		}
		if row.seconds > 0 {
			out = append(out, row)
		}
		return nil
	})
	return out, err
}

// mergeSteps appends to the rows of placements those of the other table, except duplicates: the same GPUs, nodes, batch
// size and time.
func mergeSteps(placed, scaled []stepRow) []stepRow {
	same := func(r stepRow) stepRow { r.place = ""; return r }
	known := map[stepRow]bool{}
	for _, r := range placed {
		known[same(r)] = true
	}
	for _, r := range scaled {
		if !known[same(r)] {
			placed = append(placed, r)
		}
	}
	return placed
}

// stepPoints averages the rows of each place and batch size.
func stepPoints(prefix string, m stepMachine, rows []stepRow) []measurement {
	times := map[string][]float64{}
	var points []measurement
	for _, r := range rows {
		id := prefix + "/" + r.place + "/b" + shortest(r.local)
		if times[id] == nil {
			points = append(points, measurement{id: id, gpu: m.gpu, machine: m.machine, gpus: r.gpus, nodes: r.nodes, batch: r.local * float64(r.gpus)})
		}
		times[id] = append(times[id], r.seconds)
	}
	for i := range points {
		p := &points[i]
		mean, deviation := stat.MeanStdDev(times[p.id], nil)
		p.throughput, p.count = p.batch/mean, float64(len(times[p.id]))
		if p.count > 1 {
			p.spread = deviation / mean
		}
	}
	return points
}

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
		if s.Batch, err = parseNumber(v[1]); err != nil || !(s.Batch >= 1) {
			return fmt.Errorf("local_bsz %q, want a number from 1", v[1])
		}
		if s.Seconds, err = parseNumber(v[2]); err != nil {
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

// BatchProgress is the final state of one training at a fixed total batch.
type BatchProgress struct {
	Batch int // total
	// Steps is the number of steps taken, Reference the number of steps at the reference batch that make the same
	// progress.
	Steps, Reference float64
}

// Efficiency returns the mean efficiency of a sample relative to one at the reference batch.
func (p BatchProgress) Efficiency(reference int) float64 {
	return p.Reference / p.Steps * float64(reference) / float64(p.Batch)
}

// readProgress reads the last row of a validation table with columns "progress" (steps of the reference batch) and
// "iteration" (steps taken).
func readProgress(r io.Reader, batch int) (BatchProgress, error) {
	p := BatchProgress{Batch: batch}
	var last []string
	err := regular.EachRow(csv.NewReader(r), []string{"progress", "iteration"}, func(v []string) error { last = v; return nil })
	if err != nil {
		return p, err
	}
	if last == nil {
		return p, errors.New("no rows")
	}
	var err1, err2 error
	p.Reference, err1 = parseNumber(last[0])
	p.Steps, err2 = parseNumber(last[1])
	if err1 != nil || err2 != nil || !(p.Reference > 0) || !(p.Steps > 0) {
		return p, fmt.Errorf("last line: progress %q, iteration %q, want positive numbers", last[0], last[1])
	}
	return p, nil
}

// PolluxTables are the tables of one model.
type PolluxTables struct {
	Steps    []StepRow
	Progress []BatchProgress // ascending by batch; the first is the reference
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
func LoadPlacements(path string) ([]StepRow, error) { return readTable(path, readPlacements) }

// loadProgress reads the validation tables of a model; their names contain the batch.
func loadProgress(dir string) ([]BatchProgress, error) {
	var out []BatchProgress
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
		p, err := readTable(name, func(r io.Reader) (BatchProgress, error) { return readProgress(r, batch) })
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("read %s: no validation-*.csv: %w", dir, fs.ErrNotExist)
	}
	slices.SortFunc(out, func(a, b BatchProgress) int { return a.Batch - b.Batch })
	return out, nil
}
