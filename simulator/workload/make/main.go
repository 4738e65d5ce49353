// Command make writes the throughput table that is part of the program, gavel.table, from Gavel's published JSON:
//
//	go run ./simulator/workload/make --data FOLDER [--out FILE]
//
// FOLDER has simulation_throughputs.json (or .json.gz) of the repository stanford-futuredata/gavel in a folder gavel.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"trainopt/simulator/workload"
)

func main() {
	data := flag.String("data", "", "folder with gavel/simulation_throughputs.json.gz")
	out := flag.String("out", "simulator/workload/gavel.table", "file to write")
	flag.Parse()
	if err := run(*data, *out); err != nil {
		fmt.Fprintln(os.Stderr, "make the throughput table:", err)
		os.Exit(1)
	}
}

func run(data, out string) error {
	if data == "" {
		return fmt.Errorf("--data FOLDER is missing")
	}
	path := filepath.Join(data, "gavel", "simulation_throughputs.json.gz")
	if _, err := os.Stat(path); err != nil {
		path = filepath.Join(data, "gavel", "simulation_throughputs.json")
	}
	t, err := workload.LoadThroughputs(path)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := t.WriteTable(&b, workload.GavelTableHead()...); err != nil {
		return err
	}
	return os.WriteFile(out, b.Bytes(), 0o644)
}
