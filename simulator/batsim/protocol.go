// Package batsim speaks Batsim's protocol, versions 1 to 4 (JSON over ZeroMQ, a request and its reply), on both sides of it
// (Dutot, Mercier, Poquet and Richard, JSSPP 2016; github.com/oar-team/batsim, docs/protocol.rst):
//
//   - Serve is the decision process: a Batsim elsewhere asks it. It decides as queue/hdeeprm does, by pairs of policies or an agent,
//     or by an order of package queue with EASY backfilling on plain processors.
//   - Simulate is the simulator: it asks a decision process elsewhere (PyBatsim, batsched, HDeepRM), and does on queue/cores what that
//     says.
//
// Both return what became of the jobs, and end in an error that says so when the other side never comes, falls silent, hangs up,
// talks nonsense or goes back in time.
//
//	result, err := batsim.Serve(ctx, "tcp://*:28000", batsim.ServeOptions{Order: "sjf", Backfill: "easy"})
//	result, err := batsim.Simulate(ctx, "tcp://localhost:28000", tree, jobs, batsim.SimulateOptions{})
//
// It neither simulates nor decides by itself, reads no file, and does not speak the protocol of version 5 (batprotocol), nor to Redis.
package batsim

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// DefaultEndpoint is where Batsim looks for a decision process.
const DefaultEndpoint = "tcp://localhost:28000"

// Limit is for how long the other side is waited for when options say nothing: until it comes, and for each of its messages.
const Limit = 60 * time.Second

// ErrPeer is in all errors that are the other side's fault: it is not there, silent, or wrong.
var ErrPeer = errors.New("the other side of the protocol")

func peerError(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrPeer, fmt.Errorf(format, args...))
}

// Talk is what both sides can be told about the conversation. The zero value is of use.
type Talk struct {
	// Idle is for how long the other side may be silent; 0 is Limit.
	Idle time.Duration
	// Transcript gets every message, one a line, requests and replies in turn; nil: nobody keeps it.
	Transcript io.Writer
	// Warn is told what was passed over; nil: nobody is.
	Warn func(text string)
}

func (t *Talk) idle() time.Duration {
	if t.Idle <= 0 {
		return Limit
	}
	return t.Idle
}

func (t *Talk) warn(format string, args ...any) {
	if t.Warn != nil {
		t.Warn(fmt.Sprintf(format, args...))
	}
}

func (t *Talk) record(message []byte) error {
	if t.Transcript == nil {
		return nil
	}
	if _, err := t.Transcript.Write(append(message[:len(message):len(message)], '\n')); err != nil {
		return fmt.Errorf("write transcript: %w", err)
	}
	return nil
}
