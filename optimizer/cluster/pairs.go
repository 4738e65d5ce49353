package cluster

import (
	"fmt"
	"math"
	"slices"
)

// pairRate is a measured rate of a job that shared its devices with another one.
type pairRate struct {
	Device string  `json:"device"`
	GPUs   int     `json:"gpus"`
	With   int     `json:"with"` // the other job
	PerSec float64 `json:"steps_per_s"`
	Blocks int     `json:"blocks"`
}

// The rate of a job beside another one, relative to its rate alone, before the two kinds of training were measured: the
// median of the pairs of trainings that Gavel published for V100 (Narayanan et al., OSDI 2020), with standard deviations of
// logarithms rounded from those of all three types. A kind is the script in its directory, with any arguments.
const (
	PartnerRatio  = 0.67
	partnerSpread = 0.35 // of all pairs
	kindSpread    = 0.25 // of one kind beside different ones
	typeSpread    = 0.15 // of one pair of kinds on different device types
)

// keptOfKind is the number of jobs of a kind whose measurements count, the latest.
const keptOfKind = 20

// kindOf names the script of a job.
func kindOf(j *Job, spec *Spec) string {
	return j.Name + "\x00" + spec.Config.Train + "\x00" + spec.Config.Dir
}

// remember adds a job with measured pairs to those of its kind.
func (l *learner) remember(j *learned) {
	known := append(l.paired[j.kind], j)
	l.paired[j.kind] = known[max(0, len(known)-keptOfKind):]
}

// Pair implements rates. A pair whose rates together, each relative to that alone, were measured to be no more than those of
// one device does not gain by sharing and is not formed again; nor is one with a job that has failed beside another, nor
// one whose memory does not fit. Of one job at least the rate alone on the device type must have been measured: what both
// lose would remain unknown.
func (l *learner) Pair(a, b, device int) (ra, rb float64) {
	i, j := l.jobs[a], l.jobs[b]
	gpus, name := max(i.spec.Min, 1), l.devices[device].Name
	alone, _ := l.Alone(a, device, gpus)
	other, _ := l.Alone(b, device, gpus)
	mayShare := !i.apart() && !j.apart() && gpus <= max(l.devices[device].PerServer, 1) && l.fits(i, j, device, gpus)
	if !mayShare || !(alone > 0 && other > 0) || i.alone(name, gpus) == 0 && j.alone(name, gpus) == 0 {
		return 0, 0
	}
	x, y := l.beside(i, j, device, gpus), l.beside(j, i, device, gpus)
	if x.sd == 0 && y.sd == 0 && math.Exp(x.mean)+math.Exp(y.mean) <= 1 {
		return 0, 0
	}
	return alone * min(x.optimistic(), 1), other * min(y.optimistic(), 1)
}

// apart reports whether a job cannot share devices: for good, or in its present life.
func (j *learned) apart() bool { return j.Apart || j.Sole && j.State.holds() }

// prior returns the distribution of the log-ratio before any measurement of the cluster: that of the table of pairs, as on
// another device type, else the published one. O(1).
func (l *learner) prior(j, partner *learned) logRatio {
	if v := l.table[[2]string{j.Name, partner.Name}]; v > 0 {
		return logRatio{math.Log(v), typeSpread}
	}
	return logRatio{math.Log(PartnerRatio), partnerSpread}
}

// beside returns the distribution of the log-ratio of the rate of a job beside another one to that alone. Its standard
// deviation is 0 if the two kinds were measured on the device type: the latest measurement of the same two commands, else of
// the same scripts, counts. Elsewhere measurements of the kind beside others, of the pair on other types, and of what the other
// kind loses, narrow the prior. O(keptOfKind · pairs).
func (l *learner) beside(j, partner *learned, device, gpus int) logRatio {
	best, measured := 0, logRatio{}
	prior := l.prior(j, partner)
	weight := 1 / (prior.sd * prior.sd)
	sum := weight * prior.mean
	see := func(ratio, spread float64) {
		sum += math.Log(ratio) / (spread * spread)
		weight += 1 / (spread * spread)
	}
	for _, k := range l.paired[j.kind] {
		for i := range k.Pairs {
			p := &k.Pairs[i]
			with, ratio := l.jobs[p.With], k.ratio(p)
			same := with != nil && with.kind == partner.kind
			if !(ratio > 0) { // the rate alone is unknown: two jobs on one device lose about the same
				if back := with.pairWith(k.ID, p); same && back != nil && with.ratio(back) > 0 {
					see(with.ratio(back), kindSpread)
				}
				continue
			}
			if same && p.Device == l.devices[device].Name && p.GPUs == gpus {
				if near := 1 + nearness(k, j) + nearness(with, partner); near >= best {
					best, measured = near, logRatio{mean: math.Log(ratio)}
				}
			}
			if same {
				see(ratio, typeSpread)
			} else {
				see(ratio, kindSpread)
			}
		}
	}
	if best > 0 {
		return measured
	}
	return logRatio{sum / weight, 1 / math.Sqrt(weight)}
}

