package tracker

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"trainopt/internal/regular"
	"trainopt/optimizer/journal"
)

// mlflowStatus are the states of a run in MLflow, with their numbers in a file store.
var mlflowStatus = map[journal.State]struct {
	name   string
	number int
}{journal.Running: {"RUNNING", 1}, journal.Planned: {"SCHEDULED", 2}, journal.Done: {"FINISHED", 3}, journal.Failed: {"FAILED", 4}, journal.Stopped: {"KILLED", 5}}

// mlflowTags returns the tags of a run with those that MLflow itself shows.
func (r *Run) mlflowTags() map[string]string {
	tags := maps.Clone(r.Tags)
	tags["mlflow.runName"], tags["mlflow.user"] = r.Record.RunID, userName()
	tags["mlflow.source.name"] = cmp.Or(r.Record.Script.Path, strings.Join(r.Record.Command, " "))
	tags["mlflow.source.type"] = "LOCAL"
	return tags
}

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}

// mlflowID returns the id of a run in a file store: the same run has the same id.
func mlflowID(runID string) string {
	sum := sha256.Sum256([]byte(runID))
	return hex.EncodeToString(sum[:16])
}

// MLflowStore writes a run to a file store of MLflow, which is created if it does not exist, and returns the directory of
// the run. A run that was written before is replaced as a whole.
func MLflowStore(store, experiment string, r *Run) (dir string, err error) {
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("export run %s to %s: %w", r.Record.RunID, store, err)
	}
	if store, err = filepath.Abs(store); err != nil {
		return fail(err)
	}
	home, err := experimentDir(store, experiment)
	if err != nil {
		return fail(err)
	}
	id := mlflowID(r.Record.RunID)
	dir = filepath.Join(home, id)
	temporary, err := os.MkdirTemp(home, ".export-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(temporary)
	if err := errors.Join(os.Chmod(temporary, 0o755), r.writeStore(temporary, dir, filepath.Base(home), id)); err != nil {
		return fail(err)
	}
	if err := errors.Join(os.RemoveAll(dir), os.Rename(temporary, dir)); err != nil {
		return fail(err)
	}
	return dir, nil
}

// experimentDir returns the directory of an experiment, which it creates if no experiment of the name exists.
func experimentDir(store, name string) (string, error) {
	entries, err := os.ReadDir(store)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for _, e := range entries {
		var meta struct{ Name string }
		home := filepath.Join(store, e.Name())
		if data, err := regular.ReadFile(filepath.Join(home, "meta.yaml"), 1<<20); err == nil && yaml.Unmarshal(data, &meta) == nil && meta.Name == name {
			return home, nil
		}
	}
	sum := sha256.Sum256([]byte(name))
	id := strconv.FormatUint(1e17+binary.BigEndian.Uint64(sum[:])%8e17, 10)
	dir := filepath.Join(store, id)
	now := time.Now().UnixMilli()
	meta := map[string]any{"artifact_location": fileURL(dir), "creation_time": now, "last_update_time": now, "experiment_id": id, "lifecycle_stage": "active", "name": name}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, writeYAML(filepath.Join(dir, "meta.yaml"), meta)
}

