package workload

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Small files of every format, with the jobs they contain.
var samples = map[string]string{
	"gavel": "Transformer (batch size 128)\tpython3 train.py\ttranslation\t-step\t1\t346\t2\t1\t-1.000000\t0\n" +
		"A3C\tpython3 main.py\trl\t--max-steps\t0\t36\t1\t5\t1.2\t7.5\n",
	"gavel-msr": "Transformer (batch size 128)\tcd %s && python3 train.py\t-step\t1\t346\t0.000000\t2\n" +
		"A3C\tcd %s && python3 main.py\t--max-steps\t0\t36\t7.500000\t1\n",
	"shockwave": "Transformer (batch size 128)\tpython3 train.py\ttranslation\t-step\t1\t346\t2\tgns\t1\t-1.000000\t1418\t0\n" +
		"A3C\tpython3 main.py\trl\t--max-steps\t0\t36\t1\tstatic\t1\t2\t100\t7.5\n",
	"philly": "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,1,66.0,11cb48\n2017-10-09 06:13:03,2951.0,8,23608.0,6214e9\n",
	"philly-slo": "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,best_effort,job_type\n" +
		"0,vc_1,1,5,5530,alexnet,96,5,159-189-229,10-8-5,0,soft\n2,vc_2,4,3,3495,resnet101,26,14,3,10,1,best\n",
	"elasticflow": "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration,best_effort\n0,100,77215,vgg16,4426,256,1,3930,0\n1,2811,94898,vgg16,9179,256,2,4830,1\n",
	"sia":         "name,time,application,num_replicas,batch_size\ncifar10-0,107,cifar10,6,2048\nbert-1,110.5,bert,12,384\n",
	"jobs":        "id,type,arrival_s,gpus,steps,seconds,weight,slo,deadline_s,user,queue,mode\n3,A3C,0,1,100,,,,,ann,q1,\n1,\"a \"\"b\"\"\",5.5,2,,60,5,2,125.5,,,gns\n",
}

var nan = math.NaN()

var sampleJobs = map[string][]Job{
	"gavel": {
		{ID: 0, Type: "Transformer (batch size 128)", GPUs: 2, Steps: 346, Seconds: nan, Weight: 1, SLO: nan, Deadline: nan},
		{ID: 1, Type: "A3C", Arrival: 7.5, GPUs: 1, Steps: 36, Seconds: nan, Weight: 5, SLO: 1.2, Deadline: nan},
	},
	"gavel-msr": {
		{ID: 0, Type: "Transformer (batch size 128)", GPUs: 2, Steps: 346, Seconds: nan, Weight: 1, SLO: nan, Deadline: nan},
		{ID: 1, Type: "A3C", Arrival: 7.5, GPUs: 1, Steps: 36, Seconds: nan, Weight: 1, SLO: nan, Deadline: nan},
	},
	"shockwave": {
		{ID: 0, Type: "Transformer (batch size 128)", GPUs: 2, Steps: 346, Seconds: 1418, Weight: 1, SLO: nan, Deadline: nan, Mode: "gns"},
		{ID: 1, Type: "A3C", Arrival: 7.5, GPUs: 1, Steps: 36, Seconds: 100, Weight: 1, SLO: 2, Deadline: 207.5, Mode: "static"},
	},
	"philly": {
		{ID: 0, GPUs: 8, Steps: nan, Seconds: 2951, Weight: 1, SLO: nan, Deadline: nan, Queue: "6214e9"},
		{ID: 1, Arrival: 2932, GPUs: 1, Steps: nan, Seconds: 66, Weight: 1, SLO: nan, Deadline: nan, Queue: "11cb48"},
	},
	"philly-slo": {
		{ID: 2, Type: "resnet101", Arrival: 180, GPUs: 4, Steps: 3495, Seconds: 1560, Weight: 1, SLO: nan, Deadline: nan, Queue: "vc_2"},
		{ID: 0, Type: "alexnet", Arrival: 300, GPUs: 1, Steps: 5530, Seconds: 5760, Weight: 1, SLO: nan, Deadline: 9840, Queue: "vc_1"},
	},
	"elasticflow": {
		{ID: 0, Type: "vgg16 (batch size 256)", GPUs: 1, Steps: 77215, Seconds: 3930, Weight: 1, SLO: nan, Deadline: 4326},
		{ID: 1, Type: "vgg16 (batch size 256)", Arrival: 2711, GPUs: 2, Steps: 94898, Seconds: 4830, Weight: 1, SLO: nan, Deadline: nan},
	},
	"sia": {
		{ID: 0, Type: "cifar10 (batch size 2048)", Arrival: 107, GPUs: 6, Steps: nan, Seconds: nan, Weight: 1, SLO: nan, Deadline: nan},
		{ID: 1, Type: "bert (batch size 384)", Arrival: 110.5, GPUs: 12, Steps: nan, Seconds: nan, Weight: 1, SLO: nan, Deadline: nan},
	},
	"jobs": {
		{ID: 3, Type: "A3C", GPUs: 1, Steps: 100, Seconds: nan, Weight: 1, SLO: nan, Deadline: nan, User: "ann", Queue: "q1"},
		{ID: 1, Type: `a "b"`, Arrival: 5.5, GPUs: 2, Steps: nan, Seconds: 60, Weight: 5, SLO: 2, Deadline: 125.5, Mode: "gns"},
	},
}

