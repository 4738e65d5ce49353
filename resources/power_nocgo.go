//go:build !cgo

package resources

import "errors"

func openPower() (powerDriver, error) {
	return nil, errors.New("this build has no NVML (built with CGO_ENABLED=0)")
}
