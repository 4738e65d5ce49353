package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trainopt/internal/regular"
	"trainopt/optimizer/report/chart"
	"trainopt/optimizer/report/page"
	"trainopt/simulator/ancestors/metis/learned"
	"trainopt/simulator/ancestors/rlscheduler"
	"trainopt/simulator/experiment"
	"trainopt/simulator/pretrain"
)

// policyEnv is an environment whose agents have their own training recipes and decide only about queues or placements.
type policyEnv struct {
	agents []string // their names
	only   []string // flags that apply, besides the common ones
	unit   string   // unit of steps
	train  func(ctx context.Context, e *env, f *pretrainFlags, tell func(policyPoint)) (*trainedPolicy, error)
}

// policyEnvs is the registry of these environments: one line each.
var policyEnvs = map[string]policyEnv{
	"placement": {learned.Recipes(), []string{"table"}, "episodes", trainPlacement},
	"queue":     {[]string{"evolution", "ppo"}, []string{"trace", "procs", "backfill", "resume", "hidden"}, "updates", trainQueue},
}

// policyPoint is one point of a learning curve.
type policyPoint struct {
	Step, Of int
	Seconds  float64
	Value    float64 // NaN if not measured
}

// trainedPolicy is the result of a training.
type trainedPolicy struct {
	file    []byte
	measure string // meaning of Value
	steps   int
	facts   [][2]string
	use     string // example command that uses the policy
}

// pretrainPolicy trains an agent of f.env and writes its file, curves and summary.
func (e *env) pretrainPolicy(cmd *cobra.Command, c *common, f *pretrainFlags, p policyEnv) error {
	if err := e.policyFlags(cmd, f, p); err != nil {
		return usageError{err}
	}
	ctx, stop := e.untilSignal()
	defer stop()
	from := e.clock.Monotonic()
	bar := e.bar(c, "learning")
	var curve []policyPoint
	t, err := p.train(ctx, e, f, func(x policyPoint) {
		if x.Seconds == 0 {
			x.Seconds = (e.clock.Monotonic() - from).Seconds()
		}
		curve = append(curve, x)
		bar.at(x.Step, x.Of)
	})
	bar.done()
	var broken interruptedBy
	interrupted := errors.As(context.Cause(ctx), &broken)
	switch {
	case t == nil && interrupted:
		return exitError{broken.code(), fmt.Errorf("pretrain: %s; nothing was saved", endedBy(broken.signal))}
	case err != nil:
		return fmt.Errorf("pretrain: %w", err)
	}
	errs := []error{pretrain.Replace(inDir(e.dir, f.out), t.file)}
	for _, name := range f.curves {
		errs = append(errs, writePolicyCurve(inDir(e.dir, name), f, t, curve))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	wall := (e.clock.Monotonic() - from).Seconds()
	if c.json {
		err = e.policyJSON(f, t, curve, wall)
	} else {
		err = writeAll(e.stdout, []byte(policySummary(f, p, t, curve, wall)))
	}
	if err == nil && interrupted {
		err = exitError{broken.code(), fmt.Errorf("pretrain: %s after %d %s; what was learned is in %s", endedBy(broken.signal), t.steps, p.unit, quoted(f.out))}
	}
	return err
}

// policyFlags checks the flags and determines the output paths.
func (e *env) policyFlags(cmd *cobra.Command, f *pretrainFlags, p policyEnv) error {
	errs := []error{oneOf("--agent", f.agent, p.agents, false)}
	always := []string{"env", "agent", "steps", "seed", "out", "curves", "json", "quiet", "config", "log-level", "state-dir"}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if !slices.Contains(always, flag.Name) && !slices.Contains(p.only, flag.Name) {
			errs = append(errs, fmt.Errorf("--%s says nothing with --env %s", flag.Name, f.env))
		}
	})
	if cmd.Flags().Changed("steps") && f.steps < 1 {
		errs = append(errs, fmt.Errorf("--steps %d: want 1 or more", f.steps))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return e.pretrainPaths(f)
}

