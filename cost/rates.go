package cost

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"trainopt/resources"
)

// USD is an amount of money in US dollars.
type USD float64

// Rates contains the prices of an allocation. Either the three unit rates apply or, if Instance is positive, the
// whole machine is paid at that price regardless of the job's share of it; unit rates beside an Instance price only
// divide that price among the resources. Recorded rates may be unknown (NaN); so are then the amounts that need them.
type Rates struct {
	GPUHour USD `json:"gpu_hour"` // USD per GPU and hour
	CPUHour USD `json:"cpu_hour"` // USD per logical CPU and hour
	GiBHour USD `json:"gib_hour"` // USD per GiB of host memory and hour
	// Instance is the hourly price of the whole machine; 0 if the unit rates apply.
	Instance USD `json:"instance_hour,omitempty"`
	// CPUQuota is the number of CPUs that the quota of a container grants, if it is not a whole one; 0 otherwise. An allocation of
	// that many whole CPUs, at least one, has it and pays for it.
	CPUQuota float64 `json:"cpu_quota,omitempty"`
	// Source is the source of the prices as free text; Dated is their date, YYYY-MM-DD.
	Source string `json:"source"`
	Dated  string `json:"dated"`
	// Assumed states in one sentence an assumption made in place of a missing price; empty if none was made.
	Assumed string `json:"assumed,omitempty"`
}

// Split is an amount of money by resource.
type Split struct {
	GPU    USD `json:"gpu"`
	CPU    USD `json:"cpu"`
	Memory USD `json:"memory"`
	// Rest is the part of an instance price not assigned to the job's resources: resources that the job was not
	// given, or the whole price if no unit rates are known.
	Rest USD `json:"rest"`
}

// Sum returns the total amount.
func (s Split) Sum() USD { return s.GPU + s.CPU + s.Memory + s.Rest }

func (s Split) times(f float64) Split {
	k := USD(f)
	return Split{s.GPU * k, s.CPU * k, s.Memory * k, s.Rest * k}
}

// Known reports whether the three unit rates are known.
func (r Rates) Known() bool { return !math.IsNaN(float64(r.GPUHour + r.CPUHour + r.GiBHour)) }

// Hourly returns the hourly price of an allocation: GPUs, CPUs and memory at the unit rates, or the Instance price
// for any allocation. Negative amounts of a resource count as 0.
func (r Rates) Hourly(a resources.Allocation) USD {
	if r.Instance > 0 {
		return r.Instance
	}
	return r.parts(a).Sum()
}

// HourlySplit returns Hourly by resource. With an Instance price, the parts are those of the unit rates, scaled down
// if they exceed the price, and Rest is the remainder.
func (r Rates) HourlySplit(a resources.Allocation) Split {
	s := r.parts(a)
	if r.Instance <= 0 {
		return s
	}
	if sum := s.Sum(); sum > r.Instance {
		return s.times(float64(r.Instance / sum))
	}
	s.Rest = r.Instance - s.Sum()
	return s
}

// WholeMachine returns r for a machine that is owned or rented as a whole: its hourly price covers all its resources,
// regardless of the part that a job uses. The unit prices are kept to divide that price.
func (r Rates) WholeMachine(all resources.Allocation) Rates {
	r.Instance = r.parts(all).Sum()
	r.Source = "the whole machine, at unit prices " + r.Source
	return r
}

// Times returns the rates of n machines that are rented together, for amounts of one of them. n below 2 changes nothing.
func (r Rates) Times(n int) Rates {
	if n < 2 {
		return r
	}
	k := USD(n)
	r.GPUHour, r.CPUHour, r.GiBHour, r.Instance = r.GPUHour*k, r.CPUHour*k, r.GiBHour*k, r.Instance*k
	r.Source = fmt.Sprintf(together, n) + r.Source
	return r
}

// together precedes the source of the rates of several machines.
const together = "%d nodes, each: "

// Each returns the rates of one of n machines from those of all of them, the inverse of Times. n below 2 changes nothing.
func (r Rates) Each(n int) Rates {
	if n < 2 {
		return r
	}
	k := USD(n)
	r.GPUHour, r.CPUHour, r.GiBHour, r.Instance = r.GPUHour/k, r.CPUHour/k, r.GiBHour/k, r.Instance/k
	r.Source = strings.TrimPrefix(r.Source, fmt.Sprintf(together, n))
	return r
}

// Half returns the rates of one of two jobs that share what they hold.
func (r Rates) Half() Rates {
	r.GPUHour, r.CPUHour, r.GiBHour, r.Instance = r.GPUHour/2, r.CPUHour/2, r.GiBHour/2, r.Instance/2
	return r
}

// parts returns the hourly price at the unit rates.
func (r Rates) parts(a resources.Allocation) Split {
	return Split{
		GPU:    r.GPUHour.times(float64(a.GPUs)),
		CPU:    r.CPUHour.times(r.cpus(a)),
		Memory: r.GiBHour.times(float64(a.Memory)),
	}
}

// cpus returns the number of CPUs for which an allocation pays.
func (r Rates) cpus(a resources.Allocation) float64 {
	if r.CPUQuota > 0 && a.CPUs == max(1, int(r.CPUQuota)) {
		return r.CPUQuota
	}
	return float64(a.CPUs)
}

