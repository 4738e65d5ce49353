package pretrain

import (
	"encoding/json"
	"io"
	"math"
	"strconv"

	"trainopt/optimizer/report/page"
)

// point is one measurement of an agent during its training. Unknown numbers are NaN.
type point struct {
	Steps, Episodes int
	WallS           float64   // seconds
	Loss            float64   // of the critics, moving average
	Returns         []float64 // mean return of the training episodes since the last measurement, by objective
	FrontSize       int
	Hypervolume     float64
	ExpectedUtility float64
	Own, Model      float64 // expected utility of the baseline and of the performance model's choices; jobs only
	Kept            bool    // this agent was kept
}

// pointJSON is the form of a Point in a checkpoint.
type pointJSON struct {
	Steps    int      `json:"s"`
	Episodes int      `json:"e"`
	WallS    number   `json:"w"`
	Loss     number   `json:"l"`
	Returns  []number `json:"r"`
	Front    int      `json:"f"`
	Volume   number   `json:"h"`
	Utility  number   `json:"u"`
	Own      number   `json:"o"`
	Model    number   `json:"m"`
	Kept     bool     `json:"k,omitempty"`
}

// MarshalJSON encodes unknown numbers as null.
func (p point) MarshalJSON() ([]byte, error) {
	return json.Marshal(pointJSON{p.Steps, p.Episodes, number(p.WallS), number(p.Loss), numbers(p.Returns), p.FrontSize, number(p.Hypervolume),
		number(p.ExpectedUtility), number(p.Own), number(p.Model), p.Kept})
}

// UnmarshalJSON decodes the format of MarshalJSON.
func (p *point) UnmarshalJSON(data []byte) error {
	var j pointJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*p = point{Steps: j.Steps, Episodes: j.Episodes, WallS: float64(j.WallS), Loss: float64(j.Loss), FrontSize: j.Front, Hypervolume: float64(j.Volume),
		ExpectedUtility: float64(j.Utility), Own: float64(j.Own), Model: float64(j.Model), Kept: j.Kept}
	for _, v := range j.Returns {
		p.Returns = append(p.Returns, float64(v))
	}
	return nil
}

// WriteCSV writes the curve: a header and one row per measurement; unknown numbers are empty. kept is 1 in the row of
// the agent that was kept.
func (r *Result) WriteCSV(w io.Writer) error {
	head := []string{"steps", "episodes", "wall_s", "loss"}
	for _, o := range r.Objectives {
		head = append(head, "return_"+o)
	}
	head = append(head, "front_size", "hypervolume", "expected_utility")
	if r.Jobs != nil {
		head = append(head, "utility_own_configuration", "utility_model")
	}
	lines := [][]string{append(head, "kept")}
	for _, p := range r.Curve {
		row := []string{strconv.Itoa(p.Steps), strconv.Itoa(p.Episodes), cell(p.WallS), cell(p.Loss)}
		for i := range r.Objectives {
			v := math.NaN()
			if i < len(p.Returns) {
				v = p.Returns[i]
			}
			row = append(row, cell(v))
		}
		row = append(row, strconv.Itoa(p.FrontSize), cell(p.Hypervolume), cell(p.ExpectedUtility))
		if r.Jobs != nil {
			row = append(row, cell(p.Own), cell(p.Model))
		}
		kept := "0"
		if p.Kept {
			kept = "1"
		}
		lines = append(lines, append(row, kept))
	}
	return page.CSV(w, lines)
}

// cell formats a number for CSV; "" if unknown.
func cell(v float64) string { return page.CSVCell(v, 8) }
