package main

import (
	"encoding/csv"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"trainopt/optimizer/run"
)

// tinySWF contains jobs for 4 processors; the last line is damaged, and the fourth job is larger than the machine.
const tinySWF = "; MaxProcs: 4\n" +
	"1 0 -1 100 4 -1 -1 4 100 -1 1 -1 -1 -1 -1 -1 -1 -1\n" +
	"2 10 -1 50 2 -1 -1 2 60 -1 1 -1 -1 -1 -1 -1 -1 -1\n" +
	"3 20 -1 50 3 -1 -1 3 50 -1 1 -1 -1 -1 -1 -1 -1 -1\n" +
	"4 30 -1 50 8 -1 -1 8 50 -1 1 -1 -1 -1 -1 -1 -1 -1\n" +
	"5 40 -1 50 0 -1 -1 0 50 -1 1 -1 -1 -1 -1 -1 -1 -1\n" +
	"6 zzz\n"

// tinyBatsim contains two jobs of HDeepRM's learning experiment.
const tinyBatsim = `{"nb_res": 4, "jobs": [{"id": 0, "subtime": 0, "res": 1, "profile": "p"}, {"id": 1, "subtime": 0, "res": 1, "profile": "p"}],
	"profiles": {"p": {"type": "parallel_homogeneous", "com": 0, "cpu": 21e9, "req_time": 5, "req_ops": 21e9, "mem": 8000, "mem_bw": 24}}}`

const tinyOptions = `{"seed": 19021285, "platform_file_path": "learning", "workload_file_path": "w.json", "pybatsim": {"env": {"objective": "makespan",
	"observation": "minimal", "actions": {"selection": [{"shortest": ["high_gflops", "high_mem_bw"]}], "void": false}},
	"agent": {"type": "LEARNING", "run": "train", "hidden": 16, "lr": 0.005}}}`

func TestSimulateQueueJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("jobs.swf", tinySWF)
	code, out, errs := w.run("simulate", "queue", "--trace", "jobs.swf", "--policy", "fcfs", "--backfill", "none", "--json", "--jobs", "jobs.csv", "--batsim-out", "b")
	if code != run.CodeDone || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"schema", "engine", "policy", "backfill", "seed", "jobs", "mean_bounded_slowdown", "mean_slowdown", "mean_wait_s", "mean_turnaround_s",
		"max_bounded_slowdown", "max_slowdown", "max_wait_s", "max_turnaround_s", "utilization", "makespan_s", "energy_joules", "dropped", "events", "wall_s", "warnings"} {
		if _, ok := got[key]; !ok {
			t.Errorf("no %q in the JSON", key)
		}
	}
	jobs := got["jobs"].([]any)
	second := jobs[1].(map[string]any)
	if got["schema"] != 1.0 || got["engine"] != "queue" || len(jobs) != 3 || got["energy_joules"] != nil || got["makespan_s"] != 200.0 {
		t.Errorf("%s", out)
	}
	for key, want := range map[string]any{"id": "2", "submit_s": 10.0, "start_s": 100.0, "end_s": 150.0, "procs": 2.0, "allocated": nil} {
		if v, ok := second[key]; !ok || v != want {
			t.Errorf("%s of the second job is %v, want %v", key, v, want)
		}
	}
	if dropped := got["dropped"].(map[string]any); dropped["larger than the machine"] != 1.0 || dropped["no processors"] != 1.0 || dropped["line is not a job"] != 1.0 {
		t.Errorf("dropped: %v", dropped)
	}
	rows := func(name string) [][]string {
		f, err := os.Open(filepath.Join(w.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		all, err := csv.NewReader(f).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if all := rows("jobs.csv"); len(all) != 4 || all[3][0] != "3" || all[3][2] != "150" {
		t.Errorf("jobs: %v", all)
	}
	if all := rows("b_jobs.csv"); len(all) != 4 || all[0][0] != "job_id" {
		t.Errorf("Batsim's jobs: %v", all)
	}
	if all := rows("b_schedule.csv"); len(all) != 2 || all[0][0] != "batsim_version" {
		t.Errorf("Batsim's schedule: %v", all)
	}
}

// TestSimulateQueueAlone checks that the command works without files, that no line is wider than 100 columns, and that
// the same seed gives identical output.
func TestSimulateQueueAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code, out, errs := w.run("simulate", "queue")
	if code != run.CodeDone || errs != "" || !strings.Contains(out, "1000 jobs of Lublin's model") || !strings.Contains(out, "all ended") {
		t.Fatalf("exit %d: %s\n%s", code, errs, out)
	}
	for _, args := range [][]string{{}, {"--policies"}, {"--platform", "mini", "--job-count", "50"}, {"--job-count", "60", "--policy", "rollout"}, {"--help"}} {
		_, out, errs := w.run(append([]string{"simulate", "queue"}, args...)...)
		for _, line := range strings.Split(out, "\n") {
			if len([]rune(line)) > 100 && !strings.HasPrefix(line, "      --") && !strings.HasPrefix(line, "  -") {
				t.Errorf("%v: wider than 100: %s", args, line)
			}
		}
		if out == "" || errs != "" {
			t.Errorf("%v: %s", args, errs)
		}
	}
	_, first, _ := w.run("simulate", "queue", "--json", "--job-count", "80", "--seed", "3")
	_, second, _ := w.run("simulate", "queue", "--json", "--job-count", "80", "--seed", "3")
	if first == "" || realTime.ReplaceAllString(first, "") != realTime.ReplaceAllString(second, "") {
		t.Error("the same seed gives other bytes")
	}
	for file, want := range map[string]string{"r.html": "Jobs on cores", "r.csv": "id,submit_s", "r.json": `"schema": 1`, "r.txt": "bounded slowdown"} {
		if code, out, errs := w.run("simulate", "queue", "--job-count", "40", "--output", file); code != run.CodeDone || out != "" {
			t.Fatalf("%s: exit %d: %s%s", file, code, out, errs)
		}
		if data, err := os.ReadFile(filepath.Join(w.dir, file)); err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s lacks %q: %v\n%.300s", file, want, err, data)
		}
	}
}

