//go:build !browser

package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestResults(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"queue.json":  `{"schema":1,"engine":"queue","policy":"fcfs","jobs":[{"id":"1","submit_s":0,"start_s":5,"end_s":20},{"id":"2","submit_s":1,"start_s":6,"end_s":30}],"mean_wait_s":5,"energy_joules":null,"warnings":["<script>x"]}`,
		"both.json":   `{"schema":1,"engine":"rounds","title":"two policies","metrics":["mean_jct_s"],"rows":[{"policy":"a","metric":"mean_jct_s","mean":10,"lo":9,"hi":11,"n":3},{"policy":"b","metric":"mean_jct_s","mean":20,"lo":null,"hi":null,"n":3}]}`,
		"page.html":   "<!DOCTYPE html>\n<title>a result</title>",
		"secret.json": `{"password":"x"}`, "notes.txt": "no", "broken.json": `{"schema":1,"engine":"queue","jobs":[`, ".hidden.json": `{"schema":1,"engine":"queue"}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := newSite(t, 0, func(o *Options) { o.Results = []string{dir, filepath.Join(dir, "gone")} })
	_, list, _ := s.ask("GET", "/results", "")
	for _, want := range []string{"queue.json", "simulate queue", "compare rounds", "page.html", "no such file"} {
		if !strings.Contains(list, want) {
			t.Errorf("the list lacks %q", want)
		}
	}
	for _, not := range []string{"secret.json", "notes.txt", ".hidden"} {
		if strings.Contains(list, not) {
			t.Errorf("the list contains %q", not)
		}
	}
	for path, want := range map[string]string{"queue.json": "Wait", "both.json": "9 s to 11 s", "page.html": "a result"} {
		code, body, _ := s.ask("GET", "/results/0/"+path, "")
		if code != 200 || !strings.Contains(strings.ReplaceAll(body, "\u00a0", " "), want) || strings.Contains(body, "<script>x") {
			t.Errorf("%s: %d lacks %q\n%s", path, code, want, body)
		}
	}
	for path, want := range map[string]int{"secret.json": 404, "notes.txt": 404, "broken.json": 422, "..%2fx.json": 404, ".hidden.json": 404} {
		if code, _, _ := s.ask("GET", "/results/0/"+path, ""); code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
	}
}
