package schedule

import (
	"bufio"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the transcripts of testdata again")

// TestTranscripts replays the scripts of testdata and compares the commands printed after each line. A script is
//
//	cluster a=2 b=4/2             device types: count, devices per server
//	options interval=360 lost=30 whole no-spread only-shares period=300 replan=600
//	at 0                          the time of the next lines
//	arrive x 1 a=1 b=2            name, devices, throughput by type
//	pair x y a=0.8/0.7            throughputs of both jobs when co-located
//	shares x a=0.5, x+y b=1       the answer of the policy from now on; "x*2 a=1" is x on two devices
//	end x                         the job completes
//	release x                     the lease of x ends early
//	replan
//	step                          prints the commands and the time of the next step
//
// where "> …" lines are the output.
func TestTranscripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := replay(t, string(want), false)
			if again := replay(t, string(want), true); again != got {
				t.Errorf("with an engine that is stored and restored after each line:\n%s\nwithout:\n%s", again, got)
			}
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// scripted is a world whose policy answers as the script says.
type scripted struct {
	t       testing.TB
	out     *strings.Builder
	devices []DeviceType
	now     float64
	jobs    []*ActiveJob // active, in order of arrival
	byName  map[string]*ActiveJob
	arrived int
	pairs   map[[2]string][2][]float64
	shares  string
}

func replay(t *testing.T, script string, restarts bool) string {
	t.Helper()
	w := &scripted{t: t, out: &strings.Builder{}}
	var e *Engine
	for lines := bufio.NewScanner(strings.NewReader(script)); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, ">") {
			continue
		}
		fmt.Fprintln(w.out, line)
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		switch f[0] {
		case "cluster":
			e = nil
			w.cluster(f[1:])
		case "options":
			e = NewEngine(w.options(f[1:]), w)
		case "at":
			w.now = w.number(f[1])
		case "arrive":
			w.arrive(e, f[1:])
		case "pair":
			rates := [2][]float64{make([]float64, len(w.devices)), make([]float64, len(w.devices))}
			for _, rate := range f[3:] {
				name, value, _ := strings.Cut(rate, "=")
				a, b, _ := strings.Cut(value, "/")
				rates[0][w.device(name)], rates[1][w.device(name)] = w.number(a), w.number(b)
			}
			w.pairs[[2]string{f[1], f[2]}] = rates
		case "shares":
			w.shares = strings.TrimPrefix(line, "shares")
		case "end":
			j := w.byName[f[1]]
			e.End(w.now, j)
			w.jobs = slices.DeleteFunc(w.jobs, func(other *ActiveJob) bool { return other == j })
		case "release":
			e.Release(w.now, w.byName[f[1]].runs)
		case "replan":
			e.Replan()
		case "pin":
			w.byName[f[1]].Pinned = true
		case "step":
			w.step(e)
		default:
			t.Fatalf("unknown line %q", line)
		}
		if restarts && e != nil && f[0] != "options" {
			e = w.restart(e)
		}
	}
	return w.out.String()
}

