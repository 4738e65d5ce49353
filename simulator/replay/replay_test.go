package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"trainopt/optimizer/cluster"
	"trainopt/optimizer/report/page"
)

var fourTypes = []cluster.Device{{Name: "a100", Count: 1, PerServer: 1, USDHour: 4, Speed: 1}, {Name: "k80", Count: 2, PerServer: 2, USDHour: 0.5, Speed: 0.2},
	{Name: "p100", Count: 1, PerServer: 1, USDHour: 1.5, Speed: 0.4}, {Name: "v100", Count: 1, PerServer: 1, USDHour: 2.5, Speed: 0.6}}

const monday = 1.8e9

// drawDay returns the jobs of a day of three kinds; starts take one to two seconds.
func drawDay(seed uint64, n int) *scenario {
	random := rand.New(rand.NewPCG(seed, 1))
	d := &Day{From: monday, Until: monday + 1000, Devices: fourTypes, Round: 20}
	s := &scenario{day: d}
	at := float64(monday)
	for id := 1; id <= n; id++ {
		j := &job{ID: id, Name: fmt.Sprint("kind ", id%3), Arrival: at, Deadline: math.NaN(), Weight: 1, GPUs: 1, MaxGPUs: 1, Unit: "step", Total: float64(40 + random.IntN(300))}
		if id%2 == 0 {
			j.Deadline = at + 4*j.Total
		}
		rate := map[place]float64{}
		for _, device := range fourTypes { // in order: each draws a number
			rate[place{device.Name, 1}] = 2 * math.Pow(device.Speed, 0.97+0.03*float64(id%3)) * math.Exp(0.01*random.NormFloat64())
		}
		s.jobs = append(s.jobs, &simulated{job: j, steps: j.Total, rate: rate, first: 1 + random.Float64(), again: 1 + random.Float64(), save: 0.3})
		at += random.ExpFloat64() * 6
	}
	return s
}

// live returns the event log of a scenario under a policy, as a server writes it.
func (s *scenario) live(t testing.TB, policy string) []cluster.Event {
	t.Helper()
	events := []cluster.Event{{Kind: cluster.EventServe, Time: s.day.From, Policy: policy, Round: s.day.Round, Devices: s.day.Devices}}
	logged := *s
	logged.log = func(e cluster.Event) {
		if e.Kind == cluster.EventEnd { // the server computes the cost
			for _, j := range s.jobs {
				if j.ID == e.Job {
					e.CostUSD = 1
				}
			}
		}
		events = append(events, e)
	}
	if _, err := logged.simulate(context.Background(), []cluster.Span{{From: s.day.From, Policy: policy}}); err != nil {
		t.Fatal(err)
	}
	return events
}

