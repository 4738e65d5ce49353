package hdeeprm

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/queue"
)

// result returns one job of each outcome.
func result() *queue.Result {
	jobs := []order.Job{
		{ID: 0, Submit: 2, Procs: 5, Limit: 100},
		{ID: 1, Name: "w7!b", Submit: 3, Procs: 2, Limit: 4},
		{ID: 2, Submit: 3, Procs: 99},
		{ID: 3, Submit: 4, Procs: 1},
	}
	nan := math.NaN()
	return &queue.Result{Procs: 8, Energy: 1234.5, Switches: 12, GroupedSwitches: 3, Jobs: []queue.Outcome{
		{Job: &jobs[0], State: queue.Completed, Start: 2, End: 12, Cores: []int32{0, 1, 2, 3, 7}},
		{Job: &jobs[1], State: queue.Killed, Start: 12, End: 16, Cores: []int32{4, 5}},
		{Job: &jobs[2], State: queue.Rejected, Start: nan, End: nan},
		{Job: &jobs[3], State: queue.Waiting, Start: nan, End: nan},
	}}
}

func TestWriteJobs(t *testing.T) {
	var b strings.Builder
	err := WriteJobs(&b, result(), func(j *order.Job) string { return fmt.Sprintf("p,%d", j.ID) })
	if err != nil {
		t.Fatal(err)
	}
	const want = `job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,success,final_state,starting_time,execution_time,finish_time,waiting_time,turnaround_time,stretch,allocated_resources,consumed_energy,metadata
0,w0,"p,0",2.000000,5,100.000000,1,COMPLETED_SUCCESSFULLY,2.000000,10.000000,12.000000,0.000000,10.000000,1.000000,0-3 7,-1.000000,""
b,w7,"p,1",3.000000,2,4.000000,0,COMPLETED_WALLTIME_REACHED,12.000000,4.000000,16.000000,9.000000,13.000000,3.250000,4-5,-1.000000,""
2,w0,"p,2",3.000000,99,-1.000000,0,REJECTED,,,,,,,,,""
3,w0,"p,3",4.000000,1,-1.000000,0,SUBMITTED,,,,,,,,,""
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestWriteSchedule(t *testing.T) {
	var b strings.Builder
	if err := WriteSchedule(&b, result(), 0.25); err != nil {
		t.Fatal(err)
	}
	const want = `batsim_version,consumed_joules,makespan,max_slowdown,max_turnaround_time,max_waiting_time,mean_slowdown,mean_turnaround_time,mean_waiting_time,nb_computing_machines,nb_grouped_switches,nb_jobs,nb_jobs_finished,nb_jobs_killed,nb_jobs_rejected,nb_jobs_success,nb_machine_switches,scheduling_time,simulation_time,success_rate,time_computing,time_idle,time_sleeping,time_switching_off,time_switching_on,time_unavailable
trainopt,1234.500000,16.000000,3.250000,13.000000,9.000000,1.062500,5.750000,2.250000,8,3,4,2,1,1,1,12,0.000000,0.250000,0.250000,58.000000,70.000000,0.000000,0.000000,0.000000,0.000000
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	names := strings.Split(strings.Split(b.String(), "\n")[0], ",")
	if !slices.IsSorted(names) {
		t.Errorf("the columns are not in lexicographic order: %v", names)
	}
}

// An empty result, and one of unknown energy, are written without NaN.
func TestNothingHappened(t *testing.T) {
	var b strings.Builder
	if err := WriteSchedule(&b, &queue.Result{Procs: 4, Energy: math.NaN()}, 0); err != nil || strings.Contains(b.String(), "NaN") {
		t.Errorf("%v: %s", err, b.String())
	}
}

