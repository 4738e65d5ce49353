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
	unmeasured, spreads := map[int]bool{}, map[int][]float64{}
	for i := range sim.Jobs {
		t := &sim.Jobs[i]
		j := s.rates.jobs[t.Job.ID]
		unmeasured[t.Job.ID] = !j.known()
		sd, optimism := s.rates.spread(j)
		rate := t.Rate
		spreads[t.Job.ID], t.Rate = sd, func(device, gpus int) float64 { return rate(device, gpus) / optimism[device] }
	}
	policy, seed := s.scheduler.Policy, uint64(now)
	s.predicting = true
	go func() {
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), forecastBudget)
		defer cancel()
		starts, err := forecast(ctx, sim, unmeasured, func(job, device int) float64 { return spreads[job][device] }, rand.New(rand.NewPCG(seed, 1)))
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

// takeForecast takes the result of a forecast.
func (s *server) takeForecast(p predicted) {
	s.predicting = false
	s.predictNext = s.now() + max(shortestPause, forecastPause*p.took.Seconds())
	if p.policy == s.scheduler.Policy {
		s.takeStarts(p.starts)
	}
}

// takeStarts stores predicted starts. The first one of each waiting becomes part of the event of the start.
func (s *server) takeStarts(starts map[int][3]float64) {
	if len(starts) == 0 && len(s.starts) == 0 {
		return
	}
	f := Forecast{Schema: schema, At: time.Now().UTC(), Policy: s.scheduler.Policy, Starts: map[int][3]time.Time{}}
	for id, at := range starts {
		l := s.jobs[id]
		if l == nil || l.State != Waiting {
			continue
		}
		f.Starts[id] = [3]time.Time{fromUnix(at[0]), fromUnix(at[1]), fromUnix(at[2])}
		if l.expected == nil {
			l.expected = &at
		}
	}
	s.starts = f.Starts
	_ = writeJSON(dirOf(s.StateDir, "starts.json"), f) // the next one replaces it
}

// known reports whether the rate and the amount of work of a job are known, from itself or from one of the same command.
func (j *learned) known() bool {
	return len(j.evidence()) > 0 && (j.Total > 0 || j.like != nil && j.like.State == Done && j.like.Total > j.Done)
}

// spread returns the standard deviations of the logarithms of the rates of a job by type, and the factors by which the
// learner raises them: decisions need optimism, predictions do not.
func (l *learner) spread(j *learned) (sd, optimism []float64) {
	base := lifeSpread
	if len(j.Rates) == 0 {
		base = likeSpread
	}
	known := j.evidence()
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
