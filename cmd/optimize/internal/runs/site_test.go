package runs

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/engine"
	"trainopt/optimizer/engine/slurm"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/launch/remote"
	"trainopt/optimizer/run"
	"trainopt/resources"
)

// offering is an engine with nodes and nothing else.
type offering struct {
	engine.Engine
	offers []engine.Offer
}

func (o offering) Offers(context.Context) ([]engine.Offer, error) { return o.offers, nil }

// TestSiteWithoutGPUs checks that a training that may use GPUs is placed on nodes with GPUs, and without such a node where one
// that uses CPUs only is placed, with the same choice of other nodes.
func TestSiteWithoutGPUs(t *testing.T) {
	small, large := engine.Offer{Partition: "small", Default: true, CPUs: 4, Memory: 8, Nodes: 2, Idle: 1}, engine.Offer{Partition: "large", Default: true, CPUs: 8, Memory: 8, Nodes: 2, Idle: 2}
	gpu := engine.Offer{Partition: "gpu", Default: true, GPUType: "a100", GPUs: 2, CPUs: 8, Memory: 8, Nodes: 1}
	for _, c := range []struct {
		offers    []engine.Offer
		may       bool
		partition string
		gpus      int
		others    int
	}{
		{[]engine.Offer{small, large, gpu}, true, "gpu", 2, 0},
		{[]engine.Offer{small, large, gpu}, false, "large", 0, 2},
		{[]engine.Offer{small, large}, true, "large", 0, 1},
		{[]engine.Offer{small, large}, false, "large", 0, 1},
	} {
		s, err := siteOn(t.Context(), &cli.Env{Self: []string{"optimize"}}, offering{offers: c.offers}, run.Config{}, c.may)
		if err != nil || s.Place.Partition != c.partition || len(s.Host.GPUs) != c.gpus || len(s.Others) != c.others {
			t.Errorf("%d kinds of nodes, may use GPUs %v: %+v with %d GPUs, %d others, %v; want %s with %d, %d others", len(c.offers), c.may, s.Place, len(s.Host.GPUs), len(s.Others), err, c.partition, c.gpus, c.others)
		}
		limits := s.Host.DefaultLimits(c.may)
		if limits.GPUs != (resources.Range{Min: min(1, c.gpus), Max: c.gpus}) {
			t.Errorf("%d kinds of nodes, may use GPUs %v: limits of %v GPUs", len(c.offers), c.may, limits.GPUs)
		}
	}
}

// TestSiteRefusesANumberOfGPUs checks that an option of the site may name the type of GPUs, and not a number that contradicts --gpus.
func TestSiteRefusesANumberOfGPUs(t *testing.T) {
	offers := offering{offers: []engine.Offer{{Partition: "gpu", Default: true, GPUType: "a100", GPUs: 4, CPUs: 8, Memory: 8, Nodes: 1}}}
	for option, want := range map[string]string{"--gres=gpu:a100": "", "--gres=gpu:a100:2": "--gpus 2"} {
		_, err := siteOn(t.Context(), &cli.Env{Self: []string{"optimize"}}, offers, run.Config{EngineArgs: []string{option}}, true)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", option, err, want)
		}
	}
}

// commands are the commands of a Slurm with one partition, of which scontrol shows the given properties.
type commands struct {
	mu        sync.Mutex
	partition string
	submitted []string // the arguments of sbatch
}

func (c *commands) run(_ context.Context, command slurm.Command) (slurm.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]string{
		"sinfo":    "PARTITION|STATE|NODES|CPUS|MEMORY|AVAIL_FEATURES|NODELIST|GRES\ngpu|idle|1|64|524288|(null)|n1|gpu:a100:4\n",
		"scontrol": "PartitionName=gpu Default=YES State=UP " + c.partition + "\n",
		"squeue":   "JOBID|STATE|REASON|SUBMIT_TIME|START_TIME|RESTART_COUNT|NODELIST|NAME|\n",
		"sbatch":   "7\n",
	}[command.Argv[0]]
	if command.Argv[0] == "sbatch" {
		c.submitted = command.Argv
	}
	return slurm.Result{Stdout: out}, nil
}

