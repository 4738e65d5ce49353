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
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"trainopt/internal/browser"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
)

const testToken = "0123456789abcdef0123456789abcdef"

// site is a server over a state directory with runs.
type site struct {
	*httptest.Server
	t     *testing.T
	serve *Server
	state string
	ids   []string
}

func newSite(t *testing.T, runs int, change func(*Options)) *site {
	t.Helper()
	s := &site{t: t, state: t.TempDir()}
	s.ids = browser.Runs(t, s.state, runs)
	o := Options{StateDir: s.state, Token: testToken}
	if change != nil {
		change(&o)
	}
	s.serve = New(o)
	s.Server = httptest.NewUnstartedServer(s.serve.Handler())
	s.Config = s.serve.Server()
	s.Start()
	t.Cleanup(func() { s.serve.Close(); s.CloseClientConnections(); s.Close() })
	return s
}

// ask sends a request; headers are alternating names and values.
func (s *site) ask(method, path, body string, headers ...string) (int, string, http.Header) {
	s.t.Helper()
	r, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	data, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(data), answer.Header
}

func TestPages(t *testing.T) {
	s := newSite(t, 12, nil)
	last := s.ids[11]
	for path, want := range map[string][]string{
		"/":                                {"12 of 12 runs", last, "Compare selected", "<caption", "aria-sort=\"descending\""},
		"/?q=bert":                         {"3 of 12 runs"},
		"/?state=failed&size=25":           {"4 of 12 runs"},
		"/?q=zebra":                        {"No run matches"},
		"/?sort=cost&dir=up":               {s.ids[0]},
		"/runs/" + last:                    {"Preference and Pareto front", "Output of the job", "epoch 2 of 40", "data-chart=\"finish\"", "<noscript>"},
		"/compare?run=" + last:             {"Results", "parallel axes"},
		"/compare":                         {"Select runs in the list"},
		"/compare?run=none":                {"There is no readable run none"},
		"/waste":                           {"By cause", "failed runs", "Right-sizing", "--cpus"},
		"/results":                         {"No folder of results was named"},
		"/login":                           {"type=\"password\""},
		"/runs/" + last + "/report":        {"<!DOCTYPE html>", "Decisions"},
		"/runs/" + last + "/chart/x.svg":   nil,
		"/runs/" + last + "/output/stdout": {"epoch 1 of 40"},
		"/api":                             {"/api/runs"},
	} {
		code, body, header := s.ask("GET", path, "")
		if want == nil {
			if code != 404 {
				t.Errorf("%s: %d, want 404", path, code)
			}
			continue
		}
		if code != 200 {
			t.Errorf("%s: %d\n%s", path, code, body)
		}
		for _, w := range want {
			if !strings.Contains(body, w) {
				t.Errorf("%s lacks %q", path, w)
			}
		}
		if strings.Contains(body, "NaN") || strings.Contains(body, "ZgotmplZ") {
			t.Errorf("%s contains an unformatted value", path)
		}
		if csp := header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: security headers %v", path, header)
		}
		if strings.Contains(body, "<script>") || strings.Contains(body, " onclick=") || !strings.HasSuffix(path, "report") && strings.Contains(body, " style=") {
			t.Errorf("%s contains inline script or style", path)
		}
	}
}

// TestChartWithoutScripts checks that every chart with data has a picture for pages without scripts.
func TestChartWithoutScripts(t *testing.T) {
	s := newSite(t, 1, nil)
	for _, name := range []string{"finish", "money", "utilisation", "memory", "throughput"} {
		code, body, header := s.ask("GET", "/runs/"+s.ids[0]+"/chart/"+name+".svg", "")
		if code != 200 || !strings.HasPrefix(body, "<?xml") || !strings.HasPrefix(header.Get("Content-Type"), "image/svg+xml") {
			t.Errorf("chart %s: %d %.80s", name, code, body)
		}
	}
}

