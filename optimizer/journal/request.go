package journal

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"trainopt/internal/regular"
	"trainopt/optimizer/plan"
)

// requestsDir contains the requests to the agent of a run, ID.json, and its answers, ID.answer.json.
const requestsDir = "requests"

// answerSuffix ends the name of an answer; that of the request ends in ".json".
const answerSuffix = ".answer.json"

// maxRequest is the maximum size of a request or an answer in bytes.
const maxRequest = 64 << 10

// request asks the agent of a run for a change.
type request struct {
	Schema int              `json:"schema"`
	ID     string           `json:"id"`
	At     time.Time        `json:"at"`
	Prefer *plan.Preference `json:"prefer"` // the new preference
}

// Answer is the agent's answer to a request.
type Answer struct {
	Schema int       `json:"schema"`
	ID     string    `json:"id"`
	At     time.Time `json:"at"`
	// Changed reports that the allocation of the job changes.
	Changed bool   `json:"changed"`
	Text    string `json:"text"` // one sentence, with the reason
}

// Ask writes a request to the agent of a run directory and returns its id. The agent reads it within a sampling
// interval; ReadAnswer returns the answer.
func Ask(dir string, prefer plan.Preference) (id string, err error) {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	q := request{Schema: Schema, ID: time.Now().UTC().Format("20060102T150405.000000") + "-" + hex.EncodeToString(random[:]), At: time.Now().UTC(), Prefer: &prefer}
	if err := os.Mkdir(filepath.Join(dir, requestsDir), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("request a change of run %s: %w", filepath.Base(dir), err)
	}
	if err := writeRequest(dir, q.ID+".json", q); err != nil {
		return "", fmt.Errorf("request a change of run %s: %w", filepath.Base(dir), err)
	}
	return q.ID, nil
}

func writeRequest(dir, name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return replace(disk{}, filepath.Join(dir, requestsDir, name), append(data, '\n'))
}

// Requests returns the requests without an answer, oldest first. A damaged request is returned without a change; it is
// to be answered too.
func (r *Run) Requests() []request {
	entries, err := os.ReadDir(filepath.Join(r.dir, requestsDir))
	if err != nil {
		return nil
	}
	answered := map[string]bool{}
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), answerSuffix); ok {
			answered[id] = true
		}
	}
	var out []request
	for _, e := range entries { // ReadDir sorts by name, and ids begin with the time
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || strings.HasPrefix(id, ".") || strings.HasSuffix(e.Name(), answerSuffix) || answered[id] {
			continue
		}
		var q request
		data, err := regular.ReadFile(filepath.Join(r.dir, requestsDir, e.Name()), maxRequest)
		if err != nil || json.Unmarshal(data, &q) != nil {
			q = request{}
		}
		q.ID = id
		out = append(out, q)
	}
	return out
}

// Answer writes the answer to a request. Schema and time are set.
func (r *Run) Answer(a Answer) error {
	a.Schema, a.At = Schema, time.Now().UTC()
	if err := writeRequest(r.dir, a.ID+answerSuffix, a); err != nil {
		return fmt.Errorf("answer request %s: %w", a.ID, err)
	}
	return nil
}

// ReadAnswer returns the answer to a request; nil if there is no answer yet.
func ReadAnswer(dir, id string) (*Answer, error) {
	data, err := regular.ReadFile(filepath.Join(dir, requestsDir, id+answerSuffix), maxRequest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var a Answer
	if err == nil {
		err = json.Unmarshal(data, &a)
	}
	if err != nil {
		return nil, fmt.Errorf("read the answer to request %s of run %s: %w", id, filepath.Base(dir), err)
	}
	return &a, nil
}
