// Package history recalls earlier runs of the same training: what was measured at which allocation, so
// that a run need not measure it again.
//
// It is not a prediction for other jobs; it answers only for the same script with the same arguments.
//
//	recalled, notes := history.Recall(stateDir, history.Key{ScriptSHA256: sha, Command: argv})
package history
