package cli

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"trainopt/optimizer/engine"
	"trainopt/optimizer/engine/slurm"
)

// engines maps the names of --engine, other than local, to the engines.
var engines = map[string]func() engine.Engine{
	"slurm": func() engine.Engine { return &slurm.Engine{} },
}

// OpenEngine returns the engine of a name other than local.
func OpenEngine(name string) (engine.Engine, error) {
	open, ok := engines[name]
	if !ok {
		return nil, errors.New("want " + strings.Join(EngineNames(), " or "))
	}
	return open(), nil
}

// EngineNames returns the values of --engine: local, which is this machine, and the engines by name.
func EngineNames() []string { return append([]string{"local"}, slices.Sorted(maps.Keys(engines))...) }
