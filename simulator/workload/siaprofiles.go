package workload

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"trainopt/internal/regular"
)

// siaMachines lists the devices of Sia's profiles: suffix of the file names, our name, and devices per server. The
// last two have the values of Sia's simulator_config.py.
var siaMachines = []struct {
	file, name string
	server     int
}{
	{"aws", "t4", 4},
	{"rtx", "rtx2080ti", 8},
	{"quad", "rtx6000", 4},
	{"dgx-ext", "a100", 8}, // "dgx" is a part of it
	{"azure", "azure", 8},  // not named in the paper
}

// siaSlowdowns are the slow-downs of trainings on the authors' cluster relative to their profiles; Sia's simulator
// divides rates by them.
var siaSlowdowns = map[string]float64{"cifar10": 1.8, "imagenet": 1.2, "bert": 1.2, "deepspeech2": 1.2, "ncf": 1.5, "yolov3": 1.2}

// siaBatches is the number of total batches evaluated, as in Pollux and Sia.
const siaBatches = 50

// loadSiaProfiles reads the measurements of Sia (SOSP 2023) and Pollux (OSDI 2021) below a directory:
// <model>/placements-<device>.csv and scalability-<device>.csv with step times, and <model>/validation-<batch>.csv
// with trainings at a total batch, either there or in a sibling directory pollux-profiles. Files may end with .gz.
// They carry no licence and are for evaluation only.
//
// A step of the table corresponds to one step of the smallest batch: the rate is the goodput, steps per second at a
// total batch × efficiency of a step there, at the best batch for the number of devices on as few servers as possible,
// with gradient accumulation where a batch does not fit. The efficiency of a step is its mean over a training (the
// paper tracks it by epoch), interpolated between batches. Rates are divided by the slow-downs of Sia's simulator.
// Work is the number of steps of a whole training.
//
// The table contains every model once for each trained batch, "bert (batch size 48)", with the same rates, because the
// batch is chosen again for each number of devices. Numbers of devices that were not measured have no rate.
func loadSiaProfiles(dir string) (t *Throughputs, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read Sia's profiles in %s: %w", dir, err)
		}
	}()
	folders, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var rates []Rate
	work := map[string]float64{}
	for _, folder := range folders {
		model := folder.Name()
		if found, _ := filepath.Glob(filepath.Join(dir, model, "placements-*.csv*")); len(found) == 0 {
			continue
		}
		trained, err := siaTrainings(filepath.Join(dir, model))
		if errors.Is(err, fs.ErrNotExist) {
			trained, err = siaTrainings(filepath.Join(dir, "..", "pollux-profiles", model))
		}
		if err != nil {
			return nil, fmt.Errorf("what batches of %s are worth: %w", model, err)
		}
		own, err := siaRates(dir, model, trained)
		if err != nil {
			return nil, err
		}
		for _, b := range trained {
			name := WithBatch(model, b.batch)
			for _, r := range own {
				r.Job = name
				rates = append(rates, r)
			}
			work[name] = trained[0].work
		}
	}
	if len(rates) == 0 {
		return nil, errors.New("no <model>/placements-<device>.csv with a step time in it")
	}
	if t, err = NewThroughputs(rates); err == nil {
		t.work = work
	}
	return t, err
}

// siaTraining is a training at a total batch.
type siaTraining struct {
	batch int
	worth float64 // efficiency of one step, in steps of the smallest batch
	work  float64 // steps of the smallest batch in the whole training
}

// siaTrainings reads validation-<batch>.csv, sorted by batch. All trainings are cut to the number of epochs of the
// shortest, as in Pollux and Sia.
func siaTrainings(dir string) ([]siaTraining, error) {
	files, _ := filepath.Glob(filepath.Join(dir, "validation-*.csv*"))
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no validation-<batch>.csv: %w", dir, fs.ErrNotExist)
	}
	var out []siaTraining
	var all [][][]float64
	epochs := math.MaxInt
	for _, file := range files {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(file), "validation-"), ".")
		batch, err := strconv.Atoi(number)
		if err != nil || batch < 1 {
			return nil, fmt.Errorf("%s: its name has no batch", file)
		}
		rows, err := siaTable(file, "progress", "iteration")
		if err != nil {
			return nil, err
		}
		out, all, epochs = append(out, siaTraining{batch: batch}), append(all, rows), min(epochs, len(rows))
	}
	work := math.Inf(1)
	for i, rows := range all {
		last := rows[epochs-1]
		if !(last[0] > 0 && last[1] > 0) {
			return nil, fmt.Errorf("%s: progress %v after %v iterations, want numbers above 0", files[i], last[0], last[1])
		}
		out[i].worth = last[0] / last[1]
		work = min(work, last[0])
	}
	slices.SortFunc(out, func(a, b siaTraining) int { return a.batch - b.batch })
	for i := range out {
		out[i].work = work
	}
	return out, nil
}

