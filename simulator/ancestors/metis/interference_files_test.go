package metis

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"trainopt/internal/regular"
	"trainopt/optimizer/schedule/place"
)

// readPairs reads the two files in which Metis stores measurements of one and two apps: counts of each app (further
// columns are ignored) and throughput of one container of each app, row by row. The first line of both contains the
// names of the apps.
func readPairs(counts, rps string) (*place.Samples, error) {
	a, err := regular.Open(counts, regular.Data)
	if err != nil {
		return nil, fmt.Errorf("read pairs: %w", err)
	}
	defer a.Close()
	b, err := regular.Open(rps, regular.Data)
	if err != nil {
		return nil, fmt.Errorf("read pairs: %w", err)
	}
	defer b.Close()
	s, err := parsePairs(a, b)
	if err != nil {
		return nil, fmt.Errorf("read pairs %s, %s: %w", counts, rps, err)
	}
	return s, nil
}

// parsePairs reads both files in step; they must have the same number of rows.
func parsePairs(counts, rps io.Reader) (*place.Samples, error) {
	in, of := csv.NewReader(counts), csv.NewReader(rps)
	head, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("counts: first line: %w", err)
	}
	apps, err := of.Read()
	if err != nil {
		return nil, fmt.Errorf("throughputs: first line: %w", err)
	}
	if len(head) < len(apps) {
		return nil, fmt.Errorf("counts of %d apps, throughputs of %d", len(head), len(apps))
	}
	for i, app := range apps {
		if head[i] != app {
			return nil, fmt.Errorf("column %d is %q in the counts, %q in the throughputs", i+1, head[i], app)
		}
	}
	s := &place.Samples{Apps: apps}
	for line := 2; ; line++ {
		c, err := in.Read()
		r, other := of.Read()
		switch {
		case err == io.EOF && other == io.EOF:
			return s, nil
		case err == io.EOF:
			return nil, fmt.Errorf("line %d: the counts end, the throughputs do not", line)
		case other == io.EOF:
			return nil, fmt.Errorf("line %d: the throughputs end, the counts do not", line)
		case err != nil:
			return nil, fmt.Errorf("counts: %w", err)
		case other != nil:
			return nil, fmt.Errorf("throughputs: %w", other)
		}
		k, y, err := pairRow(c, r)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		s.Counts, s.RPS = append(s.Counts, k), append(s.RPS, y)
	}
}

// pairRow parses a row of counts and a row of throughputs. Throughputs of absent apps become NaN.
func pairRow(counts, rps []string) ([]uint8, []float64, error) {
	k, y := make([]uint8, len(rps)), make([]float64, len(rps))
	for i := range rps {
		n, err := strconv.ParseUint(strings.TrimSpace(counts[i]), 10, 8)
		if err != nil {
			return nil, nil, fmt.Errorf("count %q: want 0 to 255", counts[i])
		}
		k[i] = uint8(n)
		y[i], err = strconv.ParseFloat(strings.TrimSpace(rps[i]), 64)
		if err != nil || !(y[i] >= 0) || math.IsInf(y[i], 1) {
			return nil, nil, fmt.Errorf("throughput %q: want a number that is not negative", rps[i])
		}
		if n == 0 {
			y[i] = math.NaN()
		}
	}
	return k, y, nil
}

// writeConstraints writes the format of readConstraints, with weights if any differs from 1.
func writeConstraints(w io.Writer, constraints []place.Constraint) error {
	out := csv.NewWriter(w)
	weights := false
	for _, c := range constraints {
		weights = weights || c.Weight != 0 && c.Weight != 1
	}
	row := head
	if weights {
		row = append(row[:len(row):len(row)], "weight")
	}
	if err := out.Write(row); err != nil {
		return err
	}
	for _, c := range constraints {
		least := "0"
		if c.AtLeast {
			least = "1"
		}
		row = []string{strconv.Itoa(c.App + 1), strconv.Itoa(c.Neighbour + 1), least, strconv.Itoa(c.Threshold)}
		if weights {
			weight := c.Weight
			if weight == 0 {
				weight = 1
			}
			row = append(row, strconv.FormatFloat(weight, 'g', -1, 64))
		}
		if err := out.Write(row); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// fromSamples derives constraints from samples that contain at least all patterns of one and two apps in which one
// app has a single container. The error lists missing patterns. Of repeated patterns the first is used, as in Metis.
// capacity is the number of containers per node.
func fromSamples(s *place.Samples, capacity int, o ruleOptions) ([]derivedRow, error) {
	if len(s.RPS) != len(s.Counts) {
		return nil, fmt.Errorf("interference: %d rows of counts, %d of throughputs", len(s.Counts), len(s.RPS))
	}
	if capacity < 1 || capacity > math.MaxUint8 {
		return nil, fmt.Errorf("interference: %d containers a node, want 1 to 255", capacity)
	}
	row := map[string]int{}
	for i, c := range s.Counts {
		if _, ok := row[string(c)]; !ok && len(s.RPS[i]) == len(s.Apps) {
			row[string(c)] = i
		}
	}
	return derive(s.Apps, capacity, o, func(counts []uint8, app int) (float64, bool) {
		i, ok := row[string(counts)]
		if !ok || math.IsNaN(s.RPS[i][app]) {
			return 0, false
		}
		return s.RPS[i][app], true
	})
}
