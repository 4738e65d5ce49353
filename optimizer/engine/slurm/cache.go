package slurm

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"trainopt/internal/regular"
	"trainopt/optimizer/engine"
)

// sharedAnswer is an answer that processes of one user on one machine share, so that a question is asked once in a
// period and not once by each of them. The answer is a file, replaced whole; a lock beside it admits one writer. That
// the engine did not answer is an answer too: otherwise all processes would wait for it, one after the other.
type sharedAnswer struct {
	path     string        // of the answer; the lock is path.lock
	age      time.Duration // from which an answer is renewed
	patience time.Duration // how long to wait for the writer before asking without the lock
	now      func() time.Time
}

// answer is the content of the file.
type answer struct {
	Time    time.Time `json:"time"` // when it was complete
	Failure string    `json:"failure,omitempty"`
	Text    string    `json:"text"`
}

// get returns an answer that was complete at most s.age ago, or asks. Without a usable folder, or if the writer does not
// finish in s.patience, the caller asks for itself.
func (s sharedAnswer) get(ctx context.Context, ask func(context.Context) (string, error)) (string, error) {
	var seen fs.FileInfo
	start := time.Now()
	for wait := 10 * time.Millisecond; time.Since(start) < s.patience; wait = min(2*wait, 100*time.Millisecond) {
		if a := s.read(&seen); a != nil {
			return a.result()
		}
		lock, err := s.lock()
		if err != nil {
			break
		}
		if lock != nil {
			defer lock.Close()
			if a := s.read(&seen); a != nil { // written since the first look
				return a.result()
			}
			text, err := ask(ctx)
			if ctx.Err() == nil {
				s.write(text, err)
			}
			return text, err
		}
		select {
		case <-ctx.Done():
			err := fmt.Errorf("wait for the query of another process: %w", ctx.Err())
			if errors.Is(err, context.DeadlineExceeded) {
				err = fmt.Errorf("%w: %w", engine.ErrUnreachable, err)
			}
			return "", err
		case <-time.After(wait):
		}
	}
	return ask(ctx)
}

// read returns the answer if it is young enough; nil otherwise. A file that was seen before is not read again.
func (s sharedAnswer) read(seen *fs.FileInfo) *answer {
	info, err := os.Stat(s.path)
	if err != nil || *seen != nil && os.SameFile(info, *seen) && info.ModTime().Equal((*seen).ModTime()) {
		return nil
	}
	*seen = info
	data, err := regular.ReadFile(s.path, 2*maxOutput)
	if err != nil {
		return nil
	}
	var a answer
	if json.Unmarshal(data, &a) != nil {
		return nil
	}
	if age := s.now().Sub(a.Time); age < 0 || age > s.age {
		return nil
	}
	return &a
}

// write stores an answer, or that the engine did not answer. Other failures concern this process alone. An answer that
// cannot be stored is asked for again.
func (s sharedAnswer) write(text string, err error) {
	a := answer{Time: s.now(), Text: text}
	switch {
	case errors.Is(err, engine.ErrUnreachable):
		a.Failure = err.Error()
	case err != nil:
		return
	}
	_ = regular.WriteJSON(s.path, 0o600, a)
}

// result returns what the process that asked received.
func (a *answer) result() (string, error) {
	if a.Failure != "" {
		return "", fmt.Errorf("%w: another process asked %s: %s", engine.ErrUnreachable, a.Time.Local().Format(time.TimeOnly), a.Failure)
	}
	return a.Text, nil
}

// lock returns the lock, nil if another process or goroutine holds it. Closing it releases it, as does the end of the
// process.
func (s sharedAnswer) lock() (*os.File, error) {
	f, err := os.OpenFile(s.path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil:
			return f, nil
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			return nil, f.Close()
		default:
			return nil, errors.Join(err, f.Close())
		}
	}
}

// queueFile returns the file in folder for the answer of squeue. Processes with another configuration or choice of
// clusters share another one.
func queueFile(folder string) string {
	h := sha256.New()
	for _, name := range []string{"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS"} {
		fmt.Fprintf(h, "%s\x00", os.Getenv(name))
	}
	return filepath.Join(folder, fmt.Sprintf("squeue-1-%x", h.Sum(nil)[:8]))
}

// runtimeFolder returns a folder on this machine that only the user can access, and creates it; "" if none is possible.
func runtimeFolder() string {
	folder := filepath.Join(os.TempDir(), "optimize-"+strconv.Itoa(os.Getuid()))
	if dir := os.Getenv("XDG_RUNTIME_DIR"); isPrivate(dir) {
		folder = filepath.Join(dir, "optimize")
	}
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) || !isPrivate(folder) {
		return ""
	}
	return folder
}

// isPrivate reports whether a path is a folder, not a link, that belongs to the user and that others cannot access.
func isPrivate(path string) bool {
	var st unix.Stat_t
	return path != "" && unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Mode&0o077 == 0 && int(st.Uid) == os.Getuid()
}