// writePolicyCurve writes the learning curve as CSV or as an HTML page, by the extension of path.
func writePolicyCurve(path string, f *pretrainFlags, t *trainedPolicy, curve []policyPoint) error {
	var b bytes.Buffer
	if strings.ToLower(filepath.Ext(path)) == ".csv" {
		b.WriteString("step,wall_s,value\n")
		for _, x := range curve {
			value := ""
			if !math.IsNaN(x.Value) {
				value = strconv.FormatFloat(x.Value, 'g', 10, 64)
			}
			fmt.Fprintf(&b, "%d,%.3f,%s\n", x.Step, x.Seconds, value)
		}
		return pretrain.Replace(path, b.Bytes())
	}
	line := chart.Series{Name: f.agent}
	for _, x := range curve {
		line.Points = append(line.Points, chart.Point{X: float64(x.Step), Y: x.Value})
	}
	picture := chart.Chart{Title: "Learning curve", Note: t.measure, X: chart.Axis{Name: "steps", Zero: true}, Y: chart.Axis{Name: t.measure}, Series: []chart.Series{line}}
	doc := page.Document{Title: fmt.Sprintf("%s learns in %s", f.agent, f.env), Subtitle: fmt.Sprintf("seed %d", f.seed),
		Sections: []page.Section{{Blocks: []page.Block{{Pictures: []chart.Picture{picture.Picture()}}}}}}
	for _, fact := range t.facts {
		doc.Tiles = append(doc.Tiles, page.Tile{Label: fact[0], Value: fact[1]})
	}
	if err := page.HTML(&b, doc); err != nil {
		return err
	}
	return pretrain.Replace(path, b.Bytes())
}

// policyJSON writes the JSON object of pretrain; these agents have one objective and no front.
func (e *env) policyJSON(f *pretrainFlags, t *trainedPolicy, curve []policyPoint, wall float64) error {
	returns := []experiment.Number{}
	for _, x := range curve {
		returns = append(returns, experiment.Number(x.Value))
	}
	enc := json.NewEncoder(e.stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		Schema          int                   `json:"schema"`
		Env             string                `json:"env"`
		Agent           string                `json:"agent"`
		Seed            uint64                `json:"seed"`
		Steps           int                   `json:"steps"`
		Front           [][]experiment.Number `json:"front"`
		Hypervolume     experiment.Number     `json:"hypervolume"`
		Reference       []experiment.Number   `json:"reference"`
		ExpectedUtility experiment.Number     `json:"expected_utility"`
		Returns         []experiment.Number   `json:"returns"`
		WallS           experiment.Number     `json:"wall_s"`
		File            string                `json:"file"`
	}{pretrain.Schema, f.env, f.agent, f.seed, t.steps, [][]experiment.Number{}, experiment.Number(math.NaN()), []experiment.Number{},
		experiment.Number(lastKnown(curve)), returns, experiment.Number(wall), f.out})
}

// lastKnown returns the last measured value, NaN if there is no measured value.
func lastKnown(curve []policyPoint) float64 {
	for _, x := range slices.Backward(curve) {
		if !math.IsNaN(x.Value) {
			return x.Value
		}
	}
	return math.NaN()
}

func policySummary(f *pretrainFlags, p policyEnv, t *trainedPolicy, curve []policyPoint, wall float64) string {
	var b strings.Builder
	row := func(name, value string) { fmt.Fprintf(&b, "%-18s %s\n", name, value) }
	fmt.Fprintf(&b, "%s in %s, seed %d: %d %s in %s\n", f.agent, f.env, f.seed, t.steps, p.unit, time.Duration(wall*float64(time.Second)).Round(time.Second/10))
	if v := lastKnown(curve); !math.IsNaN(v) {
		row("reached", fmt.Sprintf("%.4f, %s", v, t.measure))
	}
	for _, fact := range t.facts {
		row(fact[0], fact[1])
	}
	row("file", f.out)
	for _, curve := range f.curves {
		row("curves", curve)
	}
	row("use", t.use)
	return b.String()
}

// environments returns all names for --env.
func environments() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for _, n := range slices.Concat(pretrain.Environments(), slices.Collect(maps.Keys(policyEnvs))) {
			if !yield(n) {
				return
			}
		}
	})
}

