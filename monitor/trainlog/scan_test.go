package trainlog

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func writeLog(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func zipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(data)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Faults of a finished log. An absent epoch is -1.
var scanCases = map[string]struct {
	text   string
	epochs []float64
	bad    []string
	noted  []string
	check  func(t *testing.T, rows []Row, s TailStats)
}{
	"cut-within-the-last-number": {text: header2 + "1,0.5\n2,0.2", epochs: []float64{1, 2}},
	"cut-within-the-last-line":   {text: header2 + "1,0.5\n2", epochs: []float64{1}, bad: []string{"line 3: 1 fields, want 2"}},
	"cut-within-quotes": {text: "epoch,model_name\n1,a\n2,\"b", epochs: []float64{1},
		bad: []string{"line 3: quote without end"}},
	"header-only": {text: header2},
	"header-late": {text: "starting up\n" + header2 + "1,0.5\n", epochs: []float64{1},
		bad: []string{`line 1: row before the header: "starting up"`}},
	"two-headers": {text: header2 + "1,0.5\n" + header2 + "2,0.4\n", epochs: []float64{1, 2}, noted: []string{"line 3: header repeated"},
		check: func(t *testing.T, _ []Row, s TailStats) { want(t, "headers", s.Headers, 1) }},
	"columns-reordered-and-added": {text: header2 + "1,0.5\nthroughput,train_loss,epoch\n100,0.4,2\n", epochs: []float64{1, 2},
		noted: []string{`line 3: header changed to "throughput,train_loss,epoch"`},
		check: func(t *testing.T, rows []Row, _ TailStats) {
			want(t, "loss", values(rows, TrainLoss), []float64{.5, .4})
			want(t, "throughput", values(rows, Throughput), []float64{-1, 100})
		}},
	"copy-truncated-under-a-writer": {text: strings.Repeat("\x00", 5000) + "1,0.5\n" + header2 + "2,0.4\n", epochs: []float64{2},
		bad: []string{`line 1: row before the header: "1,0.5"`}, noted: []string{"line 3: NUL bytes left out"}},
	"two-rotated-files-in-one": {text: header2 + epochRows(1, 3) + header2 + epochRows(2, 5), epochs: []float64{1, 2, 3, 4, 5},
		noted: []string{"line 5: header repeated", "line 6: duplicate row", "line 7: duplicate row"}},
	"crlf-and-bom": {text: "\ufeffepoch,train_loss\r\n1,0.5\r\n2,0.4\r\n", epochs: []float64{1, 2}},
	"nul-block":    {text: header2 + "1,0.5\n" + strings.Repeat("\x00", 700) + "2,0.4\n3,0.3\n", epochs: []float64{1, 2, 3}, noted: []string{"line 4: NUL bytes left out"}},
	"utf16":        {text: string(utf16le("\ufeffepoch,train_loss\n1,0.5\n2,0.4")), epochs: []float64{1, 2}},
	"utf16-cut":    {text: string(utf16be("\ufeffepoch,train_loss\n1,0.5\n2,0.4\n")) + "\x00", epochs: []float64{1, 2}},
	"quoted-newline": {text: "epoch,model_name\n1,\"res\nnet\"\n2,x\n", epochs: []float64{1, 2},
		check: func(t *testing.T, rows []Row, _ TailStats) { want(t, "name", rows[0].Model, "res\nnet") }},
	"decimal-comma": {text: "epoch;train_loss\n1;0,5\n", epochs: []float64{1}, noted: []string{`line 2: train_loss is "0,5": read as 0.5`}},
	"nan-inf-1e400-negative": {text: "epoch,train_loss,epoch_time\n1,nan,1\n2,inf,1\n3,1e400,-1\n", epochs: []float64{1, 2, 3},
		noted: []string{`line 2: train_loss is "nan": no data`, `line 3: train_loss is "inf": no data`, `line 4: train_loss is "1e400", out of range: no data`, `line 4: epoch_time is "-1", negative: no data`},
		check: func(t *testing.T, rows []Row, _ TailStats) {
			want(t, "loss", values(rows, TrainLoss), []float64{-1, -1, -1})
			want(t, "time", values(rows, EpochTime), []float64{1, 1, -1})
		}},
	"wrong-column-count": {text: header2 + "1,0.5\n2,0.4,7\n3\n4,0.2\n", epochs: []float64{1, 4},
		bad: []string{"line 3: 3 fields, want 2", "line 4: 1 fields, want 2"}},
	"epoch-goes-back": {text: header2 + "1,0.5\n2,0.4\n1,0.6\n3,0.2\n", epochs: []float64{1, 2, 1, 3}, noted: []string{"line 4: epoch goes back from 2 to 1"},
		check: func(t *testing.T, rows []Row, s TailStats) {
			want(t, "again", []any{s.Repeated, rows[1].Repeated, rows[2].Repeated, rows[3].Repeated}, []any{1, false, true, false})
		}},
	"step-goes-back-within-an-epoch": {text: "epoch,step,loss\n1,10,0.5\n1,20,0.4\n1,15,0.6\n", epochs: []float64{1, 1, 1}, noted: []string{"line 4: step goes back from 20 to 15"}},
	"time-goes-back":                 {text: "epoch,time_so_far\n1,10\n2,5\n", epochs: []float64{1, 2}, noted: []string{"line 3: time_so_far goes back from 10 to 5"}},
	"duplicate-rows": {text: header2 + "1,0.5\n1,0.50\n", epochs: []float64{1}, noted: []string{"line 3: duplicate row"},
		check: func(t *testing.T, _ []Row, s TailStats) { want(t, "duplicates", s.Duplicates, 1) }},
	"two-writers": {text: header2 + "1,0.5\n1,0.51\n2,0.4\n2,0.41\n", epochs: []float64{1, 1, 2, 2}, noted: []string{"line 3: epoch 1 again", "line 5: epoch 2 again"}},
}

func TestScan(t *testing.T) {
	for name, c := range scanCases {
		for _, gz := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/gzip=%v", name, gz), func(t *testing.T) {
				data := []byte(c.text)
				if gz {
					data = zipped(t, data)
				}
				rows, s, err := ReadLog(writeLog(t, "log.csv", data), TailOptions{})
				if errors.Is(err, ErrNoData) != (len(c.epochs) == 0) || err != nil && !errors.Is(err, ErrNoData) {
					t.Fatal(err)
				}
				want(t, "epochs", values(rows, Epoch), append([]float64{}, c.epochs...))
				want(t, "rows, bad, noted, bytes", []any{s.Rows, s.Bad, s.Noted, s.Bytes}, []any{len(c.epochs), len(c.bad), len(c.noted), len(c.text)})
				want(t, "bad", s.FirstBad, append([]string{}, c.bad...))
				want(t, "noted", s.FirstNoted, append([]string{}, c.noted...))
				if c.check != nil {
					c.check(t, rows, s)
				}
			})
		}
	}
}

