package cluster

import (
	"fmt"
	"math"
	"slices"

	"trainopt/optimizer/schedule"
	"trainopt/simulator/workload"
)

// gavel is the round-based mechanism of Gavel (OSDI 2020, section 5) exactly as simulated by the published code:
// commit c4fa4009 of stanford-futuredata/gavel. In each round of 6 minutes, the entries (jobs and, under packing
// policies, pairs) with the highest ratio of share due to share received are chosen greedily, type by type. Its
// defects affect results to the last digit and are reproduced:
//
//   - Shares are recomputed only after arrivals or completions and at least 1920 s after the last decision; jobs that
//     arrive in between wait.
//   - The time received starts at half a round, and at 0 for pairs that were just created.
//   - Entries without a share fill idle devices, unless the policy has OnlyShares. Entries that the last decision did
//     not include hold devices without running.
//   - A round ends with its last piece of work: devices of a job that ends earlier stay idle, and after a round
//     without work, the next work is charged from the end of the last round.
//   - Steps of a round are rounded down and distributed over devices in whole numbers: a job with less than one step
//     per device left fails, and is abandoned after five failures.
//
// Sums follow the order of the original and need explicit conversions: fused multiply-add would resolve ties
// differently.
type gavel struct {
	*simulation
	entries []*entry          // in order of creation
	pairs   map[[2]int]*entry // by numbers of both jobs, the lower one first
	total   []float64         // time received by all entries since the last decision, by device type

	shuffle   *workload.Python
	order     []int // device types in the order in which they are filled in this round
	decideNow bool  // jobs arrived or completed since the last decision
	reset     float64
	round     int
	turns     int // number of entries ever created

	roundStart, roundEnd float64
	running              []piece // in descending order of finish time
	latest               mergeSorter[piece]
	placed               []*entry
	ran                  bool // a round was run before
	stuck                bool // nothing ran in the last round, and no further job arrives
	foregone             bool // the last choice contained every entry that may be chosen

	selection
	placement
}

// piece is the work of an entry in a round.
type piece struct {
	entry       *entry
	finish      float64
	steps, both float64 // steps of the first and of the second job
}

// before orders pieces by descending finish time.
func (p *piece) before(o *piece) bool {
	return p.finish > o.finish || p.finish == o.finish && p.entry.a.number < o.entry.a.number
}

// maxFailures is the number of consecutive rounds without progress after which a job is abandoned.
const maxFailures = 5

func newGavel(s *simulation) *gavel {
	g := &gavel{
		simulation: s, pairs: map[[2]int]*entry{}, total: make([]float64, len(s.Devices)),
		shuffle: workload.NewPython(s.Seed + 5), decideNow: true,
	}
	g.latest.before = (*piece).before
	g.selection.init(s.Devices, s.GlobalQueue)
	g.placement.init(s.Devices)
	return g
}

// step simulates one round: it books the work of the previous round, admits arrivals, decides if due, and chooses,
// places and starts the entries of the next round.
func (g *gavel) step() error {
	g.advance()
	for i := range g.running {
		g.complete(&g.running[i])
	}
	g.forget()
	g.arrive(g.enter)
	if err := g.maybeDecide(); err != nil {
		return err
	}
	g.typeOrder()
	if g.foregone && slices.ContainsFunc(g.placed, func(e *entry) bool { return !e.gone() }) {
		g.repeat()
		return nil
	}
	g.choose()
	g.place()
	g.dispatch()
	return g.unblock()
}

// advance moves the clock to the end of the round or, when nothing runs, to the next arrival.
func (g *gavel) advance() {
	if len(g.running) > 0 && g.running[0].finish > 0 {
		if g.ran {
			g.roundStart = g.roundEnd
		}
		g.ran, g.roundEnd = true, g.running[0].finish
		g.now = g.roundEnd
	} else if next := g.source.peek(); next != nil {
		g.now = max(g.now, next.Arrival)
	}
}

// complete books a piece of work.
func (g *gavel) complete(p *piece) {
	g.events++
	e := p.entry
	if g.learn(&e.rated, e.device) {
		g.foregone = false
	}
	seconds := p.finish - g.roundStart
	if !worked(p.steps, e.gpus, seconds) || e.b != nil && !worked(p.both, e.gpus, seconds) {
		g.fail(e)
		return
	}
	g.charge(e.a, e.b, e.gpus, e.device, g.roundStart, seconds, 1)
	g.progress(e.a, p.steps, p.finish)
	if e.b != nil {
		g.progress(e.b, p.both, p.finish)
	} else {
		e.a.failures = 0
	}
	e.got[e.device] += seconds
	g.total[e.device] += seconds
}

