package main

import (
	"math"
	"path/filepath"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/optimize"

	"trainopt/optimizer/history"
	"trainopt/simulator/pretrain"
)

var polluxModels = []string{"bert", "cifar10", "deepspeech2", "imagenet", "ncf"}

func fitPollux(dir, model, date string) (pretrain.StepModel, error) {
	s := pretrain.StepModel{
		Origin: pretrain.PolluxOrigin, Name: model + "/t4", Family: model, GPU: "T4", GPUsPerNode: 4, MaxGPUs: 16,
	}
	s.Fitted = date
	t, err := history.LoadPolluxTables(filepath.Join(dir, model))
	if err != nil {
		return s, err
	}
	var rows []history.StepRow
	for _, r := range t.Steps {
		if r.Packed(s.GPUsPerNode) && r.GPUs() <= s.MaxGPUs {
			rows = append(rows, r)
		}
	}
	s.Batch = batchRange(rows)
	first, last := t.Progress[0], t.Progress[len(t.Progress)-1]
	s.TotalBatch = [2]int{first.Batch, last.Batch}
	s.DefaultBatch = first.Batch
	s.ReferenceBatch = float64(first.Batch)
	s.WorkSamples = fiveDigits(first.Reference * s.ReferenceBatch)
	s.Curve = fitCurve(rows)
	s.Error = curveError(s.Curve, rows)
	s.NoiseScale, s.EfficiencyError = fitNoiseScale(t.Progress)
	return s, nil
}

// fitCurve minimises the mean Huber loss of the log error by Nelder–Mead from several starting points. The Huber loss
// limits the influence of single measurements across nodes that are off by half.
func fitCurve(rows []history.StepRow) pretrain.StepCurve {
	loss := func(x []float64) float64 {
		c := curveOf(x)
		sum := 0.0
		for _, r := range rows {
			e := math.Abs(math.Log(c.Seconds(r.GPUs(), len(r.Placement), r.Batch) / r.Seconds))
			const knee = 0.1
			if e > knee {
				e = knee * (2*e - knee)
			} else {
				e *= e
			}
			sum += e
		}
		// A weak penalty keeps the parameters that the rows do not determine near plain values.
		return sum/float64(len(rows)) + 1e-5*(x[2]*x[2]+x[9]*x[9])
	}
	one := slices.MinFunc(rows, func(a, b history.StepRow) int {
		return 1000000*(a.GPUs()-b.GPUs()) + int(a.Batch-b.Batch)
	})
	t := math.Log(one.Seconds)
	best, bestLoss := []float64(nil), math.Inf(1)
	for _, sync := range []float64{-3, -1.5, 0} {
		for _, share := range []float64{0.3, 0.7} {
			x := []float64{t + math.Log(1-share), t + math.Log(share) - math.Log(one.Batch), 0,
				t + sync, t + sync - 2, t + sync + 1, t + sync + 1, t + sync + 1, t + sync - 2, 0}
			for range 6 { // restarts of the simplex
				r, err := optimize.Minimize(optimize.Problem{Func: loss}, x, &optimize.Settings{FuncEvaluations: 4000}, &optimize.NelderMead{SimplexSize: 0.3})
				if r == nil {
					panic(err)
				}
				x = r.X
				if r.F < bestLoss {
					bestLoss, best = r.F, slices.Clone(r.X)
				}
			}
		}
	}
	return curveOf(best)
}

// curveOf converts the search parameters to a curve. All of them are logarithms except the last, which is the logit of
// the overlap power on (1, 10).
func curveOf(x []float64) pretrain.StepCurve {
	e := func(i int) float64 { return fiveDigits(math.Exp(max(-30, min(10, x[i])))) }
	return pretrain.StepCurve{
		Fixed: e(0), PerBatch: e(1), Exponent: fiveDigits(math.Exp(max(-1, min(1, x[2])))),
		Local: e(3), LocalPerGPU: e(4), Nodes: [3]float64{e(5), e(6), e(7)}, NodesPerGPU: e(8),
		OverlapPower: fiveDigits(1 + 9/(1+math.Exp(-x[9]))),
	}
}

// fitNoiseScale returns the φ for which (φ + M0)/(φ + M) best fits the measured efficiency of a sample over the whole
// training: least squares in logarithms, by grid search over log φ.
func fitNoiseScale(ps []history.BatchProgress) (float64, pretrain.FitError) {
	m0 := ps[0].Batch
	best, bestLoss := math.NaN(), math.Inf(1)
	for l := 0.0; l <= 20; l += 0.01 {
		phi := math.Exp(l) * float64(m0)
		sum := 0.0
		for _, p := range ps {
			e := math.Log((phi + float64(m0)) / (phi + float64(p.Batch)) / p.Efficiency(m0))
			sum += e * e
		}
		if sum < bestLoss {
			best, bestLoss = fiveDigits(phi), sum
		}
	}
	var errs []float64
	for _, p := range ps[1:] {
		errs = append(errs, math.Abs((best+float64(m0))/(best+float64(p.Batch))/p.Efficiency(m0)-1))
	}
	return best, summariseErrors(errs)
}

// fiveDigits keeps five significant digits to shorten the file.
func fiveDigits(x float64) float64 {
	f, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 5, 64), 64)
	return f
}

// batchRange returns the range of batches per GPU in rows, {0, 0} without rows.
func batchRange(rows []history.StepRow) [2]int {
	lo, hi := math.Inf(1), 0.0
	for _, r := range rows {
		lo, hi = min(lo, r.Batch), max(hi, r.Batch)
	}
	if hi == 0 {
		return [2]int{}
	}
	return [2]int{int(math.Ceil(lo)), int(hi)}
}

// curveError returns the error of a curve against measured rows.
func curveError(c pretrain.StepCurve, rows []history.StepRow) pretrain.FitError {
	var errs []float64
	for _, r := range rows {
		errs = append(errs, math.Abs(c.Seconds(r.GPUs(), len(r.Placement), r.Batch)/r.Seconds-1))
	}
	return summariseErrors(errs)
}

// summariseErrors returns the median and 90 % quantile of relative errors, rounded to four decimals.
func summariseErrors(errs []float64) pretrain.FitError {
	s := slices.Sorted(slices.Values(errs))
	if len(s) == 0 {
		return pretrain.FitError{}
	}
	at := func(q float64) float64 { return math.Round(s[int(q*float64(len(s)-1)+0.5)]*1e4) / 1e4 }
	return pretrain.FitError{Points: len(s), Median: at(0.5), P90: at(0.9)}
}
