package morl

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// Resets say when a critic is replaced by a fresh one, the replay buffer being kept. The zero value: never.
//
// A critic that has fitted early data can be slow to unlearn it ("primacy bias": Nikishin et al., ICML 2022). Resets help
// when there are many gradient steps to a transition, and harm when there are few: with the released curves of that
// paper, return changes from 290 to 662 at 32 updates a step and from 578 to 481 at one (10 tasks, interquartile means).
// SLA-MORL's code makes 0.1 and resets at random, target network included, with no training of the new critic before the
// actor follows it. Mode "evidence" therefore
//
//   - is off below Ratio updates a transition;
//   - fires only when severe violations persist *and* the critic explains held-out transitions badly, compared with the
//     best that it did, at two checks in a row;
//   - trains the fresh critic on the replay buffer before anything uses it, and swaps it in only when it explains the
//     held-out transitions clearly better: when the buffer itself contradicts what happens now, no critic can, and the
//     old one stays.
//
// A tenth of the places of the buffer, fixed by index, is held out of training for that.
type Resets struct {
	// Mode is "" (never), "evidence" or "random" (as the SLA-MORL code does it, to compare with).
	Mode string
	// Debt is the objective whose reward is minus the severity of violations, and Severe the severity from which a
	// violation counts; default 0.3.
	Debt   int
	Severe float64
	// Interval is the number of transitions between checks, default 200; Probability the random mode's, default 0.3,
	// multiplied by 1.2 when the last transition had a severe violation.
	Interval    int
	Probability float64

	// Window is the number of last transitions of which more than half must have a severe violation; default 200.
	Window int
	// Stale is how many times the best unexplained variance so far the present one must be; default 2.
	Stale float64
	// Cooldown is the least number of transitions between two attempts, swapped or not; default 2000.
	Cooldown int
	// Steps bounds the gradient steps of a fresh critic before the decision on it; default 2000.
	Steps int
	// Ratio is the least Config.Updates/Config.Every at which the evidence mode is on; default 1, negative: always on.
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

// Validate reports every setting that makes no sense.
func (r Resets) Validate() error {
	var errs []error
	if r.Mode != "" && r.Mode != "evidence" && r.Mode != "random" {
		errs = append(errs, fmt.Errorf("resets: mode %q, want evidence, random or nothing", r.Mode))
	}
	if r.Probability < 0 || r.Probability > 1 {
		errs = append(errs, fmt.Errorf("resets: probability %g, want 0…1", r.Probability))
	}
	if min(r.Debt, r.Interval, r.Window, r.Cooldown, r.Steps) < 0 || r.Severe < 0 || r.Stale < 0 {
		errs = append(errs, errors.New("resets: a negative setting"))
	}
	return errors.Join(errs...)
}

// Reset is one attempt to replace a critic (all critics of an ensemble).
type Reset struct {
	Step    int    // transitions the agent had observed
	Trigger string // why, in words
	// HeldOutBefore and HeldOutAfter are the shares of the targets' variance on held-out transitions that the old and the
	// new critic leave unexplained (0: none); NaN in random mode, which does not look.
	HeldOutBefore, HeldOutAfter float64
	Swapped                     bool // the new critic took over
}

// Resetter is an agent that tells of its resets, in order; empty when resets are off or none was triggered.
type Resetter interface{ ResetLog() []Reset }

const (
	heldOutShare = 10  // one in so many places of a buffer
	heldOutMost  = 256 // transitions that one check looks at, the latest held out
	heldOutLeast = 32  // with fewer there is no evidence
	// unexplainedFine is the share of unexplained variance below which a critic is never called stale.
	unexplainedFine = 0.2
	// gainLeast is how many times less than the old critic a fresh one must leave unexplained to take over.
	gainLeast = 2
	// shadowTau is the least rate of a fresh critic's target network, so that values spread within Resets.Steps.
	shadowTau   = 0.02
	shadowCheck = 100 // gradient steps of a fresh critic between looks at the held-out transitions
)

// heldOut says whether a place of a buffer is held out; place 0 is not.
func heldOut(i int) bool {
	x := uint64(i) * 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return (x^x>>31)%heldOutShare == 1
}

// renewable is what a reset needs of an agent, or of one policy of it.
type renewable interface {
	core() *learner
	// ensemble are the critics, to be looked at and replaced.
	ensemble() []*critic
	// learnCritics makes one gradient step of the critics alone on a sample of the buffer.
	learnCritics()
	// unexplained is the share of the targets' variance over a batch that the critics leave unexplained; NaN when the
	// targets do not vary. rng draws the preferences. The batch is overwritten.
	unexplained(b *Batch, rng *rand.Rand) float64
}

// renewer decides on resets. Its checks cost O(256 × parameters) every Interval transitions, an attempt at most
// Resets.Steps gradient steps.
type renewer struct {
	config  Resets
	rng     *rand.Rand
	severe  []bool // ring of the last Window transitions
	seen    int
	count   int     // severe ones in the ring
	best    float64 // least unexplained share so far
	stale   int     // checks in a row at which the critic was
	attempt int     // transitions seen at the last attempt
	held    Batch
	log     []Reset
}

func newRenewer(c Config, objectives int, seed uint64) renewer {
	r := renewer{config: c.Resets.withDefaults(), rng: stream(seed, 0x2e5e7), best: math.Inf(1)}
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

// check takes a transition's reward in and resets when due. step and label go into the log.
func (r *renewer) check(a renewable, reward []float32, step int, label string) {
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
		r.coin(a, severe, step, label)
		return
	}
	r.evidence(a, step, label)
}

// coin is the reset of SLA-MORL's code: at random, the new critic untrained.
func (r *renewer) coin(a renewable, severe bool, step int, label string) {
	p := r.config.Probability
	if severe {
		p *= 1.2
	}
	if r.rng.Float64() >= p {
		return
	}
	r.refresh(a)
	a.core().stats.Resets++
	r.log = append(r.log, Reset{Step: step, Trigger: fmt.Sprintf("%sa coin of probability %.2f", label, p), HeldOutBefore: math.NaN(),
		HeldOutAfter: math.NaN(), Swapped: true})
}

// refresh replaces the critics by untrained ones and returns the old.
func (r *renewer) refresh(a renewable) (old []critic) {
	for _, c := range a.ensemble() {
		old = append(old, *c)
		*c = *newCritic(c.online.Config, a.core().config, r.rng.Uint64(), 0)
	}
	return old
}

func (r *renewer) evidence(a renewable, step int, label string) {
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

// replaceIfBetter trains fresh critics, and lets them take over when they are clearly better than the old, which leave
// now unexplained.
func (r *renewer) replaceIfBetter(a renewable, now float64, step int, label string) {
	r.attempt, r.stale = r.seen, 0
	e := Reset{Step: step, HeldOutBefore: now, Trigger: fmt.Sprintf(
		"%s%d of the last %d transitions had a violation more severe than %g, and the critic left %.3g of the variance of held-out transitions unexplained, %.3g at its best",
		label, r.count, len(r.severe), r.config.Severe, now, r.best)}
	old := r.refresh(a)
	e.HeldOutAfter = r.train(a)
	if e.Swapped = e.HeldOutAfter*gainLeast < now; e.Swapped {
		a.core().stats.Resets++
	} else {
		for i, c := range a.ensemble() {
			*c = old[i]
		}
	}
	// What is best under the present data is not better than the better of the two.
	r.best = now
	if e.Swapped {
		r.best = e.HeldOutAfter
	}
	r.log = append(r.log, e)
}

// train trains the fresh critics until they explain as much as the best so far, at least a quarter of Steps and at most
// Steps, and returns what they leave unexplained.
func (r *renewer) train(a renewable) float64 {
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

// unexplained looks at the latest held-out transitions, always with the same preferences; NaN when they are too few.
func (r *renewer) unexplained(a renewable) float64 {
	p := a.core().replay
	if !p.latestHeldOut(&r.held) {
		return math.NaN()
	}
	return a.unexplained(&r.held, rand.New(rand.NewPCG(0x4e1d, 0)))
}

// latestHeldOut writes the latest held-out transitions into b, the newest first; false when they are too few.
func (r *Replay) latestHeldOut(b *Batch) bool {
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

// variance sums squared errors and the spread of the targets.
type variance struct {
	objectives   int
	n            float64
	sum, squares []float64
	error        float64
}

func newVariance(objectives int) *variance {
	return &variance{objectives: objectives, sum: make([]float64, objectives), squares: make([]float64, objectives)}
}

// add takes in a row's values and targets.
func (v *variance) add(q, y []float32) {
	v.n++
	for i := range v.objectives {
		e, t := float64(q[i]-y[i]), float64(y[i])
		v.error += e * e
		v.sum[i] += t
		v.squares[i] += t * t
	}
}

// share is the squared error over the variance of the targets.
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
func (l *learner) ResetLog() []Reset { return l.renew.log }

func (l *learner) core() *learner { return l }

func (p *policy) ensemble() []*critic { return p.critics }

func (p *policy) learnCritics() {
	p.smooth(p.updateCritic())
	p.stats.Updates++
}

func (p *policy) unexplained(b *Batch, _ *rand.Rand) float64 {
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

func (a *Envelope) ensemble() []*critic { return a.critics }

func (a *Envelope) learnCritics() { a.update() }

func (a *Envelope) unexplained(b *Batch, rng *rand.Rand) float64 {
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

func (a *Conditioned) ensemble() []*critic { return a.critics }

func (a *Conditioned) learnCritics() {
	a.sample(a.config.Batch)
	a.smooth(a.updateCritics(a.config.Batch))
	a.stats.Updates++
}

func (a *Conditioned) unexplained(b *Batch, rng *rand.Rand) float64 {
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
