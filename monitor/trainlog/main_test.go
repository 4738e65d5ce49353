package trainlog

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a directory in which a log is written and followed.
type bench struct {
	t    testing.TB
	dir  string
	path string
	tail *Tail
	now  time.Time
	rows []Row
}

func newBench(t testing.TB, o TailOptions) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{t: t, dir: dir, path: filepath.Join(dir, "log.csv"), now: time.Unix(1_700_000_000, 0)}
	b.open(o)
	return b
}

func (b *bench) open(o TailOptions) {
	b.t.Helper()
	tail, err := Open(b.path, o)
	if err != nil {
		b.t.Fatal(err)
	}
	b.tail = tail
	b.t.Cleanup(func() { tail.Close() })
}

// restart closes the tail and opens a new one from its state after a round trip through JSON, as a restarted agent
// does.
func (b *bench) restart(o TailOptions) {
	b.t.Helper()
	state := roundTrip(b.t, b.tail.State())
	if err := b.tail.Close(); err != nil {
		b.t.Fatal(err)
	}
	o.Resume = &state
	b.open(o)
}

func (b *bench) ok(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) write(text string) {
	b.t.Helper()
	b.ok(os.WriteFile(b.path, []byte(text), 0o644))
}

func (b *bench) append(text string) {
	b.t.Helper()
	appendTo(b.t, b.path, text)
}

func appendTo(t testing.TB, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// poll polls until no data is left and returns the epochs of the new rows.
func (b *bench) poll() []float64 {
	b.t.Helper()
	var rows []Row
	for range 1000 {
		more, err := b.tail.Poll(b.now)
		b.ok(err)
		rows = append(rows, more...)
		if s := b.tail.Stats(); s.Behind == 0 {
			break
		}
	}
	b.now = b.now.Add(time.Second)
	b.rows = append(b.rows, rows...)
	return values(rows, Epoch)
}

func values(rows []Row, c Column) []float64 {
	out := []float64{}
	for i := range rows {
		v, ok := rows[i].Value(c)
		if !ok {
			v = -1
		}
		out = append(out, v)
	}
	return out
}

func (b *bench) stats() TailStats { return b.tail.Stats() }
