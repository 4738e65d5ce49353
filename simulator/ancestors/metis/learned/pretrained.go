package learned

import (
	"bytes"
	_ "embed"
	"sync"
)

//go:embed metis.model
var pretrainedFile []byte

var pretrained = sync.OnceValue(func() *Model {
	m, err := Load(bytes.NewReader(pretrainedFile))
	if err != nil {
		panic("the embedded placement model: " + err.Error()) // a test reads it
	}
	return m
})

// Pretrained is a sub-scheduler of the improved recipe for Metis's seven services, trained on place.MetisTable with the defaults
// and seed 1. TestPretrain makes it again.
func Pretrained() *Model { return pretrained() }
