//go:build !cgo

package monitor

import (
	"context"
	"errors"
)

// NVML is an empty collector: this binary was built without cgo, which the driver's library requires.
type NVML struct{}

var _ Collector = (*NVML)(nil)

// errNoNVML is the reason why GPUs cannot be read.
var errNoNVML = errors.New("no GPU library: built without cgo")

// OpenNVML returns a collector without data.
func OpenNVML(uuids ...string) *NVML { return &NVML{} }

// Name returns "nvml".
func (*NVML) Name() string { return "nvml" }

// Collect returns ErrNoData.
func (*NVML) Collect(context.Context, *Sample) error { return ErrNoData }

// Err returns errNoNVML.
func (*NVML) Err() error { return errNoNVML }

// Close does nothing.
func (*NVML) Close() error { return nil }
