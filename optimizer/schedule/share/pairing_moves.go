package share

import (
	"cmp"
	"slices"

	"trainopt/optimizer/schedule"
)

// change is a candidate change of a job's position.
type change struct {
	how    step
	k      int // the other job; −1: none
	device int
	gain   float64
}

// step is a kind of change.
type step int

const (
	stays  step = iota
	alone       // moves to idle devices
	joins       // joins k, which is alone
	swaps       // swaps with k, which moves to the job's place or waits
	ousts       // takes the devices of k and its partner, which wait
	clears      // takes the devices of several jobs, which wait
)

// leastChange is the minimum gain of a change, relative to the value of the job on its best type.
const leastChange = 0.01

// improve applies the change of a job with the largest gain. It returns false if none exists.
func (p *pairing) improve(i int) bool {
	best := change{gain: leastChange * p.most(i)}
	better := func(c change) {
		if c.gain > best.gain {
			if c.gain -= p.restarts(i, c); c.gain > best.gain {
				best = c
			}
		}
	}
	p.tryAlone(i, better)
	p.tryOthers(i, better)
	if p.mixed && p.at[i] < 0 {
		p.tryClearing(i, better)
	}
	if best.how == stays {
		return false
	}
	p.apply(i, best)
	p.findWaiting()
	return true
}

// leaving returns the gain when a job leaves its devices: its partner runs alone, or a waiting job takes the devices.
func (p *pairing) leaving(i int) float64 {
	d, m := p.at[i], p.mate[i]
	switch {
	case d < 0:
		return 0
	case m >= 0:
		return p.aloneValue(m, d) - p.pairValue(i, m, d)
	}
	_, most := p.filler(d, p.room[d]+p.Jobs[i].GPUs, i)
	return most - p.aloneValue(i, d)
}

// filler returns the waiting job, other than but, with the largest value on at most room devices of a type; −1: none.
func (p *pairing) filler(device, room, but int) (job int, most float64) {
	job = -1
	for _, w := range p.waiting {
		if v := p.aloneValue(w, device); w != but && p.Jobs[w].GPUs <= room && v > most {
			job, most = w, v
		}
	}
	return job, most
}

// tryAlone evaluates moves of a job to idle devices.
func (p *pairing) tryAlone(i int, better func(change)) {
	for d := range p.types {
		if v := p.aloneValue(i, d); v > 0 && p.room[d] >= p.Jobs[i].GPUs && (d != p.at[i] || p.mate[i] >= 0) {
			better(change{alone, -1, d, p.leaving(i) + v})
		}
	}
}

// tryOthers evaluates changes that involve one job with devices: joining it, replacing its pair, or swapping with it.
func (p *pairing) tryOthers(i int, better func(change)) {
	here, left := p.currentValue(i), p.leaving(i)
	for k, d := range p.at {
		if d < 0 || k == i || k == p.mate[i] || p.Jobs[k].GPUs != p.Jobs[i].GPUs {
			continue
		}
		there := p.currentValue(k)
		if p.mate[k] < 0 {
			if v := p.pairValue(i, k, d); v > 0 {
				better(change{joins, k, d, left + v - there})
			}
		} else if p.at[i] < 0 {
			if v := p.aloneValue(i, d); v > 0 {
				better(change{ousts, k, d, v - there})
			}
		}
		if v, ok := p.swapped(i, k); ok {
			better(change{swaps, k, d, v - there - here})
		}
	}
}

// swapped returns the value of two jobs and their partners after they exchange places.
func (p *pairing) swapped(i, k int) (worth float64, ok bool) {
	for range 2 {
		if d := p.at[k]; d >= 0 {
			v := 0.0
			if m := p.mate[k]; m >= 0 {
				v = p.pairValue(i, m, d)
			} else {
				v = p.aloneValue(i, d)
			}
			if v <= 0 {
				return 0, false
			}
			worth += v
		}
		i, k = k, i
	}
	return worth, true
}

// tryClearing evaluates a job in the place of several others, with waiting jobs on the remainder of their devices.
func (p *pairing) tryClearing(i int, better func(change)) {
	for d := range p.types {
		v := p.aloneValue(i, d)
		if v <= 0 {
			continue
		}
		rest := p.clearing(i, d)
		for _, u := range p.cleared {
			v -= p.currentValue(u)
		}
		for _, w := range p.waiting {
			if x := p.aloneValue(w, d); w != i && x > 0 && p.Jobs[w].GPUs <= rest {
				v += x
				rest -= p.Jobs[w].GPUs
			}
		}
		better(change{clears, -1, d, v})
	}
}

