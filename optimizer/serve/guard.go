package serve

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"trainopt/internal/regular"
	"trainopt/optimizer/journal"
)

// TokenFile is the file of a state directory that contains the token.
const TokenFile = "serve.token"

// Token returns the token of a state directory. It creates the file, mode 0600, if it does not exist; a file that other
// users may read is refused.
func Token(stateDir string) (string, error) {
	path := filepath.Join(stateDir, TokenFile)
	fail := func(err error) (string, error) { return "", fmt.Errorf("read token %s: %w", path, err) }
	if err := journal.MakeStateDir(stateDir); err != nil {
		return fail(err)
	}
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	token := hex.EncodeToString(random[:])
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = f.WriteString(token + "\n")
		if err = errors.Join(err, f.Close()); err != nil {
			_ = os.Remove(path)
			return fail(err)
		}
		return token, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return fail(err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return fail(err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fail(fmt.Errorf("mode %04o, want 0600: other users could stop runs; chmod it, or remove it for a new token", mode))
	}
	data, err := regular.ReadFile(path, 4096)
	if err != nil {
		return fail(err)
	}
	if token = strings.TrimSpace(string(data)); len(token) < 32 {
		return fail(fmt.Errorf("%d characters, want at least 32; remove it for a new token", len(token)))
	}
	return token, nil
}

// guard checks the host of every request, and the token and the origin of those that require them.
type guard struct {
	token   string
	private bool // reading requires the token
	hosts   []string
}

// cookieName holds the proof of the token in a browser. Cookies are shared between the ports of a host, so its name
// contains a hash of the token.
func (g *guard) cookieName() string { return "optimize-" + g.proof("name")[:12] }

// proof derives a value from the token that does not reveal it.
func (g *guard) proof(purpose string) string {
	m := hmac.New(sha256.New, []byte(g.token))
	m.Write([]byte(purpose))
	return hex.EncodeToString(m.Sum(nil))
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// allowedHost reports whether a Host header names this machine: an address, localhost or a configured name. A page of
// another site that resolves its own name to this machine (DNS rebinding) sends that name.
func (g *guard) allowedHost(host string) bool {
	return isAddress(host) || g.isName(hostName(host))
}

// hostName returns the name, or the address, of a Host header.
func hostName(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// isAddress reports whether a Host header has an address, or localhost.
func isAddress(host string) bool {
	name := hostName(host)
	return net.ParseIP(name) != nil || name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// isName reports whether a name is a configured one.
func (g *guard) isName(name string) bool {
	return slices.ContainsFunc(g.hosts, func(h string) bool { return name == strings.ToLower(h) })
}

// access is the result of checking the credentials of a request.
type access int

const (
	anonymous access = iota
	refused          // a wrong token
	trusted
)

// access checks the Authorization header, else the cookie.
func (g *guard) access(r *http.Request) access {
	if header := r.Header.Get("Authorization"); header != "" {
		if token, ok := strings.CutPrefix(header, "Bearer "); ok && same(strings.TrimSpace(token), g.token) {
			return trusted
		}
		return refused
	}
	c, err := r.Cookie(g.cookieName())
	switch {
	case err != nil:
		return anonymous
	case same(c.Value, g.proof("cookie")):
		return trusted
	}
	return refused
}

// sameOrigin reports whether a request that changes something comes from the page itself or from a program. Browsers
// send Origin with every POST, and Sec-Fetch-Site, which scripts cannot set, with every request that is encrypted or stays on the
// machine. A proxy may replace Host, so that it is not that of Origin: then Sec-Fetch-Site decides. For an earlier browser that sends
// none, the page behind a proxy is known by a configured name, over TLS at the usual port, which other users cannot serve; a
// browser that comes from such a page without the proxy has no cookie, since an address is another site than a name.
func (g *guard) sameOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "none" {
		return site == "same-origin"
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return r.Header.Get("Authorization") != "" // a cookie alone proves nothing without an origin
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == r.Host {
		return err == nil && (u.Scheme == "http" || u.Scheme == "https")
	}
	return u.Scheme == "https" && u.Port() == "" && isAddress(r.Host) && g.isName(hostName(u.Host))
}

// policy is the content security policy of the pages: no inline scripts, no other host.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// documentPolicy is that of self-contained documents: reports, results and pictures, whose style sheet is inline.
const documentPolicy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox allow-popups allow-same-origin; base-uri 'none'; frame-ancestors 'none'"

// secure wraps all handlers.
func (g *guard) secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !g.allowedHost(r.Host) {
			refuse(w, r, shell{}, http.StatusForbidden, fmt.Sprintf("host %q is not this machine: open the page by its address, or name it with --hostname", r.Host))
			return
		}
		open := r.URL.Path == "/login" || strings.HasPrefix(r.URL.Path, "/static/")
		if g.private && !open && !g.admitted(w, r) {
			return
		}
		next.ServeHTTP(w, r)
	})
}

// admitted reports whether a request has the token; otherwise it has answered it.
func (g *guard) admitted(w http.ResponseWriter, r *http.Request) bool {
	switch g.access(r) {
	case trusted:
		return true
	case refused:
		refuse(w, r, shell{}, http.StatusForbidden, "wrong token")
	default:
		w.Header().Set("WWW-Authenticate", `Bearer realm="optimize"`)
		refuse(w, r, shell{}, http.StatusUnauthorized, "the token is missing: log in, or send it as Authorization: Bearer TOKEN")
	}
	return false
}

// changes wraps the handlers of requests that change something.
func (g *guard) changes(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
		if !g.admitted(w, r) {
			return
		}
		if !g.sameOrigin(r) {
			refuse(w, r, shell{}, http.StatusForbidden, "the request comes from another site")
			return
		}
		next(w, r)
	}
}

// admit sets the cookie of a browser that has shown the token.
func (g *guard) admit(w http.ResponseWriter) {
	http.SetCookie(w, &http.Cookie{Name: g.cookieName(), Value: g.proof("cookie"), Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: 30 * 24 * 3600})
}

func (g *guard) dismiss(w http.ResponseWriter) {
	http.SetCookie(w, &http.Cookie{Name: g.cookieName(), Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: -1})
}
