// Package history stores what earlier runs measured: the runs database of a state directory, and the recall of
// earlier runs of the same training, so that a run need not repeat their measurements.
//
// The database (history.db) contains one Entry for each completed run, for each segment of a run that was timed at
// one allocation, and for each imported log. Columns lists the fields of an entry with their units. Entries of runs
// are derived from the run directories, which remain authoritative; a damaged database is rebuilt from them.
//
// Published returns measurements of third parties as entries of the same form, Peaks the published peak figures of GPUs.
//
// Calibrate scores past predictions against their outcomes: the coverage of the 90 % interval, the error of the median,
// and the factor by which the next interval must be widened to reach its nominal coverage. The package makes no
// predictions itself: package transfer does, from its entries. Recall returns
// measurements of the same work: the same script, except for arguments that change neither the amount of work nor its
// cost. Runs of nearly the same work are returned separately, as Similar.
//
// ReadLog converts training logs of any framework into entries. A log may contain one training, one training at several
// allocations (an entry of the whole and one entry per segment, whose Parent is the whole), or several trainings,
// sequential or interleaved. It is read once, row by row; only the entries and a bounded sample of the times are kept, so
// memory does not grow with the number of rows. Package trainlog parses the formats.
//
//	db, notes, err := history.Open(stateDir)
//	notes, err = db.Sync()
//	entries, err := db.Entries(history.Filter{Models: []string{"resnet50"}})
//	widen := history.Calibrate(entries).Widen("resnet") // for perf.FitOptions
//	log, err := history.ReadLog("log-cifar10-resnet50.csv", history.LogOptions{})
//	recalled, notes := history.Recall(stateDir, history.Key{ScriptSHA256: sha, Command: argv})
package history
