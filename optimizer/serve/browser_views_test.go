//go:build browser

package serve_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/report/page"
	"trainopt/optimizer/serve"
)

// TestExtremes shows pages without runs, with one run, and with names and output that are long, of another direction, or
// wider than letters: none may be wider than the window.
func TestExtremes(t *testing.T) {
	w := newWorld(t)
	if err := os.MkdirAll(w.state, 0o700); err != nil {
		t.Fatal(err)
	}
	w.serve()
	for _, path := range []string{"/", "/waste", "/results", "/compare", "/nothing"} {
		w.do(chromedp.Navigate(w.url + path))
		w.shot("empty" + strings.TrimRight(strings.ReplaceAll(path, "/", "-"), "-"))
	}
	ids := serve.WriteRuns(t, w.state, 6)
	for i, name := range []string{strings.Repeat("long_name_without_a_blank_", 8), "تدريب نموذج اللغة العربية الكبير", "🚀🔥 emoji 训练运行 名称", "‮reversed‬ name", "", "ordinary"} {
		dir := filepath.Join(journal.RunsDir(w.state), ids[i])
		rec, err := journal.ReadRecord(dir)
		if err != nil {
			t.Fatal(err)
		}
		rec.Name = name
		rec.Command = append(rec.Command, "--output_dir="+strings.Repeat("/a/long/path", 30))
		rec.Warnings = append(rec.Warnings, strings.Repeat("x", 300))
		data, err := rec.Encode()
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, journal.RecordFile), string(data))
		write(t, filepath.Join(dir, "job.stderr"), strings.Repeat("Traceback ", 20_000)+"\nValueError: \x1b[31mCUDA out of memory\x1b[0m\n")
		if err := (journal.Note{Tags: []string{strings.Repeat("t", 40), "أفضل", "🏆"}, Text: strings.Repeat("note without blanks ", 3) + strings.Repeat("y", 200)}).Write(dir); err != nil {
			t.Fatal(err)
		}
	}
	w.do(chromedp.Navigate(w.url + "/"))
	w.until("shows the runs", has("#found", "6 of 6 runs"))
	w.shot("extreme-runs")
	for i, id := range ids[:3] {
		w.do(chromedp.Navigate(w.url + "/runs/" + id))
		w.until("shows the output", has("#log-stderr", "CUDA out of memory"))
		w.shot(fmt.Sprintf("extreme-run-%d", i))
	}
	w.do(chromedp.Navigate(w.url + "/compare?run=" + strings.Join(ids[:3], "&run=")))
	w.shot("extreme-compare")
	w.do(chromedp.Navigate(w.url + "/waste"))
	w.shot("extreme-waste")
}

// TestFormats checks that the script formats times and money as the server does.
func TestFormats(t *testing.T) {
	w := newWorld(t)
	w.serve()
	values := []float64{0, 0.0123, 0.8, 1, 9.996, 42.34, 59.9, 59.96, 61, 185, 3599.4, 3600, 7500, 86399, 100_000, 172_799, 172_801, 1e6, 0.005, 0.0109, 0.1, 0.9994, 12.345, 1234.5}
	for i, got := range evaluate[[][]string](w, "["+strings.Trim(strings.Join(strings.Fields(fmt.Sprint(values)), ","), "[]")+"].map(v => [duration(v), usd(v)])") {
		if want := []string{page.PlainBlanks(page.Duration(values[i])), page.USD(values[i])}; !slices.Equal(got, want) {
			t.Errorf("%g: %q, want %q", values[i], got, want)
		}
	}
}

// TestCluster shows a cluster of 200 devices, and compares the policies of a cluster that is too short to be replayed.
func TestCluster(t *testing.T) {
	w := newWorld(t)
	serve.WriteRuns(t, w.state, 3)
	writeCluster(t, w.state, 200, 150)
	w.serve()
	w.do(chromedp.Navigate(w.url + "/"))
	w.click("nav a", "Cluster")
	w.until("draws every device", "document.querySelectorAll('main svg .lease').length > 200")
	w.until("has a queue", has("main", "waiting"))
	log := filepath.Join(w.state, "cluster", "events.jsonl")
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	write(t, log, string(data)+`{"v":1,"t":1772452801,"kind":"policy","policy":"tiresias"}`+"\n")
	w.until("follows a change", has("main", "Policy tiresias"))
	w.shot("cluster")
	w.click("main a", "Compare this cluster")
	w.until("compares", "!"+has("main", "Being computed")+" && document.querySelector('h1')")
	w.shot("cluster-policies")
}

// writeCluster writes the files of a scheduler that has ended: jobs on one device each, one after the other, for two days.
func writeCluster(t *testing.T, state string, devices, jobs int) {
	t.Helper()
	var log strings.Builder
	end := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	from := end.Add(-48 * time.Hour)
	event := func(at time.Time, fields map[string]any) {
		fields["v"], fields["t"] = 1, float64(at.UnixMilli())/1000
		data, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		log.Write(append(data, '\n'))
	}
	event(from, map[string]any{"kind": "serve", "policy": "srtf", "engine": "slurm", "round": 360, "devices": []map[string]any{{"name": "a100", "count": devices / 2, "per_server": 4}, {"name": "v100", "count": devices - devices/2, "per_server": 4}}})
	for i := range jobs {
		event(from.Add(time.Duration(i)*time.Minute), map[string]any{"kind": "submit", "job": i + 1, "name": fmt.Sprintf("train_%d", i+1)})
	}
	for i := range 2 * devices {
		job, at := 1+i%jobs, from.Add(time.Duration(i*7)*time.Minute)
		event(at, map[string]any{"kind": "start", "job": job, "name": fmt.Sprintf("train_%d", job), "device": []string{"a100", "v100"}[i%2], "where": []int{i / 2 % (devices / 2)}, "do": "start", "reason": "shortest remaining time first"})
	}
	event(end, map[string]any{"kind": "policy", "policy": "sia"})
	put := func(path, text string) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, text)
	}
	put(filepath.Join(state, "cluster", "events.jsonl"), log.String())
	for i := range jobs {
		job := map[string]any{"schema": 1, "id": i + 1, "name": fmt.Sprintf("train_%d", i+1), "state": []string{"running", "waiting", "done", "failed", "stopped"}[i%5], "device": "a100", "where": []int{i % 4, i%4 + 1, i%4 + 2},
			"unit": "step", "done": 1000 * i, "total": 200_000, "cost_usd": 0.37 * float64(i), "wait_s": 100 * i, "run": fmt.Sprintf("20260301-120000-train-%06x", i), "moves": i % 7, "submitted": from, "began": from.Add(time.Hour), "ended": end,
			"finish": []time.Time{end.Add(time.Hour), end.Add(2 * time.Hour), end.Add(30 * time.Hour)}}
		data, err := json.Marshal(job)
		if err != nil {
			t.Fatal(err)
		}
		put(filepath.Join(state, "cluster", "jobs", fmt.Sprint(i+1), "job.json"), string(data))
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