// TestSimulateQueuePublished checks that a sequence of RLScheduler's evaluation gives the result of its own simulator.
func TestSimulateQueuePublished(t *testing.T) {
	t.Parallel()
	const path = "../../../shared/data/swf/lublin_256.swf.gz"
	full, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(full); err != nil {
		t.Skip("the trace Lublin-1 is not here")
	}
	w := newWorld(t)
	code, out, errs := w.run("simulate", "queue", "--trace", full, "--as-published", "--policy", "sjf", "--window", "1981:1024", "--json")
	var got struct {
		Mean float64 `json:"mean_bounded_slowdown"`
		Jobs []any
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != run.CodeDone {
		t.Fatalf("exit %d: %s, %v", code, errs, err)
	}
	if len(got.Jobs) != 1024 {
		t.Errorf("%d jobs", len(got.Jobs))
	}
	code, out, errs = w.run("compare", "queue", "--trace", full, "--as-published", "--policies", "sjf,f1", "--backfill", "none", "--window-starts", "published", "--json")
	var c struct {
		Rows []struct {
			Policy, Metric string
			Mean           float64
		}
	}
	if err := json.Unmarshal([]byte(out), &c); err != nil || code != run.CodeDone {
		t.Fatalf("exit %d: %s, %v", code, errs, err)
	}
	want := map[string]float64{"sjf": 277.35, "f1": 258.37}
	for _, r := range c.Rows {
		if r.Metric == "mean_bounded_slowdown" && (r.Mean < want[r.Policy]-0.006 || r.Mean > want[r.Policy]+0.006) {
			t.Errorf("%s: %v, published %v", r.Policy, r.Mean, want[r.Policy])
		}
	}
}

// TestSimulateQueueLaunch checks options of HDeepRM with runs, logs and policy files, including their former names.
func TestSimulateQueueLaunch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("w.json", tinyBatsim)
	w.write("options.json", tinyOptions)
	code, out, errs := w.run("simulate", "queue", "options.json", "--nbruns", "150", "--out_model", "agent.json", "--logs", "logs")
	if code != run.CodeDone || errs != "" || !strings.Contains(out, "150; reward") || !strings.Contains(out, "563.18 J") {
		t.Fatalf("exit %d: %s\n%s", code, errs, out)
	}
	for _, name := range []string{"rewards.log", "losses.log", "makespans.log", "actions.log"} {
		data, err := os.ReadFile(filepath.Join(w.dir, "logs", name))
		if err != nil || strings.Count(string(data), "\n") != 150 {
			t.Errorf("%s: %v, %d lines", name, err, strings.Count(string(data), "\n"))
		}
	}
	if _, err := os.Stat(filepath.Join(w.dir, "logs", "probs.json")); err != nil {
		t.Error(err)
	}
	if code, out, errs := w.run("simulate", "queue", "--options", "options.json", "--policy", "agent.json"); code != run.CodeDone || !strings.Contains(out, "563.18 J") {
		t.Errorf("exit %d: %s\n%s", code, errs, out)
	}
	if code, out, errs := w.run("simulate", "queue", "--options", "options.json", "--set", "pybatsim.agent.run=test", "--inmodel", "agent.json", "--output", "agent.html"); code != run.CodeDone || out != "" {
		t.Errorf("exit %d: %s\n%s", code, errs, out)
	}
	if code, out, errs := w.run("simulate", "queue", "--options", "options.json", "--agent", "classic"); code != run.CodeDone || !strings.Contains(out, "661.82 J") {
		t.Errorf("exit %d: %s\n%s", code, errs, out)
	}
	if code, out, errs := w.run("simulate", "queue", "--options", "options.json", "--jobstat", "mem_bw:p95"); code != run.CodeDone || out != "24\n" {
		t.Errorf("exit %d: %s\n%s", code, errs, out)
	}
}

func TestSimulateQueueRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("jobs.swf", tinySWF)
	w.write("nosize.swf", strings.Replace(tinySWF, "; MaxProcs: 4\n", "", 1))
	w.write("junk.swf", "a b c\n\x00\xff\n")
	w.write("empty.swf", "")
	w.write("w.json", tinyBatsim)
	w.write("huge.json", strings.ReplaceAll(tinyBatsim, `"res": 1`, `"res": 1000`))
	w.write("options.json", tinyOptions)
	w.write("bad.json", `{"sed": 3}`)
	w.write("agent.py", "class A: pass\n")
	for line, c := range map[string]struct {
		code run.Code
		want string
	}{
		"simulate queue --policy sjff":                                          {2, "nearest known is sjf"},
		"simulate queue --policy junk.swf":                                      {2, "junk.swf"},
		"simulate queue --backfill lazy":                                        {2, "want one of conservative, easy, none, rlscheduler"},
		"simulate queue --trace nowhere":                                        {2, "nowhere"},
		"simulate queue --trace .":                                              {2, "--trace"},
		"simulate queue --trace nosize.swf":                                     {2, "give --procs"},
		"simulate queue --trace junk.swf --procs 4":                             {6, "no job can be used"},
		"simulate queue --trace empty.swf --procs 4":                            {6, "no job can be used"},
		"simulate queue --trace jobs.swf --load 0.5":                            {2, "--load cannot be combined with --trace"},
		"simulate queue --trace jobs.swf --window 2:2":                          {2, "0 to 2"},
		"simulate queue --trace jobs.swf --window 2":                            {2, "START:LENGTH"},
		"simulate queue --trace jobs.swf --as-published":                        {2, "line 7"},
		"simulate queue --trace jobs.swf --procs 0":                             {2, "--procs 0"},
		"simulate queue --generate gauss":                                       {2, "want lublin"},
		"simulate queue --job-count 0":                                          {2, "0 jobs"},
		"simulate queue --load -1":                                              {2, "load"},
		"simulate queue --policy first-random":                                  {2, "needs a platform"},
		"simulate queue --placement best":                                       {2, "--placement requires --platform"},
		"simulate queue --platform nothing":                                     {2, "nothing"},
		"simulate queue --platform mini --placement worst":                      {2, "worst"},
		"simulate queue --platform mini --policy rollout --placement energy":    {2, "tries placements itself"},
		"simulate queue --platform mini --objective fame":                       {2, "fame"},
		"simulate queue --platform mini --observation all":                      {2, "all"},
		"simulate queue --platform mini --as-published":                         {2, "--as-published cannot be combined with --platform"},
		"simulate queue --platform learning --workload huge.json":               {6, "no job"},
		"simulate queue --platform learning --workload w.json --trace jobs.swf": {2, "--workload cannot be combined with --trace"},
		"simulate queue --options bad.json":                                     {2, "sed"},
		"simulate queue --options nowhere.json":                                 {2, "nowhere.json"},
		"simulate queue agent.py":                                               {2, "Python"},
		"simulate queue options.json --options options.json":                    {2, "both name the options"},
		"simulate queue options.json --agent clever":                            {2, "want classic, reinforce or a2c"},
		"simulate queue options.json --runs 0":                                  {2, "--runs 0"},
		"simulate queue options.json --inmodel nowhere":                         {2, "nowhere"},
		"simulate queue options.json --jobstat mem:p50":                         {2, "p50"},
		"simulate queue --runs 3":                                               {2, "requires --platform or --options"},
		"simulate queue --logs x":                                               {2, "--logs requires the agent of --options"},
		"simulate queue --prefer fame=1":                                        {2, "--prefer"},
		"simulate queue --prefer time --policy sjf":                             {2, "--policy cannot be combined with --prefer"},
		"simulate queue --transcript x":                                         {2, "--transcript requires --batsim-endpoint"},
		"simulate queue --batsim-endpoint tcp://x --serve-batsim tcp://y":       {2, "--serve-batsim cannot be combined with --batsim-endpoint"},
		"simulate queue --format pdf":                                           {2, "want one of csv, html, json, text"},
		"simulate queue --polcy fcfs":                                           {2, "nearest known is --policy"},
		"compare queue --policies sjf,sjf":                                      {2, "named twice"},
		"compare queue --policies sjf,best":                                     {2, "best"},
		"compare queue --against saf --policies sjf,fcfs":                       {2, "--against"},
		"compare queue --trace jobs.swf --windows 0":                            {2, "--windows 0"},
		"compare queue --trace jobs.swf --window-starts x":                      {2, "--window-starts"},
		"compare queue --trace jobs.swf --window-starts 1 --length 5":           {2, "0 to 2"},
		"compare queue --trace jobs.swf --length 5":                             {2, "--length requires --windows"},
		"compare queue --trace jobs.swf --length 0":                             {2, "--length 0: want at least 1"},
		"compare queue --figure 7":                                              {2, "want rlscheduler or hdeeprm"},
		"compare queue --figure rlscheduler":                                    {2, "--trace FILE"},
		"compare queue --figure rlscheduler --trace jobs.swf":                   {2, "not the name of a trace"},
		"compare queue --metrics a.csv":                                         {2, "want two"},
		"compare queue --metrics a.csv,b.csv":                                   {2, "a.csv"},
	} {
		code, out, errs := w.run(strings.Fields(line)...)
		if code != c.code || out != "" || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, want %d and one line with %q\n%s%s", line, code, c.code, c.want, out, errs)
		}
	}
}

