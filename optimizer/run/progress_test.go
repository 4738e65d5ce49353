package run

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"trainopt/internal/stat"
	"trainopt/monitor/trainlog"
	"trainopt/optimizer/launch"
	"trainopt/resources"
)

// at converts seconds to an elapsed time.
func at(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// row returns a log row from alternating columns and values.
func row(pairs ...float64) *trainlog.Row {
	r := &trainlog.Row{}
	for i := 0; i+1 < len(pairs); i += 2 {
		r.Set(trainlog.Column(pairs[i]), pairs[i+1])
	}
	return r
}

// epochRow is the usual row: epoch and total epochs.
func epochRow(done, total float64) *trainlog.Row {
	if total == 0 {
		return row(float64(trainlog.Epoch), done)
	}
	return row(float64(trainlog.Epoch), done, float64(trainlog.TotalEpochs), total)
}

func stepRow(done, total float64) *trainlog.Row {
	if total == 0 {
		return row(float64(trainlog.Step), done)
	}
	return row(float64(trainlog.Step), done, float64(trainlog.TotalSteps), total)
}

var fourCPUs = resources.Allocation{CPUs: 4, Memory: 8}

// begin begins a launch with the given rows as its first output.
func begin(p *Progress, seconds float64) *Segment { return p.Begin(at(seconds), fourCPUs, "run", true) }

func wantBlocks(t *testing.T, s *Segment, want ...float64) {
	t.Helper()
	ok := len(s.Blocks) == len(want)
	for i := 0; ok && i < len(want); i++ {
		ok = math.Abs(s.Blocks[i]-want[i]) < 1e-9
	}
	if !ok {
		t.Errorf("timed blocks %v, want %v seconds per unit", s.Blocks, want)
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// arrival is a row with its time of arrival.
type arrival struct {
	at  float64
	row *trainlog.Row
}

// TestProgressTimes: progress and pace derived from the rows of one launch.
func TestProgressTimes(t *testing.T) {
	for name, c := range map[string]struct {
		hint   float64
		rows   []arrival
		unit   string
		done   float64
		total  float64
		blocks []float64
		units  float64
	}{
		"nothing":                {},
		"a row without progress": {rows: []arrival{{1, row(float64(trainlog.TrainLoss), 0.5)}}},
		"the first row holds start-up and is not timed": {
			rows: []arrival{{5, epochRow(1, 10)}}, unit: "epoch", done: 1, total: 10},
		"each unit after it is": {
			rows: []arrival{{5, epochRow(1, 10)}, {7, epochRow(2, 10)}, {10, epochRow(3, 10)}},
			unit: "epoch", done: 3, total: 10, blocks: []float64{2, 3}, units: 2},
		"units below 400 ms are grouped": {
			rows: []arrival{{1, epochRow(1, 0)}, {1.1, epochRow(2, 0)}, {1.2, epochRow(3, 0)}, {1.3, epochRow(4, 0)}, {1.4, epochRow(5, 0)}, {1.5, epochRow(6, 0)}},
			unit: "epoch", done: 6, blocks: []float64{0.1}, units: 5},
		"rows read together with the first one have no time": {
			rows: []arrival{{1, epochRow(1, 0)}, {1, epochRow(30, 0)}, {2, epochRow(31, 0)}},
			unit: "epoch", done: 31, blocks: []float64{1}, units: 1},
		"rows read together are of one block": {
			rows: []arrival{{1, epochRow(1, 0)}, {2, epochRow(2, 0)}, {2, epochRow(3, 0)}, {2, epochRow(5, 0)}, {3, epochRow(6, 0)}, {3, epochRow(9, 0)}, {4, epochRow(10, 0)}},
			unit: "epoch", done: 10, blocks: []float64{0.25, 0.25, 1}, units: 9},
		"a skipped epoch counts as two": {
			rows: []arrival{{1, epochRow(1, 0)}, {5, epochRow(3, 0)}},
			unit: "epoch", done: 3, blocks: []float64{2}, units: 2},
		"a long first unit is measurement enough, by the script's own time": {
			rows: []arrival{{50, row(float64(trainlog.Epoch), 1, float64(trainlog.EpochTime), 40)}},
			unit: "epoch", done: 1, blocks: []float64{40}, units: 1},
		"not when it is not the first": {
			rows: []arrival{{50, row(float64(trainlog.Epoch), 7, float64(trainlog.EpochTime), 40)}},
			unit: "epoch", done: 7},
		"nor when it is short": {
			rows: []arrival{{50, row(float64(trainlog.Epoch), 1, float64(trainlog.EpochTime), 29)}},
			unit: "epoch", done: 1},
		"duplicate and backwards rows": {
			rows: []arrival{{1, epochRow(4, 9)}, {2, epochRow(5, 9)}, {2.5, epochRow(5, 9)}, {2.6, epochRow(2, 9)}, {3, epochRow(6, 9)}},
			unit: "epoch", done: 6, total: 9, blocks: []float64{1, 1}, units: 2},
		"epochs go before steps": {
			rows: []arrival{{1, row(float64(trainlog.Epoch), 1, float64(trainlog.Step), 100)}, {3, row(float64(trainlog.Epoch), 2, float64(trainlog.Step), 200)}},
			unit: "epoch", done: 2, blocks: []float64{2}, units: 1},
		"steps where only they have a total": {
			rows: []arrival{{1, row(float64(trainlog.Epoch), 0.1, float64(trainlog.Step), 100, float64(trainlog.TotalSteps), 900)},
				{3, row(float64(trainlog.Epoch), 0.2, float64(trainlog.Step), 200, float64(trainlog.TotalSteps), 900)}},
			unit: "step", done: 200, total: 900, blocks: []float64{0.02}, units: 100},
		"steps alone": {
			rows: []arrival{{1, stepRow(10, 100)}, {2, stepRow(20, 100)}},
			unit: "step", done: 20, total: 100, blocks: []float64{0.1}, units: 10},
		"epochs named late": { // seconds per step do not apply to epochs
			rows: []arrival{{1, stepRow(10, 0)}, {2, stepRow(20, 0)}, {3, row(float64(trainlog.Step), 30, float64(trainlog.Epoch), 1)},
				{6, row(float64(trainlog.Step), 60, float64(trainlog.Epoch), 2)}},
			unit: "epoch", done: 2, blocks: []float64{3}, units: 1},
		"steps with a total stay steps": {
			rows: []arrival{{1, stepRow(10, 100)}, {2, row(float64(trainlog.Step), 20, float64(trainlog.Epoch), 1)}},
			unit: "step", done: 20, total: 100, blocks: []float64{0.1}, units: 10},
		"no total": {rows: []arrival{{1, epochRow(1, 0)}}, unit: "epoch", done: 1},
		"the total that the user names, where the log has none": {
			hint: 30, rows: []arrival{{1, epochRow(1, 0)}}, unit: "epoch", done: 1, total: 30},
		"the log's own total before the user's": {
			hint: 30, rows: []arrival{{1, epochRow(1, 12)}}, unit: "epoch", done: 1, total: 12},
		"epochs are no total of steps": {
			hint: 30, rows: []arrival{{1, stepRow(1, 0)}}, unit: "step", done: 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := Progress{}
			p.Suggest("epoch", hint{Units: c.hint})
			s := begin(&p, 0)
			for _, a := range c.rows {
				p.Add(a.row, at(a.at))
			}
			if p.Unit != c.unit || p.Done != c.done || p.Total != c.total {
				t.Errorf("%g of %g %q, want %g of %g %q", p.Done, p.Total, p.Unit, c.done, c.total, c.unit)
			}
			wantBlocks(t, s, c.blocks...)
			if !near(s.Units, c.units) {
				t.Errorf("%g units timed, want %g", s.Units, c.units)
			}
			if p.Rows != len(c.rows) || s.Rows != len(c.rows) {
				t.Errorf("%d and %d rows, want %d", p.Rows, s.Rows, len(c.rows))
			}
		})
	}
}

// TestProgressTotals: without a total the remaining work is unknown, not zero, and the run is never finished.
func TestProgressTotals(t *testing.T) {
	var p Progress
	begin(&p, 0)
	p.Add(epochRow(3, 0), at(1))
	if rest, ok := p.Remaining(); ok || p.Finished() {
		t.Errorf("%g remain of an unknown total, finished %t", rest, p.Finished())
	}
	p.Add(epochRow(4, 6), at(2))
	if rest, ok := p.Remaining(); !ok || rest != 2 || p.Finished() {
		t.Errorf("%g (%t) of 2 remain, finished %t", rest, ok, p.Finished())
	}
	p.Add(epochRow(7, 6), at(3)) // exceeds the announced total
	if rest, ok := p.Remaining(); !ok || rest != 0 || !p.Finished() {
		t.Errorf("%g (%t) remain, finished %t", rest, ok, p.Finished())
	}
}

// TestProgressSamples: samples per unit, from the log.
func TestProgressSamples(t *testing.T) {
	for name, c := range map[string]struct {
		rows []*trainlog.Row
		want float64
	}{
		"unknown":                 {[]*trainlog.Row{epochRow(1, 2)}, 0},
		"data count":              {[]*trainlog.Row{row(float64(trainlog.Epoch), 1, float64(trainlog.DataCount), 500)}, 500},
		"rate and time":           {[]*trainlog.Row{row(float64(trainlog.Epoch), 1, float64(trainlog.Throughput), 50, float64(trainlog.EpochTime), 4)}, 200},
		"a batch for a step":      {[]*trainlog.Row{row(float64(trainlog.Step), 1, float64(trainlog.BatchSize), 32)}, 32},
		"a batch is no epoch":     {[]*trainlog.Row{row(float64(trainlog.Epoch), 1, float64(trainlog.BatchSize), 32)}, 0},
		"a batch is not, later":   {[]*trainlog.Row{row(float64(trainlog.Step), 1, float64(trainlog.BatchSize), 32), row(float64(trainlog.Epoch), 1)}, 0},
		"a count of nothing":      {[]*trainlog.Row{row(float64(trainlog.Epoch), 1, float64(trainlog.DataCount), 0)}, 0},
		"the count before a rate": {[]*trainlog.Row{row(float64(trainlog.Epoch), 1, float64(trainlog.DataCount), 500), row(float64(trainlog.Epoch), 2, float64(trainlog.Throughput), 50, float64(trainlog.EpochTime), 4)}, 500},
	} {
		t.Run(name, func(t *testing.T) {
			var p Progress
			begin(&p, 0)
			for i, r := range c.rows {
				p.Add(r, at(float64(i+1)))
			}
			if p.UnitSamples != c.want {
				t.Errorf("%g samples in a unit, want %g", p.UnitSamples, c.want)
			}
		})
	}
}

// TestProgressAfterARestart: the first row of the next launch shows whether the work was continued.
func TestProgressAfterARestart(t *testing.T) {
	for name, c := range map[string]struct {
		next      []float64 // epochs, one per second from second 20 on
		done      float64
		rewound   bool
		backwards int
		blocks    []float64
	}{
		"continued":                 {[]float64{11, 12}, 12, false, 0, []float64{1}},
		"the last epoch told again": {[]float64{10, 11}, 11, false, 0, []float64{1}},
		"one epoch done again":      {[]float64{9, 10, 11}, 11, false, 1, []float64{1}}, // 2 s for epochs 10 and 11
		"began from nothing":        {[]float64{1, 2, 3}, 3, true, 1, []float64{1, 1}},
		"began from an older save":  {[]float64{8, 9}, 9, true, 1, []float64{1}},
	} {
		t.Run(name, func(t *testing.T) {
			var p Progress
			begin(&p, 0)
			for e := 1.0; e <= 10; e++ {
				p.Add(epochRow(e, 40), at(e))
			}
			s := begin(&p, 12)
			if p.Segments[0].EndedAt != at(12) || s.StartDone != 10 {
				t.Errorf("the first segment ended at %s, the next begins at %g: want 12s, 10", p.Segments[0].EndedAt, s.StartDone)
			}
			for i, e := range c.next {
				p.Add(epochRow(e, 40), at(20+float64(i)))
			}
			if p.Done != c.done || p.Rewound != c.rewound || p.Backwards != c.backwards {
				t.Errorf("done %g, rewound %t, %d backwards; want %g, %t, %d", p.Done, p.Rewound, p.Backwards, c.done, c.rewound, c.backwards)
			}
			wantBlocks(t, s, c.blocks...)
		})
	}
}

// TestProgressLiveChange: a live change of the running job begins a segment whose first row is not timed (part of its
// unit ran at the previous allocation), and is not a restart.
func TestProgressLiveChange(t *testing.T) {
	var p Progress
	begin(&p, 0)
	p.Add(epochRow(1, 9), at(1))
	p.Add(epochRow(2, 9), at(2))
	two := resources.Allocation{CPUs: 2, Memory: 8}
	s := p.Begin(at(2.5), two, "run", false)
	p.Add(epochRow(3, 9), at(3.5))
	p.Add(epochRow(4, 9), at(5.5))
	wantBlocks(t, p.Segments[0], 1)
	wantBlocks(t, s, 2)
	if p.Rewound || len(p.StartupSeconds()) != 1 {
		t.Errorf("rewound %t, start-ups %v: a live change is no start", p.Rewound, p.StartupSeconds())
	}
	obs := p.Observations()
	if len(obs) != 2 || obs[0].Allocation.CPUs != 4 || obs[1].Allocation.CPUs != 2 {
		t.Fatalf("observations %+v, want one for each allocation", obs)
	}
	if obs[0].LiveCut || !obs[1].LiveCut {
		t.Errorf("live cuts %t, %t: want the second alone", obs[0].LiveCut, obs[1].LiveCut)
	}
	if back := p.Begin(at(6), p.Segments[0].Allocation, "run", false); back.LiveCut {
		t.Error("given back the CPUs of its launch, it is still a live cut")
	}
	if again := p.Begin(at(7), two, "run", true); again.LiveCut {
		t.Error("launched with two CPUs, it is a live cut")
	}
	if !math.IsNaN(obs[0].PeakMemoryGiB) {
		t.Errorf("peak memory %g that nobody measured, want NaN", obs[0].PeakMemoryGiB)
	}
}

// TestProgressRestarted: a job restarted from scratch on purpose is not considered to have lost its work.
func TestProgressRestarted(t *testing.T) {
	var p Progress
	begin(&p, 0)
	for e := 1.0; e <= 5; e++ {
		p.Add(epochRow(e, 9), at(e))
	}
	p.Restarted()
	begin(&p, 6)
	p.Add(epochRow(1, 9), at(8))
	if p.Done != 1 || p.Rewound || p.Backwards != 0 {
		t.Errorf("done %g, rewound %t, %d backwards: want 1, no, 0", p.Done, p.Rewound, p.Backwards)
	}
}

// TestOverheadsWithinUnits: a source that reports fractions of an epoch hides neither the start-up nor a restart behind
// a whole epoch.
func TestOverheadsWithinUnits(t *testing.T) {
	var p Progress
	at := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	add := func(s, epoch float64) {
		var r trainlog.Row
		r.Set(trainlog.Epoch, epoch)
		r.Set(trainlog.TotalEpochs, 4)
		p.Add(&r, at(s))
	}
	p.Begin(0, resources.Allocation{CPUs: 2}, "run", true)
	for i := range 10 { // 100 s an epoch after 60 s of start-up
		add(60+10*float64(i), 0.1*float64(i)+0.02)
	}
	p.Begin(at(152), resources.Allocation{CPUs: 2}, "run", true).RestartFrom = at(150)
	for i := range 10 {
		add(200+10*float64(i), 0.94+0.1*float64(i))
	}
	if got := p.StartupSeconds(); len(got) != 1 || math.Abs(got[0]-58) > 0.01 {
		t.Errorf("start-up %v, want 58 s", got)
	}
	if got := p.RestartSeconds(); len(got) != 1 || math.Abs(got[0]-48) > 0.1 {
		t.Errorf("restart %v, want 48 s: 50 s less the work of 2 %% of an epoch", got)
	}
}

// TestProgressOverheads: known answers for the cost of starts and restarts.
func TestProgressOverheads(t *testing.T) {
	for name, c := range map[string]struct {
		last    float64 // last row of the first launch; its rows arrive at 3, 4, 5 … (1 s per unit, start-up 2 s)
		asked   float64 // 0: not asked, it crashed
		started float64
		rows    []arrival
		startup []float64
		restart []float64
	}{
		// asked in the middle of a unit, which the next launch finishes at 2 s per unit: 0.5 s to exit, 1.5 s to
		// start, half a unit of 2 s
		"unit interrupted and continued": {last: 10, asked: 10.5, started: 11, rows: []arrival{{13.5, epochRow(9, 0)}, {15.5, epochRow(10, 0)}},
			startup: []float64{2}, restart: []float64{2}},
		// the same, but the unit is done again from its start: 1 s more
		"unit lost": {last: 10, asked: 10.5, started: 11, rows: []arrival{{14.5, epochRow(9, 0)}, {16.5, epochRow(10, 0)}},
			startup: []float64{2}, restart: []float64{3}},
		// asked at 9.4, it finished its unit at 10 (0.6 s of work, no cost) and exited: 1 s to exit, 1.5 s to start,
		// a unit of 2 s
		"unit finished before leaving": {last: 10, asked: 9.4, started: 11, rows: []arrival{{14.5, epochRow(9, 0)}, {16.5, epochRow(10, 0)}},
			startup: []float64{2}, restart: []float64{2.5}},
		"started again after a crash": {last: 10, started: 11, rows: []arrival{{14.5, epochRow(9, 0)}, {16.5, epochRow(10, 0)}},
			startup: []float64{2, 1.5}},
		"no row after the restart": {last: 10, asked: 10.5, started: 11, startup: []float64{2}},
		"one row is no pace":       {last: 10, asked: 10.5, started: 11, rows: []arrival{{13.5, epochRow(9, 0)}}, startup: []float64{2}},
	} {
		t.Run(name, func(t *testing.T) {
			var p Progress
			begin(&p, 0)
			for s := 3.0; s <= c.last; s++ {
				p.Add(epochRow(s-2, 0), at(s))
			}
			begin(&p, c.started).RestartFrom = at(c.asked)
			for _, a := range c.rows {
				p.Add(a.row, at(a.at))
			}
			for range 2 { // also after the run has left the node on which all of it was measured
				if got := p.StartupSeconds(); !slices.EqualFunc(got, c.startup, near) {
					t.Errorf("start-ups %v, want %v", got, c.startup)
				}
				if got := p.RestartSeconds(); !slices.EqualFunc(got, c.restart, near) {
					t.Errorf("restarts %v, want %v", got, c.restart)
				}
				p.leave()
			}
		})
	}
}

// TestOverheadOfRestarts: the time and money of restarts include those after failures, from the launch, and launches that
// resumed no work; they are unknown only without any pace.
func TestOverheadOfRestarts(t *testing.T) {
	first := []float64{3, 4, 5, 6, 7, 8, 9, 10} // 1 s per unit after 2 s; the first launch ends at 10
	type launched struct {
		asked, at, began, ends float64
		rows                   []float64 // 1 s per unit from the ninth on
	}
	for name, c := range map[string]struct {
		first    []float64
		launches []launched
		seconds  float64
		usd      float64 // at $2 a second while a job runs
	}{
		"none":                             {first: first},
		"after a failure":                  {first: first, launches: []launched{{at: 15, ends: 25, rows: []float64{19, 20, 21}}}, seconds: 3, usd: 6},
		"after a failure, one row":         {first: first, launches: []launched{{at: 15, ends: 19, rows: []float64{19}}}, seconds: 3, usd: 6},
		"failed again without a row":       {first: first, launches: []launched{{at: 15, ends: 17}, {at: 20, ends: 30, rows: []float64{22, 23, 24}}}, seconds: 3, usd: 6},
		"after a failure, slow supervisor": {first: first, launches: []launched{{at: 15, began: 17, ends: 25, rows: []float64{19, 20, 21}}}, seconds: 3, usd: 2},
		"in progress":                      {first: first, launches: []launched{{at: 15}}, seconds: 25, usd: 50},
		"requested":                        {first: first, launches: []launched{{asked: 10, at: 11, ends: 25, rows: []float64{13.5, 14.5, 15.5}}}, seconds: 2.5, usd: 5},
		"requested, then one row":          {first: first, launches: []launched{{asked: 10, at: 11, ends: 13.5, rows: []float64{13.5}}}, seconds: 2.5, usd: 5},
		"requested, then a failure":        {first: first, launches: []launched{{asked: 10, at: 11, ends: 25, rows: []float64{13.5, 14.5, 15.5}}, {at: 30, ends: 35, rows: []float64{33, 34}}}, seconds: 4.5, usd: 9},
		"no pace before or afterwards":     {launches: []launched{{at: 15, ends: 19, rows: []float64{19}}}, seconds: math.NaN(), usd: math.NaN()},
	} {
		t.Run(name, func(t *testing.T) {
			var p Progress
			begin(&p, 0)
			for i, s := range c.first {
				p.Add(epochRow(float64(i+1), 0), at(s))
			}
			p.End(at(10))
			for _, l := range c.launches {
				s := begin(&p, l.at)
				s.RestartFrom, s.StartedAt = at(l.asked), at(l.began)
				for i, row := range l.rows {
					p.Add(epochRow(float64(9+i), 0), at(row))
				}
				if l.ends > 0 {
					p.End(at(l.ends))
				}
			}
			for _, s := range p.Segments {
				s.Spent = 2 * (cmp.Or(s.EndedAt, at(40)) - max(s.LaunchedAt, s.StartedAt)).Seconds()
			}
			seconds, usd := p.overhead(at(40))
			if same := func(a, b float64) bool { return near(a, b) || math.IsNaN(a) && math.IsNaN(b) }; !same(seconds, c.seconds) || !same(usd, c.usd) {
				t.Errorf("%g s, $%g; want %g s, $%g", seconds, usd, c.seconds, c.usd)
			}
		})
	}
}

// TestMoveIsMeasured: the pace on the node that a run has left no longer counts, but its start-up does, and so does the move
// as a restart, although the measurement of another job on the new node lies between.
func TestMoveIsMeasured(t *testing.T) {
	var p Progress
	begin(&p, 0)
	for s := 3.0; s <= 10; s++ { // 1 s per unit
		p.Add(epochRow(s-2, 0), at(s))
	}
	p.leave()
	probe := p.Begin(at(12), resources.Allocation{CPUs: 2}, "probe", true)
	probe.Blocks, probe.EndedAt, probe.Launch = []float64{0.5, 0.5}, at(12), false
	begin(&p, 12).RestartFrom = at(10)
	for i := range 4 { // 0.5 s per unit, after 2 s in all
		p.Add(epochRow(9+float64(i), 0), at(12.5+0.5*float64(i)))
	}
	if got := p.StartupSeconds(); len(got) != 1 || !near(got[0], 2) {
		t.Errorf("start-ups %v, want 2 s", got)
	}
	if got := p.RestartSeconds(); len(got) != 1 || !near(got[0], 2) {
		t.Errorf("restarts %v, want 2 s", got)
	}
	for _, o := range p.Observations() {
		if slices.Contains(o.UnitSeconds, 1) {
			t.Errorf("observations %+v contain the pace on the node that was left", o)
		}
	}
}

// TestProgressOutgrowsItsTotal: a hinted total that the training exceeds is dropped.
func TestProgressOutgrowsItsTotal(t *testing.T) {
	for name, c := range map[string]struct {
		rows  []float64
		total float64
	}{
		"kept":                {[]float64{59, 60}, 60},
		"the last one counts": {[]float64{60, 61}, 61},
		"rounded":             {[]float64{59, 60.02}, 60},
		"half a unit":         {[]float64{60, 60.5}, 0},
		"far beyond":          {[]float64{60, 64}, 0},
		"beyond and on":       {[]float64{60, 61, 62}, 0},
		"next training":       {[]float64{60, 61, 62.5}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var p Progress
			p.Suggest("epoch", hint{Units: 60, Source: "--epochs 60 on the command line"})
			begin(&p, 0)
			for i, done := range c.rows {
				p.Add(epochRow(done, 0), at(float64(i+1)))
			}
			if p.Total != c.total {
				t.Errorf("total %v, want %v", p.Total, c.total)
			}
		})
	}
}

// TestProgressOfTwoTrainings: the work of a second, shorter training of the job follows that of the first, and the total is
// unknown.
func TestProgressOfTwoTrainings(t *testing.T) {
	var p Progress
	begin(&p, 0)
	for i, row := range []*trainlog.Row{epochRow(5, 6), epochRow(6, 6), epochRow(1, 4), epochRow(4, 4)} {
		p.Add(row, at(float64(i+1)))
	}
	if p.Done != 10 || p.Total != 0 {
		t.Errorf("%v of %v epochs, want 10 of an unknown total", p.Done, p.Total)
	}
}

// TestProgressJobEnd: the run time of a job counts from its start, not from the request to start it.
func TestProgressJobEnd(t *testing.T) {
	var p Progress
	begin(&p, 1).StartedAt = at(1.5)
	p.Begin(at(4), resources.Allocation{CPUs: 1}, "run", false)
	if end, ok := p.jobEnd(launch.Exit{Ran: at(10)}); !ok || end != at(11.5) {
		t.Errorf("a job that was launched at 1 s and ran 10 s from 1.5 s ended at %v, want 11.5 s", end)
	}
	if paid, ok := p.paidUntil(launch.Exit{Ran: at(10), Held: at(12)}); !ok || paid != at(13) {
		t.Errorf("a place held for 12 s from 1 s is charged up to %v, want 13 s", paid)
	}
}

// TestProgressSurvivesTheAgent: progress restored from the state file continues without a jump or a spurious block.
func TestProgressSurvivesTheAgent(t *testing.T) {
	var before, p Progress
	begin(&before, 0)
	for e := 1.0; e <= 4; e++ {
		before.Add(epochRow(e, 9), at(e))
	}
	data, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	p.Add(epochRow(4, 9), at(60)) // the last row of the log, read again
	p.Add(epochRow(5, 9), at(61)) // the next agent starts a minute later
	p.Add(epochRow(6, 9), at(62))
	if p.Done != 6 || p.Rewound {
		t.Errorf("done %g, rewound %t, want 6, no", p.Done, p.Rewound)
	}
	wantBlocks(t, p.Current(), 1, 1, 1, 1, 1)
}

// TestProgressRowsBeforeALaunch: rows before a launch are only counted.
func TestProgressRowsBeforeALaunch(t *testing.T) {
	var p Progress
	p.Add(epochRow(3, 9), at(1))
	if p.Rows != 1 || p.Done != 0 || p.Current() != nil || p.Observations() != nil {
		t.Errorf("%+v", p)
	}
	p.End(at(2)) // no segment to end
}

// A log with epochs but without their total is counted in steps as soon as it contains steps with a total.
func TestStepsWithATotalBeforeEpochsWithout(t *testing.T) {
	p := &Progress{}
	p.Begin(0, resources.Allocation{CPUs: 1}, "run", true)
	p.Add(epochRow(0.5, math.NaN()), time.Second)
	p.Add(stepRow(6, 30), 2*time.Second)
	p.Add(epochRow(1, math.NaN()), 3*time.Second)
	if p.Unit != "step" || p.Total != 30 || p.Done != 6 {
		t.Errorf("%g of %g %ss, want 6 of 30 steps", p.Done, p.Total, p.Unit)
	}
	hinted := &Progress{Hints: map[string]hint{"epoch": {Units: 3}}}
	hinted.Begin(0, resources.Allocation{CPUs: 1}, "run", true)
	hinted.Add(epochRow(0.5, math.NaN()), time.Second)
	hinted.Add(stepRow(6, 30), 2*time.Second)
	if hinted.Unit != "epoch" || hinted.Total != 3 {
		t.Errorf("%g of %g %ss, want epochs of 3", hinted.Done, hinted.Total, hinted.Unit)
	}
}

// TestProgressKeepsItsSteps: a training that exceeds its hinted steps is still counted in steps, although its log also
// contains epochs: of a sampler of 10^10 samples, for example.
func TestProgressKeepsItsSteps(t *testing.T) {
	p := &Progress{}
	p.Suggest("step", hint{Units: 1500, Source: "--max-steps 1500 on the command line"})
	p.Begin(0, resources.Allocation{CPUs: 1}, "run", true)
	for step := 500.0; step <= 2000; step += 500 {
		row := stepRow(step, math.NaN())
		row.Set(trainlog.Epoch, step/1e10)
		p.Add(row, time.Duration(step)*time.Second)
	}
	if p.Unit != "step" || p.Done != 2000 || p.Total != 0 {
		t.Errorf("%g of %g %ss, want 2000 steps without a total", p.Done, p.Total, p.Unit)
	}
}

// TestProgressOfLinesReadTogether: where a program's output arrives in parts of twenty lines, a line that is read alone after an
// evaluation, at the end of the job, is no observation of the pace as long as a part.
func TestProgressOfLinesReadTogether(t *testing.T) {
	for name, c := range map[string]struct{ last, end, want float64 }{
		"short":                  {9, 9.1, 4.2 / 20},
		"long":                   {12.7, 12.8, (4.2 + 6) / 21},
		"the job works on after": {12.7, 60, (4.2/20 + 6) / 2},
	} {
		p := &Progress{}
		p.Begin(0, resources.Allocation{CPUs: 1}, "run", true)
		for step := 1.0; step <= 40; step++ {
			read := 2.5
			if step > 19 {
				read = 6.7
			}
			if step == 40 {
				read = c.last
			}
			p.Add(stepRow(step, math.NaN()), at(read))
		}
		p.End(at(c.end))
		if obs := p.Observations(); len(obs) != 1 || math.Abs(stat.Mean(obs[0].UnitSeconds)-c.want) > 1e-9 {
			t.Errorf("%s: observations %+v, want a mean of %.3f s per step", name, obs, c.want)
		}
	}
}

// TestProgressOfABetterSource: what a resumed job prints before its observer reports, such as "Continuing training from
// epoch 4" at epoch 4.97, does not make it one that began again; the observer's first row decides.
func TestProgressOfABetterSource(t *testing.T) {
	for first, rewound := range map[float64]bool{5: false, 0.1: true} {
		p := &Progress{}
		p.Begin(0, resources.Allocation{CPUs: 1}, "run", true)
		p.Add(epochRow(4.97, 50), time.Second)
		p.Rewound = true // by an earlier launch
		if p.ResumeFrom(4.97); p.Rewound {
			t.Error("rewound before the launch")
		}
		p.Begin(2*time.Second, resources.Allocation{CPUs: 1}, "run", true)
		p.Add(epochRow(3, math.NaN()), 3*time.Second)
		p.changeSource()
		p.Add(epochRow(first, 50), 4*time.Second)
		if p.Rewound != rewound || p.Done != first || p.Unit != "epoch" || p.Total != 50 {
			t.Errorf("first row at %g: rewound %t at %g of %g %ss, want %t", first, p.Rewound, p.Done, p.Total, p.Unit, rewound)
		}
	}
}

// TestProgressOfAnOutage checks that rows written while no agent read the log, and read at once by the next one, do not
// count as fast work.
func TestProgressOfAnOutage(t *testing.T) {
	p := &Progress{}
	begin(p, 0)
	for i := 1; i <= 5; i++ {
		p.Add(epochRow(float64(i), 40), at(float64(i)))
	}
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	q := &Progress{}
	if err := json.Unmarshal(data, q); err != nil {
		t.Fatal(err)
	}
	for i := 6; i <= 9; i++ {
		q.Add(epochRow(float64(i), 40), at(9.5)+time.Duration(i)*time.Millisecond)
	}
	for i := 10; i <= 12; i++ {
		q.Add(epochRow(float64(i), 40), at(float64(i)+0.5))
	}
	if blocks := q.Current().Blocks; len(blocks) != 7 || slices.ContainsFunc(blocks, func(b float64) bool { return b < 0.95 || b > 1.05 }) {
		t.Errorf("timed blocks %v, want seven of 1 s", blocks)
	}
	if units := q.Current().Units; units != 7 {
		t.Errorf("%g units between rows of known times, want 7", units)
	}
}

// TestFirstLongUnitAfterARestart: the stated time of a long unit counts only if no earlier process can have done a part
// of it.
func TestFirstLongUnitAfterARestart(t *testing.T) {
	for name, c := range map[string]struct {
		stopped  float64 // s, when the unit before was done at 100 s
		from     float64 // position of the checkpoint
		epoch    float64 // the first one after the restart
		launched bool
		want     int // blocks
	}{
		"at once":                    {101, 3, 4, true, 1},
		"from an earlier checkpoint": {101, 2, 3, true, 1},
		"within the unit":            {110, 3, 4, true, 0},
		"two units":                  {101, 3, 5, true, 0},
		"position unknown":           {101, math.NaN(), 4, true, 0},
		"live":                       {101, 3, 4, false, 0},
	} {
		p := Progress{}
		p.Begin(0, resources.Allocation{CPUs: 4}, "probe", true)
		for i, done := range []float64{20, 60, 100} {
			p.Add(epochRow(float64(i+1), 10), at(done))
		}
		p.Begin(at(c.stopped), resources.Allocation{CPUs: 2}, "probe", c.launched)
		p.ResumeFrom(c.from)
		p.Add(row(float64(trainlog.Epoch), c.epoch, float64(trainlog.EpochTime), 80), at(c.stopped+90))
		if got := len(p.Current().Blocks); got != c.want {
			t.Errorf("%s: %d units timed, want %d", name, got, c.want)
		}
	}
}
