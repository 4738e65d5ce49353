package launch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const second = time.Second

func newWatch() *watch {
	return &watch{grace: 10 * second, pace: endTimeouts{Linger: 3 * second, Clear: 5 * second, KillWait: 10 * second}}
}

func (a action) String() string {
	return [...]string{"checkpoint", "term group", "term outside", "term others", "kill all"}[a]
}

// at is one event of a script.
type at struct {
	now  time.Duration
	what event
}

func stop(grace time.Duration) event { return event{control: &control{Stop: &grace}} }

// Each script is played, with the passing of time between events as in the keeper's loop, and the actions of the
// watch are compared line by line.
func TestWatch(t *testing.T) {
	main, all := event{mainEnded: true}, event{allEnded: true}
	for name, tc := range map[string]struct {
		script []at
		want   string
		cause  cause
	}{
		"ends by itself":                  {[]at{{5 * second, main}, {5 * second, all}}, "over 5s", itself},
		"leaves a worker that ends":       {[]at{{5 * second, main}, {6 * second, all}}, "over 6s", itself},
		"leaves a worker that heeds TERM": {[]at{{5 * second, main}, {9 * second, all}}, "8s term others, over 9s", itself},
		"leaves a deaf worker":            {[]at{{5 * second, main}, {13500 * time.Millisecond, all}}, "8s term others, 13s kill all, over 13.5s", itself},
		"leaves an unkillable worker":     {[]at{{5 * second, main}}, "8s term others, 13s kill all, over 23s", itself},
		"heeds TERM":                      {[]at{{5 * second, stop(4 * second)}, {6 * second, main}, {6 * second, all}}, "5s term group, 6s term outside, over 6s", byStop},
		"is deaf": {[]at{{5 * second, stop(4 * second)}, {9100 * time.Millisecond, main}, {9100 * time.Millisecond, all}},
			"5s term group, 9s kill all, over 9.1s", byStop},
		"is unkillable": {[]at{{5 * second, stop(4 * second)}}, "5s term group, 9s kill all, over 19s", byStop},
		"workers have the rest of the grace": {[]at{{5 * second, stop(4 * second)}, {6 * second, main}, {9200 * time.Millisecond, all}},
			"5s term group, 6s term outside, 9s kill all, over 9.2s", byStop},
		"no grace":               {[]at{{5 * second, stop(0)}, {5 * second, main}, {5 * second, all}}, "5s term group, 5s kill all, over 5s", byStop},
		"negative grace is none": {[]at{{5 * second, stop(-1)}, {6 * second, main}, {6 * second, all}}, "5s term group, 5s kill all, over 6s", byStop},
		"a second stop hurries": {[]at{{5 * second, stop(60 * second)}, {7 * second, stop(0)}, {8 * second, main}, {8 * second, all}},
			"5s term group, 7s kill all, over 8s", byStop},
		"a second stop does not delay": {[]at{{5 * second, stop(4 * second)}, {7 * second, stop(60 * second)}, {10 * second, main}, {10 * second, all}},
			"5s term group, 9s kill all, over 10s", byStop},
		"stop while workers linger": {[]at{{5 * second, main}, {6 * second, stop(second)}, {7200 * time.Millisecond, all}},
			"6s term others, 7s kill all, over 7.2s", itself},
		"stop in the moment of its end": {[]at{{5 * second, event{mainEnded: true, control: stop(second).control}}, {5 * second, all}}, "5s term others, over 5s", itself},
		"checkpoint":                    {[]at{{5 * second, event{control: &control{Checkpoints: 1}}}, {9 * second, main}, {9 * second, all}}, "5s checkpoint, over 9s", itself},
		"checkpoint twice": {[]at{{5 * second, event{control: &control{Checkpoints: 1}}}, {6 * second, event{control: &control{Checkpoints: 1}}},
			{7 * second, event{control: &control{Checkpoints: 2}}}, {9 * second, main}, {9 * second, all}}, "5s checkpoint, 7s checkpoint, over 9s", itself},
		"no checkpoint while stopping": {[]at{{5 * second, stop(4 * second)}, {6 * second, event{control: &control{Checkpoints: 1}}},
			{7 * second, main}, {7 * second, all}}, "5s term group, 7s term outside, over 7s", byStop},
		"limit, saves and leaves": {[]at{{0, event{control: &control{StopAt: 20 * second}}}, {22 * second, main}, {22 * second, all}},
			"20s checkpoint, 22s term others, over 22s", byLimit},
		"limit, cannot save": {[]at{{0, event{control: &control{StopAt: 20 * second}}}, {20 * second, event{noCheckpoint: true}},
			{21 * second, main}, {21 * second, all}}, "20s checkpoint, 20s term group, 21s term outside, over 21s", byLimit},
		"limit, saves for ever": {[]at{{0, event{control: &control{StopAt: 20 * second}}}, {31 * second, main}, {31 * second, all}},
			"20s checkpoint, 30s term group, 31s term outside, over 31s", byLimit},
		"limit, deaf": {[]at{{0, event{control: &control{StopAt: 20 * second}}}},
			"20s checkpoint, 30s term group, 40s kill all, over 50s", byLimit},
		"limit moved in time": {[]at{{0, event{control: &control{StopAt: 20 * second}}}, {19 * second, event{control: &control{StopAt: 40 * second}}},
			{30 * second, main}, {30 * second, all}}, "over 30s", itself},
		"limit removed": {[]at{{0, event{control: &control{StopAt: 20 * second}}}, {19 * second, event{control: &control{}}},
			{99 * second, main}, {99 * second, all}}, "over 1m39s", itself},
		"limit already past": {[]at{{25 * second, event{control: &control{StopAt: 20 * second}}}, {26 * second, main}, {26 * second, all}},
			"25s checkpoint, 26s term others, over 26s", byLimit},
		"stop while saving": {[]at{{0, event{control: &control{StopAt: 20 * second}}}, {21 * second, stop(second)}, {23 * second, main}, {23 * second, all}},
			"20s checkpoint, 21s term group, 22s kill all, over 23s", byStop},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatch()
			got := strings.Join(play(w, tc.script, 200*second), ", ")
			if got != tc.want || w.cause != tc.cause {
				t.Errorf("did  %s (cause %d)\nwant %s (cause %d)", got, w.cause, tc.want, tc.cause)
			}
		})
	}
}

