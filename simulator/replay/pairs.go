package replay

import (
	"fmt"
	"math"
	"slices"

	"trainopt/internal/stat"
	"trainopt/optimizer/cluster"
	"trainopt/optimizer/report/page"
)

// together is a time of a life in which another job had the same devices.
type together struct {
	with         int
	since, until float64 // of the devices
	from, to     float64 // of progress of both
	seen         float64 // last measured rate in it, steps/s; NaN: none
	ratio        float64 // rate relative to that alone
	measured     bool    // both rates of the ratio were
}

// seconds returns the length of the time.
func (t *together) seconds() float64 { return max(0, t.to-t.from) }

// share takes the event that a job shares its devices, or has them alone again.
func (l *life) share(at float64, with int) {
	if n := len(l.Shared); n > 0 && math.IsInf(l.Shared[n-1].until, 1) {
		l.Shared[n-1].until = at
	}
	if with != 0 {
		l.Shared = append(l.Shared, together{with: with, since: at, until: math.Inf(1), seen: math.NaN(), ratio: assumedRatio})
	}
}

// assumedRatio is the rate of a job beside another one relative to that alone where nothing like it was measured: what the
// live scheduler assumes.
const assumedRatio = cluster.PartnerRatio

// lostBeside returns the seconds of the time from a life's first progress until its end that it lost by sharing devices.
func (l *life) lostBeside(until float64) (lost float64) {
	for i := range l.Shared {
		t := &l.Shared[i]
		lost += (1 - t.ratio) * max(0, min(t.to, until)-max(t.from, l.Worked))
	}
	return lost
}

// meet restricts the times that lives shared devices to those in which both made progress.
func (d *Day) meet() {
	byID := map[int]*job{}
	for _, j := range d.Jobs {
		byID[j.ID] = j
	}
	for _, j := range d.Jobs {
		for _, l := range j.Lives {
			for i := range l.Shared {
				t := &l.Shared[i]
				t.until = min(t.until, l.Left)
				t.from, t.to = t.since, min(t.until, l.until())
				for _, o := range byID[t.with].lives() {
					if o.Start < t.to && o.Left > t.from {
						worked := o.Worked
						if math.IsNaN(worked) {
							worked = o.Left
						}
						t.from, t.to = max(t.from, worked), min(t.to, o.until())
						break
					}
				}
			}
		}
	}
}

// lives returns the lives of a job; none without one.
func (j *job) lives() []*life {
	if j == nil {
		return nil
	}
	return j.Lives
}

// pairKey is a job, or its name, beside another one on devices of a type.
type pairKey struct{ a, b, device string }

// pairRates are the rates of jobs beside others, relative to those alone: by number of the jobs, by name, and by name on any type.
type pairRates map[pairKey]float64

// newPairRates sets the ratio of each time that devices were shared: as measured; else that of the other job, as two jobs lose
// about the same; else that of jobs of the same names.
func newPairRates(d *Day, alone map[int]map[place]float64) pairRates {
	names, samples := map[int]string{}, map[pairKey][]float64{}
	for _, j := range d.Jobs {
		names[j.ID] = j.Name
	}
	each := func(do func(j *job, l *life, t *together)) {
		for _, j := range d.Jobs {
			for _, l := range j.Lives {
				for i := range l.Shared {
					do(j, l, &l.Shared[i])
				}
			}
		}
	}
	keys := func(j *job, l *life, with int) []pairKey {
		return []pairKey{{fmt.Sprint(j.ID), fmt.Sprint(with), l.Device}, {j.Name, names[with], l.Device}, {j.Name, names[with], ""}}
	}
	each(func(j *job, l *life, t *together) {
		if rate := alone[j.ID][place{l.Device, l.GPUs}]; rate > 0 && t.seen > 0 {
			t.ratio, t.measured = min(t.seen/rate, 1), true
			for _, k := range keys(j, l, t.with) {
				samples[k] = append(samples[k], t.ratio)
			}
		}
	})
	r := pairRates{}
	for k, v := range samples {
		r[k] = stat.Median(v)
	}
	each(func(j *job, l *life, t *together) {
		back := []pairKey{{fmt.Sprint(t.with), fmt.Sprint(j.ID), l.Device}}
		for _, k := range append(back, keys(j, l, t.with)...) {
			if v, ok := r[k]; ok && !t.measured {
				t.ratio = v
				break
			}
		}
	})
	return r
}

