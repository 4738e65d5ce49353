package plan

import (
	"fmt"
	"sync"

	"trainopt/optimizer/plan/pretrained"
)

// embedded is the agent embedded in the binary, decoded on first use.
var embedded = sync.OnceValues(func() (*Agent, error) {
	a, err := LoadAgent(pretrained.File())
	if err != nil {
		return nil, fmt.Errorf("the agent in this program: %w", err)
	}
	return a, nil
})
