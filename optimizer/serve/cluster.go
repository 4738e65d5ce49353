package serve

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"trainopt/optimizer/cluster"
	"trainopt/optimizer/report/page"
)

// maxClusterLog is the part of the event log that is read, from its end, in bytes.
const maxClusterLog = 16 << 20

// clusterJob is a job with its predicted start.
type clusterJob struct {
	cluster.Job
	starts *[3]time.Time // of a waiting job; nil: unknown
}

type clusterBody struct {
	Policy, Engine string
	Since          time.Time
	Seen           time.Time // last event of a scheduler that has ended; zero while one works
	Chart          *page.Picture
	Jobs           *page.Table
	Decisions      *page.Table
	Torn           int
	Stored         time.Time // of the jobs, while the disk is full; else zero
	Compared       bool      // the policies can be compared
	More           int       // jobs that are not listed
}

// policiesPage compares the policies on the jobs of the cluster, by simulations up to the latest event.
func (s *Server) policiesPage(w http.ResponseWriter, r *http.Request) {
	size := cluster.LogSize(s.options.StateDir)
	if size == 0 || s.options.Audit == nil {
		s.refuse(w, r, http.StatusNotFound, "no cluster was served from this state directory")
		return
	}
	body := s.audit.of(w, uint64(size), func() (page.Document, error) { return s.options.Audit(s.ctx) })
	writePage(w, http.StatusOK, "policies", s.shell(r, "Policies compared", "/cluster", body))
}

func (s *Server) clusterPage(w http.ResponseWriter, r *http.Request) {
	events, torn, err := cluster.ReadEvents(s.options.StateDir, maxClusterLog)
	if err != nil {
		s.refuse(w, r, http.StatusNotFound, "no cluster was served from this state directory")
		return
	}
	jobs := clusterJobs(s.options.StateDir)
	now := time.Now()
	body := clusterBody{Torn: torn, Decisions: changeTable(events), Compared: s.options.Audit != nil}
	server, alive, _ := cluster.ReadServer(s.options.StateDir)
	body.Stored = server.Stored
	if alive {
		addStarts(jobs, s.options.StateDir)
	} else if len(events) > 0 {
		now = unixTime(events[len(events)-1].Time) // what happened since is not recorded
		body.Seen = now
	}
	body.Jobs, body.More = jobTable(jobs), max(0, len(jobs)-mostJobs)
	body.Chart = leaseChart(events, now)
	for _, e := range events {
		body.Policy, body.Engine = cmp.Or(e.Policy, body.Policy), cmp.Or(e.Engine, body.Engine)
		if e.Kind == cluster.EventServe {
			body.Since = unixTime(e.Time)
		}
	}
	writePage(w, http.StatusOK, "cluster", s.shell(r, "Cluster", "/cluster", body))
}

func unixTime(t float64) time.Time {
	whole, part := math.Modf(t)
	return time.Unix(int64(whole), int64(part*1e9))
}

// clusterJobs returns the jobs that can be read, in order of their ids.
func clusterJobs(stateDir string) (out []clusterJob) {
	jobs, _, _ := cluster.Jobs(stateDir)
	for _, j := range jobs {
		out = append(out, clusterJob{Job: j})
	}
	return out
}

// addStarts adds the predicted starts of the waiting jobs.
func addStarts(jobs []clusterJob, stateDir string) {
	forecast, _ := cluster.ReadForecast(stateDir) // empty if none was made
	for i := range jobs {
		if at, ok := forecast.Starts[jobs[i].ID]; ok && jobs[i].State == cluster.Waiting {
			jobs[i].starts = &at
		}
	}
}

// clusterRank orders the states of jobs: running first, then the queue, then the ended.
var clusterRank = map[cluster.State]int{cluster.Running: 0, cluster.Starting: 0, cluster.Stopping: 0, cluster.Waiting: 1}

func rankOf(state cluster.State) int {
	if r, ok := clusterRank[state]; ok {
		return r
	}
	return 2
}

// mostJobs is the number of jobs in the table; ended ones beyond it are left out.
const mostJobs = 300

// jobTable lists running jobs, then the queue in order of submission, then ended jobs, the latest first.
func jobTable(jobs []clusterJob) *page.Table {
	t := &page.Table{Caption: "Jobs of the cluster", Named: true,
		Columns: slices.Concat(page.Left("Job", "State", "Devices", "Progress"), page.Right("Waited", "Cost", "Moves"), page.Left("Predicted", "Run"))}
	sorted := slices.Clone(jobs)
	slices.SortStableFunc(sorted, func(a, b clusterJob) int {
		x, y := rankOf(a.State), rankOf(b.State)
		if x == 2 && y == 2 {
			return b.Ended.Compare(a.Ended)
		}
		return cmp.Compare(x, y)
	})
	for _, j := range sorted[:min(len(sorted), mostJobs)] {
		devices := "–"
		if rankOf(j.State) == 0 && j.Device != "" {
			devices = devicesText(j.Device, j.Where)
		}
		t.Rows = append(t.Rows, []page.Cell{{Text: strings.TrimSpace(fmt.Sprintf("%d %s", j.ID, j.Name))}, {Text: string(j.State), Sub: j.Reason, Light: clusterLight(j.State)}, {Text: devices},
			{Text: clusterProgress(j)}, {Text: page.Duration(math.Round(j.Waited(time.Now())))}, {Text: clusterCost(j)}, {Text: strconv.Itoa(j.Moves)}, predictedCell(j), {Text: j.Run}})
	}
	return t
}

