package share

import (
	"math"
	"slices"

	"trainopt/optimizer/schedule"
)

// sia jointly chooses a device type and a number of devices for every job (Jayaram Subramanya et al., "Sia:
// Heterogeneity-aware, goodput-optimized ML-cluster scheduling", SOSP 2023, section 3). It minimizes Σ_i (r_i·G_i)^p
// over the jobs with devices plus λ for each job without, with p = −1/2 and λ = 1.1. G is the rate of a job at a
// size, relative to its lowest rate. r is 1 at the current size of the job and elsewhere its restart factor (T −
// N·S)/(T + S), where T is the age of the job, N its number of restarts and S the duration of a restart; r is 1 for
// waiting jobs and for jobs younger than S. Sizes are those of the paper: powers of two within a server, then whole
// servers.
//
// Rates are known in advance, as in the paper's runs with oracle profiles. sia_exploring adds the paper's rule for
// jobs with unknown rates: on each type a job receives at most twice the number of devices that it held there for a
// round, starting at the smallest number on which it runs.
//
// The paper solves the integer program by branch and bound to 10⁻⁴. Here, prices of devices yield a bound (the
// Lagrangian dual) and a solution that is improved by local search, see siaProgram. Further differences: it decides
// immediately after arrivals and completions, and otherwise every 6 minutes, since only restart factors have changed
// then (the paper: every 60 s, as sia_exploring does while jobs may grow); S is the same for all models; and a job
// may be moved while it restarts. Rates take the place of goodput; they are goodput if the throughput table contains
// it, as that of Sia's profiles in package workload does. Under load, jobs that scale badly may wait for a very long time.
//
// It uses rates by number of devices, not the length of jobs.
type sia struct {
	explores bool            // limits growth to doubling
	jobs     map[int]*siaJob // by ID
	sizes    map[string]*siaSizes
	prices   []float64 // dual prices of the last decision
	round    int
	active   []*siaJob // of the jobs of the last decision, in their order; nil where a job has none

	chosen  []*size    // solution of the last program
	ids     []int      // IDs of its jobs
	decided float64    // time of the last program
	loss    float64    // of the last program, see MaxLoss
	program siaProgram // the last one, whose memory is reused
	values  []float64  // of its jobs, reused
	some    []size     // of those to which not all sizes are available; chosen points to them
}

// siaJob is the state of a job between decisions.
type siaJob struct {
	Held     size // GPUs is 0 without devices
	Since    float64
	Ran      bool // has run at some time
	Restarts int
	Most     []int // by type: largest number of devices held for a round
	Round    int   // last decision at which the job was active
	kind     string
	sizes    *siaSizes // of a job of this kind; nil: unknown
}

// siaSizes contains the sizes at which jobs of a type run, by number of devices, and the value λ − G^p of each.
type siaSizes struct {
	all   []size
	value []float64
	power []float64 // G^p
	least []int     // by device type: smallest number of devices on which the job runs
}

const (
	siaPower       = -0.5
	siaPenalty     = 1.1 // λ
	siaRestart     = 60  // S, seconds
	siaRoundLength = 60  // seconds
	siaPeriod      = 360 // interval of decisions without arrivals and completions, seconds
)

// newSia returns the constructor of the policy; explores is for jobs with unknown rates, as far as these limit growth.
func newSia(explores bool) func(Options) schedule.Policy {
	return func(Options) schedule.Policy {
		return &sia{explores: explores, jobs: map[int]*siaJob{}, sizes: map[string]*siaSizes{}}
	}
}

// Traits sets OnlyShares: jobs without devices wait.
func (p *sia) Traits() schedule.Traits {
	t := schedule.Traits{Name: "Sia", FixedOrder: true, OnlyShares: true, Period: siaPeriod}
	if p.explores {
		t.Period = siaRoundLength
	}
	return t
}

