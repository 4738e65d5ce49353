package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"trainopt/optimizer/notify"
	"trainopt/optimizer/run"
)

// mailbox receives the messages of a webhook.
type mailbox struct {
	*httptest.Server
	mu   sync.Mutex
	list []notify.Message
}

func newMailbox(t *testing.T) *mailbox {
	m := &mailbox{}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var one notify.Message
		if err := json.Unmarshal(body, &one); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		m.mu.Lock()
		m.list = append(m.list, one)
		m.mu.Unlock()
	}))
	t.Cleanup(m.Close)
	return m
}

// events returns the received events in order.
func (m *mailbox) events() (out []notify.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range m.list {
		out = append(out, one.Event)
	}
	return out
}

// TestNotifyOncePerRun: each event is sent once, also if another agent adopts the run, and no file or output contains the
// address of the webhook.
func TestNotifyOncePerRun(t *testing.T) {
	t.Parallel()
	w, box := newWorld(t), newMailbox(t)
	w.write("train.sh", "#!/bin/sh\necho epoch,total_epochs > $OPTIMIZER_LOG\nfor i in $(seq 12); do sleep 0.4; echo $i,12 >> $OPTIMIZER_LOG; done\nwhile [ ! -e go ]; do sleep 0.1; done\n")
	target := box.URL + "/HIDDEN-PATH"
	args := append(slices.Clone(secondly), "--train", "train.sh", "--planner", "static", "--max-memory", "0.0001", "--notify", target, "--notify-link", "http://page/{run}/x")
	agent := w.agent(args...)
	for deadline := time.Now().Add(patience); !slices.Contains(box.events(), notify.Missed); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no message about the limit")
		}
	}
	agent.Process.Kill()
	agent.Wait()
	w.write("go", "")
	code, out, errs := w.run(args...)
	if want := []notify.Event{notify.Planned, notify.Missed, notify.Ended}; code != run.CodeMissed || !slices.Equal(box.events(), want) {
		t.Fatalf("exit %d, events %v, want %v\n%s%s", code, box.events(), want, out, errs)
	}
	end := box.list[2]
	if end.Link != "http://page/"+end.RunID+"/x" || end.State != "done" || !strings.Contains(end.Text, "not every limit is met") || !strings.HasPrefix(end.Command, "optimize report ") {
		t.Errorf("%+v", end)
	}
	files := 0
	err := filepath.Walk(w.state(), func(path string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), "HIDDEN") {
			t.Errorf("%s contains the address", path)
		}
		return err
	})
	if err != nil || files < 5 || strings.Contains(out+errs, "HIDDEN") {
		t.Errorf("%d files read, %v; output: %s%s", files, err, out, errs)
	}
}

// TestNotifyFailure: a failed training, a missed limit, and a target that fails without changing the exit code.
func TestNotifyFailure(t *testing.T) {
	w, box := newWorld(t), newMailbox(t)
	t.Chdir(w.dir)
	w.write("train.sh", "#!/bin/sh\nsleep 3\nexit 7\n")
	code, _, errs := w.run("--train", "train.sh", "--quiet", "--notify", box.URL, "--notify", "exit 9", "--max-memory", "0.0001", "--cpus", "1:1")
	if want := []notify.Event{notify.Missed, notify.Failed, notify.Ended}; !slices.Equal(box.events(), want) || !strings.Contains(errs, "exit 9: exit status 9") {
		t.Errorf("exit %d, events %v, want %v\n%s", code, box.events(), want, errs)
	}
	w.environ = append(w.environ, "OPTIMIZE_MONITOR_NOTIFY=cat >> first\ncat  >> second")
	w.run("--train", "train.sh", "--quiet")
	for _, name := range []string{"first", "second"} {
		if data, err := os.ReadFile(name); err != nil || strings.Count(string(data), `"schema":1`) != 2 {
			t.Errorf("%s of the variable: %s, %v", name, data, err)
		}
	}
	for _, bad := range []string{"ftp://x", "mailto:me", ""} {
		if code, _, errs := w.run("--train", "train.sh", "--notify", bad); code != run.CodeUsage || !strings.Contains(errs, "--notify: ") {
			t.Errorf("%q: exit %d: %s", bad, code, errs)
		}
	}
}
