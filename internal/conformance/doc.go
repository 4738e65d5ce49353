// Package conformance contains the conformance suite: small trainings that use the real frameworks as their tutorials
// do (folder trainings), run under the built binary. The suite compares the report of each run with the counts that the
// training itself recorded.
//
// The trainings are not adapted to the optimizer: no OPTIMIZER_* variable, no checkpoint protocol, no log in its
// format. The package reads only the public output of the binary (run.json, exit codes) and imports none of its
// packages.
//
// [ValidateRecord] validates a run.json against its schema, for the tests of other packages too.
//
//	make conformance                                          # every framework, full length
//	go test ./internal/conformance -run 'TestConformance/keras' -python ~/venv/bin/python
package conformance
