package remote

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/engine"
	"trainopt/optimizer/launch"
)

// TestFence: the engine has lost a node and starts the next stretch elsewhere while the old job still lives. The old one
// ends before the new one begins: at no time two of them write.
func TestFence(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	command := shell(t, `echo $$ >> writers; echo begin $$ $(date +%s.%N) >> times; while :; do echo alive $$ $(date +%s.%N) >> times; sleep 0.05; done`)
	l := site(t, c)
	first := start(t, l, command)
	await(t, "the first start", first.Started())
	awaitFile(t, filepath.Join(command.Dir, "times"))
	second := start(t, l, command)
	await(t, "the end of the first", first.Done())
	await(t, "the second start", second.Started())
	if e := first.Exit(); e.Reason != launch.Lost || !strings.Contains(e.Detail, "another stretch") {
		t.Errorf("exit of the first %+v", e)
	}
	for until := time.Now().Add(testPatience); ; time.Sleep(20 * time.Millisecond) { // the second writes too
		if writers := strings.Fields(awaitFile(t, filepath.Join(command.Dir, "writers"))); len(writers) == 2 {
			break
		}
		if time.Now().After(until) {
			t.Fatal("the second job never wrote")
		}
	}
	time.Sleep(200 * time.Millisecond)
	second.Stop(context.Background(), 0)
	owner := ""
	changes := 0
	for line := range strings.Lines(awaitFile(t, filepath.Join(command.Dir, "times"))) {
		if pid := strings.Fields(line)[1]; pid != owner {
			owner = pid
			changes++
		}
	}
	if changes != 2 {
		t.Errorf("the writer changed %d times, want 2: each job writes in one piece", changes)
	}
}

// TestMoveWithoutLosingThePlace: the next place is obtained while the job runs; the job is asked to leave when it is held,
// and the next launch uses it.
func TestMoveWithoutLosingThePlace(t *testing.T) {
	t.Parallel()
	c, command := newCluster(t), shell(t, saver)
	l := site(t, c)
	first := start(t, l, command)
	await(t, "the start", first.Started())
	awaitFile(t, filepath.Join(command.Dir, "ready"))
	c.mu.Lock()
	c.hold = true
	c.mu.Unlock()
	p, err := l.Prepare(context.Background(), command)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Ready():
		t.Fatal("ready without a place")
	case <-first.Done():
		t.Fatal("the job left before the next place was held")
	case <-time.After(300 * time.Millisecond):
	}
	if h, err := l.Find(command.RunDir); err != nil || h.Stretch != 1 {
		t.Errorf("found %+v (%v): the prepared stretch is not the job", h, err)
	}
	c.run()
	await(t, "the place", p.Ready())
	if first.hasEnded() {
		t.Fatal("the job left before it was asked")
	}
	first.Checkpoint()
	await(t, "the end of the first", first.Done())
	os.Remove(filepath.Join(command.Dir, "ready"))
	second := start(t, l, command)
	if id := second.Handle().EngineID; id != "2" || c.next != 2 {
		t.Errorf("the second launch is job %q of %d", id, c.next)
	}
	await(t, "the second start", second.Started())
	awaitFile(t, filepath.Join(command.Dir, "ready"))
	second.Stop(context.Background(), time.Second)
}

// TestPreparedPlaceIsWithdrawn: a place that is not used is given back, held or not, also after the death of the agent.
func TestPreparedPlaceIsWithdrawn(t *testing.T) {
	for name, held := range map[string]bool{"held": true, "waiting": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, command := newCluster(t), shell(t, saver)
			l := site(t, c)
			first := start(t, l, command)
			await(t, "the start", first.Started())
			c.mu.Lock()
			c.hold = !held
			c.mu.Unlock()
			p, err := l.Prepare(context.Background(), command)
			if err != nil {
				t.Fatal(err)
			}
			if held {
				await(t, "the place", p.Ready())
			}
			other := site(t, c) // of the next agent
			h, err := other.Find(command.RunDir)
			if err != nil {
				t.Fatal(err)
			}
			j, err := other.Adopt(context.Background(), h)
			if err != nil || j.Handle().Stretch != 1 {
				t.Fatalf("adopted %+v (%v)", j, err)
			}
			defer j.Close()
			for until := time.Now().Add(testPatience); ; time.Sleep(20 * time.Millisecond) {
				c.mu.Lock()
				over := c.jobs["2"].state == engine.Ended
				c.mu.Unlock()
				if over {
					break
				}
				if time.Now().After(until) {
					t.Fatal("the place was not given back")
				}
			}
			if first.hasEnded() {
				t.Error("the job ended with it")
			}
		})
	}
}

// TestFencedBeforeItStarts: a place that is held when another stretch takes over ends without having started anything.
func TestFencedBeforeItStarts(t *testing.T) {
	t.Parallel()
	c, command := newCluster(t), shell(t, "echo $$ >> ran; sleep 1000")
	l := site(t, c)
	first := start(t, l, command)
	await(t, "the start", first.Started())
	p, err := l.Prepare(context.Background(), command)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the place", p.Ready())
	if err := writeJSON(command.RunDir, ownerFile, owner{Schema: fileSchema, Stretch: 3}); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the place", p.Done())
	await(t, "the end of the first", first.Done())
	if e := p.(*job).Exit(); e.Reason != launch.Lost || e.Ran != 0 {
		t.Errorf("exit %+v", e)
	}
	if ran := strings.Fields(awaitFile(t, filepath.Join(command.Dir, "ran"))); len(ran) != 1 {
		t.Errorf("%d jobs ran, want 1", len(ran))
	}
}
