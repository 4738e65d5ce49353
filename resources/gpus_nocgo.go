//go:build !cgo

package resources

// nvmlBuilt says whether this build can ask the NVIDIA driver.
const nvmlBuilt = false

// readGPUs in a build without cgo sees no device: NVML is a C library.
func readGPUs() ([]GPU, []string) {
	return nil, []string{"this build has no NVML (built with CGO_ENABLED=0): GPUs unknown, counted as none"}
}
