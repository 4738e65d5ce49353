package monitor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// procTree is a simulated /proc in a directory.
type procTree struct {
	t    rapid.TB
	dir  string
	pids []int
}

// proc is one simulated process. Times are in clock ticks, memory in KiB.
type proc struct {
	parent, start     int
	self, waited      int
	anon, shmem       int
	pssAnon, pssShmem int
	read, written     int
	noIO, noRollup    bool
	state             string
}

func (p *procTree) put(pid int, r proc) {
	p.t.Helper()
	if r.state == "" {
		r.state = "S"
	}
	files := map[string]string{
		"stat": fmt.Sprintf("%d (a) b (c)) %s %d 1 1 0 -1 4194304 100 0 0 0 %d 0 %d 0 20 0 1 0 %d 1000 100 18446744073709551615 1 1 0 0\n",
			pid, r.state, r.parent, r.self, r.waited, r.start),
		"status": fmt.Sprintf("Name:\tpython3\nVmRSS:\t  999999 kB\nRssAnon:\t  %d kB\nRssFile:\t  5000 kB\nRssShmem:\t  %d kB\n", r.anon, r.shmem),
		"io":     fmt.Sprintf("rchar: 1\nwchar: 2\nread_bytes: %d\nwrite_bytes: %d\ncancelled_write_bytes: 0\n", r.read, r.written),
		"smaps_rollup": fmt.Sprintf("00400000-7fff ---p 00000000 00:00 0 [rollup]\nRss: 1 kB\nPss: 99999 kB\nPss_Anon: %d kB\nPss_File: 777 kB\nPss_Shmem: %d kB\n",
			r.pssAnon, r.pssShmem),
	}
	dir := filepath.Join(p.dir, strconv.Itoa(pid))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		p.t.Fatal(err)
	}
	if r.noIO {
		delete(files, "io")
		os.Remove(filepath.Join(dir, "io"))
	}
	if r.noRollup {
		delete(files, "smaps_rollup")
		os.Remove(filepath.Join(dir, "smaps_rollup"))
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
	if !slices.Contains(p.pids, pid) {
		p.pids = append(p.pids, pid)
	}
}

func (p *procTree) remove(pid int) {
	os.RemoveAll(filepath.Join(p.dir, strconv.Itoa(pid)))
	p.pids = slices.DeleteFunc(p.pids, func(x int) bool { return x == pid })
}

func (p *procTree) tree() *Tree {
	return &Tree{Proc: p.dir, PIDs: func() ([]int, error) { return p.pids, nil }}
}