func clusterLight(state cluster.State) page.Light {
	switch state {
	case cluster.Running, cluster.Done:
		return page.Good
	case cluster.Failed:
		return page.Bad
	case cluster.Stopped, cluster.Stopping:
		return page.Warn
	}
	return page.Muted
}

func devicesText(device string, where []int32) string {
	var numbers []string
	for _, n := range where {
		numbers = append(numbers, strconv.Itoa(int(n)))
	}
	return device + " " + strings.Join(numbers, ", ")
}

// clusterCost is a dash for a job that has not run: nothing was measured.
func clusterCost(j clusterJob) string {
	if j.Run == "" {
		return "–"
	}
	return page.USD(j.CostUSD)
}

func clusterProgress(j clusterJob) string {
	if j.Unit == "" {
		return "–"
	}
	unit := j.Unit + "s"
	if j.Total > 0 {
		return fmt.Sprintf("%s of %s %s", page.Count(j.Done), page.Count(j.Total), unit)
	}
	return page.Count(j.Done) + " " + unit
}

// predictedCell is the predicted end of a running job, and the predicted start of a waiting one.
func predictedCell(j clusterJob) page.Cell {
	what, at := "ends ", j.Finish
	if j.starts != nil {
		what, at = "starts ", j.starts
	} else if rankOf(j.State) != 0 {
		at = nil
	}
	if at == nil {
		return page.Cell{Text: "–"}
	}
	now := time.Now()
	cell := page.Cell{Text: what + page.Clock(at[1], now)}
	if from, to := page.Clock(at[0], now), page.Clock(at[2], now); from != to {
		cell.Sub = from + " to " + to
	}
	return cell
}

// mostChanges is the number of changes in the table, the latest first.
const mostChanges = 100

// changeTable lists starts, moves, ends and changes of the policy, the latest first.
func changeTable(events []cluster.Event) *page.Table {
	t := &page.Table{Caption: "Changes, the latest first", Columns: page.Left("At", "Job", "What", "Reason"), Long: true}
	names := map[int]string{}
	for _, e := range events {
		names[e.Job] = cmp.Or(e.Name, names[e.Job])
	}
	for _, e := range slices.Backward(events) {
		if len(t.Rows) == mostChanges {
			break
		}
		what := string(e.Kind)
		switch e.Kind {
		case cluster.EventStart:
			what = cmp.Or(e.Do, what) + " on " + devicesText(e.Device, e.Where)
		case cluster.EventEnd:
			what = "ended: " + string(e.State)
		case cluster.EventPolicy, cluster.EventServe:
			what += " " + e.Policy
		case cluster.EventSubmit, cluster.EventStop, cluster.EventDrain, cluster.EventCancel:
		default:
			continue
		}
		job := ""
		if e.Job > 0 {
			job = strings.TrimSpace(fmt.Sprintf("%d %s", e.Job, names[e.Job]))
		}
		t.Rows = append(t.Rows, page.Row(unixTime(e.Time).Local().Format("2006-01-02 15:04:05"), job, what, e.Reason))
	}
	return t
}

// lease is the use of one device by one job.
type lease struct {
	job      int
	name     string
	device   string
	from, to float64 // Unix seconds
}

// leasesOf returns the uses of all devices up to a time, now, and the devices in order.
func leasesOf(events []cluster.Event, now float64) (leases []lease, devices []string) {
	open := map[int][]int{} // job → positions in leases
	names := map[int]string{}
	known := map[string]bool{}
	device := func(name string) string {
		if !known[name] {
			known[name] = true
			devices = append(devices, name)
		}
		return name
	}
	end := func(job int, at float64) {
		for _, i := range open[job] {
			leases[i].to = max(at, leases[i].from) // the clock may have been set back
		}
		delete(open, job)
	}
	for _, e := range events {
		switch e.Kind {
		case cluster.EventServe:
			for _, d := range e.Devices {
				for n := range min(d.Count, 512) {
					device(fmt.Sprintf("%s %d", d.Name, n))
				}
			}
		case cluster.EventSubmit:
			names[e.Job] = e.Name
		case cluster.EventStart:
			end(e.Job, e.Time)
			for _, n := range e.Where {
				open[e.Job] = append(open[e.Job], len(leases))
				leases = append(leases, lease{e.Job, names[e.Job], device(fmt.Sprintf("%s %d", e.Device, n)), e.Time, max(now, e.Time)})
			}
		case cluster.EventLeft, cluster.EventEnd:
			end(e.Job, e.Time)
		}
	}
	return leases, devices
}

