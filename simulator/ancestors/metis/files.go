package metis

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"trainopt/optimizer/schedule/place"
)

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
