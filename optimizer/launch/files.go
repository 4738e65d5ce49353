package launch

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"trainopt/internal/regular"
	"trainopt/resources"
)

// Files in a run directory. Each is replaced atomically, so a reader sees the old or the new content, never a part.
const (
	stdoutFile  = "job.stdout"
	stderrFile  = "job.stderr"
	specFile    = "keeper.json"  // the command, for people; written by the agent
	startedFile = "started.json" // the running job; written by the keeper
	exitFile    = "exit.json"    // the exit record; written by the keeper
	endingFile  = "ending.json"  // that the job was asked to end; written by the keeper, removed with the exit record
	controlFile = "control.json" // the requested state; written by the agent
	enforceFile = "enforce.json" // how its allocation is enforced; written by the agent
	lockFile    = "keeper.lock"  // held by the keeper while it lives
	keeperLog   = "keeper.log"   // errors of the keeper itself
)

// stretchesDir is the directory in a run directory that contains one for each stretch of a run on an engine.
const stretchesDir = "stretches"

// StretchDir returns the directory of the files of stretch n of a run on an engine, n from 1. It is the RunDir of the job
// on the node.
func StretchDir(runDir string, n int) string {
	return filepath.Join(runDir, stretchesDir, strconv.Itoa(n))
}

// JobDirs returns the directories of a run that contain the files of its jobs, in the order of their last start: the run
// directory, for jobs on this machine, and those of the stretches.
func JobDirs(runDir string) []string {
	var dirs []string
	here := startTime(runDir)
	added := false
	entries, _ := os.ReadDir(filepath.Join(runDir, stretchesDir)) // without it no stretch exists
	slices.SortFunc(entries, func(a, b os.DirEntry) int {
		return cmp.Or(cmp.Compare(len(a.Name()), len(b.Name())), cmp.Compare(a.Name(), b.Name()))
	})
	for _, e := range entries {
		dir := filepath.Join(runDir, stretchesDir, e.Name())
		if at := startTime(dir); !at.IsZero() {
			if !added && at.After(here) {
				dirs, added = append(dirs, runDir), true
			}
			dirs = append(dirs, dir)
		}
	}
	if !added {
		dirs = append(dirs, runDir)
	}
	return dirs
}

// startTime returns when the last job of a directory was started; zero if none was.
func startTime(dir string) time.Time {
	info, err := os.Stat(filepath.Join(dir, startedFile))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// fileSchema is the version of these files; it changes when a field changes its meaning.
const fileSchema = 1

// ErrNewer reports that a file was written by a later version of this program.
var ErrNewer = errors.New("written by a newer version of this program")

// text is a string of arbitrary bytes, as in arguments, paths and environments. JSON requires valid UTF-8, so any
// other string is written as {"base64": …}.
type text string

func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString([]byte(t))})
}

// UnmarshalJSON accepts both forms.
func (t *text) UnmarshalJSON(data []byte) error {
	var s string
	if json.Unmarshal(data, &s) == nil {
		*t = text(s)
		return nil
	}
	var raw struct{ Base64 *string }
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	if raw.Base64 == nil {
		return errors.New("want a string or {\"base64\": …}")
	}
	b, err := base64.StdEncoding.DecodeString(*raw.Base64)
	*t = text(b)
	return err
}

func texts(in []string) []text {
	out := make([]text, len(in))
	for i, s := range in {
		out[i] = text(s)
	}
	return out
}

func plain(in []text) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = string(s)
	}
	return out
}

// endTimeouts holds the timeouts of an orderly end that the user does not choose.
type endTimeouts struct {
	Linger   time.Duration `json:"linger_ns"`    // run time granted to other processes after the main process has ended
	Clear    time.Duration `json:"clear_ns"`     // from the SIGTERM that follows to SIGKILL
	KillWait time.Duration `json:"kill_wait_ns"` // the time a killed process may take to die
}

var usualPace = endTimeouts{Linger: 3 * time.Second, Clear: 5 * time.Second, KillWait: 10 * time.Second}