// nearness is 2 for the same job, 1 for one of the same command, else 0.
func nearness(a, b *learned) int {
	switch {
	case a == b:
		return 2
	case sameCommand(a.spec, b.spec):
		return 1
	}
	return 0
}

// alone returns the rate of a job alone as measured on it, else on one of the same command; 0: unknown.
func (j *learned) alone(device string, gpus int) float64 {
	for k := j; k != nil; k = k.like {
		for i := range k.Rates {
			if r := &k.Rates[i]; r.Device == device && r.GPUs == gpus {
				return r.PerSec
			}
		}
		if k != j {
			break
		}
	}
	return 0
}

// ratio returns a rate beside another job relative to that alone on the same devices; 0: unknown.
func (j *learned) ratio(p *pairRate) float64 {
	if alone := j.alone(p.Device, p.GPUs); alone > 0 {
		return p.PerSec / alone
	}
	return 0
}

// pairWith returns the rate of a job beside another one where that had the rate p; nil: unknown.
func (j *learned) pairWith(job int, p *pairRate) *pairRate {
	if j == nil {
		return nil
	}
	at := slices.IndexFunc(j.Pairs, func(o pairRate) bool { return o.With == job && o.Device == p.Device && o.GPUs == p.GPUs })
	if at < 0 {
		return nil
	}
	return &j.Pairs[at]
}

// observePair takes the rate of a job beside another one. changed is true for a change of more than rateChange.
func (l *learner) observePair(job, with int, device string, gpus int, perSec float64, blocks int) (changed bool) {
	j := l.jobs[job]
	at := slices.IndexFunc(j.Pairs, func(p pairRate) bool { return p.Device == device && p.GPUs == gpus && p.With == with })
	if at < 0 {
		if at = len(j.Pairs); at == 0 {
			l.remember(j)
		}
		j.Pairs = append(j.Pairs, pairRate{Device: device, GPUs: gpus, With: with})
	}
	p := &j.Pairs[at]
	p.Blocks = blocks
	if p.PerSec > 0 && math.Abs(perSec/p.PerSec-1) <= rateChange {
		return false
	}
	p.PerSec = perSec
	l.outdate(j)
	return true
}

// outdate makes policies ask again for the rates of the pairs of a kind.
func (l *learner) outdate(j *learned) {
	for _, k := range l.jobs {
		if !k.State.Ended() && k.kind == j.kind {
			k.version++
		}
	}
}

// aloneBeside returns the rate of a job alone that its latest rate beside another one suggests; none without one.
func (l *learner) aloneBeside(j *learned) []Rate {
	for _, p := range slices.Backward(j.Pairs) {
		if d := l.typeOf(p.Device); d >= 0 && l.jobs[p.With] != nil {
			return []Rate{{Device: p.Device, GPUs: p.GPUs, PerSec: p.PerSec / math.Exp(l.beside(j, l.jobs[p.With], d, p.GPUs).mean), Blocks: p.Blocks}}
		}
	}
	return nil
}

// partner names the job with which a job shares its devices, and whether that makes progress yet;
// empty without one. What is measured under one name is comparable.
func (s *server) partner(l *live) string {
	with := s.jobs[l.Beside]
	switch {
	case with == nil:
		return ""
	case !with.worked:
		return fmt.Sprintf("job %d, starting", with.ID)
	}
	return fmt.Sprintf("job %d", with.ID)
}

// followPartners passes to the agents who shares their devices.
func (s *server) followPartners() {
	for _, l := range s.jobs {
		l.shared = l.shared || l.Beside != 0
		l.partner.set(s.partner(l))
	}
}

// part ends the lease that a job shares with another one, so that both are decided on at the next step.
func (s *scheduler) part(now float64, job int) {
	m := s.byID[job]
	if m == nil {
		return
	}
	for _, r := range s.engine.Running() {
		if r.B != nil && (r.A == &m.round || r.B == &m.round) {
			s.engine.Release(s.policyTime(now), r)
			break
		}
	}
	s.stale = true
}

// noteBeside records which jobs share devices: until the one that leaves has left.
func (s *scheduler) noteBeside(now float64) {
	holders := map[string]*member{}
	beside := map[*member]int{}
	for _, m := range s.active {
		if !m.State.holds() || len(m.Where) == 0 {
			continue
		}
		key := fmt.Sprint(m.Device, m.Where[0])
		if o := holders[key]; o != nil {
			beside[m], beside[o] = o.ID, m.ID
		}
		holders[key] = m
	}
	for _, m := range s.active {
		if with := beside[m]; with != m.Beside {
			s.settle(now, m)
			m.Beside = with
			if m.State.holds() {
				s.log(now, Event{Kind: EventShare, Job: m.ID, Stretch: m.Stretch, Device: m.Device, GPUs: len(m.Where), With: with})
			}
		}
	}
}