func TestBadAddresses(t *testing.T) {
	s := newSite(t, 2, nil)
	for path, want := range map[string]int{
		"/nothing": 404, "/runs/none": 404, "/runs/%2e%2e": 404, "/runs/%2e%2e%2fserve.token": 404, "/runs/" + s.ids[0] + "/output/run.json": 404,
		"/runs/" + s.ids[0] + "/output/..%2frun.json": 404, "/?page=0": 400, "/?sort=colour": 400, "/?dir=sideways": 400, "/?size=99999": 400, "/?page=x": 400,
		"/compare?over=depth": 400, "/results/0/x.json": 404, "/results/-1/x": 404, "/static/x/page.js": 200, "/static/x/none.js": 404, "/cluster": 404, "/api/runs/none": 404,
		"/metrics": 404, "/compare?" + strings.Repeat("run=x&", 3) + "run=1&run=2&run=3&run=4&run=5&run=6&run=7&run=8": 400,
	} {
		if code, body, _ := s.ask("GET", path, ""); code != want {
			t.Errorf("%s: %d, want %d\n%.200s", path, code, want, body)
		}
	}
	if code, _, header := s.ask("DELETE", "/runs/"+s.ids[0], ""); code != http.StatusMethodNotAllowed || header.Get("Allow") == "" {
		t.Errorf("DELETE: %d, want 405", code)
	}
}

// TestHostileNames checks that names from scripts and users cannot add markup.
func TestHostileNames(t *testing.T) {
	s := newSite(t, 1, nil)
	dir := filepath.Join(journal.RunsDir(s.state), s.ids[0])
	rec, err := journal.ReadRecord(dir)
	if err != nil {
		t.Fatal(err)
	}
	const evil = `<img src=x onerror=alert(1)>"'`
	rec.Name, rec.Script.Path, rec.Plan.Reason = evil, evil, evil
	data, err := journal.Encode(rec)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"run.json": string(data), "job.stdout": evil + "\x1b]0;x\x07\x1b[31mred\n", "job.stderr": "</pre><script>alert(1)</script>\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := journal.WriteNote(dir, journal.Note{Tags: []string{evil}, Text: evil}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/runs/" + s.ids[0], "/compare?run=" + s.ids[0], "/waste", "/?q=" + url.QueryEscape(evil)} {
		_, body, _ := s.ask("GET", path, "")
		if strings.Contains(body, "<img src=x") || strings.Contains(body, "<script>alert") || strings.Contains(body, "\x1b") {
			t.Errorf("%s contains markup or terminal control of a name", path)
		}
	}
}

func TestAccess(t *testing.T) {
	var stopped atomic.Int32
	s := newSite(t, 1, func(o *Options) {
		o.Control.Stop = func(context.Context, string) (string, error) { stopped.Add(1); return "stopped", nil }
	})
	path := "/runs/" + s.ids[0] + "/stop"
	bearer := "Bearer " + testToken
	cookie := s.serve.guard.cookieName() + "=" + s.serve.guard.proof("cookie")
	for name, c := range map[string]struct {
		headers []string
		want    int
	}{
		"no token":                   {nil, 401},
		"wrong token":                {[]string{"Authorization", "Bearer wrong"}, 403},
		"empty token":                {[]string{"Authorization", "Bearer "}, 403},
		"other scheme":               {[]string{"Authorization", "Basic " + testToken}, 403},
		"token":                      {[]string{"Authorization", bearer}, 200},
		"token, own origin":          {[]string{"Authorization", bearer, "Origin", s.URL}, 200},
		"token, other origin":        {[]string{"Authorization", bearer, "Origin", "http://evil.example"}, 403},
		"cookie without origin":      {[]string{"Cookie", cookie}, 403},
		"cookie, own origin":         {[]string{"Cookie", cookie, "Origin", s.URL}, 303},
		"cookie, other origin":       {[]string{"Cookie", cookie, "Origin", "http://127.0.0.1:1"}, 403},
		"cookie, null origin":        {[]string{"Cookie", cookie, "Origin", "null"}, 403},
		"cookie, cross-site":         {[]string{"Cookie", cookie, "Origin", s.URL, "Sec-Fetch-Site", "cross-site"}, 403},
		"cookie with the bare token": {[]string{"Cookie", s.serve.guard.cookieName() + "=" + testToken, "Origin", s.URL}, 403},
		"token, other host":          {[]string{"Authorization", bearer, "Host", "evil.example"}, 403},
	} {
		before := stopped.Load()
		code, body, _ := s.ask("POST", path, "", c.headers...)
		if code != c.want {
			t.Errorf("%s: %d, want %d\n%.200s", name, code, c.want, body)
		}
		if ran := stopped.Load() != before; ran != (c.want < 400) {
			t.Errorf("%s: stopped %v", name, ran)
		}
	}
	for _, action := range []string{"stop", "resume", "prefer", "note"} {
		if code, _, _ := s.ask("POST", "/runs/"+s.ids[0]+"/"+action, ""); code != 401 {
			t.Errorf("%s without token: %d, want 401", action, code)
		}
		if code, _, _ := s.ask("GET", "/runs/"+s.ids[0]+"/"+action, "", "Authorization", bearer); code != 405 && code != 404 {
			t.Errorf("GET %s: %d, want 405", action, code)
		}
	}
}

