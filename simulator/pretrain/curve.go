package pretrain

import (
	"io"
	"math"
	"strconv"

	"trainopt/optimizer/report/page"
)

// point is one measurement of an agent during its training, in the form of a checkpoint. Unknown numbers are NaN.
type point struct {
	Steps           int      `json:"s"`
	Episodes        int      `json:"e"`
	WallS           number   `json:"w"` // seconds
	Loss            number   `json:"l"` // of the critics, moving average
	Returns         []number `json:"r"` // mean return of the training episodes since the last measurement, by objective
	FrontSize       int      `json:"f"`
	Hypervolume     number   `json:"h"`
	ExpectedUtility number   `json:"u"`
	Own             number   `json:"o"`           // expected utility of the baseline
	Model           number   `json:"m"`           // that of the performance model's choices; both of jobs only
	Kept            bool     `json:"k,omitempty"` // this agent was kept
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
			v := number(math.NaN())
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
func cell(v number) string { return page.CSVCell(float64(v), 8) }
