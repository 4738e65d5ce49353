// Package checkpoint recognises the checkpoints that a training writes: by their names, and by the changes since the
// training started. It does not load them, and reads only the beginning of a trainer_state.json.
//
// A name is strong or weak evidence. A file with a strong name (checkpoint-500, last.ckpt, model_epoch_3.pt) counts
// if it was written after the start. A file with a weak name (any other .pt, .bin or .json) may be data, and counts
// only if it was reported (by the observer of the save) or was rewritten while the training ran.
//
//	f := checkpoint.NewFinder(checkpoint.Options{Roots: []string{dir}, Ignore: []string{stateDir}})
//	f.Start(time.Now())                   // existing files are not the job's
//	files := f.Find(time.Now())           // oldest first, the newest complete one last
package checkpoint