// submit starts a training for an allocation on the nodes of the partition, and returns the options of sbatch.
func (c *commands) submit(t *testing.T, a resources.Allocation, stopAfter time.Duration) []string {
	t.Helper()
	s, err := siteOn(t.Context(), &cli.Env{Self: []string{"/bin/true"}}, &slurm.Engine{Run: c.run}, run.Config{}, true)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	j, err := s.Launcher.Start(t.Context(), launch.Command{Args: []string{"/bin/true"}, Dir: dir, RunDir: filepath.Join(dir, "run"), Allocation: a, StopAfter: stopAfter})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	return c.submitted
}

// TestTimeLimitOfAJob: a job without deadline and budget gets the longest time that it may have. Where the partition would give less to
// one that asks for nothing, it is asked for; otherwise nothing is, since a quality of service may permit less than the partition.
func TestTimeLimitOfAJob(t *testing.T) {
	for _, c := range []struct {
		partition string
		stopAfter time.Duration
		want      string // empty: none is asked for
	}{
		{"DefaultTime=01:00:00 MaxTime=UNLIMITED", 0, "--time=UNLIMITED"},
		{"DefaultTime=NONE MaxTime=7-00:00:00", 0, ""},
		{"DefaultTime=01:00:00 MaxTime=7-00:00:00", 0, "--time=10080"},
		{"DefaultTime=NONE MaxTime=UNLIMITED", 0, ""},
		{"DefaultTime=01:00:00 MaxTime=01:00:00", 0, ""},
		{"DefaultTime=01:00:00 MaxTime=UNLIMITED", 2 * time.Hour, "--time=122"},
		{"DefaultTime=NONE MaxTime=7-00:00:00", 2 * time.Hour, "--time=122"},
		{"DefaultTime=NONE MaxTime=01:00:00", 2 * time.Hour, "--time=60"},
	} {
		argv := (&commands{partition: c.partition}).submit(t, resources.Allocation{GPUs: 1, CPUs: 16}, c.stopAfter)
		asked := slices.DeleteFunc(slices.Clone(argv), func(o string) bool { return !strings.HasPrefix(o, "--time") })
		if strings.Join(asked, " ") != c.want {
			t.Errorf("%s, stop after %v: %q, want %q", c.partition, c.stopAfter, asked, c.want)
		}
		if !slices.ContainsFunc(argv, func(o string) bool { return strings.HasPrefix(o, "--signal=B:USR1@") }) {
			t.Errorf("%s, stop after %v: no warning before the limit: %q", c.partition, c.stopAfter, argv)
		}
		if !slices.Contains(argv, "--mem=131072M") || !slices.Contains(argv, "--gres=gpu:a100:1") {
			t.Errorf("a quarter of a node: %q", argv)
		}
	}
}

// TestWholeNodesArePaid: a job on nodes that are allocated as a whole, by their partition or by an option, asks for all their memory, and
// is known to hold all of a node, also its GPUs if it uses none.
func TestWholeNodesArePaid(t *testing.T) {
	for _, c := range []struct {
		partition string
		args      []string
		gpus      bool
		whole     bool
		memory    resources.GiB
		held      int // GPUs
	}{
		{partition: "OverSubscribe=EXCLUSIVE", gpus: true, whole: true, memory: 512, held: 4},
		{partition: "OverSubscribe=EXCLUSIVE", whole: true, memory: 512, held: 4},
		{args: []string{"--exclusive"}, gpus: true, whole: true, memory: 512, held: 4},
		{args: []string{"--exclusive", "--account=x"}, gpus: true, whole: true, memory: 512, held: 4},
		{args: []string{"--exclusive=user"}, gpus: true, memory: 128, held: 4},
		{gpus: true, memory: 128, held: 4},
		{memory: 128},
	} {
		fake := &commands{partition: c.partition}
		s, err := siteOn(t.Context(), &cli.Env{Self: []string{"/bin/true"}}, &slurm.Engine{Run: fake.run}, run.Config{EngineArgs: c.args}, c.gpus)
		if err != nil {
			t.Fatal(err)
		}
		charged := s.Launcher.(*remote.Launcher).Charged(resources.Allocation{CPUs: 16})
		if s.Whole != c.whole || charged.Memory != c.memory || len(s.Host.GPUs) != c.held {
			t.Errorf("%+v: whole %v, %v GiB, %d GPUs", c, s.Whole, charged.Memory, len(s.Host.GPUs))
		}
	}
}
