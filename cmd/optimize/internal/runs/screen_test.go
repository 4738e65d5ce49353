package runs

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/run"
	"trainopt/resources"
	"trainopt/sla"
)

// terminalEmulator is a terminal emulator: it interprets the output of the screen and reflows lines when it becomes narrower, as
// tmux and common terminal emulators do.
type terminalEmulator struct {
	t        *testing.T
	width    int
	rows     [][]rune
	wrapped  []bool // the row continues the previous one
	row, col int
	styles   int // number of colours that were set
}

func newTerminalEmulator(t *testing.T, width int) *terminalEmulator {
	return &terminalEmulator{t: t, width: width, rows: [][]rune{nil}, wrapped: []bool{false}}
}

func (g *terminalEmulator) Write(p []byte) (int, error) {
	for text := string(p); text != ""; {
		if strings.HasPrefix(text, "\x1b[") {
			end := strings.IndexFunc(text[2:], func(c rune) bool { return c >= '@' && c <= '~' })
			g.control(text[2:2+end], text[2+end])
			text = text[3+end:]
			continue
		}
		c, n := utf8.DecodeRuneInString(text)
		text = text[n:]
		g.put(c)
	}
	return len(p), nil
}

func (g *terminalEmulator) control(argument string, final byte) {
	switch final {
	case 'A':
		n, _ := strconv.Atoi(argument)
		g.row = max(0, g.row-n)
	case 'K':
		if argument != "2" {
			g.t.Errorf("a line is erased in part: tmux would keep its width")
		}
		g.rows[g.row] = nil
	case 'J':
		g.rows[g.row] = g.rows[g.row][:min(g.col, len(g.rows[g.row]))]
		g.rows, g.wrapped = g.rows[:g.row+1], g.wrapped[:g.row+1]
	case 'm':
		if argument != "0" {
			g.styles++
		}
	default:
		g.t.Errorf("unknown control sequence %q%c", argument, final)
	}
}

func (g *terminalEmulator) put(c rune) {
	switch c {
	case '\r':
		g.col = 0
	case '\n':
		g.down(false)
	default:
		if g.col >= g.width {
			g.down(true)
		}
		for len(g.rows[g.row]) <= g.col {
			g.rows[g.row] = append(g.rows[g.row], ' ')
		}
		g.rows[g.row][g.col] = c
		g.col++
	}
}

func (g *terminalEmulator) down(wrapped bool) {
	g.row, g.col = g.row+1, 0
	if g.row == len(g.rows) {
		g.rows, g.wrapped = append(g.rows, nil), append(g.wrapped, wrapped)
	}
}

// resize reflows the lines for another width; the cursor stays in the last line.
func (g *terminalEmulator) resize(width int) {
	if g.col > len("^C") || g.row != len(g.rows)-1 {
		g.t.Fatalf("the cursor rests at row %d of %d, column %d: want below the block", g.row, len(g.rows), g.col)
	}
	var rows [][]rune
	var wrapped []bool
	for _, row := range g.rows {
		for first := true; first || len(row) > 0; first = false {
			n := min(width, len(row))
			rows, wrapped = append(rows, row[:n:n]), append(wrapped, !first)
			row = row[n:]
		}
	}
	g.width, g.rows, g.wrapped, g.row = width, rows, wrapped, len(rows)-1
}

func (g *terminalEmulator) text() string {
	var lines []string
	for _, row := range g.rows {
		lines = append(lines, strings.TrimRight(string(row), " "))
	}
	return strings.Join(lines, "\n")
}

// still is a clock that does not advance.
type still struct{}

func (still) Now() time.Time           { return time.Date(2026, 3, 1, 12, 0, 46, 0, time.UTC) }
func (still) Monotonic() time.Duration { return time.Hour }

func screenOn(g *terminalEmulator, colour bool) *screen {
	base := &lines{out: g, report: g, every: 10 * time.Second, now: still{}}
	base.width = func() int { return g.width }
	return &screen{lines: base, colour: colour}
}

func aStatus() run.Status {
	value := 46.0
	return run.Status{RunID: "20260301-120000-train_digits-8ce0f6", Script: "examples/train_digits.py", Log: "logs/metrics.csv (csv)", Phase: "training",
		Allocation: resources.Allocation{CPUs: 1, Memory: 1}, Done: 9, Total: 120, Unit: "epoch", Elapsed: 46 * time.Second, Now: still{}.Now(),
		Finish: &sla.Interval{P5: 419, P50: 524, P95: 840}, Deadline: 10 * time.Minute, Spent: 0.00082, CostAtEnd: &sla.Interval{P5: .00502, P50: .00621, P95: .00977},
		Budget: .05, CPUUtil: 20, GPUUtil: math.NaN(), MemoryGiB: .02, Throughput: 656, ThroughputUnit: "samples/s", Loss: .5021, Accuracy: .803,
		Verdicts: []sla.Verdict{{Objective: sla.Time, Value: &value, Status: sla.AtRisk}, {Objective: sla.Cost, Status: sla.Met}, {Objective: sla.Memory, Status: sla.Violated}},
		AtRisk:   12 * time.Second, Checkpoint: &journal.Checkpoint{Units: 8}}
}

