package serve

import (
	"bytes"
	"net/http"
	"regexp"
	"time"

	"trainopt/optimizer/journal"
)

// Times of an event stream.
const (
	writeWithin = 10 * time.Second // a reader that takes longer for one write is disconnected
	keepAlive   = 15 * time.Second // between comments in a silent stream
)

// events streams what is new in a run. The id of an event contains the positions in the followed files: a reader that
// reconnects with Last-Event-ID, or with ?after=ID, continues there. A slow reader gets what is kept, which is the
// newest, instead of everything that it missed. The stream of a run that is over ends with an event: a reader that connects
// again gets the state again, and what follows once the run is resumed.
func (s *Server) events(w http.ResponseWriter, r *http.Request, run *runSummary) {
	at := parseCursor(r.URL.Query().Get("after"))
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		at = parseCursor(id)
	}
	f := s.hub.join(run.ID, func() *follower {
		return newFollower(run.ID, run.dir, func(rec *journal.Record, agent *journal.Holder) (map[string]string, error) {
			return s.parts(rec, run.dir, agent)
		})
	})
	if f == nil {
		s.refuse(w, r, http.StatusServiceUnavailable, "too many readers")
		return
	}
	defer s.hub.leave(f)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("X-Accel-Buffering", "no")
	stream := http.NewResponseController(w)
	send := func(data []byte) bool {
		_ = stream.SetWriteDeadline(time.Now().Add(writeWithin)) // not supported by every test recorder
		_, err := w.Write(data)
		return err == nil && stream.Flush() == nil
	}
	if !send([]byte("retry: 2000\n\n")) {
		return
	}
	silence := time.NewTicker(keepAlive)
	defer silence.Stop()
	for {
		next, changed := f.frame(at)
		at = next.next
		if len(next.data) > 0 && !send(next.data) {
			return
		}
		if next.last {
			return
		}
		select {
		case <-changed:
		case <-silence.C:
			if !send([]byte(": alive\n\n")) {
				return
			}
		case <-r.Context().Done():
			return
		case <-s.ctx.Done():
			return
		}
	}
}

// control matches terminal control in the output of a job.
var control = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]|\x1b[\\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\\\)?|\x1b[ -/]*[0-~]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

// plainOutput prepares a line of the output of a job for display: without terminal control, and of a line that was drawn
// repeatedly, such as a progress bar, only the last state.
func plainOutput(line []byte) []byte {
	line = bytes.TrimRight(control.ReplaceAll(line, nil), "\r\n")
	return append(bytes.Clone(line[bytes.LastIndexByte(line, '\r')+1:]), '\n')
}
