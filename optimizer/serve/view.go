package serve

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"strings"
	"sync"
	"time"

	"trainopt/optimizer/cluster"
	"trainopt/optimizer/report/page"
)

//go:embed templates
var templateFiles embed.FS

// pages returns the templates of the pages, with those of the parts of documents. They are parsed at the first page,
// so that no other command waits for them.
var pages = sync.OnceValue(func() *template.Template {
	return template.Must(page.Parts().Funcs(template.FuncMap{
		"count":  func(n int) string { return page.Thousands(float64(n)) },
		"plural": page.Plural,
		"asset":  func(name string) string { return "/static/" + assetsVersion + "/" + name },
		"when": func(t time.Time) string {
			if t.IsZero() {
				return page.NoData
			}
			return t.Local().Format("2006-01-02 15:04")
		},
		"stamp": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"join":  strings.Join,
	}).ParseFS(templateFiles, "templates/*.tmpl"))
})

// shell is what every page has around its body.
type shell struct {
	Title string
	Here  string // address of the section of the navigation
	Nav   []link
	// Trusted reports that the browser has shown the token.
	Trusted bool
	Live    bool // the page needs the script for charts
	Body    any
}

type link struct{ Address, Name string }

// shell returns the frame of a page for a request.
func (s *Server) shell(r *http.Request, title, here string, body any) shell {
	nav := []link{{"/", "Runs"}, {"/waste", "Waste"}, {"/results", "Results"}}
	if cluster.LogSize(s.options.StateDir) > 0 { // a live scheduler has worked here
		nav = append(nav, link{"/cluster", "Cluster"})
	}
	return shell{Title: title, Here: here, Nav: nav, Trusted: s.guard.access(r) == trusted, Body: body}
}

// writePage writes a page by the template "NAME-page".
func writePage(w http.ResponseWriter, code int, name string, data shell) {
	var b bytes.Buffer
	if err := pages().ExecuteTemplate(&b, name+"-page", data); err != nil {
		http.Error(w, "write page: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes()) // the connection may be gone
}

// partOf renders a template to a part of a page.
func partOf(name string, data any) (template.HTML, error) {
	var b strings.Builder
	err := pages().ExecuteTemplate(&b, name, data)
	return template.HTML(b.String()), err
}