// TestScreenShowsWhatIsWatchedFor checks that the facts of a run are visible from its first status.
func TestScreenShowsWhatIsWatchedFor(t *testing.T) {
	g := newTerminalEmulator(t, 100)
	v := screenOn(g, true)
	v.Status(aStatus())
	flat := strings.Join(strings.Fields(g.text()), " ")
	for _, want := range []string{"20260301-120000-train_digits-8ce0f6", "examples/train_digits.py", "logs/metrics.csv (csv)", "epoch 9/120",
		"46 s, projected 8 m 44 s (6 m 59 s to 14 m 00 s), ends 12:08:44, deadline 10 m 00 s (12:10:00) !", "budget $0.05 ✓", "✗ memory", "20.5 MiB",
		"656 samples/s", "12 s of work since the checkpoint at epoch 8", "optimize logs -f 20260301-120000-train_digits-8ce0f6"} {
		if !strings.Contains(flat, want) {
			t.Errorf("no %q on the screen:\n%s", want, g.text())
		}
	}
	if g.styles == 0 {
		t.Error("no colours")
	}
}

// TestScreenWithoutATotal checks that no projection is shown without a total, even if one is passed, and that a hint
// explains how to set the total.
func TestScreenWithoutATotal(t *testing.T) {
	s := aStatus()
	s.Total, s.Unit, s.ThroughputUnit, s.Throughput = 0, "step", "steps/s", 27
	for name, text := range map[string]string{"screen": func() string {
		g := newTerminalEmulator(t, 100)
		screenOn(g, false).Status(s)
		return g.text()
	}(), "line": strings.Join(statusParts(s), " · ")} {
		if strings.Contains(text, "projected") || strings.Contains(text, "samples/s") || !strings.Contains(text, "--epochs N or --steps N") || !strings.Contains(strings.ReplaceAll(text, "\u00a0", " "), "27.0 steps/s") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestScreenLeavesNothingBehind checks that after repaints, events, resizes in both directions and echoed ^C only the
// events and one block remain.
func TestScreenLeavesNothingBehind(t *testing.T) {
	const event = "warning: while 2 CPU, 4 GiB was measured, other programs used 1.4 of the machine's 2 CPUs: the prediction holds only under the same load"
	for _, widths := range [][]int{{80}, {100, 60, 120}, {200, 40, 80, 30}, {60, 61, 59}, {20}} {
		t.Run(fmt.Sprint(widths), func(t *testing.T) {
			g := newTerminalEmulator(t, widths[0])
			v := screenOn(g, false)
			v.Event(run.Warning, strings.TrimPrefix(event, "warning: "))
			for _, width := range widths {
				if width != g.width {
					g.resize(width)
				}
				for k := range 3 {
					s := aStatus()
					s.Done = float64(k)
					v.Status(s)
				}
				g.put('^') // the terminal echoes Ctrl-C at the cursor
				g.put('C')
			}
			v.Event(run.Info, "Interrupted")
			v.Status(aStatus())
			text := g.text()
			for what, want := range map[string]int{"█": -1, "8ce0f6": 2, "Interrupted": 1, "^C": 0, "keys": 1} {
				if n := strings.Count(strings.ReplaceAll(text, "\n", ""), what); want >= 0 && n != want && !(g.width < 60 && what == "8ce0f6") {
					t.Errorf("%q is on the screen %d times, want %d:\n%s", what, n, want, text)
				}
			}
			flat := strings.Join(strings.Fields(text), " ")
			if g.width >= 60 && len(widths) == 1 && !strings.Contains(flat, event) {
				t.Errorf("the event is gone or broken within a word:\n%s", text)
			}
		})
	}
}

// TestScreenBreaksBetweenWords checks that lines fit at every width and that words of events are not broken.
func TestScreenBreaksBetweenWords(t *testing.T) {
	const event = "no further probes: the probe budget (10 % of the predicted cost) is exhausted at 1 CPU, 1 GiB"
	for width := 24; width <= 130; width += 7 {
		g := newTerminalEmulator(t, width)
		v := screenOn(g, false)
		v.Event(run.Info, event)
		v.Status(aStatus())
		for i, w := range g.wrapped {
			if w {
				t.Errorf("width %d: row %d was broken by the terminal:\n%s", width, i, g.text())
			}
		}
		if flat := strings.Join(strings.Fields(g.text()), " "); !strings.HasPrefix(flat, event) {
			t.Errorf("width %d: words are broken:\n%s", width, g.text())
		}
	}
}

// TestEventsAreNotRepeated checks that a message appears once and that its reason is not repeated.
func TestEventsAreNotRepeated(t *testing.T) {
	var b bytes.Buffer
	v := &lines{out: &b, every: time.Second, now: still{}}
	const reason = "the lowest predicted cost, $0.0016 (1 m 59 s), and the deadline is met with 99 % probability"
	v.Event(run.Info, "plan: 1 CPU, 1 GiB — "+reason)
	v.Event(run.Info, "CPUs 2 → 1 (live): "+reason)
	v.Event(run.Warning, "no further probes")
	v.Event(run.Warning, "no further probes")
	v.Event(run.Info, "measured 2 CPU: 6.96 s per epoch")
	v.Event(run.Info, "measured 1 CPU: 6.96 s per epoch")
	want := "plan: 1 CPU, 1 GiB — " + reason + "\nCPUs 2 → 1 (live)\nwarning: no further probes\nmeasured 2 CPU: 6.96 s per epoch\nmeasured 1 CPU: 6.96 s per epoch\n"
	if b.String() != want {
		t.Errorf("%s\nwant\n%s", b.String(), want)
	}
}

// TestPlainLines checks that without a terminal the facts of the run are printed once and without control bytes.
func TestPlainLines(t *testing.T) {
	var b bytes.Buffer
	v := &lines{out: &b, every: time.Second, now: still{}}
	s := aStatus()
	s.Log = ""
	v.Status(s)
	v.Status(aStatus())
	v.Status(aStatus())
	out := b.String()
	for _, want := range []string{"run 20260301-120000-train_digits-8ce0f6 · examples/train_digits.py · deadline 10 m 00 s (12:10:00) · budget $0.05", "log: logs/metrics.csv (csv)\n"} {
		if strings.Count(out, want) != 1 {
			t.Errorf("%q is printed %d times, want once:\n%s", want, strings.Count(out, want), out)
		}
	}
	if strings.ContainsAny(out, "\x1b\r\u00a0") {
		t.Errorf("control bytes: %q", out)
	}
}

// TestSuspendedScreen checks that a suspension erases the block, that in the background plain lines replace it, and that
// back in the foreground one block follows the lines of the shell.
func TestSuspendedScreen(t *testing.T) {
	g := newTerminalEmulator(t, 80)
	v := screenOn(g, false)
	var leave, returned func()
	ended := 0
	v.suspension = func(l, r func()) func() { leave, returned = l, r; return func() { ended++ } }
	background := false
	v.background = func() bool { return background }
	v.Status(aStatus())
	v.Status(aStatus())
	leave()
	if left := strings.TrimSpace(g.text()); left != "" {
		t.Errorf("the suspended block leaves\n%s", left)
	}
	const suspended = "[1]+  Stopped   optimize --train train.py\n$ bg\n[1]+ optimize --train train.py &\n"
	fmt.Fprint(g, suspended)
	background = true
	returned()
	v.Status(aStatus())
	v.Event(run.Warning, "no further probes")
	if text := g.text(); !strings.HasPrefix(text, suspended) || strings.Contains(text, "keys") || !strings.Contains(text, "\nwarning: no further probes\n") || !strings.Contains(text, "run 20260301-120000-train_digits-8ce0f6 ·") {
		t.Errorf("in the background:\n%s", text)
	}
	fmt.Fprint(g, "$ fg\noptimize --train train.py\n")
	before := g.text()
	background = false
	returned()
	v.Status(aStatus())
	v.Status(aStatus())
	if text := g.text(); !strings.HasPrefix(text, before) || strings.Count(text, "keys") != 1 {
		t.Errorf("in the foreground again:\n%s", text)
	}
	closeView(v)
	closeView(v)
	if ended != 1 {
		t.Errorf("the subscription was ended %d times, want once", ended)
	}
}

// TestPlanFitsTheTerminal checks that no line of the evidence of a plan is wider than the terminal.
func TestPlanFitsTheTerminal(t *testing.T) {
	rec := &journal.Record{Command: strings.Fields(strings.Repeat("python3 train.py ", 20)), Plan: &journal.Plan{}}
	rec.Plan.Reason = strings.Repeat("clearly better ", 20)
	var b bytes.Buffer
	if err := printPlan(&b, rec, 60); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 60 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}