func TestSimulateQueueInterrupted(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--job-count", "3000", "--policy", "rollout", "--json"}, {"--platform", "gaia", "--job-count", "20000", "--json"},
		{"--platform", "mini", "--agent", "reinforce", "--runs", "100000", "--json"}} {
		w := newWorld(t)
		w.signals <- os.Interrupt
		code, out, errs := w.run(append([]string{"simulate", "queue"}, args...)...)
		if code != run.CodeInterrupt || !strings.Contains(errs, "stopped by Ctrl-C") || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: exit %d: %s", args, code, errs)
		}
		if out != "" && !json.Valid([]byte(out)) {
			t.Errorf("%v: no JSON: %.300s", args, out)
		}
	}
}

func TestCompareQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code, out, errs := w.run("compare", "queue", "--policies", "fcfs,saf", "--backfill", "none,easy", "--job-count", "100", "--seeds", "0:5", "--front", "--json", "--jobs-out", "all.csv")
	if code != run.CodeDone || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var got struct {
		Schema   int
		Engine   string
		Policies []string
		Cases    int
		Paired   []any
		Tables   []struct{ Title string }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if got.Schema != 1 || got.Engine != "queue" || strings.Join(got.Policies, " ") != "fcfs+none fcfs+easy saf+none saf+easy" || got.Cases != 6 || len(got.Paired) == 0 || len(got.Tables) != 1 {
		t.Errorf("%+v", got)
	}
	data, err := os.ReadFile(filepath.Join(w.dir, "all.csv"))
	if err != nil || strings.Count(string(data), "\n") != 1+4*6*100 {
		t.Errorf("%v, %d lines", err, strings.Count(string(data), "\n"))
	}
	for _, args := range []string{"--platform mini --job-count 40 --policies first-high_gflops,saf --placement best,energy --prefer balanced --seeds 0:1",
		"--figure hdeeprm --prefer energy=1", "--job-count 300 --policies fcfs,rollout --backfill rlscheduler --windows 5 --length 50 --seeds 0"} {
		code, out, errs := w.run(append([]string{"compare", "queue"}, strings.Fields(args)...)...)
		if code != run.CodeDone || errs != "" {
			t.Errorf("%s: exit %d: %s", args, code, errs)
		}
		if strings.Contains(args, "prefer") && !strings.Contains(out, "selected") {
			t.Errorf("%s picks nothing:\n%s", args, out)
		}
	}
	if code, out, errs := w.run("compare", "queue", "--job-count", "60", "--seeds", "0", "--output", "c.html"); code != run.CodeDone || out != "" || errs != "" {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

// TestCompareQueueMetrics checks the comparison of two schedules written by simulations.
func TestCompareQueueMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("jobs.swf", tinySWF)
	for _, p := range []string{"fcfs", "sjf"} {
		if code, _, errs := w.run("simulate", "queue", "--trace", "jobs.swf", "--policy", p, "--batsim-out", p); code != run.CodeDone {
			t.Fatal(errs)
		}
	}
	code, out, errs := w.run("compare", "queue", "--metrics", "fcfs_schedule.csv,sjf_schedule.csv")
	if code != run.CodeDone || errs != "" || strings.Count(out, "\n") != 9 || !strings.Contains(out, "makespan") {
		t.Errorf("exit %d: %s\n%s", code, errs, out)
	}
	if _, out, _ = w.run("compare", "queue", "--metrics", "fcfs_schedule.csv,sjf_schedule.csv", "--json"); !json.Valid([]byte(out)) {
		t.Errorf("no JSON: %s", out)
	}
}

// TestSimulateQueueOverASocket checks that a simulation split into decisions and simulator over a socket equals that of
// one process.
func TestSimulateQueueOverASocket(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip("no sockets here")
	}
	endpoint := "tcp://" + l.Addr().String()
	l.Close()
	other := make(chan string, 1)
	there := newWorld(t)
	go func() {
		_, out, errs := there.run("simulate", "queue", "--batsim-endpoint", endpoint, "--policy", "sjf", "--backfill", "easy", "--transcript", "talk")
		other <- out + errs
	}()
	w := newWorld(t)
	code, out, errs := w.run("simulate", "queue", "--job-count", "100", "--serve-batsim", endpoint)
	if code != run.CodeDone || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	_, alone, _ := w.run("simulate", "queue", "--job-count", "100", "--policy", "sjf", "--backfill", "easy")
	wait := regexp.MustCompile(`(?m)^wait .*$`)
	if got := <-other; wait.FindString(out) == "" || wait.FindString(out) != wait.FindString(alone) || wait.FindString(got) != wait.FindString(alone) {
		t.Errorf("%s\n%s\n%s", out, got, alone)
	}
	if data, err := os.ReadFile(filepath.Join(there.dir, "talk")); err != nil || !strings.Contains(string(data), "SIMULATION_BEGINS") {
		t.Errorf("transcript: %v, %.200s", err, data)
	}
}

func TestSimulateQueueWritesFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code, first, errs := w.run("simulate", "queue", "--platform", "mini", "--job-count", "40", "--window", "10:20", "--json",
		"--platform-out", "p.xml", "--workload-out", "w.json")
	if code != run.CodeDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	code, second, errs := w.run("simulate", "queue", "--platform", "mini", "--workload", "w.json", "--json")
	if code != run.CodeDone {
		t.Fatalf("what was written is not read: exit %d: %s", code, errs)
	}
	number := func(text, key string) float64 {
		var d map[string]any
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			t.Fatal(err)
		}
		if list, ok := d["warnings"].([]any); !ok {
			t.Errorf("warnings %v are no list", list)
		}
		v, _ := d[key].(float64)
		return v
	}
	for _, key := range []string{"procs", "completed", "makespan_s", "mean_wait_s"} {
		if a, b := number(first, key), number(second, key); a == 0 && key != "mean_wait_s" || a < b*(1-1e-9) || a > b*(1+1e-9) {
			t.Errorf("%s is %v, and %v of the files", key, a, b)
		}
	}
	for name, args := range map[string][]string{
		"written platform": {"--platform", "p.xml"},
		"version 5":        {"--platform", "mini", "--workload-out", "w5.json", "--workload-version", "5"},
		"trace":            {"--workload-out", "w.swf.gz"},
	} {
		if code, _, errs := w.run(append([]string{"simulate", "queue", "--job-count", "5"}, args...)...); code != run.CodeDone {
			t.Errorf("%s: exit %d: %s", name, code, errs)
		}
	}
	if code, out, errs := w.run("simulate", "queue", "--trace", "w.swf.gz"); code != run.CodeDone || !strings.Contains(out, "5, all ended") {
		t.Errorf("the trace that was written: exit %d: %s%s", code, out, errs)
	}
	if code, out, errs := w.run("simulate", "queue", "--platform", "mini", "--workload", "w5.json"); code != run.CodeDone || !strings.Contains(out, "5, all ended") {
		t.Errorf("version 5 that was written: exit %d: %s%s", code, out, errs)
	}
}