// worked reports whether every device had a step to perform and time for it. Steps are distributed in equal whole
// numbers, with the remainder on the last device.
func worked(steps float64, gpus int, seconds float64) bool {
	return steps > 0 && (gpus == 1 || steps >= float64(gpus)) && seconds > 0
}

// fail counts a round without progress of a single job and abandons the job after maxFailures of them.
func (g *gavel) fail(e *entry) {
	g.decideNow = true
	if e.b != nil {
		return
	}
	if e.a.failures++; e.a.failures >= maxFailures {
		g.warnings.add("jobs abandoned because they had less than a step per device left, as in Gavel's simulation", e.a.ID)
		g.end(e.a, math.NaN())
	}
}

// progress adds completed steps to a job and ends it when none remain.
func (g *gavel) progress(j *job, steps, at float64) {
	j.done += steps
	if j.remaining() <= 0 {
		g.end(j, at)
		g.decideNow = true
	}
}

// forget drops the entries of jobs that have ended.
func (g *gavel) forget() {
	if !slices.ContainsFunc(g.placed, (*entry).gone) {
		return
	}
	g.removeEnded()
	for _, e := range g.entries {
		if e.b != nil && e.gone() {
			delete(g.pairs, [2]int{e.a.number, e.b.number})
		}
	}
	g.entries = slices.DeleteFunc(g.entries, (*entry).gone)
	g.selection.forget()
}

// enter adds a job, and the pairs with active jobs of its size.
func (g *gavel) enter(j *job) {
	g.decideNow = true
	j.alone = newEntry(j, nil, j.kind.rate, nil, g.Interval/2)
	g.append(j.alone)
	if !g.traits.Packs {
		return
	}
	for _, other := range g.active {
		if other != j && other.GPUs == j.GPUs {
			r := g.estimatedRates(other, j)
			e := newEntry(other, j, r.a, r.b, 0)
			g.append(e)
			g.pairs[[2]int{other.number, j.number}] = e
		}
	}
}

func (g *gavel) append(e *entry) {
	e.turn = g.turns
	g.turns++
	g.entries = append(g.entries, e)
}

// maybeDecide updates the deficits and calls the policy, if a decision is due.
func (g *gavel) maybeDecide() error {
	if !g.decideNow || g.reset != 0 && g.now-g.reset < g.MinRecompute {
		return nil
	}
	g.settle()
	a, err := g.decide()
	if err != nil {
		return err
	}
	for _, e := range g.entries {
		e.known = true
		clear(e.x)
	}
	for _, shares := range a.Entries {
		e := g.entryOf(shares)
		for d, x := range shares.X {
			e.x[d] = min(max(x, 0), 1)
		}
	}
	g.selection.line(g.entries)
	g.decideNow, g.foregone = false, false
	return nil
}

// entryOf returns the entry for the jobs of an allocation's entry.
func (g *gavel) entryOf(e schedule.Entry) *entry {
	if e.B < 0 {
		return g.active[e.A].alone
	}
	return g.pairs[[2]int{g.active[min(e.A, e.B)].number, g.active[max(e.A, e.B)].number}]
}

// settle adds the difference between time due and time received since the last decision to the deficit of each entry.
func (g *gavel) settle() {
	elapsed, half := g.now-g.reset, g.Interval/2
	for d := range g.total {
		g.total[d] = 0
		for _, e := range g.entries {
			received := e.got[d] - half
			due := 0.0
			if e.known {
				due = float64(e.x[d] * elapsed)
			}
			e.deficit[d] += due - received
			e.got[d] = half
			g.total[d] += half
		}
	}
	g.reset = g.now
}

// typeOrder computes the order in which device types are filled: descending by name, shuffled for policies that do
// not distinguish types.
func (g *gavel) typeOrder() {
	g.order = g.order[:0]
	for d := len(g.Devices) - 1; d >= 0; d-- {
		g.order = append(g.order, d)
	}
	if !g.traits.FixedOrder {
		workload.Shuffle(g.shuffle, g.order)
	}
}

