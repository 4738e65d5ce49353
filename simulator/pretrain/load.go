package pretrain

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"trainopt/optimizer/history"
	"trainopt/resources"
)

// PolluxOrigin and GavelOrigin are the origins of the embedded numbers.
var (
	PolluxOrigin = Origin{
		Source:  "Pollux (OSDI 2021) measured step times and gradient statistics, in pkusys/ElasticFlow pollux/pollux_simulator/traces",
		Commit:  "04a0109a6acdd7d89f4cb31b6a6a7a128bee6bb0",
		Licence: "Apache-2.0",
	}
	GavelOrigin = Origin{
		Source:  "Gavel (OSDI 2020) simulation_throughputs.json, in stanford-futuredata/gavel scheduler",
		Commit:  "c4fa40097339e9608ab71fd64c8bdea96a5e4a4c",
		Licence: "MIT",
	}
	siaOrigin = Origin{
		Source:  "Sia (SOSP 2023) measured step times, in siasosp23/artifacts sia-simulator; gradient statistics of Pollux",
		Commit:  "aaf7a0de7b6cb5eab06ea020467ede5d2fd18e70",
		Licence: "none",
	}
)

// polluxFamilies are the models contained in both artefacts; other folders are the user's own.
var polluxFamilies = []string{"bert", "cifar10", "deepspeech2", "imagenet", "ncf"}

// siaMachines are the GPU kinds of the Sia tables. Their "aws" is the machine of the Pollux tables, "dgx" a part of
// "dgx-ext". The paper does not name "azure"; the artefact's configuration has ND40rs_v2.
var siaMachines = []struct {
	suffix, short, gpu string
	perNode, most      int
}{
	{"rtx", "rtx2080ti", "RTX 2080 Ti", 8, 16},
	{"quad", "rtx6000", "RTX 6000", 4, 4},
	{"dgx-ext", "a100", "A100 40GB", 8, 16},
	{"azure", "v100-32gb", "V100 32GB", 8, 16},
}

