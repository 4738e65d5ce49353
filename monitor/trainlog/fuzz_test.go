package trainlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// checkRow fails if a row violates the invariants of Row.
func checkRow(t *testing.T, r *Row) {
	t.Helper()
	for c := Column(0); c < NumColumns; c++ {
		v, ok := r.Value(c)
		switch {
		case !ok:
		case math.IsInf(v, 0):
			t.Fatalf("line %d: %s is infinite", r.Line, c)
		case v < 0 && !c.signed():
			t.Fatalf("line %d: %s is %g", r.Line, c, v)
		}
	}
	for _, v := range r.GPUUtil {
		if v < 0 || math.IsInf(v, 0) {
			t.Fatalf("line %d: GPU utilization %g", r.Line, v)
		}
	}
	for _, s := range []string{r.Model, r.Dataset, r.Device} {
		if _, err := json.Marshal(s); err != nil {
			t.Fatal(err)
		}
	}
	if r.Line < 1 {
		t.Fatalf("a row without a line: %d", r.Line)
	}
}

// FuzzTail reads arbitrary bytes as a log that arrives in two chunks, with a restart of the agent between them: no
// crash, no impossible value, and the same rows as for a single chunk.
func FuzzTail(f *testing.F) {
	files, _ := filepath.Glob("testdata/formats/*")
	outputs, _ := filepath.Glob("testdata/captured/*")
	for _, name := range append(files, outputs...) {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, uint16(len(data)/2))
	}
	for _, s := range []string{"", "epoch,loss\r\n1,\"a\nb\",2\n", "\xff\xfee\x00p\x00o\x00c\x00h\x00,\x00l\x00o\x00s\x00s\x00\n\x001\x00,\x002\x00\n\x00",
		"epoch;loss\n1;0,5\n2;1e400\n-1;-2\n", "\x00\x00epoch,step\n1,1\n1,1\n", "[{\"epoch\": 1}, NaN", "{\"epoch\": {\"epoch\": Infinity}}\n", "Epoch 1/2\r50%|##| 1/2\r\x1b[1A",
		"epoch,step,loss,val_loss\n0,10,2,\n0,20,1,2\n1,30,1,\n1,40,1,2\n2,50,1,\n", "{\"epoch\": 1, \"step\": 1, \"loss\": 2}\n{\"epoch\": 1, \"step\": 2}\n{\"epoch\": 1.5, \"step\": 3}\n",
		"Epoch 1 | Iter 50/400\nEpoch 1 | Iter 100/400\nEpoch 2 | Iter 150/400\nEpoch 3/4 | Iter 250/400\nglobal step 300/400\n50%|# | 9/20\n",
		"Epoch 1 Batch 100 Loss 2.3\nValidation Loss: 2.1\nEpoch 1 Batch 200 Loss 2.0\n",
		"Chain 1 Iteration:  100 / 2000 [  5%]  (Warmup)\nEpoch 1/2 loss 1\n",
		"{'epoch': 1, 'step': 50, 'loss': 2}\n{'epoch': 1, 'step': 100, 'loss': 2}\n{'epoch': 2, 'step': 150, 'loss': 2}\n"} {
		f.Add([]byte(s), uint16(len(s)/3))
	}
	f.Fuzz(func(t *testing.T, data []byte, cut uint16) {
		if len(data) > 1<<16 {
			return
		}
		dir := t.TempDir()
		path := filepath.Join(dir, "log.csv")
		at := min(int(cut), len(data))
		read := func(pieces ...[]byte) ([]Row, TailStats) {
			os.Remove(path)
			var rows []Row
			var resume *TailState
			for i, piece := range pieces {
				appendTo(t, path, string(piece))
				tail, err := Open(path, TailOptions{Resume: resume, MaxLine: 4096, Location: time.UTC})
				if err != nil {
					t.Fatal(err)
				}
				for range 100 {
					poll := tail.Poll
					if i == len(pieces)-1 {
						poll = tail.Finish
					}
					more, _ := poll(time.Unix(1, 0))
					rows = append(rows, more...)
					if tail.Stats().Behind == 0 {
						break
					}
				}
				state := roundTrip(t, tail.State())
				resume = &state
				tail.Close()
			}
			return rows, resume.Stats
		}
		whole, stats := read(data)
		for i := range whole {
			checkRow(t, &whole[i])
		}
		if stats.Rows != len(whole) || stats.Bad < 0 || len(stats.FirstBad) > maxKeptReports || len(stats.FirstNoted) > maxKeptReports {
			t.Fatalf("%d rows, stats %+v", len(whole), stats)
		}
		if rows, scanned, err := ReadLog(path, TailOptions{MaxLine: 4096, Location: time.UTC}); scanned.Format == stats.Format && !formats[stats.Format].sparse {
			if a, b := rowText(whole), rowText(rows); a != b || scanned.Bad != stats.Bad || scanned.Noted != stats.Noted || err != nil && !errors.Is(err, ErrNoData) {
				t.Fatalf("followed %s %+v\nscanned %s %+v\n%v", a, stats, b, scanned, err)
			}
		}
		parts, partStats := read(data[:at], data[at:])
		if partStats.Format != stats.Format {
			return // the first chunk looked like another format
		}
		if a, b := rowText(whole), rowText(parts); a != b && stats.Format != "huggingface" {
			t.Fatalf("at once %s\nin two pieces %s", a, b)
		}
	})
}

