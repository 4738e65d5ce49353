// Package pretrained has the agent that is in the binary: trained in simulator/training's Environment on jobs drawn
// from licensed profiles (`make agent`), as an agent file of package morl.
//
// It does not train (simulator/pretrain does) and does not decide (optimizer/plan does).
//
// Example:
//
//	meta, agent, err := morl.ReadFile(pretrained.File())
package pretrained

import (
	"bytes"
	_ "embed" // the agent's file
	"io"
	"strconv"

	"trainopt/morl"
)

//go:embed agent.bin
var file []byte

// File is the embedded agent file.
func File() io.Reader { return bytes.NewReader(file) }

// multiplierNote is the note of an agent file that holds the multiplier of the agreement.
const multiplierNote = "sla_multiplier"

// Note puts the Lagrange multiplier of the agreement, with which an agent was trained, into its notes.
func Note(m *morl.Meta, multiplier float64) {
	if m.Notes == nil {
		m.Notes = map[string]string{}
	}
	m.Notes[multiplierNote] = strconv.FormatFloat(multiplier, 'g', -1, 64)
}

// Multiplier is the multiplier in an agent's notes, 0.5 when there is none.
func Multiplier(m morl.Meta) float64 {
	v, err := strconv.ParseFloat(m.Notes[multiplierNote], 64)
	if err != nil || !(v >= 0 && v <= 1000) {
		return 0.5
	}
	return v
}
