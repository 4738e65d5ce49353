package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"

	"github.com/spf13/cobra"

	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/batsim"
	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
	"trainopt/simulator/queue/sweep"
)

// socketFlags holds the flags that delegate one half of the simulation to another process over Batsim's protocol.
type socketFlags struct{ listen, connect, transcript string }

func (f *socketFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.listen, "batsim-endpoint", "", "decide for a Batsim elsewhere that connects to `ENDPOINT`, tcp://*:28000 say")
	fs.StringVar(&f.connect, "serve-batsim", "", "simulate what a decision process at `ENDPOINT` says (PyBatsim, batsched), tcp://localhost:28000 say")
	fs.StringVar(&f.transcript, "transcript", "", "write every message of these to `FILE`, one a line")
}

func (f *socketFlags) check(cmd *cobra.Command) error {
	switch {
	case f.listen != "" && f.connect != "":
		return errors.New("--batsim-endpoint and --serve-batsim: want one of them")
	case f.transcript != "" && f.listen == "" && f.connect == "":
		return errors.New("--transcript says nothing without --batsim-endpoint or --serve-batsim")
	case f.listen != "" && cmd.Flags().Changed("window"), f.connect != "" && cmd.Flags().Changed("policy"):
		return errors.New("--window says nothing with --batsim-endpoint, nor --policy with --serve-batsim")
	case f.listen != "":
		if err := batsim.CheckEndpoint(f.listen, true); err != nil {
			return fmt.Errorf("--batsim-endpoint: %w", err)
		}
	case f.connect != "":
		if err := batsim.CheckEndpoint(f.connect, false); err != nil {
			return fmt.Errorf("--serve-batsim: %w", err)
		}
	}
	return nil
}

// talk opens the transcript; done closes it.
func (e *env) talk(f *socketFlags, warn func(string)) (t batsim.Conversation, done func() error, err error) {
	t.Warn = warn
	if f.transcript == "" {
		return t, func() error { return nil }, nil
	}
	file, err := os.Create(inDir(e.dir, f.transcript))
	if err != nil {
		return t, nil, fmt.Errorf("--transcript: %w", err)
	}
	t.Transcript = io.Writer(file)
	return t, file.Close, nil
}

// serve makes decisions for a remote simulator. Only agents need local jobs, relative to which they observe the remote
// ones.
func (e *env) serve(ctx context.Context, f *simulatingQueue) (*sweep.Run, error) {
	policy := cmpOr(f.policy, "fcfs")
	o := batsim.ServeOptions{Listening: func(a net.Addr) { fmt.Fprintln(e.stderr, "listening at", batsim.Endpoint(a)) }}
	w := &sweep.Workload{Name: "jobs of a simulator at " + f.listen, Dropped: map[string]int{}}
	if f.platform != "" {
		tree, err := platform.ReadTree(cmpOr(existing(inDir(e.dir, f.platform)), f.platform))
		if err != nil {
			return nil, usageError{fmt.Errorf("--platform: %w", err)}
		}
		o.Tree, w.Tree = tree, tree
	}
	switch sweep.KindOf(policy) {
	case sweep.Pair:
		pair, err := hdeeprm.ParsePair(policy)
		if err != nil {
			return nil, err
		}
		o.Pairs = &hdeeprm.Settings{Actions: []hdeeprm.Pair{pair}, Void: true, View: hdeeprm.Minimal, Objective: hdeeprm.Completion, Seed: int64(uint32(f.seed)), Compat: f.compat}
	case sweep.Order:
		o.Order, o.Backfill = policy, f.backfill
	default:
		return nil, usageError{fmt.Errorf("--policy %s: over a socket want an order or a pair", policy)}
	}
	talk, done, err := e.talk(&f.socketFlags, func(text string) { w.Notes = append(w.Notes, text) })
	if err != nil {
		return nil, err
	}
	o.Conversation = talk
	result, err := batsim.Serve(ctx, f.listen, o)
	err = errors.Join(err, done())
	return elsewhere(w, result, sweep.Method{Policy: policy, Backfill: cmpOr(f.backfill, "none"), Seed: f.seed, Compat: f.compat}), err
}

// existing returns the path if the file exists, otherwise "".
func existing(path string) string {
	if exists(path) {
		return path
	}
	return ""
}

// elsewhere returns the run of a result received over a socket; nil if the simulation did not start.
func elsewhere(w *sweep.Workload, result *queue.Result, m sweep.Method) *sweep.Run {
	if result == nil {
		return nil
	}
	if w.Jobs == nil {
		for i := range result.Jobs {
			w.Jobs = append(w.Jobs, *result.Jobs[i].Job)
		}
		w.Procs = result.Procs
	}
	r := &sweep.Run{Result: result, Method: m, Window: sweep.Window{Length: len(result.Jobs)}, Workload: w, Tree: w.Tree}
	r.CountDropped()
	return r
}

// askElsewhere simulates the decisions of a remote decision process.
func (e *env) askElsewhere(ctx context.Context, f *simulatingQueue, w *sweep.Workload, window sweep.Window, progress func(done, total int)) (*sweep.Run, error) {
	p, err := w.Settle(window)
	if err != nil {
		return nil, usageError{err}
	}
	tree, jobs := w.Tree, w.Jobs[p.Start:p.Start+p.Length]
	if tree == nil {
		tree = platform.Uniform(w.Procs, 1, 1, math.Inf(1), platform.Processor{Bandwidth: math.Inf(1), GFLOPS: 1, Watts: 1})
	}
	talk, done, err := e.talk(&f.socketFlags, func(text string) { w.Notes = append(w.Notes, text) })
	if err != nil {
		return nil, err
	}
	result, err := batsim.Simulate(ctx, f.connect, tree, jobs, batsim.SimulateOptions{Conversation: talk, RoundPower: f.compat, Progress: progress})
	err = errors.Join(err, done())
	if result != nil && w.Tree == nil {
		result.Energy = math.NaN()
	}
	r := elsewhere(w, result, sweep.Method{Policy: "decisions from " + f.connect, Backfill: "elsewhere", Seed: f.seed, Compat: f.compat})
	if r != nil {
		r.Window = p
	}
	return r, err
}
