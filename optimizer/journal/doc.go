// Package journal is what a run leaves behind: its directory, run.json, the crash-safe state of the
// agent, and the lock that keeps two agents apart.
//
// It is not the place where anything is measured, decided or shown: it stores what others hand it
// and gives it back whole, or says in clear words why it cannot. The metric tables (samples.csv and
// the others) are written by package monitor; the history over many runs is package history.
//
// What is saved is either the old or the new version, never half of one: temporary file in the same
// directory, fsync, rename, fsync of the directory. The state carries a version and a checksum, and
// the one before it is kept.
//
//	id := journal.NewRunID(time.Now(), "train.py")
//	run, err := journal.Create(".optimize", id)
//	if err != nil {
//		return err
//	}
//	unlock, err := run.Lock() // *LockedError names the agent that is already at work
//	if err != nil {
//		return err
//	}
//	defer unlock()
//	record := journal.NewRecord() // every number unknown
//	record.RunID, record.State = id, journal.Running
//	err = run.WriteRecord(record)
package journal
