// Package platform describes the machines of a simulated cluster: the number and kinds of accelerators, their
// distribution over servers, prices and power. It does not simulate, and prices are only taken from tables that state
// their source and date.
//
//	c, err := platform.Parse("v100=36,p100=36,k80=36", workload.GavelTable().Devices())
//	prices, err := platform.Prices("gavel")
//	unpriced := c.Price(prices)
package platform
