package pretrain

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"trainopt/internal/regular"
	"trainopt/optimizer/report/page"
	"trainopt/optimizer/schedule/place"
	"trainopt/simulator/ancestors/metis"
	"trainopt/simulator/ancestors/rlscheduler"
	"trainopt/simulator/experiment"
)

// policyWorld is an environment whose agents have their own training recipes and decide only about queues or placements.
type policyWorld struct {
	Agents []string // their names
	Unit   string   // unit of steps
	train  func(context.Context, PolicyOptions, func(PolicyPoint)) (*Policy, error)
}

// PolicyWorlds is the registry of these environments: one line each.
var PolicyWorlds = map[string]policyWorld{
	"placement": {metis.Recipes(), "episodes", trainPlacement},
	"queue":     {[]string{"evolution", "ppo"}, "updates", trainQueue},
}

// PolicyOptions configures the training of an agent of a policyWorld.
type PolicyOptions struct {
	Env, Agent string
	Seed       uint64
	Steps      int                  // 0: those of the recipe
	Clock      func() time.Duration // monotonic time

	Table *place.Table // of placement

	Trace    string // of queue: file with the jobs; "" generates jobs
	Procs    int    // processors of the machine, without a trace
	Backfill bool
	Resume   string // file of an agent to continue from; "" starts a new one
	Hidden   []int  // units of the hidden layers; nil: those of the recipe
}

// PolicyPoint is one point of a learning curve.
type PolicyPoint struct {
	Step, Of int
	Seconds  float64
	Value    float64 // NaN if not measured
}

// Policy is a trained agent with its learning curve.
type Policy struct {
	Data    []byte // its file
	Measure string // meaning of the values of the curve
	Steps   int
	Source  string // description of the jobs it was trained on; "" for placement
	Curve   []PolicyPoint
}

// TrainPolicy trains an agent of the environment o.Env. report receives each point of the learning curve.
func TrainPolicy(ctx context.Context, o PolicyOptions, report func(PolicyPoint)) (*Policy, error) {
	from := o.Clock()
	var curve []PolicyPoint
	p, err := PolicyWorlds[o.Env].train(ctx, o, func(x PolicyPoint) {
		x.Seconds = (o.Clock() - from).Seconds()
		curve = append(curve, x)
		report(x)
	})
	if p != nil {
		p.Curve = curve
	}
	return p, err
}

// trainQueue trains an agent that selects the next waiting job.
func trainQueue(ctx context.Context, o PolicyOptions, report func(PolicyPoint)) (*Policy, error) {
	// Generated sequences are those on which the built-in policies were trained.
	options := rlscheduler.TrainOptions{Method: o.Agent, Seed: o.Seed, Hidden: o.Hidden, Updates: o.Steps, Validation: 48,
		Sequence: rlscheduler.Sequence{Backfill: o.Backfill, Drawn: &rlscheduler.Drawn{Low: 0.7, High: 1.4, Varied: true}}}
	if o.Agent == "evolution" {
		options.Relative, options.Logarithm, options.Episodes, options.Sequence.Length = true, true, 24, 640
	}
	trace := &rlscheduler.Trace{Procs: o.Procs, Nodes: o.Procs}
	p := &Policy{Source: fmt.Sprintf("sequences generated for %d processors", o.Procs), Measure: "mean of −bounded slowdown on validation sequences"}
	if o.Trace != "" {
		var err error
		if trace, err = rlscheduler.Load(o.Trace); err != nil {
			return nil, InputError{"--trace", err}
		}
		options.Sequence.Drawn, p.Source = nil, "sequences of "+filepath.Base(o.Trace)
	}
	if options.Logarithm {
		p.Measure = "mean of ln(bounded slowdown of SJF by its own) on validation sequences"
	}
	var from *rlscheduler.Agent
	if o.Resume != "" {
		data, err := regular.ReadFile(o.Resume, regular.Data)
		if err == nil {
			from, err = rlscheduler.ReadAgent(bytes.NewReader(data))
		}
		if err != nil {
			return nil, InputError{"--resume " + filepath.Base(o.Resume), err}
		}
	}
	of := options.WithDefaults().Updates
	a, err := rlscheduler.Train(ctx, trace, options, from, func(x rlscheduler.TrainProgress) {
		p.Steps = x.Update
		report(PolicyPoint{Step: x.Update, Of: of, Value: x.Validation})
	})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = a.Write(&b)
	p.Data = b.Bytes()
	return p, err
}

