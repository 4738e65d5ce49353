// Package calibration scores past predictions against their outcomes: the coverage of the 90 % interval, the error of
// the median, and the factor by which the next interval must be widened to reach its nominal coverage.
//
// It makes no predictions itself, and scores only runs that finished their work.
//
//	t := calibration.Of(entries)
//	t.All.Of[calibration.Seconds].Share // coverage of the 90 % interval, 0…1
//	perf.Fit(observations, perf.FitOptions{Widen: t.Widen("resnet")})
package calibration