func audit(t testing.TB, events []cluster.Event, o Options) *Audit {
	t.Helper()
	// The log is read from its JSON, as in production.
	var read []cluster.Event
	for _, e := range events {
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var back cluster.Event
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		read = append(read, back)
	}
	day, err := NewDay(read)
	if err != nil {
		t.Fatal(err)
	}
	a, err := day.Audit(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

var sixPolicies = []string{"fifo_perf", "srtf", "max_min_fairness_perf", "isolated", "themis", "tiresias"}

// TestReplayReturnsTheDay: days whose rates were all constant are simulated exactly, and from the day of any policy
// every other one is predicted within 5 %. Only rates that were seen are known; those of other devices come from other jobs,
// whose relative speeds differ by up to 10 %.
func TestReplayReturnsTheDay(t *testing.T) {
	for seed := uint64(1); seed <= 4; seed++ {
		s := drawDay(seed, 30)
		truth := map[string]float64{}
		for _, policy := range sixPolicies {
			out, err := s.simulate(context.Background(), []cluster.Span{{From: monday, Policy: policy}})
			if err != nil {
				t.Fatal(err)
			}
			sum := 0.0
			for _, j := range s.jobs {
				sum += out.End[j.ID] - j.Arrival
			}
			truth[policy] = sum / float64(len(s.jobs))
		}
		for _, policy := range sixPolicies {
			t.Run(fmt.Sprintf("%d/%s", seed, policy), func(t *testing.T) {
				t.Parallel()
				checkReplay(t, s, policy, truth)
			})
		}
	}
}

// TestReplayRepeatsLateDecisions: a busy server has jobs later than they were submitted.
func TestReplayRepeatsLateDecisions(t *testing.T) {
	events := drawDay(1, 30).live(t, "srtf")
	const late = 0.7
	for i := range events {
		if events[i].Kind != cluster.EventSubmit {
			events[i].Time += late
		}
	}
	a := audit(t, events, Options{Policies: []string{"srtf"}, Draws: 2})
	if off := float64(a.Simulated.MeanJCTS - a.Live.MeanJCTS); math.Abs(off) > late/20 || a.Simulated.Moves != a.Live.Moves {
		t.Errorf("simulated mean off by %+.3f s, %g starts again, live %g", off, float64(a.Simulated.Moves), float64(a.Live.Moves))
	}
}

// TestUnfinishedJobsMissTheirDeadlines: a job that was stopped is not among the deadlines that are compared, and is named.
func TestUnfinishedJobsMissTheirDeadlines(t *testing.T) {
	events := drawDay(1, 30).live(t, "srtf")
	whole := audit(t, events, Options{Policies: []string{"srtf"}, Draws: 2})
	for i := range events {
		if events[i].State == cluster.Done && events[i].Job%2 == 0 {
			events[i].State = cluster.Stopped
		}
	}
	a := audit(t, events, Options{Policies: []string{"srtf"}, Draws: 2})
	if whole.Unfinished != 0 || a.Unfinished == 0 || a.Deadlines+a.Unfinished != whole.Deadlines {
		t.Errorf("%d deadlines and %d of unfinished jobs, were %d and %d", a.Deadlines, a.Unfinished, whole.Deadlines, whole.Unfinished)
	}
}

// TestDeadlineOfLateNotice: a job whose training exited before its deadline has kept it, also if a server noticed that later.
func TestDeadlineOfLateNotice(t *testing.T) {
	events := append(single(), cluster.Event{Kind: cluster.EventServe, Time: at(400), Policy: "fifo", Round: 60, Devices: fourTypes, Restarted: true},
		cluster.Event{Kind: cluster.EventLeft, Time: at(400), Job: 1, Stretch: 1, Device: "k80", GPUs: 1, Done: 200, Exited: at(103), Reason: "exited"},
		cluster.Event{Kind: cluster.EventEnd, Time: at(400), Job: 1, State: cluster.Done, Done: 200, Total: 200, CostUSD: 1, Exited: at(103)})
	events[1].Deadline = at(300)
	if a := audit(t, events, Options{Policies: []string{"fifo"}, Draws: 2}); a.Live.DeadlinesKept != 1 || math.Abs(float64(a.Live.MeanJCTS)-103) > 0.1 {
		t.Errorf("deadlines kept %v, completion time %v, want 1 and 103", a.Live.DeadlinesKept, a.Live.MeanJCTS)
	}
}

// checkReplay audits the day of a policy whose mean completion times are known for all policies.
func checkReplay(t *testing.T, s *scenario, policy string, truth map[string]float64) {
	a := audit(t, s.live(t, policy), Options{Policies: sixPolicies, Draws: 4})
	if a.Compared != 30 || a.Deadlines != 15 {
		t.Fatalf("%d jobs compared, %d deadlines; want 30 and 15", a.Compared, a.Deadlines)
	}
	if off := float64(a.Simulated.MeanJCTS/a.Live.MeanJCTS) - 1; math.Abs(off) > 0.001 || !(float64(a.MedianError) < 0.001) || a.Simulated.Moves != a.Live.Moves {
		t.Errorf("simulated mean off by %+.2f %%, median job error %.2f %%, %g starts again, live %g", 100*off, 100*float64(a.MedianError), float64(a.Simulated.Moves), float64(a.Live.Moves))
	}
	if len(a.Others) != len(sixPolicies) {
		t.Fatalf("%d policies", len(a.Others))
	}
	for _, o := range a.Others {
		predicted, bound := float64(o.MeanJCTS.Value), 0.05
		if policy == "themis" && o.Policy != policy { // it moves no job: the time of a save, and most rates, are not known
			predicted = min(max(truth[o.Policy], float64(o.OneDay.Lo)), float64(o.OneDay.Hi))
		}
		off := predicted/truth[o.Policy] - 1
		if policy != o.Policy && o.Policy == "isolated" { // it runs every job everywhere; most rates of other days are estimates
			bound = 0.1
		}
		t.Logf("%s predicted %+.1f %% off", o.Policy, 100*off)
		if math.Abs(off) > bound {
			t.Errorf("%s predicted %+.1f %% off", o.Policy, 100*off)
		}
		if !(o.MeanJCTS.Lo <= o.MeanJCTS.Value && o.MeanJCTS.Value <= o.MeanJCTS.Hi) {
			t.Errorf("%s: interval %v … %v without the value %v", o.Policy, o.MeanJCTS.Lo, o.MeanJCTS.Hi, o.MeanJCTS.Value)
		}
	}
}

// TestReplayFollowsTheDay: a day on which every start and save took another time, of which the server measured a part, is
// simulated with the same delays, so that each job ends when it did.
func TestReplayFollowsTheDay(t *testing.T) {
	for _, policy := range []string{"fifo_perf", "tiresias"} {
		t.Run(policy, func(t *testing.T) {
			s := drawDay(5, 20)
			random := rand.New(rand.NewPCG(5, 2))
			for _, j := range s.jobs {
				for range 40 {
					start := 0.5 + 4*random.Float64()
					j.lives = append(j.lives, cluster.LifeCosts{Start: start, Startup: start * random.Float64(), Keeps: math.NaN(), Save: random.Float64(), Measured: 1 + random.Float64()})
				}
			}
			a := audit(t, s.live(t, policy), Options{Policies: []string{policy}, Draws: 4})
			off := float64(a.Simulated.MeanJCTS/a.Live.MeanJCTS) - 1
			if math.Abs(off) > 0.005 || float64(a.MedianError) > 0.005 {
				t.Errorf("simulated mean off by %+.2f %%, median job error %.2f %%", 100*off, 100*float64(a.MedianError))
			}
		})
	}
}

// TestUnmeasuredLives: jobs that end before their rates were measured, jobs that were faster than the last measurement, and
// jobs whose end a busy server noticed late, take as long in the simulation as they did.
func TestUnmeasuredLives(t *testing.T) {
	for _, policy := range []string{"fifo_perf", "tiresias"} {
		var events []cluster.Event
		for _, e := range drawDay(5, 20).live(t, policy) {
			if e.Job%4 == 0 && (e.Kind == cluster.EventRunning || e.Kind == cluster.EventRate) {
				continue
			}
			if e.Job%4 == 1 && e.Kind == cluster.EventRate {
				e.Seen *= 0.97
			}
			if e.Job%4 == 2 && e.Kind == cluster.EventLeft {
				e.Exited = e.Time - 8
			}
			events = append(events, e)
		}
		a := audit(t, events, Options{Policies: []string{policy}, Draws: 4})
		if off := float64(a.Simulated.MeanJCTS/a.Live.MeanJCTS) - 1; math.Abs(off) > 0.01 {
			t.Errorf("%s: simulated mean off by %+.2f %%, median job error %.2f %%", policy, 100*off, 100*float64(a.MedianError))
		}
	}
}

// TestUnmeasuredSave: on a day on which no save was measured, one takes the time in which trainings leave, and in the draws from
// none to all of that of a start, by one factor for all jobs, or of writing a checkpoint of the size that a job has written; a
// measured one they leave alone.
func TestUnmeasuredSave(t *testing.T) {
	events := drawDay(3, 20).live(t, "tiresias")
	const written = 2 // the job whose checkpoint of 6 MB is known
	for _, measured := range []bool{true, false} {
		var read []cluster.Event
		for _, e := range events {
			if e.Job == written && e.Kind == cluster.EventLeft {
				e.CheckpointBytes = 6e6
			}
			if !measured && e.Kind == cluster.EventLeft {
				e.Seconds = nil
			}
			read = append(read, e)
		}
		day, err := NewDay(read)
		if err != nil {
			t.Fatal(err)
		}
		r := newRates(day)
		a := &auditor{day: day, rates: r, moves: newMoves(day, r)}
		if a.moves.assumed == measured {
			t.Fatalf("measured %v: assumed %v", measured, a.moves.assumed)
		}
		const exit = 0.2
		a.rates.exit = exit
		var factors []float64
		for k := range uint64(40) {
			s := a.scenario(rand.New(rand.NewPCG(1, k)))
			of := func(j *simulated) float64 {
				if measured {
					return j.save / a.moves.mean(saving, j.job)
				}
				if j.ID == written {
					return (j.save - exit) / min(j.again, 0.1+6e6/20e6)
				}
				return (j.save - exit) / j.again
			}
			for _, j := range s.jobs {
				if math.Abs(of(j)-of(s.jobs[0])) > 1e-9 {
					t.Errorf("job %d: factor %v, job %d: %v", j.ID, of(j), s.jobs[0].ID, of(s.jobs[0]))
				}
				if other := j.other(1).Save; math.IsNaN(other) == measured {
					t.Errorf("measured %v: job %d: save of another day %v", measured, j.ID, other)
				}
			}
			factors = append(factors, of(s.jobs[0]))
		}
		low, high := slices.Min(factors), slices.Max(factors)
		if measured && math.Max(math.Abs(low-1), math.Abs(high-1)) > 1e-9 || !measured && !(low >= 0 && low < 0.1 && high > 0.7 && high <= 1) {
			t.Errorf("measured %v: factors from %v to %v", measured, low, high)
		}
	}
}

// costly gives the lives of a scenario starts, which the server measures in part, and saves that differ from life to life.
func (s *scenario) costly(seed uint64) *scenario {
	random := rand.New(rand.NewPCG(seed, 3))
	out := *s
	out.jobs = nil
	for _, j := range s.jobs {
		copied := *j
		copied.exit, copied.lives = 0.4, nil
		for range 60 {
			start := 1.5 * math.Exp(0.4*random.NormFloat64())
			copied.lives = append(copied.lives, cluster.LifeCosts{Start: start, Startup: 0.8 * start, Keeps: math.NaN(), Save: 0.6 * math.Exp(0.4*random.NormFloat64()), Measured: 0.5 + random.Float64()})
		}
		out.jobs = append(out.jobs, &copied)
	}
	return &out
}

// TestOneDayContainsOtherDays: starts and saves differ from life to life, and decide between nearly equal jobs. From the day of
// any policy, the interval of single days contains the days of the others.
func TestOneDayContainsOtherDays(t *testing.T) {
	const seeds = 2
	inside, off, n := 0, 0.0, 0
	for seed := uint64(1); seed <= seeds; seed++ {
		logs, live := map[string][]cluster.Event{}, map[string]float64{}
		for i, policy := range sixPolicies {
			s := drawDay(seed, 20)
			for _, j := range s.jobs { // two commands
				j.Command = fmt.Sprint("train ", j.ID%2)
			}
			logs[policy] = s.costly(100*seed+uint64(i)).live(t, policy)
			live[policy] = float64(audit(t, logs[policy], Options{Policies: []string{policy}, Draws: 1}).Live.MeanJCTS)
		}
		for _, policy := range sixPolicies {
			for _, o := range audit(t, logs[policy], Options{Policies: sixPolicies, Draws: 20}).Others {
				if o.Policy == policy {
					continue
				}
				t.Logf("%d: from %s %s %.1f to %.1f, live %.1f", seed, policy, o.Policy, float64(o.OneDay.Lo), float64(o.OneDay.Hi), live[o.Policy])
				if n++; float64(o.OneDay.Lo) <= live[o.Policy] && live[o.Policy] <= float64(o.OneDay.Hi) {
					inside++
				}
				off += math.Log(float64(o.MeanJCTS.Value) / live[o.Policy])
			}
		}
	}
	t.Logf("%d of %d days in their intervals, off by %+.2f %% on average", inside, n, 100*off/float64(n))
	if inside < 2*n/3 || math.Abs(off/float64(n)) > 0.02 {
		t.Errorf("%d of %d days in their intervals, off by %+.2f %% on average", inside, n, 100*off/float64(n))
	}
}

// TestUnfinishedDay: a day of which few jobs have ended is not compared with its simulation, and policies are compared
// over all jobs; with few jobs left it is.
func TestUnfinishedDay(t *testing.T) {
	events := drawDay(1, 30).live(t, "srtf")
	ended := 0
	for i, e := range events {
		if e.Kind != cluster.EventEnd {
			continue
		}
		ended++
		if ended != 10 && ended != 29 {
			continue
		}
		a := audit(t, events[:i+1], Options{Policies: []string{"fifo_perf", "srtf"}, Draws: 2})
		if compared := !math.IsNaN(float64(a.Simulated.MeanJCTS)); compared != (ended == 29) || math.IsNaN(float64(a.MedianError)) == compared || a.Compared != ended || a.Running == 0 {
			t.Errorf("%d jobs have ended: %d compared, %d running, simulated %v, error %v", ended, a.Compared, a.Running, a.Simulated.MeanJCTS, a.MedianError)
		}
		for _, o := range a.Others {
			if o.Policy == "srtf" && math.Abs(float64(o.Change.Value)) > 1e-9 {
				t.Errorf("%d jobs have ended: the policy of the day changes it by %v", ended, o.Change.Value)
			}
		}
		var text strings.Builder
		if err := a.Render(&text, "text"); err != nil || strings.Contains(text.String(), "not compared with live") == (ended == 29) {
			t.Errorf("%v\n%s", err, text.String())
		}
	}
}

// TestChangedDevices: the simulation has the last devices only, so that it is not compared with a day of several.
func TestChangedDevices(t *testing.T) {
	events := drawDay(1, 10).live(t, "srtf")
	first := events[0]
	first.Devices = first.Devices[:2]
	a := audit(t, append([]cluster.Event{first}, events...), Options{Policies: []string{"srtf"}, Draws: 2})
	if !math.IsNaN(float64(a.Simulated.MeanJCTS)) || a.Compared != 10 || !strings.Contains(strings.Join(a.Notes, " "), "devices were changed") {
		t.Errorf("%d compared, simulated %v, notes %q", a.Compared, a.Simulated.MeanJCTS, a.Notes)
	}
}

// TestAuditIsDeterministic draws and audits the same day ten times: its events and its audit have the same bytes.
func TestAuditIsDeterministic(t *testing.T) {
	for _, policy := range sixPolicies {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			var first []byte
			for k := range 10 {
				events := drawDay(2, 12).live(t, policy)
				var b bytes.Buffer
				if err := json.NewEncoder(&b).Encode(events); err != nil {
					t.Fatal(err)
				}
				if err := audit(t, events, Options{Policies: sixPolicies, Draws: 2}).Render(&b, "json"); err != nil {
					t.Fatal(err)
				}
				if k == 0 {
					first = b.Bytes()
				} else if !bytes.Equal(first, b.Bytes()) {
					t.Fatalf("audit %d of the same events differs from the first", k+1)
				}
			}
		})
	}
}