// trainQueue trains an agent that selects the next waiting job.
func trainQueue(ctx context.Context, e *env, f *pretrainFlags, tell func(policyPoint)) (*trainedPolicy, error) {
	if f.backfill != "none" && f.backfill != "rlscheduler" {
		return nil, usageError{fmt.Errorf("--backfill %q: want none or rlscheduler", f.backfill)}
	}
	if f.procs < 1 {
		return nil, usageError{fmt.Errorf("--procs %d: want at least 1", f.procs)}
	}
	// Generated sequences are those on which the built-in policies were trained.
	o := rlscheduler.TrainOptions{Method: f.agent, Seed: f.seed, Hidden: f.hidden, Updates: f.steps, Validation: 48,
		Sequence: rlscheduler.Sequence{Backfill: f.backfill == "rlscheduler", Drawn: &rlscheduler.Drawn{Low: 0.7, High: 1.4, Varied: true}}}
	if f.agent == "evolution" {
		o.Relative, o.Logarithm, o.Episodes, o.Sequence.Length = true, true, 24, 640
	}
	trace := &rlscheduler.Trace{Procs: f.procs, Nodes: f.procs}
	source := fmt.Sprintf("sequences drawn for %d processors", f.procs)
	if f.trace != "" {
		var err error
		if trace, err = rlscheduler.Load(inDir(e.dir, f.trace)); err != nil {
			return nil, usageError{fmt.Errorf("--trace: %w", err)}
		}
		o.Sequence.Drawn, source = nil, "sequences of "+f.trace
	}
	var from *rlscheduler.Agent
	if f.resume != "" {
		data, err := regular.ReadFile(inDir(e.dir, f.resume), regular.Data)
		if err != nil {
			return nil, usageError{fmt.Errorf("--resume: %w", err)}
		}
		if from, err = rlscheduler.ReadAgent(bytes.NewReader(data)); err != nil {
			return nil, usageError{fmt.Errorf("--resume %s: %w", f.resume, err)}
		}
	}
	steps, of := 0, o.WithDefaults().Updates
	measure := "mean of −bounded slowdown on validation sequences"
	if o.Logarithm {
		measure = "mean of ln(bounded slowdown of SJF by its own) on validation sequences"
	}
	a, err := rlscheduler.Train(ctx, trace, o, from, func(p rlscheduler.TrainProgress) {
		steps = p.Update
		tell(policyPoint{Step: p.Update, Of: of, Value: p.Validation})
	})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := a.Write(&b); err != nil {
		return nil, err
	}
	return &trainedPolicy{file: b.Bytes(), measure: measure, steps: steps, facts: [][2]string{{"learned from", source}},
		use: fmt.Sprintf("optimize simulate queue --policy %s --backfill %s", quoted(f.out), f.backfill)}, nil
}

// policyAgents lists the agents of policyEnvs for the help text.
func policyAgents() string {
	words := ""
	for _, n := range slices.Sorted(maps.Keys(policyEnvs)) {
		words += "; of " + n + ": " + strings.Join(policyEnvs[n].agents, ", ")
	}
	return words
}

// trainPlacement trains the sub-schedulers of Metis.
func trainPlacement(ctx context.Context, e *env, f *pretrainFlags, tell func(policyPoint)) (*trainedPolicy, error) {
	table, err := readTable(e, f.table, 0, 1)
	if err != nil {
		return nil, usageError{fmt.Errorf("--table: %w", err)}
	}
	o := learned.Options{Recipe: f.agent, Table: table, Seed: f.seed, Episodes: f.steps, Clock: e.clock.Monotonic}
	from, steps := e.clock.Monotonic(), 0
	m, _, err := learned.Train(ctx, o, func(p learned.Point) {
		steps = p.Episode
		tell(policyPoint{Step: p.Episode, Of: max(f.steps, p.Episode), Seconds: p.Seconds - from.Seconds(), Value: p.Value})
	})
	if err != nil {
		return nil, err
	}
	measure := "mean throughput of a container while it explores"
	if f.agent == "original" {
		measure += " above round robin"
	}
	var b bytes.Buffer
	if err := m.Save(&b); err != nil {
		return nil, err
	}
	use := "optimize simulate placement --method metis --model " + quoted(f.out)
	if f.table != metisData {
		use += " --table " + quoted(f.table) + " --counts …"
	}
	return &trainedPolicy{file: b.Bytes(), measure: measure, steps: steps, use: use}, nil
}