func TestHosts(t *testing.T) {
	s := newSite(t, 0, func(o *Options) { o.Hosts = []string{"trainer.example"} })
	for host, want := range map[string]int{"localhost:8787": 200, "127.0.0.1": 200, "[::1]:8787": 200, "page.localhost": 200, "trainer.example:80": 200, "TRAINER.example": 200,
		"evil.example": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403} {
		if code, _, _ := s.ask("GET", "/", "", "Host", host); code != want {
			t.Errorf("host %s: %d, want %d", host, code, want)
		}
	}
}

func TestPrivate(t *testing.T) {
	s := newSite(t, 1, func(o *Options) { o.Private = true })
	for _, path := range []string{"/", "/runs/" + s.ids[0], "/api/runs", "/runs/" + s.ids[0] + "/events", "/waste", "/runs/" + s.ids[0] + "/report"} {
		if code, body, _ := s.ask("GET", path, ""); code != 401 || strings.Contains(body, s.ids[0]) {
			t.Errorf("%s without token: %d, want 401", path, code)
		}
	}
	if code, _, _ := s.ask("GET", "/login", ""); code != 200 {
		t.Errorf("login: %d", code)
	}
	code, _, header := s.ask("GET", "/login?token="+testToken, "")
	cookie, _, _ := strings.Cut(header.Get("Set-Cookie"), ";")
	if code != 303 || !strings.Contains(header.Get("Set-Cookie"), "HttpOnly") || !strings.Contains(header.Get("Set-Cookie"), "SameSite=Strict") || strings.Contains(cookie, testToken) {
		t.Fatalf("login: %d %q", code, header.Get("Set-Cookie"))
	}
	if code, _, _ := s.ask("GET", "/", "", "Cookie", cookie); code != 200 {
		t.Errorf("with cookie: %d", code)
	}
	if code, _, _ := s.ask("GET", "/login?token=wrong", ""); code != 403 {
		t.Errorf("wrong token: %d, want 403", code)
	}
}