// TestWasteIsCounted checks the device-seconds of a small day by hand.
func TestWasteIsCounted(t *testing.T) {
	two, half := 2.0, 0.5
	at := func(s float64) float64 { return monday + s }
	events := []cluster.Event{
		{Kind: cluster.EventServe, Time: at(0), Policy: "fifo", Round: 60, Devices: []cluster.Device{{Name: "a", Count: 2, PerServer: 2}}},
		{Kind: cluster.EventSubmit, Time: at(0), Job: 1, GPUs: 1, Total: 100},
		{Kind: cluster.EventStart, Time: at(10), Job: 1, Stretch: 1, Device: "a", GPUs: 1, Do: "start"}, // two devices were free for 10 s, one was wanted
		{Kind: cluster.EventRunning, Time: at(13), Job: 1, Seconds: &two},
		{Kind: cluster.EventRate, Time: at(20.25), Job: 1, Device: "a", GPUs: 1, Seen: 2, Done: 16}, // and half of the next step
		{Kind: cluster.EventStop, Time: at(32), Job: 1},
		{Kind: cluster.EventLeft, Time: at(32.5), Job: 1, Seconds: &half, Done: 40, Reason: "lease"},
		{Kind: cluster.EventStart, Time: at(32.5), Job: 1, Stretch: 2, Device: "a", GPUs: 1, Do: "start", PredictedSeconds: &two},
		{Kind: cluster.EventRunning, Time: at(35), Job: 1, Seconds: &two},
		{Kind: cluster.EventRate, Time: at(37.25), Job: 1, Device: "a", GPUs: 1, Seen: 2, Done: 45},
		{Kind: cluster.EventLeft, Time: at(54.5), Job: 1, Done: 60, Reason: "lost"}, // 20 s of work, 10 s of it lost
		{Kind: cluster.EventStart, Time: at(54.5), Job: 1, Stretch: 3, Device: "a", GPUs: 1, Do: "start", PredictedSeconds: &two},
		{Kind: cluster.EventRunning, Time: at(57), Job: 1, Seconds: &two},
		{Kind: cluster.EventRate, Time: at(59.25), Job: 1, Device: "a", GPUs: 1, Seen: 2, Done: 65},
		{Kind: cluster.EventLeft, Time: at(76.5), Job: 1, Done: 100, Reason: "exit"},
		{Kind: cluster.EventEnd, Time: at(76.5), Job: 1, State: cluster.Done, Done: 100, Total: 100, CostUSD: 1},
	}
	a := audit(t, events, Options{Policies: []string{"fifo"}, Draws: 1})
	w := a.Waste
	if w.HeldS != 66.5 || w.StartingS != 6 || w.SavingS != 0.5 || w.RepeatedS != 10 || w.IdleS != 10 || w.Lost != 1 {
		t.Errorf("waste %+v", w)
	}
	if a.MoveCosts.N != 1 || math.Abs(float64(a.MoveCosts.MedianRatio)-1.25) > 1e-6 {
		t.Errorf("move costs %+v: want the ratio 2.5/2; the life that was lost saved nothing", a.MoveCosts)
	}
}

