// Package calibration scores past predictions against what came of them: how often the 90 % interval held, by how much the
// median was off, and by which factor the next interval must be wider to be believed.
//
// It predicts nothing itself, and it scores only runs that finished their work.
//
//	t := calibration.Of(entries)
//	t.All.Of[calibration.Seconds].Share // of the intervals that held, 0…1
//	perf.Fit(observations, perf.FitOptions{Widen: t.Widen("resnet")})
package calibration
