package sla

// Unfinished returns the verdicts of a run that ended before its work was done: stopped, refused, killed or failed. A limit
// on work that was never completed cannot be met, so met and at-risk become unknown. A violation stays: it was measured.
// The verdict on the limit that ended the run, cause, is violated even though the guard acts shortly before the limit is
// reached; its severity is then unknown. An empty cause names no limit. The input is not changed; projections are removed,
// because the run has no end that could be projected.
func Unfinished(verdicts []Verdict, cause Objective) []Verdict {
	out := make([]Verdict, len(verdicts))
	for i, v := range verdicts {
		v.Projected = nil
		switch {
		case v.Status == Violated:
		case v.Objective == cause && cause != "":
			v.Status, v.Severity = Violated, nil
		default:
			v.Status, v.Severity = Unknown, nil
		}
		out[i] = v
	}
	return out
}
