package recurring

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/optimize"
)

// model is a fitted truth. At batch size b and power limit w the GPU demands demand(b) watts. The power drawn and the
// slow-down depend on the ratio r = demand(b) / w alone, through five parameters shared by all batch sizes of a job:
//
//	watts   = demand(b) · (1 + (r/Cap)^CapSharp)^(-1/CapSharp)        // at most about Cap·w
//	seconds = seconds(b) · (1 + (r/Knee)^KneeSharp)^(Slope/KneeSharp) // ∝ r^Slope when starved
//
// Each batch size has five parameters of its own: no smooth function of the batch size fits within a few percent,
// because the kernels change with the shape of a batch.
type model struct {
	Throttle throttle   `json:"throttle"`
	Batches  []perBatch `json:"batches"`
}

// throttle contains the five parameters shared by all batch sizes of a job.
type throttle struct {
	Cap       float64 `json:"cap"`
	CapSharp  float64 `json:"cap_sharp"`
	Knee      float64 `json:"knee"`
	KneeSharp float64 `json:"knee_sharp"`
	Slope     float64 `json:"slope"`
}

// perBatch contains the five parameters of one batch size.
type perBatch struct {
	Batch   int     `json:"batch"`
	Seconds float64 `json:"epoch_seconds"` // at unlimited power
	Watts   float64 `json:"demand_watts"`
	// LogEpochs and LogSpread are the mean and standard deviation of the logarithm of the epochs to the target, over
	// the runs that reached it. Reached is the share of those runs; if it is 0, LogEpochs and LogSpread are 0 too.
	LogEpochs float64 `json:"log_epochs"`
	LogSpread float64 `json:"log_spread"`
	Reached   float64 `json:"reached"`
}

// draw returns the power drawn relative to the demand, at the ratio r of demand to limit.
func (t throttle) draw(r float64) float64 {
	return math.Pow(1+math.Pow(r/t.Cap, t.CapSharp), -1/t.CapSharp)
}

// slow returns the seconds relative to unlimited power, at the ratio r of demand to limit.
func (t throttle) slow(r float64) float64 {
	return math.Pow(1+math.Pow(r/t.Knee, t.KneeSharp), t.Slope/t.KneeSharp)
}

// at returns the parameters of a batch size, nil if the model does not contain it.
func (m *model) at(batch int) *perBatch {
	i := slices.IndexFunc(m.Batches, func(b perBatch) bool { return b.Batch == batch })
	if i < 0 {
		return nil
	}
	return &m.Batches[i]
}

// epoch implements truth; NaN for an unknown batch size or a limit that is not positive.
func (m *model) epoch(s Setting) (seconds, watts float64) {
	b := m.at(s.Batch)
	if b == nil || !(s.Watts > 0) {
		return math.NaN(), math.NaN()
	}
	r := b.Watts / s.Watts
	return b.Seconds * m.Throttle.slow(r), b.Watts * m.Throttle.draw(r)
}

// draw implements truth: a log-normal number of epochs with probability Reached, else NaN.
func (m *model) draw(batch int, rng *rand.Rand) float64 {
	b, luck, z := m.at(batch), rng.Float64(), rng.NormFloat64()
	if luck >= b.Reached {
		return math.NaN()
	}
	return math.Exp(b.LogEpochs + b.LogSpread*z)
}

// mean implements truth: the mean of the log-normal distribution, NaN if Reached is below 1.
func (m *model) mean(batch int) float64 {
	b := m.at(batch)
	if b == nil || b.Reached < 1 {
		return math.NaN()
	}
	return math.Exp(b.LogEpochs + b.LogSpread*b.LogSpread/2)
}

// Misfit is the error of a fitted job against the measured one: relative errors over all settings, in percent.
type Misfit struct {
	SecondsMedian, SecondsMax, JoulesMedian, JoulesMax float64 // per epoch
}

// Fit replaces the measured tables of a job by a model with few parameters that minimizes the relative errors of time
// and power. It returns an error for a job that was not loaded from tables. Fitting takes about a second per job.
func Fit(j *Job) (*Job, Misfit, error) {
	measured, ok := j.truth.(*table)
	if !ok {
		return nil, Misfit{}, fmt.Errorf("fit %s: it is a fitted model already", j.Name())
	}
	f := &fitting{job: j}
	for _, b := range j.Batches {
		var points [][2]float64
		for _, w := range j.Limits {
			seconds, watts := measured.epoch(Setting{b, w})
			points = append(points, [2]float64{math.Log(seconds), math.Log(watts)})
		}
		f.points = append(f.points, points)
	}
	m, err := f.fit()
	if err != nil {
		return nil, Misfit{}, fmt.Errorf("fit %s: %w", j.Name(), err)
	}
	for i := range m.Batches {
		mean, sd, share := logNormal(measured.epochs[j.Batches[i]])
		m.Batches[i].LogEpochs, m.Batches[i].LogSpread, m.Batches[i].Reached = digits(mean), digits(sd), digits(share)
	}
	out := *j
	out.truth = m
	return &out, misfit(&out, j), nil
}

