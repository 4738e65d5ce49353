//go:build !browser

package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"trainopt/optimizer/journal"
)

// stream reads the events of a run.
type stream struct {
	body io.ReadCloser
	in   *bufio.Reader
}

type event struct{ id, name, data string }

func (s *site) stream(query, last string) *stream {
	s.t.Helper()
	r, _ := http.NewRequest("GET", s.URL+"/runs/"+s.ids[len(s.ids)-1]+"/events"+query, nil)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	if answer.StatusCode != 200 || !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
		s.t.Fatalf("events: %d %v", answer.StatusCode, answer.Header)
	}
	s.t.Cleanup(func() { answer.Body.Close() })
	return &stream{answer.Body, bufio.NewReader(answer.Body)}
}

// next returns the next event of a kind.
func (x *stream) next(t *testing.T, name string) event {
	t.Helper()
	var e event
	for {
		line, err := x.in.ReadString('\n')
		if err != nil {
			t.Fatalf("wait for %s: %v", name, err)
		}
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch key {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "":
			if e.name == name {
				return e
			}
			e = event{}
		}
	}
}

// hold holds the last run, as its agent does, so that its stream continues.
func (s *site) hold() (unlock func()) { return HoldRun(s.t, s.state, s.ids[len(s.ids)-1]) }

