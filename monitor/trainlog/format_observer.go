package trainlog

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

func newObserver(o *parseOptions) parser {
	return &jsonLines{fields: jsonFields{opts: o}, base: epochBase{rule: fromOne}, keep: func(object map[string]any) bool {
		return object["event"] == "progress" && jsonText(object["rank"]) == "0"
	}}
}
