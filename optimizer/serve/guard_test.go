//go:build !browser

package serve

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

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

// TestChangesThroughProxy: behind a proxy that replaces Host, changes are accepted if the browser states that they come from the page;
// if it states nothing, only over TLS from a configured name at the usual port, while Host is an address.
func TestChangesThroughProxy(t *testing.T) {
	s := newSite(t, 1, func(o *Options) {
		o.Hosts = []string{"trainer.example", "other.example"}
		o.Control.Stop = func(context.Context, string) (string, error) { return "stopped", nil }
	})
	const absent = ""
	cookie := s.serve.guard.cookieName() + "=" + s.serve.guard.proof("cookie")
	for _, c := range []struct {
		host, origin, site string
		allowed            bool
	}{
		{"127.0.0.1:8787", "https://foreign.example", "same-origin", true},
		{"trainer.example", "https://foreign.example", "same-origin", true},
		{"127.0.0.1:8787", absent, "same-origin", true},
		{"foreign.example", "https://foreign.example", "same-origin", false}, // DNS rebinding
		{"127.0.0.1:8787", "https://foreign.example", "cross-site", false},
		{"127.0.0.1:8787", "https://foreign.example", "same-site", false},
		{"127.0.0.1:8787", "https://trainer.example", "cross-site", false},
		{"127.0.0.1:8787", "https://trainer.example", "same-site", false},
		{"127.0.0.1:8787", "https://foreign.example", "none", false},
		{"127.0.0.1:8787", "https://foreign.example", absent, false},
		{"127.0.0.1:8787", "https://trainer.example", absent, true},
		{"localhost:8787", "https://Trainer.example", absent, true},
		{"trainer.example", "https://trainer.example", absent, true},      // Host is kept
		{"127.0.0.1:8787", "https://trainer.example:8443", absent, false}, // of another user
		{"127.0.0.1:8787", "http://trainer.example", absent, false},       // of anyone on the way
		{"127.0.0.1:8787", "https://trainer.example.foreign.example", absent, false},
		{"trainer.example:8787", "https://trainer.example", absent, false}, // another service of the machine
		{"trainer.example:8787", "https://other.example", absent, false},   // of the same site
		{"127.0.0.1:8787", "null", absent, false},
	} {
		headers := []string{"Host", c.host}
		for name, value := range map[string]string{"Origin": c.origin, "Sec-Fetch-Site": c.site} {
			if value != absent {
				headers = append(headers, name, value)
			}
		}
		for path, body := range map[string]string{"/runs/" + s.ids[0] + "/stop": "", "/login": "token=" + testToken} {
			code, text, _ := s.ask("POST", path, body, append(headers, "Cookie", cookie)...)
			if code != map[bool]int{true: 303, false: 403}[c.allowed] {
				t.Errorf("%s to host %s, origin %q, Sec-Fetch-Site %q: %d, want allowed: %v\n%.200s", path, c.host, c.origin, c.site, code, c.allowed, text)
			}
		}
	}
	if code, _, _ := s.ask("POST", "/runs/"+s.ids[0]+"/stop", "", "Host", "127.0.0.1:8787", "Origin", "https://foreign.example", "Sec-Fetch-Site", "same-origin"); code != 401 {
		t.Errorf("without a cookie: %d, want 401", code)
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
	for _, path := range []string{"/login?token=wrong", "/static/x/none.js", "/none"} {
		if code, body, _ := s.ask("GET", path, ""); code < 401 || strings.Contains(body, `aria-label="Pages"`) {
			t.Errorf("%s without token: %d, want a refusal without the menu", path, code)
		}
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
