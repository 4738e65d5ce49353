package transfer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// grounds returns the groups that an estimate is based on. The weight of a group is its share of the sum of absolute
// point weights; the weights sum to share, the part of the estimate that is not due to the prior.
func (m *Model) grounds(g regression, share float64) []BasisGroup {
	byGroup := map[int][]int{}
	var order []int
	var total float64
	for i, p := range g.points {
		if byGroup[p.group] == nil {
			order = append(order, p.group)
		}
		byGroup[p.group] = append(byGroup[p.group], i)
		total += math.Abs(g.weight[i])
	}
	var out []BasisGroup
	for _, group := range order {
		members := byGroup[group]
		e := &m.entries[g.points[members[0]].entries[0]]
		ground := BasisGroup{Source: e.Source, Job: e.Job}
		points := make([]*point, len(members))
		for i, n := range members {
			p := g.points[n]
			points[i] = p
			ground.Similarity = max(ground.Similarity, min(1, g.similar[n]))
			if total > 0 {
				ground.Weight += share * math.Abs(g.weight[n]) / total
			}
			for _, k := range p.entries {
				ground.Entries = append(ground.Entries, m.entries[k].ID)
			}
		}
		slices.Sort(ground.Entries)
		ground.Measured = measuredWords(points)
		out = append(out, ground)
	}
	slices.SortStableFunc(out, func(a, b BasisGroup) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Entries[0], b.Entries[0]))
	})
	return out
}

// measuredWords describes the range of points: "1, 2, 4 GPUs of T4, batch 64…512".
func measuredWords(points []*point) string {
	unit := "GPUs"
	if points[0].cpu {
		unit = "CPUs"
	}
	s := listed(spread(points, func(p *point) float64 { return math.Exp2(p.width) })) + " " + unit
	if gpu := points[0].gpu; !points[0].cpu && gpu != "" {
		s += " of " + gpu
	}
	if b := spread(points, total); len(b) > 0 {
		s += ", batch " + ranged(b)
	}
	return s
}

// total returns the batch size over all GPUs.
func total(p *point) float64 {
	if p.cpu {
		return math.Exp2(p.batch)
	}
	return math.Exp2(p.batch + p.width)
}

// spread returns the distinct known values of points, ascending, rounded to 0.01.
func spread(points []*point, value func(*point) float64) []float64 {
	var out []float64
	for _, p := range points {
		v := math.Round(value(p)*100) / 100
		if at, found := slices.BinarySearch(out, v); !found && !math.IsNaN(v) { // few values are distinct
			out = slices.Insert(out, at, v)
		}
	}
	return out
}

// listed formats up to six values individually, more as a range.
func listed(v []float64) string {
	const most = 6
	if len(v) > most {
		return ranged(v)
	}
	s := make([]string, len(v))
	for i := range v {
		s[i] = short(v[i])
	}
	return strings.Join(s, ", ")
}

// ranged formats a range of ascending values.
func ranged(v []float64) string {
	if len(v) == 1 {
		return short(v[0])
	}
	return short(v[0]) + "…" + short(v[len(v)-1])
}

func short(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// extrapolates lists the respects in which a place lies outside the measurements of the same training, or else of the
// same model, family, or all points.
func (t *table) extrapolates(p *place, points []*point) []string {
	known, whose := closest(p.trait, points)
	var out []string
	if whose != "this training" {
		out = append(out, "this training was never measured: from "+whose)
		out = append(out, beyond("parameters", math.Pow(10, p.trait.size[0]), spread(known, func(q *point) float64 {
			if q.trait.size[0] == unknown {
				return math.NaN()
			}
			return math.Pow(10, q.trait.size[0])
		}))...)
	}
	here := slices.DeleteFunc(slices.Clone(known), func(q *point) bool { return q.device != p.device })
	switch {
	case len(here) > 0:
		known = here
	case p.cpu:
		out = append(out, "CPUs alone: "+whose+" was measured on GPUs only")
	default:
		out = append(out, cmp.Or(p.gpu, "an unknown GPU")+": "+whose+" was measured on "+strings.Join(gpus(known), ", ")+" only")
	}
	unit := "GPUs"
	if p.cpu {
		unit = "CPUs"
	}
	out = append(out, beyond(unit, math.Exp2(p.width), spread(known, func(q *point) float64 { return math.Exp2(q.width) }))...)
	if !p.cpu {
		out = append(out, beyond("nodes", math.Exp2(p.nodes), spread(known, func(q *point) float64 { return math.Exp2(q.nodes) }))...)
	}
	per := "batch per GPU"
	if p.cpu {
		per = "batch"
	}
	batches := spread(known, func(q *point) float64 { return math.Exp2(q.batch) })
	if math.IsNaN(p.batch) && len(batches) > 1 {
		out = append(out, per+" is not known: measured "+ranged(batches))
	}
	return append(out, beyond(per, math.Exp2(p.batch), batches)...)
}

// beyond describes a value outside the range of known ones, with a tolerance of 1 %; nil inside.
func beyond(what string, v float64, known []float64) []string {
	if math.IsNaN(v) || math.IsInf(v, 0) || len(known) == 0 {
		return nil
	}
	if v >= known[0]*0.99 && v <= known[len(known)-1]*1.01 {
		return nil
	}
	text := short(math.Round(v*100) / 100)
	if text == "1" {
		what = strings.TrimSuffix(what, "s") // 1 CPU
	}
	return []string{fmt.Sprintf("%s %s: measured %s", text, what, ranged(known))}
}

// closest returns the points of the same training, or else of the next wider circle that is not empty, and its
// description.
func closest(asked trait, points []*point) ([]*point, string) {
	for _, circle := range []struct {
		words string
		in    func(trait) bool
	}{
		{"this training", func(t trait) bool { return t.dataset == asked.dataset && t.dataset > 0 }},
		{"the same model on other data", func(t trait) bool { return t.model == asked.model && t.model > 0 }},
		{"its family", func(t trait) bool { return t.family == asked.family && t.family > 0 }},
	} {
		var in []*point
		for _, p := range points {
			if circle.in(p.trait) {
				in = append(in, p)
			}
		}
		if len(in) > 0 {
			return in, circle.words
		}
	}
	return points, "other families"
}

// gpus returns the distinct GPU models of points, sorted.
func gpus(points []*point) []string {
	var out []string
	for _, p := range points {
		name := cmp.Or(p.gpu, "an unknown GPU")
		if p.cpu {
			name = "CPUs"
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
