package replay

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"trainopt/optimizer/cluster"
)

// scenario is the input of a simulation: the jobs of a day with one draw of all that is uncertain.
type scenario struct {
	day  *Day
	jobs []*simulated // in order of arrival
	log  func(cluster.Event)
	// whole leaves all jobs the devices that they requested, also those that they did not use.
	whole bool
	pairs pairRates
	// crowding is by how much a start takes longer for each other one at the same time.
	crowding float64
}

// simulated is a job of a scenario.
type simulated struct {
	*job
	steps              float64
	rate               map[place]float64             // steps/s, all that the job may have
	first, again, save float64                       // seconds of its first and later starts, and of a save
	exit               float64                       // seconds between its last step and its end
	measured           float64                       // seconds of progress after which its rate is known
	lives              []cluster.LifeCosts           // of the day
	other              func(n int) cluster.LifeCosts // of the n-th life, if the day is not followed
}

// simulate runs the scenario under policies, which replace one another; nil: those of the day, which may fail as they do live.
func (s *scenario) simulate(ctx context.Context, policies []cluster.Span) (*cluster.Outcome, error) {
	sim := cluster.Simulation{Devices: s.day.Devices, Round: s.day.Round, Seed: s.day.Seed, From: s.day.From, Policies: policies, Failing: policies == nil, Log: s.log, Crowding: s.crowding,
		Until: s.day.From + 1000*(s.day.Until-s.day.From) + 1e7}
	if policies == nil {
		sim.Policies = s.day.Policies
	}
	for _, j := range s.jobs {
		sim.Jobs = append(sim.Jobs, s.trial(j))
		for _, k := range j.Shrinks {
			if !s.whole {
				sim.Resizes = append(sim.Resizes, cluster.Resizing{At: k.At, Job: j.ID, GPUs: k.To})
			}
		}
	}
	slices.SortStableFunc(sim.Jobs, func(a, b cluster.Trial) int { return cmp.Compare(a.Arrival(), b.Arrival()) })
	slices.SortStableFunc(sim.Resizes, func(a, b cluster.Resizing) int { return cmp.Compare(a.At, b.At) })
	return sim.Run(ctx)
}

// trial returns a job in the form of a simulation.
func (s *scenario) trial(j *simulated) cluster.Trial {
	t := cluster.Trial{Steps: j.steps, Delay: j.Delay, First: j.first, Again: j.again, Save: j.save, Exit: j.exit, Measured: j.measured, Lives: j.lives, Other: j.other, Pinned: j.Pinned,
		Job:  cluster.Job{ID: j.ID, Name: j.Name, Unit: j.Unit},
		Spec: cluster.Spec{Submitted: time.Unix(0, int64(math.Round(j.Arrival*1e9))), User: j.User, Weight: j.Weight, Min: j.GPUs, Max: j.MaxGPUs, Distributed: s.day.spans(j.GPUs)},
		Rate: func(device, gpus int) float64 { return j.rate[place{s.day.Devices[device].Name, gpus}] }}
	t.Beside = func(with, device int) float64 {
		at := slices.IndexFunc(s.jobs, func(o *simulated) bool { return o.ID == with })
		return s.pairs.beside(j.job, s.jobs[at].job, s.day.Devices[device].Name)
	}
	t.Spec.Config.Train = cmp.Or(j.Command, strconv.Itoa(j.ID))
	if j.Stated {
		t.Job.Total = j.steps
	}
	if d := j.Deadline - j.Arrival; d > 0 {
		t.Spec.Config.SLA.TimeMax = time.Duration(d * float64(time.Second))
	}
	return t
}

// tieBreak is the least spread of the logarithm of rates in the draws: decisions between equal jobs fall either way, and
// figures are means over both.
const tieBreak = 1e-3

// scenario draws rates and the costs of lives. A save that was never measured takes the time to leave, and that to write a
// checkpoint, of which nothing is known. The start-up of a training reads one, after it has launched the process and read the data:
// all divisions of its time among the three are equally likely, so that the part of each has the density 2(1 − x), a third on
// average. The size of a checkpoint that the job has written bounds the time of a write.
func (a *auditor) scenario(random *rand.Rand) *scenario {
	noise := func(spread float64) float64 {
		if !(spread > tieBreak) {
			spread = tieBreak
		}
		return math.Exp(spread * random.NormFloat64())
	}
	a.sources, a.left = map[rateSource]int{}, nil
	write := 1 - math.Sqrt(random.Float64())
	seed := random.Uint64()
	s := &scenario{day: a.day, pairs: a.rates.pairs, crowding: max(0, a.moves.crowding.value+a.moves.crowding.sd*random.NormFloat64())}
	for _, j := range a.day.Jobs {
		steps, ok := j.work()
		own := map[place]float64{}
		if ok {
			for _, t := range a.day.Devices {
				for n := 1; n <= min(j.MaxGPUs, t.Count); n++ {
					p := place{t.Name, n}
					if e := a.rates.at(j, p); e.rate > 0 {
						own[p] = e.rate * noise(e.spread)
						a.sources[e.source]++
					}
				}
			}
		}
		if len(own) == 0 {
			a.left = append(a.left, j.ID)
			continue
		}
		next := &simulated{job: j, steps: steps, rate: own, first: a.moves.mean(firstStart, j), again: a.moves.mean(laterStart, j), save: a.moves.mean(saving, j), exit: a.rates.exitOf(j),
			measured: a.measured, lives: a.costs(j), other: func(n int) cluster.LifeCosts {
				return a.moves.draw(j, n, s.crowding, rand.New(rand.NewPCG(seed, uint64(j.ID)<<32|uint64(n))))
			}}
		if a.moves.assumed {
			next.save = a.rates.exit + write*min(a.moves.own*next.again, j.longestWrite())
		}
		s.jobs = append(s.jobs, next)
	}
	return s
}

// longestWrite returns the seconds that writing a checkpoint of the known size takes at most, at the speed of a slow shared disk;
// +Inf: no size is known.
func (j *job) longestWrite() float64 {
	const slowDisk, latency = 20e6, 0.1 // bytes/s, s
	if j.checkpoint > 0 {
		return latency + j.checkpoint/slowDisk
	}
	return math.Inf(1)
}

// costs returns what the lives of a job cost and what was measured in them: as long as the simulation follows the day, it
// has the same delays, paces and knowledge, and learns a rate no earlier. NaN: not measured.
func (a *auditor) costs(j *job) []cluster.LifeCosts {
	out := make([]cluster.LifeCosts, len(j.Lives))
	learned := map[place]bool{}
	for i, l := range j.Lives {
		p := place{l.Device, l.GPUs}
		c := cluster.LifeCosts{Start: l.Worked - l.Start, Startup: l.Startup, Keeps: j.KeepsKnown - l.Start, Save: l.Save, Useful: l.useful, Measured: max(0, l.Known-l.Worked),
			Seen: &cluster.Seen{At: l.Start, Device: p.device, GPUs: p.gpus, PerSec: a.rates.seen[j.ID][p], Rates: l.Rates, Known: l.known}}
		if math.IsNaN(l.Known) { // it left before
			c.Measured, c.Seen.Rates = max(a.measured, l.Left-l.Worked), nil
		} else if len(l.Rates) == 0 && learned[p] { // no other than before
			c.Seen.Rates = []cluster.Measurement{}
		}
		learned[p] = learned[p] || len(l.Rates) > 0
		out[i] = c
	}
	return out
}

// zero is a source of random numbers for policies that are not run.
type zero struct{}

// IntN implements share.Random.
func (zero) IntN(int) int { return 0 }