// clearing selects in p.cleared the units that make room for a job on a type, one job of each: those with the least
// value per device, and no more than necessary. rest is the number of devices idle afterwards.
func (p *pairing) clearing(i, device int) (rest int) {
	p.sorted, p.density = p.sorted[:0], zeros(p.density, len(p.Jobs))
	for k, d := range p.at {
		if d == device && (p.mate[k] < 0 || p.mate[k] > k) {
			p.sorted = append(p.sorted, k)
			p.density[k] = p.currentValue(k) / float64(p.Jobs[k].GPUs)
		}
	}
	slices.SortFunc(p.sorted, func(a, b int) int { return cmp.Or(cmp.Compare(p.density[a], p.density[b]), a-b) })
	p.cleared = p.cleared[:0]
	rest = p.room[device] - p.Jobs[i].GPUs
	for _, k := range p.sorted {
		if rest >= 0 {
			break
		}
		p.cleared = append(p.cleared, k)
		rest += p.Jobs[k].GPUs
	}
	for n := len(p.cleared) - 1; n >= 0; n-- {
		if g := p.Jobs[p.cleared[n]].GPUs; rest >= g {
			rest -= g
			p.cleared = slices.Delete(p.cleared, n, n+1)
		}
	}
	return rest
}

// lasting is the expected duration of a change in seconds, over which restart losses are amortized.
const lasting = 1800

// restarts returns the loss from jobs that a change moves off their current type.
func (p *pairing) restarts(i int, c change) float64 {
	if p.Preemption == (schedule.Preemption{}) {
		return 0
	}
	loss := p.restart(i)
	if c.how == swaps {
		loss += p.restart(c.k)
	}
	if c.how == ousts {
		loss += p.restart(c.k) + p.restart(p.mate[c.k])
	}
	if c.how == clears {
		for _, k := range p.cleared {
			loss += p.restart(k)
			if m := p.mate[k]; m >= 0 {
				loss += p.restart(m)
			}
		}
	}
	return loss
}

// restart returns the loss when a job leaves the type on which it ran until now.
func (p *pairing) restart(i int) float64 {
	d := p.at[i]
	if d < 0 || d != p.before[i] {
		return 0
	}
	loss := p.Preemption.Of(p.Jobs[i].Job)
	seconds := loss.Seconds + loss.Steps/p.Jobs[i].Rate[d]
	return p.aloneValue(i, d) * seconds / lasting
}

// apply applies a change.
func (p *pairing) apply(i int, c change) {
	from, wasAlone := p.at[i], p.mate[i] < 0
	p.push(i)
	switch c.how {
	case alone:
		p.leave(i)
		p.put(i, c.device)
	case joins:
		p.leave(i)
		p.at[i], p.mate[i], p.mate[c.k] = c.device, c.k, i
		p.push(c.k)
	case swaps:
		p.swap(i, c.k)
	case ousts:
		p.leave(p.mate[c.k])
		p.leave(c.k)
		p.put(i, c.device)
	case clears:
		p.clearing(i, c.device)
		for _, k := range p.cleared {
			if m := p.mate[k]; m >= 0 {
				p.leave(m)
			}
			p.leave(k)
		}
		p.put(i, c.device)
		for _, w := range p.waiting {
			if w != i && p.aloneValue(w, c.device) > 0 && p.Jobs[w].GPUs <= p.room[c.device] {
				p.put(w, c.device)
				p.push(w)
			}
		}
	}
	// A waiting job takes the devices that the job left, if any fits.
	if from >= 0 && wasAlone && c.how != swaps {
		if w, _ := p.filler(from, p.room[from], i); w >= 0 {
			p.put(w, from)
			p.push(w)
		}
	}
}

// leave removes a job from its devices; its partner continues alone.
func (p *pairing) leave(i int) {
	d, m := p.at[i], p.mate[i]
	if d < 0 {
		return
	}
	p.at[i], p.mate[i] = -1, -1
	p.push(i)
	if m >= 0 {
		p.mate[m] = -1
		p.push(m)
		return
	}
	p.room[d] += p.Jobs[i].GPUs
}

// swap exchanges the positions of two jobs, the second of which has devices.
func (p *pairing) swap(i, k int) {
	a, b := p.mate[i], p.mate[k]
	p.at[i], p.at[k] = p.at[k], p.at[i]
	p.mate[i], p.mate[k] = b, a
	if b >= 0 {
		p.mate[b] = i
		p.push(b)
	}
	if a >= 0 {
		p.mate[a] = k
		p.push(a)
	}
	p.push(k)
}
