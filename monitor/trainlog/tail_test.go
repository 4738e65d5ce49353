package trainlog

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf16"
)

func roundTrip(t testing.TB, s TailState) TailState {
	t.Helper()
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back TailState
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

func want(t testing.TB, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}

// epochRows returns rows of a two-column log, from…to.
func epochRows(from, to int) string {
	var b strings.Builder
	for e := from; e <= to; e++ {
		fmt.Fprintf(&b, "%d,%g\n", e, 1/float64(e))
	}
	return b.String()
}

const header2 = "epoch,train_loss\n"

// Faults of a training log as users encounter them.
var tailCases = map[string]func(t *testing.T, b *bench){
	"half-line": func(t *testing.T, b *bench) {
		b.write(header2 + "1,0.5\n2,0.2")
		want(t, "epochs", b.poll(), []float64{1})
		for range 3 {
			want(t, "epochs while half", b.poll(), []float64{})
		}
		b.append("5\n")
		want(t, "epochs when whole", b.poll(), []float64{2})
		want(t, "loss", values(b.rows, TrainLoss), []float64{0.5, 0.25})
		want(t, "bad", b.stats().Bad, 0)
	},
	"half-line-over-a-restart-of-the-agent": func(t *testing.T, b *bench) {
		b.write(header2 + "1,0.5\n2,0.2")
		want(t, "epochs", b.poll(), []float64{1})
		b.restart(TailOptions{})
		b.append("5\n3,0.1\n")
		want(t, "epochs", b.poll(), []float64{2, 3})
		want(t, "rows", b.stats().Rows, 3)
		want(t, "lines", []int{b.rows[1].Line, b.rows[2].Line}, []int{3, 4})
	},
	"half-header": func(t *testing.T, b *bench) {
		b.write("epoch,tra")
		want(t, "epochs", b.poll(), []float64{})
		b.append("in_loss\n1,0.5\n")
		want(t, "epochs", b.poll(), []float64{1})
		want(t, "loss", values(b.rows, TrainLoss), []float64{0.5})
	},
	"header-late": func(t *testing.T, b *bench) {
		b.write("starting up\n1,0.9\n")
		b.poll()
		b.append(header2 + "2,0.5\n")
		want(t, "epochs", b.poll(), []float64{2})
		want(t, "bad", b.stats().FirstBad, []string{`line 1: row before the header: "starting up"`, `line 2: row before the header: "1,0.9"`})
	},
	"header-repeated": func(t *testing.T, b *bench) {
		b.write(header2 + "1,0.5\n" + header2 + "2,0.4\n")
		want(t, "epochs", b.poll(), []float64{1, 2})
		want(t, "headers", b.stats().Headers, 1)
		want(t, "bad", b.stats().Bad, 0)
		want(t, "noted", b.stats().FirstNoted, []string{"line 3: header repeated"})
	},
	"columns-reordered": func(t *testing.T, b *bench) {
		b.write(header2 + "1,0.5\ntrain_loss,epoch\n0.4,2\n")
		want(t, "epochs", b.poll(), []float64{1, 2})
		want(t, "loss", values(b.rows, TrainLoss), []float64{0.5, 0.4})
	},
	"columns-added": func(t *testing.T, b *bench) {
		b.write(header2 + "1,0.5\nepoch,train_loss,throughput\n2,0.4,100\n")
		want(t, "epochs", b.poll(), []float64{1, 2})
		want(t, "throughput", values(b.rows, Throughput), []float64{-1, 100})
	},
	"unknown-names": func(t *testing.T, b *bench) {
		b.write("Epoch , LOSS,val acc,something\n1,0.5,0.9,x\n")
		want(t, "epochs", b.poll(), []float64{1})
		want(t, "accuracy", values(b.rows, TestAccuracy), []float64{0.9})
	},
	"truncated": func(t *testing.T, b *bench) {
		b.write(header2 + epochRows(1, 5))
		b.poll()
		b.write(header2)
		b.poll()
		b.append(epochRows(6, 7))
		want(t, "epochs", b.poll(), []float64{6, 7})
		want(t, "resets", b.stats().Resets, 1)
		want(t, "bad", b.stats().Bad, 0)
	},
	"truncated-and-grown-beyond": func(t *testing.T, b *bench) {
		b.write(header2 + epochRows(1, 3))
		b.poll()
		b.write(header2 + "4,0.9000000\n5,0.8000000\n6,0.7000000\n7,0.6000000\n")
		want(t, "epochs", b.poll(), []float64{4, 5, 6, 7})
		want(t, "resets", b.stats().Resets, 1)
	},
	"renamed": func(t *testing.T, b *bench) {
		b.write(header2 + epochRows(1, 2))
		b.poll()
		b.append(epochRows(3, 3)) // written to the old file, unread until after the rename
		b.ok(os.Rename(b.path, b.path+".1"))
		appendTo(t, b.path+".1", epochRows(4, 4))
		b.write(header2 + epochRows(5, 6))
		want(t, "epochs", b.poll(), []float64{3, 4, 5, 6})
		want(t, "bad", b.stats().Bad, 0)
	},
	"renamed-new-file-without-header": func(t *testing.T, b *bench) {
		b.write(header2 + epochRows(1, 2))
		b.poll()
		b.ok(os.Rename(b.path, b.path+".1"))
		want(t, "epochs while there is none", b.poll(), []float64{})
		want(t, "missing", b.stats().Missing, true)
		b.write(epochRows(3, 4))
		want(t, "epochs", b.poll(), []float64{3, 4})
	},
	"copy-truncated": func(t *testing.T, b *bench) {
		b.write(header2 + epochRows(1, 9))
		b.poll()
		data, err := os.ReadFile(b.path)
		b.ok(err)
		b.ok(os.WriteFile(b.path+".1", data, 0o644))
		b.ok(os.Truncate(b.path, 0))
		b.append(epochRows(10, 11))
		want(t, "epochs", b.poll(), []float64{10, 11})
	},
	"copy-truncated-under-a-writer-without-append": func(t *testing.T, b *bench) {
		f, err := os.Create(b.path)
		b.ok(err)
		defer f.Close()
		fmt.Fprint(f, header2+epochRows(1, 9))
		b.poll()
		b.ok(os.Truncate(b.path, 0))
		b.poll()
		fmt.Fprint(f, epochRows(10, 11)) // the writer's offset leaves a hole of NUL bytes
		want(t, "epochs", b.poll(), []float64{10, 11})
		want(t, "bad", b.stats().Bad, 0)
	},
	"recreated": func(t *testing.T, b *bench) {
		b.write(header2 + epochRows(1, 3))
		b.poll()
		b.ok(os.Remove(b.path))
		b.write(header2 + epochRows(4, 5))
		want(t, "epochs", b.poll(), []float64{4, 5})
		b.ok(os.Remove(b.path))
		b.poll()
		b.poll()
		b.write(header2 + epochRows(6, 6))
		want(t, "epochs", b.poll(), []float64{6})
		want(t, "resets", b.stats().Resets, 2)
	},
	"removed-while-written": func(t *testing.T, b *bench) {
		b.write(header2 + epochRows(1, 2))
		f, err := os.OpenFile(b.path, os.O_APPEND|os.O_WRONLY, 0)
		b.ok(err)
		defer f.Close()
		want(t, "epochs", b.poll(), []float64{1, 2})
		b.ok(os.Remove(b.path))
		want(t, "epochs without a name", b.poll(), []float64{})
		fmt.Fprint(f, epochRows(3, 4))
		want(t, "epochs of the removed file", b.poll(), []float64{3, 4})
		want(t, "missing", b.stats().Missing, true)
		fmt.Fprint(f, epochRows(5, 5))
		b.write(header2 + epochRows(6, 6))
		want(t, "epochs of both files", b.poll(), []float64{5, 6})
		want(t, "missing", b.stats().Missing, false)
	},
	"symlink-switched": func(t *testing.T, b *bench) {
		one, two := filepath.Join(b.dir, "one"), filepath.Join(b.dir, "two")
		b.ok(os.WriteFile(one, []byte(header2+epochRows(1, 2)), 0o644))
		b.ok(os.WriteFile(two, []byte(header2+epochRows(4, 5)), 0o644))
		b.ok(os.Symlink(one, b.path))
		want(t, "epochs", b.poll(), []float64{1, 2})
		appendTo(t, one, epochRows(3, 3))
		b.ok(os.Symlink(two, b.path+".new"))
		b.ok(os.Rename(b.path+".new", b.path))
		want(t, "epochs", b.poll(), []float64{3, 4, 5})
	},
	"rewritten-whole-every-epoch": func(t *testing.T, b *bench) {
		for e := 1; e <= 30; e++ {
			b.write(header2 + epochRows(1, e))
			want(t, "epochs", b.poll(), []float64{float64(e)})
		}
		want(t, "rows", b.stats().Rows, 30)
		want(t, "again", b.stats().Repeated, 0)
	},
	"replaced-whole-every-epoch": func(t *testing.T, b *bench) {
		for e := 1; e <= 30; e++ {
			b.ok(os.WriteFile(b.path+".tmp", []byte(header2+epochRows(1, e)), 0o644))
			b.ok(os.Rename(b.path+".tmp", b.path))
			want(t, "epochs", b.poll(), []float64{float64(e)})
		}
		want(t, "rows", b.stats().Rows, 30)
	},
	"rewritten-seen-in-the-middle": func(t *testing.T, b *bench) {
		b.write(header2 + epochRows(1, 5))
		b.poll()
		b.write("")
		b.poll()
		b.write(header2 + epochRows(1, 2) + "3,0.3")
		want(t, "epochs", b.poll(), []float64{})
		b.write(header2 + epochRows(1, 6))
		want(t, "epochs", b.poll(), []float64{6})
		want(t, "bad", b.stats().Bad, 0)
	},
	"rewritten-with-a-new-column": func(t *testing.T, b *bench) {
		b.write(header2 + epochRows(1, 3))
		b.poll()
		b.write("epoch,test_loss,train_loss\n1,,1\n2,,0.5\n3,,0.3333333333333333\n4,0.7,0.2\n")
		want(t, "epochs", b.poll(), []float64{4})
		want(t, "replayed", b.stats().Replayed, 3)
	},
	"rewritten-with-a-bad-line": func(t *testing.T, b *bench) {
		for e := 2; e <= 9; e++ {
			b.write(header2 + "1,0.5\nnonsense,nonsense,nonsense\n" + epochRows(2, e) + strings.Repeat("#\n", e%3))
			want(t, "epochs", len(b.poll()) > 0, true)
		}
		want(t, "bad", b.stats().Bad, 1)
		want(t, "rows", b.stats().Rows, 9)
	},
	"rewritten-while-the-agent-was-dead": func(t *testing.T, b *bench) {
		b.write(header2 + epochRows(1, 5))
		b.poll()
		b.restart(TailOptions{})
		b.write("epoch,train_loss,throughput\n" + strings.ReplaceAll(epochRows(1, 7), "\n", ",\n"))
		want(t, "epochs", b.poll(), []float64{6, 7})
		want(t, "rows", b.stats().Rows, 7)
	},
	"long-log-rewritten": func(t *testing.T, b *bench) {
		b.write(header2 + epochRows(1, 3000))
		want(t, "rows", len(b.poll()), 3000)
		b.write("epoch,train_loss,throughput\n" + strings.ReplaceAll(epochRows(1, 3002), "\n", ",\n"))
		want(t, "epochs", b.poll(), []float64{3001, 3002})
	},
	"job-restarted-from-checkpoint-rewrites": func(t *testing.T, b *bench) {
		b.write("epoch,train_loss,time_so_far\n1,0.9,10\n2,0.8,20\n3,0.7,30\n")
		b.poll()
		b.write("epoch,train_loss,time_so_far\n3,0.7,11\n4,0.6,21\n")
		want(t, "epochs", b.poll(), []float64{3, 4})
		want(t, "again", []bool{b.rows[3].Repeated, b.rows[4].Repeated}, []bool{true, false})
	},
	"crlf": func(t *testing.T, b *bench) {
		b.write("epoch,train_loss,dataset\r\n1,0.5,cifar\r\n2,0.4,cifar\r")
		want(t, "epochs", b.poll(), []float64{1, 2})
		b.append("\n3,0.3,cifar\r\n")
		want(t, "epochs", b.poll(), []float64{3})
		want(t, "dataset", b.rows[2].Dataset, "cifar")
		want(t, "lines", []int{b.rows[0].Line, b.rows[1].Line, b.rows[2].Line}, []int{2, 3, 4})
	},
	"bom": func(t *testing.T, b *bench) {
		b.write("\ufeffepoch,train_loss\n1,0.5\n\ufeffepoch,train_loss\n2,0.5\n")
		want(t, "epochs", b.poll(), []float64{1, 2})
	},
	"nul": func(t *testing.T, b *bench) {
		b.write(header2 + "1,0.5\n\x00\x00\x002,0.4\n3,0\x00.3\n")
		want(t, "epochs", b.poll(), []float64{1, 2, 3})
		want(t, "loss", values(b.rows, TrainLoss), []float64{0.5, 0.4, 0.3})
		want(t, "noted", b.stats().Noted, 1)
	},
	"utf16": func(t *testing.T, b *bench) {
		for name, enc := range map[string]func(string) []byte{"little": utf16le, "big": utf16be} {
			b := newBench(t, TailOptions{})
			text := enc("\ufeffepoch,train_loss,dataset\r\n1,0.5,a\U0001F600\r\n2,0.4,b\r\n")
			b.write(string(text[:len(text)-7])) // a cut inside a character
			want(t, name, b.poll(), []float64{1})
			b.restart(TailOptions{})
			b.append(string(text[len(text)-7:]))
			want(t, name, b.poll(), []float64{2})
			want(t, name, b.rows[0].Dataset, "a\U0001F600")
		}
	},
	"quoted-newline": func(t *testing.T, b *bench) {
		b.write("epoch,model_name,train_loss\n1,\"res\nnet\",0.5\n2,\"a \"\"b\"\", c\",0.4\n3,\"open\n")
		want(t, "epochs", b.poll(), []float64{1, 2})
		want(t, "names", []string{b.rows[0].Model, b.rows[1].Model}, []string{"res\nnet", `a "b", c`})
		b.restart(TailOptions{}) // in the middle of a record
		b.append("end\",0.3\n")
		want(t, "epochs", b.poll(), []float64{3})
		want(t, "name", b.rows[2].Model, "open\nend")
	},
	"quote-without-end": func(t *testing.T, b *bench) {
		b.write("epoch,model_name,train_loss\n1,5\" disk,0.5\n" + strings.ReplaceAll(epochRows(2, 40), ",", ",m,"))
		got := b.poll()
		want(t, "last", got[len(got)-1], 40.)
		want(t, "rows", len(got), 39)
		want(t, "bad", b.stats().FirstBad, []string{"line 2: quote without end"})
	},
	"decimal-comma": func(t *testing.T, b *bench) {
		b.write("epoch;train_loss;data_count\n1;0,5;60.000\n2;1.234,5;60000\n")
		b.poll()
		want(t, "loss", values(b.rows, TrainLoss), []float64{0.5, 1234.5})
		want(t, "noted once", b.stats().Noted, 1)
		b2 := newBench(t, TailOptions{})
		b2.write("epoch,train_loss,data_count\n1,\"0,5\",\"60,000\"\n2,0,4,60000\n")
		want(t, "epochs", b2.poll(), []float64{1})
		want(t, "loss", values(b2.rows, TrainLoss), []float64{0.5})
		want(t, "count", values(b2.rows, DataCount), []float64{60000})
		want(t, "bad", b2.stats().FirstBad, []string{"line 3: 4 fields, want 3"})
	},
	"nan-inf-1e400-negative": func(t *testing.T, b *bench) {
		b.write("epoch,train_loss,epoch_time,throughput\n1,nan,2,10\n2,inf,2,\n3,1e400,-2,0x10\n4,-0.5,0,abc\n5,None,N/A,null\n")
		want(t, "epochs", b.poll(), []float64{1, 2, 3, 4, 5})
		want(t, "loss", values(b.rows, TrainLoss), []float64{-1, -1, -1, -0.5, -1})
		want(t, "time", values(b.rows, EpochTime), []float64{2, 2, -1, 0, -1})
		want(t, "throughput", values(b.rows, Throughput), []float64{10, -1, -1, -1, -1})
		want(t, "bad", b.stats().Bad, 0)
		want(t, "noted", b.stats().FirstNoted, []string{`line 2: train_loss is "nan": no data`, `line 3: train_loss is "inf": no data`,
			`line 4: train_loss is "1e400", out of range: no data`, `line 4: epoch_time is "-2", negative: no data`, `line 4: throughput is "0x10": no data`,
			`line 5: throughput is "abc": no data`})
	},
	"ragged": func(t *testing.T, b *bench) {
		b.write("epoch,train_loss,throughput\n1,0.5\n2,0.5,10\n3,0.5,10,7\n4,0.5,10,\nSUMMARY,0.4,12\n5,,\n")
		want(t, "epochs", b.poll(), []float64{2, 4, 5})
		want(t, "bad", b.stats().FirstBad, []string{"line 2: 2 fields, want 3", "line 4: 4 fields, want 3", `line 6: epoch is not a number: "SUMMARY"`})
	},
	"duplicate-rows": func(t *testing.T, b *bench) {
		b.write(header2 + "1,0.5\n1,0.5\n2,0.4\n1,0.50\n")
		want(t, "epochs", b.poll(), []float64{1, 2})
		want(t, "duplicates", b.stats().Duplicates, 2)
		want(t, "noted", b.stats().FirstNoted, []string{"line 3: duplicate row", "line 5: duplicate row"})
	},
	"epoch-goes-back": func(t *testing.T, b *bench) {
		b.write(header2 + "1,0.5\n2,0.4\n1,0.6\n2,0.3\n3,0.2\n")
		want(t, "epochs", b.poll(), []float64{1, 2, 1, 2, 3})
		again := []bool{}
		for _, r := range b.rows {
			again = append(again, r.Repeated)
		}
		want(t, "again", again, []bool{false, false, true, true, false})
		want(t, "noted", b.stats().FirstNoted, []string{"line 4: epoch goes back from 2 to 1", "line 5: epoch 2 again"})
	},
	"time-goes-back": func(t *testing.T, b *bench) {
		b.write("epoch,time_so_far\n1,10\n2,20\n3,5\n4,15\n")
		want(t, "epochs", b.poll(), []float64{1, 2, 3, 4})
		want(t, "noted", b.stats().FirstNoted, []string{"line 4: time_so_far goes back from 20 to 5"})
	},
	"two-writers": func(t *testing.T, b *bench) {
		b.write(header2 + "1,0.5\n1,0.51\n2,0.4\n2,0.41\n3,0.33,0.31\n,0.3\n")
		want(t, "epochs", b.poll(), []float64{1, 1, 2, 2, -1})
		want(t, "again", b.stats().Repeated, 2)
		want(t, "bad", b.stats().FirstBad, []string{"line 6: 3 fields, want 2"})
	},
	"no-log": func(t *testing.T, b *bench) {
		for range 3 {
			want(t, "epochs", b.poll(), []float64{})
		}
		s := b.stats()
		want(t, "missing, rows, last", []any{s.Missing, s.Rows, s.LastRow.IsZero(), s.Bad}, []any{true, 0, true, 0})
		b.write("")
		want(t, "epochs", b.poll(), []float64{})
		b.write(header2 + "1,0.5\n")
		want(t, "epochs", b.poll(), []float64{1})
		at := b.stats().LastRow
		b.poll()
		want(t, "last row stays", b.stats().LastRow, at)
	},
	"not-a-file": func(t *testing.T, b *bench) {
		b.ok(os.Mkdir(b.path, 0o755))
		_, err := b.tail.Poll(b.now)
		want(t, "error", err, "poll training log "+b.path+": it is a directory, not a file")
		b.ok(os.Remove(b.path))
		b.ok(syscall.Mkfifo(b.path, 0o644))
		_, err = b.tail.Poll(b.now) // must not wait for a writer
		want(t, "error", err, "poll training log "+b.path+": it is a pipe, not a file")
		b.ok(os.Remove(b.path))
		b.write(header2 + "1,0.5\n")
		want(t, "epochs", b.poll(), []float64{1})
	},
}

func TestTail(t *testing.T) {
	for name, run := range tailCases {
		t.Run(name, func(t *testing.T) { run(t, newBench(t, TailOptions{})) })
	}
}

func utf16le(s string) []byte {
	var b []byte
	for _, u := range utf16.Encode([]rune(s)) {
		b = append(b, byte(u), byte(u>>8))
	}
	return b
}

func utf16be(s string) []byte {
	b := utf16le(s)
	for i := 0; i < len(b); i += 2 {
		b[i], b[i+1] = b[i+1], b[i]
	}
	return b
}

// A restarted agent continues correctly after every byte of the log.
func TestTailResumesAnywhere(t *testing.T) {
	text := "epoch,model_name,train_loss\r\n1,\"a\nb\",0.5\r\n2,plain,0.4\n\n3,\"x\"\"y\",nan\nbad\n4,z,0.1\n"
	for cut := 0; cut <= len(text); cut++ {
		b := newBench(t, TailOptions{})
		b.write(text[:cut])
		b.poll()
		b.restart(TailOptions{})
		b.append(text[cut:])
		b.poll()
		want(t, fmt.Sprintf("cut at %d: epochs", cut), values(b.rows, Epoch), []float64{1, 2, 3, 4})
		want(t, fmt.Sprintf("cut at %d: rows, bad, resets", cut), []int{b.stats().Rows, b.stats().Bad, b.stats().Resets}, []int{4, 1, 0})
		want(t, fmt.Sprintf("cut at %d: last line", cut), b.rows[3].Line, 8)
		b.tail.Close()
	}
}

func TestTailRefusesForeignState(t *testing.T) {
	b := newBench(t, TailOptions{})
	good := b.tail.State()
	cases := map[string]func(s *TailState){
		"version":  func(s *TailState) { s.Version = 99 },
		"path":     func(s *TailState) { s.Path = "/elsewhere" },
		"negative": func(s *TailState) { s.Offset = -1 },
		"format":   func(s *TailState) { s.Format = "excel" },
	}
	for name, spoil := range cases {
		s := good
		spoil(&s)
		if _, err := Open(b.path, TailOptions{Resume: &s}); err == nil {
			t.Errorf("%s: a state that cannot be ours was taken", name)
		}
	}
}

// heapPeak returns the peak growth of the heap during f, as sampled by f; it must stay bounded for any log.
func heapPeak(f func(sample func())) uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before, peak := m.HeapAlloc, m.HeapAlloc
	f(func() {
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapAlloc)
	})
	return peak - before
}

