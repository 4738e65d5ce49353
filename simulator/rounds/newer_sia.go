package rounds

import (
	"math"
	"slices"
)

// sia chooses a type and a number of devices for every job together (Jayaram Subramanya et al., "Sia: Heterogeneity-aware,
// goodput-optimized ML-cluster scheduling", SOSP 2023, section 3): it minimises Σ_i (r_i·G_i)^p over jobs with devices plus λ for each
// without, with p = −1/2 and λ = 1.1. G is the rate of a job in a size, relative to its least. r is 1 in the size that the job has now,
// and elsewhere its restart factor (T − N·S)/(T + S), T the age of the job, N its restarts and S what one takes; a job that waits has
// nothing to lose, and younger than S it is 1. Sizes are those of the paper: powers of two within a server, then whole servers.
//
// Rates are known beforehand here, as in the paper's runs with oracle profiles. newSiaExploring has the paper's rule for jobs whose rates
// nobody knows: on each type a job gets at most twice as many devices as it had there for a round, at first the least with which it runs.
//
// The paper solves the integer program by branch and bound to 10⁻⁴. Here prices of devices give a bound (the Lagrangian dual) and a
// choice, which is mended by exchanges, see siaProgram. It further differs in this: it decides at once when jobs come or go, and else
// every 6 minutes, since only restart factors have changed then (the paper every 60 s, as newSiaExploring while jobs may grow); S is
// the same for all models; a job may be moved while it still restarts. Rates stand for goodput: they are that when the throughput
// table has goodput in it, as that of workload.LoadSiaProfiles has. Nothing keeps jobs that scale badly from waiting for very long under load.
//
// It knows rates by number of devices, not how long jobs are.
type sia struct {
	explores bool            // jobs may at most double
	jobs     map[int]*siaJob // by ID
	sizes    map[string]*siaSizes
	prices   []float64 // of the last decision
	round    int

	chosen  []*size // by the last program
	ids     []int   // for which jobs
	decided float64 // when
}

// siaJob is what is remembered of a job.
type siaJob struct {
	held     size // none when gpus is 0
	since    float64
	ran      bool // at any time
	restarts int
	most     []int // by type: the most devices that it had for a round
	round    int   // decision in which it was last there
}

// siaSizes are the sizes in which jobs of a type run, by number of devices, and λ − G^p of each.
type siaSizes struct {
	all   []size
	value []float64
	power []float64 // G^p
	least []int     // by type of device: the smallest number on which it runs
}

var (
	_ Described = (*sia)(nil)
	_ Elastic   = (*sia)(nil)
	_ Restless  = (*sia)(nil)
)

const (
	siaPower       = -0.5
	siaPenalty     = 1.1 // λ
	siaRestart     = 60  // S, seconds
	siaRoundLength = 60  // seconds
	siaPatience    = 360 // seconds
)

func newSia(PolicyOptions) Policy {
	return &sia{jobs: map[int]*siaJob{}, sizes: map[string]*siaSizes{}}
}

// newSiaExploring is Sia for jobs whose rates are not known beforehand, as far as that decides how fast they may grow.
func newSiaExploring(PolicyOptions) Policy {
	return &sia{explores: true, jobs: map[int]*siaJob{}, sizes: map[string]*siaSizes{}}
}

// Traits say that who has no device waits.
func (*sia) Traits() Traits { return Traits{Name: "Sia", FixedOrder: true, OnlyShares: true} }

// Every is the length of a round.
func (p *sia) Every() float64 {
	if p.explores {
		return siaRoundLength
	}
	return siaPatience
}

// Decide decides for jobs that run on as many devices as they ask for.
func (p *sia) Decide(s *Snapshot) (Allocation, error) {
	a, _ := p.decide(s, func(i int) *siaSizes {
		var sizes []size
		for d, r := range s.Jobs[i].Rate {
			if r > 0 && s.Devices[d].Count >= s.Jobs[i].GPUs {
				sizes = append(sizes, size{d, s.Jobs[i].GPUs, r})
			}
		}
		return newSiaSizes(sizes, len(s.Devices))
	})
	return a, nil
}

// DecideSizes decides shares and numbers of devices.
func (p *sia) DecideSizes(s *Snapshot, rate SizedRate) (Allocation, []int, error) {
	a, gpus := p.decide(s, func(i int) *siaSizes {
		z, ok := p.sizes[s.Jobs[i].Type]
		if !ok {
			z = newSiaSizes(siaConfigurations(s, i, rate), len(s.Devices))
			p.sizes[s.Jobs[i].Type] = z
		}
		return z
	})
	return a, gpus, nil
}

// siaConfigurations are powers of two in a server, then whole servers.
func siaConfigurations(s *Snapshot, i int, rate SizedRate) []size {
	var out []size
	for d, t := range s.Devices {
		server := t.PerServer
		if server < 2 { // nothing is known of servers
			server = t.Count
		}
		for g := 1; g <= t.Count; {
			if r := rate(s.Jobs[i].Job, d, g); r > 0 {
				out = append(out, size{d, g, r})
			}
			switch {
			case 2*g <= server:
				g *= 2
			case g < server:
				g = server
			default:
				g += server
			}
		}
	}
	slices.SortStableFunc(out, func(a, b size) int { return a.gpus - b.gpus })
	return out
}

