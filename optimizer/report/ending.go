package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/report/page"
)

const (
	tailLines = 20       // number of last output lines shown for a failed training
	tailBytes = 16 << 10 // read from the end of the output
	tailWidth = 500      // maximum characters per line
)

// output is the end of the output of a training.
type output struct {
	stream string // stderr or stdout
	path   string
	lines  []string // without control characters
	cut    bool     // earlier lines were omitted
	// launched reports that the traceback of a launcher followed, which was omitted.
	launched bool
}

// launcherError matches the error of a launcher (torchrun, accelerate, deepspeed) whose training has failed.
var launcherError = regexp.MustCompile(`(?m)^(?:subprocess\.CalledProcessError|torch\.distributed\.elastic\.multiprocessing\.errors\.ChildFailedError): `)

// launcherLine matches the lines that torchrun logs about its ranks.
var launcherLine = regexp.MustCompile(`(?m)^[IWE]\d{4} .* torch/distributed/elastic/.*\n?`)

// beforeLauncher returns the output of a failed training before the traceback and the table that its launcher adds; all of
// it if no traceback of the training precedes them.
func beforeLauncher(data []byte) []byte {
	const heading = "Traceback (most recent call last):"
	if m := launcherError.FindIndex(data); m != nil {
		at := bytes.LastIndex(data[:m[0]], []byte("\n"+heading)) + 1
		if bytes.Contains(data[:at], []byte(heading)) {
			return launcherLine.ReplaceAll(data[:at], nil)
		}
	}
	return data
}

// readTail returns the last lines of the stderr of a run's last job that printed any, or of its stdout if stderr is empty. The result is zero if
// both are empty.
func readTail(dir string) output {
	for _, job := range slices.Backward(launch.JobDirs(dir)) {
		for _, stream := range []string{"stderr", "stdout"} {
			path := filepath.Join(job, "job."+stream)
			data, cut := lastBytes(path)
			own := beforeLauncher(data)
			if lines, more := lastLines(own); len(lines) > 0 {
				return output{stream: stream, path: path, lines: lines, cut: cut || more, launched: len(own) < len(data)}
			}
		}
	}
	return output{}
}

// Output returns an output stream of the jobs of a run, stdout or stderr: the path of the file of the last job, and the
// whole stream, which the caller opens and closes.
func Output(dir, stream string) (newest string, all *launch.Output) {
	jobs := launch.JobDirs(dir)
	stdout, stderr := launch.Outputs(dir)
	if all = stdout; stream == "stderr" {
		all = stderr
	}
	return filepath.Join(jobs[len(jobs)-1], "job."+stream), all
}

// lastBytes returns the end of a regular file and reports whether the file has more data before it.
func lastBytes(path string) (data []byte, cut bool) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil, false
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	from := max(0, info.Size()-tailBytes)
	data, err = io.ReadAll(io.NewSectionReader(f, from, tailBytes))
	if err != nil {
		return nil, false
	}
	return data, from > 0
}

// lastLines returns the last non-blank lines of a text, safe to print, and whether there are more.
func lastLines(data []byte) (lines []string, more bool) {
	for _, line := range bytes.Split(data, []byte{'\n'}) {
		if i := bytes.LastIndexByte(bytes.TrimRight(line, "\r"), '\r'); i >= 0 {
			line = line[i+1:] // a progress bar: keep the text that was visible last
		}
		text := printable(string(line))
		if strings.TrimSpace(text) != "" {
			lines = append(lines, text)
		}
	}
	if n := len(lines) - tailLines; n > 0 {
		return lines[n:], true
	}
	return lines, false
}

// printable returns a line without escape sequences and control characters, with its indentation, cut to tailWidth
// characters.
func printable(line string) string {
	line = stripEscapes(strings.ReplaceAll(line, "\t", "    "))
	indent := len(line) - len(strings.TrimLeft(line, " "))
	text := strings.Repeat(page.Blank, indent) + page.Clean(line)
	if utf8.RuneCountInString(text) > tailWidth {
		text = string([]rune(text)[:tailWidth-1]) + "…"
	}
	return text
}

// stripEscapes removes terminal escape sequences: CSI (colours, cursor) and two-character ones.
func stripEscapes(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != 0x1b {
			b.WriteByte(s[i])
			continue
		}
		if i++; i < len(s) && s[i] == '[' {
			for i++; i < len(s) && (s[i] < 0x40 || s[i] > 0x7e); i++ {
			}
		}
	}
	return b.String()
}

// outputSection shows the end of the output of a failed training.
func outputSection(d *data) page.Section {
	if d.Record.State != journal.Failed || d.Dir == "" {
		return page.Section{}
	}
	s := page.Section{ID: "output", Title: "Last output of the training"}
	out := readTail(d.Dir)
	if len(out.lines) == 0 {
		s.Intro = "The training printed nothing."
		return s
	}
	s.Intro = fmt.Sprintf("Last %s of %s", page.Plural(len(out.lines), "line"), out.stream)
	if !out.cut {
		s.Intro = "All of " + out.stream
	}
	if out.launched {
		s.Intro += ", without the lines of the launcher"
	}
	s.Intro += ". All output: optimize logs " + runName(d) + ", or " + out.path + "."
	s.Blocks = []page.Block{{Verbatim: out.lines}}
	return s
}

