package wording

import (
	"errors"
	"testing"
)

func TestProblems(t *testing.T) {
	var p Problems
	p.If(false, "not this one")
	if err := errors.Join(p...); err != nil {
		t.Errorf("without a problem: %v", err)
	}
	cause := errors.New("cause")
	p.If(true, "size %d, want %d", 3, 2)
	p.If(true, "read: %w", cause)
	if err := errors.Join(p...); !errors.Is(err, cause) || err.Error() != "size 3, want 2\nread: cause" {
		t.Errorf("%v", err)
	}
}
