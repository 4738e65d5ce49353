// Package cost converts resources and time to money: the hourly price of an allocation ([Rates]), the price of a
// cloud machine ([Offer], [Lookup]; with imported newer prices [Catalogue], [Import]), the cost of a job on each
// machine that fits it, including interruptions of spot capacity ([Need], [Offer.Quote]), the cost of a run so far
// over all its changes and restarts ([Meter]), the value of a change of configuration ([Judge]), and money spent
// without progress ([EfficiencyMonitor], [GPUEvidence.Diagnose], [CheckGPUBatch]).
//
// It is not a billing system and queries no cloud: prices come from small embedded tables with source and date, from
// imported lists, from a rates file, or from the user. It makes no decisions and stops nothing. It has no clock: the
// caller supplies every time.
//
//	rates := cost.Default("NVIDIA A100-SXM4-40GB")
//	meter := new(cost.Meter)
//	err := meter.Start(0, cost.Probe, resources.Allocation{GPUs: 1, CPUs: 12, Memory: 85}, rates)
//	meter.Change(10*time.Minute, cost.Run, resources.Allocation{GPUs: 2, CPUs: 24, Memory: 170})
//	spent := meter.Total(time.Hour)
package cost
