// Package history is the memory of a state directory: the runs database, and what it recalls of earlier runs of the same
// training, so that a run need not measure again what was measured.
//
// The database (history.db) holds one Entry for each run that has ended, for each stretch of one that was timed at one
// allocation, and for each imported log. Columns lists what an entry holds, in which unit. Our own runs are read from their
// directories, which stay the truth; the database can be made again from them, and is when it is damaged.
//
// It predicts nothing: packages transfer and calibration below do, from its entries. Recall returns what was measured of the same
// work: the same script, arguments apart that change neither the amount of work nor its cost; nearly the same work is returned
// apart, as Similar.
//
//	db, notes, err := history.Open(stateDir)
//	notes, err = db.Sync()
//	entries, err := db.Entries(history.Filter{Models: []string{"resnet50"}})
//	recalled, notes := history.Recall(stateDir, history.Key{ScriptSHA256: sha, Command: argv})
package history