// TestSilentJob: a job that reports no progress, whether or not it failed, is simulated with the time for which it had its devices, which is neither a
// start nor lost, so that it occupies them in the simulated day, too.
func TestSilentJob(t *testing.T) {
	for state, compared := range map[cluster.State]int{cluster.Done: 2, cluster.Failed: 1, cluster.Cancelled: 1} {
		silentJob(t, state, compared)
	}
}

func silentJob(t *testing.T, state cluster.State, compared int) {
	t.Helper()
	two := 2.0
	at := func(s float64) float64 { return monday + s }
	events := []cluster.Event{
		{Kind: cluster.EventServe, Time: at(0), Policy: "fifo", Round: 60, Devices: []cluster.Device{{Name: "a", Count: 1, PerServer: 1}}},
		{Kind: cluster.EventSubmit, Time: at(0), Job: 1, GPUs: 1, Command: "silent"},
		{Kind: cluster.EventStart, Time: at(0), Job: 1, Stretch: 1, Device: "a", GPUs: 1, Do: "start"},
		{Kind: cluster.EventSubmit, Time: at(1), Job: 2, GPUs: 1, Total: 100, Command: "loud"},
		{Kind: cluster.EventPin, Time: at(2), Job: 1},
		{Kind: cluster.EventLeft, Time: at(50), Job: 1, Reason: "exited"},
		{Kind: cluster.EventEnd, Time: at(50), Job: 1, State: state, CostUSD: 1},
		{Kind: cluster.EventStart, Time: at(50), Job: 2, Stretch: 1, Device: "a", GPUs: 1, Do: "start"},
		{Kind: cluster.EventRunning, Time: at(53), Job: 2, Seconds: &two},
		{Kind: cluster.EventRate, Time: at(60.25), Job: 2, Device: "a", GPUs: 1, Seen: 2, Done: 16},
		{Kind: cluster.EventLeft, Time: at(102), Job: 2, Done: 100, Reason: "exited"},
		{Kind: cluster.EventEnd, Time: at(102), Job: 2, State: cluster.Done, Done: 100, Total: 100, CostUSD: 1},
	}
	a := audit(t, events, Options{Policies: []string{"fifo"}, Draws: 5})
	if a.Compared != compared || math.Abs(float64(a.Simulated.MeanJCTS/a.Live.MeanJCTS)-1) > 0.01 {
		t.Errorf("%s: %d jobs compared, mean completion time %g s live, %g s simulated", state, a.Compared, float64(a.Live.MeanJCTS), float64(a.Simulated.MeanJCTS))
	}
	if a.Waste.StartingS != 2 || a.Waste.RepeatedS != 0 || a.Waste.Lost != 0 {
		t.Errorf("%s: waste %+v, want the start of the other job alone", state, a.Waste)
	}
}

