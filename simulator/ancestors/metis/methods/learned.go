package methods

import (
	"context"

	"trainopt/optimizer/schedule/place"
	"trainopt/simulator/ancestors/metis/learned"
)

// byLearning returns a method of package learned. A required model that is not given is replaced by the built-in one,
// which is for the apps measured by Metis.
func byLearning(name string) func(context.Context, *place.Problem, Options) (*Outcome, error) {
	return func(ctx context.Context, p *place.Problem, o Options) (*Outcome, error) {
		po := learned.PlaceOptions{Method: name, Objective: o.Objective, Seed: o.Seed, Episodes: o.Episodes, Workers: o.Workers,
			Clock: o.Clock, Released: o.Compat && name == "divide-conquer"}
		if name == "george" {
			po.Zones, po.Budget, po.Apart = o.Zones, o.Budget, o.Apart
		}
		var model *learned.Model
		if learned.NeedsModel(name, po.Released) {
			if model = o.Model; model == nil {
				model = learned.Pretrained()
			}
		}
		s, curve, err := learned.Place(ctx, p, model, po, func(at learned.Point) {
			if o.Progress != nil {
				o.Progress(at.Episode)
			}
		})
		if s == nil {
			return nil, err
		}
		out := &Outcome{Solution: *s}
		for _, at := range curve.Points {
			out.Curve = append(out.Curve, point{Episode: at.Episode, Seconds: at.Seconds, Mean: at.Value, Best: orNaN(at.Best), Cost: at.Cost})
		}
		return out, err
	}
}