// spec is the keeper's input. Environment and recipe are passed through a pipe only: the keys and tokens of an
// environment must not be stored on disk.
type spec struct {
	Schema     int                  `json:"schema"`
	Self       []text               `json:"self"` // the command that runs this program as the trampoline
	Args       []text               `json:"args"`
	Dir        text                 `json:"dir"`
	RunDir     text                 `json:"run_dir"`
	Allocation resources.Allocation `json:"allocation"`
	Limits     resources.Limits     `json:"limits"`
	Grace      time.Duration        `json:"grace_ns"`
	LogLimit   int64                `json:"log_limit_bytes"`
	Pace       endTimeouts          `json:"pace"`
	// Owner is the process with which the job ends; zero: none.
	Owner process `json:"owner,omitzero"`
	// RunID is the job's OPTIMIZER_RUN_ID, which identifies stray processes after the keeper's death.
	RunID text `json:"run_id,omitempty"`
	// Terminal is the size of the job's pseudo-terminals, "COLUMNSxROWS"; empty means pipes.
	Terminal string `json:"terminal,omitempty"`

	Env    []text            `json:"env,omitempty"`
	Recipe *resources.Recipe `json:"recipe,omitempty"`
}

// started is the keeper's record of a running job.
type started struct {
	Schema int       `json:"schema"`
	Handle Handle    `json:"handle"`
	At     time.Time `json:"at"`
	// Began is the same time on the monotonic clock, from which Exit.Ran counts.
	Began time.Duration `json:"began_ns"`
	// Missing lists the parts of the recipe that could not be applied.
	Missing []string `json:"missing,omitempty"`
}

// control is the state that the agent requests of the keeper. It is a state and not a message: reading it twice has
// no further effect.
type control struct {
	Schema int `json:"schema"`
	// StopAt is when the dead-man's switch stops the job, on the machine's monotonic clock; 0 means never.
	StopAt time.Duration `json:"stop_at_ns"`
	// Checkpoints counts the checkpoint requests so far.
	Checkpoints int `json:"checkpoints"`
	// Stop, when not nil, ends the job: SIGTERM immediately, SIGKILL after this grace.
	Stop *time.Duration `json:"stop_grace_ns,omitempty"`
}

// ended is the content of exit.json.
type ended struct {
	Schema int    `json:"schema"`
	Handle Handle `json:"handle"`
	Exit   Exit   `json:"exit"`
	// Start is why the job did not start; nil if it did.
	Start *startFailure `json:"start_failure,omitempty"`
}

// schemaOf is the part that every file has in common; readJSON uses it to reject a newer file before decoding the
// rest.
type schemaOf struct {
	Schema int `json:"schema"`
}

// readJSON reads a file of a run directory. A schema above fileSchema is ErrNewer, a missing one an error.
func readJSON(path string, into any) error {
	data, err := regular.ReadFile(path, regular.Settings)
	if err != nil {
		return fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	var v schemaOf
	if err := json.Unmarshal(data, &v); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if v.Schema > fileSchema {
		return fmt.Errorf("read %s: schema %d, this program knows %d: %w", path, v.Schema, fileSchema, ErrNewer)
	}
	if v.Schema < 1 {
		return fmt.Errorf("read %s: no schema number", path)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// writeJSON replaces a file that is only valid while the processes it describes live.
func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return writeFile(path, append(data, '\n'), false)
}

// writeFile replaces a file atomically. durable means that it is synced to disk when writeFile returns; a file that
// is only valid while the processes it describes live needs no sync.
func writeFile(path string, data []byte, durable bool) error {
	return replaceFile(path, path+".new", os.O_TRUNC, data, durable)
}

// reserve allocates disk space for a file that must be written even when the disk is full.
func reserve(path string) error {
	f, err := os.OpenFile(path+".reserved", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 4096))
	return errors.Join(err, f.Close())
}

// writeReserved is a durable writeFile into the space that reserve has allocated.
func writeReserved(path string, data []byte) error {
	return replaceFile(path, path+".reserved", 0, data, true)
}

// replaceFile writes data to temp and renames it to path. Without O_TRUNC in flags, temp keeps its reserved blocks
// until the data is written. On an error temp is removed.
func replaceFile(path, temp string, flags int, data []byte, durable bool) (err error) {
	defer func() {
		if err != nil {
			os.Remove(temp)
			err = fmt.Errorf("write %s: %w", path, regular.Reason(err))
		}
	}()
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_WRONLY|flags, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil && flags&os.O_TRUNC == 0 {
		err = f.Truncate(int64(len(data)))
	}
	if err == nil && durable {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(temp, path); err != nil || !durable {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	dir.Sync() // some file systems have no directory sync; the rename is done nevertheless
	return dir.Close()
}
