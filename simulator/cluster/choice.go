package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"trainopt/morl/pareto"
	"trainopt/optimizer/report/page"
	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/share"
	"trainopt/simulator/experiment"
)

// Choices are the policies among which Config.Choose chooses. Agent files refer to them by index.
var Choices = []string{"sia", "elasticflow", "srtf", "max_sum_throughput_normalized_by_cost_perf", "cheapest"}

// Objectives are the measures of a run by Isolated.Of, in order.
var Objectives = []string{"time", "cost", "fairness"}

// errEnded reports that Config.Choose ended a run.
var errEnded = errors.New("ended by its caller")

// changesPerChoice is the part of the devices, as an inverse, that changes number between two choices.
const changesPerChoice = 2

// DecisionPoint is the state of a run when Config.Choose is called. It is valid during the call.
type DecisionPoint struct {
	m       *roundDriver
	choice  int     // index of the policy that decides; −1: none was chosen
	events  int     // at the last choice
	recent  rate    // of the work that arrives
	offered float64 // work that has arrived, in device-seconds on the best types
	state   []float32
	mask    []bool
}

// rate is a moving average of the work that arrives, in device-seconds per second.
type rate struct {
	work, at float64 // of the jobs that arrived up to a time, with exponentially decreasing weights
}

// rateMemory is the time constant of rate in seconds.
const rateMemory = 2 * 3600

// choose asks for a policy if a choice is due. A policy that was not in use begins without state, as when the policy of
// a served cluster is changed.
func (p *DecisionPoint) choose() error {
	m := p.m
	if m.Choose == nil || m.arrived == 0 || p.choice >= 0 && m.events-p.events < max(1, m.devices/changesPerChoice) {
		return nil
	}
	p.events = m.events
	choice := m.Choose(p)
	if choice < 0 {
		return errEnded
	}
	if choice == p.choice {
		return nil
	}
	policy, err := share.New(Choices[choice], m.options)
	if err != nil {
		return err
	}
	if p.choice >= 0 || choice > 0 {
		m.policy, m.traits = policy, policy.Traits()
		m.engine.SetTraits(m.traits)
	}
	p.choice = choice
	return nil
}

// Mask returns the policies that may be chosen: those whose inputs are known.
func (p *DecisionPoint) Mask() []bool {
	p.mask = p.mask[:0]
	for _, name := range Choices {
		p.mask = append(p.mask, !(name == "cheapest" || name == "max_sum_throughput_normalized_by_cost_perf") || priced(p.m.Devices))
	}
	return p.mask
}

// numbers is the length of DecisionPoint.State without the policy in use.
const numbers = 18

// StateSize is the length of DecisionPoint.State.
func StateSize() int { return numbers + len(Choices) }

// State returns the numbers by which an agent chooses, each of order 1. They contain nothing that a scheduler with
// throughputs and remaining steps does not have: the policy in use; by device, the demand of the active and the waiting
// jobs, their number, the devices in use, the remaining work, and the work that arrives, recently and on average; and
// means and spreads over the active jobs: size, remaining time, and the time since arrival, with the remaining time, by
// the whole time alone, the gain from the best type, and the gain from the cheapest. The next call overwrites it.
func (p *DecisionPoint) State() []float32 {
	m := p.m
	var active, waiting, busy, waits, work, size, sizes, worst moments
	var speed, price moments
	for _, j := range m.active {
		if j.gone {
			continue
		}
		best, slow, cheap, dear := math.Inf(1), 0.0, math.Inf(1), math.NaN()
		for d, r := range j.kind.rate {
			if r <= 0 || m.Devices[d].Count < j.GPUs {
				continue
			}
			if 1/r < best {
				best, dear = 1/r, m.Devices[d].USDHour/r
			}
			slow, cheap = max(slow, 1/r), min(cheap, m.Devices[d].USDHour/r)
		}
		gpus := float64(j.GPUs)
		rest := m.remaining(j) * best
		active.add(gpus)
		held, _ := j.round.Held()
		if busy.add(float64(held)); held == 0 {
			waiting.add(gpus)
			waits.add(math.Log1p(rest / 3600))
		}
		work.add(gpus * rest)
		size.add(math.Log2(gpus))
		sizes.add(math.Log1p(rest / 3600))
		worst.add(math.Log(max(1, (m.now-j.Arrival+rest)/(j.Steps*best))))
		speed.add(math.Log(slow / best))
		if cheap > 0 && !math.IsNaN(dear) {
			price.add(math.Log(dear / cheap))
		}
	}
	n := float64(m.devices)
	s := append(p.state[:0], f32(math.Log1p(active.sum/n)), f32(math.Log1p(waiting.sum/n)), f32(busy.sum/n), f32(math.Log1p(active.n/n)),
		f32(math.Log1p(work.sum/n/3600)/2), f32(p.recent.per(m.now)/n), f32(p.offered/n/max(m.now, rateMemory)),
		f32(size.mean()/2), f32(sizes.mean()/2), f32(sizes.deviation()), f32(waits.mean()/2), f32(worst.mean()), f32(worst.deviation()),
		f32(worst.most/2), f32(speed.mean()), f32(speed.deviation()), f32(price.mean()), f32(price.deviation()))
	for k := range Choices {
		s = append(s, f32(map[bool]float64{true: 1}[k == p.choice]))
	}
	p.state = s
	return s
}

