package runs

import (
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/report/page"
	"trainopt/optimizer/run"
	"trainopt/sla"
)

// screen is the live view on a terminal: a block of lines repainted in place, with events above it. The cursor stays on
// the empty line below the block, so that terminal echo (^C) does not appear inside it. Each repaint is a single write.
// While the process is suspended the block is erased; in the background, where it would be painted over the work in the
// foreground, plain lines replace it.
type screen struct {
	*lines
	mu      sync.Mutex // held while the terminal is written
	colour  bool
	status  run.Status
	begun   bool
	painted []int // width in columns of each painted line of the block
	keys    func() *keyboard
	pressed *keyboard // nil until the first status, and without a keyboard
	// background reports whether the process is in the background of the terminal; nil: it is not.
	background func() bool
	// suspension subscribes to suspensions of the process at the first status; nil: none is handled.
	suspension  func(leave, returned func()) (stop func())
	unsubscribe func()
}

// Escape sequences (ECMA-48).
const (
	eraseLine  = "\x1b[2K" // the whole line: after a partial erase, terminals keep the old width for reflowing
	eraseBelow = "\x1b[J"
	resetStyle = "\x1b[0m"
)

const (
	labelWidth = 10
	barWidth   = 40
	// minWidth is the minimum terminal width to which the block is fitted.
	minWidth = 20
)

func (v *screen) columns() int { return max(v.width()-1, minWidth) }

// Event prints a new event above the block, wrapped to the width of the terminal.
func (v *screen) Event(level run.Level, line string) {
	if level < v.level {
		return
	}
	text := v.messages.unseenPart(cli.OneLine(line))
	if text == "" {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.hidden() {
		fmt.Fprintln(v.out, mark(level)+text)
		return
	}
	var out []string
	for i, part := range page.Wrap(mark(level)+text, v.columns()-2) {
		if i > 0 {
			part = "  " + part
		}
		out = append(out, v.paint(levelColour[level], part))
	}
	v.above(strings.Join(out, "\n"))
}

// above prints permanent text above the block.
func (v *screen) above(text string) {
	var b strings.Builder
	v.home(&b)
	for _, line := range strings.Split(text, "\n") {
		b.WriteString(eraseLine + line + "\n")
	}
	v.block(&b)
	fmt.Fprint(v.out, b.String())
}

// Status repaints the block with a new status.
func (v *screen) Status(s run.Status) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.begun && v.suspension != nil && v.unsubscribe == nil {
		v.unsubscribe = v.suspension(v.leave, v.returned)
	}
	if v.hidden() {
		v.lines.Status(s)
		return
	}
	if !v.begun && v.keys != nil {
		v.pressed = v.keys()
	}
	v.status, v.begun = v.shortened(s), true
	if v.pressed.pressed() {
		v.output.toggle()
	}
	if lines := v.output.next(s.RunID); len(lines) > 0 {
		v.above(strings.Join(lines, "\n"))
		return
	}
	var b strings.Builder
	v.home(&b)
	v.block(&b)
	fmt.Fprint(v.out, b.String())
}

// hidden reports whether the block must not be painted.
func (v *screen) hidden() bool { return v.background != nil && v.background() }

// leave erases the block, in whose place the shell writes.
func (v *screen) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.erase()
}

// returned makes the next repaint start at the cursor, which a shell has moved.
func (v *screen) returned() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.painted = nil
}

// erase removes the block, if it is painted.
func (v *screen) erase() {
	if len(v.painted) == 0 {
		return
	}
	var b strings.Builder
	v.home(&b)
	b.WriteString(eraseBelow)
	fmt.Fprint(v.out, b.String())
}

// home moves the cursor to the first line of the block, counting the lines that a narrower terminal has wrapped.
func (v *screen) home(b *strings.Builder) {
	width, rows := max(v.width(), 1), 0
	for _, w := range v.painted {
		rows += max(1, (w+width-1)/width)
	}
	b.WriteByte('\r')
	if rows > 0 {
		fmt.Fprintf(b, "\x1b[%dA", rows)
	}
	v.painted = nil
}

