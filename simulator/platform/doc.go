// Package platform describes the machines of a simulated cluster: how many accelerators of which kinds, how they stand in
// servers, what they cost and how much power they draw. It simulates nothing, and prices are only taken from tables that say
// their source and date.
//
//	c, err := platform.Parse("v100=36,p100=36,k80=36", workload.GavelTable().Devices())
//	prices, err := platform.Prices("gavel")
//	unpriced := c.Price(prices)
package platform
