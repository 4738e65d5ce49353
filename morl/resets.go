package morl

// Resets say when a critic is replaced by a fresh one. The zero value: never.
type Resets struct {
	// Mode is "" (never), "evidence" or "random" (as the SLA-MORL code does it, to compare with).
	Mode string
	// Debt is the objective whose reward is minus the severity of violations, and Severe the severity from which a
	// violation counts; default 0.3.
	Debt   int
	Severe float64
	// Interval is the number of transitions between checks, default 200; Probability the random mode's, default 0.3.
	Interval    int
	Probability float64
}
