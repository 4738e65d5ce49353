package rlscheduler

import "math"

// figures holds means over ten sequences of 1,024 jobs; NaN means not published.
type figures struct {
	BoundedSlowdown, Utilization float64
	Wait                         float64 // s; not published, from runs of this project
}

// tableEntry is the result of one policy on one trace.
type tableEntry struct {
	Trace    string // "Lublin-1", "SDSC-SP2", "HPC2N", "Lublin-2"; "KTH-SP2" is not in the paper
	Backfill bool
	Policy   string // a Heuristic, or "RL": RLScheduler's agent
	figures
	Ours bool // from an independent run of the published simulator
}

// policies are the columns of the published table.
var policies = []string{"FCFS", "WFP3", "UNI", "SJF", "F1", "RL"}

// block holds the published values of one trace, with or without backfilling, by policies.
type block struct {
	trace       string
	backfill    bool
	slowdown    [6]float64
	utilization [6]float64
	wait        [5]float64 // from runs of this project; 0 means unknown
}

// published holds tables V and VI of Zhang et al., SC 2020 (as in the README of its code, May 2021).
var published = []block{
	{"Lublin-1", false, [6]float64{7273.77, 19753.53, 22274.74, 277.35, 258.37, 254.67},
		[6]float64{0.657, 0.747, 0.691, 0.762, 0.816, 0.714}, [5]float64{258203, 496320, 703932, 45067, 20036}},
	{"SDSC-SP2", false, [6]float64{1727.54, 3000.88, 1848.45, 2680.55, 1232.06, 466.44},
		[6]float64{0.670, 0.658, 0.688, 0.645, 0.674, 0.671}, [5]float64{}},
	{"HPC2N", false, [6]float64{297.18, 426.99, 609.77, 157.71, 118.01, 117.01},
		[6]float64{0.638, 0.636, 0.636, 0.640, 0.637, 0.640}, [5]float64{}},
	{"Lublin-2", false, [6]float64{7842.47, 9523.18, 11265.31, 787.89, 698.34, 724.51},
		[6]float64{0.404, 0.543, 0.510, 0.562, 0.478, 0.562}, [5]float64{181567, 193013, 243867, 24077, 25793}},
	{"Lublin-1", true, [6]float64{235.82, 133.87, 307.23, 73.31, 75.07, 58.64},
		[6]float64{0.868, 0.864, 0.883, 0.778, 0.840, 0.850}, [5]float64{26624, 19252, 32904, 35168, 13047}},
	{"SDSC-SP2", true, [6]float64{1595.12, 1083.12, 548.01, 2167.84, 1098.22, 397.82},
		[6]float64{0.682, 0.681, 0.706, 0.661, 0.677, 0.707}, [5]float64{}},
	{"HPC2N", true, [6]float64{127.38, 97.39, 175.12, 122.04, 71.95, 86.14},
		[6]float64{0.639, 0.637, 0.638, 0.641, 0.638, 0.642}, [5]float64{}},
	{"Lublin-2", true, [6]float64{247.61, 318.35, 379.59, 91.99, 148.25, 118.79},
		[6]float64{0.587, 0.583, 0.587, 0.593, 0.552, 0.593}, [5]float64{10003, 13039, 14840, 6019, 7693}},
}

// more holds mean bounded slowdowns of further policies and of a trace that the paper lacks.
var more = []struct {
	trace    string
	backfill bool
	policies []string
	slowdown []float64
}{
	{"Lublin-1", false, further, []float64{337.34, 370.56, 292.88, 304.64, 268.47, 341.77, 289.57}},
	{"Lublin-2", false, further, []float64{807.25, 721.80, 714.26, 622.18, 669.03, 1158.76, 732.72}},
	{"Lublin-1", true, further, []float64{126.50, 98.65, 54.00, 86.36, 58.24, 58.49, 53.64}},
	{"Lublin-2", true, further, []float64{135.12, 103.24, 100.33, 192.14, 112.14, 90.72, 105.83}},
	{"KTH-SP2", false, policies[:5], []float64{2415.14, 9651.86, 12312.58, 566.26, 578.20}},
	{"KTH-SP2", true, policies[:5], []float64{122.92, 158.15, 185.38, 109.31, 109.11}},
}

var further = []string{"WFP3 true", "UNICEP true", "SAF", "smallest", "F2", "F3", "F4"}

// table returns the published entries, followed by those of this project.
func table() []tableEntry {
	var t []tableEntry
	for _, b := range published {
		for i, p := range policies {
			f := figures{b.slowdown[i], b.utilization[i], math.NaN()}
			if i < len(b.wait) && b.wait[i] > 0 {
				f.Wait = b.wait[i]
			}
			t = append(t, tableEntry{b.trace, b.backfill, p, f, false})
		}
	}
	for _, b := range more {
		for i, p := range b.policies {
			t = append(t, tableEntry{b.trace, b.backfill, p, figures{b.slowdown[i], math.NaN(), math.NaN()}, true})
		}
	}
	return t
}

// Find returns the entry of a policy on a trace; ok is false if none exists.
func Find(trace string, backfill bool, policy string) (entry tableEntry, ok bool) {
	for _, e := range table() {
		if e.Trace == trace && e.Backfill == backfill && e.Policy == policy {
			return e, true
		}
	}
	return tableEntry{}, false
}
