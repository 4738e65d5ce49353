// Package conformance holds the conformance suite: small trainings that use the real frameworks as their tutorials do
// (folder trainings), run under the built program, and what the program reported of each compared with what the training
// itself counted.
//
// The trainings contain nothing of the program: no OPTIMIZER_* variable, no checkpoint protocol, no log of its format.
// The package reads the program's public output only (run.json, exit codes) and imports none of its packages.
//
//	make conformance                                          # every framework, full length
//	go test ./internal/conformance -run 'TestConformance/keras' -python ~/venv/bin/python
package conformance