func TestEveryFormatIsToldAndRead(t *testing.T) {
	for _, l := range layouts {
		t.Run(l.name, func(t *testing.T) {
			text := samples[l.name]
			for form, contents := range map[string]string{
				"plain": text, "gzip": zipped(text), "CRLF": strings.ReplaceAll(text, "\n", "\r\n"), "BOM": "\ufeff" + text,
				"no last newline": strings.TrimRight(text, "\n"), "blank lines": "\n" + text + "\n\n",
			} {
				tr, err := readTrace(strings.NewReader(contents), "f", "")
				if err != nil {
					t.Fatalf("%s: %v", form, err)
				}
				if tr.Format != l.name || !slices.EqualFunc(tr.Jobs, sampleJobs[l.name], same) {
					t.Errorf("%s: read as %s:\n got %+v\nwant %+v", form, tr.Format, tr.Jobs, sampleJobs[l.name])
				}
			}
			if _, err := readTrace(strings.NewReader(text), "f", strings.ToUpper(l.name)); err != nil {
				t.Errorf("with its format given: %v", err)
			}
		})
	}
}

func zipped(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(s))
	z.Close()
	return b.String()
}

const (
	gavelRow = "A3C\tc\trl\t-n\t0\t%s\t%s\t%s\t%s\t%s\n" // steps, GPUs, weight, SLO, arrival
	jobsHead = "id,type,arrival_s,gpus,steps,seconds,weight,slo,deadline_s\n"
	philly   = "timestamp,duration,num_gpus,gpu_time,cluster\n"
	good     = "2017-10-09 07:01:55,66.0,1,66.0,11cb48\n"
)

func gavelLine(fields ...any) string { return fmt.Sprintf(gavelRow, fields...) }

