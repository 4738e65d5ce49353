// Package checkpoint recognises the checkpoints that a training writes: by their names, and by what changed since the training
// started. It loads none of them, and reads only the first bytes of a trainer_state.json.
//
// A name is evidence of two strengths. A strong one (checkpoint-500, last.ckpt, model_epoch_3.pt) counts once it was written
// after the start. A weak one (a .pt, .bin or .json of any name) may be data, and counts only when it was reported (by the
// observer that saw it being saved) or was rewritten while the training ran.
//
//	f := checkpoint.NewFinder(checkpoint.Options{Roots: []string{dir}, Ignore: []string{stateDir}})
//	f.Start(time.Now())                   // what exists already is not the job's
//	files, err := f.Find(time.Now())      // oldest first, the newest complete one last
package checkpoint
