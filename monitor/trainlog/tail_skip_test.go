package trainlog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestSkip: after a skip, the rows returned are the last ones of the log with their line numbers, none is wrong, and rows
// written later follow.
func TestSkip(t *testing.T) {
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprintf("log-%d.csv", n))
		end := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "end")
		text := "epoch,train_loss,model_name" + end
		width := rapid.IntRange(1, 40).Draw(t, "width")
		rows := rapid.IntRange(200, 2000).Draw(t, "rows")
		for i := 1; i <= rows; i++ {
			text += fmt.Sprintf("%d,0.5,%s%s", i, strings.Repeat("m", i*i%width), end)
		}
		if rapid.Bool().Draw(t, "unterminated") {
			text = strings.TrimSuffix(text, end)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		tail, err := Open(path, TailOptions{MaxBytes: int64(rapid.IntRange(100, 3000).Draw(t, "poll"))})
		if err != nil {
			t.Fatal(err)
		}
		defer tail.Close()
		last := 0
		take := func(got []Row, err error) int {
			if err != nil {
				t.Fatal(err)
			}
			for i := range got {
				epoch, _ := got[i].Value(Epoch)
				if int(epoch) <= last || got[i].Line != int(epoch)+1 {
					t.Fatalf("epoch %g at line %d after epoch %d", epoch, got[i].Line, last)
				}
				last = int(epoch)
			}
			return len(got)
		}
		take(tail.Poll(time.Now()))
		keep := int64(rapid.IntRange(100, len(text)).Draw(t, "keep"))
		behind := tail.Stats().Behind
		if skipped := tail.Skip(keep); skipped < behind-keep || tail.Stats().Behind > keep {
			t.Fatalf("%d of %d bytes skipped, want to keep at most %d", skipped, behind, keep)
		}
		for take(tail.Finish(time.Now())) > 0 || tail.Stats().Behind > 0 {
		}
		if last != rows || tail.Stats().Bad > 0 {
			t.Fatalf("last epoch %d of %d, %d bad rows: %v", last, rows, tail.Stats().Bad, tail.Stats().FirstBad)
		}
	})
}

// TestSkipWithinALongLine: a line that is being written is discarded as a whole.
func TestSkipWithinALongLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.csv")
	grow := func(text string) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	grow("epoch,train_loss\n1,0.5\n" + strings.Repeat("x", 200_000))
	tail, err := Open(path, TailOptions{MaxBytes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	if rows, err := tail.Poll(time.Now()); err != nil || len(rows) != 1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	if tail.Skip(1000) < 190_000 {
		t.Error("the long line was not skipped")
	}
	grow("yyy\n2,0.4\n")
	var rows []Row
	for tail.Stats().Behind > 0 || len(rows) == 0 {
		more, err := tail.Finish(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if rows = append(rows, more...); len(more) == 0 && tail.Stats().Behind == 0 {
			break
		}
	}
	if len(rows) != 1 || rows[0].Line != 4 {
		t.Errorf("rows %v", rows)
	}
}