func newSiaSizes(all []size, types int) *siaSizes {
	z := &siaSizes{all: all, value: make([]float64, len(all)), power: make([]float64, len(all)), least: make([]int, types)}
	least := math.Inf(1)
	for _, c := range all {
		least = min(least, c.rate)
		if z.least[c.device] == 0 {
			z.least[c.device] = c.gpus
		}
	}
	for k, c := range all {
		z.power[k] = math.Pow(c.rate/least, siaPower)
		z.value[k] = siaPenalty - z.power[k]
	}
	return z
}

func (p *sia) decide(s *Snapshot, sizes func(job int) *siaSizes) (Allocation, []int) {
	p.round++
	if p.nothingNew(s) {
		return sizedShares(s, p.chosen)
	}
	g := &siaProgram{sizes: make([][]size, len(s.Jobs)), value: make([][]float64, len(s.Jobs)), before: make([]int, len(s.Jobs)), same: make([]int, len(s.Jobs))}
	g.room, _ = freeDevices(s)
	g.prices = p.prices
	waiting := map[*siaSizes]int{}
	for i := range s.Jobs {
		z := sizes(i)
		j := p.job(s, i)
		g.same[i], g.before[i] = i, -1
		if j.held.gpus == 0 && (!j.ran || !p.explores) { // no restart to lose
			if first, ok := waiting[z]; ok {
				g.same[i], g.sizes[i], g.value[i] = first, g.sizes[first], g.value[first]
				continue
			}
			waiting[z] = i
		}
		g.sizes[i], g.value[i], g.before[i] = j.options(s.Now-s.Jobs[i].Arrival, z, p.explores)
	}
	held := g.solve()
	p.prices, p.chosen, p.ids, p.decided = g.prices, held, p.ids[:0], s.Now
	for i, z := range held {
		p.jobs[s.Jobs[i].ID].take(z, s.Now)
		p.ids = append(p.ids, s.Jobs[i].ID)
	}
	p.forget(len(s.Jobs))
	return sizedShares(s, held)
}

// nothingNew says that the same jobs are there and none may have more devices than at the last program, so that only restart factors
// have changed, and that this was not long ago.
func (p *sia) nothingNew(s *Snapshot) bool {
	if len(s.Jobs) != len(p.ids) || s.Now-p.decided >= siaPatience {
		return false
	}
	same := true
	for i := range s.Jobs {
		if s.Jobs[i].ID != p.ids[i] {
			return false
		}
		j := p.jobs[s.Jobs[i].ID]
		before := 0
		if j.held.gpus > 0 {
			before = j.most[j.held.device]
		}
		p.job(s, i)
		same = same && (j.held.gpus == 0 || j.most[j.held.device] == before)
	}
	return same
}

// job is what is remembered of a job, with what it had until now.
func (p *sia) job(s *Snapshot, i int) *siaJob {
	j := p.jobs[s.Jobs[i].ID]
	if j == nil {
		j = &siaJob{most: make([]int, len(s.Devices))}
		p.jobs[s.Jobs[i].ID] = j
	}
	j.round = p.round
	if j.held.gpus > 0 && s.Now-j.since >= siaRoundLength*(1-1e-9) {
		j.most[j.held.device] = max(j.most[j.held.device], j.held.gpus)
	}
	return j
}

// options are the sizes that a job may have, what each is worth, and which of them it has now; −1 none.
func (j *siaJob) options(age float64, z *siaSizes, explores bool) (sizes []size, value []float64, before int) {
	before = -1
	worse := 1.0 // r^p
	if j.held.gpus > 0 && age >= siaRestart {
		r := max(age-float64(j.restarts)*siaRestart, 0) / (age + siaRestart)
		worse = math.Pow(r, siaPower) // +Inf: it stays
	}
	sizes, value = make([]size, 0, len(z.all)), make([]float64, 0, len(z.all))
	for k, c := range z.all {
		if explores && c.gpus > max(2*j.most[c.device], z.least[c.device]) && c != j.held {
			continue
		}
		v := z.value[k]
		if j.held.gpus > 0 && c != j.held {
			v = siaPenalty - worse*z.power[k]
		}
		if v <= 0 {
			continue
		}
		if c == j.held {
			before = len(sizes)
		}
		sizes, value = append(sizes, c), append(value, v)
	}
	return sizes, value, before
}

// take gives a job a size from now on; nil none.
func (j *siaJob) take(z *size, now float64) {
	switch {
	case z == nil:
		j.held = size{}
		return
	case *z == j.held:
		return
	}
	if j.ran {
		j.restarts++
	}
	j.held, j.since, j.ran = *z, now, true
}

// forget drops jobs that have gone, now and then.
func (p *sia) forget(there int) {
	if len(p.jobs) < 2*there+64 {
		return
	}
	for id, j := range p.jobs {
		if j.round != p.round {
			delete(p.jobs, id)
		}
	}
}
