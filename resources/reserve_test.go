package resources

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// chooseOn returns an enforcer of n CPUs whose job does not start yet.
func chooseOn(t *testing.T, r Roots, n int) *enforcer {
	t.Helper()
	e := enforceOn(t, r, &kernelModel{root: r.Cgroup}, Allocation{CPUs: n}, Limits{})
	t.Cleanup(e.Release)
	return e
}

func wantCPUs(t *testing.T, what string, e *enforcer, want ...int) {
	t.Helper()
	if !slices.Equal(e.s.CPUIDs, want) {
		t.Errorf("%s: CPUs %v, want %v", what, e.s.CPUIDs, want)
	}
}

func waitLonger(t *testing.T, d time.Duration) {
	usual := exclusiveWait
	exclusiveWait = d
	t.Cleanup(func() { exclusiveWait = usual })
}

// No process of the jobs exists yet.
func TestJobsThatStartTogetherChooseDifferentCPUs(t *testing.T) {
	waitLonger(t, time.Minute) // on a machine that stalls
	r := machine(t, "none")    // CPUs 0-5
	var all sync.WaitGroup
	chosen := make([][]int, 7)
	for i := range chosen {
		all.Go(func() {
			e, err := NewEnforcer(EnforceOptions{RunID: fmt.Sprint(i), Allocation: Allocation{CPUs: 2}, Roots: r})
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(e.Release)
			chosen[i] = e.s.CPUIDs
		})
	}
	all.Wait()
	jobs := map[int]int{}
	for _, ids := range chosen {
		for _, id := range ids {
			jobs[id]++
		}
	}
	for id := range 6 {
		if jobs[id] < 2 || jobs[id] > 3 { // 14 on 6
			t.Errorf("CPU %d: %d jobs of 2 CPUs; choices %v", id, jobs[id], chosen)
		}
	}
}

func TestOneChoiceAtATime(t *testing.T) {
	waitLonger(t, time.Minute)
	var all sync.WaitGroup
	var choosing atomic.Int32
	for range 8 {
		all.Go(func() {
			release := reserve("test-"+t.Name(), func([]string) []string {
				if n := choosing.Add(1); n > 1 {
					t.Errorf("%d choose at the same time", n)
				}
				time.Sleep(5 * time.Millisecond)
				choosing.Add(-1)
				return nil
			})
			release()
		})
	}
	all.Wait()
}

func TestCPUsAreReservedUntilRelease(t *testing.T) {
	r := machine(t, "v2-root") // CPUs 0-3
	first, second := chooseOn(t, r, 1), chooseOn(t, r, 1)
	wantCPUs(t, "first job", first, 0)
	wantCPUs(t, "second job", second, 1)
	first.Release()
	wantCPUs(t, "after the release", chooseOn(t, r, 2), 0, 2)
	second.Release()
	wantCPUs(t, "after the second", chooseOn(t, r, 2), 1, 3)
	wantCPUs(t, "on another machine", chooseOn(t, machine(t, "v2-root"), 1), 0)
}

func TestARunningJobGrowsBesideAJobThatStarts(t *testing.T) {
	r := machine(t, "v2-root")
	running := chooseOn(t, r, 1)
	running.Release()
	wantCPUs(t, "running job", running, 0)
	wantCPUs(t, "a job that starts", chooseOn(t, r, 1), 0) // a recorded machine shows no process of the first
	wantCPUs(t, "another", chooseOn(t, r, 2), 1, 2)
	if not, err := running.Update(Allocation{CPUs: 2}, nil); err != nil {
		t.Error(err, not)
	}
	wantCPUs(t, "the grown job", running, 0, 3)
	wantCPUs(t, "after it has grown", chooseOn(t, r, 1), 3)
}

func TestReservationsEndWithTheirProcess(t *testing.T) {
	r := machine(t, "none")
	c := startChild(t, "choose", Recipe{})
	if got := c.ask(r.Proc); got != "[0]" {
		t.Fatalf("the other process chose %q, want CPU 0", got)
	}
	wantCPUs(t, "while the other process lives", chooseOn(t, r, 1), 1)
	_ = c.Process.Kill()
	_ = c.wait()
	wantCPUs(t, "after its death", chooseOn(t, r, 2), 0, 2)
}

// A process that stops while it chooses, and a machine without abstract sockets, leave the choice to the processes seen.
func TestChoiceWithoutTheLock(t *testing.T) {
	waitLonger(t, 0)
	r := machine(t, "v2-root")
	lock := bind("@optimize/"+nameOn("cpus", r.Proc), 0)
	if lock == nil {
		t.Fatal("the lock is held")
	}
	defer lock.Close()
	wantCPUs(t, "first job", chooseOn(t, r, 1), 0)
	wantCPUs(t, "second job", chooseOn(t, r, 1), 1)
	reserve(fmt.Sprintf("a name that is too long for a socket: %0100d", 0), func([]string) []string { return []string{"0"} })()
}