func f32(v float64) float32 { return float32(min(max(v, -10), 10)) }

// remaining returns the remaining steps of a job now, which are accounted later if it runs.
func (m *roundDriver) remaining(j *job) float64 {
	left := j.remaining()
	if r := &j.stretch; r.runnable != nil {
		left -= max(0, m.now-max(r.since, r.resumes)) * r.pace
	}
	return max(0, left)
}

// moments are sums for a mean and a standard deviation, and the largest value of at least 0.
type moments struct{ n, sum, squares, most float64 }

func (v *moments) add(x float64) {
	v.n++
	v.sum += x
	v.squares += float64(x * x)
	v.most = max(v.most, x)
}

func (v *moments) mean() float64 { return v.sum / max(1, v.n) }

func (v *moments) deviation() float64 {
	mean := v.mean()
	return math.Sqrt(max(0, v.squares/max(1, v.n)-float64(mean*mean)))
}

// arrive records the work of a job, on the type where it needs least.
func (p *DecisionPoint) arrive(j *job) {
	work := float64(j.GPUs) * j.Steps / slices.Max(j.kind.rate)
	p.offered += work
	p.recent.add(work, p.m.now)
}

func (r *rate) add(work, now float64) {
	r.work, r.at = r.work*math.Exp((r.at-now)/rateMemory)+work, now
}

func (r *rate) per(now float64) float64 {
	return r.work * math.Exp((r.at-now)/rateMemory) / rateMemory
}

// Isolated is the outcome of the policy "isolated", by which other runs on the same jobs are measured.
type Isolated struct {
	jct   map[int]float64    // by job
	ideal map[int][2]float64 // by job: seconds and USD
	least [3]float64         // their sums
	mean  float64
	usd   float64
}

// RunIsolated simulates the jobs of a configuration, which are a list, under the policy "isolated".
func RunIsolated(ctx context.Context, c Config) (*Isolated, error) {
	c.Policy, c.Custom, c.Choose = baseline, nil, nil
	r, err := Run(ctx, c)
	if err != nil {
		return nil, err
	}
	i := newIsolated(r)
	c = c.withDefaults()
	kinds := newRates(c.Throughputs, c.Devices)
	i.ideal = make(map[int][2]float64, len(c.Jobs))
	for k := range c.Jobs {
		j := &c.Jobs[k]
		seconds, usd := kinds.kind(j).ideal(c.Devices)
		i.ideal[j.ID] = [2]float64{j.Steps * seconds, j.Steps * usd}
		i.least[0] += j.Steps * seconds
		i.least[1] += j.Steps * usd
	}
	return i, nil
}

func newIsolated(r *Result) *Isolated {
	i := &Isolated{jct: make(map[int]float64, len(r.Jobs)), usd: float64(r.CostUSD)}
	for k := range r.Jobs {
		t := float64(r.Jobs[k].JCTS)
		i.jct[r.Jobs[k].ID] = t
		i.mean += t
	}
	i.mean /= float64(len(r.Jobs))
	return i
}