func TestTailLineOf100MB(t *testing.T) {
	b := newBench(t, TailOptions{})
	f, err := os.Create(b.path)
	b.ok(err)
	defer f.Close()
	fmt.Fprint(f, header2+"1,0.5\n2,")
	block := []byte(strings.Repeat("9", 1<<20))
	var epochs []float64
	peak := heapPeak(func(sample func()) {
		for range 100 {
			if _, err := f.Write(block); err != nil {
				t.Fatal(err)
			}
			epochs = append(epochs, b.poll()...)
			sample()
		}
	})
	fmt.Fprint(f, "\n3,0.3\n")
	epochs = append(epochs, b.poll()...)
	want(t, "epochs", epochs, []float64{1, 3})
	want(t, "bad", b.stats().FirstBad, []string{"line 3: longer than 1048576 bytes"})
	if peak > 16<<20 {
		t.Errorf("a line of 100 MB took %d MiB of memory", peak>>20)
	}
}

// A log of 5 GB: nine blocks of real rows, far apart, with sparse holes between them.
func TestTailLogOf5GBAtStart(t *testing.T) {
	b := newBench(t, TailOptions{})
	b.write(header2)
	for i := range 9 {
		b.append(strings.Repeat("# a comment that is read and left out\n", 1<<15) + "\n" + epochRows(1+1000*i, 1000+1000*i))
		if err := os.Truncate(b.path, int64(i+1)*(5<<30)/9); err != nil {
			t.Skipf("this file system has no sparse files of 5 GB: %v", err)
		}
	}
	b.append("\n" + epochRows(9001, 9003))
	polls, most := 0, int64(0)
	var last float64
	peak := heapPeak(func(sample func()) {
		for {
			before := b.stats().Bytes
			rows, err := b.tail.Poll(b.now)
			b.ok(err)
			most = max(most, b.stats().Bytes-before)
			if len(rows) > 0 {
				last, _ = rows[len(rows)-1].Value(Epoch)
			}
			if polls++; polls%10 == 0 {
				sample()
			}
			if b.stats().Behind == 0 {
				break
			}
		}
	})
	want(t, "last epoch", last, 9003.)
	want(t, "rows, bad", []int{b.stats().Rows, b.stats().Bad}, []int{9003, 0})
	if most > 1<<20 || polls < 10 {
		t.Errorf("%d polls, one read %d bytes; the bound is 1 MiB", polls, most)
	}
	if peak > 16<<20 {
		t.Errorf("a log of 5 GB took %d MiB of memory", peak>>20)
	}
}

