package place

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// npy encodes an .npy file of float64 or int64 cells.
func npy(descr, order string, rows, cols int, cells any) []byte {
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': (%d, %d), }", descr, order, rows, cols)
	head += strings.Repeat(" ", (64-(11+len(head))%64)%64) + "\n"
	var b bytes.Buffer
	b.WriteString("\x93NUMPY\x01\x00")
	binary.Write(&b, binary.LittleEndian, uint16(len(head)))
	b.WriteString(head)
	binary.Write(&b, binary.LittleEndian, cells)
	return b.Bytes()
}

func npz(t testing.TB, name string, arrays map[string][]byte) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for array, content := range arrays {
		w, err := z.Create(array + ".npy")
		if err != nil {
			t.Fatal(err)
		}
		w.Write(content)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return file(t, name, b.String())
}

func file(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadSamples(t *testing.T) {
	nan := math.NaN()
	path := npz(t, "s.npz", map[string][]byte{
		"alloc": npy("<i8", "False", 2, 3, []int64{1, 2, 0, 0, 1, 0}),
		"rps":   npy("<f8", "False", 2, 3, []float64{0.5, 0.25, nan, nan, 1, nan}),
		"rt_50": []byte("\x93NUMPY\x01\x00 a pickle"),
	})
	s, err := ReadSamples(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(s.Apps, []string{"app1", "app2"}) || !reflect.DeepEqual(s.Counts, [][]uint8{{1, 2}, {0, 1}}) || s.RPS[0][1] != 0.25 || !math.IsNaN(s.RPS[1][0]) {
		t.Errorf("got %+v", s)
	}
	s, err = ReadSamples(file(t, "s.csv", "n_a,n_b,rps_a,rps_b,rt50_a\n1,0,0.5,,\n0,1,,1,9\n1,1,0.3,0.9,\n1,0,0.75,,\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Table(2); err == nil || !strings.Contains(err.Error(), "2 of 6 patterns are not among the samples: [0 2] [2 0]") {
		t.Errorf("got %v", err)
	}
	table, err := s.Table(1)
	if err != nil || table.Throughput(table.Index([]uint8{1, 0})) != 0.75 {
		t.Errorf("the last row of a pattern holds: %v, %v", table, err)
	}
}

func TestFilesThatAreWrong(t *testing.T) {
	ok := npy("<f8", "False", 1, 1, []float64{1})
	for want, path := range map[string]string{
		"array rps:":                     npz(t, "a.npz", map[string][]byte{"alloc": ok}),
		"alloc is 1 × 1 and rps 2 × 1":   npz(t, "b.npz", map[string][]byte{"alloc": ok, "rps": npy("<f8", "False", 2, 1, []float64{1, 2})}),
		"a runs at -1":                   file(t, "c.csv", "n_a,rps_a\n1,-1\n"),
		"1.5 containers of a":            file(t, "d.csv", "n_a,rps_a\n1.5,1\n"),
		"column n_a without":             file(t, "e.csv", "n_a,rps_b\n1,1\n"),
		"column n_a is there twice":      file(t, "n.csv", "n_a,n_a,rps_a\n1,1,1\n"),
		"no columns n_*":                 file(t, "f.csv", "x,y\n1,1\n"),
		"line 3":                         file(t, "g.csv", "n_a,rps_a\n1,1\nz,1\n"),
		"elements \"|O\"":                npz(t, "h.npz", map[string][]byte{"alloc": npy("|O", "False", 1, 1, []float64{1})}),
		"columns come first":             npz(t, "i.npz", map[string][]byte{"alloc": npy("<f8", "True", 1, 1, []float64{1})}),
		"row 2 of 3":                     npz(t, "j.npz", map[string][]byte{"alloc": npy("<f8", "False", 3, 1, []float64{1})}),
		"not an .npy file":               npz(t, "k.npz", map[string][]byte{"alloc": []byte("hello, this is no array")}),
		"not a valid zip":                file(t, "l.npz", "no zip"),
		"want at least 1 column and at ": npz(t, "m.npz", map[string][]byte{"alloc": npy("<f8", "False", 1<<40, 1<<20, []float64{1})}),
	} {
		if _, err := ReadSamples(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	for want, path := range map[string]string{
		"row 1 has 6 containers, not the 3000": file(t, "batch_set_3000.csv", "1,2,3\n"),
		"line 3":                               file(t, "b.csv", "a,b\n1,2\n3,x\n"),
		"\"-1\" containers":                    file(t, "c.csv", "1,-1\n"),
		"wrong number of fields":               file(t, "d.csv", "1,2\n3\n"),
	} {
		if _, err := ReadBatches(path, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestMetisBatchesDrawn(t *testing.T) {
	a, err := MetisBatches(3000)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := MetisBatches(3000)
	if len(a) != 100 || !reflect.DeepEqual(a, b) || reflect.DeepEqual(a[0], a[1]) {
		t.Error("drawn batches differ from call to call, or do not differ from each other")
	}
	for _, batch := range a {
		for _, k := range batch {
			if sum(batch) != 3000 || k < 330 || k > 530 {
				t.Fatalf("batch %v", batch)
			}
		}
	}
	if _, err := MetisBatches(0); err == nil {
		t.Error("batches of nothing")
	}
}

func TestProblemsThatAreWrong(t *testing.T) {
	small, err := NewTable([]string{"a", "b"}, 2, func(_ []uint8, rps []float64) { rps[0], rps[1] = 1, 1 })
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewTable([]string{"a", "c"}, 2, func(_ []uint8, rps []float64) { rps[0], rps[1] = 1, 1 })
	if err != nil {
		t.Fatal(err)
	}
	nodes := []NodeType{{Name: "n", Count: 2, Table: small}}
	for want, p := range map[string]Problem{
		"no nodes":                      {Batch: []int{1, 0}},
		"has no throughput table":       {Types: []NodeType{{Count: 1}}, Batch: []int{1, 0}},
		"knows 2 apps, the batch has 3": {Types: nodes, Batch: []int{1, 1, 0}},
		"has apps":                      {Types: []NodeType{{Count: 1, Table: other}, nodes[0]}, Batch: []int{0, 0}},
		"limits: 5 containers on 2 nodes that hold 4": {Types: nodes, Batch: []int{5, 0}},
		"-1 containers of app 2":                      {Types: nodes, Batch: []int{0, -1}},
		"existing containers of 1 nodes":              {Types: nodes, Batch: []int{0, 0}, Existing: [][]uint8{{0, 0}}},
		"3 existing containers on node 2":             {Types: nodes, Batch: []int{0, 0}, Existing: [][]uint8{{0, 0}, {1, 2}}},
		"constraint 1":                                {Types: nodes, Batch: []int{0, 0}, Constraints: []Constraint{{App: 2}}},
		"SLO NaN":                                     {Types: nodes, Batch: []int{0, 0}, SLO: math.NaN()},
		"costs -1":                                    {Types: []NodeType{{Count: 1, Table: small, Cost: -1}}, Batch: []int{0, 0}},
		"costs -1\nplacement: SLO -1":                 {Types: []NodeType{{Count: 1, Table: small, Cost: -1}}, Batch: []int{0, 0}, SLO: -1},
	} {
		err := p.Validate()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
		if full := strings.Contains(want, "that hold"); errors.Is(err, ErrInfeasible) != full {
			t.Errorf("%v: is it infeasible, not wrong: %v", err, full)
		}
	}
	p := Problem{Types: nodes, Batch: []int{1, 1}, Existing: [][]uint8{{1, 0}, {0, 0}}}
	for want, at := range map[string]Placement{
		"":                                {{1, 1}, {1, 0}},
		"placement on 1 nodes":            {{1, 1}},
		"node 1 of type \"n\" gets [2 1]": {{2, 1}, {0, 0}},
		"1 run there already":             {{0, 1}, {2, 0}},
		"2 containers of app a are placed, the batch has 1": {{2, 0}, {1, 1}},
	} {
		if _, err := p.Evaluate(at); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// Columns are matched to apps by the names in the header, in any order.
func TestReadBatchesByHead(t *testing.T) {
	apps := []string{"web", "db"}
	for text, want := range map[string][]int{
		"1,2\n": {1, 2}, "x,y\n1,2\n": {1, 2}, "db,web\n1,2\n": {2, 1}, "node,n_db,type,n_web\n1,3,node,4\n": {4, 3},
	} {
		if b, err := ReadBatches(file(t, "b.csv", text), apps); err != nil || len(b) != 1 || !slices.Equal(b[0], want) {
			t.Errorf("%q: %v, %v, want %v", text, b, err, want)
		}
	}
	for text, want := range map[string]string{"db,x\n1,2\n": "no column web", "db,db,web\n1,2,3\n": "db is there twice", "NaN,1\n": `"NaN" containers`, "1.5,1\n": `"1.5" containers`} {
		if _, err := ReadBatches(file(t, "b.csv", text), apps); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Gzip data are detected by content in both file formats, and damaged data are rejected.
func TestReadPacked(t *testing.T) {
	packed := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write([]byte(text)); err != nil || z.Close() != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if s, err := ReadSamples(file(t, "s.csv.gz", packed("n_a,rps_a\n1,0.5\n"))); err != nil || s.RPS[0][0] != 0.5 {
		t.Errorf("%v, %v", s, err)
	}
	array := npy("<f8", "False", 1, 2, []float64{3, 4})
	raw, err := os.ReadFile(npz(t, "b.npz", map[string][]byte{"batch_set": array}))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := ReadBatches(file(t, "b.npz.gz", packed(string(raw))), nil); err != nil || !slices.Equal(b[0], []int{3, 4}) {
		t.Errorf("%v, %v", b, err)
	}
	text := packed("1,2\n")
	for name, data := range map[string]string{"cut": text[:len(text)-6], "head": text[:4]} {
		if b, err := ReadBatches(file(t, "b.csv", data), nil); err == nil {
			t.Errorf("%s: %v", name, b)
		}
	}
	var stored bytes.Buffer
	z := zip.NewWriter(&stored)
	w, err := z.CreateHeader(&zip.FileHeader{Name: "batch_set.npy", Method: zip.Store})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(array); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	data := stored.Bytes()
	if b, err := ReadBatches(file(t, "b.npz", string(data)), nil); err != nil || !slices.Equal(b[0], []int{3, 4}) {
		t.Errorf("%v, %v", b, err)
	}
	data[bytes.Index(data, array)+len(array)-2] ^= 0x08 // changes a 4 into another whole number
	if b, err := ReadBatches(file(t, "b.npz", string(data)), nil); !errors.Is(err, zip.ErrChecksum) {
		t.Errorf("%v, %v", b, err)
	}
}

func FuzzReadNpy(f *testing.F) {
	f.Add(npy("<i8", "False", 2, 2, []int64{1, 2, 3, 4}))
	f.Add(npy("<f8", "False", 1, 3, []float64{1, 2, math.NaN()}))
	f.Add([]byte("\x93NUMPY\x02\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := readNpy(bytes.NewReader(data))
		if err == nil && len(m.cells) != m.rows*m.cols {
			t.Errorf("%d numbers for %d × %d", len(m.cells), m.rows, m.cols)
		}
	})
}

func FuzzSamplesOfCSV(f *testing.F) {
	f.Add("n_a,rps_a\n1,0.5\n")
	f.Add("n_a,n_b,rps_a,rps_b\n1,2,0.5,1e3\n0,0,,\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := samplesOfCSV(strings.NewReader(text))
		if err != nil {
			return
		}
		for i, c := range s.Counts {
			for a, k := range c {
				if (k == 0) != math.IsNaN(s.RPS[i][a]) || s.RPS[i][a] < 0 {
					t.Fatalf("%v containers run at %v", c, s.RPS[i])
				}
			}
		}
	})
}

func FuzzBatchesOfCSV(f *testing.F) {
	f.Add("a,b\n1,2\n")
	f.Add("3,4\n")
	f.Fuzz(func(t *testing.T, text string) {
		b, err := batchesOfCSV(strings.NewReader(text), MetisApps())
		if err != nil {
			return
		}
		for _, row := range b {
			for _, k := range row {
				if k < 0 || len(row) != len(b[0]) {
					t.Fatalf("batches %v", b)
				}
			}
		}
	})
}
