// Package spot decides, and simulates, on which machine a job with a deadline runs where spot capacity comes and goes: on spot capacity, which is cheap
// and may be taken away, on demand, which is dear and stays, or on none for the moment. The question and the method Uniform Progress are those of Wu et
// al., "Can't Be Late: Optimizing Spot Instance Savings under Deadlines", NSDI 2024 (in this package: the paper).
//
// A policy is a function from what can be seen at a tick to a machine. Policies that know the work and the deadline only are Uniform, Greedy,
// TimeSliced, AlwaysOnDemand and SpotOnly; Optimum knows the whole future and is the bound that the others are measured against. A new policy is one file and
// one line in the registry. Capacity is a measured trace (Load), several zones at once (NewMarket), or drawn (Generate).
//
// It is no cloud client: it starts no machine and asks nobody for prices. Not simulated: prices that move, capacity on demand that cannot be had,
// and the notice of two minutes that a cloud gives; what is lost at an interruption is part of the changeover. The prices of spot capacity for jobs without a
// deadline are in package cost.
//
//	market, err := spot.Generate(spot.Availability{UpS: 7200, DownS: 3600}, 300, 2000, 1, 0)
//	if err != nil { … }
//	job := spot.Job{WorkS: 48 * 3600, DeadlineS: 60 * 3600, ChangeoverS: 720, SpotUSDHour: 0.92, OnDemandUSDHour: 3.06}
//	got, err := spot.Run(spot.Uniform, job, market, 0)
//	least, err := spot.Optimum(job, market, 0)
//	fmt.Println(got.USD, least.USD)
package spot
