package remote

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/launch"
)

// TestAdopt: another agent follows the job, running or ended, also if the id of the job was never saved.
func TestAdopt(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	command := shell(t, `while [ ! -e go ]; do sleep 0.05; done; exit 4`)
	l := site(t, c)
	j := start(t, l, command)
	await(t, "the start", j.Started())
	j.Close()
	var all stretches
	readJSON(command.RunDir, stretchesFile, &all)
	all.List[0].ID = ""
	writeJSON(command.RunDir, stretchesFile, all)
	h, err := l.Find(command.RunDir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := l.Adopt(context.Background(), h)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the start", again.(launch.Queued).Started())
	if id := again.Handle().EngineID; id != "1" {
		t.Errorf("id %q", id)
	}
	again.Close()
	os.WriteFile(filepath.Join(command.Dir, "go"), []byte("1"), 0o600)
	<-c.job("1").over
	late, err := l.Adopt(context.Background(), h)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the end", late.Done())
	if e := late.Exit(); e.Code != 4 {
		t.Errorf("exit %+v", e)
	}
}

// TestLimitWithoutAgent: the time limit ends the job when its agent is dead.
func TestLimitWithoutAgent(t *testing.T) {
	for name, set := range map[string]func(*launch.Command){
		"after a time":   func(c *launch.Command) { c.StopAfter = time.Second },
		"by a deadline":  func(c *launch.Command) { c.StopBy = time.Now().Add(time.Second) },
		"moved":          func(c *launch.Command) { c.StopAfter = time.Hour },
		"both, deadline": func(c *launch.Command) { c.StopAfter, c.StopBy = time.Hour, time.Now().Add(time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, command := newCluster(t), shell(t, saver)
			set(&command)
			j := start(t, site(t, c), command)
			if name == "moved" {
				await(t, "the start", j.Started())
				awaitFile(t, filepath.Join(command.Dir, "ready"))
				if err := j.SetStopAfter(time.Second); err != nil {
					t.Fatal(err)
				}
			}
			j.Close()
			await(t, "the end of the batch job", c.job("1").over)
			if name == "moved" { // the limits of the others may be reached before the job can save
				awaitFile(t, filepath.Join(command.Dir, "saved"))
			}
		})
	}
}

// TestRecordOfManyStretches: concurrent changes lose no stretch of the record.
func TestRecordOfManyStretches(t *testing.T) {
	t.Parallel()
	c, command := newCluster(t), shell(t, "true")
	c.hold = true
	l := site(t, c)
	if err := os.MkdirAll(command.RunDir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.clear)
	var places []launch.Preparation
	for range 8 {
		p, err := l.Prepare(context.Background(), command)
		if err != nil {
			t.Fatal(err)
		}
		p.Withdraw()
		l.takePrepared(command.RunDir, launch.Command{})
		places = append(places, p)
	}
	for _, p := range places {
		await(t, "the end of a place", p.Done())
	}
	ctx, cancel := context.WithTimeout(context.Background(), testPatience)
	defer cancel()
	l.Settle(ctx)
	list, err := Stretches(command.RunDir)
	if err != nil || len(list) != 8 {
		t.Fatalf("%d stretches (%v), want 8", len(list), err)
	}
	for i, s := range list {
		if s.N != i+1 || s.ID == "" || s.Ended.IsZero() {
			t.Errorf("stretch %d: %+v", i+1, s)
		}
	}
}

// TestAdoptEnded: an agent that adopts a job that has ended knows it at once, so that the outage is not counted.
func TestAdoptEnded(t *testing.T) {
	t.Parallel()
	c, command := newCluster(t), shell(t, "exit 3")
	l := site(t, c)
	j := start(t, l, command)
	await(t, "the end", j.Done())
	again, err := site(t, c).Adopt(context.Background(), j.Handle())
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-again.Done():
	default:
		t.Error("an ended job was adopted as a running one")
	}
}

// TestAdoptEarlierVersion checks that a job whose files are those of an earlier version is refused while it may run, and is
// recorded as ended afterwards.
func TestAdoptEarlierVersion(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.hold = true
	command := shell(t, "exec sleep 1000")
	l := site(t, c)
	first := start(t, l, command)
	h := first.Handle()
	first.Close()
	if err := os.RemoveAll(launch.StretchDir(command.RunDir, 1)); err != nil {
		t.Fatal(err)
	}
	l = site(t, c)
	if _, err := l.Adopt(context.Background(), h); err == nil || !strings.Contains(err.Error(), "cancel cluster job 1, then resume") {
		t.Errorf("adopted a job of an earlier version: %v", err)
	}
	if err := c.Cancel(context.Background(), "1"); err != nil {
		t.Fatal(err)
	}
	j, err := l.Adopt(context.Background(), h)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the end", j.Done())
	if e := j.Exit(); e.Reason != launch.Cancelled {
		t.Errorf("exit %+v, want cancelled", e)
	}
}
