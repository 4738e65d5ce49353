package predict

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"trainopt/optimizer/history"
	"trainopt/optimizer/history/transfer"
	"trainopt/optimizer/report/page"
)

// groundEntry is a group of measurements that supports an answer.
type groundEntry struct {
	transfer.BasisGroup
	Kinds  map[history.Kind]int // number of entries by kind
	Newest string               // id of the newest run or log; "" without one
	Same   bool                 // the measured training is the one in question
}

// grounds returns the grounds of an estimate for a job, in order of weight. Each ground counts its entries by kind
// and records the newest run or log.
func grounds(q *Question, entries []history.Entry, e transfer.Estimate) []groundEntry {
	byID := map[string]*history.Entry{}
	for i := range entries {
		byID[entries[i].ID] = &entries[i]
	}
	var out []groundEntry
	for _, g := range e.Basis {
		ground := groundEntry{BasisGroup: g, Kinds: map[history.Kind]int{}}
		var newest *history.Entry
		for _, id := range g.Entries {
			x := byID[id]
			if x == nil {
				continue
			}
			ground.Same = ground.Same || slices.Contains(q.Same, id) || sameJob(q.Job, x.Job)
			ground.Kinds[x.Kind]++
			if x.Kind != history.Table && (newest == nil || x.At.After(newest.At)) {
				newest = x
			}
		}
		if newest != nil {
			ground.Newest = cmp.Or(newest.Parent, newest.ID)
		}
		out = append(out, ground)
	}
	return out
}

// counted formats the number of measurements of a ground: "2 runs and 3 probes", "4 published".
func (g *groundEntry) counted() string {
	var parts []string
	for _, k := range []history.Kind{history.Run, history.Probe, history.Log} {
		if n := g.Kinds[k]; n > 0 {
			parts = append(parts, page.Plural(n, string(k)))
		}
	}
	if n := g.Kinds[history.Table]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d published", n))
	}
	if len(parts) == 0 {
		return page.Plural(len(g.Entries), "measurement")
	}
	return strings.Join(parts, " and ")
}

// what returns the name of the training of a ground.
func (g *groundEntry) what() string {
	j := g.Job
	for _, name := range []string{j.Model, filepath.Base(j.Script), j.Family, j.Dataset} {
		if name != "" && name != "." {
			if j.Dataset != "" && name != j.Dataset {
				return name + " on " + j.Dataset
			}
			return name
		}
	}
	return "an unnamed training"
}

// words formats the ground in one line: "2 runs of resnet50 on cifar10 (newest 20261120-…): 1, 2 GPUs of T4".
func (g *groundEntry) words() string {
	text := g.counted() + " of " + g.what()
	if g.Newest != "" {
		text += " (newest " + short(g.Newest) + ")"
	} else if g.Source != "" {
		text += " (" + origin(g.Source) + ")"
	}
	if g.Measured != "" {
		text += ": " + g.Measured
	}
	return text
}

// origin returns the name of a publication without its detail: "Pollux (OSDI 2021)".
func origin(source string) string {
	name, _, _ := strings.Cut(source, ",")
	return name
}

// short abbreviates the id of a log, which is a hash.
func short(id string) string {
	if len(id) > 40 {
		return id[:12] + "…"
	}
	return id
}

// basisWords summarises the basis of an answer in one sentence: "3 runs of resnet50 (newest 20261120-…), 2 similar
// (vgg16 0.71), public: Gavel".
func basisWords(list []groundEntry, prior float64) string {
	var parts, similar, public []string
	more := 0
	for i := range list {
		g := &list[i]
		switch {
		case len(g.Kinds) > 0 && g.Kinds[history.Table] == len(g.Entries):
			if o := origin(g.Source); !slices.Contains(public, o) && o != "" {
				public = append(public, o)
			}
		case g.Same:
			text := g.counted() + " of " + g.what()
			if g.Newest != "" {
				text += " (newest " + short(g.Newest) + ")"
			}
			parts = append(parts, text)
		default:
			more += len(g.Entries)
			similar = append(similar, fmt.Sprintf("%s %.2f", g.what(), g.Similarity))
		}
	}
	if more > 0 {
		parts = append(parts, fmt.Sprintf("%d similar (%s)", more, listed(similar, 3)))
	}
	if len(public) > 0 {
		parts = append(parts, "public: "+listed(public, 3))
	}
	if prior >= 0.005 {
		parts = append(parts, fmt.Sprintf("%s of it on no measurement of a similar training", page.PlainBlanks(page.Share(prior))))
	}
	return strings.Join(parts, ", ")
}

// listed joins the first n elements and appends the number of the others.
func listed(list []string, n int) string {
	if len(list) > n {
		return strings.Join(list[:n], ", ") + fmt.Sprintf(" and %d more", len(list)-n)
	}
	return strings.Join(list, ", ")
}

// named returns the display name of an entry.
func named(e history.Entry) string {
	if e.Kind == history.Log {
		return "log " + e.Source
	}
	if e.Parent != "" {
		return "run " + e.Parent
	}
	if e.Kind == history.Table {
		return origin(e.Source)
	}
	return string(e.Kind) + " " + e.ID
}

// whatToGive describes the flags that would provide a basis, given the reason why the speed has none. Without one the speed
// is known, and only the amount of work is missing.
func (q *Question) whatToGive(missing string) string {
	j := q.Job
	var work, give []string
	if math.IsNaN(j.Epochs) {
		work = append(work, "--epochs")
	}
	if math.IsNaN(j.DataCount) {
		work = append(work, "--data-count")
	}
	if missing == "" && len(work) > 0 {
		return "the speed of " + q.subject() + " can be predicted, but not its total work: give " + strings.Join(work, " and ") + ", or --like RUN|LOG of an earlier training of it"
	}
	if j.Model == "" {
		give = append(give, "--model")
	}
	text := "nothing measured resembles " + q.subject()
	if missing != "" {
		text += ": " + missing
	}
	if give = append(give, work...); len(give) > 0 {
		text += "; give " + strings.Join(give, ", ") + ", or"
	} else {
		text += "; give"
	}
	return text + " --like RUN|LOG of a similar training, or run it briefly: `optimize --train SCRIPT`"
}

// subject returns the display name of the training in question.
func (q *Question) subject() string {
	return cmp.Or(q.Subject, q.Job.Model, q.Job.Script, q.Job.Family, "the training asked about")
}
