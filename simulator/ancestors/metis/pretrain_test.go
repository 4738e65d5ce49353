package metis

import (
	"context"
	"flag"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"trainopt/optimizer/schedule/place"
)

var pretrain = flag.String("pretrain", "", "train the embedded model again and write it to this file; about two minutes of two cores")

var (
	curves   = flag.String("curves", "", "write learning curves of Metis's agent on groups 0 to 29 of 200 containers and on one batch for 729 nodes to this file")
	seeds    = flag.Int("seeds", 1, "number of seeds of -curves")
	episodes = flag.Int("episodes", 300, "episodes of -curves")
)

// TestCurves writes learning curves; times are CPU seconds:
//
//	go test ./simulator/ancestors/metis -run '^TestCurves$' -curves curves.csv -seeds 3 -count=1 -v
func TestCurves(t *testing.T) {
	if *curves == "" {
		t.Skip("without -curves")
	}
	f, err := os.Create(*curves)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fmt.Fprintln(f, "nodes,containers,group,seed,episode,seconds,rps,best")
	for _, c := range []struct{ nodes, containers, groups int }{{81, 200, 30}, {729, 1000, 1}} {
		batches, err := place.MetisBatches(c.containers)
		if err != nil {
			t.Fatal(err)
		}
		first, last, seconds := 0.0, 0.0, 0.0
		for g := range c.groups {
			for seed := range *seeds {
				now := processorTime(t)
				start := now()
				p := &place.Problem{Types: []place.NodeType{{Count: c.nodes, Table: place.MetisTable()}}, Batch: batches[g]}
				_, curve, err := placeByLearning(context.Background(), p, pretrained(), learningOptions{Episodes: *episodes, Seed: uint64(seed), Workers: 2,
					Clock: func() time.Duration { return now() - start }}, nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, q := range curve {
					fmt.Fprintf(f, "%d,%d,%d,%d,%d,%.3f,%.6f,%.6f\n", c.nodes, c.containers, g, seed, q.Episode, q.Seconds, q.Value, q.Best)
				}
				n := float64(c.groups * *seeds)
				first += curve[0].Value / n
				last += curve[len(curve)-1].Best / n
				seconds += curve[len(curve)-1].Seconds / n
			}
		}
		t.Logf("%d nodes, %d containers: %.4f at first, %.4f after %d episodes, %.2f s of processors a batch", c.nodes, c.containers, first, last, *episodes, seconds)
	}
}

// TestPretrain reproduces the embedded model:
//
//	go test ./simulator/ancestors/metis -run '^TestPretrain$' -pretrain metis.model -count=1 -v
func TestPretrain(t *testing.T) {
	if *pretrain == "" {
		t.Skip("without -pretrain")
	}
	m, _, err := Train(context.Background(), TrainOptions{Table: place.MetisTable(), Seed: 1, Clock: processorTime(t)}, func(p LearningPoint) {
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

// firstEpisodes returns the mean throughput of the first groups of a size if each third of 81 nodes receives an equal
// part.
func firstEpisodes(t *testing.T, m *model, size, groups int) float64 {
	batches, err := place.MetisBatches(size)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for g := range groups {
		p := &place.Problem{Types: []place.NodeType{{Count: 81, Table: place.MetisTable()}}, Batch: batches[g]}
		_, curve, err := placeByLearning(context.Background(), p, m, learningOptions{Episodes: 1, Seed: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		sum += curve[0].Value / float64(groups)
	}
	return sum
}

// processorTime returns a clock of the CPU time of this process, on which the load of the machine has little
// influence.
func processorTime(t *testing.T) func() time.Duration {
	return func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
}
