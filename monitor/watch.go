package monitor

import (
	"context"
	"fmt"
	"time"

	"github.com/fsnotify/fsnotify"
)

// hintEvery is the shortest time between two hints, so that a script which writes ten thousand lines a second
// does not wake us as often.
const hintEvery = 100 * time.Millisecond

// waitingEvents are taken at once when a storm of them has made one hint.
const waitingEvents = 256

// Watch gives a hint on the channel when something in one of the directories was written, created, renamed or
// removed. It is only a hint: it may be late, or missing altogether (network file systems, too many watches), and
// many events make one hint; Poll on a timer tells the truth. Directories are watched, not files, because a watch
// on a file ends with its rename. What happens to a path for which ignore is true (nil: none) makes no hint: a reader
// that itself writes beside the log would else wake itself. The channel is closed when ctx ends. The error says that no
// directory could be watched; go on with the timer alone.
func Watch(ctx context.Context, ignore func(path string) bool, dirs ...string) (<-chan struct{}, error) {
	w, err := fsnotify.NewBufferedWatcher(waitingEvents)
	if err != nil {
		return nil, fmt.Errorf("watch %q: %w", dirs, err)
	}
	watched := 0
	for _, dir := range dirs {
		if e := w.Add(dir); e != nil {
			err = fmt.Errorf("watch %s: %w", dir, e)
			continue
		}
		watched++
	}
	if watched == 0 {
		w.Close()
		return nil, err
	}
	hints := make(chan struct{}, 1)
	go forward(ctx, w, ignore, hints)
	return hints, nil
}

func forward(ctx context.Context, w *fsnotify.Watcher, ignore func(path string) bool, hints chan<- struct{}) {
	defer close(hints)
	telling := func(e fsnotify.Event) bool { return e.Op != fsnotify.Chmod && (ignore == nil || !ignore(e.Name)) }
	defer w.Close()
	pause := time.NewTimer(time.Hour)
	defer pause.Stop()
	var last time.Time // when the last hint was given
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.Errors: // events were lost: as good a hint
		case e := <-w.Events:
			if !telling(e) {
				continue
			}
		}
		if early := hintEvery - time.Since(last); early > 0 {
			pause.Reset(early)
			select {
			case <-ctx.Done():
				return
			case <-pause.C:
			}
			drain(w)
		}
		last = time.Now()
		select {
		case hints <- struct{}{}:
		default: // one is waiting
		}
	}
}

// drain takes the events that wait: the hint that follows tells of them too.
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
