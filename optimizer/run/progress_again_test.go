package run

import (
	"math"
	"slices"
	"testing"
	"time"

	"trainopt/monitor/trainlog"
	"trainopt/resources"
)

// TestProgressBeginsAgain: the work of complete trainings that follow each other in the output of one job is added up,
// without a total; a list of past results is not a further training.
func TestProgressBeginsAgain(t *testing.T) {
	train := func(p *Progress, from, pace float64, totals ...int) float64 {
		for _, total := range totals {
			for i := 1; i <= total; i++ {
				from += pace
				p.Add(epochRow(float64(i), float64(total)), at(from))
			}
		}
		return from
	}
	for name, c := range map[string]struct {
		totals      []int
		list        int     // epochs that a list contains at the end
		pace        float64 // seconds between its rows
		done, total float64
	}{
		"one":               {[]int{5}, 0, 0, 5, 5},
		"three":             {[]int{5, 5, 5}, 0, 0, 15, 0},
		"after preparation": {[]int{5, 9}, 0, 0, 9, 9},
		"shorter":           {[]int{9, 3, 4}, 0, 0, 16, 0},
		"a little longer":   {[]int{9, 10, 9}, 0, 0, 28, 0},
		"list":              {[]int{5}, 5, 0.001, 5, 5},
		"list, after three": {[]int{5, 5, 5}, 5, 0.001, 15, 0},
		"slow second":       {[]int{5}, 3, 4, 8, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var p Progress
			begin(&p, 0)
			end := train(&p, 0, 1, c.totals...)
			if c.list > 0 {
				for i := 1; i <= c.list; i++ {
					p.Add(epochRow(float64(i), float64(c.totals[len(c.totals)-1])), at(end+1+float64(i)*c.pace))
				}
			}
			if p.Done != c.done || p.Total != c.total {
				t.Errorf("%g of %g epochs, want %g of %g", p.Done, p.Total, c.done, c.total)
			}
			begin(&p, end+100)
			if p.Earlier != 0 {
				t.Errorf("a new launch begins after %g epochs", p.Earlier)
			}
		})
	}
}

// TestWorkBeforeTheRun: a run whose log begins further than one row from 0 continues earlier work, unless a launch repeats that.
func TestWorkBeforeTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		unit func(done, total float64) *trainlog.Row
		rows []float64
		next []float64 // of a second launch
		want float64
	}{
		"from the beginning":   {epochRow, []float64{1, 2, 3}, nil, 0},
		"continues":            {epochRow, []float64{51, 52, 53}, nil, 50},
		"each tenth":           {epochRow, []float64{10, 20, 30}, nil, 0},
		"steps from 0":         {stepRow, []float64{0, 50, 100}, nil, 0},
		"continues its steps":  {stepRow, []float64{5050, 5100, 5150}, nil, 5000},
		"parts of an epoch":    {epochRow, []float64{0.5, 0.75, 1}, nil, 0},
		"one row":              {epochRow, []float64{51}, nil, 0},
		"continues twice":      {epochRow, []float64{51, 52}, []float64{53, 54}, 50},
		"continues, repeats":   {epochRow, []float64{51, 52}, []float64{51, 52, 53}, 50},
		"continues, begins":    {epochRow, []float64{51, 52}, []float64{1, 2}, 0},
		"a second launch, far": {epochRow, []float64{1, 2}, []float64{9, 10}, 0},
	} {
		var p Progress
		begin(&p, 0)
		now := 0.0
		add := func(rows []float64) {
			for _, done := range rows {
				now++
				p.Add(c.unit(done, 9000), at(now))
			}
		}
		if add(c.rows); c.next != nil {
			now++
			begin(&p, now)
			add(c.next)
		}
		if p.From != c.want {
			t.Errorf("%s: %g done before the run, want %g", name, p.From, c.want)
		}
	}
	var p Progress
	begin(&p, 0)
	for i, r := range []*trainlog.Row{stepRow(510, 0), stepRow(520, 0), row(float64(trainlog.Step), 530, float64(trainlog.Epoch), 3)} {
		p.Add(r, at(float64(i+1)))
	}
	if p.Unit != "epoch" || p.From != 0 {
		t.Errorf("%g %ss before the run, of steps", p.From, p.Unit)
	}
}