// Bounds of the chart of leases.
const (
	mostDevices = 512    // rows
	mostBars    = 4000   // so that a page of any history stays below some MB
	leaseStep   = 22.0   // height of a row with its text
	leaseHeight = 1600.0 // of all rows; more rows are lower, and only some of them named
	leaseName   = 92.0
)

// bar is one or several uses of a device that are drawn as one.
type bar struct {
	lease      // the first; to is the end of the last
	n     int  // uses
	mixed bool // they are of several jobs
}

// bars merges the uses of each device that are shorter than least seconds with those that follow within that time, and
// doubles that time until the bars are few enough. A use of at least that time is a bar of its own.
func bars(leases []lease, least float64) []bar {
	for ; ; least *= 2 {
		out := make([]bar, 0, min(len(leases), mostBars))
		last := map[string]int{} // position in out, by device
		for _, l := range leases {
			i, ok := last[l.device]
			if ok && l.from-out[i].to < least && (l.to-l.from < least || out[i].to-out[i].from < least) {
				b := &out[i]
				b.to, b.n, b.mixed = max(b.to, l.to), b.n+1, b.mixed || l.job != b.job
				continue
			}
			last[l.device] = len(out)
			out = append(out, bar{l, 1, false})
		}
		if len(out) <= mostBars || !(least > 0) {
			return out
		}
	}
}

// title is the description of a bar.
func (b *bar) title() string {
	when := fmt.Sprintf("%s\n%s for %s", b.device, unixTime(b.from).Local().Format(time.DateTime), page.Duration(b.to-b.from))
	switch {
	case b.mixed:
		return fmt.Sprintf("%d leases of several jobs, from job %d %s on\n%s", b.n, b.job, b.name, when)
	case b.n > 1:
		return fmt.Sprintf("job %d %s, %d leases\n%s", b.job, b.name, b.n, when)
	}
	return fmt.Sprintf("job %d %s\n%s", b.job, b.name, when)
}

// leaseChart draws devices over time, a bar per use with the number of the job; nil without a use. Uses that are shorter
// than a pixel are merged.
func leaseChart(events []cluster.Event, now time.Time) *page.Picture {
	end := float64(now.UnixMilli()) / 1000
	leases, devices := leasesOf(events, end)
	if len(leases) == 0 {
		return nil
	}
	note := ""
	if len(devices) > mostDevices {
		note = fmt.Sprintf("The first %d of %d devices.", mostDevices, len(devices))
		devices = devices[:mostDevices]
	}
	row := map[string]int{}
	for i, d := range devices {
		row[d] = i
	}
	from := leases[0].from
	for _, l := range leases { // the clock may have been set back
		from, end = min(from, l.from), max(end, l.from, l.to)
	}
	span := math.Max(end-from, 1)
	shown := slices.DeleteFunc(slices.Clone(leases), func(l lease) bool { _, ok := row[l.device]; return !ok })
	p := page.Picture{ID: "leases", Title: "Devices over time", Note: note}
	step := min(leaseStep, leaseHeight/float64(len(devices)))
	named := int(math.Ceil(leaseStep / step)) // one in that many rows has a name
	bottom := step * float64(len(devices))
	return p.Rows(fmt.Sprintf("%s on %s", page.Plural(len(leases), "lease"), page.Plural(len(devices), "device")), bottom+34, func(d *page.Drawing) {
		at := func(t float64) float64 { return leaseName + (t-from)/span*(d.Width-leaseName-8) }
		for i := 0; i < len(devices); i += named {
			d.F(`<text class="end" x="%g" y="%s">%s</text>`, leaseName-8, page.Px(step*float64(i)+15), page.Esc(devices[i]))
			y := page.Px(step * float64(min(i+named, len(devices))))
			d.F(`<line class="grid" x1="%g" x2="%s" y1="%s" y2="%s"/>`, leaseName, page.Px(d.Width-8), y, y)
		}
		for _, b := range bars(shown, span/(d.Width-leaseName-8)) {
			i, class := row[b.device], page.Class(b.job-1)
			x, width := at(b.from), math.Max(at(b.to)-at(b.from), 1)
			if b.mixed {
				class = "merged"
			}
			d.F(`<g><title>%s</title><rect class="bar lease %s" x="%s" y="%s" width="%s" height="%s"/>`, page.Esc(b.title()), class, page.Px(x), page.Px(step*float64(i)+step/7), page.Px(width), page.Px(step*5/7))
			if width > 16 && !b.mixed && named == 1 {
				d.F(`<text class="mid inbar" x="%s" y="%s">%d</text>`, page.Px(x+width/2), page.Px(step*float64(i)+15), b.job)
			}
			d.F(`</g>`)
		}
		for k := range 5 {
			t := from + span*float64(k)/4
			anchor := map[int]string{0: "", 4: "end"}[k]
			if k > 0 && k < 4 {
				anchor = "mid"
			}
			d.F(`<text class="%s" x="%s" y="%s">%s</text>`, anchor, page.Px(at(t)), page.Px(bottom+20), page.Clock(unixTime(t), now))
		}
	})
}