// beforeMkdir is a tree in which something happens before the first cgroup is created.
type beforeMkdir struct {
	*kernelModel
	act func()
}

func (b beforeMkdir) mkdir(dir string) error {
	b.act()
	return b.kernelModel.mkdir(dir)
}

func TestAJobThatEndsLeavesTheControllersToOneThatStarts(t *testing.T) {
	waitLonger(t, time.Minute)
	r := machine(t, "v2-root")
	ends := chooseOn(t, r, 1)
	removed := make(chan error, 1)
	k := &kernelModel{root: r.Cgroup}
	act := sync.OnceFunc(func() {
		go func() { removed <- ends.Remove() }()
		for end := time.Now().Add(100 * time.Millisecond); len(removed) == 0 && time.Now().Before(end); { // unless it waits
			time.Sleep(time.Millisecond)
		}
	})
	starts, err := NewEnforcer(EnforceOptions{RunID: "r2", Allocation: Allocation{CPUs: 2}, Roots: r, tree: beforeMkdir{k, act}})
	if err != nil {
		t.Fatal(err)
	}
	defer starts.Release()
	if err := <-removed; err != nil {
		t.Error(err)
	}
	if on, _ := k.read(filepath.Join(r.Cgroup, "cgroup.subtree_control")); !strings.Contains(on, "cpuset") || !strings.Contains(on, "memory") {
		t.Errorf("controllers on for the job that starts: %q", on)
	}
}

func TestPick(t *testing.T) {
	h := testHost(3)
	for i := range h.GPUs {
		h.GPUs[i].Index, h.GPUs[i].UUID = 100+i, t.Name()+h.GPUs[i].UUID // that no process on this machine has
	}
	all := []string{h.GPUs[0].UUID, h.GPUs[1].UUID, h.GPUs[2].UUID}
	cases := map[string]struct {
		n       int
		has     []string
		busy    map[string]int
		visible string // to a process
		want    []string
	}{
		"first two":                    {n: 2, want: all[:2]},
		"around the busy":              {n: 2, busy: map[string]int{all[0]: 1}, want: all[1:]},
		"the least busy":               {n: 1, busy: map[string]int{all[0]: 2, all[1]: 1, all[2]: 3}, want: all[1:2]},
		"all":                          {n: 3, busy: map[string]int{all[0]: 1}, want: all},
		"those that it has":            {n: 1, has: all[1:2], busy: map[string]int{all[1]: 1}, want: all[1:2]},
		"more than it has":             {n: 2, has: all[1:2], want: all[:2]},
		"not enough":                   {n: 4},
		"none":                         {n: 0},
		"negative":                     {n: -1},
		"around those of a process":    {n: 1, visible: all[0] + "," + all[1], want: all[2:]},
		"around those of it by number": {n: 2, visible: "101", want: []string{all[0], all[2]}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.visible != "" {
				t.Setenv("CUDA_VISIBLE_DEVICES", c.visible)
				startChild(t, "sleep", Recipe{})
			}
			ids, release := h.Pick(c.n, c.has, func() map[string]int { return c.busy })
			defer release()
			diff(t, "devices", ids, c.want)
		})
	}
	none := func() map[string]int { return nil }
	first, release := h.Pick(2, nil, none)
	second, releaseSecond := h.Pick(1, nil, none)
	defer releaseSecond()
	diff(t, "devices of a job that starts beside two of the first", second, all[2:])
	diff(t, "devices of the first", first, all[:2])
	release()
	third, releaseThird := h.Pick(2, nil, none)
	releaseThird()
	diff(t, "devices after the first has ended", third, all[:2])
	_, releaseRestarted := h.Pick(1, all[:1], none)
	beside, releaseBeside := h.Pick(1, nil, none)
	diff(t, "devices of a job that starts beside one that keeps the first", beside, all[1:2])
	releaseRestarted()
	releaseBeside()
	h.GPUs[1].Name = "another"
	mixed, releaseMixed := h.Pick(2, nil, func() map[string]int { return map[string]int{all[0]: 1} })
	releaseMixed()
	diff(t, "devices of one model", mixed, []string{all[0], all[2]})
	h.Nodes = 1
	for range 2 {
		ids, release := h.Pick(1, nil, none)
		defer release()
		diff(t, "devices of an engine", ids, all[:1])
	}
}
