package schedule

import (
	"math"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	s := &Snapshot{Devices: []DeviceType{{Name: "a", Count: 2}, {Name: "b", Count: 4}}}
	for id, gpus := range []int{1, 1, 2} {
		s.Jobs = append(s.Jobs, JobState{Job: &Job{ID: 10 + id, GPUs: gpus}})
	}
	alone := func(a int, x ...float64) Entry { return Entry{A: a, B: -1, X: x} }
	for name, c := range map[string]struct {
		traits  Traits
		entries []Entry
		gpus    []int
		job     int
		want    string // "": valid
	}{
		"nothing":                {Traits{}, nil, nil, -1, ""},
		"full and partial":       {Traits{}, []Entry{alone(0, 1, 0), alone(1, 0.5, 0.5), alone(2, 0, 1)}, nil, -1, ""},
		"a pair":                 {Traits{Packs: true}, []Entry{{A: 0, B: 1, X: []float64{1, 0}}}, nil, -1, ""},
		"more devices requested": {Traits{}, []Entry{alone(0, 0, 1)}, []int{4}, -1, ""},
		"overcommitted":          {Traits{Overcommits: true}, []Entry{alone(2, 1, 0), alone(0, 1, 0)}, nil, -1, ""},
		"too many devices":       {Traits{}, []Entry{alone(2, 1, 0), alone(0, 1, 0)}, nil, -1, "3 devices of type a, and there are 2"},
		"too many by size":       {Traits{}, []Entry{alone(0, 1, 0)}, []int{4}, -1, "4 devices of type a"},
		"negative size":          {Traits{}, []Entry{alone(1, 1, 0)}, []int{-1}, 1, "-1 devices for job 1"},
		"size of a pair":         {Traits{Packs: true}, []Entry{{A: 0, B: 1, X: []float64{1, 0}}}, []int{2}, 0, "2 devices for job 0"},
		"sizes":                  {Traits{}, []Entry{alone(1, 1, 0)}, []int{1, 2}, -1, "2 numbers of devices for 1 entries"},
		"unknown job":            {Traits{}, []Entry{alone(3, 1, 0)}, nil, -1, "has 3"},
		"twice":                  {Traits{}, []Entry{alone(1, 0.1, 0), alone(1, 0.1, 0)}, nil, 1, "twice"},
		"types":                  {Traits{}, []Entry{alone(1, 1)}, nil, 1, "1 shares for 2 device types"},
		"a pair without packing": {Traits{}, []Entry{{A: 0, B: 1, X: []float64{1, 0}}}, nil, 0, "does not pack"},
		"a pair of two sizes":    {Traits{Packs: true}, []Entry{{A: 0, B: 2, X: []float64{1, 0}}}, nil, 0, "asks for 2 devices, not 1"},
		"negative share":         {Traits{}, []Entry{alone(0, -0.5, 0)}, nil, 0, "-0.5"},
		"NaN":                    {Traits{}, []Entry{alone(0, math.NaN(), 0)}, nil, 0, "NaN"},
		"more than its time":     {Traits{}, []Entry{alone(0, 0.75, 0.75)}, nil, 0, "add up to 1.5"},
	} {
		t.Run(name, func(t *testing.T) {
			job, err := Allocation{c.entries, c.gpus}.Check(s, c.traits)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || job != c.job {
				t.Errorf("Check = job %d, %v, want job %d, %q", job, err, c.job, c.want)
			}
		})
	}
}

func TestDecisionNames(t *testing.T) {
	for d, want := range map[Decision]string{Keep: "keep", Start: "start", Move: "move", Resize: "resize", Stop: "stop"} {
		if d.String() != want {
			t.Errorf("%d is %q, want %q", int(d), d, want)
		}
	}
}