// logNormal returns the mean and standard deviation of the logarithm of the positive runs, and their share.
func logNormal(runs []float64) (mean, sd, share float64) {
	n := 0.0
	for _, x := range runs {
		if x > 0 {
			mean += math.Log(x)
			n++
		}
	}
	if n == 0 {
		return 0, 0, 0
	}
	mean /= n
	for _, x := range runs {
		if x > 0 {
			sd += (math.Log(x) - mean) * (math.Log(x) - mean)
		}
	}
	return mean, math.Sqrt(sd / max(n-1, 1)), n / float64(len(runs))
}

// fitting is the search for a model's parameters.
type fitting struct {
	job    *Job
	points [][][2]float64 // by batch size and limit: log seconds, log watts
}

// fit finds the five shared parameters by Nelder-Mead from several starting points; given these, each batch size is
// fitted independently.
func (f *fitting) fit() (*model, error) {
	var best *optimize.Result
	problem := optimize.Problem{Func: func(x []float64) float64 {
		loss := 0.0
		t, penalty := unpack(x)
		for i := range f.points {
			_, _, l := f.batch(t, i)
			loss += l
		}
		return loss + penalty
	}}
	for _, start := range [][]float64{{0, 2, 0, 1.5, 0}, {0, 1, 0.7, 1.5, 0.7}, {0, 1.5, 1.5, 1, 1.5}} {
		r, err := optimize.Minimize(problem, start, &optimize.Settings{FuncEvaluations: 1200}, &optimize.NelderMead{})
		if r == nil {
			return nil, err
		}
		if best == nil || r.F < best.F {
			best = r
		}
	}
	if math.IsInf(best.F, 0) || math.IsNaN(best.F) {
		return nil, errors.New("no finite fit")
	}
	t, _ := unpack(best.X)
	m := &model{Throttle: rounded(t)}
	for i, b := range f.job.Batches {
		seconds, watts, _ := f.batch(m.Throttle, i)
		m.Batches = append(m.Batches, perBatch{Batch: b, Seconds: digits(seconds), Watts: digits(watts)})
	}
	return m, nil
}

// robust is half the square of an error up to about 3 % and linear beyond: single cells of the tables are far off.
func robust(e float64) float64 {
	e /= 0.03
	return math.Sqrt(1+e*e) - 1
}

// unpack reads the shared parameters from their logarithms; a penalty keeps them within a range.
func unpack(x []float64) (throttle, float64) {
	var v [5]float64
	penalty := 0.0
	for i := range v {
		c := max(-2.5, min(2.5, x[i]))
		penalty += (x[i]-c)*(x[i]-c) + 1e-3*c*c
		v[i] = math.Exp(c)
	}
	return throttle{Cap: v[0], CapSharp: v[1], Knee: v[2], KneeSharp: v[3], Slope: v[4]}, penalty
}

// batch fits one batch size given the shared parameters: its demand by golden-section search, its seconds in closed
// form.
func (f *fitting) batch(t throttle, i int) (seconds, watts, loss float64) {
	at := func(logWatts float64) (logSeconds, loss float64) {
		demand := math.Exp(logWatts)
		n := float64(len(f.points[i]))
		for k, p := range f.points[i] {
			logSeconds += (p[0] - math.Log(t.slow(demand/f.job.Limits[k]))) / n
		}
		for k, p := range f.points[i] {
			r := demand / f.job.Limits[k]
			ds, dw := p[0]-logSeconds-math.Log(t.slow(r)), p[1]-logWatts-math.Log(t.draw(r))
			loss += robust(ds) + robust(dw)
		}
		return logSeconds, loss
	}
	const golden = 0.6180339887498949
	lo, hi := math.Log(10), math.Log(1000)
	a, b := hi-golden*(hi-lo), lo+golden*(hi-lo)
	_, la := at(a)
	_, lb := at(b)
	for range 28 { // to a relative precision of 1e-5
		if la < lb {
			hi, b, lb = b, a, la
			a = hi - golden*(hi-lo)
			_, la = at(a)
		} else {
			lo, a, la = a, b, lb
			b = lo + golden*(hi-lo)
			_, lb = at(b)
		}
	}
	logSeconds, loss := at((lo + hi) / 2)
	return math.Exp(logSeconds), math.Exp((lo + hi) / 2), loss
}

// digits rounds to four significant digits, the precision of the data.
func digits(v float64) float64 {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	return v
}

func rounded(t throttle) throttle {
	return throttle{digits(t.Cap), digits(t.CapSharp), digits(t.Knee), digits(t.KneeSharp), digits(t.Slope)}
}

// misfit compares the epochs of a fitted job with the measured ones over all settings.
func misfit(fitted, measured *Job) Misfit {
	var seconds, joules []float64
	for _, s := range measured.Settings() {
		fs, fj := fitted.Epoch(s)
		ms, mj := measured.Epoch(s)
		seconds, joules = append(seconds, 100*math.Abs(fs/ms-1)), append(joules, 100*math.Abs(fj/mj-1))
	}
	slices.Sort(seconds)
	slices.Sort(joules)
	n := len(seconds)
	return Misfit{seconds[n/2], seconds[n-1], joules[n/2], joules[n-1]}
}