func TestToken(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	first, err := Token(dir)
	if err != nil || len(first) != 64 {
		t.Fatalf("%q %v", first, err)
	}
	path := filepath.Join(dir, TokenFile)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v, want 0600", info, err)
	}
	if again, err := Token(dir); again != first || err != nil {
		t.Errorf("second call: %q %v", again, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Token(dir); err == nil || !strings.Contains(err.Error(), "0600") {
		t.Errorf("readable by others: %v", err)
	}
	if err := errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, []byte("short"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := Token(dir); err == nil {
		t.Error("a short token is accepted")
	}
	if err := errors.Join(os.Remove(path), os.Symlink("/dev/zero", path)); err != nil {
		t.Fatal(err)
	}
	if _, err := Token(dir); err == nil {
		t.Error("a link is accepted")
	}
}

func TestNote(t *testing.T) {
	s := newSite(t, 3, nil)
	bearer := []string{"Authorization", "Bearer " + testToken}
	path := "/runs/" + s.ids[1] + "/note"
	if code, body, _ := s.ask("POST", path, url.Values{"tags": {" best , ablation,best"}, "text": {"lr too high"}}.Encode(), bearer...); code != 200 || !strings.Contains(body, `["ablation","best"]`) {
		t.Fatalf("%d %s", code, body)
	}
	if _, body, _ := s.ask("GET", "/api/runs?tag=best", ""); !strings.Contains(body, `"found":1`) || !strings.Contains(body, "lr too high") {
		t.Errorf("by tag: %s", body)
	}
	if _, body, _ := s.ask("GET", "/?q=too+high", ""); !strings.Contains(body, "1 of 3 runs") {
		t.Error("the note is not searched")
	}
	if code, body, _ := s.ask("POST", path, `{"tags": ["x"], "text": "json"}`, append(bearer, "Content-Type", "application/json")...); code != 200 || !strings.Contains(body, `"note":"json"`) {
		t.Errorf("JSON: %d %s", code, body)
	}
	for name, body := range map[string]string{"long tag": "tags=" + strings.Repeat("x", 41), "long text": "text=" + strings.Repeat("x", 9000), "not JSON": "{"} {
		headers := bearer
		if name == "not JSON" {
			headers = append(headers, "Content-Type", "application/json")
		}
		if code, text, _ := s.ask("POST", path, body, headers...); code != 400 {
			t.Errorf("%s: %d %s, want 400", name, code, text)
		}
	}
}

func TestChanges(t *testing.T) {
	var asked plan.Preference
	s := newSite(t, 1, func(o *Options) {
		o.Control = Control{
			Stop:   func(context.Context, string) (string, error) { return "", errors.New("its agent still runs") },
			Resume: func(_ context.Context, dir string) (string, error) { return filepath.Base(dir) + ": resumed", nil },
			Prefer: func(_ context.Context, _ string, p plan.Preference) (*journal.Answer, error) {
				asked = p
				return &journal.Answer{Changed: true, Text: "the plan changes"}, nil
			},
		}
	})
	for name, c := range map[string]struct {
		action, body string
		code         int
		want         string
	}{
		"stop fails":     {"stop", "", 409, "still runs"},
		"resume":         {"resume", "", 200, "resumed"},
		"prefer":         {"prefer", "prefer=time", 200, `"changed":true`},
		"weights":        {"prefer", "time=2&cost=1&resource=1", 200, `"preference":"time=0.5`},
		"bad preference": {"prefer", "prefer=speed", 400, "preference"},
		"no preference":  {"prefer", "", 400, "preference"},
		"zero weights":   {"prefer", "time=0&cost=0&resource=0", 400, "sum"},
	} {
		code, body, _ := s.ask("POST", "/runs/"+s.ids[0]+"/"+c.action, c.body, "Authorization", "Bearer "+testToken)
		if code != c.code || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %s, want %d with %q", name, code, body, c.code, c.want)
		}
	}
	if asked == (plan.Preference{}) {
		t.Error("no preference arrived")
	}
	if code, _, _ := s.ask("POST", "/runs/none/stop", "", "Authorization", "Bearer "+testToken); code != 404 {
		t.Errorf("unknown run: %d, want 404", code)
	}
}

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

// TestThousandReaders checks that 1,000 readers of one run get every row, from one follower.
func TestThousandReaders(t *testing.T) {
	const readers = 1000
	s := newSite(t, 1, nil)
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
	for range 200 { // the follower ends with its last reader
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
	x := s.stream("", "")
	e := x.next(t, "output")
	s.append("job.stdout", strings.Repeat("a line of output\n", 20000))
	x.next(t, "output") // read by the follower
	late := s.stream("", e.id).next(t, "output")
	if !strings.Contains(late.data, `"reset":true`) || len(late.data) > 3*keepOutput {
		t.Errorf("%d bytes, reset %v", len(late.data), strings.Contains(late.data, `"reset":true`))
	}
}

// TestTenThousandRuns checks lists of 10,000 runs: complete, paged, filtered, and within 64 MiB.
func TestTenThousandRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 10,000 runs")
	}
	const n = 10_000
	s := newSite(t, n, nil)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	_, first, _ := s.ask("GET", "/api/runs", "")
	if !strings.Contains(first, s.ids[n-1]) {
		t.Errorf("the first page lacks the newest run: %.300s", first)
	}
	list := struct {
		Total, Read, Found, Pages int
		Runs                      []Summary
	}{}
	for deadline := time.Now().Add(2 * time.Minute); list.Read < n && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		_, body, _ := s.ask("GET", "/api/runs?q=bert&state=failed&sort=cost&size=100", "")
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Fatal(err)
		}
	}
	if list.Total != n || list.Read != n || list.Found != 833 || list.Pages != 9 || len(list.Runs) != 100 {
		t.Fatalf("%d runs, %d read, %d found on %d pages of %d", list.Total, list.Read, list.Found, list.Pages, len(list.Runs))
	}
	for i := 1; i < len(list.Runs); i++ {
		if list.Runs[i].CostUSD > list.Runs[i-1].CostUSD {
			t.Fatal("not sorted by cost")
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 64<<20 {
		t.Errorf("%d MiB for the index of %d runs, want less than 64", grown>>20, n)
	}
	seen := map[string]bool{}
	for page := 1; page <= 40; page++ {
		_, body, _ := s.ask("GET", fmt.Sprintf("/api/runs?size=250&page=%d", page), "")
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Fatal(err)
		}
		for _, r := range list.Runs {
			seen[r.ID] = true
		}
	}
	if len(seen) != n {
		t.Errorf("%d runs on 40 pages, want %d", len(seen), n)
	}
}

