package cluster

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/engine"
	"trainopt/optimizer/run"
	"trainopt/resources"
)

func gpus(names ...string) (h resources.Host) {
	h.CPUs, h.Memory = 16, 64
	for i, name := range names {
		h.GPUs = append(h.GPUs, resources.GPU{Index: i, UUID: fmt.Sprint("GPU-", i), Name: name})
	}
	return h
}

func TestLocalDevices(t *testing.T) {
	for name, c := range map[string]struct {
		host   resources.Host
		slots  int
		stated []Device
		want   string // types, or the error
	}{
		"CPUs":                {gpus(), 0, nil, "16 cpu"},
		"slots":               {gpus(), 4, nil, "4 cpu"},
		"less than a CPU":     {resources.Host{CPUs: 0.5, Memory: 1}, 0, nil, "1 cpu"},
		"GPUs":                {gpus("NVIDIA A100-SXM4-80GB", "Tesla V100", "NVIDIA A100-SXM4-80GB"), 0, nil, "2 a100-sxm4-80gb, 1 tesla-v100"},
		"stated GPUs":         {gpus("NVIDIA A100", "Tesla V100"), 0, []Device{{Name: "v100", Count: 1}}, "1 v100"},
		"GPUs that are not":   {gpus("NVIDIA A100"), 0, []Device{{Name: "h100", Count: 1}}, "0 GPUs of type h100"},
		"stated without GPUs": {gpus(), 0, []Device{{Name: "slow", Count: 3}, {Name: "fast", Count: 1}}, "1 fast, 3 slow"},
		"too many":            {gpus(), 1e6, nil, "slots"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := NewLocal(c.host, c.slots, c.stated)
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Error(err)
				}
				return
			}
			checkDevices(t, l.Devices(), c.want)
		})
	}
}

func checkDevices(t *testing.T, devices []Device, want string) {
	t.Helper()
	var have []string
	for _, d := range devices {
		have = append(have, fmt.Sprintf("%d %s", d.Count, d.Name))
		if d.PerServer < 1 || d.CPUs <= 0 || d.USDHour <= 0 {
			t.Errorf("device %+v: without servers, CPUs or a price", d)
		}
	}
	if text := strings.Join(have, ", "); text != want {
		t.Errorf("devices %s, want %s", text, want)
	}
}

