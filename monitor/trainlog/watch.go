package trainlog

import (
	"context"
	"fmt"
	"time"

	"github.com/fsnotify/fsnotify"
)

// minHintInterval is the minimum interval between two hints. It bounds the wake-ups caused by a script that writes
// thousands of lines a second.
const minHintInterval = 100 * time.Millisecond

// burst is the time for which a hint waits for further events: a training writes its log and a checkpoint at once.
const burst = 20 * time.Millisecond

// waitingEvents is the buffer of events between two hints.
const waitingEvents = 256

// Watch sends a hint on the returned channel when something in one of the directories was written, created, renamed
// or removed. Hints are unreliable: they may be late or missing (network file systems, too many watches) and many
// events are merged into one, so callers must also poll on a timer. Directories are watched rather than files because
// a watch on a file ends when the file is renamed. Events of paths for which ignore returns true cause no hint, so
// that a reader that writes beside the log does not wake itself; a nil ignore ignores none. The channel is closed
// when ctx ends. A directory that does not exist is watched once a hint comes after its creation, as from a watched parent.
// An error means that no directory can be watched, and the caller must rely on the timer alone.
func Watch(ctx context.Context, ignore func(path string) bool, dirs ...string) (<-chan struct{}, error) {
	w, err := fsnotify.NewBufferedWatcher(waitingEvents)
	if err != nil {
		return nil, fmt.Errorf("watch %q: %w", dirs, err)
	}
	for _, dir := range dirs {
		if e := w.Add(dir); e != nil {
			err = fmt.Errorf("watch %s: %w", dir, e)
		}
	}
	if len(w.WatchList()) == 0 {
		w.Close()
		return nil, err
	}
	hints := make(chan struct{}, 1)
	go forward(ctx, w, dirs, ignore, hints)
	return hints, nil
}

// forward converts events to hints, at most one every minHintInterval, until ctx ends. Nothing is watched in between, so
// that a script that writes hundreds of times a second does not wake the process each time.
func forward(ctx context.Context, w *fsnotify.Watcher, dirs []string, ignore func(path string) bool, hints chan<- struct{}) {
	defer close(hints)
	telling := func(e fsnotify.Event) bool { return e.Op != fsnotify.Chmod && (ignore == nil || !ignore(e.Name)) }
	defer w.Close()
	pause := time.NewTimer(time.Hour)
	defer pause.Stop()
	var last time.Time // time of the last hint
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.Errors: // lost events count as an event
		case e := <-w.Events:
			if !telling(e) {
				continue
			}
		}
		for _, dir := range dirs {
			_ = w.Remove(dir) // fails only for a directory that is not watched
		}
		pause.Reset(max(burst, minHintInterval-time.Since(last)))
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		for _, dir := range dirs {
			_ = w.Add(dir) // fails for a directory that is gone or not there yet; watched from the hint on that it causes in another one
		}
		drain(w)
		last = time.Now()
		select {
		case hints <- struct{}{}:
		default: // a hint is already pending
		}
	}
}

// drain discards pending events, which the following hint covers.
func drain(w *fsnotify.Watcher) {
	for {
		select {
		case <-w.Events:
		case <-w.Errors:
		default:
			return
		}
	}
}
