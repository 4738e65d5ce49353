package rlscheduler

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/workload/swf"
)

// Drawn generates sequences by swf.Lublin, so that their number is unlimited and no trace is used. Each sequence
// has its own load and, with Varied, its own share of small jobs and time scale. Zero values have the meaning noted.
type Drawn struct {
	Low, High    float64 `json:",omitempty"` // bounds of the offered load; zeros mean 0.5 and 1.1
	Overestimate float64 `json:",omitempty"` // see swf.Lublin; 0 means exact requests
	// Mixed applies Overestimate to a random half of the sequences.
	Mixed bool `json:",omitempty"`
	// Varied removes a random share, up to 0.8, of the jobs of up to 4 processors, and divides run times by up to 4,
	// since other machines have larger and shorter jobs than the model.
	Varied bool `json:",omitempty"`
}

// Validate returns all problems joined.
func (d Drawn) Validate() error {
	var errs []error
	if d.Low != 0 || d.High != 0 {
		if !(d.Low > 0 && d.Low <= d.High && d.High <= 100) {
			errs = append(errs, fmt.Errorf("loads from %v to %v: want more than 0, at most 100", d.Low, d.High))
		}
	}
	return errors.Join(append(errs, swf.Lublin{Jobs: 1, Overestimate: d.Overestimate}.Validate())...)
}

// Draw generates a sequence of the given length for a machine. It generates three times as many jobs as required,
// after a random number of skipped ones, thins them, and scales submissions to the load.
func (d Drawn) Draw(rng *rand.Rand, length, procs int) ([]order.Job, error) {
	if d.High == 0 {
		d.Low, d.High = 0.5, 1.1
	}
	load := d.Low + rng.Float64()*(d.High-d.Low)
	skip, dropped, shorter, exact := rng.IntN(64), 0.0, 1.0, false
	if d.Varied {
		dropped, shorter = 0.8*rng.Float64(), math.Exp(math.Log(4)*rng.Float64())
	}
	if d.Mixed {
		exact = rng.IntN(2) == 0
	}
	model := swf.Lublin{Jobs: skip + 3*length, Procs: procs, Seed: rng.Uint64(), Overestimate: d.Overestimate}
	if exact {
		model.Overestimate = 0
	}
	all, err := model.Generate()
	if err != nil {
		return nil, err
	}
	jobs := make([]order.Job, 0, length)
	work := 0.0
	for i, j := range all[skip:] {
		if len(jobs) == length {
			break
		}
		// A job is dropped only while enough others remain.
		if spare := len(all) - skip - i - (length - len(jobs)); spare > 0 && j.Procs <= 4 && rng.Float64() < dropped {
			continue
		}
		j.Run, j.Request = max(1, math.Floor(j.Run/shorter)), max(1, math.Floor(j.Request/shorter))
		work += j.Run * float64(j.Procs)
		jobs = append(jobs, j)
	}
	first := jobs[0].Submit
	if span := jobs[len(jobs)-1].Submit - first; span > 0 {
		stretch := work / (span * float64(procs)) / load
		for i := range jobs {
			jobs[i].Submit = math.Floor((jobs[i].Submit - first) * stretch)
		}
	}
	return jobs, nil
}
