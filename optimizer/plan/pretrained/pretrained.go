// Package pretrained contains the agent embedded in the binary. It was trained in the Environment of
// simulator/training on jobs drawn from licensed profiles (`make agent`) and is stored as an agent file of package
// morl.
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

// File returns a reader of the embedded agent file.
func File() io.Reader { return bytes.NewReader(file) }

// multiplierNote is the key of the SLA multiplier in the notes of an agent file.
const multiplierNote = "sla_multiplier"

// Note records in an agent's notes the Lagrange multiplier of the SLA with which it was trained.
func Note(m *morl.Meta, multiplier float64) {
	if m.Notes == nil {
		m.Notes = map[string]string{}
	}
	m.Notes[multiplierNote] = strconv.FormatFloat(multiplier, 'g', -1, 64)
}

// Multiplier returns the multiplier in an agent's notes, or 0.5 when it is missing or out of range.
func Multiplier(m morl.Meta) float64 {
	v, err := strconv.ParseFloat(m.Notes[multiplierNote], 64)
	if err != nil || !(v >= 0 && v <= 1000) {
		return 0.5
	}
	return v
}