func TestLocalPlace(t *testing.T) {
	l, err := NewLocal(gpus("A100", "V100", "A100", "A100"), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := l.Place(run.Config{GPUs: "1:2"}, 0, []int32{2, 0}, "", nil)
	if a := p.Lease.Allocation; a.GPUs != 2 || strings.Join(a.GPUIDs, " ") != "GPU-3 GPU-0" || a.CPUs != 8 || p.Config.GPUs != "" {
		t.Errorf("two of three A100: %+v, %+v", a, p.Config)
	}
	slots, err := NewLocal(gpus(), 32, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a := slots.Place(run.Config{}, 0, []int32{5}, "", nil).Lease.Allocation; a.GPUs != 0 || a.CPUs != 1 {
		t.Errorf("half a CPU: %+v, want one CPU", a)
	}
}

func TestCountDevices(t *testing.T) {
	for name, c := range map[string]struct {
		devices   []Device
		spec      Spec
		least, at int // want; 0: an error
	}{
		"devices":          {[]Device{{CPUs: 4, GPU: true}}, Spec{Min: 2, Max: 3}, 2, 3},
		"CPUs of slots":    {[]Device{{CPUs: 4}}, Spec{Min: 5, Max: 8, CPUs: true}, 2, 2},
		"parts of a CPU":   {[]Device{{CPUs: 0.5}}, Spec{Min: 1, Max: 2, CPUs: true}, 2, 4},
		"the smaller slot": {[]Device{{CPUs: 4}, {CPUs: 2}}, Spec{Min: 4, Max: 4, CPUs: true}, 2, 2},
		"CPUs of GPUs":     {[]Device{{CPUs: 4, GPU: true}}, Spec{Min: 5, Max: 8, CPUs: true}, 0, 0},
	} {
		err := c.spec.countDevices(c.devices)
		if (err != nil) != (c.least == 0) || err == nil && (c.spec.Min != c.least || c.spec.Max != c.at) {
			t.Errorf("%s: %d to %d, %v: want %d to %d", name, c.spec.Min, c.spec.Max, err, c.least, c.at)
		}
	}
}

func TestNodes(t *testing.T) {
	offers := []engine.Offer{
		{Partition: "gpu", Default: true, GPUType: "a100", GPUs: 4, CPUs: 32, Memory: 128, Nodes: 2},
		{Partition: "gpu", Default: true, GPUType: "k80", GPUs: 2, CPUs: 8, Memory: 32, Nodes: 3},
		{Partition: "gpu", Default: true, CPUs: 64, Memory: 128, Nodes: 1},
		{Partition: "cpu", CPUs: 64, Memory: 128, Nodes: 2}, {Partition: "cpu", CPUs: 16, Memory: 64, Nodes: 1},
		{Partition: "down", CPUs: 64, Memory: 128},
		{Partition: "large", GPUType: "a100", GPUs: 8, CPUs: 64, Memory: 256, Nodes: 2, Names: []string{"l0", "l1"}},
		{Partition: "mixed", GPUType: "a100", GPUs: 4, CPUs: 32, Memory: 128, Nodes: 3, Names: []string{"m0", "m1", "m2"}},
		{Partition: "mixed", GPUType: "a100", GPUs: 8, CPUs: 64, Memory: 256, Nodes: 1, Names: []string{"l0"}},
		{Partition: "mixed", GPUType: "a100", GPUs: 8, CPUs: 96, Memory: 512, Nodes: 1, Names: []string{"l2"}},
		{Partition: "part", GPUType: "a100", GPUs: 4, CPUs: 32, Memory: 128, Nodes: 1, Names: []string{"p0"}, Down: []string{"p1"}},
		{Partition: "part", GPUType: "k80", GPUs: 2, CPUs: 8, Memory: 32, Down: []string{"p2", "p3"}},
		{Partition: "short", GPUType: "a100", GPUs: 4, CPUs: 32, Memory: 128, Nodes: 2, Names: []string{"m2", "m3"}},
	}
	for name, c := range map[string]struct {
		args   []string
		stated []Device
		want   string
	}{
		"default partition":   {nil, nil, "8 a100, 6 k80"},
		"one type":            {[]string{"--gres=gpu:k80"}, nil, "6 k80"},
		"CPUs":                {[]string{"-p", "cpu"}, nil, "16 cpu16, 128 cpu64"},
		"stated":              {nil, []Device{{Name: "k80", Count: 2}, {Name: "A100", Count: 1}}, "1 a100, 2 k80"},
		"more than exist":     {nil, []Device{{Name: "k80", Count: 7}}, "want 7 k80, there are 8 a100, 6 k80"},
		"no such type":        {nil, []Device{{Name: "h100", Count: 1}}, "want 1 h100"},
		"no node up":          {[]string{"--partition=down"}, nil, "partition down"},
		"two sizes":           {[]string{"--partition=mixed"}, nil, "12 a100, 16 a100-x8"},
		"one size":            {[]string{"--partition=large"}, nil, "16 a100"},
		"two partitions":      {[]string{"--partition=mixed,short"}, nil, "16 a100, 16 a100-x8"},
		"nodes that are down": {[]string{"--partition=part"}, []Device{{Name: "a100", Count: 8}, {Name: "k80", Count: 4}}, "8 a100, 4 k80"},
		"larger nodes":        {[]string{"--partition=large,short,mixed"}, []Device{{Name: "a100-x8", Count: 25}}, "there are 16 a100, 24 a100-x8"},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := NewNodes("slurm", c.args, offers, nil, c.stated, nil)
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Error(err)
				}
				return
			}
			checkDevices(t, n.Devices(), c.want)
			p := n.Place(run.Config{}, 0, []int32{0}, "", nil)
			if a := p.Lease.Allocation; p.Site == nil || p.Config.Engine != "slurm" || a.CPUs < 1 || a.GPUs > 1 {
				t.Errorf("placement %+v", p)
			}
		})
	}
}

