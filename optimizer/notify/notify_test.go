package notify

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestParse: the kind of a target and its text form, which contains no secret.
func TestParse(t *testing.T) {
	for text, c := range map[string]struct {
		way      way
		shown    string
		withheld bool // after it was stored
	}{
		"https://example.com/hook/SECRET?t=SECRET":              {byWebhook, "https://example.com/[redacted]", true},
		"http://user:SECRET@127.0.0.1:80":                       {byWebhook, "http://127.0.0.1:80/[redacted]", true},
		"curl -d @- 'https://ntfy.sh/SECRET'":                   {byCommand, "curl -d @- 'https://ntfy.sh/[redacted]'", true},
		"http://127.0.0.1:80":                                   {byWebhook, "http://127.0.0.1:80", false},
		"https://hooks.slack.com/services/T0/B0/SECRET":         {bySlack, "https://hooks.slack.com/[redacted]", true},
		"slack+https://chat.example.com/hooks/SECRET":           {bySlack, "slack+https://chat.example.com/[redacted]", true},
		"mailto:me@example.com":                                 {byMail, "mailto:me@example.com", false},
		"jq  .text >> file":                                     {byCommand, "jq  .text >> file", false},
		"curl -H 'Authorization: Bearer SECRETSECRET' http://x": {byCommand, "curl -H 'Authorization: Bearer [redacted]' http://x", true},
		"API_TOKEN=SECRET ./tell.sh":                            {byCommand, "API_TOKEN=[redacted] ./tell.sh", true},
	} {
		target, err := Parse(text)
		if err != nil || target.way != c.way {
			t.Errorf("%s: %s, %v; want %s", text, target.way, err, c.way)
			continue
		}
		stored, err := json.Marshal(target)
		if err != nil || target.String() != c.shown || strings.Contains(string(stored), "SECRET") {
			t.Errorf("%s: shown as %s, stored as %s; want %s", text, target, stored, c.shown)
		}
		var again Target
		if err := json.Unmarshal(stored, &again); err != nil || again.withheld != c.withheld || !c.withheld && again != target {
			t.Errorf("%s: read again as %+v, %v", text, again, err)
		}
	}
	for _, text := range []string{"", "  ", "ftp://x/y", "http://", "mailto:", "mailto:a@b, c@d", "mailto:a@b\nBcc: c@d", "https://exa mple/SECRET", "x\x00y"} {
		if target, err := Parse(text); err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%q: %+v, %v; want an error", text, target, err)
		}
	}
}

// inbox is an HTTP server that stores what it receives.
type inbox struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
}

func newInbox(t *testing.T, answer func(n int) int) *inbox {
	in := &inbox{}
	in.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		in.mu.Lock()
		in.bodies = append(in.bodies, string(body))
		n := len(in.bodies)
		in.mu.Unlock()
		w.WriteHeader(answer(n))
	}))
	t.Cleanup(func() { in.Server.Close(); http.DefaultClient.CloseIdleConnections() })
	return in
}

func deliver(t *testing.T, wait time.Duration, messages []Message, texts ...string) []string {
	t.Helper()
	var targets []Target
	for _, text := range texts {
		target, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, target)
	}
	s := NewSender(targets)
	for _, m := range messages {
		s.Send(m)
	}
	return append(s.Close(wait), s.Close(wait)...)
}

var both = []Message{{Event: Planned, RunID: "r1", Name: "train", Text: "plan: a <b> & c", Command: "optimize report r1"},
	{Event: Ended, RunID: "r1", Name: "träin", Text: "done", Link: "http://page/runs/r1"}}

// TestDelivery: each kind of target receives each message once, in order and in its form.
func TestDelivery(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "sendmail"), []byte("#!/bin/sh\n{ echo \"$@\"; cat; } >> \"$MAILBOX\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	mailbox, file := filepath.Join(dir, "mailbox"), filepath.Join(dir, "file")
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("MAILBOX", mailbox)
	in := newInbox(t, func(int) int { return 200 })
	slack := newInbox(t, func(int) int { return 200 })
	if failures := deliver(t, time.Minute, both, in.URL+"/hook", "slack+"+slack.URL+"/x", "mailto:me@example.com", "cat >> "+file+"; echo >> "+file); len(failures) > 0 {
		t.Fatal(failures)
	}
	var m Message
	if err := json.Unmarshal([]byte(in.bodies[0]), &m); err != nil || len(in.bodies) != 2 || m.Event != Planned || m.Schema != schema || m.Seconds != nil {
		t.Errorf("webhook: %q, %v", in.bodies, err)
	}
	if want := []string{`{"text":"train (r1): plan: a \u0026lt;b\u0026gt; \u0026amp; c\n` + "`optimize report r1`" + `"}`, `{"text":"träin (r1): done\nhttp://page/runs/r1"}`}; strings.Join(slack.bodies, "\n") != strings.Join(want, "\n") {
		t.Errorf("Slack: %q\nwant %q", slack.bodies, want)
	}
	if data, _ := os.ReadFile(file); string(data) != in.bodies[0]+"\n"+in.bodies[1]+"\n" {
		t.Errorf("command: %s", data)
	}
	data, _ := os.ReadFile(mailbox)
	for _, want := range []string{"-i -t\nTo: me@example.com\r\nSubject: train (r1): plan: a <b> & c\r\n", "\r\n\r\ntrain (r1): plan", "Subject: =?utf-8?q?tr=C3=A4in", "http://page/runs/r1\r\n"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("mail %q lacks %q", data, want)
		}
	}
}

