//go:build !gorgonia

package network

// Graphs reports whether this build trains networks as Gorgonia graphs: it does with the tag gorgonia, which adds 9 MB
// to the program and 12 MiB to its memory.
const Graphs = false

// graph is never created in this build.
type graph struct{}

func newGraph(*Network, int) *graph { panic("network: this build has no graphs") }

func (*graph) forward([]float32, [][]float32, int) []float32 { panic("network: no graph") }

func (*graph) backward([]float32, []float32, int) { panic("network: no graph") }