// Load reads the measured tables below dir (pollux-profiles, sia-profiles and gavel; missing ones are skipped) and
// returns the kinds sorted by name. Each folder of pollux-profiles is a kind of job on T4s. Kinds that are also embedded have the same names as in Embedded, with the tables
// as their truth. Between measured batches the step time is interpolated; outside them, and at numbers of GPUs without
// a measurement, it is NaN. The Sia kinds use the gradient statistics of pollux-profiles and are omitted without them.
// The error wraps fs.ErrNotExist if no tables exist.
func Load(dir string) ([]Kind, error) {
	var out []Kind
	pollux := filepath.Join(dir, "pollux-profiles")
	folders, err := os.ReadDir(pollux)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, folder := range folders {
		family, origin := folder.Name(), PolluxOrigin
		if !slices.Contains(polluxFamilies, family) {
			origin = Origin{Source: filepath.Join(pollux, family), Commit: "none", Licence: "none"}
		}
		t, err := history.LoadPolluxTables(filepath.Join(pollux, family))
		if errors.Is(err, fs.ErrNotExist) || folder.Type().IsRegular() {
			continue
		}
		if err != nil {
			return nil, err
		}
		k := tableKind(family+"/t4", family, origin, t, 4, 16)
		k.GPU = "T4"
		out = append(out, k)
		sia, err := loadSia(filepath.Join(dir, "sia-profiles", family), family, t.Progress)
		if err != nil {
			return nil, err
		}
		out = append(out, sia...)
	}
	counts, err := history.LoadGavelCurves(filepath.Join(dir, "gavel"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, c := range counts {
		k := CountModel{GavelOrigin, c}.kind()
		k.Measured = true
		out = append(out, k)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("load measured profiles below %s: none of pollux-profiles, gavel is there: %w", dir, fs.ErrNotExist)
	}
	return sortKinds(out)
}

// loadSia reads the Sia tables of one family; missing tables are skipped. All its kinds are held out.
func loadSia(dir, family string, p []history.BatchProgress) ([]Kind, error) {
	var out []Kind
	for _, m := range siaMachines {
		rows, err := history.LoadPlacements(filepath.Join(dir, "placements-"+m.suffix+".csv"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		k := tableKind(family+"/"+m.short, family, siaOrigin, history.PolluxTables{Steps: rows, Progress: p}, m.perNode, m.most)
		k.GPU, k.HeldOut = m.gpu, true
		out = append(out, k)
	}
	return out, nil
}

// tableKind returns the kind of one pair of Pollux tables, with nodes of perNode GPUs and at most most GPUs.
func tableKind(name, family string, o Origin, t history.PolluxTables, perNode, most int) Kind {
	steps := newTableSteps(t, perNode, most)
	first, last := t.Progress[0], t.Progress[len(t.Progress)-1]
	k := Kind{
		Name: name, Family: family, Source: o.Source + " @ " + o.Commit, Licence: o.Licence, Measured: true,
		GPUsPerNode: perNode, HeldOut: heldOut[family],
		TotalBatch: resources.Range{Min: first.Batch, Max: last.Batch}, WorkSamples: first.Reference * float64(first.Batch),
		step: steps,
	}
	k.Restart = restartOf(family)
	lo, hi := math.Inf(1), 0.0
	for g, c := range steps.curves {
		if len(c.batch) > 0 {
			k.MaxGPUs = g
			lo, hi = min(lo, c.batch[0]), max(hi, c.batch[len(c.batch)-1])
		}
	}
	k.Batch = resources.Range{Min: int(math.Ceil(lo)), Max: int(hi)}
	k.DefaultBatch = max(k.Batch.Min, min(k.Batch.Max, first.Batch))
	return k
}

// tableSteps is the stepTimer of measured rows.
type tableSteps struct {
	curves []batchCurve // by GPUs, nodes filled one after another
	worth  batchCurve   // efficiency of a sample by total batch
}

// batchCurve is a quantity as a function of the batch, or of the number of GPUs, ascending; interpolated linearly in logarithms, NaN outside.
type batchCurve struct{ batch, value []float64 }

// newTableSteps indexes the rows whose placement fills nodes of perNode GPUs, up to most GPUs. Efficiencies are
// relative to the first (smallest) batch.
func newTableSteps(t history.PolluxTables, perNode, most int) tableSteps {
	s := tableSteps{curves: make([]batchCurve, most+1)}
	for _, r := range t.Steps {
		if g := r.GPUs(); g <= most && r.Packed(perNode) {
			s.curves[g].add(r.Batch, r.Seconds)
		}
	}
	first := t.Progress[0]
	for _, p := range t.Progress { // normalized to 1 at the reference batch, where the tables are off by a step
		s.worth.add(float64(p.Batch), p.Efficiency(first.Batch)/first.Efficiency(first.Batch))
	}
	return s
}

// add inserts a point; of two at one batch the first is kept.
func (c *batchCurve) add(batch, value float64) {
	i, found := slices.BinarySearch(c.batch, batch)
	if !found {
		c.batch, c.value = slices.Insert(c.batch, i, batch), slices.Insert(c.value, i, value)
	}
}

// at returns the quantity at a batch, NaN outside the measured range.
func (c batchCurve) at(batch float64) float64 {
	i, found := slices.BinarySearch(c.batch, batch)
	switch {
	case found:
		return c.value[i]
	case i == 0 || i == len(c.batch):
		return math.NaN()
	}
	t := math.Log(batch/c.batch[i-1]) / math.Log(c.batch[i]/c.batch[i-1])
	return math.Exp((1-t)*math.Log(c.value[i-1]) + t*math.Log(c.value[i]))
}

func (s tableSteps) seconds(gpus int, perGPU float64) float64 {
	if gpus < 1 || gpus >= len(s.curves) {
		return math.NaN()
	}
	return s.curves[gpus].at(perGPU)
}

func (s tableSteps) efficiency(total float64) float64 { return s.worth.at(total) }
