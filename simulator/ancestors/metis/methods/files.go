package methods

import (
	"encoding/csv"
	"errors"
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

var head = []string{"app_s", "app_c", "less_or_lager", "threshold"}

// readConstraints reads constraints in Metis's format: app and neighbour numbered from 1, 0 for at most and 1 for at
// least, threshold, and an optional fifth column with the weight (default 1). It does not check that the apps exist;
// see Problem.Validate.
func readConstraints(r io.Reader) ([]place.Constraint, error) {
	in := csv.NewReader(r)
	first, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("read constraints: first line: %w", err)
	}
	if got := strings.Join(first, ","); got != strings.Join(head, ",") && got != strings.Join(head, ",")+",weight" {
		return nil, fmt.Errorf("read constraints: first line %q, want %q, and weight if need be", got, strings.Join(head, ","))
	}
	var out []place.Constraint
	for {
		cells, err := in.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read constraints: %w", err)
		}
		line, _ := in.FieldPos(0)
		c, err := constraint(cells)
		if err != nil {
			return nil, fmt.Errorf("read constraints: line %d: %w", line, err)
		}
		out = append(out, c)
	}
}

// constraint parses a row of readConstraints.
func constraint(cells []string) (place.Constraint, error) {
	var n [4]int
	for i := range n {
		v, err := strconv.ParseUint(strings.TrimSpace(cells[i]), 10, 31)
		if err != nil || i < 2 && v == 0 || i == 2 && v > 1 {
			return place.Constraint{}, fmt.Errorf("%s is %q", head[i], cells[i])
		}
		n[i] = int(v)
	}
	c := place.Constraint{App: n[0] - 1, Neighbour: n[1] - 1, AtLeast: n[2] == 1, Threshold: n[3], Weight: 1}
	if len(cells) > len(n) {
		w, err := strconv.ParseFloat(strings.TrimSpace(cells[4]), 64)
		if err != nil || !(w > 0) || math.IsInf(w, 1) {
			return c, fmt.Errorf("weight is %q, want more than 0", cells[4])
		}
		c.Weight = w
	}
	return c, nil
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
