package morl

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"trainopt/internal/wording"
)

// Resets controls the replacement of critics by fresh ones, with the replay buffer kept. The zero value disables it.
//
// A critic that has fitted early data can be slow to unlearn it ("primacy bias": Nikishin et al., ICML 2022). Resets
// help with many gradient steps per transition and harm with few: according to the released curves of that paper, the
// return changes from 290 to 662 at 32 updates per step and from 578 to 481 at one (10 tasks, interquartile means).
// SLA-MORL's code makes 0.1 updates per step and resets at random, target network included, without training the new
// critic before the actor follows it. Mode "evidence" therefore
//
//   - is off below Ratio updates per transition;
//   - triggers only if severe violations persist *and* the critic explains held-out transitions badly, compared with its
//     best result so far, at two successive checks;
//   - trains the fresh critic on the replay buffer before it is used, and swaps it in only if it explains the held-out
//     transitions clearly better: if the buffer itself contradicts current transitions, no critic can, and the old one
//     stays.
//
// For this purpose a tenth of the slots of the buffer, fixed by index, is excluded from training.
type Resets struct {
	// Mode is "" (never), "evidence" or "random" (as in SLA-MORL's code, for comparison).
	Mode string
	// Debt is the index of the objective whose reward is minus the severity of violations, and Severe the severity
	// from which a violation counts; default 0.3.
	Debt   int
	Severe float64
	// Interval is the number of transitions between checks, default 200. Probability is that of a reset in random
	// mode, default 0.3, multiplied by 1.2 if the last transition had a severe violation.
	Interval    int
	Probability float64

	// Window is the number of recent transitions of which more than half must have a severe violation; default 200.
	Window int
	// Stale is the minimum ratio of the current unexplained variance to the best so far; default 2.
	Stale float64
	// Cooldown is the minimum number of transitions between two attempts, successful or not; default 2000.
	Cooldown int
	// Steps bounds the gradient steps of a fresh critic before the decision to swap it in; default 2000.
	Steps int
	// Ratio is the minimum Config.Updates/Config.Every for evidence mode; default 1, negative: always on.
	Ratio float64
}

func (r Resets) withDefaults() Resets {
	for _, d := range []struct {
		v *float64
		d float64
	}{{&r.Severe, 0.3}, {&r.Probability, 0.3}, {&r.Stale, 2}, {&r.Ratio, 1}} {
		if *d.v == 0 {
			*d.v = d.d
		}
	}
	for _, d := range []struct {
		v *int
		d int
	}{{&r.Interval, 200}, {&r.Window, 200}, {&r.Cooldown, 2000}, {&r.Steps, 2000}} {
		if *d.v == 0 {
			*d.v = d.d
		}
	}
	return r
}

// Validate reports all invalid settings.
func (r Resets) Validate() error {
	var errs wording.Problems
	errs.If(r.Mode != "" && r.Mode != "evidence" && r.Mode != "random", "resets: mode %q, want evidence, random or nothing", r.Mode)
	errs.If(r.Probability < 0 || r.Probability > 1, "resets: probability %g, want 0…1", r.Probability)
	errs.If(min(r.Debt, r.Interval, r.Window, r.Cooldown, r.Steps) < 0 || r.Severe < 0 || r.Stale < 0, "resets: a negative setting")
	return errors.Join(errs...)
}

// reset records one attempt to replace a critic (all critics of an ensemble).
type reset struct {
	Step    int    // number of transitions observed by the agent
	Trigger string // description of the cause
	// HeldOutBefore and HeldOutAfter are the shares of the targets' variance on held-out transitions that the old and
	// the new critic leave unexplained (0: none); NaN in random mode, which does not evaluate it.
	HeldOutBefore, HeldOutAfter float64
	Swapped                     bool // the new critic replaced the old one
}

// resetter is an agent with a log of its resets, in order; empty if resets are off or none was triggered.
type resetter interface{ ResetLog() []reset }

const (
	heldOutShare = 10  // one slot in heldOutShare is held out
	heldOutMost  = 256 // maximum number of transitions per check, the most recent held-out ones
	heldOutLeast = 32  // minimum number of transitions for a check
	// unexplainedFine is the share of unexplained variance below which a critic is never considered stale.
	unexplainedFine = 0.2
	// minImprovement is the factor by which a fresh critic must reduce the unexplained variance to replace the old one.
	minImprovement = 2
	// shadowTau is the minimum update rate of a fresh critic's target network, so that values propagate within
	// Resets.Steps.
	shadowTau   = 0.02
	shadowCheck = 100 // gradient steps of a fresh critic between evaluations on held-out transitions
)

// heldOut reports whether a slot of a buffer is held out; slot 0 never is.
func heldOut(i int) bool {
	x := uint64(i) * 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return (x^x>>31)%heldOutShare == 1
}