// TestLateRequest: a life whose training had ended before the next server asked it to leave ended without a request.
func TestLateRequest(t *testing.T) {
	two := 2.0
	at := func(s float64) float64 { return monday + s }
	events := []cluster.Event{
		{Kind: cluster.EventServe, Time: at(0), Policy: "fifo", Round: 60, Devices: []cluster.Device{{Name: "a", Count: 1, PerServer: 1}}},
		{Kind: cluster.EventSubmit, Time: at(0), Job: 1, GPUs: 1, Total: 100},
		{Kind: cluster.EventStart, Time: at(0), Job: 1, Stretch: 1, Device: "a", GPUs: 1, Do: "start"},
		{Kind: cluster.EventRunning, Time: at(3), Job: 1, Seconds: &two},
		{Kind: cluster.EventRate, Time: at(10), Job: 1, Device: "a", GPUs: 1, Seen: 2, Done: 16},
		{Kind: cluster.EventServe, Time: at(60), Policy: "fifo", Round: 60, Devices: []cluster.Device{{Name: "a", Count: 1, PerServer: 1}}, Restarted: true},
		{Kind: cluster.EventStop, Time: at(60), Job: 1},
		{Kind: cluster.EventLeft, Time: at(61), Job: 1, Done: 40, Reason: "lease", Exited: at(22)},
		{Kind: cluster.EventStart, Time: at(61), Job: 1, Stretch: 2, Device: "a", GPUs: 1, Do: "start", PredictedSeconds: &two},
		{Kind: cluster.EventRunning, Time: at(64), Job: 1, Seconds: &two},
		{Kind: cluster.EventRate, Time: at(70), Job: 1, Device: "a", GPUs: 1, Seen: 2, Done: 50},
		{Kind: cluster.EventLeft, Time: at(93), Job: 1, Done: 100, Reason: "exited"},
		{Kind: cluster.EventEnd, Time: at(93), Job: 1, State: cluster.Done, Done: 100, Total: 100, CostUSD: 1},
	}
	if a := audit(t, events, Options{Policies: []string{"fifo"}, Draws: 1}); a.Waste.Lost != 1 {
		t.Errorf("%d lives ended without a request, want 1", a.Waste.Lost)
	}
}

