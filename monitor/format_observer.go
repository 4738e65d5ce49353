package monitor

import "bytes"

// The observer's report of one process (docs/observer.md): JSON lines, of which the progress events yield rows. In
// distributed training, only rank 0 reports for the job.

func detectObserver(h *head) int {
	f := h.first()
	if bytes.HasPrefix(f, []byte(`{"event":"start"`)) && bytes.Contains(f, []byte(`"observer":1`)) {
		return 90
	}
	return 0
}

func newObserver(o *parseOptions) parser { return &observerLines{fields: jsonFields{opts: o}} }

// observerLines parses the observer's report.
type observerLines struct{ fields jsonFields }

func (*observerLines) pending() bool     { return false }
func (*observerLines) flush(sink)        {}
func (*observerLines) restart()          {}
func (*observerLines) save() parserState { return parserState{} }
func (*observerLines) load(parserState)  {}

// line parses one event; events other than progress of rank 0 yield no row.
func (p *observerLines) line(text []byte, n int, out sink) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return
	}
	object, ok := decodeObject(text)
	if !ok {
		out.bad(n, "not a JSON object: "+clip(text))
		return
	}
	if object["event"] != "progress" || jsonText(object["rank"]) != "0" {
		return
	}
	if r, extra, ok := p.fields.row(object, n, out); ok {
		out.row(&r, extra)
	}
}
