// Package report shows the results of one run: whether it finished and met its SLA, its cost, the predictions, and the
// savings against the baseline. It reads only the run directory (run.json and the CSV tables), whether the run is
// finished or not and the files are complete or damaged.
//
// It measures nothing, decides nothing and invents nothing: unmeasured numbers are "no data" and predictions are
// labelled. A format is one file and one line in the registry in formats.go.
//
//	data, err := report.Load(".optimize/runs/20261120-221235-train-3f9a1c")
//	if err != nil {
//		return err
//	}
//	err = data.Render(os.Stdout, "text") // or markdown, json, html, csv
package report