// block writes the lines of the status and erases the rest of the previous block.
func (v *screen) block(b *strings.Builder) {
	if v.begun {
		for _, row := range v.rows() {
			for i, part := range page.Wrap(row.text, v.columns()-labelWidth) {
				label := strings.Repeat(" ", labelWidth)
				if i == 0 {
					label = fmt.Sprintf("%-*s", labelWidth, row.label)
				}
				v.painted = append(v.painted, labelWidth+twwidth.Width(part))
				b.WriteString(eraseLine + label + v.paint(row.colour, page.PlainBlanks(part)) + "\n")
			}
		}
	}
	b.WriteString(eraseBelow)
}

type screenRow struct {
	label, text, colour string
}

// rows returns the lines of the block before they are fitted to the terminal.
func (v *screen) rows() []screenRow {
	s := v.status
	colour := map[sla.Objective]string{}
	var other []sla.Verdict
	marked := func(o sla.Objective, text string) string {
		for _, d := range s.Verdicts {
			if d.Objective == o {
				colour[o] = statusColour[d.Status]
				return text + page.Blank + lamp[d.Status]
			}
		}
		return text
	}
	for _, d := range s.Verdicts {
		if d.Objective != sla.Time && d.Objective != sla.Cost {
			other = append(other, d)
		}
	}
	run := s.RunID
	if s.Script != "" {
		run += "  " + cli.OneLine(s.Script)
	}
	phase, _, _ := strings.Cut(s.Phase, " ")
	rows := []screenRow{{label: "run", text: run}, {label: phase, text: v.bar()}}
	rows = append(rows, screenRow{"time", marked(sla.Time, timePart(s)), ""}, screenRow{"cost", marked(sla.Cost, costPart(s)), ""})
	rows[2].colour, rows[3].colour = colour[sla.Time], colour[sla.Cost]
	for _, r := range []screenRow{{label: "use", text: s.Resources() + "; " + usePart(s)}, {label: "rate", text: ratePart(s)}, {label: "SLA", text: lightsPart(other)},
		{label: "at risk", text: riskPart(s)}, {label: "log", text: cli.OneLine(s.Log)}, {label: "last", text: cli.OneLine(s.LastAction)}} {
		if r.text != "" {
			rows = append(rows, r)
		}
	}
	keys := "Ctrl-C stops; output: optimize logs -f " + s.RunID
	if v.pressed != nil {
		keys = map[bool]string{false: "o shows the output of the job, Ctrl-C stops", true: "o hides the output of the job, Ctrl-C stops"}[v.output.on]
	}
	return append(rows, screenRow{label: "keys", text: keys, colour: dim})
}

func (v *screen) bar() string {
	s := v.status
	if !(s.Total > 0) {
		return progressPart(s)
	}
	size := min(barWidth, (v.columns()-labelWidth)/2)
	full := int(math.Min(1, s.Done/s.Total) * float64(size))
	return strings.Repeat("█", full) + strings.Repeat("░", size-full) + " " + progressPart(s)
}

// Colours by meaning (SGR); not used if NO_COLOR is set.
const (
	red   = "\x1b[31m"
	amber = "\x1b[33m"
	green = "\x1b[32m"
	dim   = "\x1b[2m"
)

var (
	levelColour  = map[run.Level]string{run.Warning: amber, run.Problem: red}
	statusColour = map[sla.Status]string{sla.Met: green, sla.AtRisk: amber, sla.Violated: red}
)

func (v *screen) paint(colour, text string) string {
	if colour == "" || !v.colour {
		return text
	}
	return colour + text + resetStyle
}

// Planned prints the plan above the block.
func (v *screen) Planned(rec *journal.Record) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.begun || v.hidden() {
		v.lines.Planned(rec)
		return
	}
	var b strings.Builder
	if err := printPlan(&b, rec, v.reportWidth()); err == nil {
		v.above(strings.TrimSuffix(b.String(), "\n"))
	}
}

// Finished removes the block and prints the report.
func (v *screen) Finished(rec *journal.Record, dir string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.erase()
	v.begun = false
	v.close()
	v.lines.Finished(rec, dir)
}

// close restores the terminal.
func (v *screen) close() {
	v.pressed.close()
	if v.unsubscribe != nil {
		v.unsubscribe()
		v.unsubscribe = nil
	}
}
