package main

import (
	"bytes"
	"io"
	"path/filepath"

	"trainopt/simulator/workload"
)

// workloadsHead says where the table is from.
var workloadsHead = []string{
	"Steps per second of training jobs, alone and in pairs on shared GPUs. Made by internal/gen workloads.",
	"source: Gavel (OSDI 2020), scheduler/simulation_throughputs.json of github.com/stanford-futuredata/gavel",
	"commit: c4fa40097339e9608ab71fd64c8bdea96a5e4a4c of 2022-01-15",
	"licence: MIT, Copyright (c) 2020 Stanford Future Data Systems",
}

// makeWorkloads writes gavel.table, the throughputs of Gavel's jobs, from gavel/simulation_throughputs.json.gz:
// scheduler/simulation_throughputs.json of the repository stanford-futuredata/gavel, compressed by gzip or not.
func makeWorkloads(args []string, _ io.Writer) error {
	s, err := parseSources(args, "gavel/simulation_throughputs.json.gz", "simulator/workload/gavel.table", "")
	if err != nil {
		return err
	}
	t, err := workload.LoadThroughputs(filepath.Join(s.data, "gavel", "simulation_throughputs.json.gz"))
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := t.WriteTable(&b, workloadsHead...); err != nil {
		return err
	}
	return s.write(b.Bytes())
}
