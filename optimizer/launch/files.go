package launch

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
	"unicode/utf8"

	"trainopt/resources"
)

// Files in a run directory. Each is replaced as a whole, so a reader finds the old one or the new
// one and never half of one.
const (
	stdoutFile  = "job.stdout"
	stderrFile  = "job.stderr"
	specFile    = "keeper.json"  // what was started, for people; written by the agent
	startedFile = "started.json" // the running job; written by the keeper
	exitFile    = "exit.json"    // how it ended; written by the keeper
	controlFile = "control.json" // what is wanted of it; written by the agent
	enforceFile = "enforce.json" // how its allocation is enforced; written by the agent
	lockFile    = "keeper.lock"  // held by the keeper as long as it lives
	keeperLog   = "keeper.log"   // what the keeper says when it fails itself
)

// fileSchema is the version of these files; it changes when a field changes its meaning.
const fileSchema = 1

// ErrNewer says that a file was written by a later version of this program.
var ErrNewer = errors.New("written by a newer version of this program")

// text is a string that may hold any bytes, as arguments, paths and environments do. JSON has only
// valid UTF-8, so anything else is written as {"base64": …}.
type text string

func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString([]byte(t))})
}

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

// pace are the times of an orderly end that the user does not choose.
type pace struct {
	Linger   time.Duration `json:"linger_ns"`    // what others may go on after the main process has ended
	Clear    time.Duration `json:"clear_ns"`     // then SIGTERM, and this long until SIGKILL
	KillWait time.Duration `json:"kill_wait_ns"` // how long a killed process may take to die
}

var usualPace = pace{Linger: 3 * time.Second, Clear: 5 * time.Second, KillWait: 10 * time.Second}

// spec is what the keeper is told. The environment and the recipe go through a pipe only: keys and
// tokens in an environment have no business on disk.
type spec struct {
	Schema     int                  `json:"schema"`
	Self       []text               `json:"self"` // how to run this program as the trampoline
	Args       []text               `json:"args"`
	Dir        text                 `json:"dir"`
	RunDir     text                 `json:"run_dir"`
	Allocation resources.Allocation `json:"allocation"`
	Limits     resources.Limits     `json:"limits"`
	Grace      time.Duration        `json:"grace_ns"`
	LogLimit   int64                `json:"log_limit_bytes"`
	Pace       pace                 `json:"pace"`
	// RunID is the job's OPTIMIZER_RUN_ID, by which stray processes are known after the keeper's death.
	RunID text `json:"run_id,omitempty"`
	// Terminal is the size of the job's pseudo-terminals, "COLUMNSxROWS"; empty: its output goes to pipes.
	Terminal string `json:"terminal,omitempty"`

	Env    []text            `json:"env,omitempty"`
	Recipe *resources.Recipe `json:"recipe,omitempty"`
}

// started is the keeper's record of a job that runs.
type started struct {
	Schema int       `json:"schema"`
	Handle Handle    `json:"handle"`
	At     time.Time `json:"at"`
	// Missing says what of the recipe the job could not do to itself.
	Missing []string `json:"missing,omitempty"`
}

// control is what the agent wants of the keeper. It is a state and not a message: reading it twice
// does nothing twice.
type control struct {
	Schema int `json:"schema"`
	// StopAt is when the dead-man's switch stops the job, on the machine's monotonic clock; 0 is never.
	StopAt time.Duration `json:"stop_at_ns"`
	// Checkpoints counts the checkpoint requests so far.
	Checkpoints int `json:"checkpoints"`
	// Stop, when not nil, ends the job: SIGTERM now, SIGKILL after it.
	Stop *time.Duration `json:"stop_grace_ns,omitempty"`
}

// ended is exit.json.
type ended struct {
	Schema int    `json:"schema"`
	Handle Handle `json:"handle"`
	Exit   Exit   `json:"exit"`
	// Start says what kept the job from starting; nil when it did start.
	Start *startFailure `json:"start_failure,omitempty"`
}

// schemaOf lets readJSON refuse a newer file whatever it is.
type schemaOf struct {
	Schema int `json:"schema"`
}

func readJSON(path string, into any) error {
	data, err := os.ReadFile(path)
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

func writeJSON(path string, v any, durable bool) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return writeFile(path, append(data, '\n'), durable)
}

// writeFile replaces a file in one step. Durable means that it is on the disk when writeFile
// returns; a file that only lives as long as the processes it speaks of need not be.
func writeFile(path string, data []byte, durable bool) error {
	return replaceFile(path, path+".new", os.O_TRUNC, data, durable)
}

// reserve sets disk space aside for a file that must still be written when the disk is full.
func reserve(path string) error {
	f, err := os.OpenFile(path+".reserved", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 4096))
	return errors.Join(err, f.Close())
}

// writeReserved is writeFile, durable, into the space that reserve has set aside.
func writeReserved(path string, data []byte) error {
	return replaceFile(path, path+".reserved", 0, data, true)
}

func replaceFile(path, temp string, flags int, data []byte, durable bool) (err error) {
	defer func() {
		if err != nil {
			os.Remove(temp)
			err = fmt.Errorf("write %s: %w", path, bare(err))
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
	dir.Sync() // some file systems have no directory sync; the rename stands without it
	return dir.Close()
}