// TestSimulateQueueSaysWhichFlag checks that user errors are reported with the flag before anything runs.
func TestSimulateQueueSaysWhichFlag(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("empty.json", "")
	w.write("broken.policy", "no policy")
	for want, args := range map[string][]string{
		"--deadlines -1: want more than 0":          {"--deadlines", "-1"},
		"compare queue: policy \"saff\" is neither": {"--policies", "saff"},
		"compare queue: backfill \"eazy\"":          {"--backfill", "eazy"},
		"--deadlines sets some":                     {"--prefer", "deadlines=1", "--seeds", "0:1"},
	} {
		code, _, errs := w.run(append([]string{"compare", "queue", "--job-count", "5"}, args...)...)
		if code != run.CodeUsage || !strings.Contains(errs, want) {
			t.Errorf("compare %v: exit %d: %s, want %s", args, code, errs, want)
		}
	}
	for want, args := range map[string][]string{
		"--policy \"saff\" is neither a policy nor a file: nearest known is saf": {"--policy", "saff"},
		"--backfill \"eazy\": unknown":                                           {"--backfill", "eazy"},
		"--placement \"bst\": unknown":                                           {"--platform", "mini", "--placement", "bst"},
		"nearest known is gaia":                                                  {"--platform", "giaa"},
		"the file is empty or cut off":                                           {"--platform", "empty.json"},
		"--policy: ":                                                             {"--policy", "broken.policy"},
		"the jobs have no deadlines":                                             {"--prefer", "deadlines=1"},
		"port 99999: want 1 to 65535":                                            {"--serve-batsim", "tcp://localhost:99999"},
		"--batsim-endpoint: endpoint \"foo\"":                                    {"--batsim-endpoint", "foo"},
		"--inmodel: ":                                                            {"--platform", "mini", "--agent", "a2c", "--inmodel", "broken.policy"},
		"--inmodel requires an agent that learns":                                {"--platform", "mini", "--inmodel", "broken.policy"},
		"--platform-out requires --platform":                                     {"--platform-out", "p.xml"},
		"--workload-version 4":                                                   {"--workload-out", "w.json", "--workload-version", "4"},
		"--workload-version requires --workload-out":                             {"--workload-out", "w.swf", "--workload-version", "5"},
	} {
		code, _, errs := w.run(append([]string{"simulate", "queue", "--job-count", "5"}, args...)...)
		if code != run.CodeUsage || !strings.Contains(errs, want) {
			t.Errorf("%v: exit %d: %s, want %s", args, code, errs, want)
		}
	}
}

// TestSimulateQueueDamagedOnPlatform checks damaged traces on platforms.
func TestSimulateQueueDamagedOnPlatform(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("jobs.swf", "; MaxProcs: 4\n1 0 -1 100 2 -1 9 2 100 9 1 1 1 -1 -1 -1 -1 -1\n2 zzz\n3 50 -1 100 2 -1 9 2 100 9 1 1 1 -1 -1 -1 -1 -1\n")
	code, out, errs := w.run("simulate", "queue", "--platform", "mini", "--trace", "jobs.swf")
	if code != run.CodeDone || !strings.Contains(out, "2, all ended") || !strings.Contains(out, "line 3") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	w.write("none.swf", "; MaxProcs: 4\n1 0 -1 100 2 -1 -1 -1 -1 -1 1 1 1 -1 -1 -1 -1 -1\n")
	code, _, errs = w.run("simulate", "queue", "--platform", "mini", "--trace", "none.swf")
	if code != run.CodeInfeasible || !strings.Contains(errs, "asked for") {
		t.Errorf("nothing left: exit %d: %s", code, errs)
	}
}
