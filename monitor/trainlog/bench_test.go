package trainlog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Claim: 250,000 rows of the 24 canonical columns a second on one core, far more than any training writes.
func BenchmarkTailRows(b *testing.B) {
	logs := map[string]string{
		"two-columns": header2 + epochRows(1, 50_000),
		"contract":    contractLog(20_000),
	}
	var stdout strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&stdout, "Epoch %d/20000 loss: 0.%d accuracy: 0.9\n", i+1, i+1)
	}
	logs["stdout"] = stdout.String()
	for name, text := range logs {
		b.Run(name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "log.csv")
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			rows := 0
			for b.Loop() {
				t, err := Open(path, TailOptions{})
				if err != nil {
					b.Fatal(err)
				}
				for {
					got, err := t.Poll(time.Time{})
					if err != nil {
						b.Fatal(err)
					}
					rows += len(got)
					if t.Stats().Behind == 0 {
						break
					}
				}
				t.Close()
			}
			b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

func contractLog(rows int) string {
	data, err := os.ReadFile("testdata/formats/csv.csv")
	if err != nil {
		panic(err)
	}
	header, _, _ := strings.Cut(string(data), "\n")
	var b strings.Builder
	b.WriteString(header + "\n")
	for i := 1; i <= rows; i++ {
		fmt.Fprintf(&b, "2025-07-01 10:00:10,%d,%d,resnet18,11181642,62,cifar10,50000,586,128,cuda,8,2,1.52,44.8,1.31,52.6,10.2,%d.2,4901.9,1.8,0.02,91,88\n", i, rows, i)
	}
	return b.String()
}

// Claim: a poll once a second costs next to nothing when there is no new row, or one.
func BenchmarkTailPoll(b *testing.B) {
	for name, row := range map[string]bool{"idle": false, "one-row": true} {
		b.Run(name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "log.csv")
			f, err := os.Create(path)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			f.WriteString(contractLog(100))
			t, err := Open(path, TailOptions{})
			if err != nil {
				b.Fatal(err)
			}
			defer t.Close()
			t.Poll(time.Time{})
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if row {
					fmt.Fprintf(f, "2025-07-01 10:00:10,%d,9,resnet18,11181642,62,cifar10,50000,586,128,cuda,8,2,1.52,44.8,1.31,52.6,10.2,%d.2,4901.9,1.8,0.02,91,88\n", 101+i, i)
				}
				if _, err := t.Poll(time.Time{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkTailState(b *testing.B) {
	path := filepath.Join(b.TempDir(), "log.csv")
	if err := os.WriteFile(path, []byte(header2+epochRows(1, 3000)), 0o644); err != nil {
		b.Fatal(err)
	}
	t, err := Open(path, TailOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer t.Close()
	t.Poll(time.Time{})
	for b.Loop() {
		t.State()
	}
}