// ideal returns the seconds of a step on the best type of device, and its price on the cheapest.
func (k *kind) ideal(devices []schedule.DeviceType) (seconds, usd float64) {
	seconds, usd = math.Inf(1), math.Inf(1)
	for d, r := range k.rate {
		if r > 0 && devices[d].Count >= k.gpus {
			seconds, usd = min(seconds, 1/r), min(usd, devices[d].USDHour/3600*float64(k.gpus)/r)
		}
	}
	return seconds, usd
}

// Of returns the measures of a run, all of whose jobs have ended: mean completion time and cost relative to those of
// isolated, and the mean over jobs of how much the finish-time fairness exceeds 1.
func (i *Isolated) Of(r *Result) [3]float64 {
	out := [3]float64{1: float64(r.CostUSD)}
	for k := range r.Jobs {
		i.count(&out, r.Jobs[k].ID, float64(r.Jobs[k].JCTS), 0)
	}
	return i.relative(out)
}

// Ideal returns the part of the measures that no choice of a type of device avoids: each job alone on its best type, and
// on its cheapest.
func (i *Isolated) Ideal() [3]float64 { return i.relative(i.least) }

// SoFar returns the measures that a run has accumulated, less the part of Ideal for the work that is done. It begins at 0
// and ends at Of less Ideal, and the increments credit work when it is done.
func (i *Isolated) SoFar(p *DecisionPoint) [3]float64 {
	m := p.m
	out := [3]float64{1: m.usd}
	for k := range m.ended {
		i.count(&out, m.ended[k].ID, float64(m.ended[k].JCTS), 1)
	}
	for _, j := range m.active {
		if !j.gone {
			i.count(&out, j.ID, m.now-j.Arrival, 1-m.remaining(j)/j.Steps)
		}
	}
	for _, r := range m.engine.Running() {
		s := &m.jobs[r.A.Number].stretch
		out[1] += m.Devices[s.device].USDHour * (m.now - s.since) / 3600 * float64(s.gpus)
	}
	return i.relative(out)
}

// count adds a job that has been in the cluster for some seconds and has done a share of its work.
func (i *Isolated) count(sum *[3]float64, job int, seconds, done float64) {
	ideal := i.ideal[job]
	sum[0] += seconds - done*ideal[0]
	sum[1] -= done * ideal[1]
	if alone := i.jct[job]; alone > 0 {
		sum[2] += max(0, seconds/alone-1)
	}
}

// relative converts sums over jobs to measures.
func (i *Isolated) relative(sum [3]float64) [3]float64 {
	n := float64(len(i.jct))
	return [3]float64{sum[0] / n / i.mean, sum[1] / i.usd, sum[2] / n}
}

// preference weighs the Objectives; the weights sum to 1.
type preference struct {
	Name    string
	Weights []float64
}

// ParseWeights parses some of the names joined by +, each with an optional weight, such as "time=2+cost". The weights are
// those of all names and sum to 1.
func ParseWeights(text string, names []string) ([]float64, error) {
	w, sum := make([]float64, len(names)), 0.0
	for part := range strings.SplitSeq(text, "+") {
		name, number, weighted := strings.Cut(part, "=")
		v, err := 1.0, error(nil)
		if weighted {
			v, err = strconv.ParseFloat(number, 64)
		}
		k := slices.Index(names, name)
		if k < 0 || err != nil || !(v >= 0 && v < 1e9) {
			return nil, fmt.Errorf("weights %q: want some of %s joined by +, with weights as in %s=2+%s", text, strings.Join(names, ", "), names[0], names[1])
		}
		w[k] += v
		sum += v
	}
	for k := range w {
		w[k] /= sum
	}
	if !(sum > 0) {
		return nil, fmt.Errorf("weights %q: want one above 0", text)
	}
	return w, nil
}

// ParsePreference parses "balanced", or weights of the Objectives.
func ParsePreference(name string) (preference, error) {
	text := name
	if name == "balanced" {
		text = strings.Join(Objectives, "+")
	}
	w, err := ParseWeights(text, Objectives)
	return preference{name, w}, err
}