// TestNodesUp: nodes that are down, drained or added change the numbers, within those of the start.
func TestNodesUp(t *testing.T) {
	offers := []engine.Offer{
		{Partition: "gpu", Default: true, GPUType: "a100", GPUs: 4, CPUs: 32, Memory: 128, Nodes: 2},
		{Partition: "gpu", Default: true, GPUType: "k80", GPUs: 2, CPUs: 8, Memory: 32, Nodes: 3},
		{Partition: "gpu", Default: true, CPUs: 64, Memory: 128, Nodes: 1},
	}
	now := offers
	n, err := NewNodes("slurm", nil, offers, func(context.Context) ([]engine.Offer, error) { return now, nil }, []Device{{Name: "a100", Count: 8}, {Name: "k80", Count: 3}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		a100, k80 int // nodes
		want      []int
	}{
		"all": {2, 3, []int{8, 3}}, "one fewer": {1, 3, []int{4, 3}}, "more than stated remain": {2, 2, []int{8, 3}}, "fewer than stated": {2, 1, []int{8, 2}},
		"a type is gone": {0, 3, []int{0, 3}}, "added": {5, 5, []int{8, 3}}, "all are gone": {0, 0, []int{0, 0}},
	} {
		now = slices.Clone(offers)
		now[0].Nodes, now[1].Nodes = c.a100, c.k80
		if up, err := n.Up(t.Context()); err != nil || !slices.Equal(up.devices, c.want) {
			t.Errorf("%s: %v, %v, want %v", name, up, err, c.want)
		}
	}
}

// TestNodesDownAtStart: devices of nodes that are down at the start count once their node is up, also those of a type of which
// no node was.
func TestNodesDownAtStart(t *testing.T) {
	now := []engine.Offer{
		{Partition: "gpu", Default: true, GPUType: "a100", GPUs: 4, CPUs: 32, Memory: 128, Nodes: 1, Names: []string{"n0"}, Down: []string{"n1"}},
		{Partition: "gpu", Default: true, GPUType: "k80", GPUs: 2, CPUs: 8, Memory: 32, Down: []string{"n2"}},
	}
	n, err := NewNodes("slurm", nil, now, func(context.Context) ([]engine.Offer, error) { return now, nil }, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkDevices(t, n.Devices(), "8 a100, 2 k80")
	for _, want := range [][]int{{4, 0}, {8, 2}, {4, 2}} {
		down := map[int]string{4: "n1 n2", 8: ""}[want[0]]
		if want[1] == 2 && want[0] == 4 {
			down = "n0"
		}
		if up, err := n.Up(t.Context()); err != nil || !slices.Equal(up.devices, want) || strings.Join(up.down, " ") != down {
			t.Errorf("%v, %v, want %v without %s", up, err, want, down)
		}
		now = slices.Clone(now)
		now[0].Nodes, now[0].Names, now[0].Down = 2, []string{"n0", "n1"}, nil
		now[1].Nodes, now[1].Names, now[1].Down = 1, []string{"n2"}, nil
		if want[0] == 8 {
			now[0].Nodes, now[0].Names, now[0].Down = 1, []string{"n1"}, []string{"n0"}
		}
	}
}

// partlyUp is a machine of which some devices are up.
type partlyUp struct {
	*local
	up chan []int // the present numbers
}

func (p partlyUp) Up(context.Context) (presence, error) {
	up := <-p.up
	p.up <- up
	return presence{devices: up}, nil
}

// TestServerStartsWithoutNode: a job that needs a node that is down when the server starts waits, and starts once the node is up.
func TestServerStartsWithoutNode(t *testing.T) {
	t.Parallel()
	dir, r := t.TempDir(), newRehearsal()
	all, err := NewLocal(resources.Host{CPUs: 2, CPUIDs: []int{0, 1}, Memory: 16}, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	site := partlyUp{all, make(chan []int, 1)}
	site.up <- []int{1}
	cfg := training(t, dir, "large")
	id, err := Submit(cfg.StateDir, Spec{Submitted: time.Now(), Min: 2, Max: 2, Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	signals, served := make(chan os.Signal), make(chan error, 1)
	go func() {
		served <- Serve(Config{StateDir: cfg.StateDir, Site: site, Policy: "fifo", Round: 4 * time.Second, Agent: r.agent(), Message: func(line string) { t.Log(line) }}, signals)
	}()
	awaitJob(t, cfg.StateDir, id, func(j *Job) bool { return j.Reason == "too few devices are up" || j.State.Ended() || j.State.holds() })
	if j, _, err := ReadJob(cfg.StateDir, id); err != nil || j.State != Waiting {
		t.Errorf("with one device: %+v, %v", j, err)
	}
	if s, _, err := ReadServer(cfg.StateDir); err != nil || s.Down["cpu"] != 1 || s.Devices[0].Count != 2 {
		t.Errorf("server %+v, %v", s, err)
	}
	<-site.up
	site.up <- []int{2}
	awaitJob(t, cfg.StateDir, id, func(j *Job) bool { return j.State.Ended() })
	if j, _, err := ReadJob(cfg.StateDir, id); err != nil || j.State != Done {
		t.Errorf("with both devices: %+v, %v", j, err)
	}
	signals <- os.Interrupt
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestSeveralNodes: a distributed job receives all devices of several nodes; any other one is refused where it is
// submitted, with the reason.
func TestSeveralNodes(t *testing.T) {
	n, err := NewNodes("slurm", nil, []engine.Offer{{Partition: "gpu", Default: true, GPUType: "k80", GPUs: 4, CPUs: 8, Memory: 32, Nodes: 2}}, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := n.Place(run.Config{}, 0, []int32{0, 1, 2, 3, 4, 5, 6, 7}, "", nil)
	if a := p.Lease.Allocation; a.GPUs != 4 || a.CPUs != 8 || p.Config.Nodes != 2 {
		t.Errorf("8 devices: %+v on %d nodes, want 4 GPUs and 8 CPUs on each of 2", a, p.Config.Nodes)
	}
	if p := n.Place(run.Config{}, 0, []int32{3, 4}, "", nil); p.Lease.Allocation.GPUs != 2 || p.Config.Nodes != 0 {
		t.Errorf("2 devices: %+v on %d nodes", p.Lease.Allocation, p.Config.Nodes)
	}
	for name, c := range map[string]struct {
		least       int
		distributed bool
		want        string
	}{
		"one node": {4, false, ""}, "two nodes": {8, true, ""}, "not distributed": {8, false, "does not run on several"}, "no multiple": {6, true, "request a multiple"},
		"too many": {9, true, "no device type has 9 devices"},
	} {
		spec := Spec{Min: c.least, Distributed: c.distributed}
		err := spec.fit(&Server{Devices: n.Devices()})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		l := newLearner(n.Devices(), 60)
		l.enter(&Job{ID: 1}, &spec, "")
		if rate, _ := l.Alone(1, 0, c.least); (rate > 0) != (c.want == "") {
			t.Errorf("%s: rate %v", name, rate)
		}
	}
}

// TestMemoryOfNodes: a job that needs more memory than any node has is refused where it is submitted; the device types of the
// local engine share one node. The largest amount of a job may exceed it.
func TestMemoryOfNodes(t *testing.T) {
	devices := []Device{{Name: "a100", Count: 4, PerServer: 2, MemoryGiB: 8}, {Name: "v100", Count: 2, PerServer: 2, MemoryGiB: 8}}
	for name, c := range map[string]struct {
		engine, memory string
		fits           bool
	}{
		"node": {"slurm", "16", true}, "above a node": {"slurm", "17", false}, "range": {"slurm", "16:999", true}, "range above": {"slurm", "17:", false},
		"two types": {"local", "32", true}, "above both": {"local", "33:40", false}, "at most": {"slurm", ":999", true}, "none": {"slurm", "", true},
	} {
		spec := Spec{Config: run.Config{Memory: c.memory}}
		err := spec.fit(&Server{Engine: c.engine, Devices: devices})
		if c.fits != (err == nil) || err != nil && !strings.Contains(err.Error(), "--memory "+c.memory+": no node has more than") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (&Spec{Config: run.Config{Memory: "999"}}).fit(&Server{Devices: []Device{{Name: "a100", Count: 1}}}); err != nil {
		t.Errorf("memory of the nodes unknown: %v", err)
	}
}
