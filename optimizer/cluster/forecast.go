package cluster

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"trainopt/internal/stat"
)

// Forecast contains the predicted starts of waiting jobs: the file starts.json of a cluster, replaced by the server.
type Forecast struct {
	Schema int       `json:"schema"`
	At     time.Time `json:"at"`
	Policy string    `json:"policy"`
	// Starts are the 5, 50 and 95 % quantiles of the next start by job, without jobs that are submitted later. A job is
	// absent if its start depends on one whose rate or amount of work is unknown.
	Starts map[int][3]time.Time `json:"starts"`
}

// ReadForecast returns the latest forecast of a server. Without any, the error is fs.ErrNotExist.
func ReadForecast(stateDir string) (f Forecast, err error) {
	return f, readJSON(dirOf(stateDir, "starts.json"), &f)
}

const (
	forecastDraws  = 40
	fewestDraws    = 10              // below which nothing is predicted
	forecastBudget = 2 * time.Second // of all draws
	forecastPause  = 20              // times the duration of a forecast between two of them
	shortestPause  = 2.0             // seconds
	lifeSpread     = 0.05            // standard deviation of the logarithm of the rate of a life, relative to an earlier one there
	likeSpread     = 0.15            // and relative to a life of another job of the same command
)

// forecast predicts the starts of the waiting jobs: quantiles over simulations of the queue from its present state under
// the present policy. In each, the rates of all jobs differ within what is known of them. unmeasured are the jobs whose
// rate or amount of work is unknown: a start before which one of them has started or ended in a simulation is not
// predicted. It ends with ctx; too few simulations predict nothing.
func forecast(ctx context.Context, now Simulation, unmeasured map[int]bool, spread func(job, device int) float64, r *rand.Rand) (starts map[int][3]float64, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("simulate cluster: it panicked: %v", p)
		}
	}()
	waiting := map[int]bool{}
	for i := range now.Jobs {
		if j := &now.Jobs[i].Job; j.State == Waiting {
			waiting[j.ID] = true
		}
	}
	seen := map[int][]float64{}
	draws := 0
	for ; draws < forecastDraws && len(waiting) > 0; draws++ {
		first, err := draw(ctx, now, waiting, unmeasured, spread, r)
		if err != nil {
			if ctx.Err() != nil {
				break
			}
			return nil, err
		}
		for id, at := range first {
			if !math.IsNaN(at) {
				seen[id] = append(seen[id], at)
			}
		}
	}
	starts = map[int][3]float64{}
	for id, at := range seen {
		if slices.Sort(at); draws >= fewestDraws && len(at) == draws {
			starts[id] = [3]float64{stat.Quantile(at, 0.05), stat.Quantile(at, 0.5), stat.Quantile(at, 0.95)}
		}
	}
	return starts, nil
}

// draw simulates the queue once, with other rates, until all waiting jobs have started. It returns their starts: NaN after
// the start or the end of an unmeasured job.
func draw(ctx context.Context, sim Simulation, waiting, unmeasured map[int]bool, spread func(job, device int) float64, r *rand.Rand) (first map[int]float64, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	sim.Jobs = slices.Clone(sim.Jobs)
	for i := range sim.Jobs {
		t := &sim.Jobs[i]
		factors, rate := make([]float64, len(sim.Devices)), t.Rate
		common := r.NormFloat64()
		for d := range factors {
			factors[d] = math.Exp(spread(t.Job.ID, d) * common)
		}
		t.Rate = func(device, gpus int) float64 { return factors[device] * rate(device, gpus) }
	}
	first = map[int]float64{}
	started, ended := math.Inf(1), false // of unmeasured jobs
	all := false
	sim.Log = func(e Event) {
		if _, again := first[e.Job]; e.Kind == EventStart && waiting[e.Job] && !again {
			if first[e.Job] = e.Time; ended || e.Time > started {
				first[e.Job] = math.NaN()
			}
			if all = len(first) == len(waiting); all {
				stop()
			}
		}
		if unmeasured[e.Job] && e.Kind == EventStart {
			started = min(started, e.Time)
		}
		ended = ended || unmeasured[e.Job] && e.Kind == EventEnd
	}
	if _, err = sim.Run(ctx); all {
		err = nil
	}
	return first, err
}

// prediction is the first one of the start for which a job waits, in Unix seconds: 5, 50 and 95 % quantiles as simulated and
// as corrected by experience, and when it was made.
type prediction struct {
	at, shown [3]float64
	made      float64
}

// experience is what earlier predictions under the present policy were off by, relative to the predicted wait: simulations
// contain neither jobs that are submitted later nor what servers and machines delay. It widens intervals that contained too
// few starts, and narrows those that contained too many (conformalized quantile regression; Romano, Patterson and Candès
// 2019, with a correction for each side).
type experience struct{ before, late, after []float64 } // of the 5 % quantile, the median and the 95 % quantile, latest last

const (
	keptExperience  = 60
	leastExperience = 2  // predictions from which intervals are widened
	fullExperience  = 20 // and from which they may be narrowed
)

// wait returns the predicted seconds of waiting.
func (p *prediction) wait() float64 { return max(p.at[1]-p.made, 1) }

// saw takes a start that was predicted. A job that waits on, longer than predicted, has at least the error of now.
func (x *experience) saw(p prediction, start float64) {
	for i, list := range []*[]float64{&x.before, &x.late, &x.after} {
		*list = append(*list, (start-p.at[i])/p.wait())
		*list = (*list)[max(0, len(*list)-keptExperience):]
	}
}