// choose selects the entries that run in this round.
func (g *gavel) choose() {
	g.round++
	g.selection.start(g.round, len(g.active), g.Devices)
	for at := 0; at < len(g.order); {
		types := g.order[at:]
		if !g.GlobalQueue {
			types = types[:1]
		}
		g.selection.fill(types, g.total)
		if !g.traits.OnlyShares {
			g.selection.fillUp(types, g.entries)
		}
		at += len(types)
	}
	g.foregone = g.traits.OnlyShares && g.selection.everyone
}

// repeat continues the entries of the last round that have not ended on the same devices, which choosing and placing
// would yield as well.
func (g *gavel) repeat() {
	g.running = slices.DeleteFunc(g.running, func(p piece) bool { return p.entry.gone() })
	g.countChances()
	g.placed = slices.DeleteFunc(g.placed, (*entry).gone)
	g.lease.Extended += len(g.placed)
	for i := range g.running {
		e := g.running[i].entry
		e.stays = true
		g.running[i] = g.piece(e, 0)
	}
	g.latest.sort(g.running)
}

// place assigns devices to the chosen entries.
func (g *gavel) place() {
	g.countChances()
	g.placement.start(g.round)
	for _, d := range g.order {
		g.placement.put(d, g.selection.chosen[d])
	}
	for _, e := range g.placement.placed {
		if e.stays {
			g.lease.Extended++
		}
	}
	for _, e := range g.placed {
		e.device = -1
	}
	g.placed, g.placement.placed = g.placement.placed, g.placed
	for _, e := range g.placed {
		e.slot, e.next = e.next, e.slot
	}
}

// countChances counts the entries of the last round that have not ended.
func (g *gavel) countChances() {
	for _, e := range g.placed {
		if !e.a.gone || e.b != nil && !e.b.gone {
			g.lease.Ended++
		}
	}
}

// dispatch starts the work of the round.
func (g *gavel) dispatch() {
	before := g.running
	g.running = g.running[:0]
	for i := range before { // in the order of the last round, which is nearly sorted
		if e := before[i].entry; e.device >= 0 {
			g.launch(e)
		}
	}
	for _, e := range g.placed {
		if e.begun != g.round {
			g.launch(e)
		}
	}
	g.latest.sort(g.running)
}

// launch starts the work of an entry.
func (g *gavel) launch(e *entry) {
	e.begun = g.round
	g.running = append(g.running, g.piece(e, g.resume(e)))
}

// piece returns the work of an entry in this round after a delay. It ends when the last of its jobs has completed its
// steps.
func (g *gavel) piece(e *entry, delay float64) piece {
	p := piece{entry: e, finish: g.now}
	rate, rateB := g.actualRates(&e.rated, e.device)
	p.steps = g.plan(&p, e.a, rate, delay)
	if e.b != nil {
		p.both = g.plan(&p, e.b, rateB, delay)
	}
	return p
}

// plan returns the whole number of steps that a job performs in this round, and extends the finish time of the piece.
func (g *gavel) plan(p *piece, j *job, rate, delay float64) float64 {
	if rate <= 0 {
		return 0
	}
	steps := min(math.Trunc(rate*(g.Interval-delay)), j.remaining())
	p.finish = max(p.finish, g.now+delay+steps/rate)
	return steps
}

// resume charges the preemption loss of the jobs of an entry that continue elsewhere and returns the delay in
// seconds.
func (g *gavel) resume(e *entry) float64 {
	delay := 0.0
	for _, j := range []*job{e.a, e.b} {
		if j == nil {
			continue
		}
		if j.started && !e.stays {
			g.paused.count++
			delay = min(g.Preemption.Seconds, g.Interval)
			g.paused.seconds += float64(delay * float64(j.GPUs))
			j.done = max(0, j.done-g.Preemption.Steps)
		}
		j.started = true
	}
	return delay
}

// unblock forces a decision when nothing runs and no further job arrives, which the original does by resetting its
// timer. If nothing runs even then, the policy has failed.
func (g *gavel) unblock() error {
	if len(g.running) > 0 || len(g.active) == 0 || g.source.peek() != nil {
		g.stuck = false
		return nil
	}
	if g.stuck {
		return &policyError{g.traits.Name, g.now, g.active[0].ID,
			fmt.Errorf("it gives no device to any of the %d jobs, and no other will come", len(g.active))}
	}
	g.stuck, g.reset, g.decideNow = true, 0, true
	return nil
}