func TestTailShortRowsInBoundedPieces(t *testing.T) {
	b := newBench(t, TailOptions{MaxRows: 1000})
	b.write(header2 + epochRows(1, 50_000))
	most, total := 0, 0
	for {
		rows, err := b.tail.Poll(b.now)
		b.ok(err)
		most, total = max(most, len(rows)), total+len(rows)
		if b.stats().Behind == 0 {
			break
		}
	}
	want(t, "rows", total, 50_000)
	if most > 1000+32<<10/4 {
		t.Errorf("%d rows in one poll", most)
	}
}

func TestTailFinishTakesLastLine(t *testing.T) {
	b := newBench(t, TailOptions{})
	b.write(header2 + "1,0.5\n2,0.25")
	want(t, "polled", b.poll(), []float64{1})
	rows, err := b.tail.Finish(b.now)
	b.ok(err)
	want(t, "finished", values(rows, Epoch), []float64{2})
	rows, err = b.tail.Finish(b.now)
	b.ok(err)
	want(t, "finished again", len(rows), 0)
}

func TestTailRowsSayWhen(t *testing.T) {
	b := newBench(t, TailOptions{Location: time.UTC})
	b.write("timestamp,epoch,gpu_utilization_0,gpu_utilization_1\n2024-05-06 07:08:09.5,1,50,\n1715000000,2,60,70\nyesterday,3,,\n")
	b.poll()
	want(t, "stamp", b.rows[0].Stamp, time.Date(2024, 5, 6, 7, 8, 9, 5e8, time.UTC))
	want(t, "unix", b.rows[1].Stamp.UTC(), time.Unix(1715000000, 0).UTC())
	want(t, "unreadable", b.rows[2].Stamp.IsZero(), true)
	want(t, "at", b.rows[2].At, time.Unix(1_700_000_000, 0))
	want(t, "gpu", b.rows[1].GPUUtil, []float64{60, 70})
	if !math.IsNaN(b.rows[0].GPUUtil[1]) {
		t.Error("an empty GPU utilization is not NaN")
	}
}

