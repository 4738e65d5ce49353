package serve

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/report"
)

// follower follows the files of one run for all its readers. It runs while it has readers.
type follower struct {
	id, dir string
	render  func(*journal.Record, *journal.Holder) (map[string]string, error)

	samples, stdout, stderr tail

	recordChanged time.Time // modification time of run.json
	recordSize    int64
	alive         bool
	over          bool // the run has ended, and no agent holds it
	columns       []string

	mu      sync.Mutex
	changed chan struct{} // closed at a change, and replaced
	state   state
	frames  map[string]frame // by the position of the reader, until the next change
	readers int
	stop    chan struct{}
}

// state is the newest state of a run as HTML by place in the page.
type state struct {
	version uint64 // of the newest part; 0: nothing yet
	word    string
	parts   map[string]part
	problem string
	over    bool
}

type part struct {
	version uint64
	html    string
}

// frame contains the events from one position to the next.
type frame struct {
	data []byte
	next cursor
	last bool // nothing follows
}

// cursor is the position of a reader: what it has of each file, and the version of the state.
type cursor struct {
	samples, stdout, stderr position
	version                 uint64 // not part of the id: a reader that reconnects gets the newest state
}

// String returns the id of the last event of a reader.
func (c cursor) String() string {
	return c.samples.String() + "-" + c.stdout.String() + "-" + c.stderr.String()
}

// parseCursor is the inverse of String; positions that are not valid are none.
func parseCursor(id string) cursor {
	parts := strings.SplitN(id+"--", "-", 4)
	return cursor{samples: parsePosition(parts[0]), stdout: parsePosition(parts[1]), stderr: parsePosition(parts[2])}
}

// Bytes of prepared text that a follower keeps.
const (
	keepSamples = 512 << 10
	keepOutput  = 64 << 10
)

// followEvery is the interval at which a run is followed.
const followEvery = time.Second

func newFollower(id, dir string, render func(*journal.Record, *journal.Holder) (map[string]string, error)) *follower {
	f := &follower{id: id, dir: dir, render: render, changed: make(chan struct{}), frames: map[string]frame{}, stop: make(chan struct{})}
	f.samples = tail{path: filepath.Join(dir, "samples.csv"), keep: keepSamples, turn: f.row}
	f.stdout = tail{keep: keepOutput, turn: plainOutput}
	f.stderr = tail{keep: keepOutput, turn: plainOutput}
	return f
}

// run polls the files of the run until the last reader has left.
func (f *follower) run() {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	defer func() {
		for _, t := range []*tail{&f.samples, &f.stdout, &f.stderr} {
			t.close()
		}
	}()
	for {
		f.poll()
		select {
		case <-f.stop:
			return
		case <-tick.C:
		}
	}
}

// poll reads what is new and wakes the readers.
func (f *follower) poll() {
	word, parts, problem, rendered := f.readRecord()
	f.mu.Lock()
	defer f.mu.Unlock()
	changed := false
	f.stdout.path, _ = report.Output(f.dir, "stdout")
	f.stderr.path, _ = report.Output(f.dir, "stderr")
	for _, t := range []*tail{&f.samples, &f.stdout, &f.stderr} {
		more, err := t.read()
		changed = changed || more
		if err != nil && problem == "" {
			problem = err.Error()
		}
	}
	if rendered || problem != f.state.problem {
		changed = f.state.put(word, parts, problem) || changed
	}
	changed = changed || f.over != f.state.over
	f.state.over = f.over // read before the files, which are therefore complete
	if changed {
		clear(f.frames)
		close(f.changed)
		f.changed = make(chan struct{})
	}
}

// put replaces the state and reports whether anything differs.
func (s *state) put(word string, parts map[string]string, problem string) bool {
	next := s.version + 1
	changed := s.version == 0 || problem != s.problem
	if s.parts == nil {
		s.parts = map[string]part{}
	}
	if parts != nil {
		changed = changed || word != s.word
		s.word = word
	}
	for name, html := range parts {
		if s.parts[name].html != html || s.parts[name].version == 0 {
			s.parts[name] = part{next, html}
			changed = true
		}
	}
	s.problem = problem
	if changed {
		s.version = next
	}
	return changed
}

