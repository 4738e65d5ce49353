package colocate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"trainopt/internal/stat"
	"trainopt/optimizer/schedule/place"
)

// Measurer measures a pattern by repeated cycles until enough returns true after one. It returns an error if a program
// fails, or that of the context.
type Measurer interface {
	Measure(ctx context.Context, counts []uint8, enough func(cycle) bool) error
}

// Profile measures patterns of apps.
type Profile struct {
	Apps     []string
	Capacity int // containers of a node, 1 to 255
	// Share is the share of all patterns to be measured, singles included; 0: all. Pairs are measured first, then the
	// patterns whose estimate from the others is most uncertain.
	Share float64
	// Only lists the patterns to be measured instead, single containers among them; nil: a share of all.
	Only    [][]uint8
	Known   []Row // of an earlier profile; not measured again
	Seed    uint64
	Limits  Limits
	Budget  time.Duration // no cycle is started afterwards; 0: unlimited
	Now     func() time.Duration
	Measure Measurer
	// Replay contains the rows of an earlier profile, which are taken instead of measuring, to try a share. nil: none.
	Replay []Row
	// Report is called with a row when its visit ends; done and total count patterns. nil: no reports.
	Report func(row Row, done, total int)
	// Warn is called with the error of a visit that is repeated later. nil: no warnings.
	Warn func(error)

	table  *place.Table // numbers the patterns
	states []state      // by pattern
	order  []int        // patterns in random order
	target int          // patterns to measure
	until  time.Duration
}

// state is the progress of a pattern.
type state struct {
	cycles []cycle
	row    *Row
	visits int
	known  bool // measured before this profile
}

// Cycles of a visit: at most visitCycles, and further visits until the pattern has mostCycles.
const visitCycles, mostCycles = 6, 40

// mostFailures is the number of consecutive visits that fail before a profile does.
const mostFailures = 3

// members is the number of bootstrap samples that judge the uncertainty of an estimate.
const members = 16

// Run measures until every selected pattern has a narrow interval, the budget is spent or the context ends, the error of
// which it returns. Rows contains the results at any time.
func (p *Profile) Run(ctx context.Context) error {
	if err := p.prepare(); err != nil {
		return err
	}
	for failures := 0; !p.late(); {
		at, err := p.next()
		if err != nil || at < 0 {
			return err
		}
		if err = p.visit(ctx, at); err == nil {
			failures = 0
			continue
		}
		err = fmt.Errorf("measure %s: %w", Label(p.Apps, p.table.Counts(at)), err)
		if failures++; failures == mostFailures || ctx.Err() != nil {
			return err
		}
		if p.Warn != nil {
			p.Warn(err)
		}
	}
	return nil
}

// prepare numbers the patterns and enters the known rows.
func (p *Profile) prepare() (err error) {
	if p.table, err = place.NewTable(p.Apps, p.Capacity, func([]uint8, []float64) {}); err != nil {
		return err
	}
	p.Limits = p.Limits.withDefaults()
	n := p.table.Patterns()
	p.states = make([]state, n)
	p.order = rand.New(rand.NewPCG(p.Seed, 0)).Perm(n)
	p.target = n - 1
	if p.Share > 0 {
		p.target = int(math.Ceil(p.Share*float64(n-1) - 1e-9))
	}
	p.target = max(p.target, len(p.Apps))
	known := slices.Clip(p.Known)
	if p.Only == nil {
		for a := range p.Apps {
			known = append(known, singleRow(len(p.Apps), a))
		}
	}
	for _, r := range known {
		at := p.table.Index(r.Counts)
		if at < 1 {
			return fmt.Errorf("the table has a row of %v containers: a node holds 1 to %d", r.Counts, p.Capacity)
		}
		if p.states[at].row == nil {
			p.states[at] = state{row: &r, known: true}
		}
	}
	if p.Only != nil {
		only := map[int]bool{}
		for _, c := range p.Only {
			only[p.table.Index(c)] = true
		}
		p.order = slices.DeleteFunc(p.order, func(at int) bool { return !only[at] })
		p.target = len(p.order)
	}
	p.order = slices.DeleteFunc(p.order, func(at int) bool { return at == 0 })
	p.until = time.Duration(math.MaxInt64)
	if p.Budget > 0 {
		p.until = p.Now() + p.Budget
	}
	return nil
}

