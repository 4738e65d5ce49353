//go:build !cgo

package monitor

import (
	"context"
	"errors"
)

// NVML would collect GPUSample; this binary was built without cgo, which the driver's library needs.
type NVML struct{}

var _ Collector = (*NVML)(nil)

// ErrNoNVML says why there is nothing to be known of GPUs.
var ErrNoNVML = errors.New("no GPU library: built without cgo")

// OpenNVML gives a collector that knows nothing.
func OpenNVML(uuids ...string) *NVML { return &NVML{} }

// Name is "nvml".
func (*NVML) Name() string { return "nvml" }

// Collect returns ErrNoData.
func (*NVML) Collect(context.Context, *Sample) error { return ErrNoData }

// Err is ErrNoNVML.
func (*NVML) Err() error { return ErrNoNVML }

// Close does nothing.
func (*NVML) Close() error { return nil }