// readRecord renders the record if it, or the life of its agent, has changed.
func (f *follower) readRecord() (word string, parts map[string]string, problem string, rendered bool) {
	info, err := os.Stat(filepath.Join(f.dir, journal.RecordFile))
	agent := journal.HolderOf(f.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil, "the run has no record yet", true
	case err != nil:
		return "", nil, err.Error(), true
	case info.ModTime().Equal(f.recordChanged) && info.Size() == f.recordSize && f.alive == (agent != nil):
		return "", nil, f.state.problem, false
	}
	rec, err := journal.ReadRecord(f.dir)
	if err != nil {
		return "", nil, err.Error(), true
	}
	f.recordChanged, f.recordSize, f.alive = info.ModTime(), info.Size(), agent != nil
	f.over = agent == nil && (rec.Over() || rec.State == journal.Planned)
	word, _ = report.State(rec, agent)
	parts, err = f.render(rec, agent)
	if err != nil {
		return word, nil, err.Error(), true
	}
	return word, parts, "", true
}

// sampleColumns are the columns of samples.csv that readers get, in this order.
var sampleColumns = []string{"time_s", "cost_usd", "projected_s", "projected_s_p5", "projected_s_p95", "projected_cost_usd", "projected_cost_usd_p5", "projected_cost_usd_p95",
	"units", "throughput", "tree_cpu_percent", "cpus", "gpu_util_percent", "tree_memory_gib", "gpu_memory_gib", "memory_gib", "gpus"}

// row prepares a row of samples.csv: a JSON array, followed by a line feed. A row that cannot be read is empty.
func (f *follower) row(line []byte) []byte {
	record, err := csv.NewReader(bytes.NewReader(line)).Read()
	if err != nil {
		return nil
	}
	if record[0] == "time_s" { // the header
		f.columns = record
		return nil
	}
	if f.columns == nil {
		f.columns = headerOf(f.samples.path)
	}
	if len(record) != len(f.columns) {
		return nil
	}
	return append(rowOf(f.columns, record), '\n')
}

// frame returns the events that follow a cursor; without data if there is nothing new.
func (f *follower) frame(c cursor) (frame, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := fmt.Sprintf("%s %d", c, c.version)
	if known, ok := f.frames[key]; ok {
		return known, f.changed
	}
	made := f.make(c)
	f.frames[key] = made
	return made, f.changed
}

// make builds the events after a cursor. The caller holds the lock.
func (f *follower) make(c cursor) frame {
	var b bytes.Buffer
	send := func(event string, v any) {
		data, err := json.Marshal(v)
		if err == nil {
			fmt.Fprintf(&b, "id: %s\nevent: %s\ndata: %s\n\n", c, event, data)
		}
	}
	if f.state.version > c.version {
		html := map[string]string{}
		for name, p := range f.state.parts {
			if p.version > c.version {
				html[name] = p.html
			}
		}
		c.version = f.state.version
		send("state", map[string]any{"schema": 1, "state": f.state.word, "problem": f.state.problem, "html": html})
	}
	if at := f.samples.at(); at != c.samples && at.file != 0 {
		data, reset := f.samples.since(c.samples)
		c.samples = at
		rows := make([]json.RawMessage, 0, bytes.Count(data, []byte("\n")))
		for line := range bytes.Lines(data) {
			rows = append(rows, json.RawMessage(bytes.TrimSpace(line)))
		}
		if len(rows) > 0 || reset {
			send("samples", map[string]any{"schema": 1, "reset": reset, "columns": sampleColumns, "rows": rows})
		}
	}
	for _, s := range []struct {
		name string
		tail *tail
		at   *position
	}{{"stderr", &f.stderr, &c.stderr}, {"stdout", &f.stdout, &c.stdout}} {
		if at := s.tail.at(); at != *s.at && at.file != 0 {
			data, reset := s.tail.since(*s.at)
			known := s.at.file != 0
			*s.at = at
			if len(data) > 0 || reset && known {
				send("output", map[string]any{"schema": 1, "stream": s.name, "reset": reset, "text": string(data)})
			}
		}
	}
	if f.state.over {
		send("end", map[string]any{"schema": 1})
	}
	return frame{b.Bytes(), c, f.state.over}
}

// hub holds the followers of the runs that have readers.
type hub struct {
	mu        sync.Mutex
	followers map[string]*follower
	readers   int
}

// maxReaders bounds the open event streams.
const maxReaders = 4096

// join returns the follower of a run, which starts if it has no readers yet; nil if there are too many readers.
func (h *hub) join(id string, make func() *follower) *follower {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.readers >= maxReaders {
		return nil
	}
	f := h.followers[id]
	if f == nil {
		f = make()
		h.followers[id] = f
		go f.run()
	}
	f.readers++
	h.readers++
	return f
}

// leave ends the part of one reader; the follower stops with its last one.
func (h *hub) leave(f *follower) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readers--
	if f.readers--; f.readers == 0 {
		close(f.stop)
		delete(h.followers, f.id)
	}
}