// TestTrainingAfterItsPreparation: a training that is longer than the one before it is counted and timed from its first row on;
// the preparation is a part of the start-up.
func TestTrainingAfterItsPreparation(t *testing.T) {
	steps := func(done, total float64) *trainlog.Row { return stepRow(10*done, 10*total) }
	announced := func(done, total float64) *trainlog.Row { // "Epoch 2/5" after the first epoch, without a line for the last one
		if done == 1 {
			return row(float64(trainlog.TotalEpochs), total)
		}
		return epochRow(done-1, total)
	}
	for name, c := range map[string]struct {
		row           func(done, total float64) *trainlog.Row
		first, second float64 // lengths
		per, late     float64 // units from row to row; by which the last row is behind the work
		left          int     // timed blocks of the preparation
	}{
		"epochs":           {epochRow, 5, 9, 1, 0, 4},
		"one epoch before": {epochRow, 1, 9, 1, 0, 0},
		"steps":            {steps, 5, 9, 10, 0, 4},
		"announced epochs": {announced, 5, 9, 1, 1, 3},
	} {
		var p Progress
		s := begin(&p, 0)
		now := 1.0 // start-up
		for i := 1.0; i <= c.first; i++ {
			now++
			p.Add(c.row(i, c.first), at(now))
		}
		for i := 1.0; i <= c.second; i++ {
			now += 3
			p.Add(c.row(i, c.second), at(now))
			if want := c.per * (i - c.late); p.Done != want || p.Total != c.per*c.second {
				t.Errorf("%s: %g of %g after row %g of the training, want %g of %g", name, p.Done, p.Total, i, want, c.per*c.second)
			}
		}
		timed := c.second - 1 - c.late
		want := slices.Repeat([]float64{3 / c.per}, int(timed))
		if wantBlocks(t, s, want...); !near(s.Units, c.per*timed) || len(s.Left) != c.left {
			t.Errorf("%s: %g units timed, want %g; %d blocks of the preparation, want %d", name, s.Units, c.per*timed, len(s.Left), c.left)
		}
		if p.Backwards > 0 || s.Reached != p.Done {
			t.Errorf("%s: %d rows backwards, the last one at %g of %g: its end is not timed", name, p.Backwards, s.Reached, p.Done)
		}
		if c.per == 1 {
			start := 1 + c.first + 3*c.late
			if got := p.StartupSeconds(); len(got) != 1 || !near(got[0], start) {
				t.Errorf("%s: start-ups of %v s, want %g with the preparation", name, got, start)
			}
		}
	}
}

