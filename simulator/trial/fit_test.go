package trial

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/optimize"
)

// The fit of models.json to the published tables: TestModels with -update.

// origin is the source of all numbers in models.json.
const origin = "fitted to the traces of github.com/ml-energy/zeus at 75a8b939 (Apache-2.0): You, Chung, Chowdhury, Zeus, NSDI 2023"

// misfitted is the error of a fitted job against the measured one: relative errors over all settings, in percent.
type misfitted struct {
	SecondsMedian, SecondsMax, JoulesMedian, JoulesMax float64 // per epoch
}

// fitJob replaces the measured tables of a job by a model with few parameters that minimizes the relative errors of time
// and power. It returns an error for a job that was not loaded from tables. Fitting takes about a second per job.
func fitJob(j *RecurringJob) (*RecurringJob, misfitted, error) {
	measured, ok := j.truth.(*table)
	if !ok {
		return nil, misfitted{}, fmt.Errorf("fit %s: it is a fitted model already", j.Name())
	}
	f := &fitting{job: j}
	for _, b := range j.Batches {
		var points [][2]float64
		for _, w := range j.Limits {
			seconds, watts := measured.epoch(jobSetting{b, w})
			points = append(points, [2]float64{math.Log(seconds), math.Log(watts)})
		}
		f.points = append(f.points, points)
	}
	m, err := f.fit()
	if err != nil {
		return nil, misfitted{}, fmt.Errorf("fit %s: %w", j.Name(), err)
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
	job    *RecurringJob
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
func misfit(fitted, measured *RecurringJob) misfitted {
	var seconds, joules []float64
	for _, s := range measured.Settings() {
		fs, fj := fitted.Epoch(s)
		ms, mj := measured.Epoch(s)
		seconds, joules = append(seconds, 100*math.Abs(fs/ms-1)), append(joules, 100*math.Abs(fj/mj-1))
	}
	slices.Sort(seconds)
	slices.Sort(joules)
	n := len(seconds)
	return misfitted{seconds[n/2], seconds[n-1], joules[n/2], joules[n-1]}
}

// writeModels writes fitted jobs in the format of models.json. It returns an error for jobs that are not from fitJob or
// Fitted.
func writeModels(w io.Writer, jobs []*RecurringJob) error {
	file := modelsFile{Source: origin}
	for _, j := range jobs {
		m, ok := j.truth.(*model)
		if !ok {
			return fmt.Errorf("write fitted models: %s: %w", j.Name(), errors.New("it is not fitted"))
		}
		file.Jobs = append(file.Jobs, fittedJob{j.Dataset, j.Network, j.GPU, j.Limits, j.Default, j.MaxEpochs, *m})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	if err := e.Encode(file); err != nil {
		return fmt.Errorf("write fitted models: %w", err)
	}
	return nil
}