func rowText(rows []Row) string {
	s := ""
	for i := range rows {
		r := rows[i]
		s += fmt.Sprintf("%d:%x:%g%t ", r.Line, rowHash(&r, 0)+new(textHashes).of(&r), r.open, r.undecided)
	}
	return s
}

// FuzzTailLine passes one line to every parser.
func FuzzTailLine(f *testing.F) {
	for _, s := range []string{"epoch,loss", "1,2", `{"epoch": 1, "loss": 2}`, "Epoch 1/3: 50%|##| 5/10 loss=1e-3", `"a""b",c`, "1;2,5", "\x1b[1m[3/20]", "step 9 of 10 1.5e5 samples/s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		for name, format := range formats {
			if format.lines == nil {
				continue
			}
			tail, err := Open(filepath.Join(t.TempDir(), "x"), TailOptions{Format: name, Location: time.UTC})
			if err != nil {
				t.Fatal(err)
			}
			tail.line([]byte("epoch,step,loss,model"), 1)
			tail.line([]byte(line), 2)
			tail.line([]byte(line), 3)
			tail.lp.flush(tail)
			for i := range tail.rows {
				checkRow(t, &tail.rows[i])
			}
			if len(tail.rows) > 2 {
				t.Fatalf("%s: %d rows of two lines", name, len(tail.rows))
			}
		}
	})
}

// FuzzTailNumber checks that accepted numbers are finite numbers and survive a round trip.
func FuzzTailNumber(f *testing.F) {
	for _, s := range []string{"1", "-0.5", "1e400", "0,5", "1.234,5", "1,234.5", "60,000", "93%", "nan", "0x1p-2", "1_000", "--1", "1e", "٣"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, s string, whole bool) {
		v, how := parseNumber([]byte(s), whole)
		if math.IsInf(v, 0) || math.IsNaN(v) != (how != readNumber && how != readComma) {
			t.Fatalf("%q is %g (%d)", s, v, how)
		}
		if how == readNumber {
			if again, _ := parseNumber([]byte(fmt.Sprint(v)), whole); again != v {
				t.Fatalf("%q is %g, which is read as %g", s, v, again)
			}
		}
		parseStamp([]byte(s), time.UTC)
	})
}

// FuzzTailState checks that a damaged state is either rejected or used without harm.
func FuzzTailState(f *testing.F) {
	b := newBench(f, TailOptions{})
	b.write(header2 + epochRows(1, 5))
	b.poll()
	state := b.tail.State()
	state.Path = "log.csv"
	data, _ := json.Marshal(state)
	f.Add(data)
	f.Add([]byte(`{"version":1,"path":"log.csv","offset":4,"parser":{"delimiter":"é"},"seen":"AAAA"}`))
	text := header2 + epochRows(1, 8)
	f.Fuzz(func(t *testing.T, data []byte) {
		var s TailState
		if json.Unmarshal(data, &s) != nil {
			return
		}
		s.Path = filepath.Join(t.TempDir(), "log.csv")
		appendTo(t, s.Path, text)
		tail, err := Open(s.Path, TailOptions{Resume: &s})
		if err != nil {
			return
		}
		defer tail.Close()
		rows, _ := tail.Poll(time.Unix(1, 0))
		for i := range rows {
			if rows[i].Line > s.Line+9 {
				t.Fatalf("line %d of a file with 9", rows[i].Line)
			}
		}
		tail.State()
	})
}
