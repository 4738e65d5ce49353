package main

import (
	"fmt"
	"io"

	"trainopt/optimizer/history"
)

// measurementsMade is the day on which the tables were last thinned.
const measurementsMade = "2026-11-22"

// makeMeasurements writes measurements.csv from pollux-profiles, gavel, elasticflow and mlperf, thinned by thin. The same tables
// and date give the same file.
func makeMeasurements(args []string, out io.Writer) error {
	s, err := parseSources(args, "pollux-profiles, gavel, elasticflow and mlperf", "optimizer/history/measurements.csv", measurementsMade)
	if err != nil {
		return err
	}
	entries, err := history.LoadPublished(s.data)
	if err != nil {
		return err
	}
	kept := thin(entries)
	text, err := history.FormatPublished(kept, s.date)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d of %d measurements, %d bytes\n", len(kept), len(entries), len(text))
	return s.write(text)
}
