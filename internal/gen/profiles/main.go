// Command profiles fits models.json to the published tables of Pollux and Gavel:
//
//	go run ./internal/gen/profiles --data DIR [--out FILE] --date YYYY-MM-DD
//
// DIR contains pollux-profiles and gavel. Only tables whose licence permits it (Apache-2.0, MIT) are read. The output
// is determined by the tables and the date.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"trainopt/simulator/training/profile"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fit:", err)
		os.Exit(1)
	}
}

// run fits the step-time and efficiency models of Pollux, loads the rates of Gavel, validates the result by parsing it
// and writes it to the file. It prints the fit errors of each model.
func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("fit", flag.ContinueOnError)
	data := flags.String("data", "", "directory with pollux-profiles and gavel")
	file := flags.String("out", "simulator/training/profile/models.json", "file to write")
	date := flags.String("date", "", "day of the fit, YYYY-MM-DD, written into the file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *data == "" || *date == "" {
		return fmt.Errorf("--data and --date are needed")
	}
	m := profile.Models{Schema: 1, Made: "go run ./internal/gen/profiles"}
	for _, model := range polluxModels {
		s, err := fitPollux(filepath.Join(*data, "pollux-profiles"), model, *date)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%-16s step time: median error %4.1f %%, p90 %4.1f %% of %d; efficiency: median %4.1f %%, p90 %4.1f %% of %d\n",
			s.Name, 100*s.Error.Median, 100*s.Error.P90, s.Error.Points, 100*s.EfficiencyError.Median, 100*s.EfficiencyError.P90, s.EfficiencyError.Points)
		m.Steps = append(m.Steps, s)
	}
	counts, err := profile.LoadGavel(filepath.Join(*data, "gavel"))
	if err != nil {
		return err
	}
	for i := range counts {
		counts[i].Origin = profile.GavelOrigin
		counts[i].Fitted = *date
	}
	m.Counts = counts
	fmt.Fprintf(out, "%d kinds with rates at a few numbers of GPUs\n", len(counts))
	encoded, err := encode(m)
	if err != nil {
		return err
	}
	if _, err := profile.ParseModels(encoded); err != nil {
		return err
	}
	return os.WriteFile(*file, encoded, 0o644)
}

// encode writes the models as JSON with one entry per line.
func encode(m profile.Models) ([]byte, error) {
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
