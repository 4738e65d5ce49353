//go:build !cgo

package resources

// nvmlBuilt reports whether this build can query the NVIDIA driver.
const nvmlBuilt = false

// readGPUs returns no device in a build without cgo, because NVML is a C library.
func readGPUs() ([]GPU, []string) {
	return nil, []string{"this build has no NVML (built with CGO_ENABLED=0): GPUs unknown, counted as none"}
}
