// Package browser tests the pages of optimize serve in a headless Chromium. The tests require the build tag browser and
// Debian's package chromium:
//
//	go test -tags browser ./internal/browser
package browser