// Invalid rows of files written for a simulator are errors with the line; nothing is guessed.
func TestWrongRowsAreRefusedWithTheirLine(t *testing.T) {
	ok := gavelLine("9", "1", "1", "-1", "5")
	tests := map[string]struct{ text, want string }{
		"arrivals that go back":    {ok + gavelLine("9", "1", "1", "-1", "4"), "line 2: arrives at 4 s, before the job above it at 5 s"},
		"no steps to do":           {ok + gavelLine("0", "1", "1", "-1", "6"), "line 2: steps not above 0"},
		"steps of -1":              {gavelLine("-1", "1", "1", "-1", "0"), "line 1: steps not above 0"},
		"steps missing":            {gavelLine("", "1", "1", "-1", "0"), "line 1: no steps"},
		"steps that are no number": {gavelLine("NaN", "1", "1", "-1", "0"), "line 1: steps is not a number"},
		"absurd steps":             {gavelLine("1e300", "1", "1", "-1", "0"), "line 1: absurd number"},
		"steps beyond any float":   {gavelLine("1e999", "1", "1", "-1", "0"), "line 1: steps is not a number"},
		"no GPU":                   {gavelLine("9", "0", "1", "-1", "0"), "line 1: GPUs below 1"},
		"-1 GPUs":                  {gavelLine("9", "-1", "1", "-1", "0"), "line 1: GPUs below 1"},
		"half a GPU":               {gavelLine("9", "0.5", "1", "-1", "0"), "line 1: gpus is not a whole number"},
		"absurd GPUs":              {gavelLine("9", "1e9", "1", "-1", "0"), "line 1: absurd number"},
		"a weight of 0":            {gavelLine("9", "1", "0", "-1", "0"), "line 1: priority weight not above 0"},
		"an SLO of 0":              {gavelLine("9", "1", "1", "0", "0"), "line 1: SLO not above 0"},
		"an arrival below 0":       {gavelLine("9", "1", "1", "-1", "-3"), "line 1: arrival below 0"},
		"an infinite arrival":      {gavelLine("9", "1", "1", "-1", "inf"), "line 1: arrival is not a number"},
		"nine columns":             {ok + "A3C\tc\trl\t-n\t0\t9\t1\t1\t-1\n", "line 2: 9 columns, want 10"},
		"duplicate id":             {jobsHead + "1,a,0,1,1,1,1,,\n2,a,0,1,1,1,1,,\n1,a,0,1,1,1,1,,\n", "line 4: duplicate id 1, first on line 2"},
		"an id below 0":            {jobsHead + "-1,a,0,1,1,1,1,,\n", "line 2: id below 0"},
		"no id":                    {jobsHead + ",a,0,1,1,1,1,,\n", "line 2: no id"},
		"no arrival":               {jobsHead + "1,a,,1,1,1,1,,\n", "line 2: no arrival"},
		"a duration of 0":          {jobsHead + "1,a,0,1,1,0,1,,\n", "line 2: duration not above 0"},
		"a deadline gone by":       {jobsHead + "1,a,9,1,1,1,1,,8\n", "line 2: deadline not after the arrival"},
		"too few columns":          {jobsHead + "1,a\n", "line 2: 2 columns, want 9"},
		"a quote left open":        {jobsHead + "1,\"a,0,1,1,1,1,,\n", "line 2"},
		"only a header":            {jobsHead, "no job in 0 rows"},
		"nothing":                  {"", "it is empty"},
		"only blank lines":         {"\n\n\n", "it is empty"},
		"another table":            {"a,b\n1,2\n", `its first line is not the header of a format that is known: "a,b"`},
		"another number of tabs":   {"a\tb\n", "2 columns separated by tabs: no format has that many"},
		"damaged gzip":             {zipped(jobsHead + "1,a,0,1,1,1,1,,\n")[:25], "unexpected EOF"},
		"nothing good in a log":    {philly + "2017-10-09 07:01:55,0,1,66.0,11cb48\n", "no job in 1 rows; 1 of them: duration not above 0, first on line 2"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := readTrace(strings.NewReader(test.text), "jobs.trace", "")
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "read trace jobs.trace: ") || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with the file and %q", err, test.want)
			}
		})
	}
}

func TestFormatThatIsForced(t *testing.T) {
	if _, err := readTrace(strings.NewReader(philly+good), "f", "sia"); err == nil || !strings.Contains(err.Error(), "no column name, time, application, num_replicas, batch_size, which format sia has") {
		t.Errorf("a Philly log as Sia's: got %v", err)
	}
	if _, err := readTrace(strings.NewReader(philly+good), "f", "swf2"); err == nil || !strings.Contains(err.Error(), `format "swf2" is not one of gavel, gavel-msr`) {
		t.Errorf("an unknown format: got %v", err)
	}
}

