package predict

import (
	_ "embed"
	"html/template"
	"io"
	"strings"

	"trainopt/optimizer/chart"
)

//go:embed predict.html.tmpl
var pageText string

var page = template.Must(template.New("predict").Funcs(template.FuncMap{
	"clean": chart.Clean,
	"trim":  strings.TrimSpace,
	"right": func(t *table, k int) bool { return k >= t.Right },
}).Parse(chart.Figures + pageText))

// renderHTML writes one page that needs nothing else: no network, no script.
func renderHTML(w io.Writer, a *Answer) error {
	return page.Execute(w, struct {
		document
		Style   template.CSS
		Picture chart.Picture
	}{a.document(), template.CSS(chart.Style), a.picture()})
}
