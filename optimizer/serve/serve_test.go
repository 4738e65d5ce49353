//go:build !browser

package serve

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
	s.ids = WriteRuns(t, s.state, runs)
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
		code, body, _ := s.ask("GET", path, "")
		if code != want {
			t.Errorf("%s: %d, want %d\n%.200s", path, code, want, body)
		}
		if menu := strings.Contains(body, `aria-label="Pages"`); menu != (code != 200 && !strings.HasPrefix(path, "/api")) {
			t.Errorf("%s: menu %v", path, menu)
		}
	}
	if code, _, header := s.ask("DELETE", "/runs/"+s.ids[0], ""); code != http.StatusMethodNotAllowed || header.Get("Allow") == "" {
		t.Errorf("DELETE: %d, want 405", code)
	}
	for path, want := range map[string]int{"/runs/" + s.ids[0] + "/stopp": 404, "/api/runs": 405} { // programs get JSON
		if code, body, _ := s.ask("POST", path, "x=1", "Authorization", "Bearer "+testToken); code != want || !strings.HasPrefix(body, `{"error":`) {
			t.Errorf("POST %s: %d %s, want %d as JSON", path, code, body, want)
		}
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
	data, err := rec.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"run.json": string(data), "job.stdout": evil + "\x1b]0;x\x07\x1b[31mred\n", "job.stderr": "</pre><script>alert(1)</script>\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := (journal.Note{Tags: []string{evil}, Text: evil}).Write(dir); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/runs/" + s.ids[0], "/compare?run=" + s.ids[0], "/waste", "/?q=" + url.QueryEscape(evil)} {
		_, body, _ := s.ask("GET", path, "")
		if strings.Contains(body, "<img src=x") || strings.Contains(body, "<script>alert") || strings.Contains(body, "\x1b") {
			t.Errorf("%s contains markup or terminal control of a name", path)
		}
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

// TestLateStopError checks that the next page of a run says why a stop failed that was answered before its end.
func TestLateStopError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := t.TempDir()
		id := WriteRuns(t, state, 1)[0]
		s := New(Options{StateDir: state, Token: testToken, Control: Control{Stop: func(context.Context, string) (string, error) {
			time.Sleep(2 * answerWithin)
			return "", errors.New("its job cannot be killed")
		}}})
		defer s.Close()
		ask := func(method, path string) *httptest.ResponseRecorder {
			r, w := httptest.NewRequest(method, path, nil), httptest.NewRecorder()
			r.Host = "localhost"
			r.Header.Set("Authorization", "Bearer "+testToken)
			s.Handler().ServeHTTP(w, r)
			return w
		}
		if w := ask("POST", "/runs/"+id+"/stop"); w.Code != http.StatusAccepted {
			t.Errorf("stop: %d %s", w.Code, w.Body)
		}
		time.Sleep(2 * answerWithin)
		synctest.Wait()
		if w := ask("GET", "/runs/"+id); !strings.Contains(w.Body.String(), "its job cannot be killed") {
			t.Error("the page lacks the error")
		}
	})
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