// Invalid rows of cluster logs are omitted and counted.
func TestWrongRowsOfLogsAreCounted(t *testing.T) {
	elastic := "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration\n"
	tests := map[string]struct {
		text string
		jobs int
		want string // reasons with rows and line
	}{
		"nothing wrong":        {philly + good, 1, "[]"},
		"empty rows":           {philly + good + "\n,,,,\n\n" + good + "\n", 2, "[{empty row 4 3}]"},
		"durations":            {philly + good + "2017-10-09 07:01:55,-1,1,66.0,x\n2017-10-09 07:01:55,0.0,1,66.0,x\n2017-10-09 07:01:55,,1,66.0,x\n", 1, "[{duration not above 0 2 3} {no duration 1 5}]"},
		"GPUs":                 {philly + good + "2017-10-09 07:01:55,5,0,0,x\n2017-10-09 07:01:55,5,,0,x\n2017-10-09 07:01:55,5,two,0,x\n", 1, "[{GPUs below 1 1 3} {no num_gpus 1 4} {num_gpus is not a number 1 5}]"},
		"dates":                {philly + good + "yesterday,5,1,5,x\n,5,1,5,x\n1960-10-09 07:01:55,5,1,5,x\n", 1, "[{arrival below 0 1 5} {no arrival 1 4} {timestamp is not a date 1 3}]"},
		"columns":              {philly + good + "2017-10-09 07:01:55,5\n", 1, "[{2 columns, want 5 1 3}]"},
		"ids and deadlines":    {elastic + "1,10,5,m,20,1,1,5\n1,11,5,m,20,1,1,5\n3,11,5,m,11,1,1,5\n4,11,5,m,NaN,1,1,5\n", 1, "[{ddl is not a number 1 5} {deadline not after the arrival 1 4} {duplicate id 1 3}]"},
		"a newline in a field": {philly + good + "2017-10-09 07:01:55,5,1,5,\"x\n\ny\"\n\n" + good, 3, "[{empty row 1 6}]"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			tr, err := readTrace(strings.NewReader(test.text), "f", "")
			if err != nil {
				t.Fatal(err)
			}
			dropped := 0
			for _, d := range tr.Dropped {
				dropped += d.Rows
			}
			if fmt.Sprint(tr.Dropped) != test.want || len(tr.Jobs) != test.jobs || tr.Rows != test.jobs+dropped {
				t.Errorf("%d jobs of %d rows, dropped %v; want %d and %s", len(tr.Jobs), tr.Rows, tr.Dropped, test.jobs, test.want)
			}
		})
	}
}

func TestUnsortedLogsAreSortedAndThatIsSaid(t *testing.T) {
	tr, err := readTrace(strings.NewReader(samples["philly"]+"\n"), "f", "")
	if err != nil {
		t.Fatal(err)
	}
	want := "1 of 3 rows left out: empty row, first on line 4; sorted by arrival, since 1 of 3 rows arrived before the row above them; dates are local and without a zone: read as UTC"
	if got := strings.Join(tr.Warnings(), "; "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := tr.Start.Format("2006-01-02 15:04:05"); got != "2017-10-09 06:13:03" {
		t.Errorf("the trace starts at %s", got)
	}
}

func TestComplete(t *testing.T) {
	jobs := []Job{
		{ID: 0, Type: "A3C", GPUs: 1, Steps: 30, Seconds: nan, Weight: 1, SLO: 2, Arrival: 5, Deadline: nan},
		{ID: 1, Type: "A3C", GPUs: 1, Steps: nan, Seconds: 10, Weight: 1, SLO: nan, Deadline: nan},
		{ID: 2, Type: "unknown but whole", GPUs: 1, Steps: 1, Seconds: 1, Weight: 1, SLO: nan, Deadline: nan},
	}
	table, err := NewThroughputs([]Rate{{Device: "v100", Job: "A3C", GPUs: 1, PerSecond: 3}, {Device: "k80", Job: "CycleGAN", GPUs: 1, PerSecond: 0}})
	if err != nil {
		t.Fatal(err)
	}
	if err := Complete(jobs, table, "v100"); err != nil {
		t.Fatal(err)
	}
	if jobs[0].Seconds != 10 || jobs[0].Deadline != 25 || jobs[1].Steps != 30 || !math.IsNaN(jobs[1].Deadline) {
		t.Errorf("got %+v", jobs)
	}
	unknown := []Job{{Type: "GPT", GPUs: 1, Steps: 1, Seconds: nan}, {Type: "A3C", GPUs: 4, Steps: 1, Seconds: nan}, {Type: "GPT", GPUs: 1, Steps: 1, Seconds: nan}}
	want := `work out steps and durations: the throughput table has no rate on v100 for: "A3C" on 4; "GPT" on 1`
	if err := Complete(unknown, table, "v100"); err == nil || err.Error() != want {
		t.Errorf("unknown types: got %v, want %s", err, want)
	}
	if err := Complete([]Job{{ID: 8, Type: "A3C", GPUs: 1, Steps: nan, Seconds: nan}}, table, "v100"); err == nil || !strings.Contains(err.Error(), "job 8 (A3C): neither") {
		t.Errorf("no work: got %v", err)
	}
}

func anyJob(t *rapid.T, id int, arrival float64) Job {
	maybe := func(name string) float64 {
		if rapid.Bool().Draw(t, name+" known") {
			return rapid.Float64Range(10, 1e9).Draw(t, name)
		}
		return nan
	}
	text := rapid.StringMatching(`[a-zA-Z0-9 ,"'äé\n()-]{0,8}[a-z]`)
	return Job{
		ID: id, Type: text.Draw(t, "type"), Arrival: arrival, GPUs: rapid.IntRange(1, 100).Draw(t, "GPUs"), Steps: maybe("steps"), Seconds: maybe("seconds"),
		Weight: rapid.Float64Range(0.1, 10).Draw(t, "weight"), SLO: maybe("SLO") / 1e9 * 5, Deadline: arrival + maybe("deadline"),
		User: text.Draw(t, "user"), Queue: text.Draw(t, "queue"), Mode: text.Draw(t, "mode"),
	}
}

func TestOurFormatKeepsEveryField(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tr Trace
		at := 0.0
		for id := range rapid.IntRange(1, 5).Draw(t, "jobs") {
			j := anyJob(t, id, at)
			j.Type, j.User, j.Queue, j.Mode = strings.TrimSpace(j.Type), strings.TrimSpace(j.User), strings.TrimSpace(j.Queue), strings.TrimSpace(j.Mode)
			setDeadline(&j)
			tr.Jobs = append(tr.Jobs, j)
			at += rapid.Float64Range(0, 1e6).Draw(t, "gap")
		}
		var b bytes.Buffer
		if err := writeTrace(&b, &tr, "jobs"); err != nil {
			t.Fatal(err)
		}
		back, err := readTrace(&b, "f", "")
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(back.Jobs, tr.Jobs, same) {
			t.Fatalf("got %+v\nwant %+v", back.Jobs, tr.Jobs)
		}
	})
}

