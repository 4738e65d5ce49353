package resources

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// metadata reads from the metadata service of a cloud whether this machine, which is spot capacity, will be reclaimed.
// It is not safe for concurrent use.
type metadata struct {
	Cloud string // aws, gcp or azure

	base  string // address of the service
	token string // of AWS; empty: none yet, or the service issues none
	name  string // of this machine in Azure; empty: unknown
}

// Reclaim is the announcement that this machine will be reclaimed.
type Reclaim struct {
	Cloud string
	// By is the announced time; for a cloud that announces none, the latest time by the cloud's documentation.
	By time.Time
}

// metadataBases contains the addresses of the metadata services.
var metadataBases = map[string]string{"aws": "http://169.254.169.254", "gcp": "http://metadata.google.internal", "azure": "http://169.254.169.254"}

// gcpNotice is the time between the announcement and the end of a machine of GCP.
const gcpNotice = 30 * time.Second

// metadataAnswer bounds an answer of a metadata service.
const metadataAnswer = 1 << 20

// ParseMetadata parses "aws", "gcp" or "azure", with "=URL" for a service at another address.
func ParseMetadata(text string) (*metadata, error) {
	cloud, at, other := strings.Cut(text, "=")
	m := &metadata{Cloud: strings.ToLower(cloud)}
	base, known := metadataBases[m.Cloud]
	if !known {
		return nil, fmt.Errorf("metadata service %q: want aws, gcp or azure, or one of them with =URL", text)
	}
	if m.base = base; other {
		u, err := url.Parse(at)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("metadata service %q: want an http or https address after %s=", text, cloud)
		}
		m.base = strings.TrimRight(at, "/")
	}
	return m, nil
}

// metadataClient uses no proxy and follows no redirection: the service is a neighbour of the machine.
var metadataClient = &http.Client{
	Timeout:       3 * time.Second,
	Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// Reclaim asks the service once. It returns nil if no announcement exists, and an error if the service does not answer
// or its answer cannot be read.
func (m *metadata) Reclaim(ctx context.Context) (*Reclaim, error) {
	read := map[string]func(context.Context) (time.Time, error){"aws": m.aws, "gcp": m.gcp, "azure": m.azure}[m.Cloud]
	by, err := read(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the metadata service of %s: %w", m.Cloud, err)
	}
	if by.IsZero() {
		return nil, nil
	}
	return &Reclaim{m.Cloud, by}, nil
}

// ask sends a request and returns the status and the body of the answer.
func (m *metadata) ask(ctx context.Context, method, path, header, value string) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, m.base+path, nil)
	if err != nil {
		return 0, nil, err
	}
	if header != "" {
		r.Header.Set(header, value)
	}
	answer, err := metadataClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, metadataAnswer))
	return answer.StatusCode, body, err
}

// aws reads spot/instance-action with a session token (IMDSv2), renewed when the service refuses it; a service without
// tokens is asked without one.
func (m *metadata) aws(ctx context.Context) (time.Time, error) {
	const path = "/latest/meta-data/spot/instance-action"
	for range 2 {
		header := ""
		if m.token == "" {
			status, token, err := m.ask(ctx, http.MethodPut, "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", "21600")
			if err != nil {
				return time.Time{}, err
			}
			if status == http.StatusOK {
				m.token = strings.TrimSpace(string(token))
			}
		}
		if m.token != "" {
			header = "X-aws-ec2-metadata-token"
		}
		status, body, err := m.ask(ctx, http.MethodGet, path, header, m.token)
		switch {
		case err != nil:
			return time.Time{}, err
		case status == http.StatusNotFound:
			return time.Time{}, nil
		case status == http.StatusUnauthorized:
			m.token = ""
			continue
		case status != http.StatusOK:
			return time.Time{}, fmt.Errorf("GET %s: status %d", path, status)
		}
		var action struct {
			Action string    `json:"action"` // terminate, stop or hibernate
			Time   time.Time `json:"time"`
		}
		if err := json.Unmarshal(body, &action); err != nil || action.Time.IsZero() {
			return time.Time{}, fmt.Errorf("GET %s: want an action with its time, not %.80q", path, body)
		}
		return action.Time, nil
	}
	return time.Time{}, errors.New("the service refuses its own token")
}

// gcp reads instance/preempted.
func (m *metadata) gcp(ctx context.Context) (time.Time, error) {
	const path = "/computeMetadata/v1/instance/preempted"
	status, body, err := m.ask(ctx, http.MethodGet, path, "Metadata-Flavor", "Google")
	switch text := strings.ToUpper(string(bytes.TrimSpace(body))); {
	case err != nil:
		return time.Time{}, err
	case status != http.StatusOK || text != "TRUE" && text != "FALSE":
		return time.Time{}, fmt.Errorf("GET %s: status %d, %.80q, want TRUE or FALSE", path, status, body)
	case text == "FALSE":
		return time.Time{}, nil
	}
	return time.Now().Add(gcpNotice), nil
}

// azure reads the scheduled events, of which only those of this machine count where its name is known.
func (m *metadata) azure(ctx context.Context) (time.Time, error) {
	const path = "/metadata/scheduledevents?api-version=2020-07-01"
	if m.name == "" {
		if status, name, err := m.ask(ctx, http.MethodGet, "/metadata/instance/compute/name?api-version=2021-02-01&format=text", "Metadata", "true"); err == nil && status == http.StatusOK {
			m.name = strings.TrimSpace(string(name))
		}
	}
	status, body, err := m.ask(ctx, http.MethodGet, path, "Metadata", "true")
	if err != nil {
		return time.Time{}, err
	}
	var list struct {
		Events []struct {
			EventType, NotBefore string
			Resources            []string
		}
	}
	if status != http.StatusOK || json.Unmarshal(body, &list) != nil {
		return time.Time{}, fmt.Errorf("GET %s: status %d, %.80q, want scheduled events", path, status, body)
	}
	for _, e := range list.Events {
		if e.EventType != "Preempt" && e.EventType != "Terminate" || m.name != "" && len(e.Resources) > 0 && !slices.Contains(e.Resources, m.name) {
			continue
		}
		by, err := time.Parse(time.RFC1123, e.NotBefore)
		if err != nil { // the event has started, or the time is unknown
			by = time.Now()
		}
		return by, nil
	}
	return time.Time{}, nil
}
