package spot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"trainopt/optimizer/report/page"
	"trainopt/optimizer/schedule/capacity"
	"trainopt/simulator/experiment"
)

// Case is a market and the start of the job in it.
type Case struct {
	Market Market
	From   int    // tick
	Seed   uint64 // of randomised policies
	Group  uint64 // cases of the same group are not independent of each other
}

func (c *Case) name() string {
	return fmt.Sprintf("%s from %.4g h", c.Market.Name, float64(c.From)*c.Market.TickS/3600)
}

// Sweep configures a comparison.
type Sweep struct {
	Policies []string
	Against  []string // nil: greedy if it is among the policies, else the first policy
	Cases    []Case
	Job      capacity.Job // DeadlineS is ignored
	Slacks   []float64    // deadlines relative to the work; each is a separate comparison
	Title    string
	Notes    []string
	Workers  int                   // concurrent cases; 0: one per core
	Progress func(done, total int) // may be nil
}

// ran is a completed job.
type ran struct {
	Slack   float64
	Case    string
	Policy  string
	Seed    uint64
	Outcome outcome
	// Costs on demand alone and of the optimum, USD.
	Alone, Optimum float64

	Group uint64 // of the case
}

// metrics of the comparison.
var metrics = []experiment.Metric{
	{Name: "cost_share", Unit: "share", Better: experiment.Lower, Means: "cost, of what on demand alone costs"},
	{Name: "above_optimum", Unit: "share", Better: experiment.Lower, Means: "cost above the optimum, of what on demand alone costs"},
	{Name: "missed", Unit: "share", Better: experiment.Lower, Means: "deadlines missed"},
	{Name: "cost_usd", Unit: "USD", Better: experiment.Lower, Detail: true, Means: "cost"},
	{Name: "spot_share", Unit: "share", Detail: true, Means: "time on spot capacity, of the time on machines"},
	{Name: "starts", Better: experiment.Lower, Detail: true, Means: "machines started"},
	{Name: "elapsed_share", Unit: "share", Detail: true, Means: "time from start to end, of the time until the deadline, where the job was done at all"},
}

// Compare runs every policy on every case with every deadline. When ctx is cancelled, the results of the completed
// deadlines are returned with its error.
func (s *Sweep) Compare(ctx context.Context) (*experiment.Comparison, []ran, error) {
	if len(s.Cases) == 0 || len(s.Slacks) == 0 {
		return nil, nil, errors.New("compare on spot capacity: no case, or no deadline")
	}
	var each []*experiment.Comparison
	var all [][]ran
	var broken error
	for i, slack := range s.Slacks {
		c, ran, err := s.deadline(ctx, i, slack)
		if err != nil && ctx.Err() == nil {
			return nil, nil, err
		}
		if c != nil {
			each, all = append(each, c), append(all, ran)
		}
		if broken = err; err != nil {
			break
		}
	}
	if len(each) == 0 {
		return nil, nil, broken
	}
	top := each[0]
	if len(each) > 1 {
		top = &experiment.Comparison{Schema: 1, Engine: "spot", Metrics: []string{}, Rows: []experiment.Row{}, Paired: []experiment.Pair{}, Policies: s.Policies, Against: each[0].Against,
			Definitions: []experiment.Metric{}, Seeds: each[0].Seeds, Cases: len(each) * each[0].Cases, WallS: experiment.Number(math.NaN()), Also: each, Fold: true}
	}
	top.Title, top.Notes = s.Title, append(slices.Clone(s.Notes), top.Notes...)
	top.Tables = s.tables(each, all)
	top.Charts = s.charts(each)
	return top, slices.Concat(all...), broken
}

// deadline compares the policies for one deadline. The optimum of a case is computed once.
func (s *Sweep) deadline(ctx context.Context, i int, slack float64) (*experiment.Comparison, []ran, error) {
	j := s.Job
	j.DeadlineS = slack * j.WorkS
	if !j.Feasible() {
		return nil, nil, fmt.Errorf("a deadline of %.4g × work: %w: it needs %.4g × work", slack, ErrInfeasible, (j.WorkS+j.ChangeoverS)/j.WorkS)
	}
	least := make([]*outcome, len(s.Cases)) // set by the trials of a case, which run one after another
	cases := make([]experiment.Case, len(s.Cases))
	for k := range s.Cases {
		cases[k] = experiment.Case{Name: s.Cases[k].name(), Seed: s.Cases[k].Group}
	}
	o := experiment.Options{Engine: "spot", Title: fmt.Sprintf("deadline %.4g × work", slack), Metrics: metrics, Against: s.against(), Workers: s.Workers}
	if s.Progress != nil {
		o.Progress = func(done, _ int) { s.Progress(i*len(s.Cases)+done, len(s.Slacks)*len(s.Cases)) }
	}
	c, ran, err := experiment.Run(ctx, s.Policies, cases, o, func(_ context.Context, policy string, k int) (map[string]float64, ran, error) {
		one := &s.Cases[k]
		if least[k] == nil {
			best, err := hindsight(j, one.Market, one.From)
			if err != nil {
				return nil, ran{}, err
			}
			best.Timeline = nil
			least[k] = &best
		}
		method, err := Find(policy)
		if err != nil {
			return nil, ran{}, err
		}
		got := *least[k]
		if method.Name != "optimum" {
			if got, err = method.Run(j, one.Market, one.From, one.Seed); err != nil {
				return nil, ran{}, err
			}
		}
		got.Timeline = nil
		r := ran{slack, one.name(), policy, one.Seed, got, j.AloneUSD(), least[k].USD, one.Group}
		return r.values(j), r, nil
	})
	return c, slices.Concat(ran...), err
}

// values returns the numbers of the job by metric.
func (r *ran) values(j capacity.Job) map[string]float64 {
	missed := 0.0
	if r.Outcome.Missed {
		missed = 1
	}
	return map[string]float64{"cost_share": r.Outcome.USD / r.Alone, "above_optimum": (r.Outcome.USD - r.Optimum) / r.Alone, "missed": missed, "cost_usd": r.Outcome.USD,
		"spot_share": r.Outcome.SpotS / (r.Outcome.SpotS + r.Outcome.OnDemandS), "starts": float64(r.Outcome.Starts), "elapsed_share": r.Outcome.ElapsedS / j.DeadlineS}
}

// WriteJobs writes every completed job as CSV.
func WriteJobs(w io.Writer, ran []ran) error {
	f := func(v float64) string { return page.CSVCell(v, -1) }
	head := "deadline_by_work,case,policy,seed,cost_usd,on_demand_cost_usd,optimum_cost_usd,spot_s,on_demand_s,wait_s,elapsed_s,starts,taken_away,missed"
	rows := [][]string{strings.Split(head, ",")}
	for _, r := range ran {
		o := &r.Outcome
		rows = append(rows, []string{f(r.Slack), r.Case, r.Policy, strconv.FormatUint(r.Seed, 10), f(o.USD), f(r.Alone), f(r.Optimum), f(o.SpotS), f(o.OnDemandS), f(o.WaitS),
			f(o.ElapsedS), strconv.Itoa(o.Starts), strconv.Itoa(o.Taken), strconv.FormatBool(o.Missed)})
	}
	return page.CSV(w, rows)
}
