// Command workloads writes gavel.table, the embedded throughput table, from Gavel's published JSON:
//
//	go run ./internal/gen/workloads --data FOLDER [--out FILE]
//
// FOLDER contains gavel/simulation_throughputs.json.gz: scheduler/simulation_throughputs.json of the repository
// stanford-futuredata/gavel, optionally compressed by gzip.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"trainopt/simulator/workload"
)

// head is the header of the table, which states its source.
var head = []string{
	"Steps per second of training jobs, alone and in pairs on shared GPUs. Made by internal/gen/workloads.",
	"source: Gavel (OSDI 2020), scheduler/simulation_throughputs.json of github.com/stanford-futuredata/gavel",
	"commit: c4fa40097339e9608ab71fd64c8bdea96a5e4a4c of 2022-01-15",
	"licence: MIT, Copyright (c) 2020 Stanford Future Data Systems",
}

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
		return errors.New("--data FOLDER is missing")
	}
	t, err := workload.LoadThroughputs(filepath.Join(data, "gavel", "simulation_throughputs.json.gz"))
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := t.WriteTable(&b, head...); err != nil {
		return err
	}
	return os.WriteFile(out, b.Bytes(), 0o644)
}
