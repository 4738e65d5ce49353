package cluster

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"trainopt/optimizer/run"
)

// clock is the time of a server in Unix seconds. It starts with the wall clock and then runs evenly: the wall clock may be
// set while jobs run, which must neither end leases nor delay decisions.
type clock struct {
	run.Clock
	wall      float64 // at the start
	monotonic time.Duration
}

func newClock(c run.Clock) clock { return clock{c, unix(c.Now()), c.Monotonic()} }

func (c *clock) now() float64 { return c.wall + (c.Monotonic() - c.monotonic).Seconds() }

// skew returns the seconds by which the wall clock was advanced since the start.
func (c *clock) skew() float64 { return unix(c.Now()) - c.now() }

// at returns the time of the server at a time of the wall clock, as it is set now; not later than now.
func (c *clock) at(wall float64) float64 { return min(wall-c.skew(), c.now()) }

// renewable reports whether a lease until a time of the wall clock is to be extended: at its half, and after the wall clock
// was set back.
func (c *clock) renewable(until, round float64) bool {
	left := until - unix(c.Now())
	return left < round/2 || left > round*(1+1e-3)
}

// errRemoved reports that the state directory of a running server was removed.
var errRemoved = errors.New("the state directory was removed, or replaced by another one: jobs that still run save and stop at the end of their leases")

// removed reports whether the lock file of the server is not the one that it holds.
func (s *server) removed() bool {
	now, err := s.dir.LockInfo()
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return s.lock != nil && !os.SameFile(now, s.lock)
}
