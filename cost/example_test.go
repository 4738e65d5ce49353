package cost_test

import (
	"fmt"
	"time"

	"trainopt/cost"
	"trainopt/resources"
)

func Example() {
	rates := cost.Default("NVIDIA A100-SXM4-40GB")
	meter := new(cost.Meter)
	if err := meter.Start(0, cost.Probe, resources.Allocation{GPUs: 1, CPUs: 12, Memory: 85}, rates); err != nil {
		fmt.Println(err)
	}
	meter.Change(10*time.Minute, cost.Run, resources.Allocation{GPUs: 2, CPUs: 24, Memory: 170})
	fmt.Printf("%.2f USD, of it %.2f for the probe\n", meter.Total(time.Hour), meter.Segments(time.Hour)[0].Cost)
	// Output: 4.64 USD, of it 0.42 for the probe
}

func ExampleLookup() {
	_, err := cost.Lookup("aws:p4d.24xlrge")
	fmt.Println(err)
	offer, _ := cost.Lookup("aws:p4d.24xlarge")
	fmt.Printf("%d × %s, %.2f USD/h of %s\n", offer.GPUs, offer.GPU, offer.Price(), offer.Dated)
	// Output:
	// look up "aws:p4d.24xlrge": no such offer in the price table; nearest are aws:p4d.24xlarge, aws:p4de.24xlarge, aws:p3dn.24xlarge
	// 8 × A100 40GB, 21.96 USD/h of 2026-07-20
}