// restart returns a new engine with the stored state of another.
func (w *scripted) restart(e *Engine) *Engine {
	state, err := e.State()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, j := range w.byName {
		*j = ActiveJob{Job: j.Job, Number: j.Number, Rate: j.Rate, Pinned: j.Pinned}
	}
	next := NewEngine(e.EngineOptions, w)
	err = next.Restore(state, func(number int) *ActiveJob {
		for _, j := range w.byName {
			if j.Number == number {
				return j
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return next
}

// TestRestoreRefuses checks that states that cannot be are errors.
func TestRestoreRefuses(t *testing.T) {
	devices := []DeviceType{{Name: "a", Count: 2, PerServer: 2}}
	jobs := map[int]*ActiveJob{0: {Job: &Job{GPUs: 1}, Rate: []float64{1}}, 1: {Job: &Job{ID: 1, GPUs: 1}, Number: 1, Rate: []float64{1}}}
	runnable := func(job int, where string) string {
		return fmt.Sprintf(`{"a":%d,"b":-1,"gpus":1,"slot":{"Device":0,"Where":[%s]},"shares":[1],"deficit":[0]}`, job, where)
	}
	for name, c := range map[string]struct{ state, want string }{
		"no JSON":       {"{", "restore"},
		"unknown job":   {`{"jobs":[{"number":7}]}`, "job 7 is unknown"},
		"two leases":    {`{"jobs":[{"number":0},{"number":1}],"runnables":[` + runnable(0, "1") + "," + runnable(1, "1") + `]}`, "two leases"},
		"no such lease": {`{"jobs":[{"number":0}],"running":[0]}`, "lease 0 of 0"},
		"no such job":   {`{"runnables":[` + runnable(0, "0") + `]}`, "unknown jobs"},
	} {
		w := &scripted{t: t, devices: devices}
		if err := NewEngine(EngineOptions{Devices: devices, Interval: 1}, w).Restore([]byte(c.state), func(n int) *ActiveJob { return jobs[n] }); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for n := range jobs {
		jobs[n] = &ActiveJob{Job: &Job{ID: n, GPUs: 1}, Number: n, Rate: []float64{1}}
	}
	e := NewEngine(EngineOptions{Devices: devices, Interval: 1}, &scripted{t: t, devices: devices})
	state := `{"jobs":[{"number":0,"last":{"Device":0,"Where":[2]}},{"number":1}],"runnables":[` + runnable(0, "2") + "," + runnable(1, "1") + `],"running":[0,1]}`
	if err := e.Restore([]byte(state), func(n int) *ActiveJob { return jobs[n] }); err != nil {
		t.Fatalf("with a lease on a device that no longer exists: %v", err)
	}
	if r := e.Running(); len(r) != 1 || r[0].A != jobs[1] || jobs[0].last.Device != -1 || e.types[0].free != 1 {
		t.Errorf("%d leases, %d free devices, want that of job 1 and 1", len(r), e.types[0].free)
	}
}

func (w *scripted) number(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

func (w *scripted) device(name string) int {
	d := slices.IndexFunc(w.devices, func(d DeviceType) bool { return d.Name == name })
	if d < 0 {
		w.t.Fatalf("no device type %q", name)
	}
	return d
}

func (w *scripted) cluster(types []string) {
	*w = scripted{t: w.t, out: w.out, byName: map[string]*ActiveJob{}, pairs: map[[2]string][2][]float64{}}
	for _, text := range types {
		name, count, _ := strings.Cut(text, "=")
		count, per, servers := strings.Cut(count, "/")
		d := DeviceType{Name: name, Count: int(w.number(count)), PerServer: 1}
		if servers {
			d.PerServer = int(w.number(per))
		}
		w.devices = append(w.devices, d)
	}
}

func (w *scripted) options(settings []string) EngineOptions {
	o := EngineOptions{Devices: w.devices, Interval: 360}
	for _, text := range settings {
		name, value, _ := strings.Cut(text, "=")
		switch name {
		case "interval":
			o.Interval = w.number(value)
		case "lost":
			o.Preemption.Seconds = w.number(value)
		case "whole":
			o.WholeRounds = true
		case "no-spread":
			o.NoSpread = true
		case "only-shares":
			o.Traits.OnlyShares = true
		case "period":
			o.Traits.Period = w.number(value)
		case "replan":
			o.MinReplanInterval = w.number(value)
		case "replan-after-ends":
			o.Traits.MinReplanInterval = w.number(value)
		default:
			w.t.Fatalf("unknown option %q", text)
		}
	}
	return o
}

func (w *scripted) arrive(e *Engine, f []string) {
	j := &ActiveJob{Job: &Job{ID: w.arrived, Type: f[0], GPUs: int(w.number(f[1]))}, Number: w.arrived, Rate: make([]float64, len(w.devices))}
	for _, rate := range f[2:] {
		name, value, _ := strings.Cut(rate, "=")
		j.Rate[w.device(name)] = w.number(value)
	}
	w.arrived++
	w.byName[f[0]] = j
	w.jobs = append(w.jobs, j)
	e.Arrive(w.now, j)
}

func (w *scripted) step(e *Engine) {
	commands, err := e.Step(w.now)
	if err != nil {
		fmt.Fprintf(w.out, "> error: %v\n", err)
		return
	}
	for _, c := range commands {
		r := c.Runnable
		name := r.A.Type
		if r.B != nil {
			name += "+" + r.B.Type
		}
		if c.Do == Stop {
			fmt.Fprintf(w.out, "> stop %s\n", name)
			continue
		}
		what := c.A.String()
		if r.B != nil {
			what += ", " + c.B.String()
		}
		spread := ""
		if r.Spread {
			spread = ", spread"
		}
		fmt.Fprintf(w.out, "> start %s on %s %v: %s%s\n", name, w.devices[r.Device].Name, r.Where, what, spread)
	}
	next := "never"
	if at := e.Next(); !math.IsInf(at, 1) {
		next = fmt.Sprintf("at %v", at)
	}
	fmt.Fprintf(w.out, "> next %s\n", next)
}

// Decide returns the shares of the last line "shares".
func (w *scripted) Decide(float64) (a Allocation, err error) {
	fmt.Fprintln(w.out, "> decide")
	for _, part := range strings.Split(w.shares, ",") {
		f := strings.Fields(part)
		if len(f) == 0 {
			continue
		}
		name, gpus, sized := strings.Cut(f[0], "*")
		first, second, pair := strings.Cut(name, "+")
		entry := Entry{A: w.index(first), B: -1, X: make([]float64, len(w.devices))}
		if pair {
			entry.B = w.index(second)
		}
		if entry.A < 0 || pair && entry.B < 0 {
			continue // a job has ended
		}
		for _, share := range f[1:] {
			name, value, _ := strings.Cut(share, "=")
			entry.X[w.device(name)] = w.number(value)
		}
		a.Entries = append(a.Entries, entry)
		if sized {
			a.GPUs = append(a.GPUs, int(w.number(gpus)))
		}
	}
	return a, nil
}

func (w *scripted) index(name string) int { return slices.Index(w.jobs, w.byName[name]) }

// PairRates returns the rates of a line "pair".
func (w *scripted) PairRates(first, second *ActiveJob) (a, b []float64) {
	rates, ok := w.pairs[[2]string{first.Type, second.Type}]
	if !ok {
		w.t.Fatalf("no rates of %s and %s", first.Type, second.Type)
	}
	return rates[0], rates[1]
}

// SizedRate returns a rate in proportion to the number of devices.
func (w *scripted) SizedRate(j *ActiveJob, device, gpus int) float64 {
	return j.Rate[device] / float64(j.GPUs) * float64(gpus)
}

// anyone is a world whose policy draws shares.
type anyone struct {
	t       *rapid.T
	jobs    []*ActiveJob
	devices []DeviceType
}

func (w *anyone) Decide(float64) (a Allocation, err error) {
	for i := range w.jobs {
		x := make([]float64, len(w.devices))
		for d := range x {
			x[d] = rapid.SampledFrom([]float64{0, 0, 0.25, 0.5}).Draw(w.t, "share")
		}
		if rapid.Bool().Draw(w.t, "full") {
			clear(x)
			x[rapid.IntRange(0, len(x)-1).Draw(w.t, "type")] = 1
		}
		a.Entries = append(a.Entries, Entry{A: i, B: -1, X: x})
	}
	return a, nil
}

func (w *anyone) PairRates(_, _ *ActiveJob) (a, b []float64) { return nil, nil }

func (w *anyone) SizedRate(*ActiveJob, int, int) float64 { return 0 }

// Under any shares no device is used twice, devices are either free or held, commands match the state, and a job waits
// beside idle devices that it could use only if the policy permits it.
func TestBooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(1, 5)
		devices := []DeviceType{{Name: "a", Count: count.Draw(t, "a"), PerServer: 2}, {Name: "b", Count: count.Draw(t, "b"), PerServer: 1}}
		w := &anyone{t: t, devices: devices}
		o := EngineOptions{Devices: devices, Interval: 360, WholeRounds: rapid.Bool().Draw(t, "whole")}
		o.Traits.OnlyShares = rapid.Bool().Draw(t, "only shares")
		anyEvents(t, o, w, 20, func(number int) *ActiveJob {
			return &ActiveJob{
				Job: &Job{ID: number, GPUs: rapid.IntRange(1, 2).Draw(t, "GPUs")}, Number: number,
				Rate: []float64{rapid.SampledFrom([]float64{0, 1}).Draw(t, "rate"), rapid.SampledFrom([]float64{0.5, 2}).Draw(t, "rate")},
			}
		}, func(e *Engine, runs map[*Runnable]bool, due bool) {
			checkState(t, e, runs, due && !o.Traits.OnlyShares)
		})
	})
}

// TestNoSpread: where it is not allowed, no job is spread over servers under any shares, and a job waits beside idle devices
// only if they are not on one server, or the policy does not permit it.
func TestNoSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		servers := rapid.IntRange(1, 3)
		devices := []DeviceType{{Name: "a", Count: 4*servers.Draw(t, "a") + rapid.IntRange(0, 3).Draw(t, "more"), PerServer: 4}, {Name: "b", Count: 2 * servers.Draw(t, "b"), PerServer: 2}}
		w := &anyone{t: t, devices: devices}
		o := EngineOptions{Devices: devices, Interval: 360, NoSpread: true}
		o.Traits.OnlyShares = rapid.Bool().Draw(t, "only shares")
		anyEvents(t, o, w, 30, func(number int) *ActiveJob {
			return &ActiveJob{
				Job: &Job{ID: number, GPUs: rapid.SampledFrom([]int{1, 2, 3, 4, 8}).Draw(t, "GPUs")}, Number: number,
				Rate: []float64{rapid.SampledFrom([]float64{0.5, 1}).Draw(t, "rate"), rapid.SampledFrom([]float64{0.5, 2}).Draw(t, "rate")},
			}
		}, func(e *Engine, runs map[*Runnable]bool, due bool) {
			checkState(t, e, runs, false)
			for _, r := range e.Running() {
				if r.Spread {
					t.Fatalf("job %d is spread over servers: %v", r.A.ID, r.Where)
				}
			}
			for _, j := range w.jobs {
				for d := range devices {
					if gpus, _ := j.Held(); due && !o.Traits.OnlyShares && gpus == 0 && e.types[d].fits(j.GPUs) {
						t.Fatalf("job %d waits for %d devices of type %d, which are idle on one server", j.ID, j.GPUs, d)
					}
				}
			}
		})
	})
}