func TestTailAliases(t *testing.T) {
	b := newBench(t, TailOptions{Aliases: map[string]string{"Durchlauf": "epoch", "Verlust": "Train_Loss", "accuracy": ""}})
	b.write("Durchlauf,VERLUST,accuracy\n1,0.5,0.9\n")
	want(t, "epochs", b.poll(), []float64{1})
	want(t, "loss", values(b.rows, TrainLoss), []float64{0.5})
	want(t, "left out", values(b.rows, TrainAccuracy), []float64{-1})
	_, err := Open(b.path, TailOptions{Aliases: map[string]string{"x": "no_such_column"}})
	if err == nil || !strings.Contains(err.Error(), `"no_such_column"`) {
		t.Errorf("alias to nowhere: %v", err)
	}
}

// Every canonical name resolves to its column, and no alias hides a column.
func TestColumnNames(t *testing.T) {
	for c := Column(0); c < NumColumns; c++ {
		if got := resolveName(normalizeName(strings.ToUpper(c.String()))); got.kind != toColumn || got.column != c {
			t.Errorf("%s resolves to %v", c, got.column)
		}
	}
	for name := range aliases {
		if normalizeName(name) != name {
			t.Errorf("alias %q is not in normal form %q", name, normalizeName(name))
		}
		if _, twice := columnByName[name]; twice {
			t.Errorf("alias %q is a column", name)
		}
	}
	if slices.Contains(Formats(), "") {
		t.Error("a format without a name")
	}
}

// After a restart of the job, appended rows are returned although they are equal to earlier ones, until the first row beyond
// those; a rewritten file still repeats nothing.
func TestRowsOfARestartedJob(t *testing.T) {
	b := newBench(t, TailOptions{})
	b.write(header2 + epochRows(1, 7))
	b.poll()
	b.append(epochRows(7, 7))
	want(t, "the same row of one job", len(b.poll()), 0)
	b.tail.Again()
	b.append(epochRows(5, 8) + epochRows(8, 8))
	want(t, "rows of the restarted job", b.poll(), []float64{5, 6, 7, 8})
	b.tail.Again()
	b.write(header2 + epochRows(1, 9))
	want(t, "a rewritten file", b.poll(), []float64{9})
}