// times returns the price of n units; 0 for none of them, even at an unknown price.
func (p USD) times(n float64) USD {
	if n <= 0 {
		return 0
	}
	return p * USD(n)
}

// Upper bounds of plausible hourly prices: about five times the highest known.
const (
	maxGPUHour  = 100
	maxCPUHour  = 5
	maxGiBHour  = 3
	maxInstance = 2000
)

// sentinels are placeholder prices by which catalogues mark "not available".
var sentinels = map[USD]bool{700: true, 777: true, 888: true, 999: true, 9999: true, 99999: true, 999999: true}

// implausible describes the problem of an hourly price; empty if none exists. 0 is accepted.
func implausible(price, most USD) string {
	p := float64(price)
	switch {
	case math.IsNaN(p):
		return "is not a number"
	case math.IsInf(p, 0):
		return "is infinite"
	case p < 0:
		return fmt.Sprintf("%g USD/h is negative", p)
	case sentinels[price]:
		return fmt.Sprintf("%g USD/h is a catalogue's mark for \"not available\", not a price", p)
	case price > most:
		return fmt.Sprintf("%g USD/h is not plausible (more than %g)", p, float64(most))
	}
	return ""
}

// Validate returns all problems, joined: prices that are negative, not a number, infinite, a placeholder of a
// catalogue (700, 999 …) or implausibly high; no price at all; a missing or malformed date; a missing source.
func (r Rates) Validate() error {
	var problems []error
	for _, p := range []struct {
		name  string
		price USD
		most  USD
	}{
		{"gpu_hour", r.GPUHour, maxGPUHour}, {"cpu_hour", r.CPUHour, maxCPUHour},
		{"gib_hour", r.GiBHour, maxGiBHour}, {"instance_hour", r.Instance, maxInstance},
	} {
		if wrong := implausible(p.price, p.most); wrong != "" {
			problems = append(problems, fmt.Errorf("%s %s", p.name, wrong))
		}
	}
	if r.GPUHour == 0 && r.CPUHour == 0 && r.GiBHour == 0 && r.Instance == 0 {
		problems = append(problems, errors.New("all prices are 0: nothing would be charged; give at least one"))
	}
	if r.Source == "" {
		problems = append(problems, errors.New("source is missing: say where the prices come from"))
	}
	if r.Dated == "" {
		problems = append(problems, errors.New("dated is missing: give the date of the prices, YYYY-MM-DD"))
	} else if _, err := time.Parse(time.DateOnly, r.Dated); err != nil {
		problems = append(problems, fmt.Errorf("dated %q is not a date of the form YYYY-MM-DD", r.Dated))
	}
	return errors.Join(problems...)
}

// StaleAfter is the age from which a price causes a warning.
const StaleAfter = 180 * 24 * time.Hour

// PriceAge returns the age of a price of a date (YYYY-MM-DD) on a day in whole days, and whether it exceeds StaleAfter.
// It is not known for an invalid or future date.
func PriceAge(dated string, on time.Time) (days int, stale, known bool) {
	day, err := time.Parse(time.DateOnly, dated)
	if err != nil || on.Before(day) {
		return 0, false, false
	}
	return int(on.Sub(day).Hours() / 24), on.Sub(day) > StaleAfter, true
}

// AgeWords describes the age of a price of a date (YYYY-MM-DD) on a day, to follow that date: ", 12 days old", and in
// addition "(out of date after 180)" after StaleAfter. It returns "" for an unknown or future date, or a day that is zero.
func AgeWords(dated string, on time.Time) string {
	days, stale, known := PriceAge(dated, on)
	if !known {
		return ""
	}
	words := fmt.Sprintf(", %d days old", days)
	if stale {
		words += fmt.Sprintf(" (out of date after %.0f)", StaleAfter.Hours()/24)
	}
	return words
}

// Warnings returns warnings about valid rates: dated more than StaleAfter before the given day or in the future, an
// assumption, unit prices more than ten times the usual ones. It returns nil if there are none.
func (r Rates) Warnings(on time.Time) []string {
	var list []string
	if r.Assumed != "" {
		list = append(list, r.Assumed)
	}
	if day, err := time.Parse(time.DateOnly, r.Dated); err == nil {
		switch age := on.Sub(day); {
		case age > StaleAfter:
			list = append(list, fmt.Sprintf("prices are of %s, %d days old: %s", r.Dated, int(age.Hours()/24), r.Source))
		case age < -24*time.Hour:
			list = append(list, fmt.Sprintf("prices are dated %s, which is in the future: %s", r.Dated, r.Source))
		}
	}
	for _, p := range []struct {
		name         string
		price, usual USD
	}{{"CPU", r.CPUHour, generalCPUHour}, {"GiB", r.GiBHour, generalGiBHour}} {
		if r.Instance <= 0 && p.price > 10*p.usual {
			list = append(list, fmt.Sprintf("%g USD per %s and hour is %.0f times the usual price of %g; is it meant?",
				float64(p.price), p.name, float64(p.price/p.usual), float64(p.usual)))
		}
	}
	return list
}
