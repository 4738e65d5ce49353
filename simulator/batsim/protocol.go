// Package batsim implements both sides of Batsim's protocol, versions 1 to 4 (JSON over ZeroMQ, request and reply)
// (Dutot, Mercier, Poquet and Richard, JSSPP 2016; github.com/oar-team/batsim, docs/protocol.rst):
//
//   - Serve is the decision process of an external Batsim. It decides as ancestors/hdeeprm does, by pairs of policies
//     or an agent, or by an order of package queue with EASY backfilling on equal processors.
//   - Simulate is the simulator. It queries an external decision process (PyBatsim, batsched, HDeepRM) and executes
//     its commands on package queue.
//
// Both return the outcomes of the jobs. They return a descriptive error if the peer does not connect, stays silent,
// disconnects, sends invalid messages, or goes back in time.
//
//	result, err := batsim.Serve(ctx, "tcp://*:28000", batsim.ServeOptions{Order: "sjf", Backfill: "easy"})
//	result, err := batsim.Simulate(ctx, "tcp://localhost:28000", tree, jobs, batsim.SimulateOptions{})
//
// The package reads no files. It supports neither version 5 of the protocol (batprotocol) nor Redis.
package batsim

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// defaultEndpoint is the endpoint at which Batsim expects a decision process.
const defaultEndpoint = "tcp://localhost:28000"

// defaultTimeout is the default time to wait for the peer: for its connection and for each message.
const defaultTimeout = 60 * time.Second

// errPeer is wrapped by all errors caused by the peer: it is absent, silent, or violates the protocol.
var errPeer = errors.New("the other side of the protocol")

// peerError returns an error that wraps errPeer.
func peerError(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errPeer, fmt.Errorf(format, args...))
}

// Conversation holds the options of a conversation, for both sides. The zero value is valid.
type Conversation struct {
	// Idle is how long the peer may be silent; 0 means Limit.
	Idle time.Duration
	// Transcript receives every message, one per line, requests and replies alternately; nil means none.
	Transcript io.Writer
	// Warn is called with a description of each ignored element; nil means no warnings.
	Warn func(text string)
}

func (t *Conversation) idle() time.Duration {
	if t.Idle <= 0 {
		return defaultTimeout
	}
	return t.Idle
}

func (t *Conversation) warn(format string, args ...any) {
	if t.Warn != nil {
		t.Warn(fmt.Sprintf(format, args...))
	}
}

func (t *Conversation) record(message []byte) error {
	if t.Transcript == nil {
		return nil
	}
	if _, err := t.Transcript.Write(append(message[:len(message):len(message)], '\n')); err != nil {
		return fmt.Errorf("write transcript: %w", err)
	}
	return nil
}