// correct returns a prediction with the median and the interval that experience suggests. waiting are the predictions of the
// jobs that still wait.
func (x *experience) correct(p prediction, waiting []prediction) [3]float64 {
	y := experience{slices.Clone(x.before), slices.Clone(x.late), slices.Clone(x.after)}
	for _, o := range waiting {
		if p.made > o.at[1] {
			y.saw(o, p.made)
		}
	}
	n := len(y.late)
	if n < leastExperience {
		return p.at
	}
	slices.Sort(y.before)
	slices.Sort(y.late)
	slices.Sort(y.after)
	rank := min(int(math.Ceil(0.95*float64(n+1))), n)
	lower, upper := y.before[n-rank], y.after[rank-1]
	if n < fullExperience {
		lower, upper = min(lower, 0), max(upper, 0)
	}
	at := [3]float64{p.at[0] + lower*p.wait(), p.at[1] + stat.Median(y.late)*p.wait(), p.at[2] + upper*p.wait()}
	at[1] = max(at[1], p.made)
	at[0], at[2] = max(min(at[0], at[1]), p.made), max(at[1], at[2])
	return at
}

// predictStarts begins a forecast in the background, if one is due.
func (s *server) predictStarts() {
	now := s.now()
	if s.predicting || now < s.predictNext {
		return
	}
	waits := false
	for _, l := range s.jobs {
		waits = waits || l.State == Waiting
	}
	if !waits || s.scheduler.halted {
		if len(s.starts) > 0 {
			s.takeStarts(nil)
		}
		return
	}
	sim, err := s.future(now)
	if err != nil {
		return
	}
	unmeasured, spread := s.rates.uncertain(&sim)
	policy, seed := s.scheduler.Policy, uint64(now)
	s.predicting = true
	go func() {
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), forecastBudget)
		defer cancel()
		starts, err := forecast(ctx, sim, unmeasured, spread, rand.New(rand.NewPCG(seed, 1)))
		if err != nil {
			starts = nil
		}
		s.forecasts <- predicted{policy, starts, time.Since(began)}
	}()
}

// predicted is the result of a forecast.
type predicted struct {
	policy string
	starts map[int][3]float64 // Unix seconds
	took   time.Duration
}

// takeStarts stores predicted starts. The first one of each waiting becomes part of the event of the start.
func (s *server) takeStarts(starts map[int][3]float64) {
	if len(starts) == 0 && len(s.starts) == 0 {
		return
	}
	f := Forecast{Schema: schema, At: time.Now().UTC(), Policy: s.scheduler.Policy, Starts: map[int][3]time.Time{}}
	skew, now := s.clock.skew(), s.now()
	var waiting []prediction
	for _, l := range s.sortedJobs() {
		if l.State == Waiting && l.expected != nil {
			waiting = append(waiting, *l.expected)
		}
	}
	for id, simulated := range starts {
		l := s.jobs[id]
		if l == nil || l.State != Waiting {
			continue
		}
		p := prediction{at: simulated, made: now}
		p.shown = s.experience.correct(p, waiting)
		at := p.shown
		f.Starts[id] = [3]time.Time{fromUnix(at[0] + skew), fromUnix(at[1] + skew), fromUnix(at[2] + skew)}
		if l.expected == nil {
			l.expected = &p
		}
	}
	s.starts = f.Starts
	_ = writeJSON(dirOf(s.StateDir, "starts.json"), f) // the next one replaces it
}

// uncertain replaces the rates of a simulation, which are as decisions need them, by those that are expected, and returns
// the jobs whose rate or amount of work is unknown and the standard deviations of the logarithms of the rates.
func (l *learner) uncertain(sim *Simulation) (unmeasured map[int]bool, spread func(job, device int) float64) {
	unmeasured, spreads := map[int]bool{}, map[int][]float64{}
	for i := range sim.Jobs {
		t := &sim.Jobs[i]
		j := l.jobs[t.Job.ID]
		unmeasured[t.Job.ID] = !l.known(j)
		sd, optimism := l.spread(j)
		rate := t.Rate
		spreads[t.Job.ID], t.Rate = sd, func(device, gpus int) float64 { return rate(device, gpus) / optimism[device] }
	}
	return unmeasured, func(job, device int) float64 { return spreads[job][device] }
}

// known reports whether the rate and the amount of work of a job are known, from itself or from one of the same command.
func (l *learner) known(j *learned) bool {
	return len(l.evidence(j)) > 0 && (j.Total > 0 || j.like != nil && j.like.State == Done && j.like.Total > j.Done)
}

// spread returns the standard deviations of the logarithms of the rates of a job by type, and the factors by which the
// learner raises them: decisions need optimism, predictions do not.
func (l *learner) spread(j *learned) (sd, optimism []float64) {
	base := lifeSpread
	if len(j.Rates) == 0 {
		base = likeSpread
	}
	known := l.evidence(j)
	for d := range l.devices {
		s, factor := base, 1.0
		if n := len(known); n > 0 && !slices.ContainsFunc(known, func(r Rate) bool { return r.Device == l.devices[d].Name }) {
			if from := l.typeOf(known[0].Device); from >= 0 {
				ratio := l.ratio(j.model, d, from)
				s, factor = math.Hypot(base, math.Hypot(ratio.sd, jobSpread)), ratio.optimistic()/math.Exp(ratio.mean)
			}
		}
		sd, optimism = append(sd, s), append(optimism, factor)
	}
	return sd, optimism
}