// A repeated row is skipped while the original is one of the last 1024 rows; later it is recognised by its position.
func TestScanDuplicatesFarApart(t *testing.T) {
	for gap, duplicates := range map[int]int{maxRecentRows - 1: 1, maxRecentRows: 0} {
		text := header2 + epochRows(1, 1+gap) + "1,1\n"
		s, err := Scan(writeLog(t, "log.csv", []byte(text)), TailOptions{}, func(*Row) error { return nil })
		want(t, fmt.Sprintf("duplicates, again, error after %d rows", gap), []any{s.Duplicates, s.Repeated, err}, []any{duplicates, 1 - duplicates, nil})
	}
}

// recentRows contains exactly the last 1024 rows.
func TestRowMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m recentRows
		added := rapid.SliceOfN(rapid.Uint64Range(0, 3000), 1, 4000).Draw(t, "hashes")
		for _, h := range added {
			m.add(h * 2 * maxRecentRows) // many in one chain
		}
		last := map[uint64]bool{}
		for _, h := range added[max(0, len(added)-maxRecentRows):] {
			last[h] = true
		}
		for h := range uint64(3001) {
			if m.has(h*2*maxRecentRows) != last[h] {
				t.Fatalf("%d: %v", h, !last[h])
			}
		}
	})
}