// anyEvents starts an engine and lets up to n jobs arrive or end, at any times. It requires that only what runs is stopped, and
// only what does not is started, and calls check after each step; due tells whether a decision was due.
func anyEvents(t *rapid.T, o EngineOptions, w *anyone, n int, job func(number int) *ActiveJob, check func(e *Engine, runs map[*Runnable]bool, due bool)) {
	e := NewEngine(o, w)
	runs := map[*Runnable]bool{}
	now := 0.0
	for number := range rapid.IntRange(1, n).Draw(t, "events") {
		now += rapid.SampledFrom([]float64{0, 10, 400}).Draw(t, "seconds")
		if running := e.Running(); len(running) > 0 && rapid.Bool().Draw(t, "ends") {
			r := running[rapid.IntRange(0, len(running)-1).Draw(t, "which")]
			delete(runs, r)
			e.End(now, r.A)
			w.jobs = slices.DeleteFunc(w.jobs, func(j *ActiveJob) bool { return j == r.A })
		} else {
			j := job(number)
			w.jobs = append(w.jobs, j)
			e.Arrive(now, j)
		}
		due := e.Due(now)
		commands, err := e.Step(now)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range commands {
			if runs[c.Runnable] != (c.Do == Stop) {
				t.Fatalf("job %d: %v, and it runs: %v", c.Runnable.A.ID, c.Do, runs[c.Runnable])
			}
			runs[c.Runnable] = c.Do == Start
		}
		check(e, runs, due)
	}
}

