package engine

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"trainopt/internal/stat"
)

// runs contains the run lengths of the history as shares of the limit, in groups: all jobs, the jobs of one user, and
// those of one user with one name. It is not changed by draws.
type runs struct {
	groups []group
	users  map[string]int32
	names  map[[2]string]int32
}

// group is a set of jobs with similar run lengths.
type group struct {
	shares []float64 // of the limit, 0…1, ascending
	parent int32     // the group that contains it; −1: none
	// spread is the standard deviation of the logarithm of a share around the observation from which it is drawn.
	spread float64
}

// Concentrations of the hierarchy: the number of observations that the distribution of the containing group is worth.
const (
	nameConcentration = 1
	userConcentration = 2
	allConcentration  = 2
)

// timedOut is the share of the limit from which a job counts as ended by its limit.
const timedOut = 0.99

// shortest is the least share, so that every observation is above 0.
const shortest = 1e-6

func newRuns(q *Queue, h *History) *runs {
	r := &runs{groups: []group{{parent: -1}}, users: map[string]int32{}, names: map[[2]string]int32{}}
	for i := range h.Jobs {
		j := &h.Jobs[i]
		if j.Ended.After(q.Now) {
			continue
		}
		r.observe(j)
	}
	for g := range r.groups {
		slices.Sort(r.groups[g].shares)
	}
	r.setSpreads()
	return r
}

// observe adds a job that ran to the groups that contain it.
func (r *runs) observe(j *Job) {
	if j.Started.IsZero() || j.Ended.Before(j.Started) || j.Limit <= 0 {
		return
	}
	share := min(max(j.Ended.Sub(j.Started).Seconds()/j.Limit.Seconds(), shortest), 1)
	for g := r.group(j); g >= 0; g = r.groups[g].parent {
		r.groups[g].shares = append(r.groups[g].shares, share)
	}
}

// group returns the smallest group of a job; a new one has no observations.
func (r *runs) group(j *Job) int32 {
	name := [2]string{j.User, j.Name}
	g, ok := r.names[name]
	if ok {
		return g
	}
	user, ok := r.users[j.User]
	if !ok {
		user = r.add(0)
		r.users[j.User] = user
	}
	g = r.add(user)
	r.names[name] = g
	return g
}

func (r *runs) add(parent int32) int32 {
	r.groups = append(r.groups, group{parent: parent})
	return int32(len(r.groups) - 1)
}

// urn draws run lengths for one simulation. It is the predictive distribution of a hierarchical Dirichlet process (Teh,
// Jordan, Beal and Blei, JASA 101, 2006): a job repeats an observation of its group, or with a probability that falls
// with their number is drawn from the containing group, and finally uniformly. What is drawn becomes an observation for
// the rest of the simulation. The jobs of one user thus vary together, and the running jobs, whose length is known to
// exceed their age, correct the bias of a history that contains only short jobs because long ones have not ended.
type urn struct {
	*runs
	rand  *rand.Rand
	added [][]float64 // by group
	dirty []int32     // groups with an addition
	path  []int32
}

func newUrn(r *runs) *urn { return &urn{runs: r, added: make([][]float64, len(r.groups))} }

// reset removes what was drawn.
func (u *urn) reset(r *rand.Rand) {
	for _, g := range u.dirty {
		u.added[g] = u.added[g][:0]
	}
	u.dirty, u.rand = u.dirty[:0], r
}

// draw returns the run length of a job of a group as a share of its limit, above a share that it has already run.
func (u *urn) draw(g int32, above float64) float64 {
	if above >= timedOut {
		return 1
	}
	u.path = u.path[:0]
	share := math.NaN()
	for ; math.IsNaN(share); g = u.groups[g].parent {
		u.path = append(u.path, g)
		own := u.countAbove(g, above)
		if x := u.rand.Float64() * (float64(own) + u.backing(g, above)); x < float64(own) {
			share = u.vary(u.nth(g, above, int(x)), u.groups[g].spread, above)
		} else if u.groups[g].parent < 0 {
			share = above + u.rand.Float64()*(1-above)
		}
	}
	for _, g := range u.path {
		if len(u.added[g]) == 0 {
			u.dirty = append(u.dirty, g)
		}
		u.added[g] = append(u.added[g], share)
	}
	return share
}

// countAbove returns the number of observations of a group above a share. O(log n) and the number of additions.
func (u *urn) countAbove(g int32, above float64) int {
	base := u.groups[g].shares
	n := len(base) - firstAbove(base, above)
	for _, s := range u.added[g] {
		if s > above {
			n++
		}
	}
	return n
}

// nth returns the observation of a group above a share with a number below countAbove.
func (u *urn) nth(g int32, above float64, n int) float64 {
	base := u.groups[g].shares
	at := firstAbove(base, above) + n
	if at < len(base) {
		return base[at]
	}
	n = at - len(base)
	for _, s := range u.added[g] {
		if s > above {
			if n == 0 {
				return s
			}
			n--
		}
	}
	return 1
}

func firstAbove(sorted []float64, above float64) int {
	return sort.Search(len(sorted), func(i int) bool { return sorted[i] > above })
}

// backing returns the weight of the containing group in a group, above a share: its concentration times the
// probability of a larger share in the containing group.
func (u *urn) backing(g int32, above float64) float64 {
	parent := u.groups[g].parent
	switch {
	case parent < 0:
		return allConcentration * (1 - above)
	case parent == 0:
		return userConcentration * u.survival(parent, above)
	}
	return nameConcentration * u.survival(parent, above)
}

// survival returns the probability of a share above another one in a group.
func (u *urn) survival(g int32, above float64) float64 {
	if above <= 0 {
		return 1
	}
	n := float64(len(u.groups[g].shares) + len(u.added[g]))
	return (float64(u.countAbove(g, above)) + u.backing(g, above)) / (n + u.backing(g, 0))
}

// vary returns a share close to an observed one and above another one; jobs that reached their limit reach it again.
func (u *urn) vary(share, spread, above float64) float64 {
	if share >= timedOut {
		return 1
	}
	v := min(share*math.Exp(spread*u.rand.NormFloat64()), 1)
	if v <= above {
		return share
	}
	return v
}

// Bounds of the spread, and its value where no name has enough observations.
const (
	leastSpread   = 0.05
	mostSpread    = 0.5
	defaultSpread = 0.3
	// enough is the number of observations from which the spread of a group is its own.
	enough = 8
)

// setSpreads sets the bandwidths of the groups by Silverman's rule (Density Estimation, 1986, eq. 3.31), with the
// interquartile range. Groups with few observations use the median of the names that have enough.
func (r *runs) setSpreads() {
	var known []float64
	for _, n := range r.names {
		if s := r.groups[n].shares; len(s) >= enough {
			known = append(known, deviation(s))
		}
	}
	pooled := defaultSpread
	if len(known) > 0 {
		pooled = stat.Median(known)
	}
	for i := range r.groups {
		g := &r.groups[i]
		d := pooled
		if len(g.shares) >= enough {
			d = deviation(g.shares)
		}
		g.spread = min(max(0.9*d*math.Pow(float64(max(len(g.shares), 1)), -0.2), leastSpread), mostSpread)
	}
}

// deviation returns the standard deviation of the logarithms of ascending shares, estimated from the quartiles.
func deviation(shares []float64) float64 {
	return math.Log(stat.Quantile(shares, 0.75)/stat.Quantile(shares, 0.25)) / 1.349
}
