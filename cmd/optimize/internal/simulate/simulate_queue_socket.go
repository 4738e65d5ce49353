package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"

	"github.com/spf13/pflag"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/batsim"
	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
	"trainopt/simulator/queue/sweep"
)

// socketFlags holds the flags that delegate one half of the simulation to another process over Batsim's protocol.
type socketFlags struct{ listen, connect, transcript string }

func (f *socketFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.listen, "batsim-endpoint", "", "make the decisions for another Batsim that connects to `ENDPOINT`, such as tcp://*:28000")
	fs.StringVar(&f.connect, "serve-batsim", "", "simulate the decisions of a process at `ENDPOINT` (PyBatsim, batsched), such as tcp://localhost:28000")
	fs.StringVar(&f.transcript, "transcript", "", "write every message of the protocol to `FILE`, one per line")
}

func (f *socketFlags) rules() []cli.Rule {
	return []cli.Rule{
		{If: f.listen != "", Flags: "serve-batsim window", Conflict: "--batsim-endpoint"},
		{If: f.connect != "", Flags: "policy", Conflict: "--serve-batsim"},
		{If: f.listen == "" && f.connect == "", Flags: "transcript", Requires: "--batsim-endpoint or --serve-batsim"},
	}
}

// check checks the endpoints.
func (f *socketFlags) check() error {
	for _, end := range []struct {
		flag, endpoint string
		listens        bool
	}{{"--batsim-endpoint", f.listen, true}, {"--serve-batsim", f.connect, false}} {
		if end.endpoint == "" {
			continue
		}
		if err := batsim.CheckEndpoint(end.endpoint, end.listens); err != nil {
			return fmt.Errorf("%s: %w", end.flag, err)
		}
	}
	return nil
}

// openTranscript opens the transcript, whose warnings become notes of a workload; done closes it.
func (f *socketFlags) openTranscript(e *cli.Env, w *sweep.Workload) (t batsim.Conversation, done func() error, err error) {
	t.Warn = func(text string) { w.Notes = append(w.Notes, text) }
	if f.transcript == "" {
		return t, func() error { return nil }, nil
	}
	file, err := os.Create(e.Path(f.transcript))
	if err != nil {
		return t, nil, fmt.Errorf("--transcript: %w", err)
	}
	t.Transcript = file
	return t, file.Close, nil
}

// serve makes decisions for a remote simulator. Only agents need local jobs, relative to which they observe the remote
// ones.
func (o *simulateQueueOptions) serve(ctx context.Context) (*sweep.Run, error) {
	policy := cmp.Or(o.policy, "fcfs")
	options := batsim.ServeOptions{Listening: func(a net.Addr) { fmt.Fprintln(o.Stderr, "listening at", batsim.Endpoint(a)) }}
	w := &sweep.Workload{Name: "jobs of a simulator at " + o.listen, Dropped: map[string]int{}}
	if o.platform != "" {
		tree, err := platform.ReadTree(o.existing(o.platform))
		if err != nil {
			return nil, cli.Usagef("--platform: %w", err)
		}
		options.Tree, w.Tree = tree, tree
	}
	switch sweep.KindOf(policy) {
	case sweep.Pair:
		pair, err := hdeeprm.ParsePair(policy)
		if err != nil {
			return nil, err
		}
		settings := pair.Settings(int64(uint32(o.seed)), o.compat)
		options.Pairs = &settings
	case sweep.Order:
		options.Order, options.Backfill = policy, o.backfill
	default:
		return nil, cli.Usagef("--policy %s: over a socket want an order or a pair", policy)
	}
	talk, done, err := o.openTranscript(o.Env, w)
	if err != nil {
		return nil, err
	}
	options.Conversation = talk
	result, err := batsim.Serve(ctx, o.listen, options)
	err = errors.Join(err, done())
	return remoteRun(w, result, sweep.Method{Policy: policy, Backfill: cmp.Or(o.backfill, "none"), Seed: o.seed, Compat: o.compat}), err
}

// remoteRun returns the run of a result received over a socket; nil if the simulation did not start.
func remoteRun(w *sweep.Workload, result *queue.Result, m sweep.Method) *sweep.Run {
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

// simulateRemoteDecisions simulates the decisions of a remote decision process.
func (o *simulateQueueOptions) simulateRemoteDecisions(ctx context.Context, w *sweep.Workload, window sweep.Window, progress func(done, total int)) (*sweep.Run, error) {
	p, err := w.Settle(window)
	if err != nil {
		return nil, cli.Usage(err)
	}
	tree, jobs := w.Tree, w.Jobs[p.Start:p.Start+p.Length]
	if tree == nil {
		tree = platform.Uniform(w.Procs, 1, 1, math.Inf(1), platform.Processor{Bandwidth: math.Inf(1), GFLOPS: 1, Watts: 1})
	}
	talk, done, err := o.openTranscript(o.Env, w)
	if err != nil {
		return nil, err
	}
	result, err := batsim.Simulate(ctx, o.connect, tree, jobs, batsim.SimulateOptions{Conversation: talk, RoundPower: o.compat, Progress: progress})
	err = errors.Join(err, done())
	if result != nil && w.Tree == nil {
		result.Energy = math.NaN()
	}
	r := remoteRun(w, result, sweep.Method{Policy: "decisions from " + o.connect, Backfill: "elsewhere", Seed: o.seed, Compat: o.compat})
	if r != nil {
		r.Window = p
	}
	return r, err
}