// resettable is the part of an agent, or of one of its policies, that resets require.
type resettable interface {
	// core returns the common part of the agent.
	core() *learner
	// ensemble returns the critics, which may be replaced in place.
	ensemble() []*critic
	// learnCritics makes one gradient step of the critics only, on a sample of the buffer.
	learnCritics()
	// unexplained returns the share of the targets' variance over a batch that the critics leave unexplained; NaN if
	// the targets do not vary. rng draws the preferences. The batch is overwritten.
	unexplained(b *batch, rng *rand.Rand) float64
}

// resetController decides on resets. A check costs O(256 × parameters) every Interval transitions, an attempt at most
// Resets.Steps gradient steps.
type resetController struct {
	config  Resets
	rng     *rand.Rand
	severe  []bool // ring buffer of the last Window transitions
	seen    int
	count   int     // number of severe ones in the ring buffer
	best    float64 // smallest unexplained share so far
	stale   int     // number of successive checks with a stale critic
	attempt int     // number of transitions at the last attempt
	held    batch
	log     []reset
}

func newRenewer(c Config, objectives int, seed uint64) resetController {
	r := resetController{config: c.Resets.withDefaults(), rng: stream(seed, 0x2e5e7), best: math.Inf(1)}
	if r.config.Mode == "evidence" && float64(c.Updates)/float64(c.Every) < r.config.Ratio {
		r.config.Mode = ""
	}
	if r.config.Mode != "" && r.config.Debt >= objectives {
		panic(fmt.Sprintf("morl: resets look at objective %d of %d", r.config.Debt, objectives))
	}
	r.severe = make([]bool, r.config.Window)
	r.attempt = -r.config.Cooldown
	return r
}

// check records a transition's reward and resets when due. step and label are written to the log.
func (r *resetController) check(a resettable, reward []float32, step int, label string) {
	if r.config.Mode == "" {
		return
	}
	severe := float64(reward[r.config.Debt]) < -r.config.Severe
	at := r.seen % len(r.severe)
	if r.severe[at] {
		r.count--
	}
	if r.severe[at] = severe; severe {
		r.count++
	}
	r.seen++
	if r.seen%r.config.Interval != 0 {
		return
	}
	if r.config.Mode == "random" {
		r.resetRandomly(a, severe, step, label)
		return
	}
	r.evidence(a, step, label)
}

// resetRandomly is the reset of SLA-MORL's code: random, with an untrained new critic.
func (r *resetController) resetRandomly(a resettable, severe bool, step int, label string) {
	p := r.config.Probability
	if severe {
		p *= 1.2
	}
	if r.rng.Float64() >= p {
		return
	}
	r.refresh(a)
	a.core().stats.Resets++
	r.log = append(r.log, reset{Step: step, Trigger: fmt.Sprintf("%sa coin of probability %.2f", label, p), HeldOutBefore: math.NaN(),
		HeldOutAfter: math.NaN(), Swapped: true})
}

// refresh replaces the critics by untrained ones and returns the old ones.
func (r *resetController) refresh(a resettable) (old []critic) {
	for _, c := range a.ensemble() {
		old = append(old, *c)
		*c = *newCritic(c.online.Config, a.core().config, r.rng.Uint64(), 0)
	}
	return old
}

// evidence evaluates the critic on held-out transitions and attempts a reset if it is stale while violations persist.
func (r *resetController) evidence(a resettable, step int, label string) {
	if a.core().stats.Updates == 0 {
		return
	}
	now := r.unexplained(a)
	if math.IsNaN(now) {
		return
	}
	r.best = min(r.best, now)
	if r.stale++; now <= max(r.config.Stale*r.best, unexplainedFine) {
		r.stale = 0
	}
	if r.stale < 2 || r.seen < len(r.severe) || 2*r.count <= len(r.severe) || r.seen-r.attempt < r.config.Cooldown {
		return
	}
	r.replaceIfBetter(a, now, step, label)
}

// replaceIfBetter trains fresh critics and swaps them in if they are clearly better than the old ones, whose
// unexplained share is now.
func (r *resetController) replaceIfBetter(a resettable, now float64, step int, label string) {
	r.attempt, r.stale = r.seen, 0
	e := reset{Step: step, HeldOutBefore: now, Trigger: fmt.Sprintf(
		"%s%d of the last %d transitions had a violation more severe than %g, and the critic left %.3g of the variance of held-out transitions unexplained, %.3g at its best",
		label, r.count, len(r.severe), r.config.Severe, now, r.best)}
	old := r.refresh(a)
	e.HeldOutAfter = r.train(a)
	if e.Swapped = e.HeldOutAfter*minImprovement < now; e.Swapped {
		a.core().stats.Resets++
	} else {
		for i, c := range a.ensemble() {
			*c = old[i]
		}
	}
	// The best share on the current data is that of the better critic.
	r.best = now
	if e.Swapped {
		r.best = e.HeldOutAfter
	}
	r.log = append(r.log, e)
}

