package metis

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"trainopt/internal/stat"
	"trainopt/optimizer/schedule/place"
)

// Setup is a placement problem without a batch, with the options of the methods.
type Setup struct {
	Problem   *place.Problem
	Predicted *place.Problem // with predicted throughputs, as given to the method; nil if the method is given the measured ones
	Predictor string         // description of the predictor, if any
	Options   Options
	Notes     []string
	// Estimated tells which patterns of an incomplete table are estimates, by number; nil: none.
	Estimated []bool
}

// Complete returns the table of an incomplete sample, with estimates of the missing patterns, and records them.
func (s *Setup) Complete(samples *place.Samples, capacity int, name string) (*place.Table, error) {
	t, estimated, err := samples.CompleteTable(capacity, place.ForestOptions{})
	if err != nil {
		return nil, err
	}
	s.Estimated = estimated
	n := stat.Count(estimated, func(e bool) bool { return e })
	s.Notes = append(s.Notes, fmt.Sprintf("%s contains %d of %d patterns; the others are estimates, by a model of slowdown and a forest fitted to it", name, t.Patterns()-1-n, t.Patterns()-1))
	return t, nil
}

// EstimateNote returns a note on the nodes of a placement whose pattern is an estimate, "" if there are none.
func (s *Setup) EstimateNote(p place.Placement) string {
	nodes, t := 0, s.Problem.Types[0].Table
	for _, counts := range p {
		if s.Estimated != nil && s.Estimated[t.Index(counts)] {
			nodes++
		}
	}
	if nodes == 0 {
		return ""
	}
	return fmt.Sprintf("the throughput of %d of %d nodes is an estimate: their patterns were not measured", nodes, len(p))
}

// Apps returns the names of the apps.
func (s *Setup) Apps() []string { return s.Problem.Types[0].Table.Apps() }

// WithBatch returns the problem for a batch, in its measured and its predicted form.
func (s *Setup) WithBatch(batch []int) (problem, predicted *place.Problem) {
	a := *s.Problem
	a.Batch = batch
	if s.Predicted == nil {
		return &a, nil
	}
	b := *s.Predicted
	b.Batch = batch
	return &a, &b
}

// OnNodes returns a copy with another number of nodes.
func (s *Setup) OnNodes(n int) *Setup {
	out := *s
	resized := func(p *place.Problem) *place.Problem {
		if p == nil {
			return nil
		}
		q := *p
		q.Types = slices.Clone(q.Types)
		q.Types[0].Count = n
		return &q
	}
	out.Problem, out.Predicted = resized(s.Problem), resized(s.Predicted)
	return &out
}

// forestShare is the share of the patterns from which a forest predicts the others.
const forestShare = 0.2

// Predict replaces the throughputs that methods are given by those that a forest predicts: from a share of the measured
// patterns, or from the samples of a file if it is not "".
func (s *Setup) Predict(file string) error {
	if len(s.Problem.Types) > 1 {
		return errors.New("a forest requires a single node type")
	}
	truth := s.Problem.Types[0].Table
	var t *place.Table
	var err error
	if file == "" {
		s.Predictor = "forest of a fifth of the patterns"
		t, err = predicted(truth, forestShare, 42, true)
	} else {
		samples, readErr := place.ReadSamples(file)
		if readErr != nil {
			return readErr
		}
		if !slices.Equal(samples.Apps, truth.Apps()) {
			return fmt.Errorf("%s has apps %s, the table has %s", filepath.Base(file), strings.Join(samples.Apps, ", "), strings.Join(truth.Apps(), ", "))
		}
		s.Predictor = fmt.Sprintf("forest of the %d patterns in %s", len(samples.Counts), filepath.Base(file))
		t, _, err = samples.CompleteTable(truth.Capacity(), place.ForestOptions{})
	}
	if err != nil {
		return err
	}
	p := *s.Problem
	p.Types = slices.Clone(p.Types)
	p.Types[0].Table = t
	s.Predicted = &p
	return nil
}

// Constrain sets the constraints on neighbours: "none", place.EmbeddedData, "derived" from the throughputs (with
// compat as the published code derives them), the path of a file, or "" for those of Metis if the apps are its own, else
// derived ones.
func (s *Setup) Constrain(source string, compat bool) error {
	metis := slices.Equal(s.Apps(), place.MetisApps())
	optional := source == ""
	if optional {
		source = map[bool]string{true: place.EmbeddedData, false: "derived"}[metis]
	}
	var out []place.Constraint
	switch source {
	case "none":
	case place.EmbeddedData:
		if !metis {
			return fmt.Errorf("metis: they are for %s, the table has %s", strings.Join(place.MetisApps(), ", "), strings.Join(s.Apps(), ", "))
		}
		out = place.MetisConstraints()
	case "derived":
		rows, err := fromTable(s.Problem.Types[0].Table, ruleOptions{Others: !compat})
		if err != nil && !optional {
			return fmt.Errorf("derived: %w", err)
		}
		if err != nil {
			s.Notes = append(s.Notes, fmt.Sprintf("no constraints on neighbours: %v", err))
		}
		out = constraints(rows)
	default:
		file, err := place.Open(source)
		if err != nil {
			return err
		}
		defer file.Close()
		if out, err = readConstraints(file); err != nil {
			return fmt.Errorf("read %s: %w", filepath.Base(source), err)
		}
		for i, c := range out {
			if max(c.App, c.Neighbour) >= len(s.Apps()) {
				return fmt.Errorf("%s: constraint %d is of apps %d and %d, there are %d", filepath.Base(source), i+1, c.App+1, c.Neighbour+1, len(s.Apps()))
			}
		}
	}
	s.Problem.Constraints = out
	if s.Predicted != nil {
		s.Predicted.Constraints = out
	}
	return nil
}

// SetExisting sets the containers that already run: a row of counts per node.
func (s *Setup) SetExisting(rows [][]int) error {
	if err := s.Problem.SetExisting(rows); err != nil {
		return err
	}
	if s.Predicted != nil {
		s.Predicted.Existing = s.Problem.Existing
	}
	return nil
}
