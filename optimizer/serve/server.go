package serve

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/optimizer/report/page"
)

// Options configures a Server. Only StateDir and Token are required.
type Options struct {
	StateDir string
	Token    string // see Token
	Private  bool   // reading requires the token too
	// Hosts are the names under which the page is opened, beside addresses and localhost.
	Hosts []string
	// Results are folders with result files of simulations and comparisons.
	Results []string
	// Analyze returns the analysis of all finished runs; nil: the page of wasted spend has only the sums of the records.
	Analyze func() (page.Document, error)
	// Audit compares the policies on the jobs of the cluster; nil: the page of the cluster does not.
	Audit func(ctx context.Context) (page.Document, error)
	// Control carries out changes. A nil function refuses its change.
	Control Control
	// Metrics is served at /metrics; nil: that address does not exist.
	Metrics http.Handler
}

// Control changes runs, each given by its directory. The texts describe what was done.
type Control struct {
	Stop   func(ctx context.Context, dir string) (string, error)
	Resume func(ctx context.Context, dir string) (string, error)
	Prefer func(ctx context.Context, dir string, preference plan.Preference) (*journal.Answer, error)
}

// Server is the page of one state directory.
type Server struct {
	options Options
	guard   guard
	index   *index
	hub     *hub
	mux     *http.ServeMux

	analysis, audit prepared

	stops sync.Map // run id → its stop in progress
	done  sync.Map // run id → outcome of its last change, for its next page

	ctx   context.Context // ended by Close
	close context.CancelFunc
}

//go:embed static
var static embed.FS

// New returns a server. It reads nothing yet.
func New(o Options) *Server {
	hosts := o.Hosts
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	s := &Server{options: o, guard: guard{token: o.Token, private: o.Private, hosts: hosts}, index: newIndex(o.StateDir),
		hub: &hub{followers: map[string]*follower{}}, mux: http.NewServeMux()}
	s.ctx, s.close = context.WithCancel(context.Background())
	s.handle()
	return s
}

// handle registers the addresses.
func (s *Server) handle() {
	control := s.options.Control
	for pattern, handler := range map[string]http.HandlerFunc{
		"GET /{$}":                        s.runsPage,
		"GET /runs/{id}":                  s.ofRun(s.runPage),
		"GET /runs/{id}/report":           s.ofRun(s.reportPage),
		"GET /runs/{id}/chart/{name}":     s.ofRun(s.chartFile),
		"GET /runs/{id}/output/{name}":    s.ofRun(s.outputFile),
		"GET /runs/{id}/events":           s.ofRun(s.events),
		"GET /compare":                    s.comparePage,
		"GET /waste":                      s.wastePage,
		"GET /results":                    s.resultsPage,
		"GET /results/{folder}/{name}":    s.resultPage,
		"GET /cluster":                    s.clusterPage,
		"GET /cluster/policies":           s.policiesPage,
		"GET /login":                      s.loginPage,
		"POST /login":                     s.login,
		"POST /logout":                    s.guard.changes(s.logout),
		"POST /runs/{id}/stop":            s.changes(control.Stop != nil, "stop", s.stop),
		"POST /runs/{id}/resume":          s.changes(control.Resume != nil, "resume", s.resume),
		"POST /runs/{id}/prefer":          s.changes(control.Prefer != nil, "change the preference of", s.prefer),
		"POST /runs/{id}/note":            s.changes(true, "", s.note),
		"GET /api":                        s.apiIndex,
		"GET /api/runs":                   s.apiRuns,
		"GET /api/runs/{id}":              s.ofRun(s.apiRun),
		"GET /api/runs/{id}/samples":      s.apiSeries("samples.csv", sampleColumns),
		"GET /api/runs/{id}/training":     s.apiSeries("performance_metrics.csv", trainingColumns),
		"GET /static/{version}/{name...}": s.staticFile,
		"GET /favicon.ico":                func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
	} {
		s.mux.HandleFunc(pattern, handler)
	}
	if s.options.Metrics != nil {
		s.mux.Handle("GET /metrics", s.options.Metrics)
	}
}

// Handler returns the handler of all addresses, with all checks.
func (s *Server) Handler() http.Handler {
	return s.guard.secure(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := s.mux.Handler(r); pattern != "" {
			s.mux.ServeHTTP(w, r)
			return
		}
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if _, pattern := s.mux.Handler(&http.Request{Method: method, URL: r.URL, Host: r.Host}); pattern != "" {
				w.Header().Set("Allow", method)
				s.refuse(w, r, http.StatusMethodNotAllowed, "want "+method)
				return
			}
		}
		s.refuse(w, r, http.StatusNotFound, "there is no such page")
	}))
}

// Server returns an HTTP server with limits on slow and stalled clients.
func (s *Server) Server() *http.Server {
	return &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 2 * time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 32 << 10, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
}

// Close ends the event streams. It may be called more than once.
func (s *Server) Close() { s.close() }

// assets are the files of /static by name. Their address contains a hash of all of them, so that they can be cached.
var assets, assetsVersion = func() (map[string][]byte, string) {
	files := map[string][]byte{}
	sum := sha256.New()
	_ = fs.WalkDir(static, "static", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			data, _ := static.ReadFile(path)
			files[strings.TrimPrefix(path, "static/")] = data
		}
		return err
	})
	files["style.css"] = []byte(page.Style + string(files["page.css"]) + string(files["uplot/uPlot.min.css"]))
	for _, name := range []string{"style.css", "page.js", "uplot/uPlot.iife.min.js"} {
		sum.Write(files[name])
	}
	return files, hex.EncodeToString(sum.Sum(nil))[:12]
}()

func (s *Server) staticFile(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	data, ok := assets[name]
	if !ok {
		s.refuse(w, r, http.StatusNotFound, "there is no such file")
		return
	}
	kinds := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
	kind, ok := kinds[filepath.Ext(name)]
	if !ok {
		kind = "text/plain; charset=utf-8"
	}
	w.Header().Set("Content-Type", kind)
	if r.PathValue("version") == assetsVersion {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	_, _ = w.Write(data)
}

// wantsJSON reports whether a request comes from a program that prefers JSON to a page.
func wantsJSON(r *http.Request) bool {
	return r.Header.Get("Authorization") != "" || strings.HasPrefix(r.URL.Path, "/api") || strings.Contains(r.Header.Get("Accept"), "application/json") || strings.HasPrefix(r.Header.Get("Content-Type"), "application/json")
}

// refuse answers with an error, with the menu on its page unless the request may not read.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, code int, why string) {
	frame := s.shell(r, "", "", nil)
	if s.guard.private && !frame.Trusted {
		frame.Nav = nil
	}
	refuse(w, r, frame, code, why)
}

// refuse answers with an error: JSON for programs, otherwise a page.
func refuse(w http.ResponseWriter, r *http.Request, frame shell, code int, why string) {
	if wantsJSON(r) {
		answerJSON(w, code, map[string]any{"schema": 1, "error": why})
		return
	}
	frame.Title, frame.Body = http.StatusText(code), struct {
		Code int
		Why  string
	}{code, why}
	writePage(w, code, "error", frame)
}

func answerJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // the connection may be gone
}