// trainPlacement trains the sub-schedulers of Metis.
func trainPlacement(ctx context.Context, o PolicyOptions, report func(PolicyPoint)) (*Policy, error) {
	p := &Policy{Measure: "mean throughput of a container while it explores"}
	if o.Agent == "original" {
		p.Measure += " above round robin"
	}
	options := metis.TrainOptions{Recipe: o.Agent, Table: o.Table, Seed: o.Seed, Episodes: o.Steps, Clock: o.Clock}
	m, _, err := metis.Train(ctx, options, func(x metis.LearningPoint) {
		p.Steps = x.Episode
		report(PolicyPoint{Step: x.Episode, Of: max(o.Steps, x.Episode), Value: x.Value})
	})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = m.Save(&b)
	p.Data = b.Bytes()
	return p, err
}

// InputError is an error in an input named by an option.
type InputError struct {
	Option string // "--trace"
	Err    error
}

func (e InputError) Error() string { return e.Option + ": " + e.Err.Error() }
func (e InputError) Unwrap() error { return e.Err }

// Last returns the last measured value of the curve, NaN without one.
func (p *Policy) Last() float64 {
	for _, x := range slices.Backward(p.Curve) {
		if !math.IsNaN(x.Value) {
			return x.Value
		}
	}
	return math.NaN()
}

// WriteCSV writes the learning curve as a table.
func (p *Policy) WriteCSV(w io.Writer) error {
	var b bytes.Buffer
	b.WriteString("step,wall_s,value\n")
	for _, x := range p.Curve {
		value := ""
		if !math.IsNaN(x.Value) {
			value = strconv.FormatFloat(x.Value, 'g', 10, 64)
		}
		fmt.Fprintf(&b, "%d,%.3f,%s\n", x.Step, x.Seconds, value)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// WriteHTML writes the learning curve as a page.
func (p *Policy) WriteHTML(w io.Writer, o PolicyOptions) error {
	line := page.Series{Name: o.Agent}
	for _, x := range p.Curve {
		line.Points = append(line.Points, page.Point{X: float64(x.Step), Y: x.Value})
	}
	picture := page.Chart{Title: "Learning curve", Note: p.Measure, X: page.Axis{Name: "steps", Zero: true}, Y: page.Axis{Name: p.Measure}, Series: []page.Series{line}}
	d := page.Document{Title: fmt.Sprintf("Training of %s in %s", o.Agent, o.Env), Subtitle: fmt.Sprintf("seed %d", o.Seed),
		Sections: []page.Section{{Blocks: []page.Block{{Pictures: []page.Picture{picture.Picture()}}}}}}
	if p.Source != "" {
		d.Tiles = append(d.Tiles, page.Tile{Label: "trained on", Value: p.Source})
	}
	return d.HTML(w)
}

// WriteJSON writes the JSON object of pretrain; these agents have one objective and no front.
func (p *Policy) WriteJSON(w io.Writer, o PolicyOptions, wall time.Duration, file string) error {
	returns := []experiment.Number{}
	for _, x := range p.Curve {
		returns = append(returns, experiment.Number(x.Value))
	}
	enc := json.NewEncoder(w)
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
	}{schema, o.Env, o.Agent, o.Seed, p.Steps, [][]experiment.Number{}, experiment.Number(math.NaN()), []experiment.Number{},
		experiment.Number(p.Last()), returns, experiment.Number(wall.Seconds()), file})
}
