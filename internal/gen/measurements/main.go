// Command measurements writes measurements.csv, the embedded measurements, from the published tables:
//
//	go run ./internal/gen/measurements --data DIR [--out FILE] [--date YYYY-MM-DD]
//
// DIR contains pollux-profiles, gavel, elasticflow and mlperf. Only data whose licence permits it is included, thinned
// by Thin. The output is determined by the tables and the date.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"trainopt/optimizer/history/measured"
)

// made is the default date of the output: the day on which the tables were last thinned.
const made = "2026-11-22"

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "make:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("make", flag.ContinueOnError)
	data := flags.String("data", "", "directory with pollux-profiles, gavel, elasticflow and mlperf")
	file := flags.String("out", "optimizer/history/measured/measurements.csv", "file to write")
	date := flags.String("date", made, "day of the making, YYYY-MM-DD, written into the file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *data == "" {
		return fmt.Errorf("--data is needed")
	}
	entries, err := measured.Load(*data)
	if err != nil {
		return err
	}
	thin := Thin(entries)
	text, err := measured.Format(thin, *date)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d of %d measurements, %d bytes\n", len(thin), len(entries), len(text))
	return os.WriteFile(*file, text, 0o644)
}
