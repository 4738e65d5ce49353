package cost

// Need is what a job was measured, or is predicted, to need of one machine.
type Need struct {
	GPUs         int     // 0 none
	GPU          string  // canonical model; "" any
	GPUMemoryGiB float64 // peak of the fullest GPU; NaN unknown
	CPUs         float64 // that it keeps busy; NaN unknown
	MemoryGiB    float64 // peak, host; NaN unknown
	Margin       float64 // what is added to peaks of memory; 0 means 0.15
}

// Fits says whether an offer has what is needed, and what it lacks in words.
func (n Need) Fits(o Offer) (ok bool, lacks string) { return false, "" }

// Interruptions says what spot capacity costs a job: how often it is taken away and what that loses.
type Interruptions struct {
	PerHour      float64 // expected number an hour of running
	RestartHours float64 // start, load, warm up
	LostHours    float64 // work since the last checkpoint, on average
	AwayHours    float64 // until capacity is back: time, but no money
	Resumable    bool    // false: everything is done again
}

// Expected is what a job of so many undisturbed hours comes to: hours that are paid for, and hours until it is done.
func (i Interruptions) Expected(hours float64) (paid, wall float64) { return hours, hours }
