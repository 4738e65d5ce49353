package pretrain

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"trainopt/internal/regular"
)

// CheckpointSuffix is appended to the name of an agent file for the checkpoint of an interrupted training.
const CheckpointSuffix = ".checkpoint"

// ReadFiles reads an agent file and its checkpoint, if present.
func ReadFiles(path string) (agent, checkpoint []byte, err error) {
	if agent, err = regular.ReadFile(path, regular.Data); err != nil {
		return nil, nil, err
	}
	if agent == nil {
		agent = []byte{}
	}
	checkpoint, err = regular.ReadFile(path+CheckpointSuffix, regular.Data)
	if errors.Is(err, fs.ErrNotExist) {
		return agent, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("checkpoint: %w", err)
	}
	return agent, checkpoint, nil
}

// Files is an agent file and its checkpoint. They are consistent even after a crash between the two writes: the
// checkpoint, if present, is never older than the agent.
type Files struct {
	Path string
	Own  bool // an existing checkpoint belongs to this training
}

// Save writes both files; a nil present means that the training is complete, and removes the checkpoint.
func (a *Files) Save(agent, present []byte) error {
	checkpoint := a.Path + CheckpointSuffix
	if a.Own && present != nil {
		if err := regular.WriteFile(checkpoint, 0o644, present); err != nil {
			return err
		}
		return regular.WriteFile(a.Path, 0o644, agent)
	}
	if !a.Own { // of an earlier training that the user overwrites
		if err := os.Remove(checkpoint); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := regular.WriteFile(a.Path, 0o644, agent); err != nil {
		return err
	}
	a.Own = true
	if present != nil {
		return regular.WriteFile(checkpoint, 0o644, present)
	}
	if err := os.Remove(checkpoint); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
