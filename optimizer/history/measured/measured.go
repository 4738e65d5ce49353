// Package measured contains published measurements of trainings as entries of the runs database, and the published
// peak figures of GPUs.
//
// It is separate from the database of the user's own runs (package history), and makes no predictions (package
// transfer). Its entries were measured by third parties, on their machines, with their scripts: they serve as a prior
// and as a test set for predictions, not as a measurement of the user's job.
//
// Embedded returns the measurements in the binary, from sources whose licence permits it: Gavel (MIT), and Pollux,
// ElasticFlow and MLPerf Training v5.0 (Apache-2.0), thinned and rounded to four digits by
//
//	go run ./internal/gen measurements --data DIR
//
// Load reads the original tables, including those without a licence: Sia and MLPerf Training v4.1. The id of an entry
// is the same in both, except for MLPerf, of which the binary contains medians:
//
//	pollux/bert/t4/4x2/b12           4 GPUs on each of 2 nodes, 12 samples per GPU and step
//	sia/bert/rtx/1+4/b12             1 GPU on one node, 4 on another
//	sia/bert/azure/r12n5/b12         12 GPUs on 5 nodes, distribution unknown
//	gavel/resnet50/v100/4x1/b64
//	elasticflow/bert/a100/8/g64      8 GPUs, 64 samples per step over all of them
//	mlperf-v5.0/llama2_70b_lora/Dell/XE9680  one submission
//	mlperf/llama2_70b_lora/h100/8x1/g8       the median over submitters
//
// Throughput is samples/s. An entry of MLPerf has only Seconds, the time of a whole training to its target quality;
// its single unit is "training". The times were computed from the published logs and are not official MLPerf results.
//
//	for _, e := range measured.Embedded() {
//		fmt.Println(e.Job.Model, e.Observed.GPU, e.Observed.GPUs, e.Throughput)
//	}
package measured

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"trainopt/optimizer/history"
)

// Load reads the original tables below dir (sia-profiles, pollux-profiles, gavel, elasticflow, mlperf; missing ones
// are skipped), sorted by id, for evaluation only, since some have no licence. Duplicate measurements are returned
// once: Sia's "aws" is Pollux's, its two A100 tables of NCF are identical, nine rates of ElasticFlow on T4 equal
// Pollux's to the last digit, and nine submissions to MLPerf v4.1 were repeated in v5.0 or under a second name.
// Curves of Gavel whose points come from different machines are included, see Irregular. Errors name file and line of
// malformed data, and wrap fs.ErrNotExist if no table exists.
func Load(dir string) ([]history.Entry, error) {
	var all []history.Entry
	for _, read := range []func(string) ([]history.Entry, error){loadPollux, loadSia, loadGavel, loadElasticFlow, loadMLPerf} {
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
func distinct(entries []history.Entry) []history.Entry {
	type what struct {
		model, dataset, gpu, unit string
		nodes                     int
		gpus, batch, unitTime     float64
	}
	seen := map[what]bool{}
	return slices.DeleteFunc(entries, func(e history.Entry) bool {
		c := e.Observed
		w := what{e.Job.Model, e.Job.Dataset, c.GPU, e.Unit, c.Nodes, c.GPUs, c.Batch, e.UnitTime}
		again := seen[w]
		seen[w] = true
		return again
	})
}

// sortEntries sorts by id; a duplicate id is an error.
func sortEntries(entries []history.Entry) ([]history.Entry, error) {
	slices.SortFunc(entries, func(a, b history.Entry) int { return strings.Compare(a.ID, b.ID) })
	var errs []error
	for i := 1; i < len(entries); i++ {
		if entries[i].ID == entries[i-1].ID {
			errs = append(errs, fmt.Errorf("published measurement %q occurs twice", entries[i].ID))
		}
	}
	return entries, errors.Join(errs...)
}