// checkState checks the devices of an engine; full requires that no waiting job could use idle devices.
func checkState(t *rapid.T, e *Engine, runs map[*Runnable]bool, full bool) {
	held := make([]int, len(e.Devices))
	for _, r := range e.Running() {
		if !runs[r] || len(r.Where) != r.GPUs || r.A.ended {
			t.Fatalf("job %d holds %v, commanded %v, ended %v", r.A.ID, r.Where, runs[r], r.A.ended)
		}
		for _, g := range r.Where {
			if !e.types[r.Device].taken[g] {
				t.Fatalf("device %d of type %d is held and free", g, r.Device)
			}
		}
		held[r.Device] += r.GPUs
	}
	for d := range e.Devices {
		taken := 0
		for _, busy := range e.types[d].taken {
			if busy {
				taken++
			}
		}
		if taken != held[d] {
			t.Fatalf("%d devices of type %d are taken, and %d held", taken, d, held[d])
		}
	}
	for _, j := range e.jobs {
		for d := range e.Devices {
			if gpus, _ := j.Held(); full && gpus == 0 && !j.ended && j.Rate[d] > 0 && e.Devices[d].Count-held[d] >= j.GPUs {
				t.Fatalf("job %d waits beside idle devices of type %d", j.ID, d)
			}
		}
	}
}
