package report

import (
	"trainopt/optimizer/journal"
	"trainopt/optimizer/report/page"
)

// Document returns the report of a run with its pictures.
func (d *data) Document() page.Document { return pictured(d) }

// Overview returns the report of a run from its record alone, without pictures and without the changes of SLA states. It
// reads only the end of the job's error output, so that it can be built for each change of a running run. agent is the
// agent that works on the run; nil if none does.
func Overview(rec *journal.Record, dir string, agent *journal.Holder) page.Document {
	empty := &table{}
	return build(&data{Record: rec, Dir: dir, Agent: agent, samples: empty, performance: empty, allocations: empty, slaMetrics: empty})
}

// State returns the state of a run as one word, "running" only if an agent works on it, and its light.
func State(rec *journal.Record, agent *journal.Holder) (string, page.Light) {
	return stateOf(&data{Record: rec, Agent: agent})
}

// Compliance describes the SLA of a run, such as "3 of 3 met", with its light.
func Compliance(rec *journal.Record) (string, page.Light) {
	return compliance(rec), slaAnswer(&data{Record: rec}).Light
}
