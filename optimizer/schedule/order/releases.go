package order

import "slices"

// Release is the end of a running job, at which its processors become free.
type Release struct {
	At         float64 // s
	Job, Procs int32
}

// Releases is a list in descending order of time, so that the next release is the last element. Of equal times, the one inserted
// last comes first.
type Releases []Release

// firstBy returns the index of the first release that is not later than at.
func (r Releases) firstBy(at float64) int {
	lo, hi := 0, len(r)
	for lo < hi {
		if mid := int(uint(lo+hi) / 2); r[mid].At > at {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// Insert adds a release.
func (r *Releases) Insert(x Release) {
	i := r.firstBy(x.At)
	l := append(*r, x)
	copy(l[i+1:], l[i:])
	l[i] = x
	*r = l
}

// Remove deletes the release of a job at a time, which must exist.
func (r *Releases) Remove(at float64, job int32) {
	i := r.firstBy(at)
	for (*r)[i].Job != job {
		i++
	}
	*r = slices.Delete(*r, i, i+1)
}