// train trains the fresh critics until they match the best share so far, for at least a quarter of Steps and at most
// Steps, and returns their unexplained share.
func (r *resetController) train(a resettable) float64 {
	l := a.core()
	tau, anneal := l.config.Tau, l.config.Anneal
	l.config.Tau, l.config.Anneal = max(tau, shadowTau), 0
	defer func() { l.config.Tau, l.config.Anneal = tau, anneal }()
	left := math.NaN()
	for done := 0; done < r.config.Steps; {
		for range min(shadowCheck, r.config.Steps-done) {
			a.learnCritics()
			done++
		}
		left = r.unexplained(a)
		if done >= r.config.Steps/4 && left <= r.best {
			break
		}
	}
	return left
}

// unexplained evaluates the most recent held-out transitions, with fixed preferences; NaN if there are too few.
func (r *resetController) unexplained(a resettable) float64 {
	p := a.core().replay
	if !p.latestHeldOut(&r.held) {
		return math.NaN()
	}
	return a.unexplained(&r.held, rand.New(rand.NewPCG(0x4e1d, 0)))
}

// latestHeldOut writes the most recent held-out transitions to b, newest first; false if there are too few.
func (r *replay) latestHeldOut(b *batch) bool {
	var rows []int
	for back := 1; back <= r.n && len(rows) < heldOutMost; back++ {
		if i := (r.next - back + r.size) % r.size; heldOut(i) {
			rows = append(rows, i)
		}
	}
	if len(rows) < heldOutLeast {
		return false
	}
	r.shapeBatch(b, len(rows))
	for k, i := range rows {
		r.fetch(b, k, i)
	}
	return true
}

// variance accumulates squared errors and the variance of the targets.
type variance struct {
	objectives   int
	n            float64
	sum, squares []float64
	error        float64
}

func newVariance(objectives int) *variance {
	return &variance{objectives: objectives, sum: make([]float64, objectives), squares: make([]float64, objectives)}
}

// add records values and targets of a row.
func (v *variance) add(q, y []float32) {
	v.n++
	for i := range v.objectives {
		e, t := float64(q[i]-y[i]), float64(y[i])
		v.error += e * e
		v.sum[i] += t
		v.squares[i] += t * t
	}
}

// share returns the squared error divided by the variance of the targets; NaN if the targets do not vary.
func (v *variance) share() float64 {
	spread := 0.0
	for i, s := range v.sum {
		spread += v.squares[i] - s*s/v.n
	}
	if spread < 1e-9*v.n {
		return math.NaN()
	}
	return v.error / spread
}

// ResetLog lists the resets of the critics, in order.
func (l *learner) ResetLog() []reset { return l.renew.log }

func (l *learner) core() *learner { return l }

func (p *policy) ensemble() []*critic { return p.critics }

func (p *policy) learnCritics() {
	p.smooth(p.updateCritic())
	p.stats.Updates++
}

func (p *policy) unexplained(b *batch, _ *rand.Rand) float64 {
	kept := p.batch
	p.batch = *b
	defer func() { p.batch = kept }()
	n, m := b.Rows, len(p.shape.Objectives)
	y := p.goal(n)
	q := p.critics[0].online.Forward(nil, p.pairs(n), n)
	v := newVariance(m)
	for k := range n {
		v.add(q[k*m:], y[k*m:])
	}
	return v.share()
}

func (a *envelope) ensemble() []*critic { return a.critics }

func (a *envelope) learnCritics() { a.update() }

func (a *envelope) unexplained(b *batch, rng *rand.Rand) float64 {
	kept, sampler := a.batch, a.sampler
	a.batch, a.sampler = *b, rng
	defer func() { a.batch, a.sampler = kept, sampler }()
	n, s, m := b.Rows, a.shape.State, len(a.shape.Objectives)
	a.draw(n)
	y := a.goal(n, 0)
	a.x = resize(a.x, n*(s+m))
	a.join(a.x, b.State, a.w, n)
	v := newVariance(m)
	for _, c := range a.critics {
		c.out = c.online.Forward(c.out, a.x, n)
		for k := range n {
			v.add(c.out[(k*a.shape.Actions+b.Action[k])*m:], y[k*m:])
		}
	}
	return v.share()
}

func (a *conditioned) ensemble() []*critic { return a.critics }

func (a *conditioned) learnCritics() {
	a.sample(a.config.Batch)
	a.smooth(a.updateCritics(a.config.Batch))
	a.stats.Updates++
}

func (a *conditioned) unexplained(b *batch, rng *rand.Rand) float64 {
	kept, sampler := a.batch, a.sampler
	a.batch, a.sampler = *b, rng
	defer func() { a.batch, a.sampler = kept, sampler }()
	n, m := b.Rows, len(a.shape.Objectives)
	a.prepare(n)
	a.follow(n)
	v := newVariance(m)
	for _, c := range a.critics {
		c.out = c.online.Forward(c.out, a.x, n)
		a.goal(c, n)
		for k := range n {
			v.add(c.out[(k*a.shape.Actions+b.Action[k])*m:], a.y[k*m:])
		}
	}
	return v.share()
}