func (p *Profile) late() bool { return p.Now() >= p.until }

// next returns the pattern to visit, −1 when all is done: first one that was not measured, while fewer than the target
// were; then the one with the fewest visits whose interval is too wide.
func (p *Profile) next() (int, error) {
	var open, wide []int
	done := 0
	for _, at := range p.order {
		switch s := &p.states[at]; {
		case s.row == nil && s.visits == 0:
			open = append(open, at)
		case s.row == nil && s.visits < mostFailures || s.row != nil && !s.known && (s.row.Wide || s.row.Disturbed) && len(s.cycles) < mostCycles:
			wide = append(wide, at)
			done++
		default:
			done++
		}
	}
	if len(open) > 0 && done < p.target {
		return p.choose(open, done+len(open) > p.target)
	}
	if len(wide) == 0 {
		return -1, nil
	}
	return slices.MinFunc(wide, func(a, b int) int { return cmp.Compare(p.states[a].visits, p.states[b].visits) }), nil
}

// choose returns the next of the patterns that were not measured. If not all will be, it is a pair, else the one whose
// estimated throughput is most uncertain.
func (p *Profile) choose(open []int, some bool) (int, error) {
	if !some {
		return open[0], nil
	}
	for _, at := range open {
		if sizeOf(p.table.Counts(at)) == 2 {
			return at, nil
		}
	}
	doubt, err := Samples(p.Apps, p.Rows()).Doubt(p.Capacity, members, p.Seed)
	if err != nil {
		return 0, err
	}
	return slices.MaxFunc(open, func(a, b int) int { return cmp.Compare(doubt[a], doubt[b]) }), nil
}

// errBudget ends a measurement when the budget is spent.
var errBudget = errors.New("the budget is spent")

// visit adds cycles to a pattern.
func (p *Profile) visit(ctx context.Context, at int) error {
	s := &p.states[at]
	s.visits++
	counts := p.table.Counts(at)
	if p.Replay != nil {
		return p.replay(s, counts)
	}
	if p.Budget > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, p.until-p.Now(), errBudget)
		defer cancel()
		ctx = limited
	}
	had := len(s.cycles)
	err := p.Measure.Measure(ctx, counts, func(c cycle) bool {
		s.cycles = append(s.cycles, c)
		r := newRow(counts, s.cycles, p.Limits)
		if len(s.cycles) > 1 {
			s.row = &r
		}
		return !r.Wide && !r.Disturbed || len(s.cycles)-had >= visitCycles || len(s.cycles) >= mostCycles || p.late()
	})
	if s.row != nil && p.Report != nil && len(s.cycles) > had {
		p.Report(*s.row, p.measured(), p.target)
	}
	if errors.Is(context.Cause(ctx), errBudget) {
		return nil
	}
	return err
}

// replay takes the row of a pattern from an earlier profile.
func (p *Profile) replay(s *state, counts []uint8) error {
	for _, r := range p.Replay {
		if slices.Equal(r.Counts, counts) {
			*s = state{row: &r, known: true}
			return nil
		}
	}
	return errors.New("it is not among the replayed rows")
}

// Rows returns the known and the measured rows in the order of their patterns.
func (p *Profile) Rows() []Row {
	var out []Row
	for _, s := range p.states {
		if s.row != nil {
			out = append(out, *s.row)
		}
	}
	return out
}

// Missing returns the number of selected patterns that were not measured.
func (p *Profile) Missing() int { return max(0, p.target-p.measured()) }

// measured returns the number of selected patterns with a row.
func (p *Profile) measured() int {
	return stat.Count(p.order, func(at int) bool { return p.states[at].row != nil })
}

// Label names a pattern: "redis + 2 matrix".
func Label(apps []string, counts []uint8) string {
	text := ""
	for a, k := range counts {
		if k == 0 {
			continue
		}
		if text != "" {
			text += " + "
		}
		if k > 1 {
			text += fmt.Sprint(k, " ")
		}
		text += apps[a]
	}
	return text
}

// Patterns returns the number of patterns of a node, without the empty one. It is valid after Run.
func (p *Profile) Patterns() int { return p.table.Patterns() - 1 }