// The metrics of the published schedules follow from their jobs.
func TestPublishedSchedules(t *testing.T) {
	data, err := os.ReadFile(batsimPublished(t, "expected/policy_pairs.json"))
	if err != nil {
		t.Fatal(err)
	}
	type schedule struct {
		Jobs []struct {
			ID            int
			Start, Finish float64
			Alloc         []int32
		}
	}
	var all map[string]map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for name, raw := range all["learning"] {
		var s schedule
		var metrics map[string]any
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &metrics); err != nil {
			t.Fatal(err)
		}
		r := &queue.Result{Procs: 4, Energy: metrics["consumed_joules"].(float64)}
		for _, j := range s.Jobs {
			r.Jobs = append(r.Jobs, queue.Outcome{Job: &order.Job{ID: j.ID, Procs: 1}, State: queue.Completed, Start: j.Start, End: j.Finish, Cores: j.Alloc})
		}
		for _, c := range scheduleSummary(r, 0) {
			want, ok := metrics[c.Name].(float64)
			got, isFloat := c.Value.(float64)
			if ok && isFloat {
				checked++
				if math.Abs(got-want) > 1e-9*math.Abs(want) {
					t.Errorf("%s: %s: got %v, want %v", name, c.Name, got, want)
				}
			}
		}
	}
	if checked < 8*20 {
		t.Errorf("only %d metrics were compared", checked)
	}
}

func TestCompare(t *testing.T) {
	var a, b strings.Builder
	if err := WriteSchedule(&a, result(), 0); err != nil {
		t.Fatal(err)
	}
	other := result()
	other.Energy = 1000
	if err := WriteSchedule(&b, other, 0); err != nil {
		t.Fatal(err)
	}
	got, err := CompareSchedules(strings.NewReader(a.String()), strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 8 || got[0] != (scheduleMetric{"consumed_joules", 1234.5, 1000}) || got[7] != (scheduleMetric{"mean_waiting_time", 2.25, 2.25}) {
		t.Errorf("got %v", got)
	}
	if _, err := CompareSchedules(strings.NewReader(a.String()), strings.NewReader("makespan\n3\n")); err == nil || !strings.Contains(err.Error(), "the second has no column consumed_joules") {
		t.Errorf("got %v", err)
	}
	if _, err := CompareSchedules(strings.NewReader("makespan\n"), strings.NewReader(b.String())); err == nil {
		t.Error("a table without numbers was compared")
	}
}

// Percentiles of numpy.percentile (NumPy 1.24.2).
func TestBatsimPercentile(t *testing.T) {
	values := []float64{1, 2, 4, 8, 16, 32, 64}
	for p, want := range map[float64]float64{0: 1, 25: 3, 50: 8, 75: 24, 95: 54.39999999999998, 99: 62.079999999999984, 100: 64} {
		if got := percentile(values, p); got != want {
			t.Errorf("%v %%: got %v, want %v", p, got, want)
		}
	}
	if !math.IsNaN(percentile(nil, 50)) {
		t.Error("nothing has a median")
	}
}

func TestIntervals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOfN(rapid.Int32Range(0, 60), 0, 40).Draw(t, "numbers")
		text := FormatIntervals(numbers)
		got, err := ParseIntervals(text)
		if err != nil {
			t.Fatal(err)
		}
		want := slices.Compact(slices.Sorted(slices.Values(numbers)))
		if !slices.Equal(got, want) {
			t.Fatalf("%v is %q, which is %v", numbers, text, got)
		}
		if again := FormatIntervals(got); again != text {
			t.Fatalf("%q and %q", text, again)
		}
	})
	for text, want := range map[string]string{"": "", "7 0-3": "0-3 7", "0,1,2": "0-2", "3-3": "3", "1-4 2-6": "1-6"} {
		if got, err := ParseIntervals(text); err != nil || FormatIntervals(got) != want {
			t.Errorf("%q: got %v, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"a", "3-1", "-1", "1-", "1--2", "0-99999999999", "0-2147483647"} {
		if got, err := ParseIntervals(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func FuzzParseIntervals(f *testing.F) {
	f.Add("0-3 7")
	f.Add("0-16777215")
	f.Fuzz(func(t *testing.T, text string) {
		numbers, err := ParseIntervals(text)
		if err != nil {
			return
		}
		again, err := ParseIntervals(FormatIntervals(numbers))
		if err != nil || !slices.Equal(numbers, again) {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