// play plays the script. Repeated rounds of SIGKILL are one line.
func play(w *watch, script []at, until time.Duration) []string {
	var did []string
	swept := false
	note := func(now time.Duration, do []action) {
		for _, a := range do {
			if a != killAll || !swept {
				did = append(did, fmt.Sprintf("%s %s", now, a))
			}
			swept = swept || a == killAll
		}
	}
	now := time.Duration(0)
	for _, e := range script {
		if now = advance(w, now, e.now, note); w.phase != over {
			note(now, w.step(now, e.what))
		}
	}
	if now = advance(w, now, until, note); w.phase == over {
		did = append(did, "over "+now.String())
	}
	return did
}

// advance lets time pass until end, as the keeper's loop does, and returns the time then.
func advance(w *watch, now, end time.Duration, note func(time.Duration, []action)) time.Duration {
	for stuck := 0; w.phase != over; {
		d := w.wake(now, second)
		if now+d > end {
			return end
		}
		if stuck++; d > 0 {
			stuck = 0
		} else if stuck > 10 {
			panic(fmt.Sprintf("at %s the watch does not let time pass: %+v", now, *w))
		}
		now += d
		note(now, w.step(now, event{}))
	}
	return now
}

// For any sequence of events: after a request to stop, the watch is over within the grace and the time for killing;
// no SIGKILL precedes the end of the grace; and SIGTERM comes first.
func TestWatchAlwaysEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWatch()
		grace := time.Duration(rapid.IntRange(0, 20).Draw(t, "grace")) * second
		stopped, killedAt := time.Duration(-1), time.Duration(-1)
		var now time.Duration
		var termed, mainEnded bool
		note := func(now time.Duration, do []action) {
			for _, a := range do {
				termed = termed || a == termGroup || a == termOthers
				if a == killAll && killedAt < 0 {
					killedAt = now
				}
			}
		}
		want := control{}
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			step := time.Duration(rapid.IntRange(0, 4000).Draw(t, "ms")) * time.Millisecond
			if now = advance(w, now, now+step, note); w.phase == over {
				break
			}
			var e event
			switch rapid.IntRange(0, 4).Draw(t, "event") {
			case 0:
				want.StopAt = now + time.Duration(rapid.IntRange(-5, 30).Draw(t, "limit"))*second
				e.control = &want
			case 1:
				want.Checkpoints++
				e.control = &want
			case 2:
				want.Stop = &grace
				e.control = &want
				if stopped < 0 {
					stopped = now
				}
			case 3:
				e.mainEnded, mainEnded = !mainEnded, true
			case 4:
				e.noCheckpoint = w.phase == checkpointing
			}
			note(now, w.step(now, e))
		}
		if stopped < 0 {
			return
		}
		advance(w, now, max(now, stopped+grace+w.pace.KillWait), note)
		if w.phase != over {
			t.Fatalf("stop asked for at %s with grace %s: not over: %+v", stopped, grace, *w)
		}
		if killedAt >= 0 && !termed {
			t.Fatal("SIGKILL without SIGTERM before it")
		}
		if w.cause == byStop && killedAt >= 0 && killedAt < stopped+grace {
			t.Fatalf("stop at %s, grace %s, SIGKILL already at %s", stopped, grace, killedAt)
		}
	})
}