func TestScanStopsWhenTold(t *testing.T) {
	enough := errors.New("enough")
	for name, text := range map[string]string{
		"log.csv": header2 + epochRows(1, 50_000), "log.jsonl": strings.Repeat(`{"epoch": 1, "loss": 2}`+"\n", 3) + `{"epoch": 2, "loss": 1}`,
		"log.json": `[{"epoch": 1, "step": 1, "loss": 2}, {"epoch": 2, "step": 2, "loss": 2}, {"epoch": 3, "step": 3}]`,
	} {
		calls := 0
		s, err := Scan(writeLog(t, name, []byte(text)), TailOptions{}, func(r *Row) error {
			if e, _ := r.Value(Epoch); e == 2 {
				return enough
			}
			calls++
			return nil
		})
		want(t, name, []any{calls, err, s.Rows >= 2}, []any{1, enough, true})
	}
}

func TestScanRefusals(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	many := filepath.Join(dir, "many")
	for _, run := range []string{"one", "two"} {
		copyFile(t, firstEvents(t), filepath.Join(many, run, "events.out.tfevents.1.host"))
	}
	for path, c := range map[string]struct {
		o      TailOptions
		target error
		says   string
	}{
		filepath.Join(dir, "absent"):         {target: fs.ErrNotExist, says: "no such file"},
		pipe:                                 {says: "it is a pipe, not a file"},
		dir:                                  {says: "many holds the event files of 2 runs (\"one, two\"): name one"},
		many:                                 {o: TailOptions{Format: "keras"}, target: ErrNoData, says: "it is a directory with neither"},
		"any":                                {o: TailOptions{Format: "excel"}, says: "tensorboard"},
		writeLog(t, "x.csv", zipped(t, nil)): {target: ErrNoData, says: "no data in it"},
		writeLog(t, "y.csv", zipped(t, []byte(header2+"1,1\n"))[:12]): {target: ErrNoData, says: "compressed data is damaged after"},
		writeLog(t, "z.csv", []byte{0x1f, 0x8b, 8}):                   {target: errCompressed, says: "compressed data is damaged"},
	} {
		rows, s, err := ReadLog(path, c.o)
		if err == nil || c.target != nil && !errors.Is(err, c.target) || !strings.Contains(err.Error(), c.says) || strings.Count(err.Error(), path) != 1 {
			t.Errorf("%s: %d rows, %+v: %v", path, len(rows), s, err)
		}
	}
}

// Truncated or damaged compressed data yields the rows before the damage.
func TestScanDamagedGzip(t *testing.T) {
	data := zipped(t, []byte(header2+epochRows(1, 20_000)))
	rows, s, err := ReadLog(writeLog(t, "log.csv", data[:len(data)*3/4]), TailOptions{})
	if err != nil || len(rows) < 10_000 || !strings.Contains(fmt.Sprint(s.FirstBad), "compressed data is damaged after ") {
		t.Errorf("cut: %d rows, %v, %v", len(rows), s.FirstBad, err)
	}
	data[len(data)*3/4] ^= 0xff
	rows, s, err = ReadLog(writeLog(t, "log.csv", data), TailOptions{})
	if err != nil || len(rows) < 10_000 || s.Bad == 0 {
		t.Errorf("flipped: %d rows, %v, %v", len(rows), s.FirstBad, err)
	}
}

