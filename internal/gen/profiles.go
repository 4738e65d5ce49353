package main

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"trainopt/optimizer/history"
	"trainopt/simulator/pretrain"
)

// profilesFitted is the day of the last fit.
const profilesFitted = "2026-11-21"

// makeProfiles writes models.json from the published tables of Pollux and Gavel, pollux-profiles and gavel. Only tables whose
// licence allows it (Apache-2.0, MIT) are read. The same tables and date give the same file.
func makeProfiles(args []string, out io.Writer) error {
	s, err := parseSources(args, "pollux-profiles and gavel", "simulator/pretrain/models.json", profilesFitted)
	if err != nil {
		return err
	}
	m := pretrain.Models{Schema: 1, Made: "go run ./internal/gen profiles"}
	for _, model := range polluxModels {
		fitted, err := fitPollux(filepath.Join(s.data, "pollux-profiles"), model, s.date)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%-16s step time: median error %4.1f %%, p90 %4.1f %% of %d; efficiency: median %4.1f %%, p90 %4.1f %% of %d\n",
			fitted.Name, 100*fitted.Error.Median, 100*fitted.Error.P90, fitted.Error.Points, 100*fitted.EfficiencyError.Median, 100*fitted.EfficiencyError.P90, fitted.EfficiencyError.Points)
		m.Steps = append(m.Steps, fitted)
	}
	curves, err := history.LoadGavelCurves(filepath.Join(s.data, "gavel"))
	if err != nil {
		return err
	}
	for _, c := range curves {
		counted := pretrain.CountModel{Origin: pretrain.GavelOrigin, GavelCurve: c}
		counted.Fitted = s.date
		m.Counts = append(m.Counts, counted)
	}
	fmt.Fprintf(out, "%d kinds with rates at a few numbers of GPUs\n", len(curves))
	encoded, err := encodeModels(m)
	if err != nil {
		return err
	}
	if _, err := pretrain.ParseModels(encoded); err != nil {
		return err
	}
	return s.write(encoded)
}

// encodeModels writes one entry a line.
func encodeModels(m pretrain.Models) ([]byte, error) {
	var b []byte
	line := func(prefix string, v any, suffix string) error {
		e, err := json.Marshal(v)
		b = append(append(append(b, prefix...), e...), suffix...)
		return err
	}
	err := line(`{"schema":1,"made":`, m.Made, ",\n\"steps\":[\n")
	for i, s := range m.Steps {
		if err == nil {
			err = line("", s, separator(i, len(m.Steps)))
		}
	}
	b = append(b, "],\n\"counts\":[\n"...)
	for i, c := range m.Counts {
		if err == nil {
			err = line("", c, separator(i, len(m.Counts)))
		}
	}
	return append(b, "]}\n"...), err
}

func separator(i, n int) string {
	if i == n-1 {
		return "\n"
	}
	return ",\n"
}
