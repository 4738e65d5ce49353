package metis

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"strconv"

	"trainopt/optimizer/report/page"
	"trainopt/optimizer/schedule/place"
	"trainopt/simulator/experiment"
)

// Report is a placement with information for its reader.
type Report struct {
	Method string
	Seed   uint64
	Compat bool
	// Problem is the placed problem, with measured throughputs. Told is the problem as known to the method, with
	// predicted throughputs; nil if the method knew the measured ones.
	Problem, Told *place.Problem
	Objective     place.Objective
	*Outcome
	SolveS    float64 // run time of the method, s; NaN if unknown
	What      string  // short description of the batch
	Predictor string  // source of the throughputs of Told
	Notes     []string
}

// formats is the registry of output formats. A new format is one line here.
var formats = page.Formats[*view]{
	"csv":  page.CSVOf((*view).nodes),
	"html": page.HTMLOf((*view).pictured),
	"json": asJSON,
	"text": page.TextOf((*view).document),
}

// Formats returns the formats of a Report, sorted.
func Formats() []string { return formats.Names() }

// Write writes the placement in one of Formats. It returns an error if it is not valid for the problem.
func (r *Report) Write(w io.Writer, format string) error {
	v, err := newView(r)
	if err != nil {
		return fmt.Errorf("write placement: %w", err)
	}
	return formats.Write(w, "placement", v, format)
}

// violations describes violated constraints.
type violations struct {
	Magnitude experiment.Number `json:"magnitude"`
	Instances int               `json:"instances"`
}

// appJSON is the result of one app.
type appJSON struct {
	App        string            `json:"app"`
	Containers int               `json:"containers"`
	MeanRPS    experiment.Number `json:"mean_rps"`
	SLOShare   experiment.Number `json:"slo_share"`
}

// typeJSON is a node type of the cluster.
type typeJSON struct {
	Name     string  `json:"name"`
	Nodes    int     `json:"nodes"`
	Capacity int     `json:"capacity"`
	Cost     float64 `json:"cost"`
}

// result is the JSON document: the required fields, followed by additional ones.
type result struct {
	Schema     int               `json:"schema"`
	Engine     string            `json:"engine"`
	Method     string            `json:"method"`
	Placement  [][]int           `json:"placement"`
	MeanRPS    experiment.Number `json:"mean_rps"`
	SLOShare   experiment.Number `json:"slo_share"`
	Violations violations        `json:"violations"`
	NodesUsed  int               `json:"nodes_used"`
	Bound      experiment.Number `json:"bound"`
	Gap        experiment.Number `json:"gap"`
	SolveS     experiment.Number `json:"solve_s"`
	Warnings   []string          `json:"warnings"`

	Seed         uint64             `json:"seed"`
	Compat       bool               `json:"compat"`
	Batch        string             `json:"batch"`
	Counts       []int              `json:"counts"`
	Nodes        int                `json:"nodes"`
	Types        []typeJSON         `json:"node_types"`
	SLO          float64            `json:"slo"`
	Objective    map[string]float64 `json:"objective"`
	Value        experiment.Number  `json:"value"`
	Predictor    string             `json:"predictor"`
	PredictedRPS experiment.Number  `json:"predicted_rps"`
	Cost         float64            `json:"cost"`
	Apps         []appJSON          `json:"apps"`
	Curve        []point            `json:"curve"`
	Notes        []string           `json:"notes,omitempty"` // how the method found the placement
}

// asJSON writes the run as an indented document with arrays of integers on one line.
func asJSON(w io.Writer, v *view) error {
	out := result{Schema: 1, Engine: "placement", Method: v.Method, MeanRPS: experiment.Number(v.worth.MeanRPS), SLOShare: experiment.Number(v.worth.SLOShare),
		Violations: violations{experiment.Number(v.worth.Magnitude), v.worth.Instances}, NodesUsed: v.worth.NodesUsed,
		Bound: experiment.Number(v.Bound), Gap: experiment.Number(v.Gap), SolveS: experiment.Number(v.SolveS), Warnings: v.Report.Notes, Notes: v.Outcome.Notes,
		Seed: v.Seed, Compat: v.Compat, Batch: v.What, Counts: v.Problem.Batch, Nodes: v.Problem.Nodes(), SLO: v.Problem.Threshold(),
		Objective: weights(v.Objective), Value: experiment.Number(v.Value), Predictor: v.predictor(), PredictedRPS: experiment.Number(v.predicted.MeanRPS), Cost: v.worth.Cost,
		Placement: [][]int{}, Apps: []appJSON{}, Curve: append([]point{}, v.Curve...)}
	if m, err := Find(v.Method); err == nil && !m.Objective {
		out.Objective = map[string]float64{}
	}
	for _, counts := range v.Placement {
		node := make([]int, len(counts))
		for a, k := range counts {
			node[a] = int(k)
		}
		out.Placement = append(out.Placement, node)
	}
	for _, t := range v.Problem.Types {
		out.Types = append(out.Types, typeJSON{t.Name, t.Count, t.Table.Capacity(), t.Cost})
	}
	for _, a := range v.apps {
		out.Apps = append(out.Apps, appJSON{a.name, a.containers, experiment.Number(a.mean()), experiment.Number(a.share())})
	}
	if out.Warnings == nil {
		out.Warnings = []string{}
	}
	text, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(rows.ReplaceAllFunc(text, func(row []byte) []byte { return spaces.ReplaceAll(row, nil) }), '\n'))
	return err
}

// Arrays of integers are written on one line each.
var (
	rows   = regexp.MustCompile(`\[\n\s*\d+(?:,\n\s*\d+)*\n\s*\]`)
	spaces = regexp.MustCompile(`\s+`)
)

// weights returns the non-zero weights of an objective.
func weights(o place.Objective) map[string]float64 {
	if o == (place.Objective{}) {
		o.RPS = 1
	}
	out := map[string]float64{"rps": o.RPS, "slo": o.SLO, "vacant": o.Vacant, "cost": o.Cost, "violations": o.Missed}
	maps.DeleteFunc(out, func(_ string, w float64) bool { return w == 0 })
	return out
}

// nodes returns one row per node; unknown values are empty.
func (v *view) nodes() [][]string {
	head := []string{"node", "type", "containers", "mean_rps", "served", "violations"}
	for _, app := range v.names {
		head = append(head, "n_"+app)
	}
	lines := [][]string{head}
	for n, counts := range v.Placement {
		g := v.groups[v.groupOf[n]]
		mean := ""
		if g.size > 0 {
			mean = strconv.FormatFloat(g.rps/float64(g.size), 'g', 6, 64)
		}
		line := []string{strconv.Itoa(n + 1), v.Problem.Types[g.kind].Name, strconv.Itoa(g.size), mean, strconv.Itoa(g.served), strconv.FormatFloat(g.missed, 'g', -1, 64)}
		for _, k := range counts {
			line = append(line, strconv.Itoa(int(k)))
		}
		lines = append(lines, line)
	}
	return lines
}

// ratio returns a / b, NaN for b = 0.
func ratio(a float64, b int) float64 {
	if b == 0 {
		return math.NaN()
	}
	return a / float64(b)
}
