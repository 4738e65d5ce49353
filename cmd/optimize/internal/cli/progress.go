package cli

import (
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// Bar shows the progress of long work on a terminal. It prints nothing with --quiet or without a terminal.
type Bar struct {
	all *mpb.Progress
	bar *mpb.Bar
	new func(total int)
}

// Widths of a progress bar in columns.
const (
	minBar, maxBar = 10, 60
	// besideBar is the space for the name, the counts and the remaining time; besideDetails that for details.
	besideBar, besideDetails = 30, 70
)

// Bar returns a progress bar, which appears at the first call of At. details returns the text beside the bar; if nil,
// the remaining time is shown. It may be called from another goroutine.
func (e *Env) Bar(name string, details func() string) *Bar {
	b := &Bar{}
	columns := e.Columns()
	if columns == 0 || e.Quiet {
		return b
	}
	beside, after := besideBar, []decor.Decorator{decor.CountersNoUnit(" %d/%d "), decor.OnComplete(decor.AverageETA(decor.ET_STYLE_GO), "")}
	if details != nil {
		beside, after = besideDetails, []decor.Decorator{decor.CountersNoUnit(" %d/%d"), decor.Any(func(decor.Statistics) string { return details() })}
	}
	b.new = func(total int) {
		b.all = mpb.New(mpb.WithOutput(e.Stderr), mpb.WithWidth(barWidth(columns, beside)), mpb.WithAutoRefresh(), mpb.WithRefreshRate(time.Second/4))
		b.bar = b.all.New(int64(total), mpb.BarStyle().Lbound("").Filler("█").Tip("").Padding("░").Rbound(""), mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name(name+" ")), mpb.AppendDecorators(after...))
	}
	return b
}

// barWidth returns the width of the bar on a terminal, positive also if the text beside it does not fit.
func barWidth(columns, beside int) int { return max(minBar, min(maxBar, columns-beside)) }

// Shown reports whether the bar prints anything.
func (b *Bar) Shown() bool { return b.new != nil || b.bar != nil }

// At updates the progress. Calls must not be concurrent.
func (b *Bar) At(done, total int) {
	if b.new != nil {
		b.new(total)
		b.new = nil
	}
	if b.bar != nil {
		b.bar.SetCurrent(int64(done))
	}
}

// Done removes the bar.
func (b *Bar) Done() {
	if b.bar != nil {
		b.bar.Abort(true)
		b.all.Wait()
	}
}