// beside returns the rate of a job beside another one relative to that alone.
func (p pairRates) beside(j, with *job, device string) float64 {
	for _, k := range []pairKey{{fmt.Sprint(j.ID), fmt.Sprint(with.ID), device}, {j.Name, with.Name, device}, {j.Name, with.Name, ""}} {
		if v, ok := p[k]; ok {
			return v
		}
	}
	return assumedRatio
}

// pairAudit is two jobs that shared devices.
type pairAudit struct {
	Jobs    [2]int        `json:"jobs"`
	Names   [2]string     `json:"names"`
	Device  string        `json:"device"`
	GPUs    int           `json:"gpus"`
	Seconds page.Exact    `json:"seconds"` // in which both made progress
	Rates   [2]page.Exact `json:"rates"`   // relative to those alone; null: one of both was not measured
	// GainS is the device time that dividing the devices in time would have needed more for the same work; null: unknown.
	GainS page.Exact `json:"gain_device_s"`
}

// pairs returns the pairs of the day in order of their first time, one for each two jobs and device type.
func (d *Day) pairs() []pairAudit {
	out := []pairAudit{}
	at := map[[2]int]map[string]int{}
	nan := page.Exact(math.NaN())
	for _, j := range d.Jobs {
		for _, l := range j.Lives {
			for i := range l.Shared {
				t := &l.Shared[i]
				key, side := [2]int{min(j.ID, t.with), max(j.ID, t.with)}, 0
				if j.ID > t.with {
					side = 1
				}
				if at[key] == nil {
					at[key] = map[string]int{}
				}
				n, ok := at[key][l.Device]
				if !ok {
					n = len(out)
					at[key][l.Device] = n
					out = append(out, pairAudit{Jobs: key, Device: l.Device, GPUs: l.GPUs, Rates: [2]page.Exact{nan, nan}})
				}
				p := &out[n]
				p.Names[side] = j.Name
				if side == 0 {
					p.Seconds += page.Exact(t.seconds())
				}
				if t.measured {
					p.Rates[side] = page.Exact(t.ratio)
				}
			}
		}
	}
	out = slices.DeleteFunc(out, func(p pairAudit) bool { return p.Seconds == 0 })
	for i := range out {
		p := &out[i]
		p.GainS = (p.Rates[0] + p.Rates[1] - 1) * p.Seconds * page.Exact(p.GPUs)
	}
	return out
}

// shared is the section on jobs that shared devices.
func (a *Audit) shared() page.Section {
	s := page.Section{ID: "pairs", Title: "Jobs on the same devices", Intro: "Rates beside each other relative to those alone, as measured on the job or one of the same command. Gain: the device time that the same work would have needed more with one job at a time."}
	if len(a.Pairs) == 0 {
		s.Intro, s.Blocks = "", []page.Block{{Notes: []string{"No two jobs shared devices."}}}
		return s
	}
	t := &page.Table{Columns: append(page.Left("jobs", "device"), page.Right("time", "first", "second", "together", "gain")...), Named: true, Long: true}
	sum, unknown := page.Exact(0), 0
	for _, p := range a.Pairs {
		t.Rows = append(t.Rows, page.Row(fmt.Sprintf("%d %s, %d %s", p.Jobs[0], page.Clean(p.Names[0]), p.Jobs[1], page.Clean(p.Names[1])), fmt.Sprintf("%d %s", p.GPUs, p.Device),
			duration(p.Seconds), page.Share(float64(p.Rates[0])), page.Share(float64(p.Rates[1])), page.Share(float64(p.Rates[0]+p.Rates[1])), signed(p.GainS)))
		if page.Known(float64(p.GainS)) {
			sum += p.GainS
		} else {
			unknown++
		}
	}
	s.Blocks = []page.Block{{Table: t}}
	if unknown < len(a.Pairs) {
		text := "All: " + signed(sum) + " of device time"
		if unknown > 0 {
			text += fmt.Sprintf(", without %s of which a rate was not measured", page.Plural(unknown, "pair"))
		}
		s.Blocks = append(s.Blocks, page.Block{Notes: []string{text + "."}})
	}
	return s
}

// signed formats a duration that may be negative.
func signed(n page.Exact) string {
	if n < 0 {
		return "−" + duration(-n)
	}
	return duration(n)
}
