// Package cost turns resources and time into money: what an allocation costs per hour ([Rates]), what a machine of a
// cloud costs ([Offer], [Lookup]; with newer prices that were imported, [Catalogue], [Import]), what a job comes to on each machine that fits it,
// interruptions of spot capacity included ([Need], [QuoteOffer]), what a run has cost so far over all its changes and restarts ([Meter]), whether a change of
// configuration was worth its money ([Compare]), and where money goes without work being done ([EfficiencyMonitor],
// [DiagnoseZeroGPU], [CheckGPUBatch]).
//
// It is not a billing system and asks no cloud for anything: prices come from small embedded tables that carry
// their source and date, from lists that are imported, from a rates file, or from the user. It decides nothing and stops nothing; it has no
// clock, so every time is given by the caller.
//
//	rates := cost.Default("NVIDIA A100-SXM4-40GB")
//	meter := cost.NewMeter()
//	err := meter.Start(0, cost.Probe, resources.Allocation{GPUs: 1, CPUs: 12, Memory: 85}, rates)
//	meter.Change(10*time.Minute, cost.Run, resources.Allocation{GPUs: 2, CPUs: 24, Memory: 170})
//	spent := meter.Total(time.Hour)
package cost
