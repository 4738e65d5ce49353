package cluster

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"trainopt/optimizer/report/page"
	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/share"
	"trainopt/simulator/experiment"
	"trainopt/simulator/workload"
)

// entities is the number of users among which the jobs are divided in turn.
const entities = 5

// DecisionOptions determine the measurement of decision times.
type DecisionOptions struct {
	Seeds  []uint64 // of the jobs; each seed is a measurement
	Points int      // number of job counts measured, from 16, 32, 64, …; 0: all published ones
	// Limit skips larger numbers of jobs of a policy after a decision that exceeded it; 0: none.
	Limit    time.Duration
	Clock    func() time.Duration
	Progress func(done, total int)
}

// Decisions measures figure 12: the time of one decision for 16, 32, 64, … jobs on 1 to 8 devices each, on a quarter
// as many devices of each of three types. Policies are measured sequentially, on one core unless the policy uses
// more. If the context ends, the partial result is returned with its error.
func Decisions(ctx context.Context, o DecisionOptions) (*experiment.Comparison, error) {
	points, runtimes := 0, runtimes()
	for i := range runtimes {
		points = max(points, len(runtimes[i].Hours))
	}
	if o.Points > 0 {
		points = min(points, o.Points)
	}
	took := make([][]float64, len(runtimes))
	done := 0
	var err error
	for i := range runtimes {
		took[i] = make([]float64, points)
		slow := false
		for k := range took[i] {
			took[i][k] = math.NaN()
			if k < len(runtimes[i].Hours) && !slow && err == nil {
				took[i][k], err = meanDecision(ctx, runtimes[i].Policy, 16<<k, &o)
				slow = took[i][k] > o.Limit.Seconds() && o.Limit > 0
			}
			if done++; o.Progress != nil {
				o.Progress(done, len(runtimes)*points)
			}
		}
	}
	return decisionTable(took, points, &o), err
}

// meanDecision returns the mean time of one decision over seeds, in seconds.
func meanDecision(ctx context.Context, policy string, jobs int, o *DecisionOptions) (float64, error) {
	sum := 0.0
	for _, seed := range o.Seeds {
		if err := ctx.Err(); err != nil {
			return math.NaN(), err
		}
		s, err := decisionSnapshot(jobs, int64(seed)+2)
		if err != nil {
			return math.NaN(), err
		}
		p, err := share.New(policy, share.Options{})
		if err != nil {
			return math.NaN(), err
		}
		from := o.Clock()
		if _, err := p.Decide(s); err != nil {
			return math.NaN(), fmt.Errorf("policy %s, %d jobs: %w", policy, jobs, err)
		}
		sum += (o.Clock() - from).Seconds()
	}
	return sum / float64(len(o.Seeds)), nil
}

// decisionSnapshot returns a snapshot of a cluster with the given number of jobs.
func decisionSnapshot(jobs int, seed int64) (*schedule.Snapshot, error) {
	table := workload.GavelTable()
	g, err := workload.NewGenerator(workload.Options{Seed: seed, MultiGPU: true}, table)
	if err != nil {
		return nil, err
	}
	s := &schedule.Snapshot{}
	for _, name := range []string{"k80", "p100", "v100"} {
		s.Devices = append(s.Devices, schedule.DeviceType{Name: name, Count: jobs / 4, PerServer: 1, USDHour: 1, Watts: math.NaN()})
	}
	list := g.Take(jobs)
	for i := range list {
		j := schedule.JobState{Job: &list[i], Remaining: list[i].Steps, Seconds: list[i].Seconds}
		j.User = strconv.Itoa(i % entities)
		for _, d := range s.Devices {
			j.Rate = append(j.Rate, table.Alone(d.Name, j.Type, j.GPUs))
		}
		s.Jobs = append(s.Jobs, j)
	}
	s.Pair = func(a, b, device int) (ra, rb float64) {
		if s.Jobs[a].GPUs != s.Jobs[b].GPUs {
			return 0, 0
		}
		ra, rb, _ = table.Beside(s.Devices[device].Name, s.Jobs[a].Type, s.Jobs[b].Type, s.Jobs[a].GPUs)
		return ra, rb
	}
	return s, nil
}

// decisionTable assembles the comparison with the published times.
func decisionTable(took [][]float64, points int, o *DecisionOptions) *experiment.Comparison {
	c := &experiment.Comparison{Schema: 1, Engine: "rounds", Title: "Gavel, time that decisions take (figure 12)", Metrics: []string{"decision_s"},
		Rows: []experiment.Row{}, Paired: []experiment.Pair{}, Against: []string{}, Seeds: len(o.Seeds), Cases: points * len(o.Seeds), WallS: experiment.Number(math.NaN()),
		Notes: []string{"published was measured on another machine, which is not known; ours is real time on this one",
			fmt.Sprintf("hierarchical: jobs are divided among %d users of equal weight, in turn", entities)}}
	nan := experiment.Number(math.NaN())
	t := experiment.Table{Title: "seconds of a decision: published, ours, and ours by published", Head: []string{"jobs"}}
	picture := page.Chart{Title: "Time of a decision", Note: "dashed: published", X: page.Axis{Name: "jobs", Log: true}, Y: page.Axis{Name: "seconds", Log: true}}
	for k := range points {
		t.Head = append(t.Head, strconv.Itoa(16<<k))
	}
	for i := range runtimes() {
		l := &runtimes()[i]
		c.Policies = append(c.Policies, l.Policy)
		theirs := page.Series{Name: l.Policy + ", published", Dashed: true, Class: page.Class(i)}
		ours := page.Series{Name: l.Policy, Class: page.Class(i)}
		lines := [3][]string{{l.Policy}, {"  ours"}, {"  ours / published"}}
		// Published, ours, and their ratio.
		for k := range points {
			p, m := math.NaN(), took[i][k]
			if k < len(l.Hours) {
				p = l.Hours[k]
			}
			theirs.Points = append(theirs.Points, page.Point{X: float64(int(16) << k), Y: p})
			ours.Points = append(ours.Points, page.Point{X: float64(int(16) << k), Y: m})
			lines[0], lines[1], lines[2] = append(lines[0], significant(p)), append(lines[1], significant(m)), append(lines[2], significant(m/p))
			c.Rows = append(c.Rows, experiment.Row{Policy: l.Policy, Metric: fmt.Sprintf("decision_s of %d jobs", 16<<k), Mean: experiment.Number(m), Lo: nan, Hi: nan, Min: nan, Max: nan, N: len(o.Seeds)})
		}
		picture.Series = append(picture.Series, theirs, ours)
		t.Lines = append(t.Lines, lines[:]...)
	}
	c.Tables, c.Charts, c.Definitions = []experiment.Table{t}, []page.Chart{picture}, []experiment.Metric{}
	return c
}

func significant(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
