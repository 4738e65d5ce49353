package history

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
)

// LoadPublished reads the original tables below dir (sia-profiles, pollux-profiles, gavel, elasticflow, mlperf; missing
// ones are skipped), sorted by id, for evaluation only, since some have no licence. Duplicate measurements are returned
// once: Sia's "aws" is Pollux's, its two A100 tables of NCF are identical, nine rates of ElasticFlow on T4 equal
// Pollux's to the last digit, and nine submissions to MLPerf v4.1 were repeated in v5.0 or under a second name.
// Curves of Gavel whose points come from different machines are included, see IrregularCurves. Errors name file and line
// of malformed data, and wrap fs.ErrNotExist if no table exists.
func LoadPublished(dir string) ([]Entry, error) {
	var all []Entry
	for _, read := range []func(string) ([]Entry, error){loadPollux, loadSia, loadGavel, loadElasticFlow, loadMLPerf} {
		entries, err := read(dir)
		if err != nil {
			return nil, fmt.Errorf("load published measurements: %w", err)
		}
		all = append(all, entries...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("load published measurements below %s: none of pollux-profiles, sia-profiles, gavel, elasticflow, mlperf is there: %w",
			dir, fs.ErrNotExist)
	}
	return sortEntries(distinct(all))
}

// distinct removes entries that duplicate an earlier one: the same work on the same configuration with exactly the
// same figure.
func distinct(entries []Entry) []Entry {
	type what struct {
		model, dataset, gpu, unit string
		nodes                     int
		gpus, batch, unitTime     float64
	}
	seen := map[what]bool{}
	return slices.DeleteFunc(entries, func(e Entry) bool {
		c := e.Observed
		w := what{e.Job.Model, e.Job.Dataset, c.GPU, e.Unit, c.Nodes, c.GPUs, c.Batch, e.UnitTime}
		again := seen[w]
		seen[w] = true
		return again
	})
}

// sortEntries sorts by id; a duplicate id is an error.
func sortEntries(entries []Entry) ([]Entry, error) {
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.ID, b.ID) })
	var errs []error
	for i := 1; i < len(entries); i++ {
		if entries[i].ID == entries[i-1].ID {
			errs = append(errs, fmt.Errorf("published measurement %q occurs twice", entries[i].ID))
		}
	}
	return entries, errors.Join(errs...)
}

// origin is the source of a table.
type origin struct {
	Title   string // description
	Where   string // repository and path
	Commit  string
	Licence string // SPDX identifier, none if the repository has no licence
	Machine string // machine of all measurements; "" if unknown or several
}

// words formats the origin as the Source of an entry.
func (o origin) words() string {
	s := o.Title + ", " + o.Where + " @ " + o.Commit
	if o.Licence == noLicence {
		s += ", no licence"
	}
	return s
}

const elasticFlowCommit = "04a0109a6acdd7d89f4cb31b6a6a7a128bee6bb0"

// origins by the first part of an entry's id; the T4 tables of "elasticflow" have a key of their own.
var origins = map[string]origin{
	"pollux": {"Pollux (OSDI 2021), measured step times, 4 T4 a node",
		"pkusys/ElasticFlow pollux/pollux_simulator/traces", elasticFlowCommit, "Apache-2.0", "aws:g4dn.12xlarge"},
	"sia": {"Sia (SOSP 2023), measured step times",
		"siasosp23/artifacts sia-simulator", "aaf7a0de7b6cb5eab06ea020467ede5d2fd18e70", noLicence, ""},
	"gavel": {"Gavel (OSDI 2020), isolated rates of simulation_throughputs.json, all GPUs in one machine",
		"stanford-futuredata/gavel scheduler", "c4fa40097339e9608ab71fd64c8bdea96a5e4a4c", "MIT", ""},
	"elasticflow": {"ElasticFlow (ASPLOS 2023), measured iterations per second, 8 A100 a node",
		"pkusys/ElasticFlow", elasticFlowCommit, "Apache-2.0", ""},
	elasticFlowT4: {"ElasticFlow (ASPLOS 2023), iterations per second computed from the step times of Pollux, 4 T4 a node",
		"pkusys/ElasticFlow", elasticFlowCommit, "Apache-2.0", ""},
	"mlperf-v4.1": {"MLPerf Training v4.1, time to train computed from the published logs (unofficial)",
		"mlcommons/training_results_v4.1", "b87b9e396f771345d4ef122ba33456304f15228d", noLicence, ""},
	"mlperf-v5.0": {"MLPerf Training v5.0, time to train computed from the published logs (unofficial)",
		"mlcommons/training_results_v5.0", "0fdc28f013256aea84fa36fdaf1e0fa46094b18c", "Apache-2.0", ""},
	medians: {"MLPerf Training v5.0, median over submitters of times to train computed from the published logs (unofficial)",
		"mlcommons/training_results_v5.0", "0fdc28f013256aea84fa36fdaf1e0fa46094b18c", "Apache-2.0", ""},
}

const (
	noLicence     = "none"
	elasticFlowT4 = "elasticflow-t4"
	medians       = "mlperf"
)

// IrregularCurves returns the ids of Gavel's entries on curves whose throughput changes by a factor above 2.2 or below
// 0.8 when the GPUs of one machine are doubled at the same batch size per GPU. Such points were measured on different
// machines: each one is a valid measurement, but the curve is not the scaling of one machine. None of them is
// embedded.
func IrregularCurves(entries []Entry) map[string]bool {
	curves := map[string][]Entry{}
	for _, e := range entries {
		if strings.HasPrefix(e.ID, "gavel/") {
			k := fmt.Sprint(e.Job.Model, e.Observed.GPU, e.Observed.Batch/e.Observed.GPUs)
			curves[k] = append(curves[k], e)
		}
	}
	out := map[string]bool{}
	for _, c := range curves {
		if slices.ContainsFunc(c, func(e Entry) bool { return isIrregularStep(c, e) }) {
			for _, e := range c {
				out[e.ID] = true
			}
		}
	}
	return out
}

// isIrregularStep reports whether the throughput leaps from e to the measurement with twice its GPUs.
func isIrregularStep(curve []Entry, e Entry) bool {
	return slices.ContainsFunc(curve, func(twice Entry) bool {
		r := twice.Throughput / e.Throughput
		return twice.Observed.GPUs == 2*e.Observed.GPUs && (r > 2.2 || r < 0.8)
	})
}

// parseNumber parses a finite number.
func parseNumber(s string) (float64, error) {
	x, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err == nil && (math.IsNaN(x) || math.IsInf(x, 0)) {
		err = fmt.Errorf("%q is not a finite number", s)
	}
	return x, err
}

// parseWhole parses an integer from 1 to a billion; "20.0" is accepted.
func parseWhole(s string) (int, error) {
	x, err := parseNumber(s)
	if err != nil || x < 1 || x > 1e9 || x != math.Trunc(x) {
		return 0, fmt.Errorf("%q, want a whole number from 1", s)
	}
	return int(x), nil
}