// Memory grows neither with the rows of the log, nor with its bytes, nor with its oddities.
func TestScanMemory(t *testing.T) {
	b := newBench(t, TailOptions{})
	b.write(header2)
	for i := range 9 {
		b.append("\n" + epochRows(1+1000*i, 1000+1000*i))
		if err := os.Truncate(b.path, int64(i+1)*(5<<30)/9); err != nil {
			t.Skipf("this file system has no sparse files of 5 GB: %v", err)
		}
	}
	document := []byte(`{"log_history": [` + strings.Repeat(`{"epoch": 1, "loss": 0.5, "step": 1},`+"\n", 100_000) + `{"epoch": 2, "step": 2, "loss": "`)
	document = append(append(document, bytes.Repeat([]byte("9"), 40<<20)...), `"}]}`...)
	b.append("\n" + epochRows(9001, 9003) + strings.Repeat("9", 3<<20) + "\n9004,0.1\n")
	logs := map[string]struct {
		path      string
		rows, bad int
	}{
		"5 GB with holes":          {b.path, 9004, 1},
		"many rows":                {writeLog(t, "rows.csv", []byte(header2+epochRows(1, 300_000))), 300_000, 0},
		"many bad rows":            {writeLog(t, "bad.csv", []byte(header2+"1,1\n"+strings.Repeat("1,2,3\n", 1_000_000))), 1, 1_000_000},
		"a different text in each": {writeLog(t, "texts.csv", []byte("epoch,model_name\n"+strings.ReplaceAll(epochRows(1, 300_000), "0.", "m"))), 300_000, 0},
		"a value of 40 MB":         {writeLog(t, "trainer_state.json", document), 1, 1},
		"one step for ever":        {writeLog(t, "metrics.csv", []byte("epoch,step,val_loss\n"+strings.Repeat("1,1,\n", 300_000))), 1, 0},
	}
	for name, log := range logs {
		var stats TailStats
		var err error
		peak := heapPeak(func(sample func()) {
			rows := 0
			stats, err = Scan(log.path, TailOptions{}, func(*Row) error {
				if rows++; rows%1000 == 1 {
					sample()
				}
				return nil
			})
			sample()
		})
		want(t, name+": rows, bad, error", []any{stats.Rows, stats.Bad, err}, []any{log.rows, log.bad, nil})
		if peak > 16<<20 || stats.Bytes > 64<<20 {
			t.Errorf("%s took %d MiB of memory and read %d bytes", name, peak>>20, stats.Bytes)
		}
	}
}

// A scanned row does not modify clones of earlier rows.
func TestScanClone(t *testing.T) {
	path := writeLog(t, "log.csv", []byte("epoch,model_name,gpu_utilization_0,timestamp\n1,a,50,2025-07-01 10:00:00\n2,b,60,\n3,,,\nepoch,train_loss\n4,0.5\n"))
	var kept []Row
	if _, err := Scan(path, TailOptions{}, func(r *Row) error { kept = append(kept, r.Clone()); return nil }); err != nil {
		t.Fatal(err)
	}
	want(t, "models", []string{kept[0].Model, kept[1].Model, kept[2].Model}, []string{"a", "b", ""})
	want(t, "utilization", []float64{kept[0].GPUUtil[0], kept[1].GPUUtil[0]}, []float64{50, 60})
	if !math.IsNaN(kept[2].GPUUtil[0]) || len(kept[3].GPUUtil) > 0 || !kept[1].Stamp.IsZero() || kept[0].Stamp.IsZero() {
		t.Errorf("values of one row are in another: %+v", kept)
	}
}

// The fast paths for numbers and timestamps return the results of the standard library.
func TestPlainNumbersAndStamps(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		berlin = time.FixedZone("CET", 3600)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`[+-]?[0-9]{0,20}(\.[0-9]{0,20})?`).Draw(t, "number")
		if v, ok := plainFloat([]byte(s)); ok {
			if slow, err := strconv.ParseFloat(s, 64); err != nil || math.Float64bits(v) != math.Float64bits(slow) {
				t.Fatalf("%q is %v, want %v (%v)", s, v, slow, err)
			}
		}
		s = rapid.StringMatching(`20[0-3][0-9]-[01][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{1,9})?`).Draw(t, "stamp")
		for _, loc := range []*time.Location{time.UTC, berlin} {
			slow, err := time.ParseInLocation(strings.Replace("2006-01-02 15:04:05.999999999", " ", s[10:11], 1), s, loc)
			if quick, ok := plainStamp([]byte(s), loc); ok != (err == nil) || ok && !quick.Equal(slow) {
				t.Fatalf("%q is %v %v, want %v %v", s, quick, ok, slow, err)
			}
		}
	})
	for s, quick := range map[string]bool{"0.25": true, "-3": true, "+1.": true, "": false, ".": false, "-": false, "1e5": false, "0.12345678901234567": false, "1.2.3": false} {
		if _, ok := plainFloat([]byte(s)); ok != quick {
			t.Errorf("%q is read at once: %v", s, ok)
		}
	}
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err = errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755)); err == nil {
		err = os.WriteFile(to, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
