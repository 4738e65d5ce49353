// Package report shows what one run did: whether it finished, kept the agreement, what it cost, what was
// predicted, and what was saved against the user's own configuration. It reads the run directory only (run.json
// and the CSV tables), finished or not, whole or damaged.
//
// It measures and decides nothing, and it makes up nothing: what was not measured is "no data", and what was
// predicted says so. A format is one file and one line in the registry of formats.go.
//
//	data, err := report.Load(".optimize/runs/20261120-221235-train-3f9a1c")
//	if err != nil {
//		return err
//	}
//	err = report.Render(os.Stdout, data, "text") // or markdown, json, html, csv
package report
