package resources

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// metadataService answers as the metadata service of a cloud. AWS accepts the second token that it issued.
func metadataService(t *testing.T, cloud string, status int, body string) *metadata {
	t.Helper()
	tokens := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/latest/api/token" && r.Method == http.MethodPut && r.Header.Get("X-aws-ec2-metadata-token-ttl-seconds") != "":
			tokens++
			w.Write([]byte(strings.Repeat("t", tokens)))
		case r.URL.Path == "/latest/meta-data/spot/instance-action" && r.Header.Get("X-aws-ec2-metadata-token") != "tt":
			w.WriteHeader(http.StatusUnauthorized)
		case cloud == "gcp" && r.Header.Get("Metadata-Flavor") != "Google", cloud == "azure" && r.Header.Get("Metadata") != "true":
			w.WriteHeader(http.StatusForbidden)
		case r.URL.Path == "/metadata/instance/compute/name":
			w.Write([]byte("vm7\n"))
		default:
			w.WriteHeader(status)
			w.Write([]byte(body))
		}
	}))
	t.Cleanup(s.Close)
	m, err := ParseMetadata(cloud + "=" + s.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMetadataReclaim(t *testing.T) {
	soon := time.Date(2026, 3, 1, 12, 2, 0, 0, time.UTC)
	event := func(kind, vm, at string) string {
		return `{"DocumentIncarnation":1,"Events":[{"EventId":"1","EventType":"` + kind + `","ResourceType":"VirtualMachine","Resources":["` + vm + `"],"EventStatus":"Scheduled","NotBefore":"` + at + `"}]}`
	}
	for name, c := range map[string]struct {
		cloud  string
		status int
		body   string
		by     time.Time // zero: none; the year 1 in another place: about now
		now    bool
		err    string
	}{
		"aws, none":               {cloud: "aws", status: 404},
		"aws":                     {cloud: "aws", status: 200, body: `{"action":"terminate","time":"2026-03-01T12:02:00Z"}`, by: soon},
		"aws, not an action":      {cloud: "aws", status: 200, body: `<html>`, err: "want an action"},
		"aws, without a time":     {cloud: "aws", status: 200, body: `{}`, err: "want an action"},
		"aws, failing":            {cloud: "aws", status: 500, err: "status 500"},
		"gcp, none":               {cloud: "gcp", status: 200, body: "FALSE\n"},
		"gcp":                     {cloud: "gcp", status: 200, body: "TRUE", now: true},
		"gcp, other":              {cloud: "gcp", status: 200, body: "maybe", err: "want TRUE"},
		"gcp, redirected":         {cloud: "gcp", status: 302, body: "", err: "status 302"},
		"azure, none":             {cloud: "azure", status: 200, body: `{"DocumentIncarnation":1,"Events":[]}`},
		"azure":                   {cloud: "azure", status: 200, body: event("Preempt", "vm7", "Sun, 01 Mar 2026 12:02:00 GMT"), by: soon},
		"azure, begun":            {cloud: "azure", status: 200, body: event("Preempt", "vm7", ""), now: true},
		"azure, another machine":  {cloud: "azure", status: 200, body: event("Preempt", "vm8", "Sun, 01 Mar 2026 12:02:00 GMT")},
		"azure, a reboot":         {cloud: "azure", status: 200, body: event("Reboot", "vm7", "Sun, 01 Mar 2026 12:02:00 GMT")},
		"azure, not a document":   {cloud: "azure", status: 200, body: "[]", err: "want scheduled events"},
		"azure, not there at all": {cloud: "azure", status: 404, err: "status 404"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := metadataService(t, c.cloud, c.status, c.body).Reclaim(context.Background())
			switch {
			case c.err != "":
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
			case err != nil:
				t.Error(err)
			case c.by.IsZero() && !c.now:
				if got != nil {
					t.Errorf("announced for %v", got.By)
				}
			case got == nil || got.Cloud != c.cloud:
				t.Errorf("announcement %v of %s", got, c.cloud)
			case c.now && time.Until(got.By).Abs() > time.Minute || !c.now && !got.By.Equal(c.by):
				t.Errorf("announced for %v", got.By)
			}
		})
	}
}

func TestParseMetadata(t *testing.T) {
	for text, ok := range map[string]bool{"aws": true, "GCP": true, "azure=http://127.0.0.1:80/x": true, "": false, "oracle": false, "aws=": false,
		"aws=ftp://a": false, "aws=127.0.0.1": false, "aws=http://a?b": false, "aws,gcp": false} {
		if _, err := ParseMetadata(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}
