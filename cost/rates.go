package cost

// USD is an amount of money in US dollars.
type USD float64

// Rates says what an allocation costs. Either the three unit rates hold, or, when Instance is
// positive, the whole machine is paid at that price whatever part of it the job is given.
type Rates struct {
	GPUHour USD `json:"gpu_hour"` // USD per GPU and hour
	CPUHour USD `json:"cpu_hour"` // USD per logical CPU and hour
	GiBHour USD `json:"gib_hour"` // USD per GiB of host memory and hour
	// Instance is the price of the whole machine per hour; 0 when unit rates hold.
	Instance USD `json:"instance_hour,omitempty"`
	// Source says where the figures come from, in words; Dated is their date, YYYY-MM-DD.
	Source string `json:"source"`
	Dated  string `json:"dated"`
}