// TestFailingPolicyOfTheDay: a policy that cannot decide for the jobs of a day does not prevent its audit: jobs keep their
// devices in the simulation, as live. As one of the others, it is not simulated.
func TestFailingPolicyOfTheDay(t *testing.T) {
	s := drawDay(7, 6)
	s.jobs[2].GPUs, s.jobs[2].MaxGPUs = 2, 2
	s.jobs[2].rate = map[place]float64{{"k80", 2}: 3}
	events := s.live(t, "fifo_perf")
	events[0].Policy = "allox" // for jobs of one device
	a := audit(t, events, Options{Policies: []string{"allox", "srtf"}, Draws: 2})
	if !page.Known(float64(a.Simulated.MeanJCTS)) || len(a.Jobs) != 6 {
		t.Errorf("simulated %v", a.Simulated)
	}
	if srtf, allox := a.Others[0], a.Others[1]; srtf.Failed != "" || !page.Known(float64(srtf.Change.Value)) || !strings.Contains(allox.Failed, "single device") {
		t.Errorf("srtf %+v, allox %+v", srtf, allox)
	}
}

// TestBadLogs: a log that does not contain what a replay requires is an error.
func TestBadLogs(t *testing.T) {
	serve := cluster.Event{Kind: cluster.EventServe, Time: monday, Policy: "fifo", Round: 60, Devices: fourTypes}
	submit := cluster.Event{Kind: cluster.EventSubmit, Time: monday, Job: 1, GPUs: 1, Total: 5}
	for name, c := range map[string]struct {
		events []cluster.Event
		want   string
	}{
		"empty":     {nil, "does not contain the start of a server"},
		"no server": {[]cluster.Event{submit}, "does not contain the start of a server"},
	} {
		day, err := NewDay(c.events)
		if err == nil {
			_, err = day.Audit(context.Background(), Options{})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
	day, err := NewDay([]cluster.Event{serve, submit})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := day.Audit(context.Background(), Options{Policies: []string{"srft"}}); err == nil || !strings.Contains(err.Error(), "srft") {
		t.Errorf("unknown policy: error %v", err)
	}
}

// TestEmptyDay: a day without jobs, or without progress, has a report without simulated figures, in every format.
func TestEmptyDay(t *testing.T) {
	serve := cluster.Event{Kind: cluster.EventServe, Time: monday, Policy: "fifo", Round: 60, Devices: fourTypes}
	submit := cluster.Event{Kind: cluster.EventSubmit, Time: monday + 1, Job: 1, GPUs: 1, Total: 5}
	failed := cluster.Event{Kind: cluster.EventEnd, Time: monday + 2, Job: 1, State: cluster.Failed}
	for jobs, events := range [][]cluster.Event{{serve}, {serve, submit, failed}} {
		a := audit(t, events, Options{})
		if a.Submitted != jobs || len(a.Jobs) != jobs || len(a.Others) > 0 || a.Compared != 0 || !math.IsNaN(float64(a.Simulated.MeanJCTS)) || a.Faults.UnservedS != 0 {
			t.Errorf("%d jobs: %+v", jobs, a)
		}
		for _, format := range Formats() {
			var b bytes.Buffer
			if err := a.Render(&b, format); err != nil || strings.Contains(b.String(), "NaN") {
				t.Errorf("%s: %v, %s", format, err, b.String())
			}
		}
	}
}

// TestRender writes every format.
func TestRender(t *testing.T) {
	a := audit(t, drawDay(3, 8).live(t, "fifo_perf"), Options{Policies: []string{"srtf", "isolated"}, Draws: 2})
	for _, format := range Formats() {
		var b bytes.Buffer
		if err := a.Render(&b, format); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), map[bool]string{true: "srtf", false: "kind 1"}[format != "csv"]) {
			t.Errorf("%s: %s", format, b.String())
		}
	}
}