// TestIndexFollows checks that new, changed and removed runs appear in the list.
func TestIndexFollows(t *testing.T) {
	s := newSite(t, 3, nil)
	count := func(query string) string {
		_, body, _ := s.ask("GET", "/api/runs"+query, "")
		return body
	}
	if !strings.Contains(count(""), `"total":3`) {
		t.Fatal(count(""))
	}
	until := func(what, query, want string) {
		t.Helper()
		for range 200 {
			if strings.Contains(count(query), want) {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Errorf("%s: %s lacks %s", what, count(query), want)
	}
	if err := os.RemoveAll(filepath.Join(journal.RunsDir(s.state), s.ids[0])); err != nil {
		t.Fatal(err)
	}
	until("removed", "", `"total":2`)
	run, err := journal.Open(filepath.Join(journal.RunsDir(s.state), s.ids[2]))
	if err != nil {
		t.Fatal(err)
	}
	rec, err := journal.ReadRecord(run.Dir())
	if err != nil {
		t.Fatal(err)
	}
	rec.Name = "renamed"
	if err := run.WriteRecord(rec); err != nil {
		t.Fatal(err)
	}
	until("changed", "?q=renamed", `"found":1`)
	if err := os.Mkdir(filepath.Join(journal.RunsDir(s.state), "20990101-000000-new-000000"), 0o700); err != nil {
		t.Fatal(err)
	}
	until("new", "?q=never", `"found":1`)
	if err := os.WriteFile(filepath.Join(run.Dir(), journal.RecordFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = os.Chtimes(run.Dir(), time.Now(), time.Now()) // as a replaced file does
	until("damaged", "?state=unreadable", `"found":1`)
}

func TestResults(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"queue.json":  `{"schema":1,"engine":"queue","policy":"fcfs","jobs":[{"id":"1","submit_s":0,"start_s":5,"end_s":20},{"id":"2","submit_s":1,"start_s":6,"end_s":30}],"mean_wait_s":5,"energy_joules":null,"warnings":["<script>x"]}`,
		"both.json":   `{"schema":1,"engine":"rounds","title":"two policies","metrics":["mean_jct_s"],"rows":[{"policy":"a","metric":"mean_jct_s","mean":10,"lo":9,"hi":11,"n":3},{"policy":"b","metric":"mean_jct_s","mean":20,"lo":null,"hi":null,"n":3}]}`,
		"page.html":   "<!DOCTYPE html>\n<title>a result</title>",
		"secret.json": `{"password":"x"}`, "notes.txt": "no", "broken.json": `{"schema":1,"engine":"queue","jobs":[`, ".hidden.json": `{"schema":1,"engine":"queue"}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := newSite(t, 0, func(o *Options) { o.Results = []string{dir, filepath.Join(dir, "gone")} })
	_, list, _ := s.ask("GET", "/results", "")
	for _, want := range []string{"queue.json", "simulate queue", "compare rounds", "page.html", "no such file"} {
		if !strings.Contains(list, want) {
			t.Errorf("the list lacks %q", want)
		}
	}
	for _, not := range []string{"secret.json", "notes.txt", ".hidden"} {
		if strings.Contains(list, not) {
			t.Errorf("the list contains %q", not)
		}
	}
	for path, want := range map[string]string{"queue.json": "Wait", "both.json": "9 s to 11 s", "page.html": "a result"} {
		code, body, _ := s.ask("GET", "/results/0/"+path, "")
		if code != 200 || !strings.Contains(strings.ReplaceAll(body, "\u00a0", " "), want) || strings.Contains(body, "<script>x") {
			t.Errorf("%s: %d lacks %q\n%s", path, code, want, body)
		}
	}
	for path, want := range map[string]int{"secret.json": 404, "notes.txt": 404, "broken.json": 422, "..%2fx.json": 404, ".hidden.json": 404} {
		if code, _, _ := s.ask("GET", "/results/0/"+path, ""); code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
	}
}

func TestEmptyState(t *testing.T) {
	s := &site{t: t}
	s.serve = New(Options{StateDir: filepath.Join(t.TempDir(), "none"), Token: testToken})
	s.Server = httptest.NewServer(s.serve.Handler())
	defer s.Close()
	defer s.serve.Close()
	if code, body, _ := s.ask("GET", "/", ""); code != 200 || !strings.Contains(body, "No runs yet") {
		t.Errorf("%d %s", code, body)
	}
	if _, body, _ := s.ask("GET", "/api/runs", ""); !strings.Contains(body, `"runs":[]`) {
		t.Error(body)
	}
	if code, _, _ := s.ask("GET", "/waste", ""); code != 200 {
		t.Errorf("waste: %d", code)
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

func TestCluster(t *testing.T) {
	s := newSite(t, 1, nil)
	if code, _, _ := s.ask("GET", "/cluster", ""); code != 404 {
		t.Errorf("without a cluster: %d, want 404", code)
	}
	now := float64(time.Now().Unix())
	dir := filepath.Join(s.state, "cluster")
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "jobs", "1"), 0o700), os.MkdirAll(filepath.Join(dir, "jobs", "2"), 0o700)); err != nil {
		t.Fatal(err)
	}
	log := fmt.Sprintf(`{"v":1,"t":%g,"kind":"serve","policy":"srtf","engine":"local","devices":[{"name":"cpu","count":2}]}
{"v":1,"t":%g,"kind":"submit","job":1,"name":"<b>one"}
{"v":1,"t":%g,"kind":"start","job":1,"device":"cpu","where":[0,1],"do":"start"}
{"v":1,"t":%g,"kind":"left","job":1,"device":"cpu"}
{"v":1,"t":%g,"kind":"start","job":1,"device":"cpu","where":[1],"do":"resize"}
not json
{"v":1,"t":%g,"kind":"policy","policy":"sia"}
{"v":1,"t":`, now-100, now-90, now-80, now-50, now-40, now-10)
	for name, text := range map[string]string{"events.jsonl": log,
		"jobs/2/job.json": `{"schema":1,"id":2,"name":"two","state":"waiting","submitted":"2026-01-01T00:00:00Z"}`,
		"jobs/1/job.json": `{"schema":1,"id":1,"name":"<b>one","state":"running","device":"cpu","where":[1],"unit":"epoch","done":3,"total":10,"cost_usd":0.5,"wait_s":10,"run":"` + s.ids[0] + `","submitted":"2026-01-01T00:00:00Z","began":"2026-01-01T00:00:10Z","finish":["2026-01-01T00:01:00Z","2026-01-01T00:02:00Z","2026-01-01T00:03:00Z"]}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, body, _ := s.ask("GET", "/cluster", "")
	for _, want := range []string{"Policy sia", "engine local", "2 unreadable lines", "3 of 10 epochs", "/runs/" + s.ids[0], "resize on cpu 1", `class="bar lease`, "cpu 0", "&lt;b&gt;one", "10 s", "cluster report"} {
		if !strings.Contains(strings.ReplaceAll(body, "\u00a0", " "), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(body, "1 &lt;b&gt;one"); n != 7 { // in the jobs, in three leases, and in three changes
		t.Errorf("the job is named %d times, want 7", n)
	}
	if strings.Contains(body, "$0.00") || strings.Contains(body, "0 units") {
		t.Error("a job that has not run has a cost or progress")
	}
	if code != 200 || strings.Contains(body, "<b>one") || strings.Count(body, `class="bar lease`) != 3 {
		t.Errorf("%d with %d leases, want 3", code, strings.Count(body, `class="bar lease`))
	}
	leases, devices := leasesOf([]clusterEvent{{Kind: "start", Job: 1, Time: 5, Device: "a", Where: []int32{0}}, {Kind: "end", Job: 1, Time: 9}, {Kind: "start", Job: 2, Time: 9, Device: "a", Where: []int32{0}}}, 20)
	if len(devices) != 1 || len(leases) != 2 || leases[0].to != 9 || leases[1].from != 9 || leases[1].to != 20 {
		t.Errorf("%v on %v", leases, devices)
	}
	if _, list, _ := s.ask("GET", "/", ""); !strings.Contains(list, `href="/cluster"`) {
		t.Error("the navigation lacks the cluster")
	}
}