func collectAt(t rapid.TB, c Collector, at time.Time) Sample {
	t.Helper()
	s := NoSample(at)
	if err := c.Collect(context.Background(), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTreeRecorded(t *testing.T) {
	p := &procTree{t: t, dir: t.TempDir()}
	p.put(100, proc{parent: 1, start: 5, self: 1000, anon: 1 << 20, shmem: 1 << 18, pssAnon: 3 << 18, pssShmem: 1 << 17, read: 100, written: 10})
	p.put(101, proc{parent: 100, start: 6, self: 500, anon: 1 << 20, shmem: 1 << 18, pssAnon: 3 << 18, pssShmem: 1 << 17, read: 1, written: 1})
	tree := p.tree()
	at := time.Unix(1000, 0)
	s := collectAt(t, tree, at)
	want(t, "procs", s.Tree.Procs, 2)
	want(t, "CPU s", s.Tree.CPUSeconds, 15.)
	want(t, "shared pages once", s.Tree.MemoryGiB, 1.75)
	want(t, "I/O", []float64{s.Tree.ReadBytes, s.Tree.WriteBytes}, []float64{101, 11})
	if !math.IsNaN(s.Tree.CPUPercent) {
		t.Error("a CPU share from one sample")
	}
	// The child ends and is waited for: its time is included in the parent's counters, once.
	p.put(100, proc{parent: 1, start: 5, self: 1100, waited: 550, anon: 1 << 20, shmem: 1 << 18, read: 103, written: 12})
	p.remove(101)
	s = collectAt(t, tree, at.Add(2*time.Second))
	want(t, "CPU s", s.Tree.CPUSeconds, 16.5)
	want(t, "CPU %", s.Tree.CPUPercent, 75.)
	want(t, "one process needs no shares", s.Tree.MemoryGiB, 1.25)
	want(t, "I/O", []float64{s.Tree.ReadBytes, s.Tree.WriteBytes}, []float64{103, 12})
	// Exact memory from a cgroup takes precedence.
	tree.Memory = func() (float64, bool) { return 0.5, true }
	want(t, "exact", collectAt(t, tree, at.Add(3*time.Second)).Tree.MemoryGiB, 0.5)
	tree.Memory = func() (float64, bool) { return 0, false }
	want(t, "not exact", collectAt(t, tree, at.Add(3*time.Second)).Tree.MemoryGiB, 1.25)
}

// TestMemoryOfLoaderWorkers: the workers of a loader share the pages of their parent, and begin again in each epoch; between two
// readings of the shares the memory of the tree stays that of the parent and of what the processes gain.
func TestMemoryOfLoaderWorkers(t *testing.T) {
	p := &procTree{t: t, dir: t.TempDir()}
	p.put(100, proc{parent: 1, start: 5, anon: 1 << 20, pssAnon: 1 << 19})
	p.put(101, proc{parent: 100, start: 6, anon: 1 << 20, pssAnon: 1 << 19})
	tree := p.tree()
	at := time.Unix(1000, 0)
	memory := func(what string, gib float64) {
		t.Helper()
		at = at.Add(time.Second)
		want(t, what, collectAt(t, tree, at).Tree.MemoryGiB, gib)
		tree.shared.next = at.Add(time.Hour)
	}
	memory("two processes, read", 1)
	for pid := 102; pid < 106; pid++ {
		p.put(pid, proc{parent: 100, start: 7, anon: 1 << 20})
	}
	memory("four more workers", 1)
	p.put(100, proc{parent: 1, start: 5, anon: 3 << 19})
	memory("the parent grows by half", 1.5)
	for pid := 101; pid < 105; pid++ {
		p.remove(pid)
	}
	memory("one worker is left", 1.5)
	p.remove(105)
	memory("none is left", 1.5)
}

// TestPauseBetweenReadings: readings of shared memory cost at most a fiftieth of a core, and short ones a two-hundredth.
func TestPauseBetweenReadings(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		time.Millisecond: 201 * time.Millisecond, 150 * time.Millisecond: 15150 * time.Millisecond, time.Second: 51 * time.Second, time.Minute: 51 * time.Minute,
	} {
		if got := pssPause(took); got != want {
			t.Errorf("%v after the beginning of a reading of %v, want %v", got, took, want)
		}
	}
}

var treeCases = map[string]struct {
	change func(p *procTree)
	cpu    float64
	read   float64
}{
	"orphan ends, nobody here waits": {func(p *procTree) { p.remove(102) }, 10 + 5 + 3, 111},
	"chain ends at once":             {func(p *procTree) { p.remove(101); p.remove(102) }, 10 + 5 + 3, 111},
	"chain ends, waited for": {func(p *procTree) {
		p.remove(101)
		p.remove(102)
		p.put(100, proc{parent: 1, start: 5, self: 1000, waited: 800, read: 111})
	}, 10 + 5 + 3, 111},
	"root ends, children stay": {func(p *procTree) { p.remove(100) }, 10 + 5 + 3, 111},
	"pid used again": {func(p *procTree) {
		p.put(102, proc{parent: 101, start: 99, self: 7, read: 1})
	}, 10 + 5 + 3 + 0.07, 112},
	"zombie keeps its time": {func(p *procTree) {
		p.put(102, proc{parent: 101, start: 7, self: 300, state: "Z", noIO: true})
	}, 10 + 5 + 3, 110},
}

// The usage of ended processes is neither lost nor counted twice, regardless of the process that waited for them.
func TestTreeOfEndedProcesses(t *testing.T) {
	for name, c := range treeCases {
		t.Run(name, func(t *testing.T) {
			p := &procTree{t: t, dir: t.TempDir()}
			p.put(100, proc{parent: 1, start: 5, self: 1000, read: 100})
			p.put(101, proc{parent: 100, start: 6, self: 500, read: 10})
			p.put(102, proc{parent: 101, start: 7, self: 300, read: 1})
			tree := p.tree()
			at := time.Unix(1000, 0)
			collectAt(t, tree, at)
			c.change(p)
			for i := range 3 {
				s := collectAt(t, tree, at.Add(time.Duration(i+1)*time.Second))
				want(t, "CPU s", fmt.Sprintf("%.4g", s.Tree.CPUSeconds), fmt.Sprintf("%.4g", c.cpu))
				if name != "zombie keeps its time" {
					want(t, "read", s.Tree.ReadBytes, c.read)
				}
			}
		})
	}
}

func TestTreeUnknowns(t *testing.T) {
	p := &procTree{t: t, dir: t.TempDir()}
	p.put(100, proc{parent: 1, start: 5, self: 1000, anon: 1 << 20, noRollup: true})
	p.put(101, proc{parent: 1, start: 5, self: 1000, anon: 1 << 20, noRollup: true, noIO: true})
	s := collectAt(t, p.tree(), time.Unix(1, 0))
	want(t, "without shares every page counts", s.Tree.MemoryGiB, 2.)
	if !math.IsNaN(s.Tree.ReadBytes) {
		t.Error("bytes read are known although one process does not tell")
	}
	p.pids = append(p.pids, 999) // ended in the meantime
	want(t, "procs", collectAt(t, p.tree(), time.Unix(1, 0)).Tree.Procs, 2)

	empty := &Tree{Proc: p.dir, PIDs: func() ([]int, error) { return nil, nil }}
	if err := empty.Collect(context.Background(), &s); !errors.Is(err, ErrNoData) {
		t.Errorf("no process: %v", err)
	}
	failing := &Tree{PIDs: func() ([]int, error) { return nil, errors.New("no cgroup") }}
	if err := failing.Collect(context.Background(), &s); err == nil || errors.Is(err, ErrNoData) {
		t.Errorf("unknown processes: %v", err)
	}
	if err := os.WriteFile(filepath.Join(p.dir, "100", "stat"), []byte("100 (x"), 0o644); err != nil {
		t.Fatal(err)
	}
	s = NoSample(time.Unix(2, 0))
	if err := p.tree().Collect(context.Background(), &s); err == nil || s.Tree.Procs != 1 {
		t.Errorf("one damaged process: %v, %d others", err, s.Tree.Procs)
	}
}

// CPU time and traffic of a tree never decrease.
func TestTreeMonotone(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		p := &procTree{t: rt, dir: filepath.Join(dir, strconv.Itoa(rapid.IntRange(0, 1<<30).Draw(rt, "dir")))}
		tree := p.tree()
		alive := map[int]proc{100: {parent: 1, start: 1}}
		p.put(100, alive[100])
		last := Sample{}
		for i := range rapid.IntRange(1, 8).Draw(rt, "samples") {
			for pid, r := range alive {
				r.self += rapid.IntRange(0, 100).Draw(rt, "work")
				r.read += rapid.IntRange(0, 100).Draw(rt, "read")
				alive[pid] = r
			}
			switch pid := 100 + rapid.IntRange(1, 4).Draw(rt, "pid"); rapid.IntRange(0, 2).Draw(rt, "what") {
			case 0:
				alive[pid] = proc{parent: 100, start: 10 + i}
			case 1:
				if child, ok := alive[pid]; ok { // waited for
					root := alive[100]
					root.waited += child.self + child.waited
					root.read += child.read
					alive[100] = root
				}
				delete(alive, pid)
			default:
				delete(alive, pid) // not waited for
			}
			for pid := 100; pid < 105; pid++ {
				if r, ok := alive[pid]; ok {
					p.put(pid, r)
				} else {
					p.remove(pid)
				}
			}
			s := collectAt(rt, tree, time.Unix(int64(i), 0))
			if s.Tree.CPUSeconds < last.Tree.CPUSeconds || s.Tree.ReadBytes < last.Tree.ReadBytes {
				rt.Fatalf("went back from %+v to %+v", last.Tree, s.Tree)
			}
			last = s
		}
		os.RemoveAll(p.dir)
	})
}

