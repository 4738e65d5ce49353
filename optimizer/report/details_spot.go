package report

import (
	"cmp"
	"slices"
	"strings"

	"trainopt/optimizer/engine"
	"trainopt/optimizer/journal"
)

// spotBlock lists the machines of a run that used spot capacity, and what they saved as far as that was measured.
func spotBlock(s *journal.Spot) block {
	g := &grid{Columns: append(left("Machine", "Offer"), right("From", "To", "Per hour", "Cost")...)}
	for _, x := range s.Stretches {
		g.Rows = append(g.Rows, row(spotMachines[x.Machine], x.Offer, number(x.FromS, duration), number(x.ToS, duration), number(x.USDHour, usd), number(x.CostUSD, usd)))
	}
	b := block{Caption: "Spot capacity", Table: g, Fields: fields("machines taken away", count(float64(s.Taken)))}
	if s.ChangeoverS.Known() {
		b.Fields = append(b.Fields, fields("changeover", number(s.ChangeoverS, duration))...)
	}
	if s.AloneUSD.Known() {
		b.Fields = append(b.Fields, fields("on demand alone", number(s.AloneUSD, usd)+" at the measured pace", "saved", number(s.SavingPct, percent))...)
		if s.ExpectedSavingPct.Known() {
			b.Fields = append(b.Fields, fields("saving expected by the first plan", number(s.ExpectedSavingPct, percent))...)
		}
	}
	return b
}

var spotMachines = map[string]string{"spot": "spot capacity", "on-demand": "on demand"}

// siteProbeTable lists the measurements on other kinds of nodes.
func siteProbeTable(list []journal.SiteProbe) *grid {
	g := &grid{Columns: append(left("Job", "Kind", "Outcome"), right("Per unit", "Per hour", "Cost")...)}
	for _, p := range list {
		pace := noData
		if n := len(p.UnitSeconds); n > 0 {
			sorted := slices.Sorted(slices.Values(p.UnitSeconds))
			pace = number(sorted[(n-1)/2], duration)
		}
		outcome := p.Outcome
		if p.ID == "" && p.Key == "" {
			outcome = "left"
		}
		kind := p.Place.Partition
		if p.Place.GPUType != "" {
			kind += ", " + p.Place.GPUType
		}
		g.Rows = append(g.Rows, row(cmp.Or(p.ID, "–"), kind, cmp.Or(outcome, "in progress"), pace, number(p.USDHour, usd), number(p.CostUSD, usd)))
	}
	return g
}

// stretchTable lists the jobs of the engine that carried the run, with the times of the engine's accounting where it
// has confirmed them.
func stretchTable(list []engine.Stretch) *grid {
	g := &grid{Columns: slices.Concat(left("Job", "Place", "Node", "State"), right("Waited", "Held"), left("Accounting"))}
	for _, s := range list {
		waited, held, confirmed := noData, noData, "not yet confirmed"
		if !s.Started.IsZero() {
			waited = number(journal.Number(max(0, s.Started.Sub(s.Submitted).Seconds())), duration)
			if !s.Ended.IsZero() {
				held = number(journal.Number(s.Ended.Sub(s.Started).Seconds()), duration)
			}
		}
		if s.Confirmed {
			confirmed = "confirmed"
		}
		g.Rows = append(g.Rows, row(s.Engine+" "+s.ID, s.Place.String(), strings.Join(s.Nodes, " "), cmp.Or(s.State, noData), waited, held, confirmed))
	}
	return g
}
