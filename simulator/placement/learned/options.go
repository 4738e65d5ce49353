package learned

import (
	"trainopt/simulator/placement"
)

type Options struct {
	Recipe   string
	Table    *placement.Table
	Seed     uint64
	Episodes int
	Rate     float64
	Workers  int
}

type Point struct {
	Episode int
	Seconds float64
	Value   float64
	Best    float64
}