// The CPU time, memory and end of a real process are observed.
func TestTreeReal(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	if os.Getenv("MONITOR_TEST_CHILD") == "work" {
		block := make([]byte, 64<<20)
		for i := 0; ; i++ {
			block[i%len(block)]++
			if i%4096 == 0 {
				block[(i*7)%len(block)]++
			}
		}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestTreeReal$")
	cmd.Env = append(os.Environ(), "MONITOR_TEST_CHILD=work", "GOMAXPROCS=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	tree := &Tree{PIDs: func() ([]int, error) { return []int{cmd.Process.Pid}, nil }}
	deadline := time.Now().Add(2 * time.Minute)
	for {
		s := collectAt(t, tree, time.Now())
		if s.Tree.CPUSeconds > 0.2 && s.Tree.MemoryGiB > 50./1024 && s.Tree.CPUPercent > 1 {
			if s.Tree.MemoryGiB > 1 || s.Tree.CPUPercent > 900 {
				t.Errorf("a child with one thread and 64 MiB: %+v", s.Tree)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a working child is not seen to work: %+v", s.Tree)
		}
		time.Sleep(50 * time.Millisecond)
	}
	cmd.Process.Kill()
	cmd.Wait()
	s := NoSample(time.Now())
	if err := tree.Collect(context.Background(), &s); !errors.Is(err, ErrNoData) {
		t.Errorf("after its end: %v", err)
	}
}

// FuzzProcStat parses arbitrary bytes as /proc/PID/stat.
func FuzzProcStat(f *testing.F) {
	f.Add([]byte("1 (a) b) S 0 1 1 0 -1 4194304 100 0 0 0 7 3 1 0 20 0 1 0 55 1000"))
	f.Add([]byte("1 (x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := parseStat(1, data)
		if err == nil && (p.self < 0 || p.waited < 0 || p.key.pid != 1) {
			t.Fatalf("%+v", p)
		}
		findField(data, "RssAnon:")
	})
}
