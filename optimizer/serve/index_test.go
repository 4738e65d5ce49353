//go:build !browser

package serve

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"trainopt/optimizer/journal"
)

// TestTenThousandRuns checks lists of 10,000 runs: complete, paged, filtered, and within 64 MiB.
func TestTenThousandRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 10,000 runs")
	}
	const n = 10_000
	s := newSite(t, n, nil)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	_, first, _ := s.ask("GET", "/api/runs", "")
	if !strings.Contains(first, s.ids[n-1]) {
		t.Errorf("the first page lacks the newest run: %.300s", first)
	}
	list := struct {
		Total, Read, Found, Pages int
		Runs                      []runSummary
	}{}
	for deadline := time.Now().Add(2 * time.Minute); list.Read < n && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		_, body, _ := s.ask("GET", "/api/runs?q=bert&state=failed&sort=cost&size=100", "")
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Fatal(err)
		}
	}
	if list.Total != n || list.Read != n || list.Found != 833 || list.Pages != 9 || len(list.Runs) != 100 {
		t.Fatalf("%d runs, %d read, %d found on %d pages of %d", list.Total, list.Read, list.Found, list.Pages, len(list.Runs))
	}
	for i := 1; i < len(list.Runs); i++ {
		if list.Runs[i].CostUSD > list.Runs[i-1].CostUSD {
			t.Fatal("not sorted by cost")
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 64<<20 {
		t.Errorf("%d MiB for the index of %d runs, want less than 64", grown>>20, n)
	}
	seen := map[string]bool{}
	for page := 1; page <= 40; page++ {
		_, body, _ := s.ask("GET", fmt.Sprintf("/api/runs?size=250&page=%d", page), "")
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Fatal(err)
		}
		for _, r := range list.Runs {
			seen[r.ID] = true
		}
	}
	if len(seen) != n {
		t.Errorf("%d runs on 40 pages, want %d", len(seen), n)
	}
}

// TestIndexFollows checks that new, changed and removed runs appear in the list.
func TestIndexFollows(t *testing.T) {
	s := newSite(t, 3, nil)
	count := func(query string) string {
		_, body, _ := s.ask("GET", "/api/runs"+query, "")
		return body
	}
	if !strings.Contains(count(""), `"total":3`) {
		t.Fatal(count(""))
	}
	until := func(what, query, want string) {
		t.Helper()
		for range 2400 {
			if strings.Contains(count(query), want) {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Errorf("%s: %s lacks %s", what, count(query), want)
	}
	if err := os.RemoveAll(filepath.Join(journal.RunsDir(s.state), s.ids[0])); err != nil {
		t.Fatal(err)
	}
	until("removed", "", `"total":2`)
	run, err := journal.Open(filepath.Join(journal.RunsDir(s.state), s.ids[2]))
	if err != nil {
		t.Fatal(err)
	}
	rec, err := journal.ReadRecord(run.Dir())
	if err != nil {
		t.Fatal(err)
	}
	rec.Name = "renamed"
	if err := run.WriteRecord(rec); err != nil {
		t.Fatal(err)
	}
	until("changed", "?q=renamed", `"found":1`)
	if err := os.Mkdir(filepath.Join(journal.RunsDir(s.state), "20990101-000000-new-000000"), 0o700); err != nil {
		t.Fatal(err)
	}
	until("new", "?q=never", `"found":1`)
	if err := os.WriteFile(filepath.Join(run.Dir(), journal.RecordFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = os.Chtimes(run.Dir(), time.Now(), time.Now()) // as a replaced file does
	until("damaged", "?state=unreadable", `"found":1`)
}

// TestIndexConcurrently reads single runs, which replaces the summaries of changed ones, while the whole index is updated.
func TestIndexConcurrently(t *testing.T) {
	state := t.TempDir()
	ids := WriteRuns(t, state, 20)
	x := newIndex(state)
	x.update()
	var readers sync.WaitGroup
	for g := range 4 {
		readers.Go(func() {
			for i := range 100 {
				id := ids[(g+i)%len(ids)]
				if err := os.Chtimes(filepath.Join(journal.RunsDir(state), id), time.Time{}, time.Unix(int64(i), 0)); err != nil {
					t.Error(err)
				}
				if s, ok := x.run(id); !ok || s.ID != id {
					t.Errorf("run %s: %v, %v", id, s, ok)
				}
			}
		})
	}
	for range 50 {
		x.update()
	}
	readers.Wait()
	if l := x.list(); len(l.runs) != len(ids) || l.total != len(ids) {
		t.Errorf("%d runs of %d in the list, want %d", len(l.runs), l.total, len(ids))
	}
}

// TestRightSizeUnderLoad: CPUs that other programs used are not recommended to be released.
func TestRightSizeUnderLoad(t *testing.T) {
	for taken, want := range map[float64]string{0: "--cpus 3:3", 1: "--cpus 4:4", 2.6: ""} {
		rec := journal.NewRecord()
		rec.Outcome.CPUUtil, rec.Outcome.TakenCPUs = 25, taken
		s := summary(rec, nil)
		s.Allocation = allocation{CPUs: 8}
		if got := rightSize(s); got != want {
			t.Errorf("25 %% of 8 CPUs, %g used by others: %q, want %q", taken, got, want)
		}
	}
}