// TestPolicyTables: the policies fit a terminal of 96 columns with one line for each and unbroken names, those that are equal
// in every figure share a line, and no format loses an interval.
func TestPolicyTables(t *testing.T) {
	estimate := func(v page.Exact) jobEstimate { return jobEstimate{v, v * 0.7, v * 1.4} }
	policy := func(name string, mean page.Exact) policyAudit {
		return policyAudit{Policy: name, MeanJCTS: estimate(mean), Change: jobEstimate{-0.0004, -0.123, 0.345}, MakespanS: estimate(2 * mean), CostUSD: estimate(0.00123),
			Fairness: estimate(1.03), WorstFairness: estimate(page.Exact(math.NaN())), DeadlinesKept: estimate(11), Moves: 23}
	}
	live := policy("fifo_perf", 33.2)
	live.InForce = true
	a := &Audit{Deadlines: 12, Others: []policyAudit{live, policy("finish_time_fairness_packed", 33.2), policy("srtf", 33.2), policy("max_min_fairness_water_filling_perf", 43.2),
		{Policy: "isolated", Failed: "no devices"}}}
	var text, whole bytes.Buffer
	s := page.Section{Title: "Other policies", Blocks: a.policies()}
	if err := page.TextSections(&text, 0, s); err != nil {
		t.Fatal(err)
	}
	if err := (page.Document{Sections: []page.Section{s}}).HTML(&whole); err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, line := range strings.Split(text.String(), "\n") {
		if utf8.RuneCountInString(line) > 96 {
			t.Errorf("longer than 96 columns: %s", line)
		}
		if strings.Contains(line, "fifo_perf (live) and 2 equal") || strings.Contains(line, " max_min_fairness_water_filling_perf ") {
			rows++
		}
	}
	if rows != 4 || !strings.Contains(text.String(), "Equal to fifo_perf in every figure: finish_time_fairness_packed, srtf.") ||
		!strings.Contains(text.String(), "isolated: not simulated: no devices") || strings.Contains(text.String(), "-0.0") {
		t.Errorf("%d rows, want 4:\n%s", rows, text.String())
	}
	for _, e := range []string{live.CostUSD.interval(usd), live.MeanJCTS.interval(duration), live.Change.interval(percent)} {
		if !strings.Contains(html.UnescapeString(whole.String()), e) {
			t.Errorf("HTML lacks %s", e)
		}
	}
}