// TestTrainingsSideBySide: the epochs of several trainings that print at different paces have no total; those of trainings one
// after another, of ranks and of a best epoch are of one.
func TestTrainingsSideBySide(t *testing.T) {
	for name, c := range map[string]struct {
		epochs []float64
		found  bool
		done   float64
	}{
		"two":                    {[]float64{1, 2, 3, 1, 4, 5, 6, 2, 7, 8, 3, 9, 10, 4, 11, 12, 5, 6, 7, 8, 9, 10, 11, 12}, true, 12},
		"three":                  {[]float64{1, 2, 1, 3, 1, 4, 5, 2, 6, 2, 7, 3, 8, 9, 3, 4, 10, 5, 11, 4, 12, 6, 5}, true, 12},
		"each tenth":             {[]float64{10, 20, 30, 10, 40, 50, 20, 60, 70, 30, 80, 90, 40, 100}, true, 100},
		"late start":             {[]float64{1, 2, 3, 4, 1, 5, 2, 6, 3, 7, 4, 8}, true, 8},
		"one after another":      {[]float64{1, 2, 3, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, false, 10},
		"ranks":                  {[]float64{1, 1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 6, 7, 6, 7, 8, 8}, false, 8},
		"best epoch":             {[]float64{1, 2, 3, 1, 4, 1, 5, 6, 4, 7, 4, 8, 9, 7, 10, 7, 11, 12, 10, 13}, false, 13},
		"best epoch, each tenth": {[]float64{10, 20, 17, 30, 27, 40, 36, 50, 41, 60, 58, 70}, false, 70},
	} {
		t.Run(name, func(t *testing.T) {
			var p Progress
			begin(&p, 0)
			for i, e := range c.epochs {
				p.Add(epochRow(e, 120), at(float64(i+1)))
			}
			if total := map[bool]float64{false: 120}[c.found]; p.beside.found != c.found || p.Done != c.done || p.Total != total {
				t.Errorf("side by side %t, %g of %g epochs; want %t, %g of %g", p.beside.found, p.Done, p.Total, c.found, c.done, total)
			}
		})
	}
}

// TestForgetLengths: the length of one training is not the total of a job that makes several; a total that the user states,
// or that of an earlier run of the job, is.
func TestForgetLengths(t *testing.T) {
	p := &Progress{}
	p.Suggest("epoch", hint{Units: 3, Source: "--epochs 3 on the command line"})
	p.Suggest("step", hint{40, "--steps", true})
	p.Begin(0, resources.Allocation{CPUs: 1}, "run", true)
	p.Add(epochRow(1, math.NaN()), time.Second)
	if p.Total != 3 {
		t.Fatalf("total %g before the second training, want 3", p.Total)
	}
	p.forgetLengths()
	p.Add(epochRow(4, math.NaN()), 2*time.Second)
	if p.Total != 0 || p.Hints["epoch"].Units != 0 || p.Hints["step"].Units != 40 {
		t.Errorf("total %g, hints %v; want none of epochs, 40 steps", p.Total, p.Hints)
	}
}

// TestProgressOfAnnouncedEpochs: trainings that announce their epochs, "Epoch 1/5", without a line for the end of the last
// one, are added up too.
func TestProgressOfAnnouncedEpochs(t *testing.T) {
	announce := func(p *Progress, now, total int) {
		if r := epochRow(float64(now), float64(total)); now > 0 {
			p.Add(r, at(float64(p.Rows+1)))
		} else {
			p.Add(row(float64(trainlog.TotalEpochs), float64(total)), at(float64(p.Rows+1)))
		}
	}
	for name, c := range map[string]struct {
		totals      []int
		done, total float64
	}{
		"one":            {[]int{5}, 5, 5},
		"six":            {[]int{5, 5, 5, 5, 5, 5}, 30, 0},
		"other lengths":  {[]int{9, 4, 3}, 16, 0},
		"shorter by one": {[]int{9, 8}, 17, 0},
	} {
		var p Progress
		begin(&p, 0)
		for _, total := range c.totals {
			for i := range total {
				announce(&p, i, total)
			}
		}
		if p.endNormally(at(100)); p.Done != c.done || p.Total != c.total {
			t.Errorf("%s: %g of %g epochs, want %g of %g", name, p.Done, p.Total, c.done, c.total)
		}
	}
	var p Progress
	begin(&p, 0)
	for _, i := range []int{0, 1, 2, 2, 2, 2, 2, 2} { // several lines in the last epoch
		announce(&p, i, 3)
	}
	if p.Done != 2 || p.Total != 3 {
		t.Errorf("%g of %g epochs, want 2 of 3", p.Done, p.Total)
	}
}

// TestEndBetweenLines: a job that prints each 50th step and ends normally before the next line is due has made all steps, unless
// it ended earlier than it could have.
func TestEndBetweenLines(t *testing.T) {
	for name, c := range map[string]struct {
		steps []float64
		total float64
		pace  float64 // seconds from line to line
		ended float64 // seconds after the last one
		want  float64
	}{
		"from 0":                 {[]float64{0, 50, 100, 150}, 200, 1, 1, 200},
		"no multiple":            {[]float64{0, 50, 100, 150}, 180, 1, 1, 180},
		"a line is absent":       {[]float64{0, 50, 100}, 200, 1, 1, 100},
		"other distances":        {[]float64{0, 50, 60, 150}, 200, 1, 1, 150},
		"each of them":           {[]float64{1, 2, 3}, 6, 1, 1, 3},
		"one distance":           {[]float64{0, 50}, 100, 1, 1, 50},
		"ended at a line":        {[]float64{0, 50, 100, 150}, 200, 4, 0.5, 150},
		"a line was due":         {[]float64{50, 100, 150}, 200, 0.2, 0.2, 150},
		"no line was due":        {[]float64{50, 100, 150}, 190, 0.2, 0.2, 190},
		"from 0, quickly":        {[]float64{0, 50, 100, 150}, 200, 0.2, 0.1, 200},
		"not from 0, but later":  {[]float64{50, 100, 150}, 200, 4, 4, 200},
		"lines that were kept":   {[]float64{0, 50, 100, 150}, 200, 0.01, 0, 200},
		"some way, between them": {[]float64{50, 100, 150}, 190, 10, 1, 150},
	} {
		var p Progress
		begin(&p, 0)
		for i, step := range c.steps {
			p.Add(stepRow(step, c.total), at(float64(i+1)*c.pace))
		}
		if p.endNormally(at(float64(len(c.steps))*c.pace + c.ended)); p.Done != c.want {
			t.Errorf("%s: %g of %g steps, want %g", name, p.Done, p.Total, c.want)
		}
	}
}

// TestProgressAfterAMention: a setting that the script prints before it trains, "decay at epoch 60", is not the position of the
// training; a line about an earlier epoch at the end is not a new beginning.
func TestProgressAfterAMention(t *testing.T) {
	var p Progress
	begin(&p, 0)
	p.Add(epochRow(29, 0), at(0.1))
	p.Add(epochRow(59, 0), at(0.1))
	for i := 1; i <= 3; i++ {
		p.Add(epochRow(float64(i), 12), at(float64(i)))
	}
	if p.Done != 3 || p.Total != 12 || p.Rewound {
		t.Errorf("%g of %g epochs, rewound %t, want 3 of 12", p.Done, p.Total, p.Rewound)
	}
	p = Progress{}
	begin(&p, 0)
	for i := 1; i <= 5; i++ {
		p.Add(epochRow(float64(i), 0), at(float64(i)))
	}
	best := epochRow(2, 0)
	best.Set(trainlog.TestLoss, 0.5)
	if p.Add(best, at(6)); p.Done != 5 {
		t.Errorf("%g epochs after a line about the second one, want 5", p.Done)
	}
}

// TestResumedProgressAfterAMention: a resumed training that prints a setting before its first epoch has not begun again; one
// that prints its first epochs has, also without results.
func TestResumedProgressAfterAMention(t *testing.T) {
	for name, c := range map[string]struct {
		rows    []float64
		rewound bool
		done    float64
	}{
		"setting":      {[]float64{4, 11, 12}, false, 12},
		"begins again": {[]float64{1, 2, 3}, true, 3},
	} {
		var p Progress
		begin(&p, 0)
		for i := 1; i <= 10; i++ {
			p.Add(epochRow(float64(i), 0), at(float64(i)))
		}
		begin(&p, 20)
		for i, epoch := range c.rows {
			p.Add(epochRow(epoch, 0), at(21+float64(i)))
		}
		if p.Rewound != c.rewound || p.Done != c.done {
			t.Errorf("%s: rewound %t at %g epochs, want %t at %g", name, p.Rewound, p.Done, c.rewound, c.done)
		}
	}
}
