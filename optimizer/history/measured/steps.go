package measured

import (
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
	"trainopt/optimizer/history"
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

func loadPollux(dir string) ([]history.Entry, error) {
	return loadSteps(filepath.Join(dir, "pollux-profiles"), "pollux", polluxMachines)
}

func loadSia(dir string) ([]history.Entry, error) {
	return loadSteps(filepath.Join(dir, "sia-profiles"), "sia", siaMachines)
}

// loadSteps reads the step times of all families on the given machines; missing tables are skipped.
func loadSteps(dir, source string, machines []stepMachine) ([]history.Entry, error) {
	var all []history.Entry
	for _, family := range stepFamilies {
		for _, m := range machines {
			placed, err1 := LoadPlacements(filepath.Join(dir, family, "placements"+m.file+".csv"))
			scaled, err2 := readSteps(filepath.Join(dir, family, "scalability"+m.file+".csv"), readScalability)
			if err := errors.Join(present(err1), present(err2)); err != nil {
				return nil, err
			}
			entries, err := entriesOf(dir, stepPoints(source+"/"+family+"/"+m.name, m, merge(placedRows(placed), scaled)))
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

// readSteps reads a table of step times, or its .gz.
func readSteps[Row any](path string, read func(io.Reader) ([]Row, error)) ([]Row, error) {
	f, path, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := read(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return rows, nil
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
		nodes, err1 := whole(v[0])
		gpus, err2 := whole(v[1])
		local, err3 := whole(v[2])
		seconds, err4 := number(v[3])
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

// merge appends to the rows of placements those of the other table, except duplicates: the same GPUs, nodes, batch
// size and time.
func merge(placed, scaled []stepRow) []stepRow {
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
func stepPoints(prefix string, m stepMachine, rows []stepRow) []point {
	times := map[string][]float64{}
	var points []point
	for _, r := range rows {
		id := prefix + "/" + r.place + "/b" + short(r.local)
		if times[id] == nil {
			points = append(points, point{id: id, gpu: m.gpu, machine: m.machine, gpus: r.gpus, nodes: r.nodes, batch: r.local * float64(r.gpus)})
		}
		times[id] = append(times[id], r.seconds)
	}
	for i := range points {
		p := &points[i]
		mean, spread := meanSpread(times[p.id])
		p.throughput, p.count, p.spread = p.batch/mean, float64(len(times[p.id])), spread
	}
	return points
}

// meanSpread returns mean and relative standard deviation; the latter is 0 (unknown) for fewer than two values.
func meanSpread(x []float64) (mean, spread float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	if len(x) < 2 {
		return mean, 0
	}
	for _, v := range x {
		spread += (v - mean) * (v - mean) / float64(len(x)-1)
	}
	return mean, math.Sqrt(spread) / mean
}