// lastLine returns the last output line of a training, "" if it printed none.
func lastLine(d *data) string {
	if d.Dir == "" {
		return ""
	}
	lines := readTail(d.Dir).lines
	if len(lines) == 0 {
		return ""
	}
	last := page.Clean(strings.TrimLeft(lines[len(lines)-1], page.Blank))
	if most := []rune(last); len(most) > 120 {
		return string(most[:119]) + "…"
	}
	return last
}

// runName returns the command-line name of a run: its id, or its path if it is not in a default state directory, that of the
// working directory of the training or of one above it.
func runName(d *data) string {
	project, standard := strings.CutSuffix(d.Dir, "/.optimize/runs/"+d.Record.RunID)
	if filepath.IsAbs(d.Dir) && d.Record.Dir != "" && !(standard && strings.HasPrefix(d.Record.Dir+"/", project+"/")) {
		return strings.Join(quoted([]string{d.Dir}), "")
	}
	return d.Record.RunID
}

// riskAnswer shows the work at risk, done since the last checkpoint, of a run that has not finished.
func riskAnswer(d *data) (page.Answer, bool) {
	c, r := d.Record.Checkpoint, d.Record
	if c == nil || r.State == journal.Done || r.State == journal.Planned {
		return page.Answer{}, false
	}
	a := page.Answer{Question: "At risk", Light: page.Muted}
	work := join(number(c.RiskSeconds, page.Duration), unitsOf(r, c.RiskUnits))
	what := map[bool]string{false: "work", true: "lost"}[r.Over()]
	if a.Text = what + " since the last checkpoint: " + cmp.Or(strings.ReplaceAll(work, "; ", ", "), page.NoData); c.RiskSeconds == 0 && !(c.RiskUnits > 0) {
		a.Text = "nothing; saved when it ended"
		if !r.Over() {
			a.Text = "nothing; just saved"
		}
	}
	if at := unitsOf(r, c.Units); at != "" || c.Path != "" {
		a.Text += " (checkpoint" + prefixed(" at ", at) + prefixed(", ", c.Path) + ")"
	}
	return a, true
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func unitsOf(r *journal.Record, n journal.Number) string {
	if !n.Known() {
		return ""
	}
	return counted(n, cmp.Or(r.Training.Unit, "unit"))
}

// counted formats a number of units of work, which need not be whole, with their name: "2.50 epochs".
func counted(n journal.Number, unit string) string {
	if n != 1 {
		unit += "s"
	}
	return page.Count(float64(n)) + " " + unit
}

// resumeAnswer shows how to continue a run that ended early or whose agent is gone.
func resumeAnswer(d *data) (page.Answer, bool) {
	r := d.Record
	if r.State == journal.Done || r.State == journal.Planned || r.State == journal.Running && d.Agent != nil {
		return page.Answer{}, false
	}
	line, why := resumeLine(r, runName(d))
	if line == "" {
		return page.Answer{Question: "Resume", Text: "not possible: " + why, Light: page.Muted}, true
	}
	return page.Answer{Question: "Resume", Text: line, Light: page.Dark}, true
}

// resumeLine returns the command that continues a run or, if it cannot be continued, the reason and the remedy. A
// deadline or budget that ended the run must be raised: to the upper end of the predicted need, with the start-up and the work to be repeated, if the prediction exceeds
// the limit, and otherwise to a value for which the line contains a placeholder.
func resumeLine(r *journal.Record, name string) (line, why string) {
	if r.State != journal.Running && (r.Script.Resumable == nil || !*r.Script.Resumable) {
		if r.Script.Resumes != "" {
			return "", "no checkpoint of this run was found for " + r.Script.Resumes
		}
		return "", "the script is not known to load a checkpoint when it starts; --resumable yes if it does"
	}
	line = "optimize runs resume " + name
	if r.Exit == nil {
		return line, ""
	}
	var p journal.Prediction
	if r.Plan != nil && r.Plan.Prediction != nil {
		p = *r.Plan.Prediction
	}
	again := 0.0 // seconds of the start-up and of the lost work
	for _, v := range r.Overheads.StartupSeconds {
		again = max(again, float64(v))
	}
	if c := r.Checkpoint; c != nil && c.RiskSeconds.Known() {
		again += float64(c.RiskSeconds)
	}
	switch r.Exit.Reason {
	case "deadline":
		line += " --deadline "
		if need := p.Seconds.P95; predicted(p.Seconds) && need*limitSlack > r.SLA.TimeMax.Seconds() {
			return line + flagDuration((need+again)*limitSlack), ""
		}
		line += "DURATION"
	case "budget":
		line += " --budget "
		if need := p.CostUSD.P95; predicted(p.CostUSD) && need*limitSlack > r.SLA.CostMaxUSD {
			return line + trim(ceilDigits(need*(1+again/p.Seconds.P95)*limitSlack)), ""
		}
		line += "USD"
	}
	return line, ""
}
