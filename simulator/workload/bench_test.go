package workload

import (
	"bytes"
	"testing"
)

func BenchmarkGenerator(b *testing.B) {
	g, err := NewGenerator(Options{Lambda: 900, MultiGPU: true, SLOs: true}, GavelTable())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		g.Next()
	}
}

func BenchmarkBeside(b *testing.B) {
	table := GavelTable()
	b.ReportAllocs()
	for b.Loop() {
		table.Beside("v100", "Transformer (batch size 64)", "ResNet-18 (batch size 64)", 1)
	}
}

// 100,000 jobs per iteration.
func BenchmarkReadTrace(b *testing.B) {
	g, err := NewGenerator(Options{Lambda: 900, MultiGPU: true, SLOs: true}, GavelTable())
	if err != nil {
		b.Fatal(err)
	}
	var text bytes.Buffer
	if err := writeTrace(&text, &Trace{Jobs: g.Take(100_000)}, "jobs"); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := readTrace(bytes.NewReader(text.Bytes()), "f", ""); err != nil {
			b.Fatal(err)
		}
	}
}