// Round trip: only values that a format cannot represent are lost.
func TestEveryFormatThatIsWrittenReadsTheSame(t *testing.T) {
	for _, l := range layouts {
		t.Run(l.name, func(t *testing.T) {
			tr, err := readTrace(strings.NewReader(samples[l.name]), "f", "")
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			err = writeTrace(&b, tr, l.name)
			if writers[l.name] == nil {
				if err == nil || !strings.Contains(err.Error(), "only read") {
					t.Errorf("got %v, want that it is only read", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			back, err := readTrace(&b, "f", "")
			if err != nil || back.Format != l.name || !slices.EqualFunc(back.Jobs, tr.Jobs, same) {
				t.Errorf("got %+v, %v\nwant %+v", back, err, tr)
			}
		})
	}
}

func TestWritersRefuseWhatTheFormatCannotHold(t *testing.T) {
	unknown := &Trace{Jobs: []Job{{ID: 4, Type: "GPT", GPUs: 1, Steps: 9, Seconds: nan, Weight: 1, SLO: nan, Deadline: nan}}}
	noSteps := &Trace{Jobs: []Job{{ID: 4, Type: "A3C", GPUs: 1, Steps: nan, Seconds: nan, Weight: 1, SLO: nan, Deadline: nan}}}
	tests := map[string]struct {
		trace        *Trace
		format, want string
	}{
		"no command":       {unknown, "gavel", `job 4: the command of job type "GPT" is not known`},
		"no steps":         {noSteps, "gavel", "job 4: its steps are not known"},
		"no duration":      {noSteps, "philly", "job 4: its duration is not known"},
		"no batch size":    {unknown, "sia", `job 4: job type "GPT" says no batch size`},
		"a format unknown": {unknown, "swf2", "is not one of"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := writeTrace(&bytes.Buffer{}, test.trace, test.format); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func FuzzReadTrace(f *testing.F) {
	for _, s := range samples {
		f.Add(s, "")
	}
	f.Add(samples["jobs"], "philly")
	f.Add(zipped(samples["sia"]), "")
	f.Fuzz(func(t *testing.T, text, format string) {
		tr, err := readTrace(strings.NewReader(text), "f", format)
		if err != nil {
			return
		}
		for i := range tr.Jobs {
			if p := problemOf(&tr.Jobs[i]); p != "" || i > 0 && tr.Jobs[i].Arrival < tr.Jobs[i-1].Arrival {
				t.Errorf("job %+v: %s, or it is out of order", tr.Jobs[i], p)
			}
		}
		var b bytes.Buffer
		if err := writeTrace(&b, tr, "jobs"); err != nil {
			t.Fatal(err)
		}
		back, err := readTrace(&b, "f", "jobs")
		if err != nil || len(back.Jobs) != len(tr.Jobs) {
			t.Errorf("written and read again: %d jobs, %v; want %d", len(back.Jobs), err, len(tr.Jobs))
		}
	})
}
