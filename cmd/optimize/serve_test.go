package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/run"
)

// served is a page of a world.
type served struct {
	t   *testing.T
	URL string `json:"url"`
	Log string `json:"login_url"`
	own string // the token
}

// serve runs `optimize serve` in this process until the test ends.
func (w *world) serve(args ...string) *served {
	w.t.Helper()
	out, in := io.Pipe()
	signals := make(chan os.Signal, 1)
	var errs bytes.Buffer
	e := &cli.Env{Args: append([]string{"--state-dir", w.state(), "--json", "serve", "--listen", "127.0.0.1:0"}, args...), Stdin: strings.NewReader(""), Stdout: in, Stderr: &errs,
		Environ: append(w.environ, agentVariable+"=1"), Dir: w.dir, Self: []string{os.Args[0], keeperArg}, Clock: run.SystemClock{}, Width: func() int { return 0 },
		Listen: func() (<-chan os.Signal, func()) { return signals, func() {} }}
	ended := make(chan run.Code, 1)
	go func() {
		ended <- execute(e)
		in.Close()
	}()
	s := &served{t: w.t}
	if err := json.NewDecoder(out).Decode(s); err != nil {
		w.t.Fatalf("%v: exit %d\n%s", err, <-ended, errs.String())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	_, s.own, _ = strings.Cut(s.Log, "token=")
	w.t.Cleanup(func() {
		signals <- syscall.SIGINT
		if code := <-ended; code != run.CodeDone {
			w.t.Errorf("serve: exit %d after Ctrl-C, want 0\n%s", code, errs.String())
		}
	})
	return s
}

// post sends a change with the token.
func (s *served) post(path, body string) (int, map[string]any) {
	s.t.Helper()
	r, err := http.NewRequest("POST", strings.TrimSuffix(s.URL, "/")+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.own)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	var fields map[string]any
	if err := json.NewDecoder(answer.Body).Decode(&fields); err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, fields
}

// TestServeStopsAndResumes stops and resumes a run from the page: the job continues from its checkpoint, under an agent
// that the page has started.
func TestServeStopsAndResumes(t *testing.T) {
	t.Parallel()
	needPython(t)
	w := newWorld(t)
	agent := w.agent("--train", w.write("count.py", counting), "--epochs", "2000", "--cpus", "1", "--quiet")
	dir := w.latest("trained for five epochs", func(dir string, _ *journal.Record) bool { return rows(dir) >= 5 })
	id := filepath.Base(dir)
	s := w.serve()
	if code, answer := s.post("/runs/"+id+"/resume", ""); code != http.StatusConflict || !strings.Contains(answer["error"].(string), "an agent is working on it") {
		t.Errorf("resume of a running run: %d %v", code, answer)
	}
	if code, answer := s.post("/runs/"+id+"/prefer", "prefer=time"); code != http.StatusOK || answer["changed"] != false || answer["text"] == "" {
		t.Errorf("prefer on one CPU: %d %v", code, answer)
	}
	if code, answer := s.post("/runs/"+id+"/stop", ""); code >= 300 {
		t.Fatalf("stop: %d %v", code, answer)
	}
	_ = agent.Wait()
	before := rows(dir)
	if rec, err := journal.ReadRecord(dir); err != nil || rec.State != journal.Stopped || rec.Exit.Reason != "user" {
		t.Fatalf("after stop: %v %+v", err, rec)
	}
	if code, answer := s.post("/runs/"+id+"/resume", ""); code != http.StatusOK {
		t.Fatalf("resume: %d %v", code, answer)
	}
	w.latest("continued", func(dir string, rec *journal.Record) bool {
		return rows(dir) > before+2 && rec.State == journal.Running && journal.HolderOf(dir) != nil
	})
	if code, stdout, errs := w.run("runs", "prefer", id, "cost"); code != run.CodeDone || stdout == "" {
		t.Errorf("runs prefer: exit %d %s\n%s", code, stdout, errs)
	}
	if code, answer := s.post("/runs/"+id+"/stop", ""); code >= 300 {
		t.Fatalf("stop of the resumed run: %d %v", code, answer)
	}
	w.latest("stopped", func(dir string, rec *journal.Record) bool { return rec.State == journal.Stopped })
	if code, answer := s.post("/runs/"+id+"/prefer", "prefer=time"); code != http.StatusConflict {
		t.Errorf("prefer on a stopped run: %d %v", code, answer)
	}
}

// TestServeResumesInTheSameEnvironment: a run is resumed from the page only if the server has the variables of its first start.
func TestServeResumesInTheSameEnvironment(t *testing.T) {
	t.Parallel()
	needPython(t)
	w := newWorld(t)
	plain := slices.Clip(w.environ)
	w.environ = append(plain, "HF_HOME=/HIDDEN/hub", "LD_LIBRARY_PATH=/HIDDEN/lib", "TRAIN_KEY=HIDDEN", "SSH_TTY=/dev/pts/1", "TERM=xterm")
	full := w.environ
	agent := w.agent("--train", w.write("count.py", counting), "--epochs", "2000", "--cpus", "1", "--quiet")
	dir := w.latest("trained for five epochs", func(dir string, _ *journal.Record) bool { return rows(dir) >= 5 })
	id := filepath.Base(dir)
	if code, _, errs := w.run("runs", "stop", id); code != run.CodeDone {
		t.Fatalf("stop: exit %d\n%s", code, errs)
	}
	_ = agent.Wait()
	path := filepath.Join(dir, "environment.json")
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	if data, err := os.ReadFile(path); err != nil || strings.Contains(string(data), "HIDDEN") || !strings.Contains(string(data), `"TRAIN_KEY"`) || strings.Contains(string(data), "SSH_TTY") {
		t.Errorf("%v: %s", err, data)
	}
	w.environ = append(plain, "HF_HOME=/elsewhere", "TRAIN_KEY=HIDDEN", "ADDED=1", "TERM=dumb")
	want := "the environment of the server differs from the training's in HF_HOME, LD_LIBRARY_PATH: resume in the shell of the training: optimize runs resume " + id
	if code, answer := w.serve().post("/runs/"+id+"/resume", ""); code != http.StatusConflict || !strings.Contains(fmt.Sprint(answer["error"]), want) {
		t.Errorf("resume in another environment: %d %v", code, answer)
	}
	if rec, err := journal.ReadRecord(dir); err != nil || rec.State != journal.Stopped {
		t.Errorf("after the refusal: %v %+v", err, rec)
	}
	w.environ = full
	s := w.serve()
	if code, answer := s.post("/runs/"+id+"/resume", ""); code != http.StatusOK {
		t.Fatalf("resume: %d %v", code, answer)
	}
	if code, answer := s.post("/runs/"+id+"/stop", ""); code >= 300 {
		t.Fatalf("stop of the resumed run: %d %v", code, answer)
	}
	w.latest("stopped", func(dir string, rec *journal.Record) bool { return rec.State == journal.Stopped })
}

// TestTrainServe follows a training on the page that its own agent serves.
func TestTrainServe(t *testing.T) {
	t.Parallel()
	needPython(t)
	w := newWorld(t)
	cmd := exec.Command(os.Args[0], "--train", w.write("count.py", counting), "--epochs", "400", "--cpus", "1", "--serve=127.0.0.1:0", "--notify", "cat >> notes")
	cmd.Dir, cmd.Env = w.dir, append(append([]string{}, w.environ...), agentVariable+"=1")
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewReader(errs)
	first, err := lines.ReadString('\n')
	page, _, ok := strings.Cut(strings.TrimPrefix(first, "page: "), " ")
	if err != nil || !ok {
		t.Fatalf("%v: first line %q", err, first)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	dir := w.latest("started", func(dir string, rec *journal.Record) bool { return rows(dir) >= 2 })
	answer, err := http.Get(page + "api/runs/" + filepath.Base(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var run struct{ Summary struct{ State string } }
	if err := json.NewDecoder(answer.Body).Decode(&run); err != nil || run.Summary.State != "running" {
		t.Errorf("%v: state %q, want running", err, run.Summary.State)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if rec, err := journal.ReadRecord(dir); err != nil || rec.State != journal.Stopped {
		t.Errorf("%v %+v", err, rec)
	}
	if notes, err := os.ReadFile(filepath.Join(w.dir, "notes")); err != nil || !strings.Contains(string(notes), `"link":"`+page+"runs/"+filepath.Base(dir)+`"`) {
		t.Errorf("messages without the address of the run on the page %s: %s (%v)", page, notes, err)
	}
}

func TestServeRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	taken := w.serve()
	address := strings.TrimSuffix(strings.TrimPrefix(taken.URL, "http://"), "/")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"other machines": {[]string{"serve", "--listen", "0.0.0.0:0"}, "--private"},
		"all interfaces": {[]string{"serve", "--listen", ":0"}, "--private"},
		"no port":        {[]string{"serve", "--listen", "127.0.0.1:many"}, "port \"many\""},
		"in use":         {[]string{"serve", "--listen", address}, "in use"},
		"no folder":      {[]string{"serve", "--results", "nowhere"}, "not a folder"},
		"argument":       {[]string{"serve", "extra"}, "extra"},
		"train":          {[]string{"train", "--serve=0.0.0.0:1", "--", "true"}, "--serve 0.0.0.0:1"},
	} {
		if code, stdout, errs := w.run(c.args...); code != run.CodeUsage || stdout != "" || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, want 2 with %q\n%s%s", name, code, c.want, stdout, errs)
		}
	}
	if err := os.Chmod(filepath.Join(w.state(), "serve.token"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := w.run("serve", "--listen", "127.0.0.1:0"); code != run.CodeOurs || !strings.Contains(errs, "0600") {
		t.Errorf("token of others: exit %d\n%s", code, errs)
	}
	if code, _, errs := w.run("runs", "prefer", "latest", "speed"); code != run.CodeUsage || !strings.Contains(errs, "want time, cost") {
		t.Errorf("preference: exit %d\n%s", code, errs)
	}
}

// TestPrivatePage checks that --private closes reading, and that the printed link opens it.
func TestPrivatePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.serve("--private")
	client := http.Client{Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	get := func(url string, cookie string) (int, string) {
		r, _ := http.NewRequest("GET", url, nil)
		r.Header.Set("Cookie", cookie)
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		set, _, _ := strings.Cut(answer.Header.Get("Set-Cookie"), ";")
		return answer.StatusCode, set
	}
	if code, _ := get(s.URL, ""); code != 401 {
		t.Errorf("without token: %d, want 401", code)
	}
	code, cookie := get(s.Log, "")
	if code != 303 || cookie == "" {
		t.Fatalf("log in: %d %q", code, cookie)
	}
	if code, _ := get(s.URL, cookie); code != 200 {
		t.Errorf("with the cookie: %d, want 200", code)
	}
}