// siaTable reads columns of a CSV; every field must be a finite number.
func siaTable(file string, columns ...string) ([][]float64, error) {
	f, err := regular.Open(file, regular.Data)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := regular.Gunzip(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var out [][]float64
	err = regular.EachRow(csv.NewReader(r), columns, func(row []string) error {
		values := make([]float64, len(row))
		for c, text := range row {
			var err error
			if values[c], err = strconv.ParseFloat(text, 64); err != nil || math.IsNaN(values[c]) || math.IsInf(values[c], 0) {
				return fmt.Errorf("%s is %q, want a number", columns[c], text)
			}
		}
		out = append(out, values)
		return nil
	})
	if err == nil && len(out) == 0 {
		err = errors.New("no row")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return out, nil
}

// siaPoint is a measured step.
type siaPoint struct {
	local      float64 // batch per device
	step, sync float64 // seconds; sync is part of step
}

// siaRates returns the goodputs of a model, without its name.
func siaRates(dir, model string, trained []siaTraining) (rates []Rate, err error) {
	slow := max(siaSlowdowns[model], 1)
	for _, m := range siaMachines {
		points, err := siaPoints(filepath.Join(dir, model), m.file, m.server)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		least := math.Inf(1)
		for _, p := range points {
			least = min(least, p[0].local)
		}
		for gpus, p := range points {
			if rate := siaGoodput(p, gpus, least, trained) / slow; rate > 0 {
				rates = append(rates, Rate{Device: m.name, GPUs: gpus, PerSecond: rate})
			}
		}
	}
	return rates, nil
}

// siaPoints returns the measured steps by number of devices, on as few servers as possible, sorted by batch.
func siaPoints(dir, device string, server int) (map[int][]siaPoint, error) {
	out := map[int][]siaPoint{}
	read := func(kind string, columns []string, gpus func(row []float64) int) error {
		files, _ := filepath.Glob(filepath.Join(dir, kind+"-"+device+".csv*"))
		if len(files) == 0 {
			return fmt.Errorf("%s: %w", filepath.Join(dir, kind+"-"+device+".csv"), fs.ErrNotExist)
		}
		rows, err := siaTable(files[0], append(columns, "local_bsz", "step_time", "sync_time")...)
		if err != nil {
			return err
		}
		before := map[int]bool{}
		for n := range out {
			before[n] = true
		}
		for _, row := range rows {
			p := siaPoint{row[len(columns)], row[len(columns)+1], row[len(columns)+2]}
			if n := gpus(row); n > 0 && !before[n] && p.local > 0 && p.step > 0 && p.sync >= 0 && p.sync <= p.step {
				out[n] = append(out[n], p)
			}
		}
		return nil
	}
	err := read("placements", []string{"placement"}, func(row []float64) int { return packedSia(row[0], server) })
	if err == nil {
		err = read("scalability", []string{"num_nodes", "num_replicas"}, func(row []float64) int {
			if n := int(row[1]); int(row[0]) == (n+server-1)/server {
				return n
			}
			return 0
		})
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	for _, p := range out {
		slices.SortStableFunc(p, func(a, b siaPoint) int { return cmp.Compare(a.local, b.local) })
	}
	return out, err
}

// packedSia returns the number of devices of a placement, whose digits are the devices of each server, if all servers
// but one are full, else 0.
func packedSia(placement float64, server int) int {
	n, partly := 0, 0
	for p := int(placement); p > 0; p /= 10 {
		if d := p % 10; d < server {
			partly++
		}
		n += p % 10
	}
	if partly > 1 {
		return 0
	}
	return n
}

// siaGoodput returns the best rate over total batches, in steps of the smallest batch per second; 0 if none fits.
func siaGoodput(points []siaPoint, gpus int, least float64, trained []siaTraining) float64 {
	first, last := float64(trained[0].batch), float64(trained[len(trained)-1].batch)
	from, most := max(first, least*float64(gpus)), points[len(points)-1].local
	best := 0.0
	for k := range siaBatches {
		total := from * math.Pow(last/from, float64(k)/(siaBatches-1))
		local := total / float64(gpus)
		parts := math.Ceil(local/most - 1e-8)
		if gpus == 1 && total > first*(1+1e-8) {
			parts = max(parts, 2) // the gradient noise cannot be estimated from one gradient on one device, as in Pollux
		}
		step, sync, ok := siaStep(points, local/parts)
		if !ok || from > last {
			continue
		}
		best = max(best, siaEfficiency(trained, total)/(step+(parts-1)*(step-sync)))
	}
	return best
}

// siaStep interpolates between measured batches.
func siaStep(points []siaPoint, local float64) (step, sync float64, ok bool) {
	for i, b := range points {
		switch {
		case math.Abs(b.local-local) <= 1e-9*local:
			return b.step, b.sync, true
		case b.local < local:
		case i == 0:
			return 0, 0, false
		default:
			a := points[i-1]
			x := (local - a.local) / (b.local - a.local)
			return a.step + x*(b.step-a.step), a.sync + x*(b.sync-a.sync), true
		}
	}
	return 0, 0, false
}

// siaEfficiency returns the efficiency of a step at a total batch, interpolated linearly in logarithms.
func siaEfficiency(trained []siaTraining, total float64) float64 {
	for i, b := range trained[1:] {
		a := trained[i]
		if total <= float64(b.batch)*(1+1e-9) {
			x := math.Log(total/float64(a.batch)) / math.Log(float64(b.batch)/float64(a.batch))
			return math.Exp((1-x)*math.Log(a.worth) + x*math.Log(b.worth))
		}
	}
	return trained[len(trained)-1].worth
}