func fileURL(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

func writeYAML(path string, v any) error {
	data, err := yaml.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

// writeStore writes the files of a run to dir; final is the place to which it is moved.
func (r *Run) writeStore(dir, final, experiment, id string) error {
	meta := map[string]any{"artifact_uri": fileURL(filepath.Join(final, "artifacts")), "entry_point_name": "", "experiment_id": experiment, "lifecycle_stage": "active",
		"run_id": id, "run_uuid": id, "run_name": r.Record.RunID, "source_name": "", "source_type": 4, "source_version": "", "tags": []string{},
		"start_time": r.Record.StartedAt.UnixMilli(), "end_time": nil, "status": mlflowStatus[r.Record.State].number, "user_id": userName()}
	if end := r.ended(); !end.IsZero() {
		meta["end_time"] = end.UnixMilli()
	}
	files := map[string]*bytes.Buffer{}
	for _, p := range r.Points {
		path := filepath.Join("metrics", filepath.FromSlash(p.Name))
		if files[path] == nil {
			files[path] = &bytes.Buffer{}
		}
		fmt.Fprintf(files[path], "%d %s %d\n", p.At.UnixMilli(), strconv.FormatFloat(p.Value, 'g', -1, 64), p.Step)
	}
	for folder, list := range map[string]map[string]string{"params": r.Params, "tags": r.mlflowTags()} {
		for name, text := range list {
			files[filepath.Join(folder, name)] = bytes.NewBufferString(text)
		}
	}
	for _, folder := range []string{"metrics", "params", "tags", "artifacts"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			return err
		}
	}
	for path, data := range files {
		if err := put(dir, path, data.String()); err != nil {
			return err
		}
	}
	return writeYAML(filepath.Join(dir, "meta.yaml"), meta)
}

// MLflowServer is a tracking server of MLflow.
type MLflowServer struct {
	URL string // such as http://127.0.0.1:5000
	// Token is sent as a bearer token; otherwise User and Password, if they are set.
	Token, User, Password string
}

// Limits of a batch of the server.
const (
	batchMetrics = 1000
	batchOthers  = 100
	callLimit    = 60 * time.Second
)

// Export sends a run to the server and returns its address there. A run that was sent before is deleted and sent again,
// because a parameter of MLflow cannot be changed.
func (s *MLflowServer) Export(ctx context.Context, experiment string, r *Run) (address string, err error) {
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("export run %s to MLflow: %w", r.Record.RunID, err)
	}
	id, err := s.experiment(ctx, experiment)
	if err != nil {
		return fail(err)
	}
	if err := s.removeEarlier(ctx, id, r.Record.RunID); err != nil {
		return fail(err)
	}
	var created struct {
		Run struct {
			Info struct {
				ID string `json:"run_id"`
			} `json:"info"`
		} `json:"run"`
	}
	pairs := func(list map[string]string) []map[string]string {
		out := []map[string]string{}
		for _, key := range slices.Sorted(maps.Keys(list)) {
			out = append(out, map[string]string{"key": key, "value": list[key]})
		}
		return out
	}
	err = s.call(ctx, http.MethodPost, "runs/create", map[string]any{"experiment_id": id, "start_time": r.Record.StartedAt.UnixMilli(), "run_name": r.Record.RunID,
		"tags": pairs(r.mlflowTags())}, &created)
	if err != nil {
		return fail(err)
	}
	run := created.Run.Info.ID
	for chunk := range slices.Chunk(pairs(r.Params), batchOthers) {
		if err := s.call(ctx, http.MethodPost, "runs/log-batch", map[string]any{"run_id": run, "params": chunk}, nil); err != nil {
			return fail(err)
		}
	}
	for chunk := range slices.Chunk(r.Points, batchMetrics) {
		metrics := make([]map[string]any, len(chunk))
		for i, p := range chunk {
			metrics[i] = map[string]any{"key": p.Name, "value": p.Value, "timestamp": p.At.UnixMilli(), "step": p.Step}
		}
		if err := s.call(ctx, http.MethodPost, "runs/log-batch", map[string]any{"run_id": run, "metrics": metrics}, nil); err != nil {
			return fail(err)
		}
	}
	update := map[string]any{"run_id": run, "status": mlflowStatus[r.Record.State].name}
	if end := r.ended(); !end.IsZero() {
		update["end_time"] = end.UnixMilli()
	}
	if err := s.call(ctx, http.MethodPost, "runs/update", update, nil); err != nil {
		return fail(err)
	}
	base, _ := url.Parse(s.URL) // parsed by call before
	base.User = nil
	return strings.TrimRight(base.String(), "/") + "/#/experiments/" + id + "/runs/" + run, nil
}

// experiment returns the id of an experiment, which it creates if it does not exist.
func (s *MLflowServer) experiment(ctx context.Context, name string) (string, error) {
	var found struct {
		Experiment struct {
			ID string `json:"experiment_id"`
		} `json:"experiment"`
	}
	err := s.call(ctx, http.MethodGet, "experiments/get-by-name?experiment_name="+url.QueryEscape(name), nil, &found)
	if refused := (*mlflowError)(nil); errors.As(err, &refused) && refused.Code == "RESOURCE_DOES_NOT_EXIST" {
		var created struct {
			ID string `json:"experiment_id"`
		}
		err = s.call(ctx, http.MethodPost, "experiments/create", map[string]any{"name": name}, &created)
		return created.ID, err
	}
	return found.Experiment.ID, err
}

// removeEarlier deletes the run of an earlier export.
func (s *MLflowServer) removeEarlier(ctx context.Context, experiment, runID string) error {
	var found struct {
		Runs []struct {
			Info struct {
				ID string `json:"run_id"`
			} `json:"info"`
		} `json:"runs"`
	}
	filter := "tags.`optimize.run_id` = '" + runID + "'" // an id contains no quote
	if err := s.call(ctx, http.MethodPost, "runs/search", map[string]any{"experiment_ids": []string{experiment}, "filter": filter}, &found); err != nil {
		return err
	}
	for _, run := range found.Runs {
		if err := s.call(ctx, http.MethodPost, "runs/delete", map[string]any{"run_id": run.Info.ID}, nil); err != nil {
			return err
		}
	}
	return nil
}

// mlflowError is an answer of the server other than success.
type mlflowError struct {
	Code    string `json:"error_code"`
	Message string `json:"message"`
	status  string
}

// Error returns the code and the message of the server.
func (e *mlflowError) Error() string {
	if e.Code == "" {
		return "the server answers " + e.status
	}
	return fmt.Sprintf("the server answers %s: %s", e.Code, e.Message)
}

// call calls one method of the REST API. No error contains the address, which may contain a password.
func (s *MLflowServer) call(ctx context.Context, method, path string, send, into any) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	var body io.Reader
	if send != nil {
		data, err := json.Marshal(send)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(s.URL, "/")+"/api/2.0/mlflow/"+path, body)
	if err != nil {
		return errors.New("the address of the server is not a valid URL")
	}
	req.Header.Set("Content-Type", "application/json")
	switch {
	case s.Token != "":
		req.Header.Set("Authorization", "Bearer "+s.Token)
	case s.User != "":
		req.SetBasicAuth(s.User, s.Password)
	}
	res, err := http.DefaultClient.Do(req)
	if reason := (*url.Error)(nil); errors.As(err, &reason) {
		return reason.Err
	} else if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		refused := &mlflowError{status: res.Status}
		_ = json.Unmarshal(data, refused) // an answer of something else has no code
		return refused
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("the answer to %s is not that of MLflow: %w", strings.SplitN(path, "?", 2)[0], err)
	}
	return nil
}
