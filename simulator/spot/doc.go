// Package spot decides, and simulates, on which machine a job with a deadline runs when spot capacity is intermittent:
// on spot capacity, which is cheap and may be taken away, on demand, which is expensive and reliable, or on none for
// the moment. The problem and the method Uniform Progress are those of Wu et al., "Can't Be Late: Optimizing Spot
// Instance Savings under Deadlines", NSDI 2024 (in this package: the paper).
//
// A policy is a function from the state observable at a tick to a machine. Uniform, Greedy, TimeSliced, AlwaysOnDemand
// and SpotOnly require only the work and the deadline; Optimum uses the whole future and is the bound for all others.
// A new policy is one file and one line in the registry. Capacity is a measured trace (Load), several zones together
// (NewMarket), or generated (Generate).
//
// The package is not a cloud client: it neither starts machines nor queries prices. It does not simulate changing
// prices, shortage of capacity on demand, or the two-minute notice of a cloud; the loss at an interruption is part of
// the changeover. Package cost contains the prices of spot capacity for jobs without a deadline.
//
//	market, err := spot.Generate(spot.Availability{UpS: 7200, DownS: 3600}, 300, 2000, 1, 0)
//	if err != nil { … }
//	job := spot.Job{WorkS: 48 * 3600, DeadlineS: 60 * 3600, ChangeoverS: 720, SpotUSDHour: 0.92, OnDemandUSDHour: 3.06}
//	got, err := spot.Run(spot.Uniform, job, market, 0)
//	least, err := spot.Optimum(job, market, 0)
//	fmt.Println(got.USD, least.USD)
//
// A Report is one job with its context, as text, JSON, CSV or an HTML page; a Sweep compares policies over markets,
// starts and deadlines.
package spot
