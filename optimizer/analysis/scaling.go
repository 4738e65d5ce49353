package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"trainopt/optimizer/history"
	"trainopt/optimizer/report/page"
)

// curve is the speed of a model over one knob, with the others fixed.
type curve struct {
	Knob string `json:"knob"` // "gpus", "cpus", "batch_size"
	GPU  string `json:"gpu"`  // model; "" without GPUs or when unknown
	Held string `json:"held"` // fixed knobs, as text
	Unit string `json:"unit"` // of Speed: "samples/s", "epochs/s"
	// Points ascend. Each consists of runs and probes, with one value per training.
	Points []curvePoint `json:"points"`
	// Notes describe other differences between the points that may matter.
	Notes []string `json:"notes"`
}

// curvePoint is the speed at one setting, relative to the smallest setting.
type curvePoint struct {
	At    float64   `json:"at"`
	Speed estimated `json:"speed"`
	// Speedup is the speed relative to that of the smallest setting. Efficiency is Speedup divided by the ratio of
	// the settings; unknown for the batch size, which has no price.
	Speedup    estimated `json:"speedup"`
	Efficiency estimated `json:"efficiency"`
	RunIDs     []string  `json:"run_ids"`
}

// observation is the speed of one training at one configuration.
type observation struct {
	on     history.Config
	speed  float64
	origin string
	ids    []string
	runs   []run
}

// observations returns one observation per training and configuration, from runs, probes and logs; several
// measurements of one training are averaged. Speeds are samples/s if any run has them, otherwise units/s of the most
// common unit.
func observations(runs []run) (list []observation, unit string) {
	unit = "samples/s"
	speed := func(r *run) float64 { return r.Speed }
	if !slices.ContainsFunc(runs, func(r run) bool { return page.Known(r.Speed) }) {
		counts := map[string]int{}
		for i := range runs {
			if s, _ := runs[i].unitSeconds(); page.Known(s) && runs[i].Unit != "" {
				counts[runs[i].Unit]++
			}
		}
		if len(counts) == 0 {
			return nil, ""
		}
		units := slices.Sorted(maps.Keys(counts))
		slices.SortStableFunc(units, func(a, b string) int { return counts[b] - counts[a] })
		unit = plural(units[0]) + "/s"
		speed = func(r *run) float64 {
			if s, _ := r.unitSeconds(); r.Unit == units[0] {
				return 1 / s
			}
			return unknown()
		}
	}
	at := map[string]int{}
	for _, r := range runs {
		v := speed(&r)
		if !page.Known(v) || v <= 0 {
			continue
		}
		key := origin(r.Entry) + "\x00" + configKey(r.On)
		i, ok := at[key]
		if !ok {
			i = len(list)
			at[key] = i
			list = append(list, observation{on: r.On, origin: origin(r.Entry)})
		}
		o := &list[i]
		o.speed += (v - o.speed) / float64(len(o.runs)+1)
		o.ids, o.runs = append(o.ids, r.ID), append(o.runs, r)
	}
	return list, unit
}

// fixedQuantity is a quantity kept fixed along a curve.
type fixedQuantity struct {
	name string
	of   func(history.Config) float64
}

var (
	gpusHeld    = fixedQuantity{"GPU", func(c history.Config) float64 { return c.GPUs }}
	cpusHeld    = fixedQuantity{"CPU", func(c history.Config) float64 { return c.CPUs }}
	batchHeld   = fixedQuantity{"batch", func(c history.Config) float64 { return c.Batch }}
	cpusPerGPU  = fixedQuantity{"CPU per GPU", func(c history.Config) float64 { return c.CPUs / c.GPUs }}
	batchPerGPU = fixedQuantity{"batch per GPU", func(c history.Config) float64 { return c.Batch / c.GPUs }}
)

// words formats the fixed value at a configuration.
func (h fixedQuantity) words(c history.Config) string {
	v := h.of(c)
	if !page.Known(v) {
		return h.name + " unknown"
	}
	if v == 0 {
		return "no " + h.name
	}
	if strings.HasPrefix(h.name, "batch") {
		return h.name + " " + page.Count(v)
	}
	return page.Count(v) + " " + h.name
}

// knobs are the abscissae of curves, each with the sets of fixed quantities, strictest first.
var knobs = []struct {
	name  string
	of    func(history.Config) float64
	holds [][]fixedQuantity
	paid  bool
}{
	{"gpus", gpusHeld.of, [][]fixedQuantity{{cpusHeld, batchHeld}, {cpusPerGPU, batchPerGPU}, {cpusHeld, batchPerGPU}, {cpusPerGPU, batchHeld}}, true},
	{"cpus", cpusHeld.of, [][]fixedQuantity{{gpusHeld, batchHeld}}, true},
	{"batch_size", batchHeld.of, [][]fixedQuantity{{gpusHeld, cpusHeld}}, false},
}

