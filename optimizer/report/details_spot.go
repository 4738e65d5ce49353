package report

import (
	"cmp"
	"slices"
	"strings"

	"trainopt/optimizer/engine"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/report/page"
)

// spotBlock lists the machines of a run that used spot capacity, and what they saved as far as that was measured.
func spotBlock(s *journal.Spot) page.Block {
	g := &page.Table{Columns: append(page.Left("Machine", "Offer"), page.Right("From", "To", "Per hour", "Cost")...)}
	for _, x := range s.Stretches {
		g.Rows = append(g.Rows, page.Row(spotMachines[x.Machine], x.Offer, number(x.FromS, page.Duration), number(x.ToS, page.Duration), number(x.USDHour, page.USD), number(x.CostUSD, page.USD)))
	}
	b := page.Block{Caption: "Spot capacity", Table: g, Fields: page.Fields("machines taken away", page.Count(float64(s.Taken)))}
	if s.ChangeoverS.Known() {
		b.Fields = append(b.Fields, page.Fields("changeover", number(s.ChangeoverS, page.Duration))...)
	}
	if s.AloneUSD.Known() {
		b.Fields = append(b.Fields, page.Fields("on demand alone", number(s.AloneUSD, page.USD)+" at the measured pace", "saved", number(s.SavingPct, page.Percent))...)
		if s.ExpectedSavingPct.Known() {
			b.Fields = append(b.Fields, page.Fields("saving expected by the first plan", number(s.ExpectedSavingPct, page.Percent))...)
		}
	}
	return b
}

var spotMachines = map[string]string{"spot": "spot capacity", "on-demand": "on demand"}

// siteProbeTable lists the measurements on other kinds of nodes.
func siteProbeTable(list []journal.SiteProbe) *page.Table {
	g := &page.Table{Columns: append(page.Left("Job", "Kind", "Outcome"), page.Right("Per unit", "Per hour", "Cost")...)}
	for _, p := range list {
		pace := page.NoData
		if n := len(p.UnitSeconds); n > 0 {
			sorted := slices.Sorted(slices.Values(p.UnitSeconds))
			pace = number(sorted[(n-1)/2], page.Duration)
		}
		outcome := p.Outcome
		if p.ID == "" && p.Key == "" {
			outcome = "left"
		}
		kind := p.Place.Partition
		if p.Place.GPUType != "" {
			kind += ", " + p.Place.GPUType
		}
		g.Rows = append(g.Rows, page.Row(cmp.Or(p.ID, "–"), kind, cmp.Or(outcome, "in progress"), pace, number(p.USDHour, page.USD), number(p.CostUSD, page.USD)))
	}
	return g
}

// stretchTable lists the jobs of the engine that carried the run, with the times of the engine's accounting where it
// has confirmed them.
func stretchTable(list []engine.Stretch) *page.Table {
	g := &page.Table{Columns: slices.Concat(page.Left("Job", "Place", "Node", "State"), page.Right("Waited", "Held"), page.Left("Accounting"))}
	for _, s := range list {
		waited, held, confirmed := page.NoData, page.NoData, "not yet confirmed"
		if !s.Started.IsZero() {
			waited = number(journal.Number(max(0, s.Started.Sub(s.Submitted).Seconds())), page.Duration)
			if !s.Ended.IsZero() {
				held = number(journal.Number(s.Ended.Sub(s.Started).Seconds()), page.Duration)
			}
		}
		if s.Confirmed {
			confirmed = "confirmed"
		}
		g.Rows = append(g.Rows, page.Row(s.Engine+" "+s.ID, s.Place.String(), strings.Join(s.Nodes, " "), cmp.Or(s.State, page.NoData), waited, held, confirmed))
	}
	return g
}