// TestFailures: a target that fails is reported once, without its address, and delays neither the caller nor the others.
func TestFailures(t *testing.T) {
	hang := make(chan struct{})
	stuck := newInbox(t, func(int) int { <-hang; return 200 })
	defer close(hang)
	bad, busy := newInbox(t, func(int) int { return 404 }), newInbox(t, func(n int) int {
		if n < 3 {
			return 503
		}
		return 200
	})
	file := filepath.Join(t.TempDir(), "file")
	begun := time.Now()
	failures := deliver(t, 10*time.Second, both, stuck.URL+"/SECRET", bad.URL+"/SECRET", busy.URL, "cat > /dev/null; echo no luck >&2; exit 3", "sleep 100 & sleep 100", "cat >> "+file,
		"http://127.0.0.1:1/SECRET")
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("Close took %s", took)
	}
	all := strings.Join(failures, "\n")
	for _, want := range []string{bad.URL + "/[redacted]: the server answers 404", "exit status 3: no luck", "connection refused", "no answer", "sleep 100"} {
		if !strings.Contains(all, want) {
			t.Errorf("failures lack %q:\n%s", want, all)
		}
	}
	if len(failures) != 5 || strings.Contains(all, "SECRET") {
		t.Errorf("%d failures, want 5 without addresses:\n%s", len(failures), all)
	}
	busy.mu.Lock()
	if len(busy.bodies) != 4 { // two refusals, then both messages
		t.Errorf("the busy server received %d requests, want 4", len(busy.bodies))
	}
	busy.mu.Unlock()
	if data, _ := os.ReadFile(file); strings.Count(string(data), `"event"`) != 2 {
		t.Errorf("the working target received %s", data)
	}
}

// TestRedirects: the POST is repeated at another address of the same host. Another host, which gets nothing of it, a server
// without TLS after one with it, and an answer elsewhere (303) are failures that name the host.
func TestRedirects(t *testing.T) {
	in := newInbox(t, func(int) int { return 200 })
	for name, c := range map[string]struct {
		status  int
		to      string
		failure string // empty: delivered
	}{
		"another path":              {301, "/hook/SECRET", ""},
		"another path, found":       {302, "hook/SECRET", ""},
		"another path, temporarily": {307, "/hook/SECRET", ""},
		"another path, permanently": {308, "/hook/SECRET", ""},
		"see another path":          {303, "/hook/SECRET", "/[redacted] (303 See Other): give that address"},
		"another host":              {301, strings.Replace(in.URL, "127.0.0.1", "localhost", 1) + "/SECRET", "redirects to http://localhost:"},
		"another port":              {308, in.URL + "/SECRET", "redirects to " + in.URL + "/[redacted] (308"},
		"itself":                    {302, "", "/[redacted] (302 Found): give that address"},
		"nowhere":                   {300, "", "the server answers 300"},
	} {
		t.Run(name, func(t *testing.T) {
			got := make(chan string, 100)
			mux := http.NewServeMux()
			mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
				if c.status != 300 {
					w.Header().Set("Location", cmp.Or(c.to, "/SECRET"))
				}
				w.WriteHeader(c.status)
			})
			mux.HandleFunc("/hook/SECRET", func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				user, _, _ := r.BasicAuth()
				got <- r.Method + " of " + user + " " + string(body)
			})
			server := httptest.NewServer(mux)
			defer func() { server.Close(); http.DefaultClient.CloseIdleConnections() }()
			failures := strings.Join(deliver(t, time.Minute, both[:1], strings.Replace(server.URL, "//", "//me:SECRET@", 1)+"/SECRET"), "\n")
			close(got)
			first := <-got
			if delivered := strings.HasPrefix(first, "POST of me {") && strings.Contains(first, `"plan: a`) && len(got) == 0; delivered != (c.failure == "") {
				t.Errorf("received %q and %d more", first, len(got))
			}
			if !strings.Contains(failures, c.failure) || (failures == "") != (c.failure == "") || strings.Contains(failures, "SECRET") {
				t.Errorf("failures %q, want %q", failures, c.failure)
			}
		})
	}
	if len(in.bodies) > 0 {
		t.Errorf("the other server received %q", in.bodies)
	}
}

// TestRedirectKeepsTLS: what was sent by TLS is not sent again without it.
func TestRedirectKeepsTLS(t *testing.T) {
	for text, want := range map[string]bool{
		"http://h/x https://h/x": true, "http://h:80/x https://h:8443/y": true, "https://h/x https://h:8443/x": true, "http://h/x http://h/y": true,
		"https://h/x http://h/x": false, "http://h/x http://h:8080/x": false, "http://h/x https://g/x": false, "http://h/x ftp://h/x": false,
	} {
		a, b, _ := strings.Cut(text, " ")
		from, err := url.Parse(a)
		to, other := url.Parse(b)
		if err != nil || other != nil || repeats(307, from, to) != want {
			t.Errorf("%s: want %t", text, want)
		}
	}
}
