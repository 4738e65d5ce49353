package learned

import (
	"context"
	"flag"
	"os"
	"syscall"
	"testing"
	"time"

	"trainopt/simulator/placement"
)

var pretrain = flag.String("pretrain", "", "train the embedded model again and write it to this file; about two minutes of two cores")

// TestPretrain makes the embedded model again:
//
//	go test ./simulator/placement/learned -run '^TestPretrain$' -pretrain metis.model -count=1 -v
func TestPretrain(t *testing.T) {
	if *pretrain == "" {
		t.Skip("without -pretrain")
	}
	m, _, err := Train(context.Background(), Options{Table: placement.MetisTable(), Seed: 1, Clock: processorTime(t)}, func(p Point) {
		if p.Episode%640 == 0 {
			t.Logf("%+v", p)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{200, 300, 400} {
		t.Logf("%d containers split evenly: mean of 30 groups %.4f, group 0 %.4f", size, firstEpisodes(t, m, size, 30), firstEpisodes(t, m, size, 1))
	}
	f, err := os.Create(*pretrain)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Save(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// firstEpisodes is the mean throughput of the first groups of a size when each third of 81 nodes gets an equal part.
func firstEpisodes(t *testing.T, m *Model, size, groups int) float64 {
	batches, err := placement.MetisBatches(size)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for g := range groups {
		p := &placement.Problem{Types: []placement.NodeType{{Count: 81, Table: placement.MetisTable()}}, Batch: batches[g]}
		_, curve, err := Place(context.Background(), p, m, PlaceOptions{Episodes: 1, Seed: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		sum += curve.Points[0].Value / float64(groups)
	}
	return sum
}

// processorTime tells the seconds of all processors that the process has used, which other work on the machine changes little.
func processorTime(t *testing.T) func() time.Duration {
	return func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
}
