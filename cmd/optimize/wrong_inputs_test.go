package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trainopt/optimizer/run"
)

// TestWrongInputs checks that every wrong input is refused with its exit code, nothing on standard output, and one line on
// standard error that names what is wrong and what to do. Without, a text is that the line must not contain.
func TestWrongInputs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("t.py", "print('Epoch 1/1')\n")
	w.write("junk.csv", "a,b\n1,2\n")
	w.write("broken.yaml", "sla: [\n")
	w.write("wrong.yaml", "sla:\n  time_mx: 5\n")
	w.write("section.yaml", "sla: 5\n")
	w.write("several.yaml", "sla:\n  time_max: [1]\n")
	w.write("foreign.yaml", "color: blue\n")
	w.write("file", "")
	w.write("cut.db", "SQLite format 3\x00 and no more")
	w.write("code.py", "import time\n\n\ndef f():\n    return 1\n")
	if err := os.WriteFile(filepath.Join(w.dir, "noexec.sh"), []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	past := w.past("digits", 1)
	for line, c := range map[string]struct {
		want, without string
		code          run.Code
		environ       string
	}{
		"runz":                                      {want: "unknown command \"runz\": nearest known is `optimize runs`"},
		"trian":                                     {want: "`optimize train`"},
		"stop latest":                               {want: "did you mean `optimize runs stop`?"},
		"--budgt 5":                                 {want: "nearest known is --budget"},
		"--trian x":                                 {want: "nearest known is --train"},
		"--train t.py --spot":                       {want: "nearest known are --spot-notice, --spot-offers"},
		"--no-such-thing-at-all":                    {want: "`optimize --help` lists them"},
		"--budget 5":                                {want: "nothing to train: name a script by --train SCRIPT"},
		"t.py":                                      {want: "to train it, run `optimize --train t.py`"},
		"--train t.py --budget five":                {want: `--budget "five": want a number`, without: "budget 0"},
		"--train t.py --deadline 2hours":            {want: `--deadline "2hours": want a duration such as 90m`, without: "deadline 0"},
		"--train t.py ":                             {want: `OPTIMIZE_SLA_TIME_MAX "abc": want a duration`, without: "deadline 0", environ: "OPTIMIZE_SLA_TIME_MAX=abc"},
		" --train t.py":                             {want: "unknown variable OPTIMIZE_SLA_TIME_MX: nearest known is OPTIMIZE_SLA_TIME_MAX", environ: "OPTIMIZE_SLA_TIME_MX=5"},
		"--train t.py --budget -1":                  {want: "give an amount in USD above 0"},
		"--train t.py --cpu-hour 3600":              {want: "cpu_hour 3600 USD/h is not plausible"},
		"--train t.py --deadline 0":                 {want: "deadline 0: it has already passed"},
		"--train t.py --interval 0":                 {want: "--interval 0: want a positive number of seconds"},
		"--train t.py --interval 0s":                {want: "--interval 0: want a positive number of seconds"},
		"--train t.py --grace 0":                    {want: "--grace 0: want a positive number of seconds"},
		"--train t.py --offline-logs none.csv":      {want: "none.csv: no such file"},
		"--train t.py --prefer speed":               {want: "want time, cost, resource, balanced or weights"},
		"--train t.py --prefer time=.5,cots=.5":     {want: `no objective named "cots"`},
		"--train t.py --planner mrol":               {want: `--planner "mrol": unknown, nearest is morl; want one of bandit, model`},
		"--train t.py --gpus 4000":                  {want: "GPUs: 4000 given, this machine has", code: run.CodeUsage},
		"--train t.py --cpus 64000":                 {want: "adapt --gpus, --cpus or --memory, or plan for another machine with --host CLOUD:TYPE --dry-run"},
		"--train t.py --cpus 9:2":                   {want: `range "9:2": from 9 to 2 is empty`},
		"--train t.py --engine slrum":               {want: `--engine "slrum": want local or slurm`},
		"--train t.py --instance aws:p4d.24xlrge":   {want: "no such offer in the price table; nearest are aws:p4d.24xlarge"},
		"--train t.py --host aws:p4d.24xlarge":      {want: "add --dry-run"},
		"--train t.py --config @/nosuch.yaml":       {want: "nosuch.yaml: no such file"},
		"--train t.py --config @/wrong.yaml":        {want: `unknown key "sla.time_mx": nearest known is "sla.time_max"`},
		"--train t.py --config @/section.yaml":      {want: `unknown key "sla": it is a section`},
		"--train t.py --config @/several.yaml":      {want: "sla.time_max: want one value, not a list"},
		"--train t.py --config @/foreign.yaml":      {want: `unknown key "color"; ` + "`optimize config` lists all"},
		"--train t.py --config @/broken.yaml":       {want: "broken.yaml: While parsing config: yaml: line 1"},
		"--train t.py --dry-run --state-dir file/x": {want: "not a directory"},
		"--train t.py --epochs abc":                 {want: `--epochs "abc": want a whole number`, without: "epochs 0"},
		"--train t.py --baseline-ratio 2":           {want: "want a share between 0 and 1"},
		"train":                                     {want: "nothing to train"},
		"train .":                                   {want: "it is a directory; name the script in it"},
		"train -- nosuchprogram":                    {want: "no such program on PATH"},
		"train -- ./noexec.sh":                      {want: "not executable; chmod +x it"},
		"--log-level verbose runs":                  {want: `--log-level "verbose": want debug, info, warn or error`},
		"--color purple runs":                       {want: `--color "purple": unknown, want auto, always or never`},
		"report --format pdf":                       {want: `--format "pdf": unknown, want one of csv, html, json, markdown, text`},
		"report -o report.pdf":                      {want: `--output report.pdf: no format for this name, want one of csv, html, json, markdown, text, or --format`},
		"cluster report -o day.pdf":                 {want: `--output day.pdf: no format for this name`},
		"report nosuch":                             {want: "no id of the 1 runs"},
		"report a b":                                {want: "see `optimize report --help`"},
		"runs show":                                 {want: "missing argument: want RUN; see `optimize runs show --help`", without: "accepts"},
		"prices show":                               {want: "see `optimize prices show --help`"},
		"prices show aws:p4d":                       {want: "nearest are aws:p4d.24xlarge, aws:p4de.24xlarge"},
		"prices list --gpu a1000000":                {want: "nearest are A100"},
		"prices list --cloud awz":                   {want: "no such cloud in the catalogue; it has aws"},
		"prices import http://127.0.0.1:1/x.csv":    {want: "download prices from http://127.0.0.1:1/x.csv: "},
		"runs import junk.csv":                      {want: "no data in it, 2 lines rejected", without: "bad lines"},
		"runs import code.py":                       {want: "known formats: csv, huggingface"},
		"predict":                                   {want: "describe the job: give --like RUN|LOG"},
		"predict --model nosuchnet":                 {want: "nothing measured resembles nosuchnet"},
		"predict --model gpt2":                      {want: "give --epochs and --data-count"},
		"simulate round":                            {want: "want decision, placement, queue, rounds, spot"},
		"simulate rounds extra":                     {want: "see `optimize simulate rounds --help`"},
		"simulate rounds --policy strf":             {want: "nearest known are srtf"},
		"simulate queue --policy sfj":               {want: "nearest known is sjf"},
		"simulate placement --nodes 1":              {want: "1 node holds 8", code: run.CodeInfeasible},
		"pretrain --env nope":                       {want: `--env "nope": unknown`, without: "--agent is required"},
		"runs prefer latest":                        {want: "runs prefer: missing argument: want RUN PREFERENCE", without: "optimize runs prefer: "},
		"runs rm digits nosuch":                     {want: `find run "nosuch"`},
		"--train t.py --resumable maybe":            {want: "find script maybe: no such file; no script was started (arguments of the script follow --; a value of --resumable follows an equals sign: --resumable=maybe)"},
		"train --resumable maybe":                   {want: "a value of --resumable follows an equals sign: --resumable=maybe"},
		"train t.py --serve 9000":                   {want: "a value of --serve follows an equals sign: --serve=9000"},
		"train t.py --dry-run false":                {want: "a value of --dry-run follows an equals sign: --dry-run=false"},
		"train t.py --dry-run u.py":                 {want: "find script u.py: no such file; no script was started (arguments of the script follow --)"},
		"--train t.py --resumable=maybe":            {want: `--resumable "maybe": want auto, yes or no`},
		"doctor --json=maybe":                       {want: `--json "maybe": want true or false`},
		"logs -n NaN":                               {want: `--lines "NaN": want a whole number`, without: "strconv"},
		"simulate spot --work NaN":                  {want: `--work "NaN": want a duration such as`, without: "invalid argument"},
		"compare training --job-count 1e3":          {want: `--job-count "1e3": want a whole number`},
		"pretrain --gamma x":                        {want: `--gamma "x": want a number`},
		"--train t.py --budget NaN":                 {want: `--budget "NaN": want a number`},
		"--train t.py --rates .":                    {want: ": is a directory", without: "size"},
		"predict --model resnet50 --epochs 1e300":   {want: `--epochs "1e300": want a number above 0 and at most 1e+09`},
		"predict --model resnet50 --epochs 9e12":    {want: `--epochs "9e12": want a number above 0 and at most 1e+09`},
		"simulate queue --procs 99999999999999":     {want: "want 2 to 1073741824"},
		"simulate placement --batch file":           {want: "no counts in the file"},
		"runs list --quiet false":                   {want: `unexpected argument "false"; a value of --quiet follows an equals sign: --quiet=false: want no arguments`},
		"--train t.py --batch-size 0":               {want: `--batch-size: range "0": want at least 1`},
		"simulate placement --table file":           {want: "the file is empty or cut off", without: "EOF"},
		"simulate rounds --agent file":              {want: "--agent requires --policy agent:PREFERENCE"},
		"simulate spot -o .":                        {want: "--output .: is a directory"},
		"compare rounds --jobs-out no/jobs.csv":     {want: "--jobs-out no/jobs.csv: cannot write into its directory: no such file or directory"},
		"report digits -o file/r.html":              {want: "--output file/r.html: cannot write into its directory: not a directory"},
		"prices import ftp://example.org/x.csv":     {want: "import prices from ftp://example.org/x.csv: want http, https or a file"},
		"train t.py -- --data /dev/fd/63":           {want: "/dev/fd/63: of the descriptors, a training gets only its standard input: pipe the data to it, or write them to a file"},
		"train t.py -- --data=/proc/self/fd/12":     {want: "--data=/proc/self/fd/12: of the descriptors, a training gets only its standard input"},
		"train t.py 3":                              {want: "find script 3: no such file; no script was started (arguments of the script follow --)"},
		"train t.py --lr 0.1":                       {want: "unknown flag: --lr (arguments of the script follow --)"},
		"train t.py -e 5":                           {want: "in -e (arguments of the script follow --)"},
		"--train t.py --state-dir t.py/state":       {want: "t.py: not a directory: --state-dir names another directory", without: "; mkdir", code: run.CodeOurs},
		"--train t.py --train nosuch.py":            {want: "find script nosuch.py: no such file; no script was started"},
		"--train t.py --log-format nonsense":        {want: `--log-format "nonsense": unknown, want one of csv, huggingface`},
		"runs import cut.db":                        {want: "read store of MLflow cut.db: "},
		"cluster policy":                            {want: "no cluster is served", without: "not exist"},
		"cluster report":                            {want: "no cluster was served", without: "not exist"},
		"cluster cancel abc":                        {want: `job "abc": want a number`},
		"cluster cancel 7":                          {want: "job 7: does not exist"},
		"prices list --min-gpus -1":                 {want: "--min-gpus -1: want 0 or more"},
		"prices update":                             {want: "prices update: missing argument: want FILE|URL; see `optimize prices update --help`"},
		"predict --like latest --export nope":       {want: `--export "nope": unknown, want k8s-job, sbatch or sky`},
		"serve --listen 0.0.0.0:0":                  {want: "optimize serve --private requires the token"},
		"serve --hostname=":                         {want: "--hostname: the name is empty"},
		"completion tcsh":                           {want: `unknown command "tcsh" of`},
		"help nonsense":                             {want: `unknown command or topic "nonsense"`},
	} {
		before := w.environ
		if c.environ != "" {
			w.environ = append(append([]string{}, before...), c.environ)
		}
		args := strings.Fields(strings.ReplaceAll(line, "@", w.dir))
		code, out, errs := w.run(args...)
		want := run.CodeUsage
		if c.code != 0 {
			want = c.code
		}
		if code != want || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.want) || c.without != "" && strings.Contains(errs, c.without) {
			t.Errorf("%s: exit %d, want %d; stdout %q; stderr %q, want one line with %q", line, code, want, out, errs, c.want)
		}
		jsonCode, out, errs := w.run(append([]string{"--json"}, args...)...)
		var got struct {
			Error string
			Exit  run.Code
		}
		if err := json.Unmarshal([]byte(errs), &got); err != nil || jsonCode != code || got.Exit != code || !strings.Contains(got.Error, c.want) || out != errs && !json.Valid([]byte(out)) {
			t.Errorf("--json %s: exit %d; %v: stdout %q, stderr %q", line, jsonCode, err, out, errs)
		}
		w.environ = before
	}
	if code, _, errs := w.run("report", "-o", "page.html"); code != run.CodeDone {
		t.Error(errs)
	} else if page, err := os.ReadFile(filepath.Join(w.dir, "page.html")); err != nil || !strings.HasPrefix(string(page), "<!DOCTYPE html>") {
		t.Errorf("report -o page.html is no page: %v %.40q", err, page)
	}
	if code, out, errs := w.run("report", "digits", "-o", "-"); code != run.CodeDone || !strings.Contains(out, past) {
		t.Errorf("report -o - on standard output: exit %d, %s\n%s", code, errs, out)
	}
	if code, out, _ := w.run("report", "digits"); code != run.CodeDone || !strings.Contains(out, past) {
		t.Errorf("a run by the name of its training: exit %d\n%s", code, out)
	}
}
