package report

import (
	"encoding/json"
	"io"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/report/page"
)

// renderJSON writes one object: the record of run.json and the conclusions of the report.
func renderJSON(w io.Writer, d *data) error {
	rec, err := d.Record.Encode()
	if err != nil {
		return err
	}
	type held struct {
		What       string         `json:"what"`
		Realised   journal.Number `json:"realised"`
		Comparable bool           `json:"comparable"`
		Inside     *bool          `json:"inside_90"` // null if not comparable
	}
	type line struct {
		Question string `json:"question"`
		Answer   string `json:"answer"`
	}
	state, _ := stateOf(d)
	out := struct {
		Schema          int              `json:"schema"`
		State           string           `json:"state"` // finished, failed, stopped, running, interrupted or planned only
		Answers         []line           `json:"answers"`
		Prediction      []held           `json:"predicted_vs_realised"`
		Recommendations []recommendation `json:"recommendations"`
		Missing         []string         `json:"missing"`
		Record          json.RawMessage  `json:"record"`
	}{Schema: 1, State: state, Prediction: []held{}, Recommendations: append([]recommendation{}, recommend(d.Record)...), Missing: append([]string{}, d.Missing...), Record: rec}
	for _, a := range answers(d) {
		out.Answers = append(out.Answers, line{a.Question, page.PlainBlanks(page.Clean(a.Text))})
	}
	for _, c := range realised(d.Record) {
		h := held{What: c.name, Realised: journal.Number(c.outcome), Comparable: c.comparable}
		if c.comparable {
			h.Inside = &c.inside
		}
		out.Prediction = append(out.Prediction, h)
	}
	return page.JSON(w, out)
}
