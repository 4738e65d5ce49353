// Package journal stores a run: its directory, run.json, the crash-safe state of the agent, and the lock that
// excludes a second agent.
//
// It measures, decides and shows nothing: it stores values and returns them complete, or returns an error that states
// why it cannot. The metric tables (samples.csv and the others) are written by package monitor; the history over many
// runs is in package history.
//
// A saved file contains either the old or the new version, never a part: temporary file in the same directory, fsync,
// rename, fsync of the directory. The state has a version and a checksum, and the previous state is kept.
//
//	id := journal.NewRunID(time.Now(), "train.py")
//	run, err := journal.Create(".optimize", id)
//	if err != nil {
//		return err
//	}
//	unlock, err := run.Lock() // *LockedError identifies the agent that holds the run
//	if err != nil {
//		return err
//	}
//	defer unlock()
//	record := journal.NewRecord() // every number is unknown
//	record.RunID, record.State = id, journal.Running
//	err = run.WriteRecord(record)
package journal