// metric returns the weighted sum of the measures as a metric.
func (p preference) metric() experiment.Metric {
	return experiment.Metric{Name: "loss_" + p.Name, Better: experiment.Lower, Means: "the three measures below, weighted by the preference " + p.Name}
}

// relative are the measures of Isolated.Of as metrics.
var relative = [3]experiment.Metric{
	{Name: "relative_time", Better: experiment.Lower, Detail: true, Means: "mean completion time by that of isolated on the same jobs"},
	{Name: "relative_cost", Better: experiment.Lower, Detail: true, Means: "cost by that of isolated"},
	{Name: "unfairness", Better: experiment.Lower, Detail: true, Means: "by how much a finish-time fairness exceeds 1, mean over jobs; 0 for a job that is not worse off than under isolated"},
}

// relative adds the measures of a run, and their sums by preference.
func (o *Outcome) relative(out map[string]float64, c *sweepCell, scenario, seed int) {
	if o.isolated == nil || !o.isolated[scenario][seed].known() {
		return
	}
	v := newIsolated(o.isolated[scenario][seed].Result).Of(c.Result)
	for k, m := range relative {
		out[m.Name] = v[k]
	}
	for _, p := range o.Preferences {
		loss := 0.0
		for k, w := range p.Weights {
			if w > 0 {
				loss += w * v[k]
			}
		}
		out[p.metric().Name] = loss
	}
}

// addFront adds the Pareto front of the policies in the means of the three measures, as a table and as charts.
func (o *Outcome) addFront(c *experiment.Comparison) {
	if o.Preferences == nil {
		return
	}
	var names []string
	var points [][]float64
	for _, p := range o.Policies {
		point := make([]float64, len(relative))
		known := true
		for k, m := range relative {
			r, _ := c.Row(p, m.Name)
			point[k] = -float64(r.Mean)
			known = known && r.N == c.Cases
		}
		if known {
			names, points = append(names, p), append(points, point)
		}
	}
	front := pareto.Front(points)
	on := make([]bool, len(points)) // also of equal points
	for i, p := range points {
		on[i] = slices.ContainsFunc(front, func(k int) bool { return slices.Equal(points[k], p) })
	}
	t := experiment.Table{Title: "Pareto front: policies that no other dominates in the means of the three measures", Head: []string{"policy", "time", "cost", "unfairness", "front"}}
	for i, p := range points {
		mark := ""
		if on[i] {
			mark = "yes"
		}
		t.Lines = append(t.Lines, []string{names[i], fmt.Sprintf("%.3f", -p[0]), fmt.Sprintf("%.3f", -p[1]), fmt.Sprintf("%.3f", -p[2]), mark})
	}
	c.Tables = append(c.Tables, t)
	for _, axes := range [][2]int{{1, 0}, {2, 0}, {1, 2}} {
		c.Pictures = append(c.Pictures, frontPicture(axes, names, points, on))
	}
}

// frontPicture draws the policies in two of the measures, with the front in these two as a line.
func frontPicture(axes [2]int, names []string, points [][]float64, on []bool) page.Picture {
	x, y := strings.ReplaceAll(relative[axes[0]].Name, "_", " "), strings.ReplaceAll(relative[axes[1]].Name, "_", " ")
	s := page.Scatter{Title: y + " by " + x, XName: x, YName: y,
		Keys: []page.Key{{Class: "disc", Name: "on the front of all three measures"}, {Class: "disc hollow", Name: "dominated"}}}
	flat := make([][]float64, len(points))
	for i, p := range points {
		m := page.Mark{X: -p[axes[0]], Y: -p[axes[1]], Name: names[i], Class: "hollow", Title: fmt.Sprintf("%s\n%s %.3f, %s %.3f", names[i], x, -p[axes[0]], y, -p[axes[1]])}
		if on[i] {
			m.Class = "on-front"
		}
		s.Marks = append(s.Marks, m)
		flat[i] = []float64{p[axes[0]], p[axes[1]]}
	}
	for _, i := range pareto.Front(flat) {
		s.Edge = append(s.Edge, page.Point{X: s.Marks[i].X, Y: s.Marks[i].Y})
	}
	slices.SortFunc(s.Edge, func(a, b page.Point) int { return cmp.Compare(a.X, b.X) })
	return s.Picture()
}
