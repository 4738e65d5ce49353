package simulate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/internal/regular"
	"trainopt/optimizer/schedule/place"
	"trainopt/simulator/ancestors/metis/learned"
	"trainopt/simulator/ancestors/rlscheduler"
	"trainopt/simulator/experiment"
	"trainopt/simulator/pretrain"
	"trainopt/simulator/queue/agents"
)

// policyEnv is an environment whose agents have their own training recipes and decide only about queues or placements.
type policyEnv struct {
	agents []string // their names
	flags  string   // further flags that apply
	unit   string   // unit of steps
	train  func(ctx context.Context, o *pretrainOptions, report func(policyPoint)) (*trainedPolicy, error)
}

// policyEnvs is the registry of these environments: one line each.
var policyEnvs = map[string]policyEnv{
	"placement": {learned.Recipes(), "table", "episodes", trainPlacement},
	"queue":     {[]string{"evolution", "ppo"}, "trace procs backfill resume hidden", "updates", trainQueue},
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

// runPolicy trains an agent of o.env and writes its file, curves and summary.
func (o *pretrainOptions) runPolicy(p policyEnv) error {
	err := errors.Join(oneOf("--agent", o.agent, p.agents, false), o.Want("steps", o.steps >= 1, "1 or more"),
		o.Check(cli.Rule{If: true, Except: "env agent steps seed out curves " + p.flags, Conflict: "--env " + o.env}))
	if err == nil {
		err = o.checkPaths()
	}
	if err != nil {
		return cli.Usage(err)
	}
	var curve []policyPoint
	var t *trainedPolicy
	from := o.Clock.Monotonic()
	elapsed, interrupt, err := o.Work("learning", func(ctx context.Context, progress func(done, total int)) (err error) {
		t, err = p.train(ctx, o, func(x policyPoint) {
			if x.Seconds == 0 {
				x.Seconds = (o.Clock.Monotonic() - from).Seconds()
			}
			curve = append(curve, x)
			progress(x.Step, x.Of)
		})
		return err
	})
	switch {
	case t == nil && interrupt != nil:
		return interrupt.Exitf("pretrain: %w; nothing was saved", interrupt)
	case err != nil:
		return fmt.Errorf("pretrain: %w", err)
	}
	errs := []error{pretrain.Replace(o.Path(o.out), t.file)}
	for _, name := range o.curves {
		errs = append(errs, writePolicyCurve(o.Path(name), o, t, curve))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if o.JSON {
		err = o.policyJSON(t, curve, elapsed.Seconds())
	} else {
		err = o.Print(o.policySummary(p, t, curve, elapsed.Seconds()))
	}
	if err == nil && interrupt != nil {
		err = interrupt.Exitf("pretrain: %w after %d %s; the agent so far is in %s", interrupt, t.steps, p.unit, cli.Quote(o.out))
	}
	return err
}

// writePolicyCurve writes the learning curve as CSV or as an HTML page, by the extension of path.
func writePolicyCurve(path string, o *pretrainOptions, t *trainedPolicy, curve []policyPoint) error {
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
	line := experiment.Line{Name: o.agent}
	for _, x := range curve {
		line.Points = append(line.Points, experiment.Point{X: float64(x.Step), Y: x.Value})
	}
	page := experiment.Page{Title: fmt.Sprintf("Training of %s in %s", o.agent, o.env), Subtitle: fmt.Sprintf("seed %d", o.seed),
		Charts: []experiment.Chart{{Title: "Learning curve", Note: t.measure, X: experiment.Axis{Name: "steps", Zero: true}, Y: experiment.Axis{Name: t.measure}, Lines: []experiment.Line{line}}}}
	for _, fact := range t.facts {
		page.Facts = append(page.Facts, experiment.Fact{Name: fact[0], Value: fact[1]})
	}
	if err := page.Write(&b); err != nil {
		return err
	}
	return pretrain.Replace(path, b.Bytes())
}

// policyJSON writes the JSON object of pretrain; these agents have one objective and no front.
func (o *pretrainOptions) policyJSON(t *trainedPolicy, curve []policyPoint, wall float64) error {
	returns := []experiment.Number{}
	for _, x := range curve {
		returns = append(returns, experiment.Number(x.Value))
	}
	return o.PrintJSON(struct {
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
	}{pretrain.Schema, o.env, o.agent, o.seed, t.steps, [][]experiment.Number{}, experiment.Number(math.NaN()), []experiment.Number{},
		experiment.Number(lastKnown(curve)), returns, experiment.Number(wall), o.out})
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

func (o *pretrainOptions) policySummary(p policyEnv, t *trainedPolicy, curve []policyPoint, wall float64) string {
	var b strings.Builder
	row := func(name, value string) { fmt.Fprintf(&b, "%-18s %s\n", name, value) }
	fmt.Fprintf(&b, "%s in %s, seed %d: %d %s in %s\n", o.agent, o.env, o.seed, t.steps, p.unit, time.Duration(wall*float64(time.Second)).Round(time.Second/10))
	if v := lastKnown(curve); !math.IsNaN(v) {
		row("reached", fmt.Sprintf("%.4f, %s", v, t.measure))
	}
	for _, fact := range t.facts {
		row(fact[0], fact[1])
	}
	row("file", o.out)
	for _, curve := range o.curves {
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
func trainQueue(ctx context.Context, o *pretrainOptions, report func(policyPoint)) (*trainedPolicy, error) {
	if err := errors.Join(cli.WantOne("backfill", o.backfill, "none", "rlscheduler"), o.Want("procs", o.procs >= 1, "at least 1")); err != nil {
		return nil, cli.Usage(err)
	}
	// Generated sequences are those on which the built-in policies were trained.
	options := agents.Options{Method: o.agent, Seed: o.seed, Hidden: o.hidden, Updates: o.steps, Validation: 48,
		Sequence: rlscheduler.Sequence{Backfill: o.backfill == "rlscheduler", Drawn: &rlscheduler.Drawn{Low: 0.7, High: 1.4, Varied: true}}}
	if o.agent == "evolution" {
		options.Relative, options.Logarithm, options.Episodes, options.Sequence.Length = true, true, 24, 640
	}
	trace := &rlscheduler.Trace{Procs: o.procs, Nodes: o.procs}
	source := fmt.Sprintf("sequences generated for %d processors", o.procs)
	if o.trace != "" {
		var err error
		if trace, err = rlscheduler.Load(o.Path(o.trace)); err != nil {
			return nil, cli.Usagef("--trace: %w", err)
		}
		options.Sequence.Drawn, source = nil, "sequences of "+o.trace
	}
	var from *agents.Agent
	if o.resume != "" {
		data, err := regular.ReadFile(o.Path(o.resume), regular.Data)
		if err != nil {
			return nil, cli.Usagef("--resume: %w", err)
		}
		if from, err = agents.Load(bytes.NewReader(data)); err != nil {
			return nil, cli.Usagef("--resume %s: %w", o.resume, err)
		}
	}
	steps, of := 0, options.WithDefaults().Updates
	measure := "mean of −bounded slowdown on validation sequences"
	if options.Logarithm {
		measure = "mean of ln(bounded slowdown of SJF by its own) on validation sequences"
	}
	a, err := agents.Train(ctx, trace, options, from, func(p agents.Progress) {
		steps = p.Update
		report(policyPoint{Step: p.Update, Of: of, Value: p.Validation})
	})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := a.Write(&b); err != nil {
		return nil, err
	}
	return &trainedPolicy{file: b.Bytes(), measure: measure, steps: steps, facts: [][2]string{{"trained on", source}},
		use: fmt.Sprintf("optimize simulate queue --policy %s --backfill %s", cli.Quote(o.out), o.backfill)}, nil
}

// policyAgents lists the agents of policyEnvs for the help text.
func policyAgents() string {
	text := ""
	for _, n := range slices.Sorted(maps.Keys(policyEnvs)) {
		text += "; of " + n + ": " + strings.Join(policyEnvs[n].agents, ", ")
	}
	return text
}

// trainPlacement trains the sub-schedulers of Metis.
func trainPlacement(ctx context.Context, o *pretrainOptions, report func(policyPoint)) (*trainedPolicy, error) {
	table, err := place.LoadTable(o.table, o.Path, 0, 1)
	if err != nil {
		return nil, cli.Usagef("--table: %w", err)
	}
	options := learned.Options{Recipe: o.agent, Table: table, Seed: o.seed, Episodes: o.steps, Clock: o.Clock.Monotonic}
	from, steps := o.Clock.Monotonic(), 0
	m, _, err := learned.Train(ctx, options, func(p learned.Point) {
		steps = p.Episode
		report(policyPoint{Step: p.Episode, Of: max(o.steps, p.Episode), Seconds: p.Seconds - from.Seconds(), Value: p.Value})
	})
	if err != nil {
		return nil, err
	}
	measure := "mean throughput of a container while it explores"
	if o.agent == "original" {
		measure += " above round robin"
	}
	var b bytes.Buffer
	if err := m.Save(&b); err != nil {
		return nil, err
	}
	use := "optimize simulate placement --method metis --model " + cli.Quote(o.out)
	if o.table != place.EmbeddedData {
		use += " --table " + cli.Quote(o.table) + " --counts …"
	}
	return &trainedPolicy{file: b.Bytes(), measure: measure, steps: steps, use: use}, nil
}