func (s *site) append(file, text string) {
	s.t.Helper()
	f, err := os.OpenFile(filepath.Join(journal.RunsDir(s.state), s.ids[len(s.ids)-1], file), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

func sampleRow(at int) string { return fmt.Sprintf("%d,2,4,100,1,0.5,,,,,%d,7\n", at, at) }

func rowsIn(t *testing.T, e event) (times []float64, reset bool) {
	t.Helper()
	var data struct {
		Reset bool
		Rows  [][]*float64
	}
	if err := json.Unmarshal([]byte(e.data), &data); err != nil {
		t.Fatalf("%v in %s", err, e.data)
	}
	for _, r := range data.Rows {
		times = append(times, *r[0])
	}
	return times, data.Reset
}

// TestEventsResume checks that a reader continues exactly after its last event, across a reconnection and another server,
// and gets everything again when the file was replaced.
func TestEventsResume(t *testing.T) {
	s := newSite(t, 1, nil)
	s.hold()
	_, body, _ := s.ask("GET", "/api/runs/"+s.ids[0]+"/samples", "")
	var all series
	if err := json.Unmarshal([]byte(body), &all); err != nil || len(all.Columns["time_s"]) != 120 {
		t.Fatalf("%v: %d rows", err, len(all.Columns["time_s"]))
	}
	x := s.stream("?after="+all.After, "")
	if e := x.next(t, "state"); !strings.Contains(e.data, `"schema":1`) || !strings.Contains(e.data, "Pareto front") {
		t.Errorf("state %.200s", e.data)
	}
	s.append("samples.csv", sampleRow(200)+sampleRow(201)+"202,2,4") // the last row is torn
	e := x.next(t, "samples")
	if times, reset := rowsIn(t, e); reset || len(times) != 2 || times[0] != 200 || times[1] != 201 {
		t.Errorf("after the series: %v, reset %v", times, reset)
	}
	x.body.Close()
	s.append("samples.csv", ",100,1,0.5,,,,,202,7\n"+sampleRow(203))
	other := New(Options{StateDir: s.state, Token: testToken})
	defer other.Close()
	s.Config.Handler = other.Handler()
	x = s.stream("", e.id)
	if times, reset := rowsIn(t, x.next(t, "samples")); reset || len(times) != 2 || times[0] != 202 || times[1] != 203 {
		t.Errorf("after the reconnection: %v, reset %v", times, reset)
	}
	path := filepath.Join(journal.RunsDir(s.state), s.ids[0], "samples.csv")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(data), "\n")
	if err := errors.Join(os.WriteFile(path+".new", []byte(head+"\n"+sampleRow(0)+sampleRow(203)), 0o600), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
	if times, reset := rowsIn(t, x.next(t, "samples")); !reset || len(times) != 2 {
		t.Errorf("after the replacement: %v, reset %v", times, reset)
	}
	for _, id := range []string{"nonsense", "---", "zz.-1-x", strings.Repeat("9", 400), "0.0-0.0-0.0"} {
		if times, reset := rowsIn(t, s.stream("", id).next(t, "samples")); !reset || len(times) != 2 {
			t.Errorf("id %q: %v, reset %v", id, times, reset)
		}
	}
}

func TestEventsOutput(t *testing.T) {
	s := newSite(t, 1, nil)
	s.hold()
	x := s.stream("", "")
	if e := x.next(t, "output"); !strings.Contains(e.data, "epoch 2 of 40") || !strings.Contains(e.data, `"reset":true`) {
		t.Errorf("first output %s", e.data)
	}
	s.append("job.stdout", "10 %\r20 %\r\x1b[32m30 %\x1b[0m\ndone <b>\n")
	var got struct {
		Text  string
		Reset bool
	}
	if err := json.Unmarshal([]byte(x.next(t, "output").data), &got); err != nil || got.Text != "30 %\ndone <b>\n" || got.Reset {
		t.Errorf("%q, reset %v (%v)", got.Text, got.Reset, err)
	}
}

// TestEventsEnd checks that the stream of a run that is over ends after everything that the run wrote, also for a reader that
// connects again, and that a run with an agent is followed until that has left.
func TestEventsEnd(t *testing.T) {
	s := newSite(t, 1, nil)
	rest := func(x *stream) string {
		data, err := io.ReadAll(x.in)
		if err != nil {
			t.Errorf("the stream does not end: %v", err)
		}
		return string(data)
	}
	x := s.stream("", "")
	e := x.next(t, "end")
	if after := rest(x); after != "" {
		t.Errorf("after the end: %q", after)
	}
	if text := rest(s.stream("?after="+e.id, "")); !strings.Contains(text, "event: state") || !strings.Contains(text, "event: end") || strings.Contains(text, "event: samples") {
		t.Errorf("again: %s", text)
	}
	leave := s.hold()
	x = s.stream("", e.id)
	x.next(t, "state")
	s.append("job.stdout", "resumed\n")
	if e := x.next(t, "output"); !strings.Contains(e.data, "resumed") {
		t.Errorf("with an agent: %s", e.data)
	}
	s.append("job.stdout", "the last line\n")
	leave()
	if text := rest(x); !strings.Contains(text, "the last line") || !strings.HasSuffix(text, "event: end\ndata: {\"schema\":1}\n\n") {
		t.Errorf("when the agent has left: %s", text)
	}
}

// TestThousandReaders checks that 1,000 readers of one run get every row, from one follower.
func TestThousandReaders(t *testing.T) {
	const readers = 1000
	s := newSite(t, 1, nil)
	s.hold()
	transport := &http.Transport{MaxConnsPerHost: 0}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	_, body, _ := s.ask("GET", "/api/runs/"+s.ids[0]+"/samples", "")
	var all series
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		t.Fatal(err)
	}
	var ready, done sync.WaitGroup
	var rows atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ready.Add(readers)
	for range readers {
		done.Go(func() {
			r, _ := http.NewRequestWithContext(ctx, "GET", s.URL+"/runs/"+s.ids[0]+"/events?after="+all.After, nil)
			answer, err := client.Do(r)
			ready.Done()
			if err != nil {
				t.Errorf("reader: %v", err)
				return
			}
			defer answer.Body.Close()
			in, seen := bufio.NewScanner(answer.Body), 0
			in.Buffer(nil, 1<<20)
			for seen < 3 && in.Scan() {
				if data, ok := strings.CutPrefix(in.Text(), "data: "); ok && strings.Contains(data, `"rows"`) {
					times, reset := rowsIn(t, event{data: data})
					if reset {
						t.Errorf("a reader was reset")
					}
					for _, at := range times {
						if at != float64(500+seen) {
							t.Errorf("row %g, want %d", at, 500+seen)
						}
						seen++
					}
				}
			}
			rows.Add(int64(seen))
		})
	}
	ready.Wait()
	s.serve.hub.mu.Lock()
	followers := len(s.serve.hub.followers)
	s.serve.hub.mu.Unlock()
	if followers != 1 {
		t.Errorf("%d followers for one run, want 1", followers)
	}
	for i := range 3 {
		s.append("samples.csv", sampleRow(500+i))
		time.Sleep(300 * time.Millisecond)
	}
	done.Wait()
	if n := rows.Load(); n != 3*readers {
		t.Errorf("%d rows arrived, want %d", n, 3*readers)
	}
	for range 2400 { // the follower ends with its last reader
		s.serve.hub.mu.Lock()
		left := len(s.serve.hub.followers)
		s.serve.hub.mu.Unlock()
		if left == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("the follower outlives its readers")
}

// TestStalledReader checks that a reader that reads nothing neither delays others nor keeps memory, and is given the
// newest state when it reads again.
func TestStalledReader(t *testing.T) {
	s := newSite(t, 1, nil)
	s.hold()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.(*net.TCPConn).SetReadBuffer(4096)
	fmt.Fprintf(conn, "GET /runs/%s/events HTTP/1.1\r\nHost: localhost\r\n\r\n", s.ids[0])
	x := s.stream("", "")
	x.next(t, "samples")
	line := strings.Repeat("x", 1000) + "\n"
	for i := range 5 {
		s.append("job.stdout", strings.Repeat(line, 2000)) // far more than the buffers of a connection
		s.append("samples.csv", sampleRow(900+i))
		if times, _ := rowsIn(t, x.next(t, "samples")); len(times) == 0 {
			t.Fatal("the other reader gets nothing")
		}
	}
	s.serve.hub.mu.Lock()
	f := s.serve.hub.followers[s.ids[0]]
	s.serve.hub.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stdout.size > 2*keepOutput || len(f.frames) > 8 {
		t.Errorf("%d bytes of output and %d frames are kept", f.stdout.size, len(f.frames))
	}
}

// TestFarBehind checks that a reader that missed more than is kept gets the newest part, marked as a replacement.
func TestFarBehind(t *testing.T) {
	s := newSite(t, 1, nil)
	s.hold()
	x := s.stream("", "")
	e := x.next(t, "output")
	s.append("job.stdout", strings.Repeat("a line of output\n", 20000))
	x.next(t, "output") // read by the follower
	late := s.stream("", e.id).next(t, "output")
	if !strings.Contains(late.data, `"reset":true`) || len(late.data) > 3*keepOutput {
		t.Errorf("%d bytes, reset %v", len(late.data), strings.Contains(late.data, `"reset":true`))
	}
}

func FuzzCursor(f *testing.F) {
	f.Add("65ug1.1v5-0.0-65unl.f")
	f.Add("-")
	f.Fuzz(func(t *testing.T, id string) {
		c := parseCursor(id)
		if again := parseCursor(c.String()); again != c {
			t.Errorf("%q: %v, then %v", id, c, again)
		}
		if c.samples.offset < 0 || strings.ContainsAny(c.String(), "\r\n") {
			t.Errorf("%q: %v", id, c)
		}
	})
}

func FuzzPlainOutput(f *testing.F) {
	f.Add([]byte("a\x1b[31mb\x1b[0m\r\nc\rd\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		out := plainOutput(append([]byte{}, data...))
		if len(out) > len(data)+1 || strings.ContainsAny(string(out), "\x1b\x00\r") {
			t.Errorf("%q became %q", data, out)
		}
	})
}
