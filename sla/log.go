package sla

import (
	"fmt"
	"math"
	"strings"

	"github.com/go-gota/gota/dataframe"
)

// statistic is the number derived from a whole log that is compared with a limit.
type statistic string

const (
	lastValue statistic = "last" // the last value: time and cost, which accumulate
	meanValue statistic = "mean" // the mean over the rows: throughput, utilization
	maximum   statistic = "max"  // the maximum: memory
)

// Result is the evaluation of one objective over a whole training log.
type Result struct {
	Objective Objective
	Limit     float64
	Unit      string
	Statistic statistic
	// Met is true only if there is data and the statistic is within the limit.
	Met bool
	// Rows is the number of rows with a usable value; 0 means no data.
	Rows int
	// Value is the statistic; NaN without data.
	Value float64
	// Worst is the worst value of a single row: the largest for maxima, the smallest for minima; NaN without data.
	Worst float64
	// FirstViolation is the index, from 0, of the first row that by itself breaks the limit; −1 if none exists. A
	// mean may satisfy a minimum that single rows break.
	FirstViolation int
	// Severity is the relative excess or shortfall of Value, 0…1; NaN without data.
	Severity float64
}

var logStatistics = map[Objective]struct {
	column    string
	prefix    bool // all columns with this prefix; a row's value is the mean of those present
	statistic statistic
}{
	Time:       {"time_so_far", false, lastValue},
	Cost:       {"cost_so_far", false, lastValue},
	Throughput: {"throughput", false, meanValue},
	Memory:     {"memory_used_gb", false, maximum},
	GPUUtil:    {"gpu_utilization", true, meanValue},
	CPUUtil:    {"cpu_percent", false, meanValue},
}

// Violations evaluates a finished training log against an SLA and returns one result per objective with a limit.
// Columns, matched ignoring case, are time_so_far [s], cost_so_far [USD], throughput [samples/s], memory_used_gb
// [taken as GiB], gpu_utilization_0…n [%, averaged over the devices of a row] and cpu_percent [%]. Time and cost are
// evaluated by their last value, memory by its maximum, the others by their mean over the rows.
//
// A missing column, or one without a usable number, has no data: Met is false and Rows is 0. NaN, infinite, negative
// and unreadable cells are not usable. Rows with the epoch "summary" are skipped. The error joins all problems of the
// thresholds, or is the error of the frame; an empty frame is not an error.
func Violations(frame dataframe.DataFrame, thresholds Spec) (map[Objective]Result, error) {
	if err := thresholds.Validate(); err != nil {
		return nil, fmt.Errorf("judge a training log: thresholds: %w", err)
	}
	if frame.Err != nil {
		return nil, fmt.Errorf("judge a training log: %w", frame.Err)
	}
	skip := summaryRows(frame)
	results := map[Objective]Result{}
	for _, t := range targets {
		if limit := t.get(thresholds); limit > 0 {
			results[t.objective] = t.judgeLog(logValues(frame, t.objective, skip), limit)
		}
	}
	return results, nil
}

// summaryRows returns the indices of the rows with the epoch "summary".
func summaryRows(frame dataframe.DataFrame) map[int]bool {
	skip := map[int]bool{}
	for _, name := range frame.Names() {
		if normal(name) != "epoch" {
			continue
		}
		for i, cell := range frame.Col(name).Records() {
			if normal(cell) == "summary" {
				skip[i] = true
			}
		}
	}
	return skip
}

func normal(s string) string { return strings.ToLower(strings.TrimSpace(s)) }

// logValues returns one value per row; NaN where the row has none.
func logValues(frame dataframe.DataFrame, o Objective, skip map[int]bool) []float64 {
	source := logStatistics[o]
	sums := make([]float64, frame.Nrow())
	counts := make([]int, frame.Nrow())
	for _, name := range frame.Names() {
		n := normal(name)
		if n != source.column && !(source.prefix && strings.HasPrefix(n, source.column+"_")) {
			continue
		}
		for i, v := range frame.Col(name).Float() {
			if finite(v) && v >= 0 && !skip[i] {
				sums[i] += v
				counts[i]++
			}
		}
	}
	for i := range sums {
		if counts[i] == 0 {
			sums[i] = math.NaN()
		} else {
			sums[i] /= float64(counts[i])
		}
	}
	return sums
}

// judgeLog computes the result of one objective in one pass over the values; NaN values are skipped.
func (t target) judgeLog(values []float64, limit float64) Result {
	r := Result{Objective: t.objective, Limit: limit, Unit: t.unit, Statistic: logStatistics[t.objective].statistic,
		Value: math.NaN(), Worst: math.NaN(), Severity: math.NaN(), FirstViolation: -1}
	var mean, last float64
	for i, v := range values {
		if math.IsNaN(v) {
			continue
		}
		r.Rows++
		mean += (v - mean) / float64(r.Rows)
		last = v
		if r.Rows == 1 || (t.maximum && v > r.Worst) || (!t.maximum && v < r.Worst) {
			r.Worst = v
		}
		if r.FirstViolation < 0 && t.excess(v, limit) > 0 {
			r.FirstViolation = i
		}
	}
	if r.Rows == 0 {
		return r
	}
	switch r.Statistic {
	case lastValue:
		r.Value = last
	case meanValue:
		r.Value = mean
	case maximum:
		r.Value = r.Worst
	}
	r.Severity = t.excess(r.Value, limit)
	r.Met = r.Severity == 0
	return r
}
