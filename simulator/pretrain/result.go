package pretrain

import (
	"bytes"
	"encoding/json"
	"io"
	"math"

	"trainopt/morl"
	"trainopt/optimizer/report/page"
)

// schema is the version of the JSON of a Result.
const schema = 1

// Result is a completed or interrupted training. Unknown numbers are NaN, and null in JSON.
type Result struct {
	Agent morl.Agent // the kept agent, ready to act
	Meta  morl.Meta
	Data  []byte // its agent file
	// Present is the checkpoint to resume from; nil when all steps are done.
	Present []byte
	Curve   []point

	measured          // of the kept agent; zero if nothing was measured
	Known       bool  // at least one measurement was made
	Point       point // of the kept agent
	Reference   []float64
	Objectives  []string
	Steps       int // done
	Of          int // requested
	WallSeconds float64
}

// result assembles the result of a training; without a measurement the current agent is kept.
func (t *Training) result(complete bool) (*Result, error) {
	r := &Result{Curve: t.curve, Reference: t.world.reference, Objectives: t.agent.Shape().Objectives, Steps: t.agent.Stats().Steps, Of: t.steps,
		WallSeconds: t.wall(), Data: t.bestData, Point: t.bestAt}
	var err error
	if t.best != nil {
		r.measured, r.Known = *t.best, true
	} else if r.Data, err = t.file(t.agent, r.Steps); err != nil { // interrupted before the first measurement
		return nil, err
	}
	if !complete {
		if r.Present, err = t.encodeCheckpoint(); err != nil {
			return nil, err
		}
	}
	r.Meta, r.Agent, err = morl.ReadFile(bytes.NewReader(r.Data))
	return r, err
}

// number is a float64 that is null in JSON if unknown.
type number float64

// MarshalJSON encodes unknown numbers as null.
func (n number) MarshalJSON() ([]byte, error) { return page.JSONNumber(float64(n), 10) }

// UnmarshalJSON decodes null as NaN.
func (n *number) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*n = number(math.NaN())
		return nil
	}
	return json.Unmarshal(data, (*float64)(n))
}

func numbers(v []float64) []number {
	out := make([]number, len(v))
	for i, x := range v {
		out[i] = number(x)
	}
	return out
}

// WriteJSON writes the result as one object of schema 1. returns is the mean return of the training episodes between
// the last two measurements up to the kept agent, by objective. file is the path of the agent file, "" if it was not
// written.
func (r *Result) WriteJSON(w io.Writer, file string) error {
	type jobs struct {
		Jobs        int    `json:"jobs"`
		Agent       number `json:"utility"`
		Own         number `json:"own_configuration"`
		Model       number `json:"model"`
		OverModel   number `json:"over_model"`
		OverModelSE number `json:"over_model_se"`
	}
	out := struct {
		Schema          int        `json:"schema"`
		Env             string     `json:"env"`
		Agent           string     `json:"agent"`
		Seed            uint64     `json:"seed"`
		Steps           int        `json:"steps"`
		Objectives      []string   `json:"objectives"`
		Front           [][]number `json:"front"`
		Hypervolume     number     `json:"hypervolume"`
		Reference       []number   `json:"reference"`
		ExpectedUtility number     `json:"expected_utility"`
		Returns         []number   `json:"returns"`
		Evaluation      *jobs      `json:"evaluation,omitempty"`
		KeptAt          int        `json:"kept_at_step"`
		WallS           number     `json:"wall_s"`
		File            *string    `json:"file"`
		Interrupted     bool       `json:"interrupted,omitempty"`
	}{Schema: schema, Env: r.Meta.Env, Agent: r.Meta.Agent, Seed: r.Meta.Seed, Steps: r.Steps, Objectives: r.Objectives, Front: [][]number{},
		Hypervolume: number(math.NaN()), Reference: numbers(r.Reference), ExpectedUtility: number(math.NaN()), Returns: append([]number{}, r.Point.Returns...),
		KeptAt: r.Meta.Stats.Steps, WallS: number(r.WallSeconds), Interrupted: r.Steps < r.Of}
	if r.Known {
		out.Hypervolume, out.ExpectedUtility = number(r.Hypervolume), number(r.ExpectedUtility)
	}
	for _, p := range r.Front {
		out.Front = append(out.Front, numbers(p))
	}
	if j := r.Jobs; j != nil {
		out.Evaluation = &jobs{j.Jobs, number(j.Agent), number(j.Own), number(j.Model), number(j.OverModel), number(j.OverModelSE)}
	}
	if file != "" {
		out.File = &file
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(out)
}
