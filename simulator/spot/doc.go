// Package spot simulates a job with a deadline on intermittent spot capacity. Package optimizer/schedule/capacity
// contains the policies, functions from the state observable at a tick to a machine, except Optimum, which uses the
// whole future and is the bound for all others; the paper is that of its documentation. A new policy is one file there
// and one line in the registry here. Capacity is a measured trace (capacity.Load), several zones together (NewMarket), or
// generated (Generate).
//
// The package is not a cloud client: it neither starts machines nor queries prices. It does not simulate changing
// prices, shortage of capacity on demand, or the two-minute notice of a cloud; the loss at an interruption is part of
// the changeover. Package cost contains the prices of spot capacity for jobs without a deadline.
//
//	market, err := Generate(Availability{UpS: 7200, DownS: 3600}, 300, 2000, 1, 0)
//	if err != nil { … }
//	job := capacity.Job{WorkS: 48 * 3600, DeadlineS: 60 * 3600, ChangeoverS: 720, SpotUSDHour: 0.92, OnDemandUSDHour: 3.06}
//	got, err := run(capacity.Uniform, job, market, 0)
//	least, err := hindsight(job, market, 0)
//	fmt.Println(got.USD, least.USD)
//
// A Report is one job with its context, as text, JSON, CSV or an HTML page; a Sweep compares policies over markets,
// starts and deadlines.
package spot
