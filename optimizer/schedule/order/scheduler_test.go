package order

import (
	"bufio"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the transcripts of testdata again")

// TestTranscripts replays the scripts of testdata and compares the decisions printed after each line. A script is
//
//	pool 4 fcfs easy           processors, order, backfilling
//	at 0                       the time of the next lines
//	submit a 3 10              name, processors, requested seconds
//	end a
//	decide                     prints the started jobs and the state of the pool
//
// where "> …" lines are the output.
func TestTranscripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := replay(t, string(want))
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func replay(t *testing.T, script string) string {
	t.Helper()
	var (
		out  strings.Builder
		s    *Scheduler
		now  float64
		ids  = map[string]int32{}
		name = map[int32]string{}
	)
	number := func(text string) float64 {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for lines := bufio.NewScanner(strings.NewReader(script)); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, ">") {
			continue
		}
		fmt.Fprintln(&out, line)
		switch f := strings.Fields(line); {
		case len(f) == 0 || f[0] == "#":
		case f[0] == "pool":
			var err error
			if s, err = New(int(number(f[1])), Orders[f[2]], f[3]); err != nil {
				t.Fatal(err)
			}
		case f[0] == "at":
			now = number(f[1])
		case f[0] == "submit":
			id, ok := s.Submit(now, &Job{Name: f[1], Submit: now, Procs: int(number(f[2])), Request: number(f[3])})
			ids[f[1]], name[id] = id, f[1]
			if !ok {
				fmt.Fprintf(&out, "> reject %s\n", f[1])
			}
		case f[0] == "end":
			s.End(now, ids[f[1]])
		case f[0] == "decide":
			for _, id := range s.Decide(now) {
				fmt.Fprintf(&out, "> start %s\n", name[id])
			}
			fmt.Fprintf(&out, "> %d free, %d waiting\n", s.free, s.Waiting())
		default:
			t.Fatalf("unknown line %q", line)
		}
	}
	return out.String()
}

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		procs       int
		order       Order
		backfilling string
		want        string
	}{
		"no processors":       {0, Orders["fcfs"], "", "0 processors"},
		"no score":            {1, Order{}, "", "score"},
		"unknown backfilling": {1, Orders["fcfs"], "greedy", "want one of conservative, easy, none"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := New(c.procs, c.order, c.backfilling); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("New = %v, want %q", err, c.want)
			}
		})
	}
}

// checked verifies the reservations of conservative backfilling at every decision: each is kept when it is due, the timeline equals the
// running jobs and the reservations, and while no job outlasts its estimate no reservation becomes later.
type checked struct {
	*conservative
	t    *rapid.T
	late bool
}

func (c checked) pass(s *Scheduler) {
	before := slices.Clone(c.reserved)
	waited := slices.Clone(s.waiting())
	submitted := slices.Clone(s.submitted)
	c.conservative.pass(s)
	for _, w := range waited {
		if slices.Contains(submitted, w.id) {
			continue
		}
		if c.reserved[w.id] > before[w.id] && !c.late {
			c.t.Fatalf("at %v s the reservation of job %d went from %v to %v s", s.now, w.id, before[w.id], c.reserved[w.id])
		}
	}
	for _, w := range s.waiting() {
		if c.reserved[w.id] <= s.now && !c.late {
			c.t.Fatalf("job %d was reserved for %v and still waits at %v", w.id, c.reserved[w.id], s.now)
		}
	}
	steps := c.timeline.steps
	for i, step := range steps {
		free := s.procs
		for _, r := range s.running {
			if r.At > step.at {
				free -= r.Procs
			}
		}
		for _, w := range s.waiting() {
			if at := c.reserved[w.id]; at <= step.at && step.at < at+w.estimate {
				free -= w.procs
			}
		}
		if free != step.free || free < 0 || i > 0 && (steps[i-1].at >= step.at || steps[i-1].free == step.free) {
			c.t.Fatalf("at %v s the timeline is %v, want %d free in step %d", s.now, steps, free, i)
		}
	}
}

func TestReservationsAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		procs := rapid.IntRange(1, 8).Draw(t, "procs")
		s, err := New(procs, Orders[rapid.SampledFrom(OrderNames()).Draw(t, "order")], "conservative")
		if err != nil {
			t.Fatal(err)
		}
		at, late := 0, rapid.Bool().Draw(t, "late")
		s.backfill = checked{newConservative(s.procs), t, late}
		var jobs []Job
		for i := range rapid.IntRange(1, 25).Draw(t, "jobs") {
			at += rapid.SampledFrom([]int{0, 0, 1, 2, 5}).Draw(t, "gap")
			took := rapid.IntRange(1, 12).Draw(t, "run")
			j := Job{
				ID: i, Submit: float64(at), Procs: rapid.IntRange(1, procs+1).Draw(t, "size"), Run: float64(took),
				Request: float64(took + rapid.SampledFrom([]int{0, 1, 10}).Draw(t, "more")),
			}
			if late && took > 1 {
				j.Request = float64(rapid.IntRange(1, took-1).Draw(t, "too little"))
			}
			jobs = append(jobs, j)
		}
		simulate(t, s, jobs)
	})
}

// simulate runs jobs, ordered by submission, to the end of the last.
func simulate(t *rapid.T, s *Scheduler, jobs []Job) {
	type end struct {
		at float64
		id int32
	}
	var ends []end
	next := 0
	for next < len(jobs) || len(ends) > 0 {
		now := math.Inf(1)
		if next < len(jobs) {
			now = jobs[next].Submit
		}
		for _, e := range ends {
			now = min(now, e.at)
		}
		ends = slices.DeleteFunc(ends, func(e end) bool {
			if e.at == now {
				s.End(now, e.id)
			}
			return e.at == now
		})
		for ; next < len(jobs) && jobs[next].Submit == now; next++ {
			s.Submit(now, &jobs[next])
		}
		for _, id := range s.Decide(now) {
			ends = append(ends, end{now + jobs[id].Run, id})
		}
		if s.free < 0 {
			t.Fatalf("%d processors free at %v s", s.free, now)
		}
	}
	if s.Waiting() > 0 {
		t.Fatalf("%d jobs wait for ever", s.Waiting())
	}
}

// Equal scores, and scores that are NaN, are ranked by submission.
func TestScores(t *testing.T) {
	for name, c := range map[string]struct {
		score func(j *Job, wait float64) float64
		want  []int32
	}{
		"the last ID first": {func(j *Job, _ float64) float64 { return -float64(j.ID) }, []int32{2, 1, 0}},
		"equal":             {func(*Job, float64) float64 { return 7 }, []int32{0, 1, 2}},
		"no number":         {func(*Job, float64) float64 { return math.NaN() }, []int32{0, 1, 2}},
	} {
		s, err := New(1, Order{Score: c.score}, "none")
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			s.Submit(0, &Job{ID: i, Procs: 1, Run: 1, Request: 1})
		}
		var got []int32
		for now := range 3 {
			for _, id := range s.Decide(float64(now)) {
				got = append(got, id)
				s.End(float64(now+1), id)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: started %v, want %v", name, got, c.want)
		}
	}
}
