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
		panic("the embedded placement model: " + err.Error()) // unreachable: a test reads the file
	}
	return m
})

// Pretrained returns a sub-scheduler of the improved recipe for Metis's seven services, trained on place.MetisTable
// with default settings and a seed of 1. TestPretrain reproduces it.
func Pretrained() *Model { return pretrained() }
