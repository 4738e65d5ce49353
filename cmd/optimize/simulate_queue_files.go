package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"trainopt/simulator/queue/sweep"
	"trainopt/simulator/workload/batsim"
	"trainopt/simulator/workload/swf"
)

// filesFlags holds the flags that write the simulation input in formats of other simulators.
type filesFlags struct {
	platformOut, workloadOut string
	version                  int
}

func (f *filesFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.platformOut, "platform-out", "", "write the platform to `FILE` as Batsim's XML, which has speeds and watts, no memory and bandwidth")
	fs.StringVar(&f.workloadOut, "workload-out", "", "write the jobs that are simulated to `FILE`: Batsim's JSON, or a trace where it is .swf or .swf.gz")
	fs.IntVar(&f.version, "workload-version", 3, "of Batsim's JSON in --workload-out: 3|5")
}

func (f *filesFlags) check(q *simulatingQueue, cmd *cobra.Command) error {
	var errs []error
	if f.platformOut != "" && !q.onPlatform() {
		errs = append(errs, errors.New("--platform-out says nothing without --platform or --options"))
	}
	if f.version != 3 && f.version != 5 {
		errs = append(errs, fmt.Errorf("--workload-version %d: want 3 or 5", f.version))
	}
	if f.workloadOut == "" || f.trace() {
		errs = append(errs, q.only(cmd, "without --workload-out FILE.json", "workload-version"))
	}
	if q.listen != "" {
		errs = append(errs, q.only(cmd, "with --batsim-endpoint, where jobs are elsewhere", "platform-out", "workload-out"))
	}
	return errors.Join(errs...)
}

// trace reports whether the jobs are written as a trace.
func (f *filesFlags) trace() bool {
	return strings.HasSuffix(f.workloadOut, ".swf") || strings.HasSuffix(f.workloadOut, ".swf.gz")
}

// write writes the platform and the jobs of a window.
func (f *filesFlags) write(e *env, w *sweep.Workload, window sweep.Window) error {
	if f.platformOut != "" {
		var xml bytes.Buffer
		if err := w.Tree.WriteXML(&xml); err != nil {
			return fmt.Errorf("--platform-out: %w", err)
		}
		if err := os.WriteFile(inDir(e.dir, f.platformOut), xml.Bytes(), 0o644); err != nil {
			return fmt.Errorf("--platform-out: %w", err)
		}
	}
	if f.workloadOut == "" {
		return nil
	}
	jobs := w.Jobs[window.Start : window.Start+window.Length]
	if f.trace() {
		if err := swf.Save(inDir(e.dir, f.workloadOut), nil, jobs, w.Procs); err != nil {
			return fmt.Errorf("--workload-out: %w", err)
		}
		return nil
	}
	var text bytes.Buffer
	if err := batsim.FromJobs(jobs, w.Procs).Write(&text, f.version); err != nil {
		return fmt.Errorf("--workload-out: %w", err)
	}
	if err := os.WriteFile(inDir(e.dir, f.workloadOut), text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("--workload-out: %w", err)
	}
	return nil
}