// Decide decides shares and, if the snapshot has rates by number of devices, these numbers.
func (p *sia) Decide(s *schedule.Snapshot) (schedule.Allocation, error) {
	if s.SizedRate != nil {
		return p.decide(s, func(i int, j *siaJob) *siaSizes {
			if j != nil && j.sizes != nil && j.kind == s.Jobs[i].Type {
				return j.sizes
			}
			z, ok := p.sizes[s.Jobs[i].Type]
			if !ok {
				z = newSiaSizes(siaConfigurations(s, i), len(s.Devices))
				p.sizes[s.Jobs[i].Type] = z
			}
			if j != nil {
				j.kind, j.sizes = s.Jobs[i].Type, z
			}
			return z
		}), nil
	}
	sizes := rigid(s)
	return p.decide(s, func(i int, _ *siaJob) *siaSizes { return newSiaSizes(sizes[i], len(s.Devices)) }), nil
}

// MaxLoss implements schedule.Certified.
func (p *sia) MaxLoss() float64 { return p.loss }

// State implements schedule.Stateful.
func (p *sia) State() []any {
	return []any{&p.jobs, &p.prices, &p.round, &p.chosen, &p.ids, &p.decided}
}

// siaConfigurations returns sizes with powers of two within a server, then whole servers.
func siaConfigurations(s *schedule.Snapshot, i int) []size {
	var out []size
	for d, t := range s.Devices {
		server := t.PerServer
		if server < 2 { // the size of servers is unknown
			server = t.Count
		}
		for g := 1; g <= t.Count; {
			if r := s.SizedRate(s.Jobs[i].Job, d, g); r > 0 {
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
	slices.SortStableFunc(out, func(a, b size) int { return a.GPUs - b.GPUs })
	return out
}

// newSiaSizes computes the values of sizes, which must be sorted by number of devices.
func newSiaSizes(all []size, types int) *siaSizes {
	z := &siaSizes{all: all, value: make([]float64, len(all)), power: make([]float64, len(all)), least: make([]int, types)}
	least := math.Inf(1)
	for _, c := range all {
		least = min(least, c.Rate)
		if z.least[c.Device] == 0 {
			z.least[c.Device] = c.GPUs
		}
	}
	for k, c := range all {
		z.power[k] = math.Pow(c.Rate/least, siaPower)
		z.value[k] = siaPenalty - z.power[k]
	}
	return z
}

// decide builds and solves the program and updates the state of the jobs. Waiting jobs with the same sizes are equal
// and evaluated once. The last solution is reused if nothing but restart factors has changed recently.
func (p *sia) decide(s *schedule.Snapshot, sizes func(job int, state *siaJob) *siaSizes) schedule.Allocation {
	p.round++
	if p.nothingNew(s) {
		return sizedShares(s, p.chosen)
	}
	p.values, p.some = p.values[:0], make([]size, 0, cap(p.some))
	g, n := &p.program, len(s.Jobs)
	g.sizes, g.value, g.before, g.same = resized(g.sizes, n), resized(g.value, n), resized(g.before, n), resized(g.same, n)
	g.room, _ = freeDevices(s)
	g.prices = p.prices
	waiting := map[*siaSizes]int{}
	jobs := p.find(s)
	for i := range s.Jobs {
		j := jobs[i]
		z := sizes(i, j)
		g.same[i], g.before[i] = i, -1
		if j == nil || j.Held.GPUs == 0 && (!j.Ran || !p.explores) { // no restart to account for
			if first, ok := waiting[z]; ok {
				g.same[i], g.sizes[i], g.value[i] = first, g.sizes[first], g.value[first]
				continue
			}
			waiting[z] = i
		}
		if j == nil {
			j = newSiaJob(len(s.Devices))
		}
		g.sizes[i], g.value[i], g.before[i] = p.options(j, s.Now-s.Jobs[i].Arrival, z)
	}
	held := g.solve()
	p.loss = g.maxLoss()
	p.prices, p.chosen, p.ids, p.decided = g.prices, held, slices.Grow(p.ids[:0], n), s.Now
	// Record the devices held from now on.
	for i, z := range held {
		id := s.Jobs[i].ID
		p.ids = append(p.ids, id)
		j := jobs[i]
		if j == nil && z != nil {
			j = newSiaJob(len(s.Devices))
			j.Round, p.jobs[id], jobs[i] = p.round, j, j
		}
		if j != nil {
			j.take(z, s.Now)
		}
	}
	p.active = jobs
	p.forget(len(s.Jobs))
	return sizedShares(s, held)
}

// nothingNew reports whether the last program was solved recently for the same jobs and none of them may have more
// devices since, so that only restart factors have changed.
func (p *sia) nothingNew(s *schedule.Snapshot) bool {
	if len(s.Jobs) != len(p.ids) || s.Now-p.decided >= siaPeriod {
		return false
	}
	same := true
	for i := range s.Jobs {
		if s.Jobs[i].ID != p.ids[i] {
			return false
		}
		same = !p.see(p.jobs[p.ids[i]], s.Now) && same
	}
	return same
}

func newSiaJob(types int) *siaJob { return &siaJob{Most: make([]int, types)} }

// see updates the state of an active job with the devices that it has held for a round, and reports whether it held
// fewer of this type before.
func (p *sia) see(j *siaJob, now float64) bool {
	if j == nil {
		return false
	}
	j.Round = p.round
	if j.Held.GPUs == 0 || now-j.Since < siaRoundLength*(1-1e-9) || j.Held.GPUs <= j.Most[j.Held.Device] {
		return false
	}
	j.Most[j.Held.Device] = j.Held.GPUs
	return true
}

// find returns the updated states of all jobs, nil for one that has not held devices. Jobs of the last decision come in
// the same order as then, and most of them are still there.
func (p *sia) find(s *schedule.Snapshot) []*siaJob {
	out, k := make([]*siaJob, len(s.Jobs)), 0
	for i := range s.Jobs {
		at := k
		for at < len(p.active) && p.ids[at] != s.Jobs[i].ID {
			at++
		}
		if at < len(p.active) {
			out[i], k = p.active[at], at+1
		} else { // it has arrived since
			out[i] = p.jobs[s.Jobs[i].ID]
		}
		p.see(out[i], s.Now)
	}
	return out
}

// options returns the sizes available to a job, their values, and the index of its current size; −1: none.
func (p *sia) options(j *siaJob, age float64, z *siaSizes) (sizes []size, value []float64, before int) {
	before = -1
	worse := 1.0 // r^p
	if j.Held.GPUs > 0 && age >= siaRestart {
		r := max(age-float64(j.Restarts)*siaRestart, 0) / (age + siaRestart)
		worse = math.Pow(r, siaPower) // +Inf: the job is not moved
	}
	sizes, from, first := z.all, len(p.values), len(p.some)
	for k, c := range z.all {
		v := z.value[k]
		if j.Held.GPUs > 0 && c != j.Held {
			v = siaPenalty - worse*z.power[k]
		}
		if v <= 0 || p.explores && c.GPUs > max(2*j.Most[c.Device], z.least[c.Device]) && c != j.Held { // left out
			if len(p.values)-from == k {
				p.some = append(p.some, z.all[:k]...)
			}
			continue
		}
		n := len(p.values) - from
		if c == j.Held {
			before = n
		}
		if n < k {
			p.some = append(p.some, c)
		}
		p.values = append(p.values, v)
	}
	if n := len(p.values) - from; n < len(z.all) {
		sizes = p.some[first : first+n : first+n]
	}
	return sizes, p.values[from:len(p.values):len(p.values)], before
}

// take assigns a size to a job from now on; nil: none.
func (j *siaJob) take(z *size, now float64) {
	switch {
	case z == nil:
		j.Held = size{}
		return
	case *z == j.Held:
		return
	}
	if j.Ran {
		j.Restarts++
	}
	j.Held, j.Since, j.Ran = *z, now, true
}

// forget occasionally removes the state of ended jobs.
func (p *sia) forget(there int) {
	if len(p.jobs) < 2*there+64 {
		return
	}
	for id, j := range p.jobs {
		if j.Round != p.round {
			delete(p.jobs, id)
		}
	}
}