// curves returns the curves of one model and data set: at least two settings of a knob with the others fixed. A curve
// whose points are all part of an earlier one is omitted. For each knob, sets of fixed quantities are tried strictest
// first.
func curves(runs []run) []curve {
	seen, unit := observations(runs)
	list := []curve{}
	for _, k := range knobs {
		var shown []string // configurations in the curves of this knob
		for _, holds := range k.holds {
			contexts := map[string][]observation{}
			for _, o := range seen {
				if v := k.of(o.on); page.Known(v) && v > 0 {
					key := contextOf(o.on, k.name, holds)
					contexts[key] = append(contexts[key], o)
				}
			}
			for _, key := range slices.Sorted(maps.Keys(contexts)) {
				group := contexts[key]
				covered := fingerprint(group)
				if !severalSettings(group, k.of) || slices.ContainsFunc(shown, func(s string) bool { return containsAll(s, covered) }) {
					continue
				}
				shown = append(shown, strings.Join(covered, "\n"))
				c := curveOf(group, k.of, k.paid)
				c.Knob, c.Unit, c.GPU = k.name, unit, group[0].on.GPU
				c.Held = heldWords(group[0].on, holds)
				list = append(list, c)
			}
		}
	}
	return list
}

// contextOf returns a key shared by observations that differ in the knob only. Nodes may differ only along the GPUs.
func contextOf(c history.Config, knob string, holds []fixedQuantity) string {
	key := c.GPU
	if knob != "gpus" {
		key += fmt.Sprintf(" on %d", c.Nodes)
	}
	for _, h := range holds {
		key += fmt.Sprintf("|%v", math.Round(h.of(c)*1e6)/1e6)
	}
	return key
}

// fingerprint returns the distinct pairs of training and configuration in a group.
func fingerprint(group []observation) []string {
	var keys []string
	for _, o := range group {
		if k := o.origin + configKey(o.on); !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys
}

func containsAll(joined string, keys []string) bool {
	have := strings.Split(joined, "\n")
	return !slices.ContainsFunc(keys, func(k string) bool { return !slices.Contains(have, k) })
}

func severalSettings(group []observation, of func(history.Config) float64) bool {
	return slices.ContainsFunc(group, func(o observation) bool { return of(o.on) != of(group[0].on) })
}

func heldWords(c history.Config, holds []fixedQuantity) string {
	var parts []string
	for _, h := range holds {
		parts = append(parts, h.words(c))
	}
	return strings.Join(parts, ", ")
}

// curveOf returns the curve of a group of observations over a knob. Points are relative to the smallest setting.
// Uncontrolled differences and settings with probes only are noted.
func curveOf(group []observation, of func(history.Config) float64, paid bool) curve {
	c := curve{Notes: []string{}}
	values, ids := map[float64][]float64{}, map[float64][]string{}
	for _, o := range group {
		at := of(o.on)
		values[at], ids[at] = append(values[at], o.speed), append(ids[at], o.ids...)
	}
	for at, v := range values {
		c.Points = append(c.Points, curvePoint{At: at, Speed: estimate(v), RunIDs: ids[at]})
	}
	slices.SortFunc(c.Points, func(a, b curvePoint) int { return cmp.Compare(a.At, b.At) })
	first := c.Points[0]
	for i := range c.Points {
		p := &c.Points[i]
		p.Speedup = p.Speed.over(first.Speed)
		if i == 0 {
			p.Speedup = estimated{Mean: 1, Lo: 1, Hi: 1, Runs: p.Speed.Runs}
		}
		p.Efficiency = p.Speedup.times(first.At / p.At)
		if !paid {
			p.Efficiency = estimate(nil)
		}
	}
	c.Notes = append(c.Notes, differing(group)...)
	if probed := probesOnly(group, of); len(probed) > 0 {
		c.Notes = append(c.Notes, "probes only at "+strings.Join(probed, ", "))
	}
	return c
}

// probesOnly returns the settings measured by probes only.
func probesOnly(group []observation, of func(history.Config) float64) []string {
	whole := map[float64]bool{}
	for _, o := range group {
		whole[of(o.on)] = whole[of(o.on)] || slices.ContainsFunc(o.runs, func(r run) bool { return r.Kind != history.Probe })
	}
	var words []string
	for _, at := range slices.Sorted(maps.Keys(whole)) {
		if !whole[at] {
			words = append(words, page.Count(at))
		}
	}
	return words
}

// differing describes quantities that are neither fixed nor equal.
func differing(group []observation) []string {
	machines, nodes, memory := map[string]bool{}, map[int]bool{}, map[string]bool{}
	for _, o := range group {
		machines[o.on.Machine], nodes[o.on.Nodes], memory[plain(o.on.MemoryGiB)] = true, true, true
	}
	var notes []string
	if len(machines) > 1 {
		notes = append(notes, "over different machines")
	}
	if len(nodes) > 1 {
		notes = append(notes, "over different numbers of nodes")
	}
	if len(memory) > 1 {
		notes = append(notes, "memory differs")
	}
	return notes
}
