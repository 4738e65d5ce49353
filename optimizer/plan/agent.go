package plan

import (
	"bytes"
	_ "embed" // the agent's file
	"fmt"
	"strconv"
	"sync"

	"trainopt/morl"
)

// agentFile is the agent in the binary: trained by `make agent` in the Environment of simulator/training, on jobs drawn from
// licensed profiles, and stored as an agent file of package morl.
//
//go:embed agent.bin
var agentFile []byte

// embedded is the agent in the binary, decoded on first use.
var embedded = sync.OnceValues(func() (*Agent, error) {
	a, err := LoadAgent(bytes.NewReader(agentFile))
	if err != nil {
		return nil, fmt.Errorf("the agent in this program: %w", err)
	}
	return a, nil
})

// multiplierNote is the key of the SLA multiplier in the notes of an agent file.
const multiplierNote = "sla_multiplier"

// NoteMultiplier records in an agent's notes the Lagrange multiplier of the SLA with which it was trained.
func NoteMultiplier(m *morl.Meta, multiplier float64) {
	if m.Notes == nil {
		m.Notes = map[string]string{}
	}
	m.Notes[multiplierNote] = strconv.FormatFloat(multiplier, 'g', -1, 64)
}

// multiplierOf returns the multiplier in an agent's notes, or 0.5 when it is missing or out of range.
func multiplierOf(m morl.Meta) float64 {
	v, err := strconv.ParseFloat(m.Notes[multiplierNote], 64)
	if err != nil || !(v >= 0 && v <= 1000) {
		return 0.5
	}
	return v
}
