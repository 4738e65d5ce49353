package place

import (
	"bufio"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed metis.table
var metisFile string

var metisApps = []string{"redis", "mms", "checksum", "ycsb_a", "ycsb_b", "scenedetect", "isr"}

// MetisApps returns the seven services measured by Metis, in the order of its tables.
func MetisApps() []string { return slices.Clone(metisApps) }

// metisData is the content of metis.table.
type metisData struct {
	table       *Table
	constraints []Constraint
	batches     [][]int
}

var metis = sync.OnceValue(func() *metisData {
	d, err := readMetis(strings.NewReader(metisFile))
	if err != nil {
		panic("the embedded measurements of Metis: " + err.Error()) // a test parses the embedded file
	}
	return d
})

// MetisTable returns the measured throughput of all 6435 patterns of Metis's seven services on a node of 8 containers
// (EC2 m5.4xlarge), embedded in the binary. The head of metis.table states its source. O(1) after the first call.
func MetisTable() *Table { return metis().table }

// MetisConstraints returns the 39 constraints that Metis derived for Medea and Paragon from its measurements, with
// Medea's weights: 2 for those of Redis on MMS and on ISR, 1 for all others. MMS and ISR require at least one Redis
// beside them; all other constraints are upper limits. The threshold for neighbours of the same app counts the
// container itself, while Medea's program does not, so one more container is permitted than was measured. This is
// kept because the published counts include it.
func MetisConstraints() []Constraint { return slices.Clone(metis().constraints) }

// MetisBatches returns 100 batches with the given number of containers. For 200, 300, 400 (81 nodes), 1000 and 2000
// (729 nodes) they are those of Metis, whose experiments use the first 30. Other sizes, including 3000, whose
// published file is broken, are drawn in the apparent manner of the originals: each container belongs to one of the
// seven apps with equal probability. The result is the same in every call. It returns an error unless containers is
// between 1 and maxContainers.
func MetisBatches(containers int) ([][]int, error) {
	if containers < 1 || containers > maxContainers {
		return nil, fmt.Errorf("batches of %d containers: want 1 to %d", containers, maxContainers)
	}
	var batches [][]int
	for _, b := range metis().batches {
		if sum(b) == containers {
			batches = append(batches, slices.Clone(b))
		}
	}
	if batches != nil {
		return batches, nil
	}
	for i := range 100 {
		r := rand.New(rand.NewPCG(uint64(containers), uint64(i)))
		b := make([]int, len(metisApps))
		for range containers {
			b[r.IntN(len(b))]++
		}
		batches = append(batches, b)
	}
	return batches, nil
}

// WriteMetis writes the format of metis.table: comment lines followed by gzip-compressed lines of the form
//
//	8                  the capacity of a node
//	612345 918273      by pattern, in the order of Table: RPS of the apps present, in millionths
//	constraint 0 1 0 2 app, neighbour, 1 for at least, threshold
//	batch 27 32 12 37 30 34 28
func WriteMetis(w io.Writer, head []string, t *Table, constraints []Constraint, batches [][]int) error {
	for _, h := range head {
		if _, err := fmt.Fprintf(w, "# %s\n", h); err != nil {
			return err
		}
	}
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(z)
	fmt.Fprintf(b, "%d\n", t.Capacity())
	for p := range t.Patterns() {
		space := ""
		for a, k := range t.Counts(p) {
			if k > 0 {
				fmt.Fprintf(b, "%s%.0f", space, math.Round(t.RPS(p)[a]*1e6))
				space = " "
			}
		}
		b.WriteByte('\n')
	}
	for _, c := range constraints {
		least := 0
		if c.AtLeast {
			least = 1
		}
		fmt.Fprintln(b, "constraint", c.App, c.Neighbour, least, c.Threshold)
	}
	for _, batch := range batches {
		fmt.Fprintln(b, "batch", strings.Trim(fmt.Sprint(batch), "[]"))
	}
	if err := b.Flush(); err != nil {
		return err
	}
	return z.Close()
}

// readMetis reads the format written by WriteMetis.
func readMetis(r io.Reader) (*metisData, error) {
	in := bufio.NewReader(r)
	for {
		if c, err := in.Peek(1); err != nil || c[0] != '#' {
			break
		}
		if _, err := in.ReadString('\n'); err != nil {
			return nil, err
		}
	}
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, err
	}
	return parseMetis(z)
}

// numbers parses decimal integers.
func numbers(fields []string) ([]int, error) {
	out := make([]int, len(fields))
	for i, f := range fields {
		k, err := strconv.Atoi(f)
		if err != nil {
			return nil, err
		}
		out[i] = k
	}
	return out, nil
}

// parseMetis parses the uncompressed lines of the format.
func parseMetis(r io.Reader) (*metisData, error) {
	s := bufio.NewScanner(r)
	next := func() []string {
		s.Scan()
		return strings.Fields(s.Text())
	}
	d := &metisData{}
	capacity, err := numbers(next())
	if err != nil || len(capacity) != 1 {
		return nil, fmt.Errorf("capacity: %v, %w", capacity, err)
	}
	d.table, err = NewTable(MetisApps(), capacity[0], func(counts []uint8, rps []float64) {
		row, rowErr := numbers(next())
		for a, k := range counts {
			rps[a] = math.NaN() // NewTable rejects NaN where a number is missing
			if k > 0 && rowErr == nil && len(row) > 0 {
				rps[a], row = float64(row[0])/1e6, row[1:]
			}
		}
	})
	if err != nil {
		return nil, err
	}
	// Constraints and batches follow the patterns.
	for s.Scan() {
		what, rest, _ := strings.Cut(s.Text(), " ")
		row, err := numbers(strings.Fields(rest))
		switch {
		case err != nil:
			return nil, err
		case what == "batch" && len(row) == len(metisApps):
			d.batches = append(d.batches, row)
		case what == "constraint" && len(row) == 4:
			c := Constraint{App: row[0], Neighbour: row[1], AtLeast: row[2] == 1, Threshold: row[3], Weight: 1}
			if name := metisApps; name[c.App] == "redis" && (name[c.Neighbour] == "mms" || name[c.Neighbour] == "isr") {
				c.Weight = 2
			}
			d.constraints = append(d.constraints, c)
		default:
			return nil, fmt.Errorf("line %q", s.Text())
		}
	}
	return d, s.Err()
}
