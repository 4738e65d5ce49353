package cluster

import (
	"math"
	"testing"
)

// learnerOf returns a learner of two types, of which b has a stated speed relative to a, 0 for none.
func learnerOf(speed float64, jobs ...*Job) *learner {
	a, b := Device{Name: "a", Count: 2, PerServer: 2}, Device{Name: "b", Count: 2, PerServer: 2}
	if speed > 0 {
		a.Speed, b.Speed = 1, speed
	}
	l := newLearner([]Device{a, b}, 100)
	for _, j := range jobs {
		l.add(j, &Spec{Min: 1, Max: 2})
	}
	return l
}

// TestPriors checks where the ratio of two types comes from before a job has run on both.
func TestPriors(t *testing.T) {
	devices := []Device{{Name: "a100", Count: 1}, {Name: "k80", Count: 1}, {Name: "mine", Count: 1}, {Name: "tesla-v100-sxm2-16gb", Count: 1}}
	l := newLearner(devices, 100)
	for what, c := range map[string]struct {
		model    string
		a, b     int
		least    float64 // bounds of the median ratio
		greatest float64
	}{
		"measured":    {"resnet50", 3, 1, 4, 10},
		"reversed":    {"resnet50", 1, 3, 0.1, 0.25},
		"data sheets": {"", 3, 1, 3.6, 3.8}, // root of 15.7/4.37 · 900/240
		"unknown":     {"resnet50", 2, 1, 1, 1},
		"the same":    {"", 1, 1, 1, 1},
	} {
		if r := math.Exp(l.ratio(c.model, c.a, c.b).mean); r < c.least || r > c.greatest {
			t.Errorf("%s: ratio %v, want %v to %v", what, r, c.least, c.greatest)
		}
	}
}

// TestSameCommand checks that a job begins with the rates and the total of the latest job of the same command.
func TestSameCommand(t *testing.T) {
	spec := func(lr string) *Spec {
		s := &Spec{Min: 1}
		s.Config.Train, s.Config.Args = "train.py", []string{"--lr", lr}
		return s
	}
	l := learnerOf(0)
	l.add(&Job{ID: 1, State: Done, Total: 40, Done: 40, Rates: []Rate{{Device: "a", GPUs: 1, PerSec: 4, Blocks: 9}}}, spec("1"))
	l.add(&Job{ID: 2}, spec("1"))
	l.add(&Job{ID: 3}, spec("2"))
	if r, measured := l.Alone(2, 0, 1); r != 4 || !measured {
		t.Errorf("rate %v, %v: want that of the job before", r, measured)
	}
	if total, _ := l.Work(2); total != 40 {
		t.Errorf("total %v, want that of the job before", total)
	}
	if _, measured := l.Alone(3, 0, 1); measured {
		t.Error("a job of another command has the rates of the first")
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }

func TestRateBeforeAnyMeasurement(t *testing.T) {
	l := learnerOf(0.5, &Job{ID: 1, Total: 50})
	a, measured := l.Alone(1, 0, 1)
	b, _ := l.Alone(1, 1, 1)
	if measured || !near(a, 0.5) || !near(b, 0.25) {
		t.Errorf("rates %v, %v, measured %v: want 50 units in a round of 100 s on the faster type, half of that on the other", a, b, measured)
	}
	l.jobs[1].Attained = 400 // it has run for four rounds without a measurement
	if a, _ := l.Alone(1, 0, 1); !near(a, 50./400) {
		t.Errorf("rate %v after 400 s without a measurement, want as much time again", a)
	}
}

func TestRateElsewhere(t *testing.T) {
	l := learnerOf(0, &Job{ID: 1, Total: 50}, &Job{ID: 2, Total: 50}, &Job{ID: 3, Total: 50})
	if first, changed := l.observe(1, "a", 1, 4, 3); !first || !changed {
		t.Error("the first measurement is not reported")
	}
	if here, measured := l.Alone(1, 0, 1); !measured || here != 4 {
		t.Errorf("measured rate %v, %v: want 4", here, measured)
	}
	there, measured := l.Alone(1, 1, 1)
	if !measured || !near(there, 4*math.Exp(unknownSpread)) {
		t.Errorf("rate on the unknown type %v, want an optimistic %v", there, 4*math.Exp(unknownSpread))
	}
	for id := range 2 { // two jobs show that b is four times slower
		l.observe(id+2, "a", 1, 8, 3)
		l.observe(id+2, "b", 1, 2, 3)
	}
	if after, _ := l.Alone(1, 1, 1); !(after < 2.5 && after > 1) {
		t.Errorf("rate on the other type %v after two jobs were four times slower there, want about 1.6", after)
	}
	if l.Kind(1) == l.Kind(2) {
		t.Error("jobs with rates of their own are of one kind")
	}
}

func TestRateOfNumbers(t *testing.T) {
	l := learnerOf(0, &Job{ID: 1, Total: 50})
	l.observe(1, "a", 1, 4, 3)
	if two, _ := l.Alone(1, 0, 2); !near(two, 4*math.Pow(2, gpuScaling)) {
		t.Errorf("rate on two devices %v", two)
	}
	for _, gpus := range []int{0, 3} {
		if r, _ := l.Alone(1, 0, gpus); r != 0 {
			t.Errorf("rate %v on %d devices, which the job does not take", r, gpus)
		}
	}
	kind := l.Kind(1)
	if _, changed := l.observe(1, "a", 1, 4.04, 5); changed || l.Kind(1) != kind {
		t.Error("1 % is reported as a change")
	}
	if _, changed := l.observe(1, "a", 1, 5, 6); !changed || l.Kind(1) == kind {
		t.Error("25 % is not reported as a change")
	}
}

// A job of the same command that is running, or was cancelled, gives its rate and not its amount of work: the next one is
// assumed to need a round, as one of another command, and does not overtake it.
func TestWorkLikeAnUnfinishedJob(t *testing.T) {
	l := learnerOf(0, &Job{ID: 1, Done: 30}, &Job{ID: 2})
	l.observe(1, "a", 1, 0.1, 3)
	total, done := l.Work(2)
	if rate, measured := l.Alone(2, 0, 1); !measured || !near((total-done)/rate, l.round) {
		t.Errorf("%v s of work, want a round of %v", (total-done)/rate, l.round)
	}
}

func TestWorkWithoutTotal(t *testing.T) {
	l := learnerOf(0, &Job{ID: 1, Done: 30})
	l.observe(1, "a", 1, 0.1, 3)
	if total, done := l.Work(1); total != 60 || done != 30 {
		t.Errorf("work %v of %v, want as much again as was done", done, total)
	}
	l.jobs[1].Total = 25
	if total, done := l.Work(1); total != 25 || done != 25 {
		t.Errorf("work %v of %v, want no more than the total", done, total)
	}
}
